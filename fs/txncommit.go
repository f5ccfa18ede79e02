package fs

import (
	"errors"
	"fmt"

	"golang.org/x/sys/unix"

	"latchfs/fs/changes"
	"latchfs/fs/content"
	"latchfs/fs/judge"
	"latchfs/fs/sessionstate"
	"latchfs/fs/transaction"
	"latchfs/journal/commit"
)

// prepareInTxn hands the session to the store of its transaction. s.mu is held.
func (s *session) prepareInTxn(store *commit.Txn) error {
	dir, name := s.where()
	o := s.publishOptions(dir, name)
	s.next = s.succeeds(dir, name)
	if !s.inPlace {
		s.next.KeepAloneNow()
	}
	o.Keep = s.next.Keep()
	err := s.prepare(store, o)
	switch {
	case err == nil:
		return nil
	case errors.Is(err, commit.ErrConflict):
		return fmt.Errorf("the file was changed around the mount: %w", err)
	}
	return fmt.Errorf("commit failed: %w", err)
}

// Prepare implements transaction.Name.
func (sn *stagedName) Prepare() (err error) {
	f := sn.t.f
	o := commit.RemoveOptions{
		Dir: f.fdOf(sn.dir), DirPath: f.nodePath(sn.dir), Name: sn.name, Base: sn.base, IsDir: sn.did == transaction.RemovedDir,
	}
	if !o.IsDir {
		sn.next = f.stepNow(sn.dir, sn.name, sn.Path())
		sn.next.KeepAloneNow()
		o.Keep = sn.next.Keep()
	}
	if sn.removal, err = sn.t.store.Remove(o); err != nil {
		return fmt.Errorf("cannot be removed: %w", err)
	}
	return nil
}

// Tell implements transaction.Name. What has replaced a removed file tells of that itself.
func (sn *stagedName) Tell() {
	t := sn.t
	f, path := t.f, sn.Path()
	switch {
	case !sn.did.IsGone():
		f.changes.Made(byCaller{sn.by}, sn.op, path, t.Label())
		f.clerk.Made(sn.by, f.claimName(sn.dir, sn.name))
	case sn.removal == nil:
	case sn.did == transaction.RemovedDir && sn.isThere(): // somebody has put a live file there, and it stays
	case sn.did == transaction.RemovedDir:
		f.changes.Gone(byCaller{sn.by}, path, sn.was, "", t.Label())
		f.filed.Gone(f.claimName(sn.dir, sn.name).Place())
	default:
		t.tellRemoval(sn)
	}
}

// isThere reports whether what was to be removed has its name still.
func (sn *stagedName) isThere() bool {
	var st unix.Stat_t
	err := unix.Fstatat(sn.t.f.fdOf(sn.dir), sn.name, &st, unix.AT_SYMLINK_NOFOLLOW)
	return err == nil && uint64(st.Dev) == sn.base.Dev && st.Ino == sn.base.Ino
}

// tellRemoval tells that a file or a link has been removed.
func (t *txn) tellRemoval(sn *stagedName) {
	f := t.f
	f.paths.RLock()
	ch := sn.by.changes(opUnlink, place{dir: sn.dir, name: sn.name}, t.ID())
	f.paths.RUnlock()
	ch.Was, ch.Target, ch.Txn = sn.was, sn.target, t.Label()
	if ch.Was == nil {
		ch.Was = statOf(&sn.base)
	}
	ch.Version = changes.IsFile(ch.Was)
	ch.Step, ch.Kept = sn.next, sn.removal.Kept()
	f.changes.Tell(ch)
}

// rollbackInTxn ends a session whose transaction is rolled back. s.mu is held.
func (s *session) rollbackInTxn(reason string) {
	switch {
	case s.state.HasEnded():
		return
	case s.state.Is(sessionstate.Detached):
		s.endAs(sessionstate.Dropped, 0)
		return
	}
	s.become(sessionstate.Ending)
	var e unix.Errno
	if s.changedInTxn() {
		e = s.rejectLocked(unix.ECANCELED, "the transaction was rolled back: "+reason)
	} else {
		s.discard(s.shadow)
	}
	s.endAs(sessionstate.RolledBack, e)
}

// End implements transaction.Name.
func (sn *stagedName) End(committed bool) {
	f := sn.t.f
	if committed && sn.did.IsGone() && sn.renamed == nil {
		f.removedByTxn(sn)
	}
	f.unstage(sn)
	f.dropName(sn.dir, sn.name)
	f.markerMoved(sn.name)
	f.unpin(sn.dir)
}

// removedByTxn is what else follows from the removal of a name.
func (f *FS) removedByTxn(sn *stagedName) {
	f.mu.Lock()
	n := f.inodes[inoKey{sn.base.Dev, sn.base.Ino}]
	f.mu.Unlock()
	f.unlinked(n, sn.key(), n != nil && f.unnamed(n))
}

// checkTxn is decideLocked's checks for a session of a transaction.
func (s *session) checkTxn() error {
	if !s.state.Is(sessionstate.Writing) {
		return errors.New("its session has ended")
	}
	if !s.changedInTxn() {
		return nil
	}
	if !s.judged.Stands(s.f.judge, sessionDraft{s}) {
		return judge.ErrUnsettled
	}
	if e, reason := s.checkLocked(); e != 0 {
		return errors.New(reason)
	}
	return nil
}

// changedInTxn reports whether the session has anything to publish.
func (s *session) changedInTxn() bool {
	if s.isNew.Load() || s.content.HasMeta() {
		return true
	}
	dirty, err := s.content.Dirty()
	return err != nil || dirty
}

// statPublished looks at what the session has published: its shadow, or the file that
// was written in place.
func (s *session) statPublished(st *unix.Stat_t) error {
	if !s.inPlace {
		return unix.Fstat(s.shadow.FD(), st)
	}
	dir, name := s.where()
	return unix.Fstatat(s.f.fdOf(dir), name, st, unix.AT_SYMLINK_NOFOLLOW)
}

// prepare hands the session's shadow to a transaction of the store.
func (s *session) prepare(store *commit.Txn, o commit.PublishOptions) error {
	if !s.inPlace {
		return store.Put(s.shadow, o)
	}
	target, err := unix.Openat(o.Dir, o.Name, unix.O_RDWR|unix.O_NOFOLLOW|unix.O_CLOEXEC, 0)
	if err != nil {
		return err
	}
	defer unix.Close(target)
	return store.PutInPlace(s.shadow, target, o)
}

// endPublished ends a session whose transaction has happened, with err or without.
func (s *session) endPublished(err error) {
	changed := s.changedInTxn()
	s.become(sessionstate.Ending)
	var e unix.Errno
	if err != nil {
		e = unix.EIO
	}
	var st unix.Stat_t
	if changed && s.statPublished(&st) == nil {
		s.saved.Publish(content.StampOf(&st))
		dir, name := s.where()
		ch := s.changes(s.operation(), dir, name)
		ch.Was, ch.Is, ch.Err, ch.Txn = statOf(s.baseVersion), &st, err, s.txn.Load().Label()
		ch.Step, ch.Kept = s.next, s.shadow.Kept()
		s.f.changes.Tell(ch)
	}
	if s.inPlace && s.base != nil {
		base := s.base
		go s.f.notifyInode(base, 0, -1)
	}
	s.endAs(sessionstate.Committed, e)
}
