package fs

import (
	"golang.org/x/sys/unix"

	"latchfs/fs/changes"
	"latchfs/fs/sessionstate"
	"latchfs/fs/transaction"
	"latchfs/journal/commit"
	"latchfs/lockmgr"
)

// rename moves what has a name to another one, for the members.
func (t *txn) rename(c *caller, from, to place, flags uint32) unix.Errno {
	if flags&unix.RENAME_EXCHANGE != 0 {
		return unix.EINVAL
	}
	if from.key() == to.key() {
		return 0
	}
	if e := t.movable(from, to, flags); e != 0 {
		return e
	}
	repeated := t.astray.walks.Has(c, opRename, [2]dkey{from.key(), to.key()})
	l, e := t.admit(c, opRename, func(*walk) unix.Errno { return t.carry(c, from) }, from, to)
	if e != 0 {
		return e
	}
	s := t.nodes.sessionAt(from.dir, from.name)
	if s == nil && !repeated && c.TID() != 0 {
		// The kernel takes the inode that it has sent along: it must be the
		// session's.
		if e = t.carry(c, from); e == 0 {
			w := &walk{promise: promise{Op: opRename, At: [2]dkey{from.key(), to.key()}, Unparked: true}, lock: l}
			t.astray.walks.Put(c, w)
			return unix.ESTALE
		}
	}
	if s == nil {
		t.rules.table.Release(l)
		if e == 0 {
			e = unix.EBUSY
		}
		return e
	}
	t.Lock()
	defer t.Unlock()
	e = t.mayReplace(c, s, from, to)
	if e == 0 {
		e = t.move(c, s, from, to, flags)
	}
	if e != 0 {
		t.rules.table.Release(l)
		return e
	}
	t.KeepLocked(l)
	return 0
}

// mayReplace is renaming.mayReplace for a rename in a transaction, which moves the session s.
func (t *txn) mayReplace(c *caller, s *session, from, to place) unix.Errno {
	var st unix.Stat_t
	if t.rules.knowledge == nil {
		return 0
	}
	if t.nodes.sessionAt(to.dir, to.name) == nil && unix.Fstatat(t.nodes.fdOf(to.dir), to.name, &st, unix.AT_SYMLINK_NOFOLLOW) == nil {
		w := t.losses.learners(s)
		if e := t.losses.mayReplace(c, opRename, to, &st, append([]lockmgr.Owner{w.Self}, w.Relatives...)...); e != 0 {
			t.keepRemovedLocked(to)
			return e
		}
	}
	if s.isNew.Load() || unix.Fstatat(t.nodes.fdOf(from.dir), from.name, &st, unix.AT_SYMLINK_NOFOLLOW) != nil {
		return 0
	}
	e := t.entries.mayTakeAway(c, opRename, from, &st)
	if e != 0 {
		t.losses.ignoreNextRead(c, from)
	}
	return e
}

// movable looks whether a rename can be staged. EXDEV makes mv copy, which can:
// the answer for whatever has no private copy.
func (t *txn) movable(from, to place, flags uint32) unix.Errno {
	var st unix.Stat_t
	what, is := t.look(from.dir, from.name, &st)
	if is.sess != nil {
		what.InPlace = t.txns.inPlaceNow(is.sess)
	}
	where, _ := t.look(to.dir, to.name, &st)
	return transaction.MayMove(&what, &where, flags&unix.RENAME_NOREPLACE != 0)
}

func (tx *txns) inPlaceNow(s *session) bool {
	s.mu.Lock()
	defer s.mu.Unlock()
	return s.inPlace
}

// sees reports whether a name leads to anything for the members.
func (t *txn) sees(dir *inode, name string) bool {
	var st unix.Stat_t
	p, _ := t.look(dir, name, &st)
	return p.IsSeen()
}

// look is what a change of a name by a member finds, and what is kept with the name. What other
// transactions have removed is there for it, and what they have made is not: it asks for the
// lock, and waits for their end.
func (t *txn) look(dir *inode, name string, st *unix.Stat_t) (p transaction.Place, is nameState) {
	t.nodes.mu.Lock()
	is = t.nodes.nameLocked(dir, name)
	t.nodes.mu.Unlock()
	switch {
	case is.sess == nil:
	case is.sess.txn.Load() == t:
		p.Writing = transaction.ByMembers
	default:
		p.Writing = transaction.ByOthers
	}
	sn := is.staged
	if sn != nil && sn.t == t {
		p.Change = sn.did
	}
	err := unix.Fstatat(t.nodes.fdOf(dir), name, st, unix.AT_SYMLINK_NOFOLLOW)
	switch {
	case err != nil:
		p.Errno = errnoOf(err)
	case sn != nil && sn.t != t && sn.did.Hides(false):
		p.Errno = unix.ENOENT
	default:
		p.Kind = transaction.KindOf(st)
	}
	return p, is
}

// move gives the session another name. The transaction is locked.
func (t *txn) move(c *caller, s *session, from, to place, flags uint32) unix.Errno {
	switch {
	case t.IsOver():
		return unix.EBUSY
	case t.isGoneDir(to.dir):
		return unix.ENOENT
	}
	if flags&unix.RENAME_NOREPLACE != 0 && t.sees(to.dir, to.name) {
		return unix.EEXIST
	}
	for _, p := range []place{from, to} {
		if e := t.mayTake(c, p); e != 0 {
			return e
		}
	}
	// What may find no room comes first: takeBase ends what was written under the other name.
	if e := t.txns.fillToMove(s); e != 0 {
		return e
	}
	base, e := t.takeBase(to.dir, to.name)
	if e != 0 {
		return e
	}
	s.mu.Lock()
	defer s.mu.Unlock()
	if !s.state.Is(sessionstate.Writing) {
		return unix.EBUSY
	}
	if was := s.baseVersion; was != nil && t.txns.stagedAt(from.dir, from.name) == nil {
		t.stage(&stagedName{dir: from.dir, name: from.name, did: transaction.Moved, base: *was, heir: s, by: c})
	}
	s.content.CloseOld()
	t.moves.moveTo(s, to.dir, to.name)
	t.txns.setBase(s, base)
	s.content.Write()
	return 0
}

// fillToMove gives the session a shadow that can be published under any name.
func (tx *txns) fillToMove(s *session) unix.Errno {
	s.mu.Lock()
	defer s.mu.Unlock()
	if !s.state.Is(sessionstate.Writing) {
		return unix.EBUSY
	}
	return s.fillLocked()
}

// takeBase says what a session that gets this name will replace, and ends the one
// that has it. The transaction is locked.
func (t *txn) takeBase(dir *inode, name string) (*commit.Version, unix.Errno) {
	var st unix.Stat_t
	p, is := t.look(dir, name, &st)
	var own *commit.Version
	if s := is.sess; p.Writing == transaction.ByMembers {
		s.mu.Lock()
		own, p.InPlace, p.Shared = s.baseVersion, s.inPlace, t.txns.sharesLocked(s)
		s.mu.Unlock()
	}
	base, e := p.Replaced(own != nil)
	if e != 0 {
		return nil, e
	}
	if p.Writing == transaction.ByMembers {
		t.moves.dropFromTxn(is.sess)
	}
	switch base {
	case transaction.WritersBase:
		return own, 0
	case transaction.ChangesBase:
		v := is.staged.base
		return &v, 0
	case transaction.KindsBase:
		return versionPtr(&st), 0
	case transaction.NoBase:
	}
	return nil, 0
}

// setBase makes the session one that replaces base under its name. s.mu is held.
func (tx *txns) setBase(s *session, base *commit.Version) {
	tx.nodes.mu.Lock()
	defer tx.nodes.mu.Unlock()
	if b := s.base; b != nil {
		if b.shadow == s {
			b.shadow = nil
		}
		s.base = nil
		tx.nodes.unpinLocked(b)
	}
	s.baseVersion, s.baseKey = base, inoKey{}
	s.isNew.Store(base == nil)
	if base == nil {
		return
	}
	s.baseKey = inoKey{base.Dev, base.Ino}
	if b := tx.nodes.inodes[s.baseKey]; b != nil && b.shadow == nil {
		s.base = b
		b.pins++
		b.shadow = s
	}
}

// sharesLocked reports whether what was written belongs under other names, too,
// which we do not know, so that the session must not lose its own. s.mu is held.
func (tx *txns) sharesLocked(s *session) bool {
	return s.inPlace && s.baseNlink > 1 && s.changedInTxn()
}

// unlink removes a name for the members.
func (t *txn) unlink(c *caller, dir *inode, name string) unix.Errno {
	if !t.sees(dir, name) {
		return unix.ENOENT
	}
	var st unix.Stat_t
	n, _ := t.entries.known(dir, name, &st)
	l, e := t.admit(c, opUnlink, nil, place{dir, name, n})
	if e != 0 {
		return e
	}
	t.Lock()
	defer t.Unlock()
	if t.nodes.sessionAt(dir, name) == nil {
		e = t.entries.mayRemove(c, place{dir, name, n})
	}
	if e == 0 {
		e = t.remove(c, dir, name)
	}
	if e != 0 {
		t.rules.table.Release(l)
		return e
	}
	t.KeepLocked(l)
	return 0
}

// remove stages the removal of a file. The transaction is locked.
func (t *txn) remove(c *caller, dir *inode, name string) unix.Errno {
	if t.IsOver() {
		return unix.EBUSY
	}
	var st unix.Stat_t
	p, is := t.look(dir, name, &st)
	switch {
	case p.Change == transaction.Made:
		return t.unmake(is.staged)
	case p.Change != transaction.MadeDir && p.Kind != transaction.Nothing:
		if e := t.callers.mayTake(c, dir, &st); e != 0 {
			return e
		}
	}
	if s := is.sess; p.Writing == transaction.ByMembers {
		s.mu.Lock()
		p.Shared = t.txns.sharesLocked(s)
		s.mu.Unlock()
	}
	if e := p.MayRemove(); e != 0 {
		return e
	}
	if p.Writing == transaction.ByMembers {
		t.moves.dropFromTxn(is.sess)
	}
	if p.Kind != transaction.Nothing && p.Change == transaction.Unchanged {
		t.stage(&stagedName{
			dir: dir, name: name, did: transaction.Removed, base: commit.VersionOf(&st), by: c,
			was: &st, target: changes.TargetOf(t.nodes.fdOf(dir), name, &st),
		})
	}
	return 0
}

// unmake takes away what a member has made, for good. The transaction is locked.
func (t *txn) unmake(sn *stagedName) unix.Errno {
	e := errnoOf(t.store.Unmake(t.nodes.fdOf(sn.dir), sn.name))
	if e == 0 {
		t.drop(sn)
	}
	return e
}
