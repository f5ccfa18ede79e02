package fs

import (
	"time"

	"latchfs/fs/denied"
	"latchfs/fs/refusals"
	"latchfs/fs/sessionstate"
	"latchfs/journal/audit"
	"latchfs/journal/commit"

	"golang.org/x/sys/unix"
)

// endings decides when a session ends: at a close, at a RELEASE, at the end of the mount. Until
// then it syncs and shows what the session has written.
type endings struct {
	lookDelay time.Duration // the constant of that name; simulations have another one

	*ground
	commits  *commits
	judging  *judging
	live     *live
	locks    *locks
	losses   *losses
	recorder *recorder
}

// adopt finds out who still has the descriptor of a session that has nothing
// to commit and whose known holders are gone: a process to which the
// descriptor was passed. The session is its from now on.
func (en *endings) adopt(s *session) {
	s.mu.Lock()
	defer s.mu.Unlock()
	s.lingering = nil
	if !s.state.Is(sessionstate.Writing) || len(s.handles) == 0 {
		return
	}
	if o, ok := s.holders.Anybody(); ok {
		en.locks.handToLocked(s, o)
	}
}

// released cleans up after the last RELEASE of an ended session.
func (en *endings) released(s *session) {
	s.mu.Lock()
	defer s.mu.Unlock()
	if s.writtenLate() {
		en.commits.rejectLocked(s, unix.ESTALE, "written after the commit through a descriptor that had been passed on")
	}
	en.disk.discard(s.shadow)
	en.nodes.mu.Lock()
	en.commits.finishLocked(s)
	en.nodes.mu.Unlock()
}

// endAtRelease is the catch-all for sessions that no FLUSH ended: the last
// descriptor is closed, but a passthrough mapping may still be written.
func (en *endings) endAtRelease(s *session) {
	if en.endIfIdle(s, nil); en.isLookedAfter(s) {
		return
	}
	go func() {
		t := time.NewTicker(mapPoll)
		defer t.Stop()
		for {
			select {
			case <-en.life.done:
				return
			case <-t.C:
			}
			if en.endIfIdle(s, nil); en.isLookedAfter(s) {
				return
			}
		}
	}()
}

// isLookedAfter reports whether the session has ended, or something is still to come that
// ends it: a close, a caller on his way to it, the end of its transaction.
func (en *endings) isLookedAfter(s *session) bool {
	s.mu.Lock()
	defer s.mu.Unlock()
	return s.state.HasEnded() || len(s.handles) > 0 || s.expected() || s.held()
}

// publishCopy publishes what the shadow holds now under a name, while the
// session goes on writing. It is how a file that its owner renames before
// closing it becomes visible at once without ever being seen half written. lb says
// what was judged of it.
func (en *endings) publishCopy(s *session, dir *inode, name string, replace *unix.Stat_t, lb *label) unix.Errno {
	if !en.locks.keepsLock(s) {
		return unix.EBUSY // of a path operation, for which ESTALE means another walk
	}
	if e := s.fillLocked(); e != 0 {
		return e
	}
	if err := s.fixMode(); err != nil { // what is published has the bits that it would have at the close
		return errnoOf(err)
	}
	cp, err := s.shadow.Clone(en.nodes.fdOf(dir))
	if err != nil {
		return errnoOf(err)
	}
	defer en.disk.discard(cp)
	path := en.nodes.path(dir, name)
	if en.judging.judge.Rules(path) != nil && !lb.passed.Has(path, s.shadow.FD()) {
		return unix.EBUSY // written since by another thread
	}
	o := en.commits.publishOptions(s, dir, name)
	o.Base = versionPtr(replace)
	if s.shadow.Secured() { // what was synced is to be on disk in the copy
		o.Durability = commit.Full
	}
	ch := en.recorder.changesOf(s, opRename, dir, name)
	ch.Was = replace
	en.nodes.paths.RLock()
	ch.Step = en.recorder.step(dir, name, en.nodes.path(dir, name), en.rules.settings(path), replace)
	en.nodes.paths.RUnlock()
	o.Keep, o.Published = ch.Step.Keep(), published(ch, cp)
	en.losses.expectCommit(s, path, cp.FD())
	v, err := cp.Publish(o)
	if err != nil {
		en.losses.notCommitted(s, path)
		return errnoOf(err)
	}
	ch.Is = statOf(&v)
	en.recorder.changes.Tell(ch)
	return en.goOnFromLocked(s, &v)
}

// goOnFromLocked lets the session go on from v, which is a copy of what was written until now.
// s.mu is held.
func (en *endings) goOnFromLocked(s *session, v *commit.Version) unix.Errno {
	s.copied = true
	s.isNew.Store(false)
	if err := s.shadow.Unsecure(); err != nil { // what was synced is in the copy
		en.disk.log.Warnf("%s: %v", s, err)
	}
	s.content.GoOn(en.locks.mappedLocked(s)) // the copy has what was changed so far, metadata too
	s.baseVersion = v
	return errnoOf(s.content.Mark())
}

// abandon rolls a session back that the end of the mount has cut off. A new file that its
// writer has synced appears, as it would after a crash.
func (en *endings) abandon(s *session) {
	s.mu.Lock()
	defer s.mu.Unlock()
	if !s.state.Is(sessionstate.Writing) {
		return
	}
	s.become(sessionstate.Ending)
	switch dirty, err := s.content.Dirty(); {
	case s.shadow.Secured() && en.mayAppearLocked(s):
		s.state.Answer(en.commits.decideLocked(s))
	case err != nil || dirty:
		s.state.Answer(en.commits.rejectLocked(s, unix.ESHUTDOWN, "latchfs was stopped before the file was closed"))
	}
	en.disk.discard(s.shadow)
	if s.saved.IsPublished() {
		s.become(sessionstate.Committed)
	} else {
		s.become(sessionstate.RolledBack)
	}
	en.rules.table.Release(s.lock)
}

// walkerGone notes that a caller who was led to the shadow will not come.
func (en *endings) walkerGone(s *session) {
	en.nodes.mu.Lock()
	s.walkers--
	en.nodes.mu.Unlock()
	en.endAtRelease(s) // without a descriptor nothing else would look for mappings
}

// closeStale answers the close of a descriptor of a handle: with an error if a change
// through it was refused, for a program may look only there. It keeps what was refused.
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
	x, path, owner := o.Loss, s.path(), s.who.Load().owner
	reason := x.Whole()
	id, err := en.keepAsideLocked(s, o, x.Public())
	if err != nil {
		en.disk.log.Warnf("cannot keep the refused bytes of %q: %v", path, err)
	}
	en.disk.discard(o.aside)
	o.aside = nil
	en.reports.record(s, "rollback", func(ev *audit.Event) {
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
		"path": s.path(), "session": s.id, "program": s.program(), "pid": s.who.Load().owner.PID,
		"uid": s.uid, "errno": unix.ErrnoName(unix.EBUSY), "reason": reason, "time": time.Now().UTC().Format(time.RFC3339Nano),
		"operation": o.Loss.Op, "base": keptBase(s.baseVersion),
	}
	dir, _ := s.where()
	en.locks.noteReach(meta, dir, s.shadow.FD())
	return o.aside.Reject(meta)
}

// dropWalk gives back the lock or session of a removed walk, if there is one.
func (en *endings) dropWalk(w *walk) {
	if w == nil {
		return
	}
	if w.lock != nil {
		en.rules.table.Cancel(w.lock, denied.ErrInterrupted)
		en.rules.table.Release(w.lock)
	}
	if w.sess != nil {
		en.walkerGone(w.sess)
	}
}

func (en *endings) truncate(s *session, size int64, killsuid bool) unix.Errno {
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
		return errnoOf(en.commits.dropBitsLocked(s))
	}
	return 0
}
