package lockwait

import (
	"errors"
	"testing"
	"time"

	"latchfs/fs/denied"
	"latchfs/lockmgr"
	"latchfs/lockmgr/proc"
)

// Whoever has the lock does not wait, whatever else is the case.
func TestHeldAlready(t *testing.T) {
	onStage(t, func(s *stage) {
		close(s.stop)
		w := s.wait(lockmgr.Session, time.Second)
		for range 50 {
			if err := w.Lock(s.lock(lockmgr.Session), s); err != nil {
				t.Fatal(err)
			}
			s.table = lockmgr.New(lockmgr.Options{})
		}
		if !w.Until.IsZero() {
			t.Error("its time has begun")
		}
	})
}

func TestGranted(t *testing.T) {
	onStage(t, func(s *stage) {
		has, l := s.lock(lockmgr.Session), s.lock(lockmgr.Session)
		time.AfterFunc(time.Minute, func() { s.table.Release(has) })
		if err := s.wait(lockmgr.Session, time.Hour).Lock(l, s); err != nil || !l.Held() {
			t.Errorf("%v; held: %t", err, l.Held())
		}
		s.after(time.Minute)
	})
}

// What the lock table says, or somebody through it, is the answer.
func TestRefused(t *testing.T) {
	onStage(t, func(s *stage) {
		s.lock(lockmgr.Session)
		l := s.lock(lockmgr.Session)
		time.AfterFunc(time.Minute, func() { s.table.Cancel(l, denied.ErrTurnedAway) })
		if err := s.wait(lockmgr.Session, time.Hour).Lock(l, s); err != denied.ErrTurnedAway {
			t.Error(err)
		}
	})
}

// A request has one limit for all its waits.
func TestTimeout(t *testing.T) {
	onStage(t, func(s *stage) {
		s.lock(lockmgr.Session)
		w := s.wait(lockmgr.Session, time.Minute)
		l := s.lock(lockmgr.Session)
		time.AfterFunc(20*time.Second, func() { s.move(false) })
		if err := w.Lock(l, s); err != nil || l.Held() {
			t.Fatalf("%v; held: %t", err, l.Held())
		}
		s.waiting(1)
		s.after(20 * time.Second)
		denies(t, w.Lock(l, s), denied.ErrTimeout)
		s.after(time.Minute)
		s.waiting(0)
	})
}

// A request without a limit waits until a signal comes.
func TestForEver(t *testing.T) {
	for _, limit := range []time.Duration{0, -1} {
		onStage(t, func(s *stage) {
			s.lock(lockmgr.Session)
			w := s.wait(lockmgr.Session, limit)
			signal := make(chan struct{})
			w.Cancel = signal
			s.setPending(proc.Interrupt)
			time.AfterFunc(1000*time.Hour, func() { close(signal) })
			denies(t, w.Lock(s.lock(lockmgr.Session), s), denied.ErrInterrupted)
			s.after(1000 * time.Hour)
		})
	}
}

func TestStop(t *testing.T) {
	onStage(t, func(s *stage) {
		s.lock(lockmgr.Session)
		time.AfterFunc(time.Minute, func() { close(s.stop) })
		denies(t, s.wait(lockmgr.Session, time.Hour).Lock(s.lock(lockmgr.Session), s), denied.ErrShutdown)
		s.after(time.Minute)
		s.waiting(0)
	})
}

// A grant that comes with the stop is none.
func TestStopWithAGrant(t *testing.T) {
	for range 50 {
		onStage(t, func(s *stage) {
			has, l := s.lock(lockmgr.Session), s.lock(lockmgr.Session)
			s.asked = func() {
				close(s.stop)
				s.table.Release(has)
			}
			time.AfterFunc(time.Minute, func() { s.move(true) })
			if err := s.wait(lockmgr.Session, time.Hour).Lock(l, s); !errors.Is(err, denied.ErrShutdown) || l.Held() {
				t.Errorf("%v; held: %t", err, l.Held())
			}
		})
	}
}

// Which signals end a wait, and when: at is when it ends by them, 0 if it does not.
func TestSignals(t *testing.T) {
	for name, c := range map[string]struct {
		first, then proc.Pending // at the announcement, and from a second after it
		again       bool         // the program tries again
		at          time.Duration
	}{
		"a signal that ends calls":         {proc.Interrupt, proc.Interrupt, false, time.Minute},
		"a stop":                           {proc.Stop, proc.Stop, true, time.Minute},
		"a stop that fails the program":    {proc.Stop, proc.Stop, false, 0},
		"a stop, then a signal":            {proc.Stop, proc.Interrupt, false, time.Minute + time.Second},
		"the freezer":                      {proc.Freeze, proc.Freeze, false, time.Minute},
		"one in passing, then the freezer": {proc.NoReason, proc.Freeze, false, time.Minute + time.Second},
		"nothing any more":                 {proc.Nothing, proc.NoReason, false, time.Minute},
		"one in passing":                   {proc.NoReason, proc.NoReason, false, 0},
		"one in passing, then nothing":     {proc.NoReason, proc.Nothing, false, 0},
		"one in passing, then another one": {proc.NoReason, proc.Interrupt, false, time.Minute + time.Second},
		"one in passing, then a stop":      {proc.NoReason, proc.Stop, true, time.Minute + time.Second},
	} {
		onStage(t, func(s *stage) {
			s.lock(lockmgr.Session)
			w := s.wait(lockmgr.Session, 10*time.Minute)
			signal := make(chan struct{})
			w.Cancel, w.Again = signal, c.again
			s.setPending(c.first)
			time.AfterFunc(time.Minute, func() { close(signal) })
			time.AfterFunc(time.Minute+time.Second-time.Millisecond, func() { s.setPending(c.then) })
			err := w.Lock(s.lock(lockmgr.Session), s)
			if c.at == 0 {
				denies(t, err, denied.ErrTimeout)
				s.after(10 * time.Minute)
				if n, want := s.polls, int(9*time.Minute/SignalPoll); n < want-1 || n > want+1 {
					t.Errorf("%s: %d looks, want %d", name, n, want)
				}
				return
			}
			if !errors.Is(err, denied.ErrInterrupted) {
				t.Errorf("%s: %v", name, err)
			}
			s.after(c.at)
			s.waiting(0)
		})
	}
}

// Without a signal nobody looks for one.
func TestNoSignal(t *testing.T) {
	onStage(t, func(s *stage) {
		s.lock(lockmgr.Session)
		s.setPending(proc.Interrupt)
		denies(t, s.wait(lockmgr.Session, time.Hour).Lock(s.lock(lockmgr.Session), s), denied.ErrTimeout)
		if s.polls > 0 {
			t.Errorf("%d looks", s.polls)
		}
	})
}

// A program that tries again goes on in its place.
func TestKeep(t *testing.T) {
	onStage(t, func(s *stage) {
		has, l := s.lock(lockmgr.Session), s.lock(lockmgr.Session)
		w := s.wait(lockmgr.Session, time.Hour)
		w.Keep = true
		signal := make(chan struct{})
		close(signal)
		w.Cancel = signal
		s.setPending(proc.Interrupt)
		if err := w.Lock(l, s); !errors.Is(err, denied.ErrInterrupted) {
			t.Error(err)
		}
		s.waiting(1)
		later := s.lock(lockmgr.Session)
		w.Cancel = nil
		s.table.Release(has)
		if err := w.Lock(l, s); err != nil || !l.Held() || later.Held() {
			t.Errorf("%v; held: %t, before it: %t", err, l.Held(), later.Held())
		}
	})
}

// Of other ends the place is not kept.
func TestKeepIsForSignals(t *testing.T) {
	onStage(t, func(s *stage) {
		s.lock(lockmgr.Session)
		w := s.wait(lockmgr.Session, time.Minute)
		w.Keep = true
		denies(t, w.Lock(s.lock(lockmgr.Session), s), denied.ErrTimeout)
		s.waiting(0)
	})
}

// Renames of other files do not end a wait; of one they do, and it is not given up.
func TestMoves(t *testing.T) {
	onStage(t, func(s *stage) {
		s.lock(lockmgr.Session)
		l := s.lock(lockmgr.Session)
		for i := range 3 {
			time.AfterFunc(time.Duration(i+1)*time.Minute, func() { s.move(i < 2) })
		}
		if err := s.wait(lockmgr.Session, time.Hour).Lock(l, s); err != nil || l.Held() {
			t.Errorf("%v; held: %t", err, l.Held())
		}
		s.after(3 * time.Minute)
		s.waiting(1)
	})
}

// What becomes of a lock that was granted when its request gives up.
func TestGiveUpAfterTheGrant(t *testing.T) {
	for _, c := range []struct {
		class       lockmgr.Class
		cause       error
		err, isHeld bool
	}{
		{lockmgr.Session, denied.ErrTimeout, false, true},
		{lockmgr.Session, denied.ErrInterrupted, true, false},
		{lockmgr.Session, denied.ErrShutdown, true, false},
		{lockmgr.Flock, denied.ErrTimeout, false, true},
		{lockmgr.Flock, denied.ErrInterrupted, false, true},
		{lockmgr.Flock, denied.ErrShutdown, true, false},
	} {
		onStage(t, func(s *stage) {
			l := s.lock(c.class)
			err := s.wait(c.class, time.Second).GiveUp(l, c.cause)
			if (err != nil) != c.err || c.err && !errors.Is(err, c.cause) || l.Held() != c.isHeld {
				t.Errorf("%v, %v: %v; held: %t", c.class, c.cause, err, l.Held())
			}
		})
	}
}

// A client's lock that has become part of another one has had its grant, and stays.
func TestGiveUpWhatWasReplaced(t *testing.T) {
	for _, cause := range []error{denied.ErrTimeout, denied.ErrInterrupted, denied.ErrShutdown} {
		onStage(t, func(s *stage) {
			l := s.lock(lockmgr.Flock)
			again, err := s.table.Acquire(s.request(lockmgr.Flock, s.client))
			if err != nil || l.Held() {
				t.Fatalf("%v; held: %t", err, l.Held())
			}
			if err := s.wait(lockmgr.Flock, time.Second).GiveUp(l, cause); err != nil || !again.Held() {
				t.Errorf("%v: %v; held: %t", cause, err, again.Held())
			}
		})
	}
}

// A wait for a client's lock is over when that is granted, even if another thread has
// given it back before the waiter looks.
func TestGrantedAndUndone(t *testing.T) {
	onStage(t, func(s *stage) {
		has, l := s.lock(lockmgr.Flock), s.lock(lockmgr.Flock)
		time.AfterFunc(time.Minute, func() {
			s.table.Release(has)
			s.table.Release(l)
		})
		w := s.wait(lockmgr.Flock, time.Hour)
		if err := w.Lock(l, s); err != nil || !IsGranted(l, lockmgr.Flock) {
			t.Error(err)
		}
		if err := w.Lock(l, s); err != nil { // and it does not wait for it again
			t.Error(err)
		}
		s.after(time.Minute)
		if IsGranted(l, lockmgr.Session) {
			t.Error("a session's lock that was released is none")
		}
	})
}

// A refusal in the same moment is one.
func TestGiveUpAfterARefusal(t *testing.T) {
	onStage(t, func(s *stage) {
		s.lock(lockmgr.Session)
		l := s.lock(lockmgr.Session)
		s.table.Cancel(l, denied.ErrTurnedAway)
		if err := s.wait(lockmgr.Session, time.Second).GiveUp(l, denied.ErrTimeout); !errors.Is(err, denied.ErrTimeout) {
			t.Error(err)
		}
	})
}

// A wait for something else ends in the same ways.
func TestFor(t *testing.T) {
	for name, c := range map[string]struct {
		over, stop, signal time.Duration
		want               error
		at                 time.Duration
	}{
		"it is over":     {over: time.Minute, at: time.Minute},
		"it is too long": {want: denied.ErrTimeout, at: time.Hour},
		"the mount ends": {stop: time.Minute, want: denied.ErrShutdown, at: time.Minute},
		"a signal comes": {signal: time.Minute, want: denied.ErrInterrupted, at: time.Minute},
	} {
		onStage(t, func(s *stage) {
			over, signal := make(chan struct{}), make(chan struct{})
			for ch, at := range map[chan struct{}]time.Duration{over: c.over, s.stop: c.stop, signal: c.signal} {
				if at > 0 {
					time.AfterFunc(at, func() { close(ch) })
				}
			}
			s.setPending(proc.Interrupt)
			w := s.wait(lockmgr.Session, time.Hour)
			w.Cancel = signal
			if err := w.For(over); err != c.want {
				t.Errorf("%s: %v, want %v", name, err, c.want)
			}
			s.after(c.at)
		})
	}
}
