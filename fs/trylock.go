package fs

import (
	"errors"
	"time"

	"latchfs/fs/denied"
	"latchfs/lockmgr"
	"latchfs/lockmgr/proc"
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
		if x.Class == lockmgr.Session || x.Token == 0 || x.Owner.PID == 0 {
			return nil, false
		}
		for _, h := range f.lockedThrough(client{x.Class, x.Client}) {
			end := h.end()
			w, r, err := f.proc.Opens(x.Owner.PID, f.procFile(h.n))
			if err != nil || w+r > 0 {
				return nil, false
			}
			ends = append(ends, end)
		}
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

// lockedThrough lists the handles through which the client has locked.
func (f *FS) lockedThrough(c client) (out []*handle) {
	if c.class == lockmgr.Flock {
		if h := f.handleOf(c.id); h != nil {
			out = append(out, h)
		}
		return out
	}
	for _, h := range f.handlesWhere(func(h *handle) bool { return h.n.posix }) {
		if h.knows(c) {
			out = append(out, h)
		}
	}
	return out
}

// procFile is n as /proc shows it to processes that have it open.
func (f *FS) procFile(n *inode) proc.File {
	f.mu.Lock()
	key := n.key
	if n.shownAs != (inoKey{}) {
		key = n.shownAs
	}
	f.mu.Unlock()
	return proc.File{Dev: f.mountDev, Ino: f.inoFor(key.dev, key.ino), MountID: f.mountID}
}

// end returns a channel that is closed when locks taken through h next end with it.
func (h *handle) end() <-chan struct{} {
	h.mu.Lock()
	defer h.mu.Unlock()
	if h.unlocked == nil {
		h.unlocked = make(chan struct{})
	}
	return h.unlocked
}

func (h *handle) announceEnd() {
	h.mu.Lock()
	defer h.mu.Unlock()
	if h.unlocked != nil {
		close(h.unlocked)
		h.unlocked = nil
	}
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
