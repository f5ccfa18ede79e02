package fs

import (
	"golang.org/x/sys/unix"
)

// attach opens the shadow for writing, at a node that stands for it.
func (s *session) attach(c *caller, k *kernelNode, flags uint32, out *Opened) (*handle, unix.Errno) {
	s.mu.Lock()
	defer s.mu.Unlock()
	if s.f.behind(k) != s.inode {
		return nil, unix.ESTALE
	}
	return s.attachLocked(c, k, flags, ioPassthrough, out)
}

// attachBeside is attach at a node that stands for the file which the session replaces: see
// opening.attachBeside.
func (s *session) attachBeside(c *caller, k *kernelNode, flags uint32, out *Opened) (*handle, unix.Errno) {
	s.mu.Lock()
	defer s.mu.Unlock()
	s.f.mu.Lock()
	s.besides = append(s.besides, k.numbers...)
	k.beside = s
	s.f.mu.Unlock()
	return s.attachLocked(c, k, flags, ioDirect, out)
}

// attachLocked is attach, with the way of I/O that is wanted if nothing speaks against it.
// s.mu is held.
func (s *session) attachLocked(c *caller, k *kernelNode, flags uint32, want ioMode, out *Opened) (*handle, unix.Errno) {
	if s.state.HasEnded() {
		return nil, unix.ESTALE
	}
	if e := s.content.Failed(); e != 0 {
		return nil, e
	}
	// The open that began the session with O_TRUNC found it truncated already.
	fresh := s.fresh
	s.fresh = false
	if flags&unix.O_TRUNC != 0 && !fresh {
		if e := s.mayJoinAndCut(c); e != 0 {
			return nil, e
		}
		if err := unix.Ftruncate(s.shadow.FD(), 0); err != nil {
			return nil, errnoOf(err)
		}
		s.content.Replace()
		s.suid.Cut()
		if err := s.cutByLocked(c); err != nil {
			return nil, errnoOf(err)
		}
	}
	stale := s.staleFor(c, flags)
	s.f.mu.Lock()
	h := s.f.newHandleOfLocked(k, s.inode, shadowHandle, flags, c.ids())
	h.sess = s
	h.stale.Store(stale)
	s.f.mu.Unlock()
	s.handles[h] = struct{}{}
	s.holders.NoteOpen(c.owner, flags&unix.O_ACCMODE != unix.O_WRONLY)
	s.stopLookLocked()
	s.idle.Store(false)
	s.writing.Opened(flags&unix.O_APPEND != 0, stale != nil || flags&unix.O_ACCMODE == unix.O_WRONLY)
	s.saved.Opened(flags&unix.O_DSYNC != 0)
	switch {
	case want != ioPassthrough:
	case stale != nil || !s.content.IsFilled():
		want = ioWatched
	case s.f.shortOfSpace():
		want = ioDirect
	}
	s.f.startIO(h, want, out)
	s.passed = s.passed || h.io == ioPassthrough
	return h, 0
}

// join is expect for a relative who has found the session by itself: one that
// is ending is not joined any more.
func (s *session) join() bool {
	s.mu.Lock()
	defer s.mu.Unlock()
	return !s.state.HasEnded() && s.expect()
}

func (s *session) isDetached() bool {
	s.mu.Lock()
	defer s.mu.Unlock()
	return s.state.IsNobodys()
}

// expect counts one more caller on its way to the shadow; false if the session
// is over.
func (s *session) expect() bool {
	s.f.mu.Lock()
	defer s.f.mu.Unlock()
	if s.over {
		return false
	}
	s.walkers++
	return true
}

func (s *session) dkey() dkey {
	s.f.mu.Lock()
	defer s.f.mu.Unlock()
	return dkey{s.parent, s.dentry.Name()}
}

func (s *session) isFilled() bool {
	s.mu.Lock()
	defer s.mu.Unlock()
	return s.content.IsFilled()
}
