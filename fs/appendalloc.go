package fs

import "golang.org/x/sys/unix"

// AllocateOwn implements records.Sessions.
func (is appended) AllocateOwn(do func(fd int) error) (e unix.Errno, done bool) {
	s := is.ownSession()
	if s == nil {
		return 0, false
	}
	e = s.allocate(do)
	return e, e != unix.ESTALE
}

// allocate is fallocate(2) on the shadow, which do makes.
func (s *session) allocate(do func(fd int) error) unix.Errno {
	s.mu.Lock()
	defer s.mu.Unlock()
	if s.state.HasEnded() {
		return unix.ESTALE
	}
	if e := s.fillLocked(); e != 0 {
		return e
	}
	if err := s.f.retryWithRoom(func() error { return do(s.shadow.FD()) }); err != nil {
		return errnoOf(err)
	}
	s.content.Write()
	return 0
}

// allocate is fallocate(2) on fd, on behalf of the sender.
func (f *FS) allocate(fd int, in *AllocRequest) error {
	return f.asUser(in.UID, in.GID, func() error {
		return unix.Fallocate(fd, in.Mode, int64(in.Offset), int64(in.Length))
	})
}
