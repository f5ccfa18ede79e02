package fs

import (
	"time"

	"golang.org/x/sys/unix"

	"latchfs/fs/changes"
	"latchfs/fs/lostupdate"
	"latchfs/fs/rewalk"
	"latchfs/lockmgr/policy"
)

// Names of operations, as .locks/ shows them.
const (
	opOpen     = "open"
	opCreate   = "create"
	opTruncate = "truncate"
	opSetattr  = "setattr"
	opRename   = "rename"
	opUnlink   = "unlink"
	opRmdir    = "rmdir"
	opLink     = "link"
	opMkdir    = changes.OpMkdir
	opSymlink  = changes.OpSymlink
	opMknod    = "mknod"
	opBind     = "bind"
	opXattr    = "setxattr"
	opFlock    = "flock"
	opFcntl    = "fcntl"
	opAppend   = lostupdate.Appended
	opGuard    = "guard"      // taken through the control file, for what its holder does not say
	opWait     = rewalk.Wait  // an interrupted open
	opPutBack  = "put_back"   // of a file whose removal began a change that is refused
	opStale    = rewalk.Stale // any that was merely told to walk again
)

// fmodeExec is __FMODE_EXEC of include/linux/fs.h: the open is an execve(2)'s.
const fmodeExec = 0x20

// Open opens a file: open(2), execve(2). The kernel holds no directory or inode
// lock here, so this is where a writer waits for another.
func (f *FS) Open(cancel <-chan struct{}, in *OpenRequest, out *Opened) unix.Errno {
	if isVirtual(in.Node) {
		return f.virt.open(in, out)
	}
	k := f.nodeOf(in.Node)
	if k == nil {
		return unix.ESTALE
	}
	n := f.behind(k)
	if e := f.mayOpenMore(&in.Request, opOpen, func() string { return f.nodePath(n) }); e != 0 {
		return e
	}
	if f.finishHalfDone() {
		f.forgetAttrs(n) // its size may be another one now
		if c := f.callerOf(&in.Request); f.isReplaced(n) && c.tid != 0 && !f.walks.Repeated(c) {
			return f.staleAt(c, n)
		}
	}
	if e := f.isDue(in, n); e != 0 {
		return e
	}
	writes := in.Flags&unix.O_ACCMODE != unix.O_RDONLY || in.Flags&unix.O_TRUNC != 0
	if f.isRenamed(n) {
		if e := f.comesAstray(f.callerOf(&in.Request), n, writes); e != 0 {
			return e
		}
	}
	if !writes {
		if in.Flags&fmodeExec != 0 && f.forbids(n, unix.ST_NOEXEC) {
			return unix.EACCES
		}
		f.showLines(&in.Request, n) // with passthrough nobody asks for its size before it is read
		if e := f.claimRead(cancel, in, n); e != 0 {
			return e
		}
		return f.openRead(cancel, in, k, out)
	}
	if f.opts.ReadOnly {
		return unix.EROFS
	}
	return f.openWrite(cancel, in, k, out)
}

// openRead pins the version that the node stands for.
func (f *FS) openRead(cancel <-chan struct{}, in *OpenRequest, k *kernelNode, out *Opened) unix.Errno {
	f.mu.Lock()
	n := k.in
	s, fd := n.sess, n.fd
	posix, saved := n.advisory.HasBytesLocked(), n.saved
	f.mu.Unlock()
	if fd < 0 {
		return unix.ENOENT
	}
	seen := s
	if s == nil {
		if e := f.leadsOn(in, n, saved); e != 0 {
			return e
		}
	}
	if s != nil {
		c := f.callerOf(&in.Request)
		switch {
		case c.kinOf(s.who.Load()):
		case f.isPublished(n):
			s = nil // the commit is not over, but this is the file already
		default:
			// A path that led to somebody else's shadow leads elsewhere when
			// it is walked again. A descriptor (/proc/self/fd) does not.
			switch {
			case f.walks.Repeated(c):
				return f.openBase(in, k, s, out)
			case c.tid == 0 && f.strayed.PerhapsRepeated(f.nameKey(n), s.id):
				return f.openAfter(cancel, in, k, s, out)
			}
			return f.staleAt(c, n)
		}
	}
	h := f.newReader(k, n, seen, in.Flags, ids{in.UID, in.GID})
	if h == nil {
		return f.openRead(cancel, in, k, out) // a session has just begun, or ended
	}
	if f.walks.Any() {
		f.walks.Repeated(f.callerOf(&in.Request))
	}
	if f.strayed.Any() && f.callerOf(&in.Request).tid == 0 {
		f.strayed.Arrived(f.nameKey(n))
	}
	h.sess = s
	switch {
	case in.Flags&fmodeExec != 0: // who runs a program does not read it
	case s == nil:
		h.sight.Store(f.noteRead(&in.Request, n))
	default:
		s.noteOwnRead(f.callerOf(&in.Request))
	}
	want := ioPassthrough
	if s != nil && !s.isFilled() {
		want = ioWatched
	}
	f.startIO(h, want, out)
	out.Handle = h.id
	if !posix && !f.isLive(n) {
		// Saves a request at each close. The close of a descriptor ends its
		// process's POSIX locks, so where there may be some, closes are told.
		out.NoFlush = true
		h.noFlush = true
	}
	return 0
}

// leadsOn answers ESTALE to who has come by a name that leads elsewhere by now, since the
// kernel has not forgotten it yet; saved says that a save may have taken it. Who opens a
// descriptor arrives here again.
func (f *FS) leadsOn(in *OpenRequest, n *inode, saved bool) unix.Errno {
	replaced := saved && f.isReplaced(n)
	// A session took over the file's node, and was rolled back.
	orphan := !replaced && f.isOrphan(n)
	if !replaced && !orphan {
		return 0
	}
	c := f.callerOf(&in.Request)
	if f.walks.Repeated(c) || c.tid == 0 && (replaced || !f.leftBehind(n)) {
		return 0
	}
	return f.staleAt(c, n)
}

// strayedWait is how long a caller waits for a session if the kernel may not let it
// walk again.
const strayedWait = 2 * time.Second

// openAfter opens what the session makes of the node, if that is soon. The base could
// be given at once, but not its size: the kernel asks for the node's.
func (f *FS) openAfter(cancel <-chan struct{}, in *OpenRequest, k *kernelNode, s *session, out *Opened) unix.Errno {
	t := time.NewTimer(strayedWait)
	defer t.Stop()
	select {
	case <-s.left:
	case <-t.C:
		return unix.ESTALE
	case <-cancel:
		return unix.EINTR
	}
	f.mu.Lock()
	unpublished := k.in.orphan
	f.mu.Unlock()
	if unpublished {
		return unix.ESTALE
	}
	return f.openRead(cancel, in, k, out)
}

// openBase opens the committed file at the node that a session has taken over.
func (f *FS) openBase(in *OpenRequest, k *kernelNode, s *session, out *Opened) unix.Errno {
	f.mu.Lock()
	base := s.base
	f.mu.Unlock()
	if base == nil {
		return unix.ESTALE
	}
	fd, err := f.reopen(f.fdOf(base), unix.O_RDONLY)
	if err != nil {
		return errnoOf(err)
	}
	f.mu.Lock()
	h := f.newHandleLocked(k, plainHandle, in.Flags, ids{in.UID, in.GID})
	f.mu.Unlock()
	h.fd = fd
	f.startIO(h, ioDirect, out) // the node's pages and backing file are the shadow's
	out.Handle = h.id
	return 0
}

func (f *FS) openWrite(cancel <-chan struct{}, in *OpenRequest, k *kernelNode, out *Opened) unix.Errno {
	return (&opening{f: f, c: f.openerOf(&in.Request), in: in, out: out, k: k, cancel: cancel}).start()
}

// start carries the opening out, on what the node stands for now.
func (o *opening) start() unix.Errno {
	f, c, in, k, out, cancel := o.f, o.c, o.in, o.k, o.out, o.cancel
	f.mu.Lock()
	n := k.in
	s := n.sess
	parent, name := n.namedLocked()
	f.mu.Unlock()
	if in.Flags&(unix.O_APPEND|unix.O_TRUNC) != unix.O_APPEND {
		f.finishLinesOf(&in.Request, n)
	}
	o.n = n
	switch {
	case s != nil && (f.isLed(c, s) || c.kinOf(s.who.Load())):
		o.set = s.settings
		return o.shadow(s)
	case parent == nil:
		return f.openPlain(in, k, n, false, out)
	}
	if e := f.awaitsTxn(c, opOpen, []place{{parent, name, n}}); e != 0 {
		return e
	}
	path := f.path(parent, name)
	set := f.settings(path)
	switch {
	case set.Mode == policy.ReadOnly:
		return f.refuseReadOnly(&in.Request, opOpen, path, &set)
	case set.Mode == policy.Live || f.isAutoLive(n):
		if f.isReplaced(n) && !f.walks.Repeated(c) {
			return f.staleAt(c, n) // it went live while the caller was on its way
		}
		if f.sessionAt(parent, name) != nil && !f.isAutoLive(n) {
			// The file that somebody is writing was moved to where files are live:
			// its close will put another inode there.
			o.set = set
			return o.begin()
		}
		if e := f.passGuard(c, place{parent, name, n}, set.Wait, cancel); e != 0 {
			return e
		}
		return f.openPlain(in, k, n, true, out)
	case f.isWrittenUnread(place{parent, name, n}):
		if e := f.passGuard(c, place{parent, name, n}, set.Wait, cancel); e != 0 {
			return e
		}
		return f.openUnread(in, k, n, out)
	case appendsRecords(in.Flags, set) && f.txnOf(c) == nil && f.judge.ByLines(f.otherPaths(n)):
		return f.openAppend(cancel, c, in, k, n, set, out)
	}
	o.set = set
	return o.begin()
}

// unnamed reports whether the inode has lost its last name.
func (f *FS) unnamed(n *inode) bool {
	f.mu.Lock()
	fd, kept := n.fd, n.kept
	f.mu.Unlock()
	var st unix.Stat_t
	return unix.Fstat(fd, &st) == nil && (st.Nlink == 0 || kept && st.Nlink == 1)
}

// openPlain opens the file itself for writing.
func (f *FS) openPlain(in *OpenRequest, k *kernelNode, n *inode, live bool, out *Opened) unix.Errno {
	if err := f.unshare(n); err != nil {
		return errnoOf(err)
	}
	if e := f.settleLazy(n); e != 0 {
		return e
	}
	h := f.newHandle(k, n, plainHandle, in.Flags, ids{in.UID, in.GID})
	if h == nil {
		return unix.ESTALE
	}
	if live {
		f.setLive(h)
	}
	if in.Flags&unix.O_TRUNC != 0 {
		fd, e := f.file(h)
		if e == 0 && in.Flags&unix.O_ACCMODE == unix.O_RDONLY {
			e = errnoOf(unix.Truncate(procSelf(fd), 0)) // the kernel has asked whether the caller may write
		} else if e == 0 {
			e = errnoOf(unix.Ftruncate(fd, 0))
		}
		if e == 0 && in.KillSuid {
			e = errnoOf(f.killSuidOf(n, fd, f.sender(&in.Request)))
		}
		if e != 0 {
			f.closeHandle(h)
			return e
		}
	}
	f.startIO(h, ioPassthrough, out)
	out.Handle = h.id
	return 0
}

// isLed reports whether the caller's walk was led to the session's shadow.
func (f *FS) isLed(c *caller, s *session) bool {
	w := f.walks.Get(c)
	return w != nil && w.sess == s
}

// isPublished reports whether n is what its name leads to: of a shadow, that its
// commit is still syncing.
func (f *FS) isPublished(n *inode) bool {
	key, ok := f.named(n)
	return ok && key == n.key
}

// isReplaced reports whether n's name leads to another inode by now.
func (f *FS) isReplaced(n *inode) bool {
	key, ok := f.named(n)
	return ok && key != n.key
}

// named returns the inode to which n's name leads, if to any.
func (f *FS) named(n *inode) (inoKey, bool) {
	parent, name := f.nameOf(n)
	var st unix.Stat_t
	if parent == nil || unix.Fstatat(f.fdOf(parent), name, &st, unix.AT_SYMLINK_NOFOLLOW) != nil {
		return inoKey{}, false
	}
	return inoKey{uint64(st.Dev), st.Ino}, true
}

// isLive reports whether the file under n's name is a live one.
func (f *FS) isLive(n *inode) bool {
	parent, name := f.nameOf(n)
	return parent != nil && (f.settings(f.path(parent, name)).Mode == policy.Live || f.isAutoLive(n))
}
