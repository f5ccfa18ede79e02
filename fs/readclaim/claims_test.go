package readclaim

import (
	"strings"
	"testing"
	"testing/synctest"
	"time"

	"latchfs/lockmgr"
)

// Who reads next waits until the family of the one before has written.
func TestOneAfterTheOther(t *testing.T) {
	onStage(t, func(s *stage) {
		s.start(1, 2)
		s.read(1, "f")
		next := s.ask(New(s.reader(2)), 2, "f")
		s.want("2 waits")
		if next.Held() {
			t.Fatal("two have the claim")
		}
		s.Written("f")
		s.want("1 has written", "program1 true")
		if !next.Held() {
			t.Error("2 still waits")
		}
	})
}

// A claim ends with its time: its process, or the program among the children of whoever has
// it by then, reads without one from then on, until it writes.
func TestInVain(t *testing.T) {
	onStage(t, func(s *stage) {
		s.start(1, 2, 3)
		s.read(1, "f")
		s.read(2, "g", 3)
		s.end(2, 0)
		time.Sleep(ttl - 1)
		s.want("before its time")
		time.Sleep(2 * time.Nanosecond)
		s.want("after it", "program1 false", "program2 false")
		if !s.isFree() {
			t.Error("something is left")
		}
		for _, c := range []struct {
			r    Reader
			path string
			is   bool
		}{
			{s.reader(1), "f", true}, {s.reader(1), "g", false}, {s.reader(9), "f", false}, {s.reader(9, 1), "f", false},
			{s.reader(3), "g", false},
			{Reader{Owner: owner(9), Comm: "reader2", Relatives: owners(3)}, "g", true},
			{Reader{Owner: owner(9), Comm: "another", Relatives: owners(3)}, "g", false},
		} {
			if is := s.IsMarked(c.r, c.path); is != c.is {
				t.Errorf("%+v is marked on %s: %v", c.r, c.path, is)
			}
		}
		s.Unmark(owners(9, 1), []string{"g"})
		s.Unmark(owners(9), []string{"f"})
		if !s.IsMarked(s.reader(1), "f") {
			t.Error("another's write ended the mark")
		}
		s.Unmark(owners(9, 1), []string{"f"})
		if s.IsMarked(s.reader(1), "f") {
			t.Error("it writes, and is marked")
		}
	})
}

// Reads prolong a claim, but not while others wait.
func TestProlong(t *testing.T) {
	onStage(t, func(s *stage) {
		s.start(1, 2)
		cl := s.read(1, "f")
		time.Sleep(ttl - 1)
		if !s.Prolong(cl, ttl) {
			t.Fatal("it has ended")
		}
		time.Sleep(ttl - 1)
		next := s.ask(New(s.reader(2)), 2, "f")
		if !s.Prolong(cl, ttl) {
			t.Fatal("it has ended, although it was prolonged")
		}
		time.Sleep(2 * time.Nanosecond)
		s.want("its time is up", "program1 false")
		if !next.Held() {
			t.Error("2 still waits")
		}
		if s.Prolong(cl, ttl) {
			t.Error("it was prolonged after its end")
		}
	})
}

// An exit leaves the claim to the nearest relative who lives; an end by a signal or with a
// failure, or where nobody is left, ends it.
func TestHeirs(t *testing.T) {
	for name, c := range map[string]struct {
		status int
		heir   int32 // 0: nobody
		dead   []int32
	}{
		"exit":          {0, 2, nil},
		"the next one":  {0, 3, []int32{2}},
		"failed":        {1 << 8, 0, nil},
		"killed":        {9, 0, nil},
		"nobody's left": {0, 0, []int32{3, 2}},
	} {
		t.Run(name, func(t *testing.T) {
			onStage(t, func(s *stage) {
				s.start(1, 2, 3)
				s.read(1, "f", 2, 3)
				for _, pid := range c.dead {
					s.end(pid, 0)
				}
				s.end(1, c.status)
				for pid := range int32(4) {
					if s.has(pid, "f") != (pid == c.heir && pid != 0) {
						t.Errorf("%d has the claim: %v", pid, s.has(pid, "f"))
					}
				}
				if c.heir == 0 {
					s.want("nobody has it", "program1 false")
					if !s.isFree() {
						t.Error("something is left")
					}
					return
				}
				holders := s.table.Holders([]lockmgr.Key{"f"}, nil)
				if len(holders) != 1 || holders[0].Owner != owner(c.heir) {
					t.Errorf("the lock is held by %+v", holders)
				}
				s.Written("f")
				s.want("its heir has written", "program1 true")
			})
		})
	}
}

// An heir that has a claim on the file already has one then: the one that ends later, but
// where others wait the earlier end counts.
func TestHeirOfTwo(t *testing.T) {
	for name, awaited := range map[string]bool{"alone": false, "others wait": true} {
		t.Run(name, func(t *testing.T) {
			onStage(t, func(s *stage) {
				s.start(1, 2, 3)
				s.read(2, "f")
				time.Sleep(time.Second)
				own := New(s.reader(1, 2))
				l, err := s.table.Acquire(lockmgr.Request{
					Keys: []lockmgr.Key{"f"}, Mode: lockmgr.Shared, Owner: owner(1), Label: &tag{own},
					Lineage: []lockmgr.Ancestor{{Owner: owner(2)}},
				})
				if err != nil || !s.Enter(own, "f", l, ttl) {
					t.Fatalf("a child of the owner is kept out: %v", err)
				}
				if awaited {
					s.ask(New(s.reader(3)), 3, "f")
				}
				s.end(1, 0)
				if !s.has(2, "f") || s.held.Load() != 1 {
					t.Errorf("2 has a claim: %v; there are %d", s.has(2, "f"), s.held.Load())
				}
				s.want("one was replaced")
				time.Sleep(ttl - time.Second + 1)
				if has := s.has(2, "f"); has == awaited {
					t.Errorf("at the end of the first claim's time, 2 has one: %v", has)
				}
				time.Sleep(time.Second)
				if s.has(2, "f") {
					t.Error("it lasts longer than either")
				}
			})
		})
	}
}

// Whoever may meet the claim of a process that has just died waits until it has its heir.
func TestAwaitHeirs(t *testing.T) {
	onStage(t, func(s *stage) {
		s.start(1, 2)
		s.read(1, "f", 2)
		s.AwaitHeirs(owner(2), []string{"f"})
		s.kill(1, 0)
		began := time.Now()
		s.AwaitHeirs(owner(2), []string{"f"})
		if took := time.Since(began); !s.has(2, "f") || took != 0 {
			t.Errorf("after %v, 2 has the claim: %v", took, s.has(2, "f"))
		}
	})
	onStage(t, func(s *stage) {
		s.start(1, 2)
		s.deaf = true
		s.read(1, "f", 2)
		s.kill(1, 0)
		began := time.Now()
		s.AwaitHeirs(owner(2), []string{"f"})
		if took := time.Since(began); took != passGrace {
			t.Errorf("it waited for %v for what nobody sees", took)
		}
	})
}

// Two threads of a process that read at once have one claim.
func TestTwoThreads(t *testing.T) {
	onStage(t, func(s *stage) {
		s.start(1)
		first, second := New(s.reader(1)), New(s.reader(1))
		a, b := s.ask(first, 1, "f"), s.ask(second, 1, "f")
		if !a.Held() || !b.Held() || !s.Enter(first, "f", a, ttl) || !s.Enter(second, "f", b, ttl) {
			t.Fatal("one of them is kept out")
		}
		if s.held.Load() != 1 || s.Prolong(first, ttl) || !s.Prolong(second, ttl) {
			t.Errorf("there are %d claims", s.held.Load())
		}
		s.want("replaced")
	})
}

// A reader that died while it waited claims nothing.
func TestDeadReader(t *testing.T) {
	onStage(t, func(s *stage) {
		s.start(1)
		cl := New(s.reader(1))
		l := s.ask(cl, 1, "f")
		s.end(1, 9)
		if s.Enter(cl, "f", l, ttl) || !s.isFree() {
			t.Error("a dead process has a claim")
		}
	})
}

// One that somebody ends before it has begun does not begin.
func TestDroppedBefore(t *testing.T) {
	onStage(t, func(s *stage) {
		s.start(1)
		cl := New(s.reader(1))
		l := s.ask(cl, 1, "f")
		s.Drop(cl)
		if s.Enter(cl, "f", l, ttl) || !s.isFree() {
			t.Error("it has begun all the same")
		}
	})
}

// The claim on a file that is gone ends a moment later, if it is not made again.
func TestRemoved(t *testing.T) {
	onStage(t, func(s *stage) {
		s.start(1, 2)
		s.read(1, "f")
		s.read(2, "g")
		time.Sleep(ttl - goneGrace/2)
		s.read(1, "g2")
		s.Removed("f")
		s.Removed("g2")
		time.Sleep(goneGrace/2 - 1)
		s.want("while it may be made again")
		time.Sleep(2 * time.Nanosecond)
		s.want("it would have ended by now", "program1 false", "program2 false")
		time.Sleep(goneGrace / 2)
		s.want("it is not made again", "program1 false")
	})
}

// Who locks the file by himself, or is relieved, has no claim; that teaches nothing.
func TestLockedByItself(t *testing.T) {
	onStage(t, func(s *stage) {
		s.start(1, 2)
		s.read(1, "f")
		s.Locked(owner(2), "f")
		s.Locked(owner(1), "g")
		if !s.has(1, "f") {
			t.Error("another's lock ended the claim")
		}
		s.Locked(owner(1), "f")
		s.want("locked")
		if !s.isFree() {
			t.Error("something is left")
		}
	})
}

// Claims and marks follow a directory.
func TestFollow(t *testing.T) {
	onStage(t, func(s *stage) {
		s.start(1, 2)
		s.read(1, "d/f")
		time.Sleep(ttl + 1)
		s.read(2, "d/f")
		s.Follow(func(path string) string { return strings.Replace(path, "d/", "e/", 1) })
		if !s.has(2, "e/f") || s.has(2, "d/f") || s.Paths()["e/f"] != "reader2" {
			t.Errorf("the claim is on %q", s.Paths())
		}
		if !s.IsMarked(s.reader(1), "e/f") || s.IsMarked(s.reader(1), "d/f") {
			t.Error("the mark has stayed")
		}
	})
}

// One process has so many claims, and so many marks are kept.
func TestBounds(t *testing.T) {
	onStage(t, func(s *stage) {
		s.start(1, 2)
		for i := range mostOfProcess {
			if s.IsFull(owner(1)) {
				t.Fatalf("full with %d", i)
			}
			s.read(1, strings.Repeat("x", i+1))
		}
		if !s.IsFull(owner(1)) || s.IsFull(owner(2)) {
			t.Error("there is no bound, or it is not for each process")
		}
		time.Sleep(ttl + 1)
		synctest.Wait()
		if !s.isFree() || len(s.marks) != mostOfProcess {
			t.Fatalf("%d marks", len(s.marks))
		}
		s.Claims.mu.Lock()
		for i := range maxMarks - mostOfProcess {
			s.marks[mark{path: strings.Repeat("y", i+1), owner: owner(9)}] = true // who is dead
		}
		s.Claims.mu.Unlock()
		s.read(2, "f")
		time.Sleep(ttl + 1)
		synctest.Wait()
		if len(s.marks) != mostOfProcess+1 || !s.IsMarked(s.reader(1), "x") {
			t.Errorf("%d marks are left, or those of the living are not", len(s.marks))
		}
	})
}
