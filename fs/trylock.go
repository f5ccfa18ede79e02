package fs

import (
	"latchfs/fs/lockwait"
	"latchfs/lockmgr"
)

var (
	_ lockwait.Demand = (*demand)(nil)
	_ lockwait.Names  = (*demand)(nil)
)

// acquireOrClosed is acquire for a program's own lock, and for an open: one that does not
// wait gets what its holders have closed.
func (lk *locks) acquireOrClosed(d *demand, noWait bool) (*lockmgr.Lock, error) {
	if noWait {
		return lockwait.Try(d)
	}
	return lk.acquire(d, false)
}

// Try implements lockwait.Demand.
func (d *demand) Try() (*lockmgr.Lock, error) { return d.c.f.locks.acquire(d, true) }

// Leaving implements lockwait.Demand.
func (d *demand) Leaving(holders []lockmgr.Holder) (ends []<-chan struct{}, all bool) {
	for i := range holders {
		x := &holders[i]
		if s := sessionOf(x); s != nil && s.isLeft() {
			ends = append(ends, s.state.Freed())
			continue
		}
		of, left := d.c.f.locks.advisory.Leaving(x)
		if !left {
			return nil, false
		}
		ends = append(ends, of...)
	}
	return ends, true
}

// MayHaveLeft implements lockwait.Demand.
func (d *demand) MayHaveLeft(h *lockmgr.Holder) bool {
	s := sessionOf(h)
	return h.Class == lockmgr.Flock || s != nil && s.isLeft()
}

// sessionOf is the session whose lock it is, nil if it is none's.
func sessionOf(h *lockmgr.Holder) *session {
	lb, _ := h.Label.(*label)
	if lb == nil {
		return nil
	}
	return lb.session.Load()
}
