package fs

import (
	"time"

	"golang.org/x/sys/unix"

	"latchfs/fs/deaths"
	"latchfs/fs/holders"
	"latchfs/fs/sessionstate"
	"latchfs/lockmgr"
)

// Flush is a close(2). It comes for every close of every
// descriptor in every process; the one after which nobody can write any more
// is the commit, so that close reports how it went.
func (f *FS) Flush(_ <-chan struct{}, in *FlushRequest) unix.Errno {
	if isVirtual(in.Node) {
		f.virt.flush(in)
		return 0
	}
	h := f.handleOf(in.Handle)
	if h == nil {
		return 0
	}
	f.advisory.Closed(h, in.LockOwner)
	if h.kind != appendHandle && h.kind != shadowHandle {
		return 0
	}
	cl := f.closerOf(&in.Request)
	if h.kind == appendHandle {
		return h.app.flush(cl)
	}
	e := f.flushShadow(cl, h)
	if lost := h.sess.closeStale(h); e == 0 {
		e = lost
	}
	return e
}

// flushShadow notes who closes a descriptor of the shadow and commits if that
// was the last one.
func (f *FS) flushShadow(cl *closing, h *handle) unix.Errno {
	s, c := h.sess, cl.c
	var killed *deaths.Death
	if cl.sig != 0 {
		killed = deathOf(c, cl.sig)
	}
	s.mu.Lock()
	by := &holders.Closer{Owner: c.owner, Program: c.comm, Exiting: cl.exiting, Killed: cl.sig != 0}
	if s.state.HasEnded() {
		h.flushed = true
		e, grows, linked := s.toldLocked(c.owner), s.grows, s.state.Is(sessionstate.Live) && !s.grows
		if grows {
			s.holders.NoteChildren(by)
		}
		s.mu.Unlock()
		switch {
		case grows:
			s.closedWhileGrowing(by)
		case linked:
			s.noteWrittenOn()
		}
		return e
	}
	h.flushed, s.closed = true, true
	s.stopLookLocked()
	s.holders.Note(c.owner)
	s.holders.NoteChildren(by)
	if killed != nil {
		s.noteKilledLocked(killed)
	}
	spared := s.sparesLookLocked(by)
	s.mu.Unlock()
	if spared {
		return 0
	}
	e := s.endIfIdle(by)
	if e != 0 {
		s.mu.Lock()
		defer s.mu.Unlock()
		if s.state.HasEnded() {
			return s.toldLocked(c.owner)
		}
	} else if !by.Unheld {
		s.noteOutput(c.owner)
	}
	return e
}

// endIfIdle ends the session if nobody can write its shadow any more. It waits for
// processes that are being killed: they have no descriptors any more, and their FLUSH
// may be on its way.
func (s *session) endIfIdle(by *holders.Closer) unix.Errno {
	patience := s.holders.Patience(by)
	for {
		e, dying := s.endUnlessBusy(by)
		if len(dying) == 0 {
			return e
		}
		if !patience.Outlasts(dying) {
			return 0 // RELEASE will tell
		}
	}
}

// endUnlessBusy ends the session if nobody can write its shadow any more, and nobody
// dies who could a moment ago: otherwise it returns those who die.
func (s *session) endUnlessBusy(by *holders.Closer) (unix.Errno, []lockmgr.Owner) {
	defer s.dropOutdated()
	s.mu.Lock()
	defer s.mu.Unlock()
	if s.state.HasEnded() {
		return s.state.Result(), nil
	}
	if s.held() || s.expected() {
		return 0, nil
	}
	if busy, dying := s.busyLocked(by); busy || len(dying) > 0 {
		return 0, dying
	}
	if by != nil {
		by.Unheld = true
	}
	if len(s.handles) > 0 && s.state.Is(sessionstate.Writing) && s.isCleanLocked() {
		return s.lingerLocked(), nil
	}
	s.by = by
	defer func() { s.by = nil }()
	return s.endLocked(), nil
}

// isCleanLocked reports whether there is nothing to publish.
func (s *session) isCleanLocked() bool {
	return !s.isNew.Load() && s.content.Failed() == 0 && s.content.IsClean()
}

// lingerLocked is for a close that leaves nothing to commit: the session ends
// at the RELEASE that follows. If none does, somebody whom the holder set
// missed has the descriptor and may yet write.
func (s *session) lingerLocked() unix.Errno {
	e := s.applyMetaLocked()
	s.idle.Store(true)
	if s.lingering == nil {
		s.lingering = time.AfterFunc(lateGrace, s.adopt)
	}
	return e
}

func (s *session) expected() bool {
	s.f.mu.Lock()
	defer s.f.mu.Unlock()
	return s.walkers > 0
}

// Release ends an open file. It comes once for each open, after
// the last descriptor is closed, and after the closing call has returned.
func (f *FS) Release(_ <-chan struct{}, in *ReleaseRequest) {
	if isVirtual(in.Node) {
		f.virt.release(in.Handle)
		return
	}
	h := f.handleOf(in.Handle)
	if h == nil {
		return
	}
	f.advisory.Released(h)
	if h.app != nil {
		h.app.release()
	}
	s := h.sess
	if s != nil {
		s.closeStale(h)
	}
	f.closeHandle(h)
	if s == nil || h.kind != shadowHandle {
		return
	}
	s.mu.Lock()
	delete(s.handles, h)
	if s.lingering != nil && len(s.handles) == 0 {
		s.lingering.Stop()
		s.lingering = nil
	}
	last := len(s.handles) == 0
	ended := s.state.HasEnded()
	if last && s.grows {
		s.settleLocked()
	}
	s.mu.Unlock()
	switch {
	case !last:
	case ended:
		s.released()
	default:
		s.endAtRelease()
	}
}
