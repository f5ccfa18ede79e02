package fs

import (
	"golang.org/x/sys/unix"

	"latchfs/fs/listing"
	"latchfs/fs/lockkey"
	"latchfs/fs/reach"
	"latchfs/fs/transaction"
	"latchfs/journal/commit"
)

// rmdir removes a directory for the members. Nobody else makes anything in it
// meanwhile: its whole tree is locked.
func (t *txn) rmdir(c *caller, dir *inode, name string) unix.Errno {
	if !t.sees(dir, name) {
		return unix.ENOENT
	}
	var st unix.Stat_t
	n, e := t.entries.known(dir, name, &st)
	switch {
	case e != 0:
		return e
	case st.Mode&unix.S_IFMT != unix.S_IFDIR:
		return unix.ENOTDIR
	}
	p := place{dir, name, nil}
	path := t.nodes.path(dir, name)
	at := [2]dkey{p.key()}
	d := t.locks.fileDemand(c, opRmdir, t.rules.settings(path).Wait)
	d.path, d.places, d.target = path, nil, &lockkey.Target{Trees: []string{path}}
	if t.IsOver() {
		return t.locks.refuse(d, transaction.ErrOver)
	}
	repeated := t.astray.walks.Has(c, opRmdir, at)
	l, e := t.parking.admit(c, opRmdir, d, at, []*inode{dir}, func(w *walk) unix.Errno { return t.parking.leadToTwin(w, dir, name) })
	if e != 0 {
		return e
	}
	if !repeated && c.TID() != 0 && t.txns.stagedAt(dir, name) == nil {
		w := &walk{promise: promise{Op: opRmdir, At: at, Unparked: true}, d: d, lock: l}
		t.astray.walks.Put(c, w)
		if e := t.parking.leadToTwin(w, dir, name); e != 0 {
			t.astray.walks.Drop(w)
			return e
		}
		return unix.ESTALE
	}
	t.Lock()
	defer t.Unlock()
	if e := t.removeDir(c, dir, name, n, &st); e != 0 {
		t.rules.table.Release(l)
		return e
	}
	t.KeepLocked(l)
	return 0
}

// isGoneDirLocked reports whether the transaction has removed a directory, which its
// members may yet have open. nodes.mu is held.
func (t *txn) isGoneDirLocked(dir *inode) bool {
	if dir.parent == nil {
		return false
	}
	sn := dir.dentry.State.staged
	return sn != nil && sn.t == t && sn.did == transaction.RemovedDir
}

// admitsLocked reports whether a session may become the transaction's. nodes.mu is held.
func (t *txn) admitsLocked(s *session) unix.Errno {
	switch {
	case !t.TakesFiles():
		return unix.EBUSY
	case t.isGoneDirLocked(s.parent):
		return unix.ENOENT
	}
	return 0
}

func (t *txn) isGoneDir(dir *inode) bool {
	t.nodes.mu.Lock()
	defer t.nodes.mu.Unlock()
	return t.isGoneDirLocked(dir)
}

func (t *txn) removeDir(c *caller, dir *inode, name string, n *inode, st *unix.Stat_t) unix.Errno {
	switch empty, e := t.isEmpty(dir, name, n); {
	case e != 0:
		return e
	case !empty:
		return unix.ENOTEMPTY
	case t.IsOver():
		return unix.EBUSY
	}
	sn := t.txns.stagedAt(dir, name)
	if sn == nil {
		if e := t.callers.mayTake(c, dir, st); e != 0 {
			return e
		}
		was := *st
		reach.WithoutACL(t.nodes.fdOf(dir), name, &was) // of which the trail does not tell
		sn = &stagedName{dir: dir, name: name, did: transaction.RemovedDir, base: commit.VersionOf(st), by: c, was: &was}
		t.stage(sn)
		if n != nil && len(t.endings.sessionsIn(n)) > 0 { // one began meanwhile
			t.drop(sn)
			return unix.ENOTEMPTY
		}
		return 0
	}
	return t.unmake(sn)
}

// isEmpty reports whether a directory is empty for the members.
func (t *txn) isEmpty(dir *inode, name string, n *inode) (bool, unix.Errno) {
	if n != nil && len(t.endings.sessionsIn(n)) > 0 {
		return false, 0
	}
	fd, err := unix.Openat(t.nodes.fdOf(dir), name, unix.O_RDONLY|unix.O_DIRECTORY|unix.O_NOFOLLOW|unix.O_CLOEXEC, 0)
	if err != nil {
		return false, errnoOf(err)
	}
	defer unix.Close(fd)
	list, err := listing.Read(fd, visible)
	if err != nil {
		return false, errnoOf(err)
	}
	for _, e := range list {
		if listing.IsDots(e.Name) {
			continue
		}
		if n == nil {
			return false, 0
		}
		if sn := t.txns.stagedAt(n, e.Name); sn == nil || !sn.did.IsGone() {
			return false, 0
		}
	}
	return true, 0
}

// make gives a new name to a new inode that has no private copy: it is there at
// once, and hidden from everybody else.
func (t *txn) make(c *caller, op string, dir *inode, name string, out *Entry, do makeFunc) unix.Errno {
	var st unix.Stat_t
	p, is := t.look(dir, name, &st)
	back, e := p.MayMake(op == opMkdir)
	if e != 0 {
		return e
	}
	l, e := t.admit(c, op, nil, place{dir, name, nil})
	if e != 0 {
		return e
	}
	t.Lock()
	defer t.Unlock()
	t.KeepLocked(l)
	switch {
	case t.IsOver():
		return unix.EBUSY
	case t.isGoneDir(dir):
		return unix.ENOENT
	}
	o := commit.MakeOptions{Dir: t.nodes.fdOf(dir), DirPath: t.nodes.nodePath(dir), Name: name}
	makes := func(dirfd int, name string) error { return do(c, dirfd, name) }
	if back {
		if e := t.mayComeBack(c, is.staged, o, makes); e != 0 {
			return e
		}
		t.drop(is.staged)
		return t.entries.enterMade(dir, name, out, true)
	}
	sn := &stagedName{dir: dir, name: name, did: transaction.Made, by: c, op: op}
	if op == opMkdir {
		sn.did = transaction.MadeDir
	}
	t.stage(sn)
	err := t.store.Make(o, makes)
	if err != nil {
		t.drop(sn)
		return errnoOf(err)
	}
	return t.entries.enterMade(dir, name, out, true)
}

// mayComeBack decides whether a directory that the transaction has removed may stand for the
// new one that a member makes. It is there for all others until the commit, and what it is
// like cannot be changed for the members alone.
func (t *txn) mayComeBack(c *caller, sn *stagedName, o commit.MakeOptions, makes func(dir int, name string) error) unix.Errno {
	alike, err := t.store.MakesAlike(o, makes)
	switch {
	case err != nil:
		return errnoOf(err)
	case alike:
		return 0
	}
	return t.reports.refuseWith(c, opMkdir, t.nodes.path(sn.dir, sn.name), unix.EBUSY,
		"In a transaction no directory takes the place of one that has another owner, group or mode, or other extended attributes (ACLs)",
		"Leave the directory and remove what is in it, or remove it before the transaction begins.")
}
