// Package sys has what every room needs that calls the system: the errno in an error, and the
// path of what a descriptor is open on. It is pure, and does no call itself.
package sys

import (
	"errors"
	"strconv"

	"golang.org/x/sys/unix"
)

// Errno is the errno in err: 0 of none, and EIO of an error that has no errno.
func Errno(err error) unix.Errno {
	if err == nil {
		return 0
	}
	var e unix.Errno
	if errors.As(err, &e) {
		return e
	}
	return unix.EIO
}

// Self leads to what is open as fd, for a system call that takes a path and no descriptor, or
// none that was opened with O_PATH.
func Self(fd int) string { return "/proc/self/fd/" + strconv.Itoa(fd) }
