package fs

import (
	"errors"

	"latchfs/fs/denied"
	"latchfs/fs/sys"
	"latchfs/lockmgr"

	"golang.org/x/sys/unix"
)

// errnoOf is the errno in err, EIO for anything else.
func errnoOf(err error) unix.Errno { return sys.Errno(err) }

// errnoFor is the errno of a change that loses something, by whether it happens.
func errnoFor(happens bool) unix.Errno {
	if happens {
		return 0
	}
	return unix.EBUSY
}

// lockErrno is the errno that a program sees for a refused lock. EBUSY is the
// one that every tool reports properly.
func lockErrno(err error) unix.Errno {
	var dead *lockmgr.DeadlockError
	switch {
	case errors.Is(err, errTooDeep):
		return unix.ENAMETOOLONG
	case errors.As(err, &dead):
		return unix.EDEADLK
	case errors.Is(err, denied.ErrInterrupted):
		return unix.EINTR
	case errors.Is(err, denied.ErrTimeout), errors.Is(err, denied.ErrShutdown), errors.Is(err, denied.ErrFenced):
		return unix.EBUSY
	case errors.Is(err, lockmgr.ErrWouldBlock):
		return unix.EAGAIN
	default:
		return unix.EBUSY
	}
}

// isNoRoom reports whether err says that the disk is full, or a quota.
func isNoRoom(err error) bool {
	e := errnoOf(err)
	return e == unix.ENOSPC || e == unix.EDQUOT
}

// losesData tells a failure that leaves the file without bytes that were
// written from one that merely refuses a request (EFBIG, EINVAL).
func losesData(e unix.Errno) bool {
	switch e {
	case unix.ENOSPC, unix.EDQUOT, unix.EIO, unix.EROFS, unix.ENOMEM:
		return true
	}
	return false
}
