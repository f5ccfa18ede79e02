package fs

import (
	"fmt"

	"latchfs/fs/iomode"
	"latchfs/lockmgr"

	"golang.org/x/sys/unix"
)

// attach opens the shadow for writing, at a node that stands for it. ESTALE says that the node
// stands for something else by now, or that the session has ended.
func (ss *sessions) attach(s *session, c *caller, k *kernelNode, flags uint32, out *Opened) (*handle, unix.Errno) {
	s.mu.Lock()
	defer s.mu.Unlock()
	if ss.kernel.behind(k) != s.inode {
		return nil, unix.ESTALE
	}
	return ss.attachLocked(s, c, k, flags, iomode.Passthrough, out)
}

// attachBeside is attach at a node that stands for the file which the session replaces: see
// opening.attachBeside.
func (ss *sessions) attachBeside(s *session, c *caller, k *kernelNode, flags uint32, out *Opened) (*handle, unix.Errno) {
	s.mu.Lock()
	defer s.mu.Unlock()
	ss.nodes.mu.Lock()
	s.besides = append(s.besides, k.numbers...)
	k.beside = s
	ss.nodes.mu.Unlock()
	return ss.attachLocked(s, c, k, flags, iomode.Direct, out)
}

// attachLocked is attach, with the way of I/O that is wanted if nothing speaks against it.
// s.mu is held.
func (ss *sessions) attachLocked(s *session, c *caller, k *kernelNode, flags uint32, want iomode.Mode, out *Opened) (*handle, unix.Errno) {
	if s.state.HasEnded() {
		return nil, unix.ESTALE
	}
	if e := s.content.Failed(); e != 0 {
		return nil, e
	}
	// The open that began the session with O_TRUNC needs no cut: the shadow began empty.
	fresh := s.fresh
	s.fresh = false
	if flags&unix.O_TRUNC != 0 && !fresh {
		if e := ss.losses.mayJoinAndCut(s, c); e != 0 {
			return nil, e
		}
		if err := unix.Ftruncate(s.shadow.FD(), 0); err != nil {
			return nil, errnoOf(err)
		}
		s.content.Replace()
		s.suid.Cut()
		if err := ss.commits.cutByLocked(s, c); err != nil {
			return nil, errnoOf(err)
		}
	}
	stale := ss.staleFor(s, c, flags)
	ss.nodes.mu.Lock()
	h := ss.handles.newHandleOfLocked(k, s.inode, shadowHandle, flags, idsOf(c))
	h.sess = s
	h.stale.Store(stale)
	ss.nodes.mu.Unlock()
	s.handles[h] = struct{}{}
	s.toll.Opened(c.Owner().PID)
	s.holders.NoteOpen(c.Owner(), flags&unix.O_ACCMODE != unix.O_WRONLY)
	s.stopLookLocked()
	s.idle.Store(false)
	s.writing.Opened(flags&unix.O_APPEND != 0, stale != nil || flags&unix.O_ACCMODE == unix.O_WRONLY)
	s.saved.Opened(flags&unix.O_DSYNC != 0)
	switch {
	case want != iomode.Passthrough:
	case stale != nil || !s.content.IsFilled():
		want = iomode.Watched
	case ss.disk.shortOfSpace():
		want = iomode.Direct
	}
	ss.handles.startIO(h, want, out)
	s.passed = s.passed || h.io.Mode() == iomode.Passthrough
	return h, 0
}

// join is expect for another process of the session's owner, which has found the session by
// itself. It returns false, too, if the session is about to end.
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
	s.nodes.mu.Lock()
	defer s.nodes.mu.Unlock()
	if s.over {
		return false
	}
	s.walkers++
	return true
}

func (s *session) dkey() dkey {
	s.nodes.mu.Lock()
	defer s.nodes.mu.Unlock()
	return dkey{s.parent, s.dentry.Name()}
}

func (s *session) isFilled() bool {
	s.mu.Lock()
	defer s.mu.Unlock()
	return s.content.IsFilled()
}

func (ss *sessions) newSessionID() string {
	return fmt.Sprintf("%s-%d", ss.epoch, ss.sessionNo.Add(1))
}

// beginOrJoin begins a session on the file st that has a name, or joins the one that another
// process of the owner, which shares the lock, has begun in the meantime. The session owns the
// lock unless there is an error, and counts the caller as a walker. st becomes the file that
// has the name when the session begins.
func (ss *sessions) beginOrJoin(c *caller, l *lockmgr.Lock, p place, st *unix.Stat_t, o beginOptions) (*session, unix.Errno) {
	for {
		switch s := ss.nodes.sessionOn(ss.nodes.inodeFor(st), p.dir, p.name); {
		case s == nil:
		case !s.keptLock():
			ss.locks.fence(s) // stolen a moment ago
			continue
		case !c.BelongsTo(s.who.Load()):
			return nil, unix.EBUSY // no lock that covers the name allows that
		case s.join():
			ss.rules.table.Release(l)
			return s, 0
		}
		s, e := ss.begin(c, l, p.dir, p.name, st, o)
		switch e {
		case 0:
			return s, 0
		case unix.EEXIST: // another process of the owner was faster by a moment
		default:
			return nil, e
		}
		if e := ss.callers.mayOpenName(c, p.dir, p.name, st, o.flags); e != 0 {
			return nil, e
		}
	}
}

// ownSessionOn is sessionOn if the caller belongs to the session's owner, otherwise nil.
func (ss *sessions) ownSessionOn(c *caller, n, dir *inode, name string) *session {
	if s := ss.nodes.sessionOn(n, dir, name); s != nil && c.BelongsTo(s.who.Load()) {
		return s
	}
	return nil
}
