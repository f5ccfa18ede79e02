package fs

import (
	"math"

	"golang.org/x/sys/unix"

	"latchfs/fs/advisory"
	"latchfs/lockmgr"
)

// ownLocks answers for the locks that programs take by themselves: flock(2) and fcntl(2).
type ownLocks struct {
	*ground
	*engine
}

// The kernel's requests for flock(2), fcntl(2) and open file description locks: what they
// mean is package advisory's.

// lockRequest is what a program asks for.
func (ol *ownLocks) lockRequest(in *LockRequest, h *handle) *advisory.Request {
	q := &advisory.Request{
		File: h, By: ol.callers.callerOf(&in.Request), Path: ol.nodes.nodePath(h.n), Class: lockmgr.Posix, Mode: lockmgr.Shared,
		Number: in.Owner, Range: lockmgr.Range{Start: in.Lock.Start, End: min(in.Lock.End, math.MaxInt64)},
	}
	if in.Lock.Type == unix.F_WRLCK {
		q.Mode = lockmgr.Exclusive
	}
	if in.Flock {
		q.Class = lockmgr.Flock
		ol.losses.noteLockAsked(h)
	}
	return q
}

// GetLk finds out which lock would be in the way: F_GETLK of fcntl(2). Its type is F_UNLCK
// if none would.
func (ol *ownLocks) GetLk(_ <-chan struct{}, in *LockRequest) (FileLock, unix.Errno) {
	h := ol.handles.handleOf(in.Handle)
	if h == nil || isVirtual(in.Node) {
		return FileLock{}, unix.EBADF
	}
	holder := ol.locks.advisory.Test(ol.lockRequest(in, h))
	if holder == nil {
		found := in.Lock
		found.Type = unix.F_UNLCK
		return found, 0
	}
	found := FileLock{Start: 0, End: math.MaxInt64, Type: unix.F_WRLCK, PID: uint32(holder.Owner.PID)}
	if holder.Mode == lockmgr.Shared {
		found.Type = unix.F_RDLCK
	}
	if holder.Class == lockmgr.Posix {
		found.Start, found.End = holder.Range.Start, holder.Range.End
	}
	return found, 0
}

// SetLk takes a lock or gives it back, and waits for nobody: F_SETLK, LOCK_NB, and every
// unlock.
func (ol *ownLocks) SetLk(_ <-chan struct{}, in *LockRequest) unix.Errno {
	return ol.setlk(nil, in, true)
}

// SetLkw takes a lock: F_SETLKW of fcntl(2), flock(2). It waits as long as
// the program asked to: until a signal.
func (ol *ownLocks) SetLkw(cancel <-chan struct{}, in *LockRequest) unix.Errno {
	return ol.setlk(cancel, in, false)
}

func (ol *ownLocks) setlk(cancel <-chan struct{}, in *LockRequest, noWait bool) unix.Errno {
	h := ol.handles.handleOf(in.Handle)
	if h == nil {
		return unix.EBADF
	}
	q := ol.lockRequest(in, h)
	q.Cancel, q.NoWait = cancel, noWait
	if in.Lock.Type == unix.F_UNLCK {
		ol.locks.advisory.Unlock(q)
		return 0
	}
	l, e := ol.locks.advisory.Lock(q)
	if e != 0 {
		return e
	}
	ol.locks.readClaims.Locked(l.Owner(), q.Path)
	return 0
}
