package fs

import (
	"errors"
	"time"

	"latchfs/lockmgr"
	"latchfs/lockmgr/proc"
)

// sweep drops the entries of threads that are gone and of calls that were
// never repeated. It runs while there are entries.
func (ws *walks) sweep() {
	t := time.NewTicker(25 * time.Millisecond)
	defer t.Stop()
	for {
		select {
		case <-ws.f.done:
			return
		case <-ws.wake:
		}
		for ws.any() {
			select {
			case <-ws.f.done:
				return
			case <-t.C:
			}
			ws.sweepOnce(time.Now())
		}
	}
}

func (ws *walks) sweepOnce(now time.Time) {
	ws.mu.Lock()
	all := make([]*walk, 0, len(ws.m))
	for _, w := range ws.m {
		if !w.busy {
			all = append(all, w)
		}
	}
	ws.mu.Unlock()
	for _, w := range all {
		th, err := ws.f.proc.Thread(uint32(w.tid))
		over := err != nil && !errors.Is(err, proc.ErrBusy) || err == nil && th.Start != w.start
		if !over && w.op != opWait {
			over = w.isOver(ws.f.proc.Syscall(uint32(w.tid)))
		}
		ws.mu.Lock()
		over = (over || now.After(w.until)) && !w.busy && ws.m[w.tid] == w
		if over {
			delete(ws.m, w.tid)
			ws.n.Add(-1)
		}
		ws.mu.Unlock()
		if over {
			ws.f.countParked(w, -1)
			ws.f.dropWalk(w)
		}
	}
}

// startParking marks that a request waits for w's lock, so that the sweeper leaves
// it; false if w is not to be waited for.
func (ws *walks) startParking(w *walk) bool {
	ws.mu.Lock()
	defer ws.mu.Unlock()
	if ws.m[w.tid] != w || w.busy || w.parked {
		return false
	}
	w.busy = true
	return true
}

// parkedFor ends that: the thread waited for l, which is its own now.
func (ws *walks) parkedFor(w *walk, l *lockmgr.Lock) {
	ws.mu.Lock()
	defer ws.mu.Unlock()
	w.lock, w.parked = l, true
}

// stopParking lets the sweeper have the entry again.
func (ws *walks) stopParking(w *walk) {
	ws.mu.Lock()
	defer ws.mu.Unlock()
	w.busy = false
	w.until = time.Now().Add(walkGrace)
}
