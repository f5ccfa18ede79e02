package fs

import (
	"errors"

	"golang.org/x/sys/unix"

	"latchfs/fs/content"
	"latchfs/fs/refusals"
	"latchfs/fs/sessionstate"
	"latchfs/journal/audit"
	"latchfs/journal/commit"
)

// This file publishes what a session has written, once that was decided.

// putLocked publishes sh, which is the session's shadow or a copy of it. The version is nil if
// that failed.
func (cm *commits) putLocked(s *session, sh *commit.Shadow) (*commit.Version, unix.Errno) {
	dir, name := s.where()
	o := cm.publishOptions(s, dir, name)
	if s.shadow.Secured() && sh != s.shadow { // what was synced is to be on disk in the copy
		o.Durability = commit.Full
	}
	ch := cm.recorder.changesOf(s, s.operation(), dir, name)
	ch.Was = statOf(s.baseVersion)
	if ch.Silent = cm.isCopyLocked(s); !ch.Silent {
		ch.Step = cm.recorder.commitStep(s, dir, name)
	}
	o.Keep, o.Published = ch.Step.Keep(), published(ch, sh)
	unsaved := cm.names.markSaved(s)
	cm.losses.expectCommit(s, ch.Path, sh.FD())
	keepBase := cm.judging.holdBaseOf(s, dir, name)
	committed := cm.keepTime(s)
	v, err := cm.publish(s, sh, o, dir, name)
	failed := err != nil && !errors.Is(err, commit.ErrNotDurable)
	keepBase(!failed)
	if failed {
		unsaved()
		if !errors.Is(err, commit.ErrRedoPending) { // that will come, sooner or later
			cm.losses.notCommitted(s, ch.Path)
		}
		return nil, cm.publishFailed(s, err)
	}
	committed()
	if sh == s.shadow {
		cm.sealLocked(s, &v)
	}
	ch.Is, ch.Err = statOf(&v), err
	if ch.Silent {
		cm.disk.versions.Restamped(ch.Path, ch.Was, ch.Is)
	}
	cm.recorder.changes.Tell(ch)
	if err != nil {
		return &v, cm.notDurable(s, err)
	}
	return &v, 0
}

// isCopyLocked reports whether what is about to take the name holds what the file before holds: a
// program has locked what it has open to write, and has written nothing. That is no new version.
func (cm *commits) isCopyLocked(s *session) bool {
	if !s.state.Is(sessionstate.GoingLive) || s.isNew.Load() || s.baseVersion == nil {
		return false
	}
	dirty, err := s.content.Dirty()
	return err == nil && !dirty
}

// notDurable tells of a new version that is there, while its program was to know it on disk.
func (cm *commits) notDurable(s *session, err error) unix.Errno {
	cm.disk.log.Errorf("%q: %v", s.path(), err)
	cm.reports.explain(refusals.Refusal{
		Path: s.path(), Op: s.operation(), Errno: unix.EIO, Owner: s.who.Load().Owner(), UID: s.uid,
		Reason: "the new version is there, but the disk failed, and after a power cut the earlier one may be back: " + err.Error(),
		Hint:   "When the disk is well again, save the file once more.",
	})
	return unix.EIO
}

// sealLocked notes what was published, and whether its program had synced that. s.mu is held.
func (cm *commits) sealLocked(s *session, v *commit.Version) {
	s.saved.Publish(content.Stamp{Size: v.Size, Mtime: v.Mtime})
	if s.inPlace || !s.saved.PublishedSynced() {
		return
	}
	cm.nodes.mu.Lock()
	defer cm.nodes.mu.Unlock()
	s.inode.synced = content.Stamp{Size: v.Size, Mtime: v.Mtime}
}

func (cm *commits) publishOptions(s *session, dir *inode, name string) commit.PublishOptions {
	return commit.PublishOptions{
		Dir: cm.nodes.fdOf(dir), DirPath: cm.nodes.nodePath(dir), Name: name,
		Base: s.baseVersion, Durability: s.durability(), Token: s.lock.Token(),
	}
}

// publish makes sh the file, or writes it into that.
func (cm *commits) publish(s *session, sh *commit.Shadow, o commit.PublishOptions, dir *inode, name string) (commit.Version, error) {
	if !s.inPlace {
		return sh.Publish(o)
	}
	target, err := unix.Openat(o.Dir, name, unix.O_RDWR|unix.O_NOFOLLOW|unix.O_CLOEXEC, 0)
	if err != nil {
		return commit.Version{}, err
	}
	defer unix.Close(target)
	v, err := sh.InPlace(target, o)
	if err == nil {
		s.outdated = s.base
	}
	return v, err
}

// dropOutdated makes the kernel read again what a commit in place has written. It waits for
// whoever reads a page, so s.mu is not held; and the close that commits waits for it.
func (cm *commits) dropOutdated(s *session) {
	s.mu.Lock()
	n := s.outdated
	s.outdated = nil
	s.mu.Unlock()
	if n != nil {
		cm.kernel.notifyInode(n, 0, -1)
	}
}

// publishCopy publishes a copy of what the shadow holds now under a name, while the session goes
// on writing: a file that its owner renames before closing it is visible at once, as it was at
// that moment. replace is the file that has the name, nil for none; lb says what was judged.
// s.mu is held.
func (en *endings) publishCopy(s *session, dir *inode, name string, replace *unix.Stat_t, lb *label) unix.Errno {
	if !en.locks.renewForCommit(s) {
		en.locks.explainTheft(s, opRename, unix.EBUSY)
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
		return en.copyRefused(s, path, err)
	}
	ch.Is = statOf(&v)
	en.recorder.changes.Tell(ch)
	return en.goOnFromLocked(s, &v)
}

// copyRefused is the answer to the rename of a file whose copy could not be published at path.
func (en *endings) copyRefused(s *session, path string, err error) unix.Errno {
	var conflict *commit.ConflictError
	if !errors.As(err, &conflict) {
		return errnoOf(err)
	}
	en.reports.sessionEvent(s, "bypass", func(ev *audit.Event) { ev.Path, ev.Detail["reason"] = path, err.Error() })
	en.reports.explain(refusals.Refusal{
		Path: path, Op: opRename, Errno: unix.EBUSY, Owner: s.who.Load().Owner(), UID: s.uid,
		Reason: "The file was changed outside the mount while it was about to be replaced, and was left as it is",
		Hint:   "Look at what it holds now, and rename again.",
	})
	return unix.EBUSY
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
