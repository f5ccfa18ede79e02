package fs

import "golang.org/x/sys/unix"

// truncate makes the shadow as long as that; killsuid says that its setuid and setgid bits go.
func (ss *sessions) truncate(s *session, size int64, killsuid bool) unix.Errno {
	s.mu.Lock()
	defer s.mu.Unlock()
	if s.state.HasEnded() {
		return unix.ESTALE
	}
	if size > 0 {
		if e := s.fillToLocked(size); e != 0 {
			return e
		}
	}
	if err := unix.Ftruncate(s.shadow.FD(), size); err != nil {
		if losesData(errnoOf(err)) {
			s.content.Fail(errnoOf(err))
		}
		return errnoOf(err)
	}
	s.content.Replace()
	if killsuid {
		return errnoOf(ss.commits.dropBitsLocked(s))
	}
	return 0
}

// allocate is fallocate(2) on the shadow, which do makes.
func (ss *sessions) allocate(s *session, do func(fd int) error) unix.Errno {
	s.mu.Lock()
	defer s.mu.Unlock()
	if s.state.HasEnded() {
		return unix.ESTALE
	}
	if e := s.fillLocked(); e != 0 {
		return e
	}
	if err := ss.disk.retryWithRoom(func() error { return do(s.shadow.FD()) }); err != nil {
		return errnoOf(err)
	}
	s.content.Write()
	return 0
}
