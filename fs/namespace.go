package fs

import (
	"golang.org/x/sys/unix"

	"latchfs/fs/judge"
	"latchfs/lockmgr"
	"latchfs/lockmgr/policy"
)

// lockNames gets the locks for an operation on names in directories, or says
// what to answer. The lock is the operation's to release.
func (f *FS) lockNames(h *Request, op string, places ...place) (*caller, *lockmgr.Lock, unix.Errno) {
	c := f.callerOf(h)
	_, l, e := f.lockJudged(c, op, nil, places...)
	return c, l, e
}

// lockJudged is lockNames for an operation that gives names to content: list says
// to which. What is known to take its time is judged before the lock is returned,
// and what was accepted is noted in the label.
func (f *FS) lockJudged(c *caller, op string, list func() []judge.Candidate, places ...place) (*label, *lockmgr.Lock, unix.Errno) {
	var at [2]dkey
	var dirs []*inode
	wait := f.settings(f.path(places[0].dir, places[0].name)).Wait
	for i, p := range places {
		if i < len(at) {
			at[i] = p.key()
		}
		if len(dirs) == 0 || dirs[0] != p.dir {
			dirs = append(dirs, p.dir)
		}
	}
	d := f.fileDemand(c, op, wait, places...)
	d.atomic = f.askedFor(places)
	if list != nil && judge.TakesTime(list()) {
		d.label = d.newLabel()
		d.judge = func(lb *label, cancel <-chan struct{}) unix.Errno {
			ctx, stop := f.checkContext(c, cancel)
			defer stop()
			return f.admitContent(ctx, c, op, lb, list())
		}
	}
	l, e := f.admit(c, op, d, at, dirs, nil)
	if e != 0 {
		return nil, nil, e
	}
	lb, ok := l.Request().Label.(*label)
	if !ok {
		lb = d.newLabel()
	}
	return lb, l, 0
}

// known is the inode that name in dir leads to, if we know it.
func (f *FS) known(dir *inode, name string, st *unix.Stat_t) (*inode, unix.Errno) {
	if err := unix.Fstatat(f.fdOf(dir), name, st, unix.AT_SYMLINK_NOFOLLOW); err != nil {
		return nil, errnoOf(err)
	}
	f.mu.Lock()
	defer f.mu.Unlock()
	return f.inodes[inoKey{uint64(st.Dev), st.Ino}], 0
}

// holds is known, with the session on the name. The session is looked for first: a
// new file whose session ends in between has its name by the time that the directory
// is looked at, so a name that a close is just publishing is never taken for free.
func (f *FS) holds(dir *inode, name string, st *unix.Stat_t) (*inode, *session, unix.Errno) {
	s := f.sessionAt(dir, name)
	n, e := f.known(dir, name, st)
	return n, s, e
}

// makeFunc makes a new inode under a name in a directory.
type makeFunc func(c *caller, dirfd int, name string) error

// make runs an operation that gives a new name to a new inode.
func (f *FS) make(h *Request, op, name string, out *Entry, do makeFunc) unix.Errno {
	dir, e := f.target(h.Node, name)
	if e != 0 {
		return e
	}
	if e := f.isReadOnly(h, op, dir, name); e != 0 {
		return e
	}
	if f.isCreating(dir, name) {
		return unix.EEXIST
	}
	if t, c := f.txnFor(h); t != nil && t.stages(dir, name) {
		return t.make(c, op, dir, name, out, do)
	}
	c, l, e := f.lockNames(h, op, place{dir, name, nil})
	if e != 0 {
		return e
	}
	defer f.table.Release(l)
	if err := do(c, f.fdOf(dir), name); err != nil {
		return errnoOf(err)
	}
	f.changes.Made(byCaller{c}, op, f.path(dir, name), "")
	if op == opMknod {
		f.madeFile(c, dir, name)
	}
	f.namesSoonOnDisk(dir, name)
	f.markerMoved(name)
	entered := f.enterMade(dir, name, out, false)
	f.clerk.Made(c, f.claimName(dir, name)) // after that: a claim is of the name that leads to the new directory
	return entered
}

// madeFile tells of what mknod(2) has made, if that is a file which has versions: GNU tar
// makes so what it is about to give attributes.
func (f *FS) madeFile(c *caller, dir *inode, name string) {
	var st unix.Stat_t
	err := unix.Fstatat(f.fdOf(dir), name, &st, unix.AT_SYMLINK_NOFOLLOW)
	if err == nil && st.Mode&unix.S_IFMT == unix.S_IFREG && f.settings(f.path(dir, name)).Mode == policy.Atomic {
		f.tellCreated(c, dir, name, &st)
	}
}

// enterMade answers with what was just made. A volatile entry is the caller's alone.
func (f *FS) enterMade(dir *inode, name string, out *Entry, volatile bool) unix.Errno {
	var st unix.Stat_t
	k, e := f.child(dir, name, &st)
	if e != 0 {
		return e
	}
	f.fillEntry(out, k, &st, volatile)
	return 0
}

// Mkdir makes a directory: mkdir(2).
func (f *FS) Mkdir(_ <-chan struct{}, in *MakeRequest, name string, out *Entry) unix.Errno {
	return f.make(&in.Request, opMkdir, name, out, func(c *caller, dirfd int, name string) error {
		dir := f.inodeOf(in.Node)
		mode := f.modeFor(dir, in.Mode, in.Umask)
		return f.makeAs(c, func() error { return unix.Mkdirat(dirfd, name, mode) })
	})
}

// Mknod makes a file, device or pipe: mknod(2).
func (f *FS) Mknod(_ <-chan struct{}, in *MakeRequest, name string, out *Entry) unix.Errno {
	op := opMknod
	if in.Mode&unix.S_IFMT == unix.S_IFSOCK {
		op = opBind
	}
	return f.make(&in.Request, op, name, out, func(c *caller, dirfd int, name string) error {
		dir := f.inodeOf(in.Node)
		mode := in.Mode&unix.S_IFMT | f.modeFor(dir, in.Mode, in.Umask)
		if in.Mode&unix.S_IFMT == unix.S_IFREG {
			if e := f.judgeEmpty(c, f.path(dir, name)); e != 0 {
				return e
			}
		}
		return f.makeAs(c, func() error { return unix.Mknodat(dirfd, name, mode, int(in.Rdev)) })
	})
}

// Symlink makes a symbolic link: symlink(2).
func (f *FS) Symlink(_ <-chan struct{}, h *Request, pointedTo, name string, out *Entry) unix.Errno {
	return f.make(h, opSymlink, name, out, func(c *caller, dirfd int, name string) error {
		return f.makeAs(c, func() error { return unix.Symlinkat(pointedTo, dirfd, name) })
	})
}

// Readlink is where a symbolic link leads: readlink(2).
func (f *FS) Readlink(_ <-chan struct{}, h *Request) ([]byte, unix.Errno) {
	if isVirtual(h.Node) {
		return nil, unix.EINVAL
	}
	n := f.inodeOf(h.Node)
	if n == nil {
		return nil, unix.ESTALE
	}
	buf := make([]byte, unix.PathMax)
	sz, err := unix.Readlinkat(f.fdOf(n), "", buf)
	if err != nil {
		return nil, errnoOf(err)
	}
	return buf[:sz], 0
}

// Unlink removes a name of a file: unlink(2).
func (f *FS) Unlink(_ <-chan struct{}, h *Request, name string) unix.Errno {
	if isVirtual(h.Node) {
		return f.virt.unlink(h, name)
	}
	dir, e := f.target(h.Node, name)
	if e != 0 {
		return e
	}
	if e := f.isReadOnly(h, opUnlink, dir, name); e != 0 {
		return e
	}
	if t, c := f.txnFor(h); t != nil && t.stages(dir, name) {
		return t.unlink(c, dir, name)
	}
	var st unix.Stat_t
	n, own, e := f.holds(dir, name, &st)
	if e != 0 && own == nil {
		return e
	}
	c, l, e2 := f.lockNames(h, opUnlink, place{dir, name, n})
	if e2 != 0 {
		return e2
	}
	defer f.table.Release(l)
	if !f.clerk.MayTidy(c, f.claimName(dir, name)) {
		return unix.EBUSY
	}
	n, own, e = f.holds(dir, name, &st)
	if own != nil && !c.kinOf(own.who.Load()) {
		own = nil
	}
	if e != 0 && own == nil {
		return e // somebody has removed it while the lock was waited for
	}
	if e := f.mayRemove(c, place{dir, name, n}); e != 0 {
		return e
	}
	p := place{dir, name, n}
	if own, e = own.withoutName(c, opUnlink, p); e != 0 {
		return e
	}
	made := f.isMade(&st)
	gone, err := f.remove(c, l, p)
	if err != nil && !(errnoOf(err) == unix.ENOENT && own != nil) {
		return errnoOf(err)
	}
	if own != nil && !own.detach(true) {
		// Another thread of its owner was closing it, and the commit was faster.
		if again, failed := f.remove(c, l, p); failed == nil {
			if err == nil {
				f.changes.Tell(gone)
			}
			gone, err = again, nil
		}
		if err != nil {
			return errnoOf(err)
		}
	}
	f.changes.Tell(gone)
	f.nameGone(dir, name, made)
	f.unlinked(n, p.key(), st.Nlink == 1)
	f.rebaseOn(n, nil)
	return 0
}

// Rmdir removes a directory: rmdir(2). A directory in which somebody creates a
// file is not empty, although the file has no name underneath yet.
func (f *FS) Rmdir(_ <-chan struct{}, h *Request, name string) unix.Errno {
	dir, e := f.target(h.Node, name)
	if e != 0 {
		return e
	}
	if e := f.isReadOnly(h, opRmdir, dir, name); e != 0 {
		return e
	}
	if t, c := f.txnFor(h); t != nil {
		return t.rmdir(c, dir, name)
	}
	var st unix.Stat_t
	n, e := f.known(dir, name, &st)
	if e != 0 {
		return e
	}
	places := []place{{dir, name, nil}}
	if n != nil {
		for _, s := range f.sessionsIn(n) {
			d, nm := s.where()
			places = append(places, place{d, nm, nil})
		}
	}
	c, l, e := f.lockNames(h, opRmdir, places...)
	if e != 0 {
		return e
	}
	defer f.table.Release(l)
	if n != nil && len(f.sessionsIn(n)) > 0 {
		return unix.ENOTEMPTY // the caller's own
	}
	if !f.clerk.MayTidy(c, f.claimName(dir, name)) {
		return unix.EBUSY
	}
	remove := func() error {
		return f.taker(c, dir)(func() error { return unix.Unlinkat(f.fdOf(dir), name, unix.AT_REMOVEDIR) })
	}
	err := remove()
	if err == unix.ENOTEMPTY && f.removeOrphans(f.fdOf(dir), name) {
		err = remove()
	}
	if err == nil {
		f.changes.Gone(byCaller{c}, f.path(dir, name), &st, "", "")
		f.filed.Gone(f.claimName(dir, name).Place())
		f.namesSoonOnDisk(dir, name)
	}
	return errnoOf(err)
}

// sessionsIn lists the sessions on names in a directory.
func (f *FS) sessionsIn(dir *inode) []*session {
	f.mu.Lock()
	defer f.mu.Unlock()
	if dir.inside == 0 {
		return nil
	}
	var in []*session
	for s := range f.sessions {
		if !s.over && s.parent == dir {
			in = append(in, s)
		}
	}
	return in
}
