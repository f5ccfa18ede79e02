package fs

import (
	"math"

	"github.com/hanwen/go-fuse/v2/fuse"
	"golang.org/x/sys/unix"

	"latchfs/fs/advisory"
	"latchfs/lockmgr"
)

// The kernel's requests for flock(2), fcntl(2) and open file description locks: what they
// mean is package advisory's.

// lockRequest is what a program asks for.
func (f *FS) lockRequest(in *fuse.LkIn, h *handle) *advisory.Request {
	q := &advisory.Request{
		File: h, By: f.callerOf(&in.InHeader), Path: f.nodePath(h.n), Class: lockmgr.Posix, Mode: lockmgr.Shared,
		Number: in.Owner, Range: lockmgr.Range{Start: in.Lk.Start, End: min(in.Lk.End, math.MaxInt64)},
	}
	if in.Lk.Typ == unix.F_WRLCK {
		q.Mode = lockmgr.Exclusive
	}
	if in.LkFlags&fuse.LK_FLOCK != 0 {
		q.Class = lockmgr.Flock
		f.noteLockAsked(h)
	}
	return q
}

// GetLk implements fuse.RawFileSystem (F_GETLK).
func (f *FS) GetLk(_ <-chan struct{}, in *fuse.LkIn, out *fuse.LkOut) fuse.Status {
	h := f.handleOf(in.Fh)
	if h == nil || isVirtual(in.NodeId) {
		return fuse.EBADF
	}
	out.Lk = in.Lk
	holder := f.advisory.Test(f.lockRequest(in, h))
	if holder == nil {
		out.Lk.Typ = unix.F_UNLCK
		return fuse.OK
	}
	out.Lk.Typ = unix.F_WRLCK
	if holder.Mode == lockmgr.Shared {
		out.Lk.Typ = unix.F_RDLCK
	}
	out.Lk.Start, out.Lk.End = 0, math.MaxInt64
	if holder.Class == lockmgr.Posix {
		out.Lk.Start, out.Lk.End = holder.Range.Start, holder.Range.End
	}
	out.Lk.Pid = uint32(holder.Owner.PID)
	return fuse.OK
}

// SetLk implements fuse.RawFileSystem (F_SETLK, LOCK_NB, and every unlock).
func (f *FS) SetLk(_ <-chan struct{}, in *fuse.LkIn) fuse.Status {
	return status(f.setlk(nil, in, true))
}

// SetLkw implements fuse.RawFileSystem (F_SETLKW, flock). It waits as long as
// the program asked to: until a signal.
func (f *FS) SetLkw(cancel <-chan struct{}, in *fuse.LkIn) fuse.Status {
	return status(f.setlk(cancel, in, false))
}

func (f *FS) setlk(cancel <-chan struct{}, in *fuse.LkIn, noWait bool) unix.Errno {
	h := f.handleOf(in.Fh)
	if h == nil {
		return unix.EBADF
	}
	q := f.lockRequest(in, h)
	q.Cancel, q.NoWait = cancel, noWait
	if in.Lk.Typ == unix.F_UNLCK {
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
