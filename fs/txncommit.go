package fs

import (
	"errors"
	"slices"
	"time"

	"golang.org/x/sys/unix"

	"latchfs/journal/audit"
	"latchfs/journal/commit"
	"latchfs/lockmgr"
)

// publishLocked checks everything, prepares it, and lets it happen. The sessions'
// mutexes are held.
func (t *txn) publishLocked(all []*session) error {
	f := t.f
	if l := f.ctl.Claims.LockOf(t.cl); !l.Held() || t.lost.Load() {
		return &refusedTxn{reason: "a lock of its was stolen", errno: unix.ESTALE}
	}
	for _, s := range all {
		if e, reason := s.checkTxn(); e != 0 {
			return &refusedTxn{path: s.path(), errno: e, reason: reason}
		}
	}
	if err := t.prepare(all); err != nil {
		return err
	}
	undo := make([]func(), 0, len(all))
	for _, s := range all {
		undo = append(undo, s.markSaved())
	}
	undo = append(undo, t.markRenamed())
	err := t.store.Commit()
	if errors.Is(err, commit.ErrRedoPending) {
		if r, again := f.store.Recover(); again == nil {
			f.keptLate(r)
			err = nil
		}
	}
	switch {
	case err == nil, errors.Is(err, commit.ErrNotDurable), errors.Is(err, commit.ErrRedoPending):
		return err
	}
	for _, u := range undo {
		u()
	}
	return &refusedTxn{errno: errnoOf(err), reason: "commit failed: " + err.Error()}
}

// prepare hands everything to the store. What is written in place comes last, for
// its preparation changes the times of a file of which another name may be replaced
// or removed.
func (t *txn) prepare(all []*session) error {
	for _, last := range []bool{false, true} {
		for _, s := range all {
			if s.inPlace != last || !s.changedInTxn() {
				continue
			}
			if err := t.prepareSession(s); err != nil {
				return err
			}
		}
		if last {
			break
		}
		for _, sn := range t.list() {
			if !sn.gone || t.f.sessionAt(sn.dir, sn.name) != nil {
				continue // what replaces it is prepared
			}
			if err := t.prepareRemoval(sn); err != nil {
				return err
			}
		}
	}
	return nil
}

func (t *txn) prepareSession(s *session) error {
	dir, name := s.where()
	o := s.publishOptions(dir, name)
	s.next = s.succeeds(dir, name)
	if !s.inPlace {
		s.next.keepAlone(dir, name)
	}
	o.Keep = s.next.kept()
	err := s.prepare(t.store, o)
	if err == nil {
		return nil
	}
	e, reason := errnoOf(err), "commit failed: "+err.Error()
	if errors.Is(err, commit.ErrConflict) {
		e, reason = unix.EBUSY, "the file was changed around the mount: "+err.Error()
	}
	return &refusedTxn{path: s.path(), errno: e, reason: reason}
}

func (t *txn) prepareRemoval(sn *stagedName) (err error) {
	f := t.f
	o := commit.RemoveOptions{
		Dir: f.fdOf(sn.dir), DirPath: f.nodePath(sn.dir), Name: sn.name, Base: sn.base, IsDir: sn.isDir,
	}
	path := f.path(sn.dir, sn.name)
	if !sn.isDir {
		sn.next = f.succeedNow(sn.dir, sn.name, path)
		sn.next.keepAlone(sn.dir, sn.name)
		o.Keep = sn.next.kept()
	}
	if sn.removal, err = t.store.Remove(o); err != nil {
		return &refusedTxn{path: path, errno: errnoOf(err), reason: "cannot be removed: " + err.Error()}
	}
	return nil
}

// tellNames tells what has become of the staged names, in the order in which the
// members did it. What has replaced a removed file tells of that itself.
func (t *txn) tellNames() {
	f := t.f
	for _, sn := range t.list() {
		path := f.path(sn.dir, sn.name)
		switch {
		case !sn.gone:
			f.noteMade(sn.by, sn.op, path, t.label)
			f.madeDir(sn.by, sn.dir, sn.name)
		case sn.removal == nil:
		case sn.isDir && sn.isThere(): // somebody has put a live file there, and it stays
		case sn.isDir:
			f.noteGone(sn.by, path, sn.was, "", t.label)
			f.filed.Gone(f.claimAt(sn.dir, sn.name))
		default:
			t.tellRemoval(sn)
		}
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
	ch := sn.by.changes(opUnlink, place{dir: sn.dir, name: sn.name}, t.id)
	f.paths.RUnlock()
	ch.was, ch.target, ch.txn = sn.was, sn.target, t.label
	if ch.was == nil {
		ch.was = statOf(&sn.base)
	}
	ch.version = isFile(ch.was)
	ch.next, ch.kept = sn.next, sn.removal.Kept()
	f.tell(ch)
}

// list are the staged names, in the order in which they were staged.
func (t *txn) list() []*stagedName {
	t.f.mu.Lock()
	defer t.f.mu.Unlock()
	list := make([]*stagedName, 0, len(t.names))
	for _, sn := range t.names {
		list = append(list, sn)
	}
	slices.SortFunc(list, func(a, b *stagedName) int { return a.nth - b.nth })
	return list
}

// rollback takes everything back. What was written is kept under rejected.
func (t *txn) rollback(reason string) {
	t.mu.Lock()
	defer t.mu.Unlock()
	if t.over.Load() {
		return
	}
	all := t.finalSessions()
	for _, s := range all {
		s.mu.Lock()
	}
	t.rollbackLocked(all, reason)
	for _, s := range all {
		s.mu.Unlock()
	}
	t.endLocked(false)
}

// rollbackLocked ends the sessions without a commit. Their mutexes are held.
func (t *txn) rollbackLocked(all []*session, reason string) {
	t.reason = reason
	t.over.Store(true)
	for _, s := range all {
		s.rollbackInTxn(reason)
	}
	if err := t.store.Rollback(); err != nil {
		t.f.log.Warnf("rolling back a transaction: %v", err)
	}
}

// rollbackInTxn ends a session whose transaction is rolled back. s.mu is held.
func (s *session) rollbackInTxn(reason string) {
	switch {
	case s.state.hasEnded():
		return
	case s.state == stateDetached:
		s.endAs(stateDropped, 0)
		return
	}
	s.become(stateEnding)
	var e unix.Errno
	if s.changedInTxn() {
		e = s.rejectLocked(unix.ECANCELED, "the transaction was rolled back: "+reason)
	} else {
		s.discard(s.shadow)
	}
	s.endAs(stateRolledBack, e)
}

// endLocked shows the names as they are now, gives the locks back and says in the
// audit trail how it ended. t.mu is held.
func (t *txn) endLocked(committed bool) {
	f := t.f
	if committed {
		t.followHeirs()
	}
	removed := 0
	for _, sn := range t.list() {
		if sn.gone {
			removed++
			if committed && sn.renamed == nil {
				f.removedByTxn(sn)
			}
		}
		f.unstage(sn)
		f.dropName(sn.dir, sn.name)
		f.markerMoved(sn.name)
		f.unpin(sn.dir)
	}
	for _, l := range t.locks {
		f.table.Release(l)
	}
	t.locks = nil
	event := "txn_committed"
	detail := map[string]any{"transaction": t.label, "removed": removed, "program": claimant(t.cl).program(), "uid": t.cl.By.UID()}
	if !committed {
		event, detail["reason"] = "txn_rolled_back", t.reason
	}
	f.event(audit.Event{Time: time.Now(), Event: event, PID: t.owner.PID, Token: t.id, Detail: detail})
}

// removedByTxn is what else follows from the removal of a name.
func (f *FS) removedByTxn(sn *stagedName) {
	f.mu.Lock()
	n := f.inodes[inoKey{sn.base.Dev, sn.base.Ino}]
	f.mu.Unlock()
	f.unlinked(n, sn.key(), n != nil && f.unnamed(n))
}

// keep holds a lock until the transaction ends, if it has not. t.mu is held.
func (t *txn) keep(l *lockmgr.Lock) {
	if t.over.Load() {
		t.f.table.Release(l)
		return
	}
	t.locks = append(t.locks, l)
}

// checkTxn is decideLocked's checks for a session of a transaction.
func (s *session) checkTxn() (unix.Errno, string) {
	if s.state != stateWriting {
		return unix.ESTALE, "its session has ended"
	}
	if !s.changedInTxn() {
		return 0, ""
	}
	if !s.stillJudged() {
		return unix.EBUSY, errUnsettled.Error()
	}
	return s.checkLocked()
}

// changedInTxn reports whether the session has anything to publish.
func (s *session) changedInTxn() bool {
	if s.isNew.Load() || len(s.meta) > 0 {
		return true
	}
	dirty, err := s.dirtyLocked()
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
	s.become(stateEnding)
	var e unix.Errno
	if err != nil {
		e = unix.EIO
	}
	var st unix.Stat_t
	if changed && s.statPublished(&st) == nil {
		s.sealed = cacheStamp{size: st.Size, mtime: st.Mtim}
		dir, name := s.where()
		ch := s.changes(s.operation(), dir, name)
		ch.was, ch.is, ch.err, ch.txn = statOf(s.baseVersion), &st, err, s.txn.Load().label
		ch.next, ch.kept = s.next, s.shadow.Kept()
		s.f.tell(ch)
	}
	if s.inPlace && s.base != nil {
		base := s.base
		go s.f.notifyInode(base, 0, -1)
	}
	s.endAs(stateCommitted, e)
}
