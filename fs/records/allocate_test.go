package records

import (
	"strings"
	"testing"

	"golang.org/x/sys/unix"

	"latchfs/fs/appends"
)

// allocate makes room up to a size.
func (s *stage) allocate(a *Appender, mode uint32, size int64) unix.Errno {
	return a.Allocate(appends.Writer{}, mode, func(fd int) error {
		s.tell("allocate")
		if mode&unix.FALLOC_FL_KEEP_SIZE != 0 {
			return nil
		}
		return unix.Ftruncate(fd, size)
	})
}

// The file gets longer, and what is appended comes behind that.
func TestAllocate(t *testing.T) {
	onStage(t, func(s *stage, a *Appender) {
		if e := s.allocate(a, 0, 6); e != 0 {
			t.Errorf("errno %v", e)
		}
		s.wantTold("allocate", "append: 4 to 6 bytes", "log grows by 2", "show end of log, written")
		s.write(a, 10, "one\n")
		s.want("log", "old\n\x00\x00one\n")
	})
}

// Room behind the end makes the file no longer.
func TestAllocateKeepsTheSize(t *testing.T) {
	onStage(t, func(s *stage, a *Appender) {
		if e := s.allocate(a, unix.FALLOC_FL_KEEP_SIZE, 6); e != 0 {
			t.Errorf("errno %v", e)
		}
		s.want("log", "old\n")
		s.wantTold("allocate", "append: 4 to 4 bytes", "log grows by 0", "show end of log, written")
	})
}

// What was written before goes into the file first, and the room is made in its successor.
func TestAllocateAppendsFirst(t *testing.T) {
	onStage(t, func(s *stage, a *Appender) {
		s.save("new\n")
		s.write(a, 10, "half")
		s.want("log", "new\n")
		if e := s.allocate(a, 0, 9); e != 0 {
			t.Errorf("errno %v", e)
		}
		s.want("log", "new\nhalf\x00")
	})
}

// Nothing happens where something speaks against it, and nobody is told.
func TestAllocateIsRefused(t *testing.T) {
	for what, c := range map[string]struct {
		mode uint32
		set  func(s *stage)
		want unix.Errno
	}{
		"a hole":                {unix.FALLOC_FL_PUNCH_HOLE | unix.FALLOC_FL_KEEP_SIZE, func(*stage) {}, unix.ENOTSUP},
		"lines are judged":      {0, func(s *stage) { s.judges = true }, unix.ENOTSUP},
		"somebody has the lock": {0, func(s *stage) { s.locked = true }, unix.EBUSY},
		"no file":               {0, func(s *stage) { s.tails = errDisk }, unix.ENOSPC},
		"the disk":              {0, func(s *stage) { s.cuts = errDisk }, unix.ENOSPC},
	} {
		onStage(t, func(s *stage, a *Appender) {
			c.set(s)
			if e := s.allocate(a, c.mode, 6); e != c.want {
				t.Errorf("%s: errno %v", what, e)
			}
			s.want("log", "old\n")
			s.wantTold()
			if s.held {
				t.Errorf("%s: the lock is held", what)
			}
		})
	}
}

// The shadow of a session of its own family gets the room, and the file does not.
func TestAllocateOwnSession(t *testing.T) {
	onStage(t, func(s *stage, a *Appender) {
		s.own, s.ownErr = new(strings.Builder), unix.EDQUOT
		e := a.Allocate(appends.Writer{}, 0, func(fd int) error {
			if fd != -1 {
				t.Errorf("room is made in %d, not in the shadow", fd)
			}
			return nil
		})
		if e != unix.EDQUOT || s.own.String() != "room" {
			t.Errorf("errno %v, %s", e, s.own)
		}
		s.want("log", "old\n")
		s.wantTold()
	})
}
