package fs

import (
	"golang.org/x/sys/unix"

	"latchfs/fs/listing"
	"latchfs/fs/lockkey"
	"latchfs/fs/transaction"
	"latchfs/journal/commit"
)

// rmdir removes a directory for the members. Nobody else makes anything in it
// meanwhile: its whole tree is locked.
func (t *txn) rmdir(c *caller, dir *inode, name string) unix.Errno {
	f := t.f
	if !t.sees(dir, name) {
		return unix.ENOENT
	}
	var st unix.Stat_t
	n, e := f.entries.known(dir, name, &st)
	switch {
	case e != 0:
		return e
	case st.Mode&unix.S_IFMT != unix.S_IFDIR:
		return unix.ENOTDIR
	}
	p := place{dir, name, nil}
	path := f.nodes.path(dir, name)
	at := [2]dkey{p.key()}
	d := f.locks.fileDemand(c, opRmdir, f.rules.settings(path).Wait)
	d.path, d.places, d.target = path, nil, &lockkey.Target{Trees: []string{path}}
	if t.IsOver() {
		return f.locks.refuse(d, transaction.ErrOver)
	}
	repeated := f.astray.walks.Has(c, opRmdir, at)
	l, e := f.parking.admit(c, opRmdir, d, at, []*inode{dir}, func(w *walk) unix.Errno { return f.parking.leadToTwin(w, dir, name) })
	if e != 0 {
		return e
	}
	if !repeated && c.tid != 0 && f.txns.stagedAt(dir, name) == nil {
		w := &walk{promise: promise{Op: opRmdir, At: at, Unparked: true}, d: d, lock: l}
		f.astray.walks.Put(c, w)
		if e := f.parking.leadToTwin(w, dir, name); e != 0 {
			f.astray.walks.Drop(w)
			return e
		}
		return unix.ESTALE
	}
	t.Lock()
	defer t.Unlock()
	if e := t.removeDir(c, dir, name, n, &st); e != 0 {
		f.rules.table.Release(l)
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
	t.f.nodes.mu.Lock()
	defer t.f.nodes.mu.Unlock()
	return t.isGoneDirLocked(dir)
}

func (t *txn) removeDir(c *caller, dir *inode, name string, n *inode, st *unix.Stat_t) unix.Errno {
	f := t.f
	switch empty, e := t.isEmpty(dir, name, n); {
	case e != 0:
		return e
	case !empty:
		return unix.ENOTEMPTY
	case t.IsOver():
		return unix.EBUSY
	}
	sn := f.txns.stagedAt(dir, name)
	if sn == nil {
		if e := f.callers.mayTake(c, dir, st); e != 0 {
			return e
		}
		sn = &stagedName{dir: dir, name: name, did: transaction.RemovedDir, base: commit.VersionOf(st), by: c, was: st}
		t.stage(sn)
		if n != nil && len(f.endings.sessionsIn(n)) > 0 { // one began meanwhile
			t.drop(sn)
			return unix.ENOTEMPTY
		}
		return 0
	}
	return t.unmake(sn)
}

// isEmpty reports whether a directory is empty for the members.
func (t *txn) isEmpty(dir *inode, name string, n *inode) (bool, unix.Errno) {
	f := t.f
	if n != nil && len(f.endings.sessionsIn(n)) > 0 {
		return false, 0
	}
	fd, err := unix.Openat(f.nodes.fdOf(dir), name, unix.O_RDONLY|unix.O_DIRECTORY|unix.O_NOFOLLOW|unix.O_CLOEXEC, 0)
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
		if sn := f.txns.stagedAt(n, e.Name); sn == nil || !sn.did.IsGone() {
			return false, 0
		}
	}
	return true, 0
}

// make gives a new name to a new inode that has no private copy: it is there at
// once, and hidden from everybody else.
func (t *txn) make(c *caller, op string, dir *inode, name string, out *Entry, do makeFunc) unix.Errno {
	f := t.f
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
	o := commit.MakeOptions{Dir: f.nodes.fdOf(dir), DirPath: f.nodes.nodePath(dir), Name: name}
	makes := func(dirfd int, name string) error { return do(c, dirfd, name) }
	if back {
		if e := t.mayComeBack(c, is.staged, o, makes); e != 0 {
			return e
		}
		t.drop(is.staged)
		return f.entries.enterMade(dir, name, out, true)
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
	return f.entries.enterMade(dir, name, out, true)
}

// mayComeBack decides whether a directory that the transaction has removed may stand for the
// new one that a member makes. It is there for all others until the commit, and what it is
// like cannot be changed for the members alone.
func (t *txn) mayComeBack(c *caller, sn *stagedName, o commit.MakeOptions, makes func(dir int, name string) error) unix.Errno {
	f := t.f
	alike, err := t.store.MakesAlike(o, makes)
	switch {
	case err != nil:
		return errnoOf(err)
	case alike:
		return 0
	}
	return f.reports.refuseWith(c, opMkdir, f.nodes.path(sn.dir, sn.name), unix.EBUSY,
		"In a transaction no directory takes the place of one that has another owner, group or mode, or other extended attributes (ACLs)",
		"Leave the directory and remove what is in it, or remove it before the transaction begins.")
}
