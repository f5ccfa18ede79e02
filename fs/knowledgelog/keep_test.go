package knowledgelog

import (
	"os"
	"slices"
	"strings"
	"testing"
	"testing/synctest"
	"time"

	"latchfs/lockmgr/knowledge"
)

// keep runs Keep of a log in virtual time, while something happens.
func (s *state) keep(sweep func(now time.Time), during func(l *Log, table *knowledge.Table)) {
	s.t.Helper()
	synctest.Test(s.t, func(t *testing.T) {
		l, table := s.open(boot)
		done, ended := make(chan struct{}), make(chan struct{})
		go func() {
			l.Keep(done, sweep)
			close(ended)
		}()
		during(l, table)
		close(done)
		<-ended
		if err := l.Close(); err != nil {
			t.Error(err)
		}
	})
}

// pass lets virtual time pass.
func pass(d time.Duration) {
	time.Sleep(d)
	synctest.Wait()
}

func noSweep(time.Time) {}

// What is new is in the file after writeEvery, and not before.
func TestKeepWritesInTime(t *testing.T) {
	s := newState(t)
	s.keep(noSweep, func(_ *Log, table *knowledge.Table) {
		empty := s.size(Name)
		for i := range 5 {
			note(table, knowledge.Key(rune('a'+i)), 7)
			pass(writeEvery - time.Nanosecond)
			if size := s.size(Name); size != empty {
				t.Errorf("round %d: written too early", i)
			}
			pass(time.Nanosecond)
			size := s.size(Name)
			if size <= empty {
				t.Errorf("round %d: not written in time", i)
			}
			empty = size
		}
	})
	if len(s.told) > 0 {
		t.Errorf("told %q", s.told)
	}
}

// What counts no more is swept each minute, at the time that it is then.
func TestKeepSweepsEachMinute(t *testing.T) {
	s := newState(t)
	var swept []time.Time
	s.keep(func(now time.Time) { swept = append(swept, now) }, func(*Log, *knowledge.Table) {
		began := time.Now()
		pass(3*time.Minute + 10*time.Second)
		var after []time.Duration
		for _, at := range swept {
			after = append(after, at.Sub(began))
		}
		// With the first write that is more than a minute after the last sweep.
		want := []time.Duration{sweepEvery + writeEvery, 2 * (sweepEvery + writeEvery), 3 * (sweepEvery + writeEvery)}
		if !slices.Equal(after, want) {
			t.Errorf("swept after %v, want %v", after, want)
		}
	})
}

// Who is slow comes more seldom: a look that takes a second is the last one for fifty.
func TestKeepRests(t *testing.T) {
	s := newState(t)
	s.keep(func(time.Time) { time.Sleep(time.Second) }, func(_ *Log, table *knowledge.Table) {
		pass(sweepEvery + writeEvery + time.Second) // the sweep has ended now
		before := s.size(Name)
		note(table, "new", 7)
		pass(50*time.Second - time.Nanosecond)
		if s.size(Name) != before {
			t.Error("it did not rest")
		}
		pass(time.Nanosecond)
		if s.size(Name) == before {
			t.Error("it rests too long")
		}
	})
}

// Of a log that cannot be written is told once, until it can be written again.
func TestErrorsAreToldOnce(t *testing.T) {
	s := newState(t)
	block := func() { // a directory that cannot be set aside
		for _, name := range []string{Name, Name + broken} {
			_ = os.Remove(s.path(name))
			if err := os.MkdirAll(s.path(name+"/full"), 0o700); err != nil {
				t.Fatal(err)
			}
		}
	}
	block()
	s.keep(noSweep, func(l *Log, table *knowledge.Table) {
		told := func() (n int) {
			for _, line := range s.told {
				if strings.HasPrefix(line, "what was read will not be known after a restart: "+Name+": ") {
					n++
				}
			}
			return n
		}
		note(table, "f", 7)
		pass(5 * writeEvery)
		if n := told(); n != 1 {
			t.Errorf("told %d times of an error that stays: %q", n, s.told)
		}
		if err := os.RemoveAll(s.path(Name)); err != nil {
			t.Fatal(err)
		}
		pass(writeEvery)
		if n := told(); n != 1 || s.size(Name) == 0 {
			t.Errorf("told %d times, %d bytes are written", n, s.size(Name))
		}
		// It fails again.
		l.mu.Lock()
		l.file.Close()
		l.mu.Unlock()
		note(table, "g", 7)
		pass(3 * writeEvery)
		if n := told(); n != 2 {
			t.Errorf("told %d times of two errors: %q", n, s.told)
		}
		l.mu.Lock()
		l.file = nil // opened anew
		l.mu.Unlock()
		pass(writeEvery)
	})
	if _, table := s.open(boot); !isKnown(table, "f", 7) || !isKnown(table, "g", 7) {
		t.Errorf("what could not be written at first is forgotten: %q", s.told)
	}
}

// An error of the end is told, and one that is known is not told again.
func TestErrorOfTheEnd(t *testing.T) {
	for _, known := range []bool{false, true} {
		s := newState(t)
		l, table := s.open(boot)
		note(table, "f", 7)
		l.file.Close()
		if known {
			if err := l.Write(); err == nil || len(s.told) != 1 {
				t.Errorf("%v, told %q", err, s.told)
			}
		}
		if err := l.Close(); err == nil || len(s.told) != 1 {
			t.Errorf("known %v: %v, told %q", known, err, s.told)
		}
	}
}
