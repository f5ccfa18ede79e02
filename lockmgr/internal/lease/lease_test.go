package lease

import (
	"testing"
	"time"
)

var start = time.Unix(1000, 0)

// at is a moment some seconds after the start.
func at(seconds int) time.Time { return start.Add(time.Duration(seconds) * time.Second) }

// A tick is a moment, whenever the first one was; none is zero.
func TestClock(t *testing.T) {
	var c Clock
	if !c.Time(0).IsZero() {
		t.Error("no tick is a moment")
	}
	for _, x := range []int{0, 5, 1, -7} {
		tick := c.Tick(at(x))
		if tick == 0 || !c.Time(tick).Equal(at(x)) {
			t.Errorf("second %d is tick %d, which is %v", x, tick, c.Time(tick))
		}
	}
	if c.Tick(at(5))-c.Tick(at(3)) != Tick(2*time.Second) {
		t.Error("ticks are no nanoseconds")
	}
	// The moment of the epoch itself is not mistaken for none.
	if tick := c.Tick(start.Add(-1)); tick != -1 {
		t.Errorf("tick %d", tick)
	}
}

// lives plays a lease of thirty seconds that starts at once: each step is a heartbeat
// after ten more seconds, which finds the holder alive ('+') or not ('-').
func lives(t *testing.T, c *Clock, steps string, want ...int) *Lease {
	t.Helper()
	l := &Lease{TTL: 30 * time.Second}
	l.Start(c.Tick(start))
	for i, s := range steps {
		if failed := l.Beat(c.Tick(at(10*(i+1))), s == '+'); failed != want[i] {
			t.Errorf("%s: after %d heartbeats %d have failed, not %d", steps, i+1, failed, want[i])
		}
	}
	return l
}

// Three failed heartbeats in a row expire a lease, and a sign of life ends that.
func TestExpiry(t *testing.T) {
	var c Clock
	for _, x := range []struct {
		steps   string
		failed  []int
		expired bool
		alive   int // the second when it was last alive
	}{
		{"", nil, false, 0},
		{"--", []int{1, 2}, false, 0},
		{"---", []int{1, 2, 3}, true, 0},
		{"----", []int{1, 2, 3, 4}, true, 0},
		{"--+--", []int{1, 2, 0, 1, 2}, false, 30},
		{"---+", []int{1, 2, 3, 0}, false, 40},
		{"---+---", []int{1, 2, 3, 0, 1, 2, 3}, true, 40},
	} {
		l := lives(t, &c, x.steps, x.failed...)
		if l.Expired() != x.expired || !c.Time(l.LastAlive()).Equal(at(x.alive)) {
			t.Errorf("%q: expired %v, last alive %v", x.steps, l.Expired(), c.Time(l.LastAlive()))
		}
	}
}

// However many fail, the lease stays expired.
func TestCountEnds(t *testing.T) {
	var c Clock
	l := lives(t, &c, "")
	for i := range 300 {
		failed := l.Beat(c.Tick(at(i)), false)
		if failed != min(i+1, 255) || l.Expired() != (failed >= Heartbeats) {
			t.Fatalf("after %d: %d, expired %v", i+1, failed, l.Expired())
		}
	}
}

// A heartbeat is due a third of the TTL after the last one. Time in which nobody
// looked expires nothing.
func TestDue(t *testing.T) {
	var c Clock
	l := &Lease{TTL: 30 * time.Second}
	look := func(second int, want bool, next int) {
		t.Helper()
		due, when := l.Next(c.Tick(at(second)))
		if due != want || !c.Time(when).Equal(at(next)) {
			t.Errorf("at %d: due %v, next at %v", second, due, c.Time(when))
		}
	}
	if l.HasBegun() || l.LastAlive() != 0 {
		t.Error("it has begun by itself")
	}
	look(100, false, 110) // begins
	if !l.HasBegun() || !c.Time(l.LastAlive()).Equal(at(100)) {
		t.Error("it has not begun")
	}
	look(109, false, 110)
	look(110, true, 120)
	if !c.Time(l.Since()).Equal(at(100)) {
		t.Errorf("asked about since %v", c.Time(l.Since()))
	}
	l.Beat(c.Tick(at(113)), false)
	look(122, false, 123)
	look(9000, true, 9010) // the machine was suspended
	if l.Expired() || !c.Time(l.Since()).Equal(at(113)) {
		t.Errorf("expired %v, since %v", l.Expired(), c.Time(l.Since()))
	}
	if l.Interval() != Tick(10*time.Second) {
		t.Errorf("a heartbeat each %v", time.Duration(l.Interval()))
	}
}
