package advisory

import (
	"testing"
	"testing/synctest"
	"time"

	"golang.org/x/sys/unix"

	"latchfs/lockmgr"
)

// Two open files exclude each other, whichever process asks; one converts its own lock.
func TestFlockIsOfTheOpenFile(t *testing.T) {
	onStage(t, func(s *stage) {
		n := newInode("a")
		one, other := s.open(1, n, 10), s.open(2, n, 11)
		s.lock(flock(one, 10, lockmgr.Exclusive))
		if _, e := s.Lock(flock(other, 11, lockmgr.Shared)); e != unix.EAGAIN {
			t.Errorf("%v, want EAGAIN", e)
		}
		s.lock(flock(one, 12, lockmgr.Shared)) // the open file is in another process, too
		s.lock(flock(other, 11, lockmgr.Shared))
		s.holds("a", 1, 2)
		s.Unlock(flock(one, 12, lockmgr.Shared))
		s.holds("a", 2)
	})
}

// A lock of bytes is a process's, and of the bytes alone that it asked for.
func TestFcntlIsOfTheProcess(t *testing.T) {
	onStage(t, func(s *stage) {
		n := newInode("a")
		s.lock(fcntl(s.open(1, n, 10), 10, lockmgr.Exclusive, 0, 9))
		s.lock(fcntl(s.open(2, n, 11), 11, lockmgr.Exclusive, 10, 19))
		s.holds("a", 10, 11)
		x := s.Test(fcntl(s.open(3, n, 12), 12, lockmgr.Shared, 5, 15))
		if x == nil || x.Owner != owner(10) || x.Range != (lockmgr.Range{Start: 0, End: 9}) {
			t.Errorf("in the way is %+v", x)
		}
		if x := s.Test(fcntl(s.open(3, n, 12), 12, lockmgr.Shared, 20, 29)); x != nil {
			t.Errorf("in the way of nothing is %+v", x)
		}
		s.Unlock(fcntl(s.open(4, n, 10), 10, lockmgr.Shared, 0, 4))
		if x := s.Test(fcntl(s.open(3, n, 12), 12, lockmgr.Shared, 0, 4)); x != nil {
			t.Errorf("in the way of what was unlocked is %+v", x)
		}
		if x := s.Test(fcntl(s.open(3, n, 12), 12, lockmgr.Shared, 5, 5)); x == nil {
			t.Error("nobody is in the way of what was not unlocked")
		}
	})
}

// A flock covers the whole file, whatever range the request has.
func TestFlockIsOfTheWholeFile(t *testing.T) {
	onStage(t, func(s *stage) {
		q := flock(s.open(1, newInode("a"), 10), 10, lockmgr.Shared)
		q.Range = lockmgr.Range{Start: 5, End: 6}
		if l := s.lock(q); l.Request().Range != lockmgr.Whole {
			t.Errorf("it covers %v", l.Request().Range)
		}
	})
}

// Whom a flock belongs to.
func TestAttribute(t *testing.T) {
	for name, c := range map[string]struct {
		by     caller
		open   []int32
		cannot int32
		want   int32
		up     int // the ancestors of that
	}{
		"who has it alone":             {caller{pid: 10, up: []int32{9, 8}}, []int32{10}, 0, 10, 2},
		"a shell's, by a descriptor":   {caller{pid: 10, up: []int32{9, 8}}, []int32{10, 9}, 0, 9, 1},
		"the eldest's":                 {caller{pid: 10, up: []int32{9, 8}}, []int32{10, 9, 8}, 0, 8, 0},
		"no further than a gap":        {caller{pid: 10, up: []int32{9, 8, 7}}, []int32{10, 9, 7}, 0, 9, 2},
		"no further than one can tell": {caller{pid: 10, up: []int32{9, 8}}, []int32{10, 9, 8}, 8, 9, 1},
		"a stranger's":                 {caller{pid: 0, up: []int32{9}}, []int32{9}, 0, 0, 1},
	} {
		onStage(t, func(s *stage) {
			f := s.open(1, newInode("a"), c.open...)
			f.cannot = c.cannot
			q := flock(f, 0, lockmgr.Exclusive)
			q.By = &c.by
			r := s.lock(q).Request()
			if r.Owner != owner(c.want) || len(r.Lineage) != c.up {
				t.Errorf("%s: owner is %d with %d ancestors, want %d with %d", name, r.Owner.PID, len(r.Lineage), c.want, c.up)
			}
			q = fcntl(f, 10, lockmgr.Exclusive, 0, 9)
			q.By, q.File = &c.by, s.open(2, newInode("b"), c.open...)
			if o := s.lock(q).Owner(); o != owner(c.by.pid) {
				t.Errorf("%s: bytes are locked by %d, want %d", name, o.PID, c.by.pid)
			}
		})
	}
}

// A flock is the shell's also if it takes a while until somebody can tell that the shell has the
// file open.
func TestAttributeAtLast(t *testing.T) {
	onStage(t, func(s *stage) {
		f := s.open(1, newInode("a"), 10, 9)
		f.late = 3
		q := flock(f, 0, lockmgr.Exclusive)
		q.By = &caller{pid: 10, up: []int32{9}}
		if o := s.lock(q).Owner(); o != owner(9) {
			t.Errorf("its owner is %d, want 9", o.PID)
		}
	})
}

// A lock keeps out those who do not lock only if its client could do so by itself.
func TestWeak(t *testing.T) {
	for name, c := range map[string]struct {
		path                         string
		root, writes, may, mayTarget bool
		flock, posix                 bool // is weak
	}{
		"who may only read":                          {path: "a", flock: true, posix: true},
		"root":                                       {path: "a", root: true},
		"who was given a descriptor to write":        {path: "a", writes: true},
		"who may write":                              {path: "a", may: true},
		"a lock file of what it may not lock":        {path: "a.lock", may: true, flock: true},
		"a lock file of what it may lock":            {path: "a.lock", may: true, mayTarget: true},
		"a lock file that it may not write":          {path: "a.lock", mayTarget: true, flock: true, posix: true},
		"root, of what nobody may lock":              {path: "a.lock", root: true},
		"a descriptor to write, of what it may not":  {path: "a.lock", writes: true, flock: true},
		"a lock file of nothing, which it may write": {path: ".lock", may: true},
	} {
		onStage(t, func(s *stage) {
			s.write, s.keep["a"] = c.may, c.mayTarget
			f := s.open(1, newInode(c.path), 10)
			f.writes = c.writes
			for class, want := range map[lockmgr.Class]bool{lockmgr.Flock: c.flock, lockmgr.Posix: c.posix} {
				q := flock(f, 10, lockmgr.Shared)
				q.Class = class
				if c.root {
					q.By = &caller{pid: 10}
				}
				if r := s.lock(q).Request(); r.Weak != want {
					t.Errorf("%s: a lock of class %v is weak: %t, want %t", name, class, r.Weak, want)
				}
			}
		})
	}
}

// The filesystem may refuse a lock of bytes before it is asked for: then nobody has locked.
func TestLocksBytesRefuses(t *testing.T) {
	onStage(t, func(s *stage) {
		s.bytes = unix.EBUSY
		f := s.open(1, newInode("a"), 10)
		if _, e := s.Lock(fcntl(f, 10, lockmgr.Exclusive, 0, 9)); e != unix.EBUSY || s.IsLocked(f) {
			t.Errorf("%v; is locked: %t", e, s.IsLocked(f))
		}
		s.lock(flock(f, 10, lockmgr.Exclusive)) // which are no bytes
		if !s.IsLocked(f) {
			t.Error("it is not locked")
		}
	})
}

// The file is renamed between the grant and the look: the lock is asked for again, under
// the name that it has then, and nobody has the other one.
func TestLockFollowsTheName(t *testing.T) {
	onStage(t, func(s *stage) {
		n := newInode("a")
		f := s.open(1, n, 10)
		s.granted = func() { n.is.Path = "b" }
		s.lock(flock(f, 10, lockmgr.Exclusive))
		s.holds("a")
		s.holds("b", 1)
	})
}

// What was locked under a former name is unlocked by the open file.
func TestUnlockUnderAFormerKey(t *testing.T) {
	onStage(t, func(s *stage) {
		n := newInode("a")
		one, two := s.open(1, n, 10), s.open(2, n, 10)
		s.lock(flock(one, 10, lockmgr.Exclusive))
		n.is.Unnamed = true // the lock stays under the name, which another file may have
		s.Unlock(flock(two, 10, lockmgr.Exclusive))
		s.holds("a", 1)
		s.Unlock(flock(one, 10, lockmgr.Exclusive))
		s.holds("a")
	})
}

// A client may have locks under several names of a file. A lock that it is refused does not
// make the room forget those that it has.
func TestUnlockUnderAllFormerKeys(t *testing.T) {
	onStage(t, func(s *stage) {
		n := newInode("a")
		f := s.open(1, n, 10)
		s.lock(fcntl(f, 10, lockmgr.Exclusive, 0, 9))
		n.is.Path = "b"
		s.lock(fcntl(f, 10, lockmgr.Exclusive, 0, 9))
		n.is.Path = "c"
		s.lock(fcntl(s.open(2, n, 11), 11, lockmgr.Exclusive, 0, 9))
		if _, e := s.Lock(fcntl(f, 10, lockmgr.Exclusive, 0, 9)); e != unix.EAGAIN {
			t.Errorf("%v, want EAGAIN", e)
		}
		s.holds("a", 10)
		s.holds("b", 10)
		s.Unlock(fcntl(f, 10, lockmgr.Exclusive, 0, 9))
		s.holds("a")
		s.holds("b")
		s.holds("c", 11)
	})
}

// A rename that takes the locks along leaves nothing to unlock under the old name.
func TestUnlockAfterARename(t *testing.T) {
	onStage(t, func(s *stage) {
		n := newInode("a")
		f := s.open(1, n, 10)
		s.lock(flock(f, 10, lockmgr.Exclusive))
		s.rename(n, "b")
		s.holds("b", 1)
		s.Released(f)
		s.holds("b")
	})
}

// A lock that is waited for ends with a signal, or is granted when its holder goes.
func TestWait(t *testing.T) {
	onStage(t, func(s *stage) {
		n := newInode("a")
		one, two := s.open(1, n, 10), s.open(2, n, 11)
		s.lock(flock(one, 10, lockmgr.Exclusive))
		q := flock(two, 11, lockmgr.Exclusive)
		signal := make(chan struct{})
		q.NoWait, q.Cancel = false, signal
		time.AfterFunc(time.Hour, func() { close(signal) })
		if _, e := s.Lock(q); e != unix.EINTR {
			t.Errorf("%v, want EINTR", e)
		}
		q.Cancel = nil
		time.AfterFunc(time.Hour, func() { s.Released(one) })
		s.lock(q)
		synctest.Wait()
		s.holds("a", 2)
	})
}
