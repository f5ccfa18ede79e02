package fs

import (
	"sync"
	"sync/atomic"

	"latchfs/lockmgr"
)

// life says whether the mount stands, is being stopped, or is gone.
type life struct {
	stopping chan struct{} // closed when a stop begins: new sessions are held back
	timeUp   chan struct{} // closed when sessions have had their time to finish, and waiters are to give up
	done     chan struct{} // closed when the mount is gone

	stopOnce, timeUpOnce, doneOnce, cleanOnce sync.Once

	begun atomic.Bool // Begin has succeeded
	stops atomic.Bool // stopping is closed, or is about to be

	disk  *disk
	nodes *nodes
	rules *rules
}

// beginStop lets what is open finish: from now on new sessions are held back.
func (lf *life) beginStop() {
	lf.stops.Store(true)
	lf.stopOnce.Do(func() { close(lf.stopping) })
}

// isTimeUp reports whether the time to finish is over.
func (lf *life) isTimeUp() bool {
	select {
	case <-lf.timeUp:
		return true
	default:
		return false
	}
}

// shutdownNotice is what people are told who ask for a lock while the mount is being stopped.
func (lf *life) shutdownNotice() string {
	return "latchfs on " + lf.disk.opts.Mountpoint + " is shutting down; try again in a moment"
}

// isDrained reports whether no session is open or gives its lock back, and no operation has the
// lock for which it has waited. Such an operation is about to be done, or to begin a session; and
// whoever waits for the lock of a session is served as soon as the session has ended.
func (lf *life) isDrained() bool {
	if lf.running() > 0 {
		return false
	}
	held := lf.rules.table.Snapshot().Held
	for i := range held {
		lb, _ := held[i].Label.(*label)
		if held[i].Class == lockmgr.Session && lb != nil && lb.claim == nil && lb.read == nil {
			return false
		}
	}
	return lf.running() == 0
}

// isStopping reports whether a stop has begun: new sessions are held back, and
// refused in the end.
func (lf *life) isStopping() bool { return lf.stops.Load() }

// isOver reports whether the mount is gone, and the kernel's ear with it.
func (lf *life) isOver() bool {
	select {
	case <-lf.done:
		return true
	default:
		return false
	}
}

func (lf *life) running() int {
	lf.nodes.mu.Lock()
	defer lf.nodes.mu.Unlock()
	n := 0
	for s := range lf.nodes.sessions {
		if !s.over {
			n++
		}
	}
	return n
}
