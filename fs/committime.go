package fs

import "golang.org/x/sys/unix"

// keepTime notes the change time of what is about to become a new file. The function
// that it returns is called after the commit.
func (cm *commits) keepTime(s *session) (committed func()) {
	var before unix.Stat_t
	if !s.isNew.Load() || unix.Fstat(s.shadow.FD(), &before) != nil {
		return func() {}
	}
	return func() {
		var after unix.Stat_t
		if unix.Fstat(s.shadow.FD(), &after) != nil || after.Ino != before.Ino || after.Mtim != before.Mtim {
			return
		}
		cm.nodes.mu.Lock()
		defer cm.nodes.mu.Unlock()
		cm.commitTimes.Note(inoKey{before.Dev, before.Ino}, before.Ctim, after.Ctim)
	}
}
