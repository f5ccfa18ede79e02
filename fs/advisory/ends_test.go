package advisory

import (
	"testing"
	"testing/synctest"

	"latchfs/lockmgr"
)

// The death of a process ends its ranges where nobody tells of its closes: once for each
// process, and again when the kernel gives its number to another one.
func TestUnlockAtEnd(t *testing.T) {
	onStage(t, func(s *stage) {
		f := s.open(1, newInode("a"), 10, 11)
		f.untold = true
		s.lock(fcntl(f, 10, lockmgr.Shared, 0, 9))
		s.lock(fcntl(f, 10, lockmgr.Shared, 20, 29)) // watched once: see stage.Watch
		s.lock(fcntl(f, 11, lockmgr.Shared, 0, 9))
		s.lock(flock(f, 10, lockmgr.Shared))
		s.kill(10)
		s.holds("a", 1, 11)
		s.lock(fcntl(f, 10, lockmgr.Shared, 0, 9))
		s.kill(10)
		s.kill(11)
		s.holds("a", 1)
		if s.stops != 3 {
			t.Errorf("%d watches were given up, want 3", s.stops)
		}
	})
}

// Where closes are told of, and for a flock, no process is watched.
func TestNobodyIsWatched(t *testing.T) {
	onStage(t, func(s *stage) {
		told, untold := s.open(1, newInode("a"), 10), s.open(2, newInode("b"), 10)
		untold.untold = true
		s.lock(fcntl(told, 10, lockmgr.Exclusive, 0, 9))
		s.lock(flock(untold, 10, lockmgr.Exclusive))
		if len(s.dead) > 0 {
			t.Error("somebody is watched")
		}
	})
}

// A process whose end cannot be watched keeps its lock until the file is released.
func TestCannotWatch(t *testing.T) {
	onStage(t, func(s *stage) {
		s.blind = true
		f := s.open(1, newInode("a"), 10)
		f.untold = true
		s.lock(fcntl(f, 10, lockmgr.Exclusive, 0, 9))
		s.holds("a", 10)
		s.Released(f)
		s.holds("a")
	})
}

// Nobody is watched any more when the mount is gone: the stage would not end.
func TestDone(t *testing.T) {
	onStage(t, func(s *stage) {
		f := s.open(1, newInode("a"), 10)
		f.untold = true
		s.lock(fcntl(f, 10, lockmgr.Exclusive, 0, 9))
	})
}

// A process may outlive the file through which it has locked.
func TestEndAfterRelease(t *testing.T) {
	onStage(t, func(s *stage) {
		f := s.open(1, newInode("a"), 10)
		f.untold = true
		s.lock(fcntl(f, 10, lockmgr.Exclusive, 0, 9))
		s.Released(f)
		s.kill(10)
		if s.Len() != 0 || s.stops != 1 {
			t.Errorf("%d files are remembered, %d watches were given up", s.Len(), s.stops)
		}
	})
}

// holder is the one who holds a key.
func (s *stage) holder(key lockmgr.Key) *lockmgr.Holder {
	s.t.Helper()
	all := s.table.Holders([]lockmgr.Key{key}, nil)
	if len(all) != 1 {
		s.t.Fatalf("%d hold %s", len(all), key)
	}
	return &all[0]
}

func over(end <-chan struct{}) bool {
	synctest.Wait()
	select {
	case <-end:
		return true
	default:
		return false
	}
}

// A holder is leaving when it has closed each file through which its client has locked; its
// locks end with these.
func TestLeaving(t *testing.T) {
	onStage(t, func(s *stage) {
		n := newInode("a")
		f := s.open(1, n, 10)
		s.lock(flock(f, 10, lockmgr.Exclusive))
		x := s.holder("a")
		if _, all := s.Leaving(x); all {
			t.Error("it has the file open")
		}
		f.cannot = 10
		s.forgetIn(f, 10)
		if _, all := s.Leaving(x); all {
			t.Error("nobody can tell whether it has the file open")
		}
		f.cannot = 0
		ends, all := s.Leaving(x)
		again, _ := s.Leaving(x)
		if !all || len(ends) != 1 || over(ends[0]) {
			t.Fatalf("%d ends, left: %t", len(ends), all)
		}
		s.Released(f)
		if !over(ends[0]) || !over(again[0]) {
			t.Error("nobody is told of the end")
		}
		if ends, all := s.Leaving(x); !all || len(ends) > 0 {
			t.Errorf("after the end there are %d more, left: %t", len(ends), all)
		}
	})
}

// Each file of a process counts, of whatever inode; the close of any ends what it has on
// that inode.
func TestLeavingByBytes(t *testing.T) {
	onStage(t, func(s *stage) {
		n := newInode("a")
		one, two, other := s.open(1, n, 10), s.open(2, newInode("b"), 10), s.open(3, n)
		s.lock(fcntl(one, 10, lockmgr.Exclusive, 0, 9))
		s.lock(fcntl(two, 10, lockmgr.Exclusive, 0, 9))
		x := s.holder("a")
		s.forgetIn(one, 10)
		if _, all := s.Leaving(x); all {
			t.Error("it has another file open")
		}
		s.forgetIn(two, 10)
		ends, all := s.Leaving(x)
		if !all || len(ends) != 2 {
			t.Fatalf("%d ends, left: %t", len(ends), all)
		}
		s.close(other, 10)
		if over(ends[0]) == over(ends[1]) {
			t.Error("of the two ends, one has come")
		}
		s.Released(one)
		s.Released(two)
		if !over(ends[0]) || !over(ends[1]) {
			t.Error("nobody is told of the end")
		}
	})
}

// Of others nobody can say that they are leaving.
func TestNotLeaving(t *testing.T) {
	onStage(t, func(s *stage) {
		for name, x := range map[string]lockmgr.Holder{
			"a session":  {Class: lockmgr.Session, Token: 1, Owner: owner(10)},
			"a waiter":   {Class: lockmgr.Flock, Owner: owner(10)},
			"a stranger": {Class: lockmgr.Flock, Token: 1, Owner: lockmgr.Owner{Start: 5}},
		} {
			if _, all := s.Leaving(&x); all {
				t.Errorf("%s is leaving", name)
			}
		}
	})
}
