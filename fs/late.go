package fs

import (
	"errors"
	"time"

	"golang.org/x/sys/unix"

	"latchfs/fs/content"
	"latchfs/fs/sessionstate"
	"latchfs/journal/audit"
	"latchfs/journal/commit"
	"latchfs/lockmgr"
)

// late looks after a session whose RELEASE has not followed its commit:
// somebody whom the holder set missed still has the descriptor. The published
// inode is exchanged for a copy, so that late writes go to an orphan.
func (s *session) late() {
	s.mu.Lock()
	gone := len(s.handles) == 0
	s.mu.Unlock()
	if gone {
		return
	}
	if _, found := s.holders.Anybody(); !found && s.patience.Add(-1) > 0 {
		// Most likely RELEASE is only slow to come.
		time.AfterFunc(lateGrace, s.late)
		return
	}
	s.setApart()
}

// setApart exchanges the published inode for a copy. It takes the name's lock
// like anybody else: where that is held, the holder will replace the inode.
func (s *session) setApart() {
	f := s.f
	dir, name := s.where()
	c := &caller{f: f, owner: lockmgr.Owner{Start: f.serial.Add(1)}}
	l, err := f.acquire(f.fileDemand(c, opOpen, 0, place{dir, name, nil}), true)
	if err != nil {
		return
	}
	defer f.table.Release(l)
	s.mu.Lock()
	dir, name = s.setApartLocked()
	s.mu.Unlock()
	if dir != nil {
		f.dropName(dir, name)
		f.unpin(dir)
	}
}

// setApartLocked does the exchange, and returns the name that leads elsewhere now, its
// directory pinned.
func (s *session) setApartLocked() (*inode, string) {
	f := s.f
	if len(s.handles) == 0 || !s.state.Is(sessionstate.Committed) || s.state.Result() != 0 {
		return nil, ""
	}
	dir, name := s.where()
	var st unix.Stat_t
	if unix.Fstatat(f.fdOf(dir), name, &st, unix.AT_SYMLINK_NOFOLLOW) != nil {
		return nil, ""
	}
	f.mu.Lock()
	same := s.inode.key == inoKey{uint64(st.Dev), st.Ino}
	f.mu.Unlock()
	if !same || st.Nlink > 1 {
		return nil, ""
	}
	ended := f.markReplaced(s.inode.key, s.inode) // who has opened it to read locks the name
	err := s.exchangeLocked(dir, name, &st)
	ended(err == nil)
	if err != nil {
		f.log.Warnf("%q is still open somewhere after its commit and cannot be set apart: %v", s.path(), err)
		return nil, ""
	}
	s.become(sessionstate.Apart)
	s.record("late", func(ev *audit.Event) {
		ev.Detail["reason"] = "a process outside the holder set still has the descriptor; its later writes are kept aside"
	})
	f.pin(dir)
	return dir, name
}

// adopt finds out who still has the descriptor of a session that has nothing
// to commit and whose known holders are gone: a process to which the
// descriptor was passed. The session is its from now on.
func (s *session) adopt() {
	s.mu.Lock()
	defer s.mu.Unlock()
	s.lingering = nil
	if !s.state.Is(sessionstate.Writing) || len(s.handles) == 0 {
		return
	}
	if o, ok := s.holders.Anybody(); ok {
		s.handToLocked(o)
	}
}

// released cleans up after the last RELEASE of an ended session.
func (s *session) released() {
	s.mu.Lock()
	defer s.mu.Unlock()
	if s.writtenLate() {
		s.rejectLocked(unix.ESTALE, "written after the commit through a descriptor that had been passed on")
	}
	s.f.discard(s.shadow)
	s.f.mu.Lock()
	s.finishLocked()
	s.f.mu.Unlock()
}

// endAtRelease is the catch-all for sessions that no FLUSH ended: the last
// descriptor is closed, but a passthrough mapping may still be written.
func (s *session) endAtRelease() {
	if s.endIfIdle(nil); s.isLookedAfter() {
		return
	}
	go func() {
		t := time.NewTicker(mapPoll)
		defer t.Stop()
		for {
			select {
			case <-s.f.done:
				return
			case <-t.C:
			}
			if s.endIfIdle(nil); s.isLookedAfter() {
				return
			}
		}
	}()
}

// isLookedAfter reports whether the session has ended, or something is still to come that
// ends it: a close, a caller on his way to it, the end of its transaction.
func (s *session) isLookedAfter() bool {
	s.mu.Lock()
	defer s.mu.Unlock()
	return s.state.HasEnded() || len(s.handles) > 0 || s.expected() || s.held()
}

// writtenLate reports whether the inode was written after its publication and
// is no longer what its name leads to, so that nobody would find the bytes.
func (s *session) writtenLate() bool {
	var st unix.Stat_t
	s.f.mu.Lock()
	unsealed := s.inode.unsealed
	s.f.mu.Unlock()
	if s.state.Is(sessionstate.Live) || unsealed || s.state.Result() != 0 || !s.saved.IsPublished() || s.shadow.FD() < 0 || unix.Fstat(s.shadow.FD(), &st) != nil {
		return false
	}
	return st.Nlink == 0 && s.saved.Published() != content.StampOf(&st)
}

// publishCopy publishes what the shadow holds now under a name, while the
// session goes on writing. It is how a file that its owner renames before
// closing it becomes visible at once without ever being seen half written. lb says
// what was judged of it.
func (s *session) publishCopy(dir *inode, name string, replace *unix.Stat_t, lb *label) unix.Errno {
	f := s.f
	if !s.keepsLock() {
		return unix.EBUSY // of a path operation, for which ESTALE means another walk
	}
	if e := s.fillLocked(); e != 0 {
		return e
	}
	if err := s.fixMode(); err != nil { // what is published has the bits that it would have at the close
		return errnoOf(err)
	}
	cp, err := s.shadow.Clone(f.fdOf(dir))
	if err != nil {
		return errnoOf(err)
	}
	defer s.f.discard(cp)
	path := f.path(dir, name)
	if f.judge.Rules(path) != nil && !lb.passed.Has(path, s.shadow.FD()) {
		return unix.EBUSY // written since by another thread
	}
	o := s.publishOptions(dir, name)
	o.Base = versionPtr(replace)
	if s.shadow.Secured() { // what was synced is to be on disk in the copy
		o.Durability = commit.Full
	}
	ch := s.changes(opRename, dir, name)
	ch.Was = replace
	f.paths.RLock()
	ch.Step = f.step(dir, name, f.path(dir, name), f.settings(path), replace)
	f.paths.RUnlock()
	o.Keep, o.Published = ch.Step.Keep(), published(ch, cp)
	s.expectCommit(path, cp.FD())
	v, err := cp.Publish(o)
	if err != nil {
		s.notCommitted(path)
		return errnoOf(err)
	}
	ch.Is = statOf(&v)
	f.changes.Tell(ch)
	return s.goOnFromLocked(&v)
}

// goOnFromLocked lets the session go on from v, which is a copy of what was written until now.
// s.mu is held.
func (s *session) goOnFromLocked(v *commit.Version) unix.Errno {
	s.copied = true
	s.isNew.Store(false)
	if err := s.shadow.Unsecure(); err != nil { // what was synced is in the copy
		s.f.log.Warnf("%s: %v", s, err)
	}
	s.content.GoOn(s.mappedLocked()) // the copy has what was changed so far, metadata too
	s.baseVersion = v
	return errnoOf(s.content.Mark())
}

// autoLive makes a file live whose users treat it as a database. Where the
// commit writes into the file in place the shadow cannot become the file under
// its writer, who keeps the file to itself until the close.
func (s *session) autoLive(why string) unix.Errno {
	s.mu.Lock()
	stays := s.state.Is(sessionstate.Live) || s.inPlace || s.writing.Merges() || s.settings.Validate != nil || s.txn.Load() != nil
	s.mu.Unlock()
	if stays {
		return 0
	}
	if dev, ino, ok := s.shown.File(); ok {
		// A database compares the inode numbers of descriptor and name.
		s.f.mu.Lock()
		s.inode.shownAs = inoKey{dev, ino}
		s.f.mu.Unlock()
	}
	// Marked only when the shadow has become the file: whoever opens the name
	// before that waits for the lock, and must not get the old inode.
	e := s.goLive(func() {
		s.inode.live = true
		if s.grows {
			s.inode.grower = s
		}
		s.f.setLiveLocked(s.dentry, liveByUse)
	})
	if e != 0 {
		return e
	}
	s.record("auto_live", func(ev *audit.Event) { ev.Detail["reason"] = why })
	return 0
}

// goLive publishes the shadow at once and ends the session; what its handles
// write from now on goes straight into the file. mark, if not nil, is called
// under FS.mu when that is so and before anybody else gets the lock.
func (s *session) goLive(mark func()) unix.Errno {
	s.mu.Lock()
	defer s.mu.Unlock()
	if !s.state.Is(sessionstate.Writing) {
		return s.state.Result()
	}
	s.become(sessionstate.GoingLive)
	defer s.beginWork()()
	dirty, err := s.content.Dirty()
	s.writing.Publish(dirty)
	e := errnoOf(err)
	switch {
	case err != nil:
	case dirty || s.isNew.Load() || len(s.handles) > 0:
		e = s.decideLocked()
	default:
		e = s.applyMetaLocked()
	}
	if e == 0 {
		s.f.changed(s.inode, true)
	}
	if e == 0 && mark != nil {
		s.f.mu.Lock()
		mark()
		key := s.inode.key.lockKey()
		path := s.dentry.Path()
		s.f.mu.Unlock()
		// A relative's flock or fcntl locks were the name's and are the inode's now.
		s.f.table.RekeyFile(nil, lockmgr.Key(path), key)
	}
	return s.endWith(e)
}

// exchangeLocked puts a copy of the published inode in its place.
func (s *session) exchangeLocked(dir *inode, name string, st *unix.Stat_t) error {
	cp, err := s.shadow.Clone(s.f.fdOf(dir))
	if err != nil {
		return err
	}
	defer s.f.discard(cp)
	o := s.publishOptions(dir, name)
	o.Base = versionPtr(st)
	v, err := cp.Publish(o)
	if err != nil && !errors.Is(err, commit.ErrNotDurable) {
		return err
	}
	s.f.restamped(s.f.path(dir, name), st, statOf(&v))
	s.f.forgetAttrs(s.inode)
	if err != nil { // the copy has the name all the same
		s.f.log.Errorf("%q: %v", s.path(), err)
	}
	return nil
}

// discard gives a shadow back that is published, kept or not needed.
func (f *FS) discard(sh *commit.Shadow) {
	if err := sh.Discard(); err != nil {
		f.log.Warnf("cannot remove a shadow: %v", err)
	}
}
