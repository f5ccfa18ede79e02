package fs

import (
	"errors"
	"time"

	"latchfs/fs/denied"
	"latchfs/lockmgr"
)

// A program that does not wait for a lock which another has just given up, by close
// or exit, expects to get it. But RELEASE, which ends the lock here, is sent when
// close has returned.

// releaseGrace is how long RELEASE is waited for.
const releaseGrace = lateGrace

// acquireOrClosed is acquire for a program's own lock, and for an open. A request that
// does not wait waits for the RELEASE of files that their lockers have closed, and of
// those that were opened for writing, closed and not written. It stands in no queue
// meanwhile, where it would keep out others.
func (f *FS) acquireOrClosed(d *demand, noWait bool) (*lockmgr.Lock, error) {
	l, err := f.acquire(d, noWait)
	if !noWait || !errors.Is(err, lockmgr.ErrWouldBlock) {
		return l, err
	}
	timer := time.NewTimer(releaseGrace)
	defer timer.Stop()
	for errors.Is(err, lockmgr.ErrWouldBlock) {
		ends, all := f.leaving(denied.Holders(err))
		if !all {
			return nil, err
		}
		// Whoever left before the look at it announces no end any more.
		if l, err = f.acquire(d, true); !errors.Is(err, lockmgr.ErrWouldBlock) {
			break
		}
		over := !awaitAll(ends, timer.C)
		if l, err = f.acquire(d, true); over {
			break
		}
	}
	return l, err
}

// awaitAll waits for all ends; it returns false when the time is over before.
func awaitAll(ends []<-chan struct{}, over <-chan time.Time) bool {
	for _, end := range ends {
		select {
		case <-end:
		case <-over:
			return false
		}
	}
	select {
	case <-over:
		return false
	default:
		return true
	}
}

// leaving reports whether all holders have closed the file or are dead, and returns
// what tells of the end of their locks.
func (f *FS) leaving(holders []lockmgr.Holder) (ends []<-chan struct{}, all bool) {
	for i := range holders {
		x := &holders[i]
		if s := sessionOf(x); s != nil && s.isLeft() {
			ends = append(ends, s.freed)
			continue
		}
		of, left := f.advisory.Leaving(x)
		if !left {
			return nil, false
		}
		ends = append(ends, of...)
	}
	return ends, true
}

// sessionOf is the session whose lock it is, nil if it is none's.
func sessionOf(h *lockmgr.Holder) *session {
	lb, _ := h.Label.(*label)
	if lb == nil {
		return nil
	}
	return lb.session.Load()
}

// outlast waits for the end of a lock in a deadlock's cycle that its holder may
// have closed: RELEASE comes after close has returned, and the holder may wait for
// something else by then. It reports whether the cycle is worth another look.
func outlast(err error, until time.Time) bool {
	var dead *lockmgr.DeadlockError
	if !errors.As(err, &dead) {
		return false
	}
	for _, w := range dead.Cycle {
		b := &w.Blocker
		s := sessionOf(b)
		if b.Class != lockmgr.Flock && (s == nil || !s.isLeft()) {
			continue
		}
		for time.Now().Before(until) {
			time.Sleep(releasePoll)
			if !b.Lock.Held() {
				return true
			}
		}
	}
	return false
}

// releasePoll is how often somebody looks who waits for the end of a lock or of a
// descriptor: nothing announces it.
const releasePoll = time.Millisecond
