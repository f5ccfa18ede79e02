package fs

import (
	"github.com/hanwen/go-fuse/v2/fuse"
	"golang.org/x/sys/unix"

	"latchfs/journal/commit"
	"latchfs/lockmgr"
	"latchfs/lockmgr/policy"
)

// This file is about the operations on names by the members of a transaction.
// They take the same locks as anybody's, and keep them until it ends.

// isLiveName reports whether the policy, or what was seen of it, makes a name live.
func (f *FS) isLiveName(dir *node, name string) bool {
	return f.settings(f.path(dir, name)).Mode == policy.Live
}

// stagedAt is what a transaction has done to a name, nil if nothing.
func (f *FS) stagedAt(dir *node, name string) *stagedName {
	f.mu.Lock()
	defer f.mu.Unlock()
	if ns := f.names[dkey{dir.id, name}]; ns != nil {
		return ns.staged
	}
	return nil
}

// stage enters a name.
func (t *txn) stage(sn *stagedName) {
	f := t.f
	f.mu.Lock()
	defer f.mu.Unlock()
	k := dkey{sn.dir.id, sn.name}
	sn.t = t
	sn.dir.pins++
	t.names[k] = sn
	f.nameStateLocked(k).staged = sn
}

// unstage forgets it. The directory is still pinned.
func (f *FS) unstage(sn *stagedName) {
	f.mu.Lock()
	defer f.mu.Unlock()
	k := dkey{sn.dir.id, sn.name}
	delete(sn.t.names, k)
	if ns := f.names[k]; ns != nil && ns.staged == sn {
		ns.staged = nil
		f.gcNameLocked(k)
	}
}

// drop forgets a staged name for good.
func (t *txn) drop(sn *stagedName) {
	t.f.unstage(sn)
	t.f.unpin(sn.dir)
}

// hides reports whether the caller does not see a name that is there: removed by
// its own transaction, or made by somebody else's.
func (sn *stagedName) hides(c *caller) bool {
	return (sn.t.f.txnOf(c) == sn.t) == sn.gone
}

// stagedView leaves out of a listing what the caller does not see.
func (f *FS) stagedView(c *caller, dir *node, list []dirEntry) []dirEntry {
	if f.txns.n.Load() == 0 {
		return list
	}
	kept := list[:0]
	for _, e := range list {
		sn := f.stagedAt(dir, e.name)
		if sn != nil {
			e.volatile = true
			if sn.hides(c) && !(sn.gone && f.sessionAt(dir, e.name) != nil) {
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
	f := t.f
	var at [2]dkey
	var dirs []*node
	for i, p := range places {
		at[i] = p.key()
		if len(dirs) == 0 || dirs[0] != p.dir {
			dirs = append(dirs, p.dir)
		}
	}
	d := f.fileDemand(c, op, f.settings(f.path(places[0].dir, places[0].name)).Wait, places...)
	if t.over.Load() {
		return nil, f.refuse(d, errTxnOver)
	}
	return f.admit(c, op, d, at, dirs, granted)
}

// carry begins a session on a committed file that a member is about to change
// other than by opening it.
func (t *txn) carry(c *caller, p place) unix.Errno {
	f := t.f
	if s := f.sessionAt(p.dir, p.name); s != nil {
		if s.txn.Load() == t {
			return 0
		}
		return unix.EBUSY
	}
	var st unix.Stat_t
	if err := unix.Fstatat(f.fdOf(p.dir), p.name, &st, unix.AT_SYMLINK_NOFOLLOW); err != nil {
		return errnoOf(err)
	}
	d := f.fileDemand(c, opOpen, 0, p)
	d.label = c.label(opOpen, d.path)
	l, err := f.acquire(d, true)
	if err != nil {
		return f.refuse(d, err)
	}
	s, e := f.begin(c, l, p.dir, p.name, &st, beginOptions{settings: f.settings(d.path)})
	if e != 0 {
		f.table.Release(l)
		return e
	}
	defer s.walkerGone()
	s.mu.Lock()
	defer s.mu.Unlock()
	return s.fillLocked()
}

// attributes begins a session on a committed file whose attributes a member
// changes, and leads it there: ESTALE means that.
func (t *txn) attributes(c *caller, op string, p place) unix.Errno {
	f := t.f
	if !f.repeats(c, op) {
		return unix.EBUSY // through a descriptor of the file as it is for everybody
	}
	l, e := t.admit(c, op, func(*walk) unix.Errno { return t.carry(c, p) }, p)
	if e != 0 {
		return e
	}
	t.mu.Lock()
	t.keep(l)
	t.mu.Unlock()
	if e := t.carry(c, p); e != 0 {
		return e
	}
	return f.staleAt(c, p.node)
}

// rename moves what has a name to another one, for the members.
func (t *txn) rename(c *caller, from, to place, flags uint32) unix.Errno {
	f := t.f
	if flags&unix.RENAME_EXCHANGE != 0 {
		return unix.EINVAL
	}
	if from.key() == to.key() {
		return 0
	}
	if e := t.movable(from, to, flags); e != 0 {
		return e
	}
	repeated := f.walks.has(c, opRename, [2]dkey{from.key(), to.key()})
	l, e := t.admit(c, opRename, func(*walk) unix.Errno { return t.carry(c, from) }, from, to)
	if e != 0 {
		return e
	}
	s := f.sessionAt(from.dir, from.name)
	if s == nil && !repeated && c.tid != 0 {
		// The kernel takes the inode that it has sent along: it must be the
		// session's.
		if e = t.carry(c, from); e == 0 {
			w := &walk{op: opRename, at: [2]dkey{from.key(), to.key()}, lock: l, parked: true}
			f.walks.put(c, w)
			return unix.ESTALE
		}
	}
	if s == nil {
		f.table.Release(l)
		if e == 0 {
			e = unix.EBUSY
		}
		return e
	}
	t.mu.Lock()
	defer t.mu.Unlock()
	if e := t.move(c, s, from, to, flags); e != 0 {
		f.table.Release(l)
		return e
	}
	t.keep(l)
	return 0
}

// movable looks whether a rename can be staged. EXDEV makes mv copy, which can:
// the answer for whatever has no private copy.
func (t *txn) movable(from, to place, flags uint32) unix.Errno {
	f := t.f
	if sn := f.stagedAt(from.dir, from.name); sn != nil && sn.gone && f.sessionAt(from.dir, from.name) == nil {
		return unix.ENOENT
	}
	var st unix.Stat_t
	own := f.sessionAt(from.dir, from.name)
	switch err := unix.Fstatat(f.fdOf(from.dir), from.name, &st, unix.AT_SYMLINK_NOFOLLOW); {
	case own != nil && own.inPlaceNow():
		return unix.EXDEV
	case own != nil:
	case err != nil:
		return errnoOf(err)
	case st.Mode&unix.S_IFMT != unix.S_IFREG, st.Nlink > 1:
		return unix.EXDEV
	}
	if !t.sees(to.dir, to.name) {
		return 0
	}
	if flags&unix.RENAME_NOREPLACE != 0 {
		return unix.EEXIST
	}
	err := unix.Fstatat(f.fdOf(to.dir), to.name, &st, unix.AT_SYMLINK_NOFOLLOW)
	switch {
	case err != nil || f.sessionAt(to.dir, to.name) != nil:
	case st.Mode&unix.S_IFMT == unix.S_IFDIR:
		return unix.EISDIR
	case f.stagedAt(to.dir, to.name) != nil:
		return unix.EXDEV // a link that was made in the transaction
	}
	return 0
}

func (s *session) inPlaceNow() bool {
	s.mu.Lock()
	defer s.mu.Unlock()
	return s.inPlace
}

// sees reports whether a name leads to anything for the members.
func (t *txn) sees(dir *node, name string) bool {
	f := t.f
	if s := f.sessionAt(dir, name); s != nil && s.txn.Load() == t {
		return true
	}
	if sn := f.stagedAt(dir, name); sn != nil && sn.gone {
		return false
	}
	var st unix.Stat_t
	return unix.Fstatat(f.fdOf(dir), name, &st, unix.AT_SYMLINK_NOFOLLOW) == nil
}

// move gives the session another name. t.mu is held.
func (t *txn) move(c *caller, s *session, from, to place, flags uint32) unix.Errno {
	switch {
	case t.over.Load():
		return unix.EBUSY
	case t.isGoneDir(to.dir):
		return unix.ENOENT
	}
	if flags&unix.RENAME_NOREPLACE != 0 && t.sees(to.dir, to.name) {
		return unix.EEXIST
	}
	base, e := t.takeBase(to.dir, to.name)
	if e != 0 {
		return e
	}
	s.mu.Lock()
	defer s.mu.Unlock()
	if s.ended || s.detached {
		return unix.EBUSY
	}
	if e := s.fillLocked(); e != 0 {
		return e
	}
	if was := s.baseVersion; was != nil && t.f.stagedAt(from.dir, from.name) == nil {
		t.stage(&stagedName{dir: from.dir, name: from.name, gone: true, base: *was, by: c})
	}
	s.closeBase()
	s.moveTo(to.dir, to.name)
	s.setBase(base)
	s.wrote = true
	return 0
}

// takeBase says what a session that gets this name will replace, and ends the one
// that has it. t.mu is held.
func (t *txn) takeBase(dir *node, name string) (*commit.Version, unix.Errno) {
	f := t.f
	if s := f.sessionAt(dir, name); s != nil {
		if s.txn.Load() != t {
			return nil, unix.EBUSY
		}
		s.mu.Lock()
		base, inPlace, shared := s.baseVersion, s.inPlace, s.sharesLocked()
		s.mu.Unlock()
		if shared {
			return nil, unix.EBUSY
		}
		if inPlace {
			base = nil // the link goes, as by any rename
		}
		s.dropFromTxn()
		if base != nil {
			return base, 0
		}
	}
	if sn := f.stagedAt(dir, name); sn != nil {
		if !sn.gone || sn.isDir {
			return nil, unix.EBUSY
		}
		base := sn.base
		return &base, 0
	}
	var st unix.Stat_t
	switch err := unix.Fstatat(f.fdOf(dir), name, &st, unix.AT_SYMLINK_NOFOLLOW); {
	case err == unix.ENOENT:
		return nil, 0
	case err != nil:
		return nil, errnoOf(err)
	case st.Mode&unix.S_IFMT == unix.S_IFDIR:
		return nil, unix.EISDIR
	}
	return versionPtr(&st), 0
}

// setBase makes the session one that replaces base under its name. s.mu is held.
func (s *session) setBase(base *commit.Version) {
	f := s.f
	f.mu.Lock()
	defer f.mu.Unlock()
	if b := s.base; b != nil {
		if b.shadow == s {
			b.shadow = nil
		}
		s.base = nil
		f.unpinLocked(b)
	}
	s.baseVersion, s.baseKey = base, inoKey{}
	s.isNew.Store(base == nil)
	if base == nil {
		return
	}
	s.baseKey = inoKey{base.Dev, base.Ino}
	if b := f.byIno[s.baseKey]; b != nil && b.shadow == nil {
		s.base = b
		b.pins++
		b.shadow = s
	}
}

// sharesLocked reports whether what was written belongs under other names, too,
// which we do not know, so that the session must not lose its own. s.mu is held.
func (s *session) sharesLocked() bool {
	return s.inPlace && s.baseNlink > 1 && s.changedInTxn()
}

// dropFromTxn ends a session whose file a member has removed or replaced.
func (s *session) dropFromTxn() {
	s.mu.Lock()
	s.txn.Store(nil)
	s.mu.Unlock()
	s.detach()
	s.endAtRelease()
}

// unlink removes a name for the members.
func (t *txn) unlink(c *caller, dir *node, name string) unix.Errno {
	f := t.f
	if !t.sees(dir, name) {
		return unix.ENOENT
	}
	var st unix.Stat_t
	n, _ := f.known(dir, name, &st)
	l, e := t.admit(c, opUnlink, nil, place{dir, name, n})
	if e != 0 {
		return e
	}
	t.mu.Lock()
	defer t.mu.Unlock()
	if e := t.remove(c, dir, name); e != 0 {
		f.table.Release(l)
		return e
	}
	t.keep(l)
	return 0
}

// remove stages the removal of a file. t.mu is held.
func (t *txn) remove(c *caller, dir *node, name string) unix.Errno {
	f := t.f
	if t.over.Load() {
		return unix.EBUSY
	}
	if sn := f.stagedAt(dir, name); sn != nil && !sn.gone {
		if sn.isDir {
			return unix.EISDIR
		}
		e := errnoOf(t.store.Unmake(f.nodePath(dir), name))
		if e == 0 {
			t.drop(sn)
		}
		return e
	}
	var st unix.Stat_t
	committed := unix.Fstatat(f.fdOf(dir), name, &st, unix.AT_SYMLINK_NOFOLLOW) == nil
	if s := f.sessionAt(dir, name); s != nil {
		if s.txn.Load() != t {
			return unix.EBUSY
		}
		s.mu.Lock()
		shared := s.sharesLocked()
		s.mu.Unlock()
		if shared {
			return unix.EBUSY
		}
		s.dropFromTxn()
	} else if committed && st.Mode&unix.S_IFMT == unix.S_IFDIR {
		return unix.EISDIR
	}
	if committed && f.stagedAt(dir, name) == nil {
		t.stage(&stagedName{dir: dir, name: name, gone: true, base: commit.VersionOf(&st), by: c})
	}
	return 0
}

// rmdir removes a directory for the members. Nobody else makes anything in it
// meanwhile: its whole tree is locked.
func (t *txn) rmdir(c *caller, dir *node, name string) unix.Errno {
	f := t.f
	if !t.sees(dir, name) {
		return unix.ENOENT
	}
	var st unix.Stat_t
	n, e := f.known(dir, name, &st)
	switch {
	case e != 0:
		return e
	case st.Mode&unix.S_IFMT != unix.S_IFDIR:
		return unix.ENOTDIR
	}
	p := place{dir, name, nil}
	path := f.path(dir, name)
	at := [2]dkey{p.key()}
	d := f.fileDemand(c, opRmdir, f.settings(path).Wait)
	d.path, d.places, d.target = path, nil, &target{trees: []string{path}}
	if t.over.Load() {
		return f.refuse(d, errTxnOver)
	}
	repeated := f.walks.has(c, opRmdir, at)
	l, e := f.admit(c, opRmdir, d, at, []*node{dir}, func(w *walk) unix.Errno { return f.leadToTwin(w, dir, name) })
	if e != 0 {
		return e
	}
	if !repeated && c.tid != 0 && f.stagedAt(dir, name) == nil {
		w := &walk{op: opRmdir, at: at, d: d, lock: l, parked: true}
		f.walks.put(c, w)
		if e := f.leadToTwin(w, dir, name); e != 0 {
			f.walks.drop(w)
			return e
		}
		return unix.ESTALE
	}
	t.mu.Lock()
	defer t.mu.Unlock()
	if e := t.removeDir(dir, name, n, &st); e != 0 {
		f.table.Release(l)
		return e
	}
	t.keep(l)
	return 0
}

// leadToTwin leads a walk to a node of its own for a directory. The kernel marks the
// inode that rmdir(2) is sent for as dead, and lets nobody find or make anything in
// it any more; to others the directory is there as before.
func (f *FS) leadToTwin(w *walk, dir *node, name string) unix.Errno {
	fd, err := unix.Openat(f.fdOf(dir), name, unix.O_PATH|unix.O_NOFOLLOW|unix.O_DIRECTORY|unix.O_CLOEXEC, 0)
	if err != nil {
		return errnoOf(err)
	}
	var st unix.Stat_t
	if err := unix.Fstat(fd, &st); err != nil {
		unix.Close(fd)
		return errnoOf(err)
	}
	f.mu.Lock()
	n := f.newNodeLocked(-1, inoKey{uint64(st.Dev), st.Ino}, unix.S_IFDIR)
	n.fd = fd
	n.pins++
	f.setNameLocked(n, dir, name)
	f.mu.Unlock()
	f.walks.leadToNode(w, n)
	f.unpin(n)
	return 0
}

// isGoneDirLocked reports whether the transaction has removed a directory, which its
// members may yet have open. FS.mu is held.
func (t *txn) isGoneDirLocked(dir *node) bool {
	if dir.parent == nil {
		return false
	}
	ns := t.f.names[dkey{dir.parent.id, dir.name}]
	return ns != nil && ns.staged != nil && ns.staged.t == t && ns.staged.gone && ns.staged.isDir
}

// admitsLocked reports whether a session may become the transaction's. FS.mu is held.
func (t *txn) admitsLocked(s *session) unix.Errno {
	switch {
	case t.closed:
		return unix.EBUSY
	case t.isGoneDirLocked(s.parent):
		return unix.ENOENT
	}
	return 0
}

func (t *txn) isGoneDir(dir *node) bool {
	t.f.mu.Lock()
	defer t.f.mu.Unlock()
	return t.isGoneDirLocked(dir)
}

func (t *txn) removeDir(dir *node, name string, n *node, st *unix.Stat_t) unix.Errno {
	f := t.f
	switch empty, e := t.isEmpty(dir, name, n); {
	case e != 0:
		return e
	case !empty:
		return unix.ENOTEMPTY
	case t.over.Load():
		return unix.EBUSY
	}
	sn := f.stagedAt(dir, name)
	if sn == nil {
		sn = &stagedName{dir: dir, name: name, gone: true, isDir: true, base: commit.VersionOf(st)}
		t.stage(sn)
		if n != nil && len(f.sessionsIn(n)) > 0 { // one began meanwhile
			t.drop(sn)
			return unix.ENOTEMPTY
		}
		return 0
	}
	e := errnoOf(t.store.Unmake(f.nodePath(dir), name))
	if e == 0 {
		t.drop(sn)
	}
	return e
}

// isEmpty reports whether a directory is empty for the members.
func (t *txn) isEmpty(dir *node, name string, n *node) (bool, unix.Errno) {
	f := t.f
	if n != nil && len(f.sessionsIn(n)) > 0 {
		return false, 0
	}
	fd, err := unix.Openat(f.fdOf(dir), name, unix.O_RDONLY|unix.O_DIRECTORY|unix.O_NOFOLLOW|unix.O_CLOEXEC, 0)
	if err != nil {
		return false, errnoOf(err)
	}
	defer unix.Close(fd)
	list, err := readEntries(fd, visible)
	if err != nil {
		return false, errnoOf(err)
	}
	for _, e := range list {
		if e.name == "." || e.name == ".." {
			continue
		}
		if n == nil {
			return false, 0
		}
		if sn := f.stagedAt(n, e.name); sn == nil || !sn.gone {
			return false, 0
		}
	}
	return true, 0
}

// make gives a new name to a new inode that has no private copy: it is there at
// once, and hidden from everybody else.
func (t *txn) make(c *caller, op string, dir *node, name string, out *fuse.EntryOut, do makeFunc) fuse.Status {
	f := t.f
	sn := f.stagedAt(dir, name)
	back := sn != nil && sn.gone && sn.isDir && op == opMkdir // it was there before
	if t.sees(dir, name) || sn != nil && !back {
		return status(unix.EEXIST)
	}
	l, e := t.admit(c, op, nil, place{dir, name, nil})
	if e != 0 {
		return status(e)
	}
	t.mu.Lock()
	defer t.mu.Unlock()
	t.keep(l)
	switch {
	case t.over.Load():
		return status(unix.EBUSY)
	case t.isGoneDir(dir):
		return fuse.ENOENT
	case back:
		t.drop(sn)
		return f.enterMade(dir, name, out, true)
	}
	sn = &stagedName{dir: dir, name: name, isDir: op == opMkdir}
	t.stage(sn)
	o := commit.MakeOptions{Dir: f.fdOf(dir), DirPath: f.nodePath(dir), Name: name}
	err := t.store.Make(o, func(dirfd int, name string) error { return do(c, dirfd, name) })
	if err != nil {
		t.drop(sn)
		return statusOf(err)
	}
	return f.enterMade(dir, name, out, true)
}

// isGone reports whether a name leads nowhere for the caller although there is
// something.
func (f *FS) isGone(c *caller, dir *node, name string) bool {
	sn := f.stagedAt(dir, name)
	return sn != nil && sn.gone && !sn.isDir && sn.hides(c)
}

// coverGone makes a new session one that replaces what a member has removed
// before.
func (s *session) coverGone() {
	dir, name := s.where()
	if sn := s.f.stagedAt(dir, name); sn != nil && sn.gone && s.isNew.Load() {
		base := sn.base
		s.mu.Lock()
		s.f.mu.Lock()
		s.baseVersion, s.baseKey = &base, inoKey{base.Dev, base.Ino}
		s.f.mu.Unlock()
		s.mu.Unlock()
	}
}
