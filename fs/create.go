package fs

import (
	"slices"

	"golang.org/x/sys/unix"

	"latchfs/fs/iomode"
	"latchfs/journal/commit"
	"latchfs/lockmgr"
	"latchfs/lockmgr/policy"
)

// Create makes and opens a file: open(2) with O_CREAT. The kernel holds the directory's lock:
// nothing here waits.
func (op *opens) Create(cancel <-chan struct{}, in *CreateRequest, name string, out *Created) unix.Errno {
	dir, e := op.target(in.Node, name)
	if e != 0 {
		return e
	}
	if e := op.reports.mayOpenMore(&in.Request, opCreate, func() string { return op.nodes.path(dir, name) }); e != 0 {
		return e
	}
	c := op.callers.openerOf(&in.Request)
	set := op.rules.settings(op.nodes.path(dir, name))
	mode := op.modeFor(dir, in.Mode, in.Umask)
	records := appendsRecords(in.Flags, set) && op.callers.txnOf(c) == nil
	switch {
	case set.Mode == policy.ReadOnly:
		return op.reports.refuseReadOnly(&in.Request, opCreate, op.nodes.path(dir, name), &set)
	case set.Mode == policy.Live && !op.txns.isGone(c, dir, name):
		p := place{dir, name, nil}
		if op.locks.guarded(c, p) {
			l, e := op.parking.admit(c, opCreate, op.locks.guardDemand(c, p, set.Wait), [2]dkey{p.key()}, []*inode{dir}, nil)
			if e != 0 {
				return e
			}
			op.rules.table.Release(l)
		}
		return op.createPlain(c, in, dir, name, mode, true, out)
	}
	toRead := makesToRead(in.Flags, mode, set) && op.callers.txnOf(c) == nil
	l, e := op.createLock(c, in, dir, name, set, records || toRead)
	if e != 0 {
		return e
	}
	if toRead && op.nodes.sessionAt(dir, name) == nil {
		defer op.rules.table.Release(l)
		return op.createToRead(cancel, c, in, dir, name, mode, out)
	}
	if records {
		defer op.rules.table.Release(l)
		if e := op.losses.mayMake(c, opCreate, place{dir, name, nil}, in.Flags&unix.O_EXCL != 0); e != 0 {
			return e
		}
		return op.createPlain(c, in, dir, name, mode, false, out)
	}
	return op.createSession(c, l, in, dir, name, mode, set, out)
}

// createLock takes the name's lock. Where another session is creating the name
// the answer is EEXIST for O_EXCL. Other callers park on their second walk, and
// what they find then depends on how that session ended.
func (op *opens) createLock(c *caller, in *CreateRequest, dir *inode, name string, set policy.Settings, records bool) (*lockmgr.Lock, unix.Errno) {
	p := place{dir, name, nil}
	at := [2]dkey{p.key()}
	excl := in.Flags&unix.O_EXCL != 0
	if excl && op.isCreating(dir, name) {
		op.noteTold(c, dir, name)
		return nil, unix.EEXIST
	}
	wait := set.Wait
	if in.Flags&unix.O_NONBLOCK != 0 {
		wait = 0
	}
	d := op.locks.fileDemand(c, opCreate, wait, p)
	d.label = labelOf(c, opCreate, d.path)
	d.keep = wait != 0
	o := beginOptions{settings: set, killSuid: in.KillSuid}.access(in.Flags)
	l, e := op.parking.admit(c, opOpen, d, at, []*inode{dir}, func(w *walk) unix.Errno {
		return op.leadCreate(c, w, p, excl, records, o)
	})
	if e == unix.EAGAIN {
		op.noteTold(c, dir, name)
	}
	return l, e
}

// isCreating reports whether an uncommitted new file has the name.
func (op *opens) isCreating(dir *inode, name string) bool {
	s := op.nodes.sessionAt(dir, name)
	return s != nil && s.isNew.Load()
}

// maxTold bounds how many processes are remembered that were told of one uncommitted file.
const maxTold = 16

// noteTold notes that the caller is told of the uncommitted new file that has the name, which
// to others is free; see leadTold.
func (op *opens) noteTold(c *caller, dir *inode, name string) {
	op.nodes.mu.Lock()
	defer op.nodes.mu.Unlock()
	s := op.nodes.nameLocked(dir, name).sess
	if s != nil && !c.Foreign() && len(s.told) < maxTold && !slices.Contains(s.told, c.Owner()) {
		s.told = append(s.told, c.Owner())
	}
}

// leadCreate runs when a parked create has its lock. Where the file has come to
// be meanwhile the create is an open: its session begins, and the walk is led
// there, for the kernel will not walk a third time. Otherwise the lock is kept
// for the CREATE that comes.
func (op *opens) leadCreate(c *caller, w *walk, p place, excl, records bool, o beginOptions) unix.Errno {
	var st unix.Stat_t
	switch err := unix.Fstatat(op.nodes.fdOf(p.dir), p.name, &st, unix.AT_SYMLINK_NOFOLLOW); {
	case err == unix.ENOENT, op.txns.isGone(c, p.dir, p.name):
		return 0
	case err != nil:
		return errnoOf(err)
	case excl:
		return unix.EEXIST
	case records, st.Mode&unix.S_IFMT != unix.S_IFREG, op.rules.wentLive(&st), op.nodes.isLivePath(op.nodes.path(p.dir, p.name)):
		if !records {
			if e := op.losses.mayUseLive(c, opCreate, p, &st, &o); e != 0 {
				return e
			}
		}
		// The open does without a lock, and must not be told to walk again.
		op.astray.walks.Put(c, &walk{promise: promise{Op: opStale, At: w.At}})
		return 0
	}
	switch e := op.callers.mayOpenName(c, p.dir, p.name, &st, o.flags); e {
	case 0:
	case unix.ENOENT:
		return 0
	default:
		return e
	}
	s, e := op.sessions.beginOrJoin(c, w.lock, p, &st, o)
	if e != 0 {
		return e
	}
	op.parking.leadTo(w, s)
	return 0
}

// createSession starts the session of a new file.
func (op *opens) createSession(c *caller, l *lockmgr.Lock, in *CreateRequest, dir *inode, name string, mode uint32, set policy.Settings, out *Created) unix.Errno {
	base, e := op.existing(c, in, dir, name)
	if e != 0 {
		op.rules.table.Release(l)
		return e
	}
	o := beginOptions{settings: set, mode: mode}.access(in.Flags)
	s, e := op.sessions.begin(c, l, dir, name, base, o)
	flags := in.Flags &^ unix.O_TRUNC // done
	if e != 0 {
		op.rules.table.Release(l)
		s = op.nodes.sessionAt(dir, name)
		switch {
		case e != unix.EEXIST || in.Flags&unix.O_EXCL != 0:
			return e
		case s != nil && !c.BelongsTo(s.who.Load()):
			return unix.EBUSY // no lock that covers the name allows that
		case s == nil || !s.join():
			return unix.ESTALE // it is there now: a second walk opens it
		}
		flags = in.Flags // another process of the owner is creating the file: its session is joined
	}
	defer op.endings.walkerGone(s)
	n := s.inode
	k := op.kernel.lookedUp(n)
	h, e := op.sessions.attach(s, c, k, flags, &out.Opened)
	if e != 0 {
		op.kernel.forget(k, 1)
		return e
	}
	out.Handle = h.id
	var st unix.Stat_t
	if e := op.names.stat(n, &st); e != 0 {
		op.kernel.forget(k, 1)
		return e
	}
	op.attrs.fillEntry(&out.Entry, k, &st, true)
	return 0
}

// existing looks at what has the name although the kernel thought it free:
// somebody was faster. A regular file is opened here and now, since the caller
// may have used up its second walk already.
func (op *opens) existing(c *caller, in *CreateRequest, dir *inode, name string) (*unix.Stat_t, unix.Errno) {
	if op.txns.isGone(c, dir, name) {
		return nil, 0
	}
	var st unix.Stat_t
	switch err := unix.Fstatat(op.nodes.fdOf(dir), name, &st, unix.AT_SYMLINK_NOFOLLOW); {
	case err == unix.ENOENT:
		return nil, 0
	case err != nil:
		return nil, errnoOf(err)
	case in.Flags&unix.O_EXCL != 0:
		return nil, unix.EEXIST
	case st.Mode&unix.S_IFMT != unix.S_IFREG:
		return nil, unix.ESTALE
	}
	switch e := op.callers.mayOpenName(c, dir, name, &st, in.Flags); e {
	case 0:
		return &st, 0
	case unix.ENOENT:
		return nil, 0
	default:
		return nil, e
	}
}

// createPlain makes the file at once: live files, and files that records are
// appended to.
func (op *opens) createPlain(c *caller, in *CreateRequest, dir *inode, name string, mode uint32, live bool, out *Created) unix.Errno {
	flags := newFile
	if !live {
		flags |= int(in.Flags & (unix.O_SYNC | unix.O_DSYNC)) // the appender's
	}
	fd, err := op.makeFile(c, dir, name, flags, mode)
	if err == unix.EEXIST && in.Flags&unix.O_EXCL == 0 {
		return op.openInstead(c, in, dir, name, live, out)
	}
	if err != nil {
		return errnoOf(err)
	}
	var st unix.Stat_t
	if !live && unix.Fstat(fd, &st) == nil {
		op.tellCreated(c, dir, name, &st)
		op.names.namesSoonOnDisk(dir, name)
		live = op.contents.isWriteOnly(fd, op.nodes.path(dir, name))
	}
	return op.openCreated(c, fd, dir, name, in.Flags, live, out)
}

// tellCreated tells that the caller has made the file st under a name.
func (op *opens) tellCreated(c *caller, dir *inode, name string, st *unix.Stat_t) {
	ch := op.recorder.changesBy(c, opCreate, place{dir, name, nil}, 0)
	ch.Is, ch.NewInode = st, true
	op.recorder.changes.Tell(ch)
}

// openInstead answers a plain create with an open of the file that somebody has made
// there since the kernel looked: the caller may have used up its second walk.
func (op *opens) openInstead(c *caller, in *CreateRequest, dir *inode, name string, live bool, out *Created) unix.Errno {
	base, e := op.existing(c, in, dir, name)
	switch {
	case e != 0:
		return e
	case base == nil:
		return unix.ESTALE // it is gone again
	}
	return op.openMade(dir, name, base, out, func(k *kernelNode, n *inode) unix.Errno {
		switch {
		case live:
			return op.openPlain(&in.OpenRequest, k, n, true, &out.Opened)
		case op.contents.isUnreadable(n):
			return op.openUnread(&in.OpenRequest, k, n, &out.Opened)
		case !op.judging.judge.ByLines(op.names.otherPaths(n)):
			return unix.ESTALE // for a session, which an open begins
		}
		return op.appending.openAppender(c, k, n, in.Flags, &out.Opened)
	})
}

// openMade answers a create with an open of the file st, which has the name now.
func (op *opens) openMade(dir *inode, name string, st *unix.Stat_t, out *Created, open func(k *kernelNode, n *inode) unix.Errno) unix.Errno {
	var now unix.Stat_t
	k, e := op.names.child(dir, name, &now)
	if e != 0 {
		return e
	}
	n := op.kernel.behind(k)
	if e = unix.ESTALE; now.Dev == st.Dev && now.Ino == st.Ino { // else the caller's rights to another one were looked at
		e = open(k, n)
	}
	if e != 0 {
		op.kernel.forget(k, 1)
		return e
	}
	_ = op.names.stat(n, &now) // the open may have truncated it
	op.attrs.fillEntry(&out.Entry, k, &now, true)
	return 0
}

// openCreated answers a create with a handle on fd, which it consumes.
func (op *opens) openCreated(c *caller, fd int, dir *inode, name string, flags uint32, live bool, out *Created) unix.Errno {
	pathfd, err := op.nodes.trim.OpenAt(op.disk.procfd, procName(fd), unix.O_PATH)
	if err != nil {
		unix.Close(fd)
		return errnoOf(err)
	}
	var st unix.Stat_t
	if err := unix.Fstat(fd, &st); err != nil {
		unix.Close(fd)
		unix.Close(pathfd)
		return errnoOf(err)
	}
	kind := plainHandle
	if !live && dir != nil && flags&unix.O_APPEND != 0 {
		kind = appendHandle
	}
	op.nodes.mu.Lock()
	k := op.kernel.adoptLocked(pathfd, &st)
	n := k.in
	op.nodes.setNameLocked(n, dir, name)
	var h *handle // before a session can take k over
	if kind == appendHandle {
		h, n.fresh = op.appending.newAppenderLocked(k, flags&^unix.O_TRUNC, c), true
	} else {
		h = op.handles.newHandleLocked(k, kind, flags&^unix.O_TRUNC, idsOf(c))
	}
	op.nodes.mu.Unlock()
	op.commits.markerMoved(name)
	if live {
		op.live.setLive(h)
	}
	want := iomode.Passthrough
	if kind == appendHandle {
		want = iomode.Direct
		_ = h.app.OpenNow(fd) // the first write tells of an error
	} else {
		h.fd = fd
	}
	op.handles.startIO(h, want, &out.Opened)
	out.Handle = h.id
	op.attrs.fillEntry(&out.Entry, k, &st, false)
	return 0
}

// Tmpfile makes a file that has no name: open(2) with O_TMPFILE. It is nobody else's business
// until linkat(2) gives it one.
func (op *opens) Tmpfile(_ <-chan struct{}, in *CreateRequest, out *Created) unix.Errno {
	dir := op.kernel.inodeOf(in.Node)
	if isVirtual(in.Node) || op.disk.opts.ReadOnly {
		return unix.EROFS
	}
	if dir == nil {
		return unix.ESTALE
	}
	if e := op.reports.mayOpenMore(&in.Request, opCreate, func() string { return op.nodes.nodePath(dir) }); e != 0 {
		return e
	}
	mode := op.modeFor(dir, in.Mode, in.Umask)
	dirfd := op.nodes.fdOf(dir)
	flags := unix.O_TMPFILE | unix.O_RDWR | unix.O_CLOEXEC | int(in.Flags&unix.O_EXCL)
	c := op.callers.callerOf(&in.Request)
	var fd int
	err := op.nodes.trim.Spare(func() error {
		return op.disk.makeAs(c, func() (err error) {
			fd, err = unix.Openat(dirfd, ".", flags, mode)
			return err
		})
	})
	if err != nil {
		return errnoOf(err)
	}
	return op.openCreated(c, fd, nil, "", in.Flags, false, out)
}

// target is the directory in which name is to be made or removed.
func (op *opens) target(dirID uint64, name string) (*inode, unix.Errno) {
	switch {
	case isVirtual(dirID):
		return nil, unix.EPERM
	case op.disk.opts.ReadOnly:
		return nil, unix.EROFS
	case commit.Reserved(name), dirID == rootID && name == op.disk.opts.LocksDir:
		return nil, unix.EPERM
	}
	dir := op.kernel.inodeOf(dirID)
	if dir == nil {
		return nil, unix.ESTALE
	}
	return dir, 0
}

// modeFor applies the caller's umask, which a default ACL of the directory
// overrides (umask(2)).
func (op *opens) modeFor(dir *inode, mode, umask uint32) uint32 {
	if umask == 0 {
		return mode & 0o7777
	}
	_, err := unix.Getxattr(procSelf(op.nodes.fdOf(dir)), "system.posix_acl_default", nil)
	if err == nil {
		return mode & 0o7777
	}
	return mode & 0o7777 &^ umask
}
