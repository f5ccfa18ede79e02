package disk

import (
	"sync/atomic"

	"golang.org/x/sys/unix"
)

// A directory's change time tells whether anything was done to it since somebody has
// looked, where no two changes share one that was seen between them (multigrain
// timestamps, Linux 6.13 and later). What it cannot tell is which of two changes came
// between two looks. So those that go through the daemon are counted.

// changes counts what is done to directories.
type changes struct{ begun, ended atomic.Int64 }

// moment is how many changes had begun, and how many were over.
type moment struct{ begun, ended int64 }

// now is the moment. What begins or ends while it is asked for is taken for under way.
func (c *changes) now() moment {
	ended := c.ended.Load() // first
	return moment{c.begun.Load(), ended}
}

// Change is called before something is done to a directory, or to a name in it, and end
// after that. The steps of a Disk count themselves.
func (s *Disk) Change() (end func()) {
	s.changes.begun.Add(1)
	return s.endChange
}

func (s *Disk) endChange() { s.changes.ended.Add(1) }

// Alone runs do, which takes one step that changes a name, and reports whether nothing
// else was done to any directory meanwhile.
func (s *Disk) Alone(do func() error) (alone bool, err error) {
	before := s.changes.now()
	err = do()
	return before.ended == before.begun && s.changes.begun.Load() == before.begun+1, err
}

// leavesNames reports whether a step does nothing to any directory.
func leavesNames(step string) bool {
	switch step {
	case "fsync", "fdatasync", "syncfs", "syncdir", "syncjournal", "syncmade", "writeback", "writejournal",
		"begin", "done", "record", "tmpfile":
		return true
	}
	return false
}

// TellsChanges reports whether the change time of a file, or a directory, of the data
// root's own filesystem is another one after each change than whoever has looked before
// has seen.
func (s *Disk) TellsChanges() bool { return s.tellsChanges() }

// SetTellsChanges makes TellsChanges answer tells. It is for tests, and to be called before
// the disk is used.
func (s *Disk) SetTellsChanges(tells bool) { s.tellsChanges = func() bool { return tells } }

// looks is how many changes in a row are to be told apart. A clock that ticks every
// millisecond stands still in the meantime.
const looks = 32

// tellsChanges changes a file without a name in dir, and looks.
func tellsChanges(dir int) bool {
	fd, err := unix.Openat(dir, ".", unix.O_TMPFILE|unix.O_RDWR|unix.O_CLOEXEC, 0o600)
	if err != nil {
		return false
	}
	defer unix.Close(fd)
	var last unix.Timespec
	for range looks {
		var st unix.Stat_t
		if unix.Fchmod(fd, 0o600) != nil || unix.Fstat(fd, &st) != nil || st.Ctim == last {
			return false
		}
		last = st.Ctim
	}
	return true
}
