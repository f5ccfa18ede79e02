package fs

import "golang.org/x/sys/unix"

// AllocateOwn implements records.Sessions.
func (is appended) AllocateOwn(do func(fd int) error) (e unix.Errno, done bool) {
	s := is.ownSession()
	if s == nil {
		return 0, false
	}
	e = is.recorder.allocate(s, do)
	return e, e != unix.ESTALE
}

// allocate is fallocate(2) on fd, on behalf of the sender.
func (ap *appending) allocate(fd int, in *AllocRequest) error {
	return ap.disk.asUser(in.UID, in.GID, func() error {
		return unix.Fallocate(fd, in.Mode, int64(in.Offset), int64(in.Length))
	})
}
