package rewalk

import (
	"testing"
	"time"
)

// late promises something to a thread that does not come for it in time.
func (s *stage) late(th *thread, op string) {
	s.t.Helper()
	s.promise(th, "late", op)
	time.Sleep(KeptFor + 2*sweepPeriod)
	s.abandoned("its time is over", "late")
}

// A thread that comes when its time is over has been told to walk again once, as long as its
// call lasts.
func TestLate(t *testing.T) {
	for _, op := range []string{"open", Stale} {
		onStage(t, func(s *stage) {
			a, b := s.starts(1, 10), s.starts(2, 10)
			s.late(a, op)
			time.Sleep(2 * lateFor)
			if !s.table.IsLate(a) || !s.table.Has(a, op, f) || s.table.IsLate(b) || s.table.Repeated(b) {
				t.Errorf("%s: the thread is not known to be late, or another is", op)
			}
			if s.table.Get(a) != nil || s.table.Take(a, op, f) != nil {
				t.Errorf("%s: what was given back is promised still", op)
			}
			s.table.Answered(2)
			for range 2 {
				if !s.table.Repeated(a) {
					t.Errorf("%s: not repeated until it is answered", op)
				}
			}
			s.table.Answered(1)
			if s.table.Repeated(a) || s.table.IsLate(a) || s.table.Has(a, op, f) {
				t.Errorf("%s: it was answered, and the next call is taken for it", op)
			}
			s.late(a, op)
			s.promise(a, "anew", op)
			s.table.Drop(s.table.Get(a))
			s.abandoned("promised anew", "anew")
			if s.table.IsLate(a) {
				t.Errorf("%s: late, and something was promised since", op)
			}
		})
	}
}

// No call counts as repeated for one that is over, or that cannot be told from the next.
func TestNotLateAnyMore(t *testing.T) {
	for name, change := range map[string]func(s *stage, a *thread){
		"another call":            func(s *stage, a *thread) { s.do(func() { a.call.Nr++ }) },
		"another thread":          func(s *stage, a *thread) { s.do(func() { a.start++ }) },
		"it cannot be seen":       func(s *stage, a *thread) { s.do(func() { a.blind = true }) },
		"the same call once more": func(s *stage, a *thread) { s.other(a, sweepPeriod) },
		"it was out of sight": func(s *stage, a *thread) {
			s.do(func() { a.blind = true })
			time.Sleep(lateFor + 2*sweepPeriod)
			s.do(func() { a.blind = false })
		},
	} {
		t.Run(name, func(t *testing.T) {
			onStage(t, func(s *stage) {
				a := s.starts(1, 10)
				s.late(a, "open")
				change(s, a)
				if s.table.IsLate(a) || s.table.Has(a, "open", f) || s.table.Repeated(a) {
					t.Error("it is late")
				}
			})
		})
	}
	onStage(t, func(s *stage) {
		a := s.starts(1, 10)
		s.do(func() { a.blind = true })
		s.late(a, "open")
		s.do(func() { a.blind = false })
		s.late(a, Wait)
		if s.table.IsLate(a) || s.table.Repeated(a) {
			t.Error("late, and was not told to walk again in the call that it is in")
		}
	})
}

// A late thread that finds its name gone is not answered if that ends its operation: its next
// call was not told to walk again.
func TestLateFindsNothing(t *testing.T) {
	for _, c := range []struct {
		name string
		of   int32
		ends bool
		late bool
	}{
		{"f", 1, true, false},
		{"f", 1, false, true},
		{"g", 1, true, true},
		{"f", 2, true, true},
	} {
		onStage(t, func(s *stage) {
			a, b := s.starts(1, 10), s.starts(2, 10)
			s.late(a, "open")
			finds := map[int32]*thread{1: a, 2: b}[c.of]
			s.table.Missed(finds, c.name, func(op string) bool { return op == "open" && c.ends })
			if s.table.IsLate(a) != c.late {
				t.Errorf("thread %d finds %s gone, which ends its call: %v. Late: %v", c.of, c.name, c.ends, !c.late)
			}
		})
	}
}

// other lets a thread be in another call for a while.
func (s *stage) other(a *thread, d time.Duration) {
	s.do(func() { a.call.Nr++ })
	time.Sleep(2 * d)
	s.do(func() { a.call.Nr-- })
}

// A thread that waits for a processor stays late, and one that is gone is forgotten.
func TestLateIsSwept(t *testing.T) {
	onStage(t, func(s *stage) {
		a, b := s.starts(1, 10), s.starts(2, 10)
		s.late(a, "open")
		s.do(func() { a.blind = true })
		time.Sleep(lateFor / 2)
		s.do(func() { a.blind = false })
		if !s.table.IsLate(a) {
			t.Error("forgotten while it waits")
		}
		s.late(b, "open")
		s.do(func() { clear(s.threads) })
		time.Sleep(2 * sweepPeriod)
		if n := s.table.lags.Load(); n != 0 {
			t.Errorf("%d late threads are gone, and known", n)
		}
	})
}
