package fs

import (
	"golang.org/x/sys/unix"

	"latchfs/fs/denied"
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

// isFinishing reports whether the caller has part in an open session, or descends
// from its owner: what it opens may be needed to finish that.
func (pk *parking) isFinishing(c *caller) bool {
	pk.nodes.mu.Lock()
	open := make([]*session, 0, len(pk.nodes.sessions))
	for s := range pk.nodes.sessions {
		if !s.over && !s.idle.Load() {
			open = append(open, s)
		}
	}
	pk.nodes.mu.Unlock()
	for _, s := range open {
		if c.BelongsTo(s.who.Load()) {
			return true
		}
	}
	return false
}

// isHeldBack reports whether a new session of the caller has to wait, or is refused
// altogether.
func (pk *parking) isHeldBack(c *caller) bool {
	return pk.life.isStopping() && (pk.life.isTimeUp() || !pk.isFinishing(c))
}

// holdBack lets an operation that would begin a session wait while others finish, as
// long as it would wait for a lock. No lock of the kernel must be held.
func (pk *parking) holdBack(d *demand, cancel <-chan struct{}) unix.Errno {
	if !pk.isHeldBack(d.c) {
		return 0
	}
	err := denied.ErrShutdown
	if d.wait != 0 && pk.locks.waiting(d, cancel).For(nil) == denied.ErrInterrupted {
		err = denied.ErrInterrupted
	}
	return pk.locks.refuse(d, err)
}

// holdBackWalk is holdBack for an operation under the kernel's locks: the caller is
// sent to wait on its second walk.
func (pk *parking) holdBackWalk(c *caller, w *walk, repeated bool) unix.Errno {
	if repeated || pk.life.isTimeUp() || w.d.wait == 0 || c.TID() == 0 || !pk.repeats(c, w.Op) {
		return pk.locks.refuse(w.d, denied.ErrShutdown)
	}
	_, e := pk.sendBack(c, w)
	return e
}

// beginsSession reports whether an operation on a name, rather than change the name
// at once, begins a session.
func beginsSession(op string) bool { return op == opOpen || op == opTruncate }
