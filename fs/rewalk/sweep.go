package rewalk

import (
	"errors"
	"time"

	"latchfs/lockmgr/proc"
)

// Sweep abandons the promises of threads that are gone, of calls that were never repeated, and
// of threads that are late, until done is closed.
func (t *Table[P, W]) Sweep(done <-chan struct{}) {
	tick := time.NewTicker(sweepPeriod)
	defer tick.Stop()
	for {
		select {
		case <-done:
			return
		case <-t.wake:
		}
		for t.Any() || t.AnyLate() {
			select {
			case <-done:
				return
			case <-tick.C:
			}
			now := time.Now()
			t.sweepOnce(now)
			t.sweepLate(now)
		}
	}
}

func (t *Table[P, W]) sweepOnce(now time.Time) {
	for _, w := range t.All(func(w W) bool { return !w.Promised().busy }) {
		p := w.Promised()
		th, err := t.engine.Thread(uint32(p.tid))
		over := err != nil && !errors.Is(err, proc.ErrBusy) || err == nil && th.Start != p.start
		if !over && p.Op != Wait {
			over = p.isOver(t.engine.Syscall(uint32(p.tid)))
		}
		if t.removeIf(w, func() bool {
			ends := (over || now.After(p.until)) && !p.busy
			if ends && !over {
				t.noteLateLocked(p, now)
			}
			return ends
		}) {
			t.engine.Abandon(w)
		}
	}
}

// Park marks that a request of the thread waits for what was promised, so that the sweeper
// leaves the entry; false if it is not to wait.
func (t *Table[P, W]) Park(w W) bool {
	t.mu.Lock()
	defer t.mu.Unlock()
	p := w.Promised()
	if t.m[p.tid] != w || p.busy || p.parked || p.Unparked {
		return false
	}
	p.busy = true
	return true
}

// Parked notes that the thread has waited, and what for; it does so once.
func (t *Table[P, W]) Parked(w W, what func()) {
	t.mu.Lock()
	defer t.mu.Unlock()
	w.Promised().parked = true
	what()
}

// Unpark lets the sweeper have the entry again.
func (t *Table[P, W]) Unpark(w W) {
	t.mu.Lock()
	defer t.mu.Unlock()
	w.Promised().busy = false
	w.Promised().until = time.Now().Add(KeptFor)
}
