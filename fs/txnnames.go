package fs

import (
	"slices"

	"golang.org/x/sys/unix"

	"latchfs/fs/listing"
	"latchfs/fs/transaction"
	"latchfs/lockmgr"
	"latchfs/lockmgr/policy"
)

// This file is about the operations on names by the members of a transaction.
// They take the same locks as anybody's, and keep them until it ends.

// isLiveName reports whether the policy, or what was seen of it, makes a name live.
func (tx *txns) isLiveName(dir *inode, name string) bool {
	return tx.rules.settings(tx.nodes.path(dir, name)).Mode == policy.Live
}

// stagedAt is what a transaction has done to a name, nil if nothing.
func (tx *txns) stagedAt(dir *inode, name string) *stagedName {
	tx.nodes.mu.Lock()
	defer tx.nodes.mu.Unlock()
	return tx.nodes.nameLocked(dir, name).staged
}

// stage enters a name.
func (t *txn) stage(sn *stagedName) {
	sn.by.Remember() // who has removed or made it is told at the commit
	t.nodes.mu.Lock()
	defer t.nodes.mu.Unlock()
	sn.t, sn.at, sn.nth = t, t.nodes.dentries.Get(sn.dir.dentry, sn.name), t.staged
	t.staged++
	sn.dir.pins++
	t.changed[sn.at] = sn
	sn.at.State.staged = sn
	t.callers.descriptors.Charge(sn.by.UID(), perStaged)
}

// unstage forgets it. The directory is still pinned.
func (tx *txns) unstage(sn *stagedName) {
	tx.nodes.mu.Lock()
	defer tx.nodes.mu.Unlock()
	if sn.at == nil {
		return
	}
	delete(sn.t.changed, sn.at)
	if sn.at.State.staged == sn {
		sn.at.State.staged = nil
	}
	tx.nodes.dentries.Put(sn.at)
	sn.at = nil
	tx.callers.descriptors.Give(sn.by.UID(), perStaged)
}

// drop forgets a staged name for good.
func (t *txn) drop(sn *stagedName) {
	t.txns.unstage(sn)
	t.nodes.unpin(sn.dir)
}

// list are the staged names, in the order in which they were staged.
func (t *txn) list() []*stagedName {
	t.nodes.mu.Lock()
	defer t.nodes.mu.Unlock()
	list := make([]*stagedName, 0, len(t.changed))
	for _, sn := range t.changed {
		list = append(list, sn)
	}
	slices.SortFunc(list, func(a, b *stagedName) int { return a.nth - b.nth })
	return list
}

// keepRemoved takes back that the transaction removes the file that has a name, for what was
// to take its place is refused: it is there again for the members, too.
func (t *txn) keepRemoved(p place) {
	t.Lock()
	defer t.Unlock()
	t.keepRemovedLocked(p)
}

// keepRemovedLocked is keepRemoved. The transaction is locked.
func (t *txn) keepRemovedLocked(p place) {
	sn := t.txns.stagedAt(p.dir, p.name)
	if sn != nil && sn.t == t && sn.did == transaction.Removed && !t.IsOver() {
		t.drop(sn)
	}
}

// hides reports whether the caller does not see a name that is there: removed by
// its own transaction, or made by somebody else's.
func (sn *stagedName) hides(c *caller) bool {
	return sn.did.Hides(sn.t.callers.txnOf(c) == sn.t)
}

// stagedView leaves out of a listing what the caller does not see.
func (tx *txns) stagedView(c *caller, dir *inode, list []listing.Entry) []listing.Entry {
	if !tx.callers.running.Any() {
		return list
	}
	kept := list[:0]
	for _, e := range list {
		sn := tx.stagedAt(dir, e.Name)
		if sn != nil {
			e.Volatile = true
			if sn.hides(c) && !(sn.did.IsGone() && tx.nodes.sessionAt(dir, e.Name) != nil) {
				continue
			}
		}
		kept = append(kept, e)
	}
	return kept
}

// admit locks names for a member. The lock is the transaction's if nothing goes
// wrong.
func (t *txn) admit(c *caller, op string, granted func(*walk) unix.Errno, places ...place) (*lockmgr.Lock, unix.Errno) {
	var at [2]dkey
	var dirs []*inode
	for i, p := range places {
		at[i] = p.key()
		if len(dirs) == 0 || dirs[0] != p.dir {
			dirs = append(dirs, p.dir)
		}
	}
	d := t.locks.fileDemand(c, op, t.rules.settings(t.nodes.path(places[0].dir, places[0].name)).Wait, places...)
	if t.IsOver() {
		return nil, t.locks.refuse(d, transaction.ErrOver)
	}
	if !t.callers.descriptors.Fits(c.UID(), perStaged) {
		return nil, t.reports.hasTooMany(c, op, d.path)
	}
	return t.parking.admit(c, op, d, at, dirs, granted)
}

// carry begins a session on a committed file that a member is about to change
// other than by opening it.
func (t *txn) carry(c *caller, p place) unix.Errno {
	if s := t.nodes.sessionAt(p.dir, p.name); s != nil {
		if s.txn.Load() == t {
			return 0
		}
		return unix.EBUSY
	}
	var st unix.Stat_t
	if err := unix.Fstatat(t.nodes.fdOf(p.dir), p.name, &st, unix.AT_SYMLINK_NOFOLLOW); err != nil {
		return errnoOf(err)
	}
	d := t.locks.fileDemand(c, opOpen, 0, p)
	d.label = labelOf(c, opOpen, d.path)
	l, err := t.locks.acquire(d, true)
	if err != nil {
		return t.locks.refuse(d, err)
	}
	s, e := t.sessions.begin(c, l, p.dir, p.name, &st, beginOptions{settings: t.rules.settings(d.path)})
	if e != 0 {
		t.rules.table.Release(l)
		return e
	}
	defer t.endings.walkerGone(s)
	s.mu.Lock()
	defer s.mu.Unlock()
	return s.fillLocked()
}

// attributes begins a session on a committed file whose attributes a member
// changes, and leads it there: ESTALE means that. may is asked under the lock.
func (t *txn) attributes(c *caller, op string, p place, may func() unix.Errno) unix.Errno {
	if !t.parking.repeats(c, op) {
		// Through a descriptor of the file as it is for everybody.
		return t.reports.refuseWith(c, op, t.nodes.path(p.dir, p.name), unix.EBUSY,
			"In a transaction the attributes of a file are not changed through a descriptor that was opened to read it: that is of the file as everybody sees it",
			"Change them by the file's name, or through a descriptor that was opened for writing.")
	}
	carry := func() unix.Errno {
		if e := may(); e != 0 {
			return e
		}
		return t.carry(c, p)
	}
	l, e := t.admit(c, op, func(*walk) unix.Errno { return carry() }, p)
	if e != 0 {
		return e
	}
	t.Lock()
	t.KeepLocked(l)
	t.Unlock()
	if e := carry(); e != 0 {
		return e
	}
	return t.astray.staleAt(c, p.inode)
}

// isGone reports whether a name leads nowhere for the caller although there is
// something.
func (tx *txns) isGone(c *caller, dir *inode, name string) bool {
	sn := tx.stagedAt(dir, name)
	return sn != nil && sn.did.IsGone() && !sn.did.IsDir() && sn.hides(c)
}

// coverGone makes a new session one that replaces what a member has removed
// before.
func (tx *txns) coverGone(s *session) {
	dir, name := s.where()
	if sn := tx.stagedAt(dir, name); sn != nil && sn.did.IsGone() && s.isNew.Load() {
		base := sn.base
		s.mu.Lock()
		tx.nodes.mu.Lock()
		s.baseVersion, s.baseKey = &base, inoKey{base.Dev, base.Ino}
		tx.nodes.mu.Unlock()
		s.mu.Unlock()
	}
}
