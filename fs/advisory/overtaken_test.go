package advisory

import (
	"testing"

	"golang.org/x/sys/unix"

	"latchfs/lockmgr"
)

// Who has locked a file over which another one was renamed may lock that, too; its descendants
// may. Nobody else may, nor where the name is still that of the first file, or was saved anew.
func TestLockOfTheFileThatWasRenamedOver(t *testing.T) {
	for _, c := range []struct {
		name      string
		overtaken bool
		by        caller
		want      unix.Errno
	}{
		{"the owner", true, caller{pid: 10}, 0},
		{"its child", true, caller{pid: 11, up: []int32{10, 1}}, 0},
		{"a stranger", true, caller{pid: 12, up: []int32{1}}, unix.EAGAIN},
		{"a process that nobody can see", true, caller{pid: 0}, unix.EAGAIN},
		{"the owner, where it was saved", false, caller{pid: 10}, unix.EAGAIN},
	} {
		t.Run(c.name, func(t *testing.T) {
			onStage(t, func(s *stage) {
				older, newer := newInode("a"), newInode("a")
				s.lock(flock(s.open(1, older, 10), 10, lockmgr.Exclusive))
				older.is.Overtaken = c.overtaken
				q := flock(s.open(2, newer, c.by.pid), c.by.pid, lockmgr.Exclusive)
				q.By = &c.by
				if _, e := s.Lock(q); e != c.want {
					t.Fatalf("%v, want %v", e, c.want)
				}
				if c.want == 0 {
					s.holds("a", 2)
				} else {
					s.holds("a", 1)
				}
			})
		})
	}
}

// Two descriptors of the file that was renamed over keep each other out, as before.
func TestLocksOfAFileThatWasRenamedOver(t *testing.T) {
	onStage(t, func(s *stage) {
		n := newInode("a")
		s.lock(flock(s.open(1, n, 10), 10, lockmgr.Exclusive))
		n.is.Overtaken = true
		if _, e := s.Lock(flock(s.open(2, n, 10), 10, lockmgr.Exclusive)); e != unix.EAGAIN {
			t.Errorf("%v, want EAGAIN", e)
		}
		s.holds("a", 1)
	})
}
