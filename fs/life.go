package fs

import (
	"sync"
	"sync/atomic"

	"latchfs/lockmgr"
)

// life says whether the mount stands, is being stopped, or is gone.
type life struct {
	done    chan struct{} // closed when the mount is gone
	closing chan struct{} // closed when waiters are to give up
	// draining is closed when a stop begins, and new sessions are held back.
	draining  chan struct{}
	drainOnce sync.Once
	closeOnce sync.Once
	doneOnce  sync.Once
	cleanOnce sync.Once
	refusing  atomic.Bool // no new sessions: a stop has begun

	disk  *disk
	nodes *nodes
	rules *rules
}

// beginStop lets what is open finish: from here on new sessions are held back.
func (lf *life) beginStop() {
	lf.refusing.Store(true)
	lf.drainOnce.Do(func() { close(lf.draining) })
}

// isStopped reports whether the time to finish is over.
func (lf *life) isStopped() bool {
	select {
	case <-lf.closing:
		return true
	default:
		return false
	}
}

// shutdownNotice is what people are told who ask for a lock meanwhile.
func (lf *life) shutdownNotice() string {
	return "latchfs on " + lf.disk.opts.Mountpoint + " is shutting down; try again in a moment"
}

// isDrained reports whether no session is open, and no operation has the lock for which it
// has waited: it is about to be done, or to begin a session.
func (lf *life) isDrained() bool {
	if lf.running() > 0 {
		return false
	}
	held := lf.rules.table.Snapshot().Held
	for i := range held {
		lb, _ := held[i].Label.(*label)
		if held[i].Class == lockmgr.Session && lb != nil && lb.claim == nil && lb.read == nil && lb.session.Load() == nil {
			return false
		}
	}
	return lf.running() == 0
}

// isClosing reports whether a stop has begun: new sessions are held back, and
// refused in the end.
func (lf *life) isClosing() bool { return lf.refusing.Load() }
