package fs

import (
	"math"

	"golang.org/x/sys/unix"

	"latchfs/fs/advisory"
	"latchfs/lockmgr"
)

// The kernel's requests for flock(2), fcntl(2) and open file description locks: what they
// mean is package advisory's.

// lockRequest is what a program asks for.
func (f *FS) lockRequest(in *LockRequest, h *handle) *advisory.Request {
	q := &advisory.Request{
		File: h, By: f.callerOf(&in.Request), Path: f.nodePath(h.n), Class: lockmgr.Posix, Mode: lockmgr.Shared,
		Number: in.Owner, Range: lockmgr.Range{Start: in.Lock.Start, End: min(in.Lock.End, math.MaxInt64)},
	}
	if in.Lock.Type == unix.F_WRLCK {
		q.Mode = lockmgr.Exclusive
	}
	if in.Flock {
		q.Class = lockmgr.Flock
		f.noteLockAsked(h)
	}
	return q
}

// GetLk finds out which lock would be in the way: F_GETLK of fcntl(2). Its type is F_UNLCK
// if none would.
func (f *FS) GetLk(_ <-chan struct{}, in *LockRequest) (FileLock, unix.Errno) {
	h := f.handleOf(in.Handle)
	if h == nil || isVirtual(in.Node) {
		return FileLock{}, unix.EBADF
	}
	holder := f.advisory.Test(f.lockRequest(in, h))
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
func (f *FS) SetLk(_ <-chan struct{}, in *LockRequest) unix.Errno {
	return f.setlk(nil, in, true)
}

// SetLkw takes a lock: F_SETLKW of fcntl(2), flock(2). It waits as long as
// the program asked to: until a signal.
func (f *FS) SetLkw(cancel <-chan struct{}, in *LockRequest) unix.Errno {
	return f.setlk(cancel, in, false)
}

func (f *FS) setlk(cancel <-chan struct{}, in *LockRequest, noWait bool) unix.Errno {
	h := f.handleOf(in.Handle)
	if h == nil {
		return unix.EBADF
	}
	q := f.lockRequest(in, h)
	q.Cancel, q.NoWait = cancel, noWait
	if in.Lock.Type == unix.F_UNLCK {
		f.advisory.Unlock(q)
		return 0
	}
	l, e := f.advisory.Lock(q)
	if e != 0 {
		return e
	}
	f.readClaims.Locked(l.Owner(), q.Path)
	return 0
}
