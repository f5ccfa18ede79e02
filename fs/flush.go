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
func (en *endings) Flush(_ <-chan struct{}, in *FlushRequest) unix.Errno {
	if isVirtual(in.Node) {
		en.view.virt.flush(in)
		return 0
	}
	h := en.handles.handleOf(in.Handle)
	if h == nil {
		return 0
	}
	if h.kind == appendHandle {
		e := h.app.flush(en.callers.closerOf(&in.Request))
		en.locks.advisory.Closed(h, in.LockOwner)
		return e
	}
	en.handles.showLines(&in.Request, h.n)
	en.locks.advisory.Closed(h, in.LockOwner)
	if h.kind != shadowHandle {
		return 0
	}
	cl := en.callers.closerOf(&in.Request)
	e := en.flushShadow(cl, h)
	if lost := en.closeStale(h.sess, h); e == 0 {
		e = lost
	}
	return e
}

// flushShadow notes who closes a descriptor of the shadow and commits if that
// was the last one.
func (en *endings) flushShadow(cl *closing, h *handle) unix.Errno {
	s, c := h.sess, cl.c
	var killed *deaths.Death
	if cl.sig != 0 {
		killed = deathOf(c, cl.sig)
	}
	s.mu.Lock()
	by := &holders.Closer{Owner: c.Owner(), Program: c.Comm(), Exiting: cl.exiting, Killed: cl.sig != 0}
	if s.state.HasEnded() {
		h.flushed = true
		e, grows, linked := en.toldLocked(s, c.Owner()), s.grows, s.state.Is(sessionstate.Live) && !s.grows
		if grows {
			s.holders.NoteChildren(by)
		}
		s.mu.Unlock()
		switch {
		case grows:
			en.live.closedWhileGrowing(s, by)
		case linked:
			en.recorder.noteWrittenOn(s)
		}
		return e
	}
	h.flushed, s.closed = true, true
	s.stopLookLocked()
	s.holders.NoteClose(c.Owner())
	s.holders.NoteChildren(by)
	if killed != nil {
		en.noteKilledLocked(s, killed)
	}
	spared := en.sparesLookLocked(s, by)
	s.mu.Unlock()
	if spared {
		return 0
	}
	e := en.endIfIdle(s, by)
	if e != 0 {
		s.mu.Lock()
		defer s.mu.Unlock()
		if s.state.HasEnded() {
			return en.toldLocked(s, c.Owner())
		}
	} else if !by.Unheld {
		en.noteOutput(s, c.Owner())
	}
	return e
}

// endIfIdle ends the session if nobody can write its shadow any more. It waits for
// processes that are being killed: they have no descriptors any more, and their FLUSH
// may be on its way.
func (en *endings) endIfIdle(s *session, by *holders.Closer) unix.Errno {
	patience := s.holders.Patience(by)
	for {
		e, dying := en.endUnlessBusy(s, by)
		if len(dying) == 0 {
			return e
		}
		if !patience.Outlasts(dying) {
			return 0 // RELEASE will tell
		}
	}
}

// endUnlessBusy ends the session if nobody can write its shadow any more. While processes
// are dying that could write it a moment ago, it does not, and returns them.
func (en *endings) endUnlessBusy(s *session, by *holders.Closer) (unix.Errno, []lockmgr.Owner) {
	defer en.commits.dropOutdated(s)
	s.mu.Lock()
	defer s.mu.Unlock()
	if s.state.HasEnded() {
		return s.state.Result(), nil
	}
	if s.held() || s.expected() || by == nil && s.moving.Load() > 0 {
		return 0, nil
	}
	if busy, dying := en.locks.busyLocked(s, by); busy || len(dying) > 0 {
		return 0, dying
	}
	if by != nil {
		by.Unheld = true
	}
	if len(s.handles) > 0 && s.state.Is(sessionstate.Writing) && s.isCleanLocked() {
		return en.lingerLocked(s), nil
	}
	s.by = by
	defer func() { s.by = nil }()
	return en.commits.endLocked(s), nil
}

// isCleanLocked reports whether there is nothing to publish.
func (s *session) isCleanLocked() bool {
	return !s.isNew.Load() && s.content.Failed() == 0 && s.content.IsClean()
}

// lingerLocked is for a close that leaves nothing to commit: the session ends
// at the RELEASE that follows. If none does, somebody whom the holder set
// missed has the descriptor and may yet write.
func (en *endings) lingerLocked(s *session) unix.Errno {
	e := en.commits.applyMetaLocked(s)
	s.idle.Store(true)
	if s.lingering == nil {
		s.lingering = time.AfterFunc(lateGrace, func() { en.inheritByDescriptor(s) })
	}
	return e
}

func (s *session) expected() bool {
	s.nodes.mu.Lock()
	defer s.nodes.mu.Unlock()
	return s.walkers > 0
}

// Release ends an open file. It comes once for each open, after
// the last descriptor is closed, and after the closing call has returned.
func (en *endings) Release(_ <-chan struct{}, in *ReleaseRequest) {
	if isVirtual(in.Node) {
		en.view.virt.release(in.Handle)
		return
	}
	h := en.handles.handleOf(in.Handle)
	if h == nil {
		return
	}
	if h.app != nil {
		h.app.release()
	}
	en.locks.advisory.Released(h)
	s := h.sess
	if s != nil {
		en.closeStale(s, h)
	}
	en.closeHandle(h)
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
		en.live.settleLocked(s)
	}
	s.mu.Unlock()
	switch {
	case !last:
	case ended:
		en.released(s)
	default:
		en.endAtRelease(s)
	}
}

// closeHandle forgets h and closes what it holds.
func (en *endings) closeHandle(h *handle) {
	en.live.endWork(h.n, h.work)
	en.handles.endIO(h)
	h.mu.Lock()
	if h.fd >= 0 {
		unix.Close(h.fd)
		h.fd = -1
	}
	h.mu.Unlock()
	en.nodes.mu.Lock()
	if h.app != nil {
		h.n.records--
		h.app.Leave()
	}
	delete(en.handles.open, h.id)
	en.callers.descriptors.Give(h.uid, perHandle)
	h.k.opens--
	if h.k.beside == h.sess && h.n != h.k.in {
		h.k.beside = nil
	}
	if h.writes() {
		h.n.writers--
	}
	if h.k.opens == 0 && h.k.idle != nil {
		close(h.k.idle)
		h.k.idle = nil
	}
	en.kernel.dropNodeLocked(h.k)
	ended := h.closeLiveLocked()
	if !ended {
		en.nodes.unpinLocked(h.n)
	}
	taken := h.k.former != nil
	en.nodes.mu.Unlock()
	if taken {
		en.names.giveBack(h.n)
	}
	if ended {
		en.live.endCarried(h.n)
		en.nodes.unpin(h.n)
	}
}
