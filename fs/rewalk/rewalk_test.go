package rewalk

import (
	"fmt"
	"math/rand/v2"
	"slices"
	"strings"
	"sync"
	"testing"
	"testing/synctest"
	"time"

	"latchfs/lockmgr/proc"
)

// entry is an entry of a test's table.
type entry struct {
	Promise[string]
	name string
}

// thread is a thread in a system call, as a request and /proc show it.
type thread struct {
	tid   int32
	start uint64
	call  proc.Call
	blind bool // its system call cannot be seen
}

func (t *thread) Thread() (int32, uint64) { return t.tid, t.start }

func (t *thread) Syscall() (proc.Call, bool) {
	if t.blind {
		return proc.Call{}, false
	}
	return t.call, true
}

// stage is an engine that writes down what it is told.
type stage struct {
	t     testing.TB
	table *Table[string, *entry]

	mu      sync.Mutex // guards what follows, and what the threads do
	threads map[int32]*thread
	busy    bool // /proc does not answer
	in      int  // entered and not left
	log     []string
}

func (s *stage) Entered(*entry) { s.do(func() { s.in++ }) }

func (s *stage) Left(*entry) { s.do(func() { s.in-- }) }

func (s *stage) Abandon(w *entry) { s.do(func() { s.log = append(s.log, w.name) }) }

// do does something that the sweeper must not see half done.
func (s *stage) do(what func()) {
	s.mu.Lock()
	defer s.mu.Unlock()
	what()
}

func (s *stage) Thread(tid uint32) (proc.Thread, error) {
	s.mu.Lock()
	defer s.mu.Unlock()
	th := s.threads[int32(tid)]
	switch {
	case s.busy:
		return proc.Thread{}, proc.ErrBusy
	case th == nil:
		return proc.Thread{}, proc.ErrGone
	}
	return proc.Thread{Start: th.start}, nil
}

func (s *stage) Syscall(tid uint32) (proc.Call, bool) {
	s.mu.Lock()
	defer s.mu.Unlock()
	if th := s.threads[int32(tid)]; th != nil && !s.busy {
		return th.Syscall()
	}
	return proc.Call{}, false
}

// starts makes a thread that is in a system call.
func (s *stage) starts(tid int32, nr int) *thread {
	th := &thread{tid: tid, start: uint64(nr), call: proc.Call{Nr: nr}}
	s.do(func() { s.threads[tid] = th })
	return th
}

// promise enters a promise for an operation on the name "f".
func (s *stage) promise(th *thread, name, op string) *entry {
	w := &entry{Promise: Promise[string]{Op: op, At: [2]string{"f"}}, name: name}
	s.table.Put(th, w)
	return w
}

// abandoned checks what was abandoned since the last time, and that the engine was told of
// the end of everything that is in the table no more.
func (s *stage) abandoned(when string, want ...string) {
	s.t.Helper()
	synctest.Wait()
	s.mu.Lock()
	defer s.mu.Unlock()
	if !slices.Equal(s.log, want) {
		s.t.Errorf("%s: abandoned are %q, want %q", when, s.log, want)
	}
	s.log = nil
	if s.in != s.table.Len() || s.table.Any() != (s.in > 0) {
		s.t.Errorf("%s: %d entries, and %d were entered and have not left", when, s.table.Len(), s.in)
	}
}

func onStage(t *testing.T, do func(s *stage)) {
	synctest.Test(t, func(t *testing.T) {
		s := &stage{t: t, threads: map[int32]*thread{}}
		s.table = New[string](Engine[*entry](s))
		done := make(chan struct{})
		go s.table.Sweep(done)
		do(s)
		close(done)
	})
}

var f = [2]string{"f"}

// The repeated call finds what it was promised, once.
func TestKept(t *testing.T) {
	onStage(t, func(s *stage) {
		a := s.starts(1, 10)
		w := s.promise(a, "a", "open")
		time.Sleep(KeptFor / 2)
		if !s.table.Repeated(a) || !s.table.Has(a, "open", f) || s.table.Has(a, "link", f) || s.table.Has(a, "open", [2]string{"g"}) {
			t.Error("the call is not known as the repeated one")
		}
		if s.table.Take(a, "open", f) != w || s.table.Take(a, "open", f) != nil || s.table.Repeated(a) {
			t.Error("the promise is not kept once")
		}
		s.abandoned("it was kept")
	})
}

// Who asks for something else than it was promised has abandoned that.
func TestAsksForSomethingElse(t *testing.T) {
	for name, ask := range map[string]func(s *stage, a *thread) *entry{
		"operation": func(s *stage, a *thread) *entry { return s.table.Take(a, "unlink", f) },
		"name":      func(s *stage, a *thread) *entry { return s.table.Take(a, "open", [2]string{"g"}) },
		"call": func(s *stage, a *thread) *entry {
			s.do(func() { a.call.Args[0]++ })
			return s.table.Take(a, "open", f)
		},
		"another thread with its id": func(s *stage, a *thread) *entry {
			s.do(func() { a.start++ })
			return s.table.Take(a, "open", f)
		},
	} {
		t.Run(name, func(t *testing.T) {
			onStage(t, func(s *stage) {
				a := s.starts(1, 10)
				s.promise(a, "a", "open")
				if w := ask(s, a); w != nil {
					t.Errorf("gets %q", w.name)
				}
				s.abandoned("it asked for something else", "a")
			})
		})
	}
}

// A thread has one promise: the next takes the place of the last.
func TestOnePromise(t *testing.T) {
	onStage(t, func(s *stage) {
		a, b := s.starts(1, 10), s.starts(2, 10)
		s.promise(a, "a", "open")
		s.promise(b, "b", "open")
		w := s.promise(a, "a2", "open")
		s.abandoned("a was promised something else", "a")
		if s.table.Get(a) != w || s.table.Of(2).name != "b" || s.table.Len() != 2 {
			t.Error("the promises of two threads are mixed up")
		}
		s.table.Drop(w)
		s.table.Drop(w)
		s.abandoned("it was dropped twice", "a2")
	})
}

// Who was merely told to walk again was so once, for its call; where that cannot be seen, for
// a moment.
func TestStale(t *testing.T) {
	onStage(t, func(s *stage) {
		a := s.starts(1, 10)
		s.promise(a, "a", Stale)
		time.Sleep(KeptFor - time.Second)
		if !s.table.Repeated(a) || s.table.Repeated(a) {
			t.Error("not repeated once")
		}
		s.do(func() { a.blind = true })
		s.promise(a, "blind", Stale)
		time.Sleep(staleFor / 2)
		if !s.table.Repeated(a) || s.table.Repeated(a) {
			t.Error("not repeated once, where the call cannot be seen")
		}
		s.promise(a, "late", Stale)
		time.Sleep(staleFor + 2*sweepPeriod)
		s.abandoned("nobody came", "late")
	})
}

// The place in a queue is for a later call of the same thread, and no call is repeated for it.
func TestWait(t *testing.T) {
	onStage(t, func(s *stage) {
		a := s.starts(1, 10)
		w := s.promise(a, "a", Wait)
		s.do(func() { a.call.Nr++ }) // the handler of the signal
		time.Sleep(waitFor / 2)
		if s.table.Repeated(a) || s.table.PlaceOf(a, [2]string{"g"}) != nil {
			t.Error("the place is another's")
		}
		if s.table.PlaceOf(a, f) != w || s.table.PlaceOf(a, f) != nil {
			t.Error("the place is not had once")
		}
		s.abandoned("it has its place")
		s.promise(a, "late", Wait)
		time.Sleep(waitFor + 2*sweepPeriod)
		s.abandoned("nobody came", "late")
		s.promise(a, "other", "open")
		if s.table.PlaceOf(a, f) != nil {
			t.Error("a promise of another kind is taken for a place")
		}
	})
}

// What nobody comes for any more is abandoned: at once if that can be seen, or when its time
// is over. While a request works on it, it stays.
func TestSweep(t *testing.T) {
	for name, end := range map[string]func(s *stage, a *thread){
		"dead":           func(s *stage, a *thread) { s.do(func() { delete(s.threads, 1) }) },
		"id given again": func(s *stage, a *thread) { s.do(func() { a.start++ }) },
		"another call":   func(s *stage, a *thread) { s.do(func() { a.call.Nr++ }) },
		"time over":      func(s *stage, a *thread) { time.Sleep(KeptFor) },
		"time over, and /proc does not answer": func(s *stage, a *thread) {
			s.do(func() { s.busy = true })
			time.Sleep(KeptFor)
		},
	} {
		t.Run(name, func(t *testing.T) {
			onStage(t, func(s *stage) {
				a := s.starts(1, 10)
				w := s.promise(a, "a", "open")
				time.Sleep(4 * sweepPeriod)
				s.abandoned("it is on its way")
				if !s.table.Park(w) || s.table.Park(w) {
					t.Error("not parked once")
				}
				end(s, a)
				time.Sleep(4 * sweepPeriod)
				s.abandoned("it is parked")
				s.table.Unpark(w)
				if strings.HasPrefix(name, "time") {
					time.Sleep(KeptFor - 4*sweepPeriod)
					s.abandoned("its time begins anew")
					time.Sleep(4 * sweepPeriod)
				}
				time.Sleep(2 * sweepPeriod)
				s.abandoned("it is gone", "a")
				if s.table.Park(w) {
					t.Error("parks without a promise")
				}
			})
		})
	}
}

// A thread is parked once for a promise, and never for one that need not be.
func TestParkedOnce(t *testing.T) {
	onStage(t, func(s *stage) {
		a, b := s.starts(1, 10), s.starts(2, 10)
		w := s.promise(a, "a", "open")
		if !s.table.Park(w) || !w.IsBusy() {
			t.Error("not parked")
		}
		s.table.Parked(w, func() { w.name = "waited" })
		s.table.Unpark(w)
		if s.table.Park(w) || w.IsBusy() || w.name != "waited" {
			t.Error("parked twice for one promise")
		}
		free := &entry{Promise: Promise[string]{Op: "open", At: f, Unparked: true}}
		s.table.Put(b, free)
		if s.table.Park(free) {
			t.Error("parked, and has what it needs")
		}
	})
}

// The table knows whether the walk came by its name.
func TestLookedUp(t *testing.T) {
	onStage(t, func(s *stage) {
		a, b := s.starts(1, 10), s.starts(2, 10)
		w := s.promise(a, "a", "open")
		s.table.LookedUp(1, "g")
		s.table.LookedUp(2, "f")
		s.table.Arrive(w, func() bool { return false })
		if w.Looked() {
			t.Error("looked up by another name, or thread")
		}
		s.table.LookedUp(1, "f")
		x := s.promise(b, "b", "open")
		s.table.Arrive(x, func() bool { return true })
		if !w.Looked() || !x.Looked() {
			t.Error("not looked up")
		}
	})
}

// A thread that finds its name gone comes at once, or not at all; where its call can be seen,
// as long as that lasts.
func TestHasten(t *testing.T) {
	onStage(t, func(s *stage) {
		a := s.starts(1, 10)
		w := s.promise(a, "a", "open")
		s.table.Hasten(a, w, func() bool { return true })
		time.Sleep(KeptFor / 2)
		s.abandoned("its call lasts")
		s.do(func() { a.blind = true })
		w = s.promise(a, "blind", "open")
		s.abandoned("promised anew", "a")
		s.table.Hasten(a, w, func() bool { return false })
		time.Sleep(KeptFor / 2)
		s.abandoned("it is not to hasten")
		s.table.Hasten(a, w, func() bool { return true })
		time.Sleep(missingFor + 2*sweepPeriod)
		s.abandoned("it has not come at once", "blind")
	})
}

// Whatever happens in which order, everything that was entered leaves once, and what is not
// kept is abandoned.
func TestEverythingLeaves(t *testing.T) {
	for seed := range uint64(200) {
		onStage(t, func(s *stage) {
			r := rand.New(rand.NewPCG(seed, 0))
			var all []*thread
			for i := range 4 {
				all = append(all, s.starts(int32(i+1), 10))
			}
			kept, made := 0, 0
			keep := func(w *entry) {
				if w != nil {
					kept++
				}
			}
			for range 60 {
				a := all[r.IntN(len(all))]
				synctest.Wait()
				switch r.IntN(9) {
				case 0, 1, 2:
					made++
					s.promise(a, fmt.Sprint(made), []string{"open", "link", Stale, Wait}[r.IntN(4)])
				case 3:
					keep(s.table.Take(a, "open", f))
				case 4:
					keep(s.table.PlaceOf(a, f))
				case 5:
					before := s.table.Of(a.tid)
					s.table.Repeated(a)
					synctest.Wait()
					s.do(func() {
						if before != nil && s.table.Of(a.tid) == nil && !slices.Contains(s.log, before.name) {
							kept++ // it was stale
						}
					})
				case 6:
					s.do(func() { a.call.Args[0]++ })
				case 7:
					s.do(func() { a.start++ })
				case 8:
					time.Sleep(time.Duration(r.IntN(100)) * time.Millisecond)
				}
			}
			time.Sleep(2 * KeptFor)
			synctest.Wait()
			if s.in != 0 || s.table.Any() || kept+len(s.log) != made {
				t.Errorf("seed %d: %d made, %d kept, %d abandoned, %d have not left", seed, made, kept, len(s.log), s.in)
			}
		})
	}
}
