package advisory

import (
	"runtime"
	"sync/atomic"
	"testing"

	"golang.org/x/sys/unix"

	"latchfs/lockmgr"
)

// A process that closes any descriptor of an inode loses its byte ranges there, under each
// name that they have, and nobody else's; what is no range of bytes stays.
func TestClosed(t *testing.T) {
	onStage(t, func(s *stage) {
		n := newInode("a")
		one, two := s.open(1, n, 10, 11), s.open(2, n, 10)
		s.lock(fcntl(one, 10, lockmgr.Shared, 0, 9))
		s.lock(fcntl(one, 11, lockmgr.Shared, 0, 9))
		s.lock(flock(one, 10, lockmgr.Shared))
		s.lock(fcntl(s.open(3, newInode("b"), 10), 10, lockmgr.Shared, 0, 9))
		s.holds("a", 1, 10, 11)
		s.close(two, 10)
		s.holds("a", 1, 11)
		s.holds("b", 10)
		if !s.IsLocked(one) || s.IsLocked(two) {
			t.Error("who locks through which file is wrong")
		}
		s.close(one, 11)
		s.holds("a", 1)
		s.Released(one)
		s.holds("a")
		if s.Len() != 1 {
			t.Errorf("%d files are remembered", s.Len())
		}
	})
}

// The file was replaced under its lock: the range is under the name, and the inode has
// none.
func TestClosedUnderAFormerKey(t *testing.T) {
	onStage(t, func(s *stage) {
		n := newInode("a")
		one, two := s.open(1, n, 10), s.open(2, n, 10)
		s.lock(fcntl(one, 10, lockmgr.Exclusive, 0, 9))
		n.is.Unnamed = true
		s.close(two, 10)
		s.holds("a")
	})
}

// A process that has closed the file locks nothing through it any more, although others
// have it open.
func TestClosedIsForgotten(t *testing.T) {
	onStage(t, func(s *stage) {
		f := s.open(1, newInode("a"), 10, 11)
		s.lock(fcntl(f, 10, lockmgr.Shared, 0, 9))
		s.close(f, 10)
		if s.IsLocked(f) {
			t.Error("it locks the file still")
		}
	})
}

// What nobody remembers ends as well, if it is under the key of today.
func TestClosedUnderTheKeyOfToday(t *testing.T) {
	onStage(t, func(s *stage) {
		n := newInode("a")
		one, two := s.open(1, n, 10), s.open(2, n, 10)
		s.lock(fcntl(one, 10, lockmgr.Exclusive, 0, 9))
		delete(s.files, 1)
		s.close(two, 10)
		s.holds("a")
	})
}

// The close of a file of which nobody has ever locked bytes costs no look at it.
func TestClosedLooksAtNothing(t *testing.T) {
	onStage(t, func(s *stage) {
		f := s.open(1, newInode("a"), 10)
		s.lock(flock(f, 10, lockmgr.Exclusive))
		before := s.looks
		s.close(f, 10)
		if s.looks != before {
			t.Errorf("%d looks", s.looks-before)
		}
		s.holds("a", 1)
	})
}

// A released file takes with it what was locked through it, and nothing else.
func TestReleased(t *testing.T) {
	onStage(t, func(s *stage) {
		n := newInode("a")
		one, two := s.open(1, n, 10), s.open(2, n, 10)
		s.lock(flock(one, 10, lockmgr.Shared))
		s.lock(flock(two, 10, lockmgr.Shared))
		s.lock(fcntl(one, 77, lockmgr.Shared, 0, 9)) // an open file description lock
		s.Released(s.open(3, n, 10))                 // through which nobody has locked
		s.holds("a", 1, 2, 77)
		s.Released(one)
		s.holds("a", 2)
		s.Released(two)
		s.holds("a")
		if s.Len() != 0 {
			t.Errorf("%d files are remembered", s.Len())
		}
	})
}

// A released file takes with it what is under a former name of its own.
func TestReleasedUnderAFormerKey(t *testing.T) {
	onStage(t, func(s *stage) {
		n := newInode("a")
		f := s.open(1, n, 10)
		s.lock(flock(f, 10, lockmgr.Shared))
		n.is.Path = "b"
		s.Released(f)
		s.holds("a")
	})
}

// Two files through which the same clients lock are released at once: no client keeps its
// lock because of the other file.
func TestReleasedTogether(t *testing.T) {
	onStage(t, func(s *stage) {
		n := newInode("a")
		one, two := s.open(1, n, 10), s.open(2, n, 10)
		for _, f := range []*file{one, two} {
			s.lock(fcntl(f, 10, lockmgr.Shared, 0, 9))
			s.lock(fcntl(f, 77, lockmgr.Shared, 0, 9))
		}
		looks := 0
		one.looked = func() {
			if looks++; looks == 2 { // the first client's locks have ended
				s.Released(two)
			}
		}
		s.Released(one)
		if looks != 3 { // the last at the file that is released first, for the other one
			t.Errorf("%d looks", looks)
		}
		s.holds("a")
	})
}

// RELEASE comes late: by then the client has locked the file through another descriptor.
func TestReleasedLate(t *testing.T) {
	onStage(t, func(s *stage) {
		n := newInode("a")
		one, two := s.open(1, n, 10), s.open(2, n, 10)
		s.lock(fcntl(one, 10, lockmgr.Shared, 0, 9))
		s.lock(fcntl(two, 10, lockmgr.Shared, 0, 9))
		s.Released(one)
		s.holds("a", 10)
		s.Released(two)
		s.holds("a")
	})
}

// What the client has locked through a file of another inode keeps the lock only where it
// is the same one: another version of what has the name.
func TestReleasedBesideAnotherVersion(t *testing.T) {
	onStage(t, func(s *stage) {
		old, now, apart := newInode("a"), newInode("a"), newInode("b")
		one, two, three := s.open(1, old, 10), s.open(2, now, 10), s.open(3, apart, 10)
		for _, f := range []*file{one, two, three} {
			s.lock(fcntl(f, 10, lockmgr.Shared, 0, 9))
		}
		s.Released(one)
		s.holds("a", 10)
		s.Released(two)
		s.holds("a")
		s.holds("b", 10)
	})
}

// A client that is about to lock through another file is not robbed of the lock by the
// end of the first: the lock table makes one of both.
func TestReleasedWhileItLocksAgain(t *testing.T) {
	for _, when := range []string{"before the grant", "after it"} {
		onStage(t, func(s *stage) {
			n := newInode("a")
			one, two := s.open(1, n, 10), s.open(2, n, 10)
			s.lock(fcntl(one, 10, lockmgr.Exclusive, 0, 9))
			release := func() { s.Released(one) }
			if when == "before the grant" {
				s.acquiring = release
			} else {
				s.granted = release
			}
			s.lock(fcntl(two, 10, lockmgr.Exclusive, 0, 9))
			s.holds("a", 10)
		})
	}
}

// While the locks of a released file end, no client begins to lock through another one.
func TestNobodyLocksWhileLocksEnd(t *testing.T) {
	onStage(t, func(s *stage) {
		f := s.open(1, newInode("a"), 10)
		var ended atomic.Bool
		s.locking = func() {
			s.ends.Lock()
			go func() {
				for range 1000 {
					runtime.Gosched()
				}
				ended.Store(true)
				s.ends.Unlock()
			}()
		}
		s.acquiring = func() {
			if !ended.Load() {
				t.Error("it locks beside the end")
			}
		}
		s.lock(fcntl(f, 10, lockmgr.Exclusive, 0, 9))
	})
}

// A refused client has locked nothing, and is known to have tried.
func TestRefused(t *testing.T) {
	onStage(t, func(s *stage) {
		n := newInode("a")
		one, two := s.open(1, n, 10), s.open(2, n, 11)
		s.lock(flock(one, 10, lockmgr.Exclusive))
		if _, e := s.Lock(flock(two, 11, lockmgr.Exclusive)); e != unix.EAGAIN || !s.IsLocked(two) {
			t.Errorf("%v; is known: %t", e, s.IsLocked(two))
		}
		s.Released(two)
		s.holds("a", 1)
	})
}

// Locks that have ended are not remembered: a client that locks and unlocks all day keeps
// one.
func TestRemembersWhatIsHeld(t *testing.T) {
	onStage(t, func(s *stage) {
		f := s.open(1, newInode("a"), 10)
		for range 100 {
			s.lock(fcntl(f, 10, lockmgr.Exclusive, 0, 9))
			s.Unlock(fcntl(f, 10, lockmgr.Exclusive, 0, 9))
		}
		if n := len(s.files[1].locks[Client{lockmgr.Posix, 10}]); n != 1 {
			t.Errorf("%d locks are remembered", n)
		}
	})
}

// A room says whether a goroutine may be stopped where it is.
func TestIsFree(t *testing.T) {
	onStage(t, func(s *stage) {
		for range 2 {
			if !s.IsFree() {
				t.Error("nobody has a mutex")
			}
		}
		s.ends.Lock()
		if s.IsFree() {
			t.Error("somebody ends locks")
		}
		s.ends.Unlock()
		s.Room.mu.Lock()
		if s.IsFree() {
			t.Error("somebody looks for lockers")
		}
		s.Room.mu.Unlock()
	})
}
