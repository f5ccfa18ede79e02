package fs

import (
	"golang.org/x/sys/unix"

	"latchfs/fs/appends"
)

// AllocateOwn implements records.Sessions.
func (is appended) AllocateOwn(w appends.Writer, do func(fd int) error) (e unix.Errno, done bool) {
	s := is.ownSession(w)
	if s == nil {
		return 0, false
	}
	e = is.sessions.allocate(s, do)
	return e, e != unix.ESTALE
}
