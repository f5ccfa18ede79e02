package fs

import "golang.org/x/sys/unix"

// commitTimes are the change times (st_ctime of stat(2)) that new files had before the
// commit that gave them their names, and after. The commit changed nothing that a program
// did, and the program may have noted the time before it closed the file: git compares
// what fstat said then with what stat says later, and takes a difference for a change. So
// the former is shown for as long as the inode has the latter.
//
// A file that replaces another has a new inode number as well, so nothing is gained
// there; and a backup that ran between the last write and the commit finds the new
// version by its change time.
//
// Guarded by FS.mu.
type commitTimes struct {
	of   map[inoKey]commitTime
	ring []inoKey // in the order of their commits, from next on
	next int
}

type commitTime struct{ before, after unix.Timespec }

// maxCommitTimes bounds how many are remembered. Who has noted the time of a file that
// is forgotten takes it for changed, and reads it once more.
const maxCommitTimes = 1 << 15

func (c *commitTimes) note(key inoKey, t commitTime) {
	if t.before == t.after {
		return // both within one tick of the clock
	}
	if c.of == nil {
		c.of = make(map[inoKey]commitTime)
	}
	if _, again := c.of[key]; !again {
		if len(c.ring) < maxCommitTimes {
			c.ring = append(c.ring, key)
		} else {
			delete(c.of, c.ring[c.next])
			c.ring[c.next] = key
			c.next = (c.next + 1) % maxCommitTimes
		}
	}
	c.of[key] = t
}

// shown is the change time to show for an inode that has this one.
func (c *commitTimes) shown(key inoKey, ctime unix.Timespec) unix.Timespec {
	if t, ok := c.of[key]; ok && ctime == t.after {
		return t.before
	}
	return ctime
}

// keepTime notes the change time of what is about to become a new file. The function
// that it returns is called after the commit.
func (s *session) keepTime() (committed func()) {
	var before unix.Stat_t
	if !s.isNew.Load() || unix.Fstat(s.shadow.FD(), &before) != nil {
		return func() {}
	}
	return func() {
		var after unix.Stat_t
		if unix.Fstat(s.shadow.FD(), &after) != nil || after.Ino != before.Ino || after.Mtim != before.Mtim {
			return
		}
		s.f.mu.Lock()
		defer s.f.mu.Unlock()
		s.f.commitTimes.note(inoKey{before.Dev, before.Ino}, commitTime{before: before.Ctim, after: after.Ctim})
	}
}
