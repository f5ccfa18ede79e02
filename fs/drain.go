package fs

import (
	"golang.org/x/sys/unix"

	"latchfs/fs/denied"
	"latchfs/lockmgr"
)

// This file is about the time between the order to stop and the end: sessions that
// are open may finish, and what would begin one is held back until the last of them
// has ended.
//
// An operation that was held back gets EBUSY in the end. Nothing was opened or
// truncated for it by then, and every program reports that errno. EINTR would be
// tried again for ever by some, and ESTALE by the kernel at once, on the directory
// below the mount, which is unprotected by then; ENOTCONN would say that the mount is
// broken, and after a restart it is not.

// beginStop lets what is open finish: from here on new sessions are held back.
func (f *FS) beginStop() {
	f.refusing.Store(true)
	f.drainOnce.Do(func() { close(f.draining) })
}

// isStopped reports whether the time to finish is over.
func (f *FS) isStopped() bool {
	select {
	case <-f.closing:
		return true
	default:
		return false
	}
}

// isFinishing reports whether the caller has part in an open session, or descends
// from its owner: what it opens may be needed to finish that.
func (f *FS) isFinishing(c *caller) bool {
	f.mu.Lock()
	open := make([]*session, 0, len(f.sessions))
	for s := range f.sessions {
		if !s.over && !s.idle.Load() {
			open = append(open, s)
		}
	}
	f.mu.Unlock()
	for _, s := range open {
		if c.kinOf(s.who.Load()) {
			return true
		}
	}
	return false
}

// isHeldBack reports whether a new session of the caller has to wait, or is refused
// altogether.
func (f *FS) isHeldBack(c *caller) bool {
	return f.isClosing() && (f.isStopped() || !f.isFinishing(c))
}

// holdBack lets an operation that would begin a session wait while others finish, as
// long as it would wait for a lock. No lock of the kernel must be held.
func (f *FS) holdBack(d *demand, cancel <-chan struct{}) unix.Errno {
	if !f.isHeldBack(d.c) {
		return 0
	}
	err := denied.ErrShutdown
	if d.wait != 0 && d.waiting(cancel).For(nil) == denied.ErrInterrupted {
		err = denied.ErrInterrupted
	}
	return f.refuse(d, err)
}

// holdBackWalk is holdBack for an operation under the kernel's locks: the caller is
// sent to wait on its second walk.
func (f *FS) holdBackWalk(c *caller, w *walk, repeated bool) unix.Errno {
	if repeated || f.isStopped() || w.d.wait == 0 || c.tid == 0 || !f.repeats(c, w.Op) {
		return f.refuse(w.d, denied.ErrShutdown)
	}
	_, e := f.sendBack(c, w)
	return e
}

// shutdownNotice is what people are told who ask for a lock meanwhile.
func (f *FS) shutdownNotice() string {
	return "latchfs on " + f.opts.Mountpoint + " is shutting down; try again in a moment"
}

// beginsSession reports whether an operation on a name, rather than change the name
// at once, begins a session.
func beginsSession(op string) bool { return op == opOpen || op == opTruncate }

// isDrained reports whether no session is open, and no operation has the lock for which it
// has waited: it is about to be done, or to begin a session.
func (f *FS) isDrained() bool {
	if f.running() > 0 {
		return false
	}
	held := f.table.Snapshot().Held
	for i := range held {
		lb, _ := held[i].Label.(*label)
		if held[i].Class == lockmgr.Session && lb != nil && lb.claim == nil && lb.read == nil && lb.session.Load() == nil {
			return false
		}
	}
	return f.running() == 0
}
