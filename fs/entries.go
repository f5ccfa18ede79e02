package fs

import (
	"golang.org/x/sys/unix"

	"latchfs/fs/judge"
	"latchfs/fs/listing"
	"latchfs/fs/reach"
	"latchfs/journal/commit"
	"latchfs/lockmgr"
	"latchfs/lockmgr/policy"
)

// entries makes, links, renames and removes names.
type entries struct {
	*ground
	*engine
	appending *appending
	attrs     *attrs
	opens     *opens
}

// lockNames gets the locks for an operation on names in directories, or says
// what to answer. The lock is the operation's to release.
func (et *entries) lockNames(h *Request, op string, places ...place) (*caller, *lockmgr.Lock, unix.Errno) {
	c := et.callers.callerOf(h)
	_, l, e := et.lockJudged(c, op, nil, places...)
	return c, l, e
}

// lockJudged is lockNames for an operation that gives names to content: list says
// to which. What is known to take its time is judged before the lock is returned,
// and what was accepted is noted in the label.
func (et *entries) lockJudged(c *caller, op string, list func() []judge.Candidate, places ...place) (*label, *lockmgr.Lock, unix.Errno) {
	var at [2]dkey
	var dirs []*inode
	wait := et.rules.settings(et.nodes.path(places[0].dir, places[0].name)).Wait
	for i, p := range places {
		if i < len(at) {
			at[i] = p.key()
		}
		if len(dirs) == 0 || dirs[0] != p.dir {
			dirs = append(dirs, p.dir)
		}
	}
	d := et.locks.fileDemand(c, op, wait, places...)
	d.atomic = et.losses.askedFor(places)
	if list != nil && judge.TakesTime(list()) {
		d.label = d.newLabel()
		d.judge = func(lb *label, cancel <-chan struct{}) unix.Errno {
			ctx, stop := et.judging.checkContext(c, cancel)
			defer stop()
			return et.judging.admitContent(ctx, c, op, lb, list())
		}
	}
	l, e := et.parking.admit(c, op, d, at, dirs, nil)
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
func (et *entries) known(dir *inode, name string, st *unix.Stat_t) (*inode, unix.Errno) {
	if err := unix.Fstatat(et.nodes.fdOf(dir), name, st, unix.AT_SYMLINK_NOFOLLOW); err != nil {
		return nil, errnoOf(err)
	}
	et.nodes.mu.Lock()
	defer et.nodes.mu.Unlock()
	return et.nodes.inodes[inoKey{uint64(st.Dev), st.Ino}], 0
}

// holds is known, with the session on the name. The session is looked for first: a
// new file whose session ends in between has its name by the time that the directory
// is looked at, so a name that a close is just publishing is never taken for free.
func (et *entries) holds(dir *inode, name string, st *unix.Stat_t) (*inode, *session, unix.Errno) {
	s := et.nodes.sessionAt(dir, name)
	n, e := et.known(dir, name, st)
	return n, s, e
}

// makeFunc makes a new inode under a name in a directory.
type makeFunc func(c *caller, dirfd int, name string) error

// make runs an operation that gives a new name to a new inode.
func (et *entries) make(h *Request, op, name string, out *Entry, do makeFunc) unix.Errno {
	dir, e := et.opens.target(h.Node, name)
	if e != 0 {
		return e
	}
	if e := et.reports.isReadOnly(h, op, dir, name); e != 0 {
		return e
	}
	if et.opens.isCreating(dir, name) {
		return unix.EEXIST
	}
	if t, c := et.callers.txnFor(h); t != nil && t.stages(dir, name) {
		return t.make(c, op, dir, name, out, do)
	}
	c, l, e := et.lockNames(h, op, place{dir, name, nil})
	if e != 0 {
		return e
	}
	defer et.rules.table.Release(l)
	if err := do(c, et.nodes.fdOf(dir), name); err != nil {
		return errnoOf(err)
	}
	et.recorder.changes.Made(byCaller{et.recorder, c}, op, et.nodes.path(dir, name), "")
	if op == opMknod {
		et.madeFile(c, dir, name)
	}
	et.names.namesSoonOnDisk(dir, name)
	et.commits.markerMoved(name)
	entered := et.enterMade(dir, name, out, false)
	et.claimFiles.clerk.Made(c, et.claimFiles.claimName(dir, name)) // after that: a claim is of the name that leads to the new directory
	return entered
}

// madeFile tells of what mknod(2) has made, if that is a file which has versions: GNU tar
// makes so what it is about to give attributes.
func (et *entries) madeFile(c *caller, dir *inode, name string) {
	var st unix.Stat_t
	err := unix.Fstatat(et.nodes.fdOf(dir), name, &st, unix.AT_SYMLINK_NOFOLLOW)
	if err == nil && st.Mode&unix.S_IFMT == unix.S_IFREG && et.rules.settings(et.nodes.path(dir, name)).Mode == policy.Atomic {
		et.opens.tellCreated(c, dir, name, &st)
	}
}

// enterMade answers with what was just made. A volatile entry is the caller's alone.
func (et *entries) enterMade(dir *inode, name string, out *Entry, volatile bool) unix.Errno {
	var st unix.Stat_t
	k, e := et.names.child(dir, name, &st)
	if e != 0 {
		return e
	}
	et.attrs.fillEntry(out, k, &st, volatile)
	return 0
}

// Mkdir makes a directory: mkdir(2).
func (et *entries) Mkdir(_ <-chan struct{}, in *MakeRequest, name string, out *Entry) unix.Errno {
	return et.make(&in.Request, opMkdir, name, out, func(c *caller, dirfd int, name string) error {
		dir := et.kernel.inodeOf(in.Node)
		mode := et.opens.modeFor(dir, in.Mode, in.Umask)
		return et.disk.makeAs(c, func() error { return unix.Mkdirat(dirfd, name, mode) })
	})
}

// Mknod makes a file, device or pipe: mknod(2).
func (et *entries) Mknod(_ <-chan struct{}, in *MakeRequest, name string, out *Entry) unix.Errno {
	op := opMknod
	if in.Mode&unix.S_IFMT == unix.S_IFSOCK {
		op = opBind
	}
	return et.make(&in.Request, op, name, out, func(c *caller, dirfd int, name string) error {
		dir := et.kernel.inodeOf(in.Node)
		mode := in.Mode&unix.S_IFMT | et.opens.modeFor(dir, in.Mode, in.Umask)
		if in.Mode&unix.S_IFMT == unix.S_IFREG {
			if e := et.judging.judgeEmpty(c, et.nodes.path(dir, name)); e != 0 {
				return e
			}
		}
		return et.disk.makeAs(c, func() error { return unix.Mknodat(dirfd, name, mode, int(in.Rdev)) })
	})
}

// Symlink makes a symbolic link: symlink(2).
func (et *entries) Symlink(_ <-chan struct{}, h *Request, pointedTo, name string, out *Entry) unix.Errno {
	return et.make(h, opSymlink, name, out, func(c *caller, dirfd int, name string) error {
		return et.disk.makeAs(c, func() error { return unix.Symlinkat(pointedTo, dirfd, name) })
	})
}

// Readlink is where a symbolic link leads: readlink(2).
func (et *entries) Readlink(_ <-chan struct{}, h *Request) ([]byte, unix.Errno) {
	if isVirtual(h.Node) {
		return nil, unix.EINVAL
	}
	n := et.kernel.inodeOf(h.Node)
	if n == nil {
		return nil, unix.ESTALE
	}
	buf := make([]byte, unix.PathMax)
	sz, err := unix.Readlinkat(et.nodes.fdOf(n), "", buf)
	if err != nil {
		return nil, errnoOf(err)
	}
	return buf[:sz], 0
}

// Unlink removes a name of a file: unlink(2).
func (et *entries) Unlink(_ <-chan struct{}, h *Request, name string) unix.Errno {
	if isVirtual(h.Node) {
		return et.view.virt.unlink(h, name)
	}
	dir, e := et.opens.target(h.Node, name)
	if e != 0 {
		return e
	}
	if e := et.reports.isReadOnly(h, opUnlink, dir, name); e != 0 {
		return e
	}
	if t, c := et.callers.txnFor(h); t != nil && t.stages(dir, name) {
		return t.unlink(c, dir, name)
	}
	var st unix.Stat_t
	n, own, e := et.holds(dir, name, &st)
	if e != 0 && own == nil {
		return e
	}
	c, l, e2 := et.lockNames(h, opUnlink, place{dir, name, n})
	if e2 != 0 {
		return e2
	}
	defer et.rules.table.Release(l)
	if !et.claimFiles.clerk.MayTidy(c, et.claimFiles.claimName(dir, name)) {
		return unix.EBUSY
	}
	n, own, e = et.holds(dir, name, &st)
	if own != nil && !c.BelongsTo(own.who.Load()) {
		own = nil
	}
	if e != 0 && own == nil {
		return e // somebody has removed it while the lock was waited for
	}
	if e := et.mayRemove(c, place{dir, name, n}); e != 0 {
		return e
	}
	p := place{dir, name, n}
	if own, e = et.moves.withoutName(own, c, opUnlink, p); e != 0 {
		return e
	}
	made := et.names.isMade(&st)
	gone, err := et.recorder.remove(c, l, p)
	if err != nil && !(errnoOf(err) == unix.ENOENT && own != nil) {
		return errnoOf(err)
	}
	if own != nil && !et.moves.detach(own, true) {
		// Another thread of its owner was closing it, and the commit was faster.
		if again, failed := et.recorder.remove(c, l, p); failed == nil {
			if err == nil {
				et.recorder.changes.Tell(gone)
			}
			gone, err = again, nil
		}
		if err != nil {
			return errnoOf(err)
		}
	}
	et.recorder.changes.Tell(gone)
	et.names.nameGone(dir, name, made)
	et.names.unlinked(n, p.key(), st.Nlink == 1)
	et.moves.rebaseOn(n, nil)
	return 0
}

// Rmdir removes a directory: rmdir(2). A directory in which somebody creates a
// file is not empty, although the file has no name underneath yet.
func (et *entries) Rmdir(_ <-chan struct{}, h *Request, name string) unix.Errno {
	dir, e := et.opens.target(h.Node, name)
	if e != 0 {
		return e
	}
	if e := et.reports.isReadOnly(h, opRmdir, dir, name); e != 0 {
		return e
	}
	if t, c := et.callers.txnFor(h); t != nil {
		return t.rmdir(c, dir, name)
	}
	var st unix.Stat_t
	n, e := et.known(dir, name, &st)
	if e != 0 {
		return e
	}
	places := []place{{dir, name, nil}}
	if n != nil {
		for _, s := range et.endings.sessionsIn(n) {
			d, nm := s.where()
			places = append(places, place{d, nm, nil})
		}
	}
	c, l, e := et.lockNames(h, opRmdir, places...)
	if e != 0 {
		return e
	}
	defer et.rules.table.Release(l)
	if n != nil && len(et.endings.sessionsIn(n)) > 0 {
		return unix.ENOTEMPTY // the caller's own
	}
	if !et.claimFiles.clerk.MayTidy(c, et.claimFiles.claimName(dir, name)) {
		return unix.EBUSY
	}
	reach.WithoutACL(et.nodes.fdOf(dir), name, &st) // of which the trail does not tell
	remove := func() error {
		return et.callers.taker(c, dir)(func() error { return unix.Unlinkat(et.nodes.fdOf(dir), name, unix.AT_REMOVEDIR) })
	}
	err := remove()
	if err == unix.ENOTEMPTY && et.removeOrphans(et.nodes.fdOf(dir), name) {
		err = remove()
	}
	if err == nil {
		et.recorder.changes.Gone(byCaller{et.recorder, c}, et.nodes.path(dir, name), &st, "", "")
		et.claimFiles.filed.Gone(et.claimFiles.claimName(dir, name).Place())
		et.names.namesSoonOnDisk(dir, name)
	}
	return errnoOf(err)
}

// removeOrphans removes reserved names that no running commit uses from a
// directory that would be empty without them. It reports whether some are gone.
func (et *entries) removeOrphans(dirfd int, name string) bool {
	fd, err := unix.Openat(dirfd, name, unix.O_RDONLY|unix.O_DIRECTORY|unix.O_NOFOLLOW|unix.O_CLOEXEC, 0)
	if err != nil {
		return false
	}
	defer unix.Close(fd)
	list, err := listing.Read(fd, commit.Reserved)
	if err != nil || len(list) == 0 {
		return false
	}
	if err := et.disk.store.SettleLazyDir(fd); err != nil {
		et.disk.log.Warnf("commits in %q are not known to be on disk: %v", name, err)
	}
	if _, err := unix.Seek(fd, 0, unix.SEEK_SET); err != nil {
		return false
	}
	left, err := listing.Read(fd, commit.Reserved)
	removed := err == nil && len(left) < len(list)
	list = left
	for i := range list {
		removed = et.disk.store.RemoveOrphan(fd, list[i].Name) == nil || removed
	}
	return removed
}
