package fs

import "golang.org/x/sys/unix"

// allocate is fallocate(2) on an append descriptor, as far as that gives the file room, as
// posix_fallocate(3) does: the file may get longer, and what is appended comes behind that. Other
// modes change what the file holds. Where lines are judged, nothing but lines comes to its end.
func (a *appender) allocate(in *AllocRequest) unix.Errno {
	if in.Mode&^unix.FALLOC_FL_KEEP_SIZE != 0 || a.JudgesLines() {
		return unix.ENOTSUP
	}
	a.queue.Flush()
	a.mu.Lock()
	defer a.mu.Unlock()
	if s := a.ownSession(); s != nil { // its commit would replace what is changed here
		if e := s.allocate(in); e != unix.ESTALE {
			return e
		}
	}
	l, err := a.f.acquire(a.demand(), true)
	if err != nil {
		return unix.EBUSY
	}
	defer a.f.table.Release(l)
	if e := a.followLocked(); e != 0 {
		return e
	}
	return a.allocateLocked(in)
}

// allocateLocked is allocate in the file itself, whose lock is held.
func (a *appender) allocateLocked(in *AllocRequest) unix.Errno {
	var before, after unix.Stat_t
	if err := unix.Fstat(a.fd, &before); err != nil {
		return errnoOf(err)
	}
	ch := a.changes(opAppend)
	if err := a.tail.Allocate(func() error { return a.f.allocate(a.fd, in) }); err != nil {
		return errnoOf(err)
	}
	if err := unix.Fstat(a.fd, &after); err != nil {
		return errnoOf(err)
	}
	a.tell(ch)
	a.noteGrowth(int(after.Size - before.Size))
	a.tellKernel(false)
	return 0
}

// allocate is fallocate(2) on the shadow.
func (s *session) allocate(in *AllocRequest) unix.Errno {
	s.mu.Lock()
	defer s.mu.Unlock()
	if s.state.HasEnded() {
		return unix.ESTALE
	}
	if e := s.fillLocked(); e != 0 {
		return e
	}
	if err := s.f.retryWithRoom(func() error { return s.f.allocate(s.shadow.FD(), in) }); err != nil {
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
