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

// isAsShown reports whether the attributes of the shadow are still those that the kernel was
// told while the session wrote it: a new file that was published stands for no other one,
// had a link already, and keeps its change time (see keepTime). s.mu is held.
func (s *session) isAsShown() bool {
	return s.baseVersion == nil && s.saved.IsPublished() && s.shown.Links() == 1
}
