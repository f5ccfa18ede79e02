package lease

import "time"

// Heartbeats is how many heartbeats there are in a lease: one is due every
// TTL/Heartbeats, and when as many have failed in a row the lease has expired.
const Heartbeats = 3

// Tick is a moment in nanoseconds since shortly before the first one that a Clock was
// told of; 0 is none. It takes a third of what a time.Time does.
type Tick int64

// Clock makes ticks of moments. The zero Clock is ready for use.
type Clock struct {
	epoch time.Time
}

// Tick is the tick of a moment.
func (c *Clock) Tick(now time.Time) Tick {
	if c.epoch.IsZero() {
		c.epoch = now.Add(-1)
	}
	if x := Tick(now.Sub(c.epoch)); x != 0 {
		return x
	}
	return -1
}

// Time is the moment of a tick, zero for none.
func (c *Clock) Time(x Tick) time.Time {
	if x == 0 {
		return time.Time{}
	}
	return c.epoch.Add(time.Duration(x))
}

// Lease is one lease. With a TTL, it waits to be started; without one it never expires,
// and only its TTL may be asked for.
type Lease struct {
	// TTL is how long the holder may show no sign of life; 0: there is no lease.
	TTL time.Duration

	beat   Tick  // the last heartbeat that did not fail
	due    Tick  // when the next one is due; 0 before the start
	failed uint8 // heartbeats in a row
}

// Interval is the time between two heartbeats.
func (l *Lease) Interval() Tick { return Tick(l.TTL / Heartbeats) }

// HasBegun reports whether the lease has been started.
func (l *Lease) HasBegun() bool { return l.due != 0 }

// Start gives the holder a whole TTL from now on.
func (l *Lease) Start(now Tick) {
	l.beat = now
	l.due, l.failed = now+l.Interval(), 0
}

// Next starts a lease that has not begun. It reports whether a heartbeat is due, and
// when to look next.
func (l *Lease) Next(now Tick) (due bool, next Tick) {
	switch {
	case l.due == 0:
		l.Start(now)
	case now >= l.due:
		return true, now + l.Interval()
	}
	return false, l.due
}

// Since is the beginning of the time that the next heartbeat asks about: whether the
// holder has shown life since then.
func (l *Lease) Since() Tick { return l.due - l.Interval() }

// LastAlive is when the last heartbeat was that did not fail; 0 before the start.
func (l *Lease) LastAlive() Tick { return l.beat }

// Beat notes a heartbeat, and returns how many have failed in a row; of more than 255
// it counts no more.
func (l *Lease) Beat(now Tick, alive bool) (failed int) {
	if alive {
		l.Start(now)
		return 0
	}
	l.due = now + l.Interval()
	if l.failed < ^uint8(0) {
		l.failed++
	}
	return l.Failed()
}

// Failed is how many heartbeats have failed in a row.
func (l *Lease) Failed() int { return int(l.failed) }

// Expired reports whether the lease has expired.
func (l *Lease) Expired() bool { return l.failed >= Heartbeats }
