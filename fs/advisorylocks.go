package fs

import (
	"math"

	"golang.org/x/sys/unix"

	"latchfs/fs/advisory"
	"latchfs/lockmgr"
)

// advisoryLocks answers for the locks that programs take by themselves: flock(2) and fcntl(2).
type advisoryLocks struct {
	*ground
	*engine
}

// The kernel's requests for flock(2), fcntl(2) and open file description locks: what they
// mean is package advisory's.

// lockRequest is what a program asks for.
func (al *advisoryLocks) lockRequest(in *LockRequest, h *handle) *advisory.Request {
	q := &advisory.Request{
		File: h, By: al.callers.callerOf(&in.Request), Path: al.nodes.nodePath(h.n), Class: lockmgr.Posix, Mode: lockmgr.Shared,
		Number: in.Owner, Range: lockmgr.Range{Start: in.Lock.Start, End: min(in.Lock.End, math.MaxInt64)},
	}
	if in.Lock.Type == unix.F_WRLCK {
		q.Mode = lockmgr.Exclusive
	}
	if in.Flock {
		q.Class = lockmgr.Flock
		al.losses.noteLockAsked(h)
	}
	return q
}

// GetLk finds out which lock would be in the way: F_GETLK of fcntl(2). Its type is F_UNLCK
// if none would.
func (al *advisoryLocks) GetLk(_ <-chan struct{}, in *LockRequest) (FileLock, unix.Errno) {
	h := al.handles.handleOf(in.Handle)
	if h == nil || isVirtual(in.Node) {
		return FileLock{}, unix.EBADF
	}
	holder := al.locks.advisory.Test(al.lockRequest(in, h))
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
func (al *advisoryLocks) SetLk(_ <-chan struct{}, in *LockRequest) unix.Errno {
	return al.setlk(nil, in, true)
}

// SetLkw takes a lock: F_SETLKW of fcntl(2), flock(2). It waits as long as
// the program asked to: until a signal.
func (al *advisoryLocks) SetLkw(cancel <-chan struct{}, in *LockRequest) unix.Errno {
	return al.setlk(cancel, in, false)
}

func (al *advisoryLocks) setlk(cancel <-chan struct{}, in *LockRequest, noWait bool) unix.Errno {
	h := al.handles.handleOf(in.Handle)
	if h == nil {
		return unix.EBADF
	}
	q := al.lockRequest(in, h)
	q.Cancel, q.NoWait = cancel, noWait
	if in.Lock.Type == unix.F_UNLCK {
		al.handles.showLines(&in.Request, h.n)
		al.locks.advisory.Unlock(q)
		return 0
	}
	l, e := al.locks.advisory.Lock(q)
	if e != 0 {
		return e
	}
	al.locks.readClaims.Locked(l.Owner(), q.Path)
	if h.kind == appendHandle && q.Mode == lockmgr.Exclusive {
		h.app.Locked()
	}
	return 0
}
