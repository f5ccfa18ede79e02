package fs

import (
	"time"

	"golang.org/x/sys/unix"

	"latchfs/fs/lostupdate"
	"latchfs/fs/merging"
	"latchfs/fs/refusals"
	"latchfs/journal/audit"
	"latchfs/journal/commit"
)

// opWrite is the change of content through a descriptor, in events and refusals.
const opWrite = "write"

// staleOpen is a lostupdate.Open. The kernel gets no backing file for the handle, and the
// first operation decides: a read makes the process current, a change before any read is
// refused. A mapping shows itself by the reads of its pages.
//
// Its fields are guarded by the session's mu.
type staleOpen struct {
	lostupdate.Open
	aside *commit.Shadow // the file as the refused changes would have left it
}

// staleFor decides how an open with these flags that joins the session begins: nil of
// one that counts as a read, or cannot lose anything. One that only writes tells its program
// with the first change, too: there are programs that look neither at the answer of a cut nor at
// that of the close, such as PHP's file_put_contents with LOCK_EX. s.mu is held.
func (ss *sessions) staleFor(s *session, c *caller, flags uint32) *staleOpen {
	if flags&unix.O_ACCMODE == unix.O_RDONLY || flags&unix.O_TRUNC != 0 || s.baseVersion == nil ||
		s.content.IsChanged() || s.writing.Merges() || !ss.losses.updates.Applies(&s.settings) {
		return nil
	}
	who, ok := ss.losses.learnersOf(c, &s.settings)
	if !ok {
		return nil
	}
	chain := lostupdate.Chain(who, nil)
	ch := ss.losses.replaces(s, opWrite, chain)
	reads := flags&unix.O_ACCMODE == unix.O_RDWR
	if ss.losses.updates.Basis(&ch).Stale && (ss.seesMappings() || !reads) {
		var st unix.Stat_t
		dir, name := s.where()
		if unix.Fstatat(ss.nodes.fdOf(dir), name, &st, unix.AT_SYMLINK_NOFOLLOW) != nil {
			return nil
		}
		if x, _ := ss.losses.wouldLose(c, opWrite, place{dir, name, nil}, &st); x != nil {
			return &staleOpen{Open: lostupdate.Open{Loss: x, Chain: chain}}
		}
	}
	if reads {
		ss.losses.updates.SawCurrent(&ch.File, who)
	}
	return nil
}

// seesMappings reports whether a handle in direct I/O can be mapped, so that the pages
// are read through the daemon. Before Linux 6.6 it cannot.
func (ss *sessions) seesMappings() bool {
	return ss.kernel.srv.MapsDirect()
}

// noteStaleRead notes that a process reads through a handle that was stale.
func (ss *sessions) noteStaleRead(h *handle, in *Request) {
	s := h.sess
	s.mu.Lock()
	o := h.stale.Load()
	learns := o != nil && !o.IsRefused()
	if learns {
		ss.nowCurrentLocked(s, h)
	}
	ended := s.state.HasEnded()
	s.mu.Unlock()
	if learns && !ended {
		ss.losses.noteOwnRead(s, ss.callers.callerOf(in))
	}
}

// nowCurrentLocked lets the changes through a handle that was stale happen.
func (ss *sessions) nowCurrentLocked(s *session, h *handle) {
	h.stale.Store(nil)
	s.writing.Know()
}

// mayChangeLocked decides whether content may be changed through a handle.
func (ss *sessions) mayChangeLocked(s *session, h *handle) unix.Errno {
	o := h.stale.Load()
	if o == nil || s.writing.Adds() || s.state.IsNobodys() {
		return 0
	}
	if !o.Change(ss.nowLocked(s, o)) {
		return unix.EBUSY
	}
	ss.nowCurrentLocked(s, h)
	return 0
}

// nowLocked is the change through the handle by what the file holds now. What a file that
// went live holds by now nobody can tell.
func (ss *sessions) nowLocked(s *session, o *staleOpen) *lostupdate.Change {
	if s.state.HasEnded() || s.baseVersion == nil {
		return nil
	}
	ch := ss.losses.replaces(s, opWrite, o.Chain)
	return &ch
}

// mayCutThrough is mayCut through a handle. Of one that is stale the change decides
// that follows.
func (ss *sessions) mayCutThrough(s *session, h *handle, size int64) unix.Errno {
	if h.stale.Load() == nil {
		return ss.judging.mayCut(s, size)
	}
	s.mu.Lock()
	s.writing.CutStale()
	s.mu.Unlock()
	if size == 0 {
		ss.mergeThrough(s, h, nil)
	}
	return 0
}

// mergeThrough lets the first change through a stale handle happen under the policy
// that merges: a cut to nothing, or a write at the beginning. What that does not cover
// is, to its writer, what the known version holds, so that fill gets that first.
func (ss *sessions) mergeThrough(s *session, h *handle, fill func(content []byte) error) {
	s.mu.Lock()
	defer s.mu.Unlock()
	o := h.stale.Load()
	if o == nil || o.IsRefused() || s.state.HasEnded() || s.content.HasWritten() || s.writing.Adds() || !o.IsStale(ss.nowLocked(s, o)) {
		return
	}
	if !s.writing.Merges() {
		g := ss.judging.mergesCut(s, o.Loss)
		if g == nil || fill != nil && fill(g.Base()) != nil {
			return
		}
		s.writing.MergeWith(g)
	}
	ss.nowCurrentLocked(s, h)
}

// becomeKnown gives the shadow the content of the version that its writer knows.
func (ss *sessions) becomeKnown(s *session, content []byte) error {
	if err := merging.Write(s.shadow.FD(), content); err != nil {
		s.content.Fail(errnoOf(err))
		return err
	}
	s.content.Replace()
	ss.kernel.forgetAttrs(s.inode)
	go ss.kernel.notifyInode(s.inode, 0, -1) // the kernel waits for whoever reads a page
	return nil
}

// setAsideLocked makes a refused change to a copy of the file, which is kept when the
// handle is closed.
func (ss *sessions) setAsideLocked(s *session, h *handle, do func(fd int) error) {
	o := h.stale.Load()
	if o.aside == nil && !s.state.HasEnded() {
		sh, err := ss.copyBaseLocked(s)
		if err != nil {
			ss.disk.log.Warnf("cannot keep the refused bytes of %q: %v", s.path(), err)
			return
		}
		o.aside = sh
	}
	if o.aside == nil {
		return
	}
	if err := do(o.aside.FD()); err != nil {
		ss.disk.log.Warnf("cannot keep all refused bytes of %q: %v", s.path(), err)
	}
}

// copyBaseLocked makes a shadow beside the session's with the same content.
func (ss *sessions) copyBaseLocked(s *session) (*commit.Shadow, error) {
	from := s.shadow.FD()
	if !s.content.IsFilled() {
		from = s.content.Old()
	}
	dir, name := s.where()
	sh, err := ss.disk.store.NewShadow(commit.ShadowOptions{Dir: ss.nodes.fdOf(dir), DirPath: ss.nodes.nodePath(dir), Name: name, Base: from, UID: -1, GID: -1, As: s.asWriter})
	if err != nil {
		return nil, err
	}
	if err := sh.Fill(from); err != nil {
		ss.disk.discard(sh)
		return nil, err
	}
	return sh, nil
}

// closeStale answers the close of a descriptor of the handle h: with an error if a change
// through h was refused, for a program may look only there. It keeps what was refused.
func (en *endings) closeStale(s *session, h *handle) unix.Errno {
	if h.stale.Load() == nil {
		return 0
	}
	s.mu.Lock()
	defer s.mu.Unlock()
	o := h.stale.Load()
	if o == nil || !o.IsRefused() {
		return 0
	}
	if o.aside == nil {
		return unix.EBUSY
	}
	x, path, owner := o.Loss, s.path(), s.who.Load().Owner()
	reason := x.Whole()
	id, err := en.keepAsideLocked(s, o, x.Public())
	if err != nil {
		en.disk.log.Warnf("cannot keep the refused bytes of %q: %v", path, err)
	}
	en.disk.discard(o.aside)
	o.aside = nil
	en.reports.sessionEvent(s, "rollback", func(ev *audit.Event) {
		ev.Detail["reason"] = reason
		ev.Detail["errno"] = unix.ErrnoName(unix.EBUSY)
		if id != "" {
			ev.Detail["kept"] = id
		}
	})
	en.reports.explain(refusals.Refusal{
		Path: path, Op: x.Op, Errno: unix.EBUSY, Reason: reason, Kept: id, Hint: x.AdviceOn(id),
		Owner: owner, UID: s.uid, Lineage: x.Lineage, Of: x,
	})
	return unix.EBUSY
}

// keepAsideLocked keeps what the refused changes would have made of the file; of a file
// that they would have emptied there is nothing to keep.
func (en *endings) keepAsideLocked(s *session, o *staleOpen, reason string) (id string, err error) {
	var st unix.Stat_t
	if err := unix.Fstat(o.aside.FD(), &st); err != nil || st.Size == 0 {
		return "", err
	}
	meta := map[string]any{
		"path": s.path(), "session": s.id, "program": s.program(), "pid": s.who.Load().Owner().PID,
		"uid": s.uid, "errno": unix.ErrnoName(unix.EBUSY), "reason": reason, "time": time.Now().UTC().Format(time.RFC3339Nano),
		"operation": o.Loss.Op, "base": keptBase(s.baseVersion),
	}
	dir, _ := s.where()
	en.callers.noteReach(meta, dir, s.shadow.FD())
	return o.aside.Reject(meta)
}
