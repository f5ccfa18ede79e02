package lockmgr

import (
	"time"

	"latchfs/lockmgr/internal/lease"
	"latchfs/lockmgr/internal/places"
)

// Heartbeats is how many heartbeats there are in a lease: one is due every
// TTL/Heartbeats, and when as many have failed in a row the lease has expired.
const Heartbeats = lease.Heartbeats

// DueLease is a lock whose heartbeat is due: the question is whether its holder
// has shown life since the last one.
type DueLease struct {
	Lock  *Lock
	Owner Owner
	Class Class
	Label any
	Since time.Time
}

// Due returns the held locks whose heartbeat is due at a moment, and when the
// next one will be; zero when no lock has a lease. The lease of a lock that had
// to wait begins when Due first meets it as a holder.
func (t *Table) Due(now time.Time) (due []DueLease, next time.Time) {
	t.mu.Lock()
	defer t.mu.Unlock()
	at, first := t.clock.Tick(now), lease.Tick(0)
	sooner := func(x lease.Tick) {
		if first == 0 || x < first {
			first = x
		}
	}
	for l := t.held.First(); l != nil; l = l.links.Next() {
		if l.lease.TTL == 0 {
			continue
		}
		isDue, next := l.lease.Next(at)
		if isDue {
			due = append(due, DueLease{l, l.stand.Terms.Owner, l.stand.Terms.Class, l.label, t.clock.Time(l.lease.Since())})
		}
		sooner(next)
	}
	for l := t.waiting.First(); l != nil; l = l.links.Next() {
		if l.lease.TTL != 0 {
			sooner(at + l.lease.Interval())
		}
	}
	return due, t.clock.Time(first)
}

// Heartbeat notes whether the holder of a lock has shown life since the last
// heartbeat, and returns how many have failed in a row. With the one at which the
// lease expires, a waiter may steal the lock. For a lock that is not held, or has
// no lease, it does nothing.
func (t *Table) Heartbeat(l *Lock, now time.Time, alive bool) (failed int) {
	t.mu.Lock()
	defer t.mu.Unlock()
	if l.t != t || l.stand.State != places.Held || l.lease.TTL == 0 {
		return 0
	}
	was := l.expired()
	failed = l.lease.Beat(t.clock.Tick(now), alive)
	switch is := l.expired(); {
	case was && !is:
		t.version.Add(1)
		t.lapsed--
	case is && !was:
		t.version.Add(1)
		t.lapsed++
		t.settle()
	}
	return failed
}

// expired reports whether l may be stolen.
func (l *Lock) expired() bool { return l.lease.Expired() }

// theft lets the first waiter steal that may steal all that it waits for among the
// holders. It returns false when there is none.
func (t *Table) theft() bool {
	if t.lapsed == 0 {
		return false
	}
	for w := t.waiting.First(); w != nil; w = w.links.Next() {
		if victims := w.prey(); len(victims) > 0 {
			t.robAll(victims)
			return true
		}
	}
	return false
}

// prey returns the holders in the way of a request, new or waiting, if all of them
// may be stolen by it, otherwise nothing.
func (l *Lock) prey() []*Lock {
	var victims []*Lock
	for at := l.stand.First(); at != nil; at = at.Also() {
		if !at.Node().Held.Clashes(l.stand.Terms.Mode) {
			continue
		}
		for p := at.Node().Held.First(); p != nil; p = p.Next() {
			x := p.Lock()
			switch {
			case !l.stand.BlockedBy(p.Stand(), at.Node()):
			case x.expired() && (x.yields || l.steals):
				victims = append(victims, x)
			default:
				return nil
			}
		}
	}
	return victims
}

func (t *Table) robAll(victims []*Lock) {
	for _, x := range victims {
		if x.stand.State == places.Held {
			t.rob(x)
		}
	}
}

// rob takes a held lock away and remembers it for Stolen.
func (t *Table) rob(x *Lock) {
	t.stolen = append(t.stolen, x.holder(nil))
	t.thefts.Add(1)
	t.end(x, ErrStolen)
}

// Steal revokes a held lock whose lease has expired: from now on Held is false,
// Err is ErrStolen, and a later Release does nothing. Any other lock is left
// alone: ErrActive when it is held and its lease has not expired, ErrNotHeld when
// it is not held.
func (t *Table) Steal(l *Lock) error {
	t.mu.Lock()
	defer t.mu.Unlock()
	switch {
	case l.t != t || l.stand.State != places.Held:
		return ErrNotHeld
	case !l.expired():
		return ErrActive
	}
	t.rob(l)
	t.settle()
	return nil
}

// Revoke is Steal for a lock whose lease may be active. It is for those who may
// always decide about what the lock is on.
func (t *Table) Revoke(l *Lock) error {
	t.mu.Lock()
	defer t.mu.Unlock()
	if l.t != t || l.stand.State != places.Held {
		return ErrNotHeld
	}
	t.rob(l)
	t.settle()
	return nil
}

// Thefts is how many locks have been stolen so far.
func (t *Table) Thefts() uint64 { return t.thefts.Load() }

// Stolen returns, once each, the locks that were stolen since it was last asked,
// as they were before.
func (t *Table) Stolen() []Holder {
	t.mu.Lock()
	defer t.mu.Unlock()
	s := t.stolen
	t.stolen = nil
	return s
}
