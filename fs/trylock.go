package fs

import (
	"latchfs/fs/lockwait"
	"latchfs/lockmgr"
)

var (
	_ lockwait.Demand = wanted{}
	_ lockwait.Names  = wanted{}
)

// acquireOrClosed is acquire for a program's own lock, and for an open: one that does not
// wait gets what its holders have closed.
func (lk *locks) acquireOrClosed(d *demand, noWait bool) (*lockmgr.Lock, error) {
	if noWait {
		return lockwait.Try(wanted{lk, d})
	}
	return lk.acquire(d, false)
}

// wanted is what a demand is for, as package lockwait needs it.
type wanted struct {
	*locks
	d *demand
}

// Try implements lockwait.Demand.
func (w wanted) Try() (*lockmgr.Lock, error) { return w.acquire(w.d, true) }

// Leaving implements lockwait.Demand.
func (w wanted) Leaving(holders []lockmgr.Holder) (ends []<-chan struct{}, all bool) {
	for i := range holders {
		x := &holders[i]
		if s := sessionOf(x); s != nil && s.isLeft() {
			ends = append(ends, s.state.Freed())
			continue
		}
		of, left := w.advisory.Leaving(x)
		if !left {
			return nil, false
		}
		ends = append(ends, of...)
	}
	return ends, true
}

// MayHaveLeft implements lockwait.Demand.
func (w wanted) MayHaveLeft(h *lockmgr.Holder) bool {
	s := sessionOf(h)
	return h.Class == lockmgr.Flock || s != nil && s.isLeft()
}

// MayGoOn implements lockwait.Demand: a program with several threads may.
func (w wanted) MayGoOn(h *lockmgr.Holder) bool {
	p, err := w.callers.proc.Pulse(h.Owner.PID)
	return err == nil && p.Start == h.Owner.Start && p.Threads > 1
}

// IsOver implements lockwait.Demand.
func (w wanted) IsOver() bool {
	select {
	case <-w.life.stopping:
		return true
	case <-w.d.patient:
		return w.callers.proc.Pending(w.d.c.TID()).Ends(false, w.d.triesAgain())
	default:
		return false
	}
}

// sessionOf is the session whose lock it is, nil if it is none's.
func sessionOf(h *lockmgr.Holder) *session {
	lb, _ := h.Label.(*label)
	if lb == nil {
		return nil
	}
	return lb.session.Load()
}

// Moves implements lockwait.Names.
func (w wanted) Moves() <-chan struct{} {
	w.nodes.mu.Lock()
	defer w.nodes.mu.Unlock()
	return w.nodes.moves
}

// Covers implements lockwait.Names.
func (w wanted) Covers(l *lockmgr.Lock) bool { return w.covers(l, w.d) }
