package fs

import "golang.org/x/sys/unix"

// AllocateOwn implements records.Sessions.
func (is appended) AllocateOwn(do func(fd int) error) (e unix.Errno, done bool) {
	s := is.ownSession()
	if s == nil {
		return 0, false
	}
	e = is.sessions.allocate(s, do)
	return e, e != unix.ESTALE
}
