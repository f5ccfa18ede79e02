package fs

import (
	"time"

	"github.com/hanwen/go-fuse/v2/fuse"
	"golang.org/x/sys/unix"

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
	opMkdir    = "mkdir"
	opSymlink  = "symlink"
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

// Open implements fuse.RawFileSystem. The kernel holds no directory or inode
// lock here, so this is where a writer waits for another.
func (f *FS) Open(cancel <-chan struct{}, in *fuse.OpenIn, out *fuse.OpenOut) fuse.Status {
	if isVirtual(in.NodeId) {
		return f.virt.open(in, out)
	}
	k := f.nodeOf(in.NodeId)
	if k == nil {
		return status(unix.ESTALE)
	}
	n := f.behind(k)
	if e := f.mayOpenMore(&in.InHeader, opOpen, func() string { return f.nodePath(n) }); e != 0 {
		return status(e)
	}
	if f.finishHalfDone() {
		f.forgetAttrs(n) // its size may be another one now
		if c := f.callerOf(&in.InHeader); f.isReplaced(n) && c.tid != 0 && !f.walks.Repeated(c) {
			return status(f.staleAt(c, n))
		}
	}
	if e := f.isDue(in, n); e != 0 {
		return status(e)
	}
	writes := in.Flags&unix.O_ACCMODE != unix.O_RDONLY || in.Flags&unix.O_TRUNC != 0
	if f.isRenamed(n) {
		if e := f.comesAstray(f.callerOf(&in.InHeader), n, writes); e != 0 {
			return status(e)
		}
	}
	if !writes {
		if in.Flags&openToExec != 0 && f.forbids(f.fdOf(n), unix.ST_NOEXEC) {
			return fuse.EACCES
		}
		if e := f.claimRead(cancel, in, n); e != 0 {
			return status(e)
		}
		return f.openRead(cancel, in, k, out)
	}
	if f.opts.ReadOnly {
		return fuse.EROFS
	}
	return f.openWrite(cancel, in, k, n, out)
}

// openRead pins the version that the node stands for.
func (f *FS) openRead(cancel <-chan struct{}, in *fuse.OpenIn, k *kernelNode, out *fuse.OpenOut) fuse.Status {
	f.mu.Lock()
	n := k.in
	s, fd := n.sess, n.fd
	posix, saved := n.advisory.HasBytesLocked(), n.saved
	f.mu.Unlock()
	if fd < 0 {
		return status(unix.ENOENT)
	}
	seen := s
	if s == nil {
		if e := f.leadsOn(in, n, saved); e != 0 {
			return status(e)
		}
	}
	if s != nil {
		c := f.callerOf(&in.InHeader)
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
			return status(f.staleAt(c, n))
		}
	}
	h := f.newReader(k, n, seen, in.Flags, ids{in.Uid, in.Gid})
	if h == nil {
		return f.openRead(cancel, in, k, out) // a session has just begun, or ended
	}
	if f.walks.Any() {
		f.walks.Repeated(f.callerOf(&in.InHeader))
	}
	if f.strayed.Any() && f.callerOf(&in.InHeader).tid == 0 {
		f.strayed.Arrived(f.nameKey(n))
	}
	h.sess = s
	switch {
	case in.Flags&fmodeExec != 0: // who runs a program does not read it
	case s == nil:
		h.sight.Store(f.noteRead(&in.InHeader, n))
	default:
		s.noteOwnRead(f.callerOf(&in.InHeader))
	}
	want := ioPassthrough
	if s != nil && !s.isFilled() {
		want = ioWatched
	}
	f.startIO(h, want, out)
	out.Fh = h.id
	if !posix && !f.isLive(n) {
		// Saves a request at each close. The close of a descriptor ends its
		// process's POSIX locks, so where there may be some, closes are told.
		out.OpenFlags |= fuse.FOPEN_NOFLUSH
		h.noFlush = true
	}
	return fuse.OK
}

// leadsOn answers ESTALE to who has come by a name that leads elsewhere by now, since the
// kernel has not forgotten it yet; saved says that a save may have taken it. Who opens a
// descriptor arrives here again.
func (f *FS) leadsOn(in *fuse.OpenIn, n *inode, saved bool) unix.Errno {
	replaced := saved && f.isReplaced(n)
	// A session took over the file's node, and was rolled back.
	orphan := !replaced && f.isOrphan(n)
	if !replaced && !orphan {
		return 0
	}
	c := f.callerOf(&in.InHeader)
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
func (f *FS) openAfter(cancel <-chan struct{}, in *fuse.OpenIn, k *kernelNode, s *session, out *fuse.OpenOut) fuse.Status {
	t := time.NewTimer(strayedWait)
	defer t.Stop()
	select {
	case <-s.left:
	case <-t.C:
		return status(unix.ESTALE)
	case <-cancel:
		return status(unix.EINTR)
	}
	f.mu.Lock()
	unpublished := k.in.orphan
	f.mu.Unlock()
	if unpublished {
		return status(unix.ESTALE)
	}
	return f.openRead(cancel, in, k, out)
}

// openBase opens the committed file at the node that a session has taken over.
func (f *FS) openBase(in *fuse.OpenIn, k *kernelNode, s *session, out *fuse.OpenOut) fuse.Status {
	f.mu.Lock()
	base := s.base
	f.mu.Unlock()
	if base == nil {
		return status(unix.ESTALE)
	}
	fd, err := f.reopen(f.fdOf(base), unix.O_RDONLY)
	if err != nil {
		return statusOf(err)
	}
	f.mu.Lock()
	h := f.newHandleLocked(k, plainHandle, in.Flags, ids{in.Uid, in.Gid})
	f.mu.Unlock()
	h.fd = fd
	f.startIO(h, ioDirect, out) // the node's pages and backing file are the shadow's
	out.Fh = h.id
	return fuse.OK
}

func (f *FS) openWrite(cancel <-chan struct{}, in *fuse.OpenIn, k *kernelNode, n *inode, out *fuse.OpenOut) fuse.Status {
	c := f.openerOf(&in.InHeader)
	f.mu.Lock()
	s := n.sess
	parent, name := n.namedLocked()
	f.mu.Unlock()
	o := &opening{f: f, c: c, in: in, out: out, k: k, n: n, cancel: cancel}
	switch {
	case s != nil && (f.isLed(c, s) || c.kinOf(s.who.Load())):
		o.set = s.settings
		return o.shadow(s)
	case parent == nil:
		return f.openPlain(in, k, n, false, out)
	}
	if e := f.awaitsTxn(c, opOpen, []place{{parent, name, n}}); e != 0 {
		return status(e)
	}
	path := f.path(parent, name)
	set := f.settings(path)
	switch {
	case set.Mode == policy.ReadOnly:
		return status(f.refuseReadOnly(&in.InHeader, opOpen, path, &set))
	case set.Mode == policy.Live || f.isAutoLive(n):
		if f.isReplaced(n) && !f.walks.Repeated(c) {
			return status(f.staleAt(c, n)) // it went live while the caller was on its way
		}
		if f.sessionAt(parent, name) != nil && !f.isAutoLive(n) {
			// The file that somebody is writing was moved to where files are live:
			// its close will put another inode there.
			o.set = set
			return o.begin()
		}
		if e := f.passGuard(c, place{parent, name, n}, set.Wait, cancel); e != 0 {
			return status(e)
		}
		return f.openPlain(in, k, n, true, out)
	case appendsRecords(in.Flags, set) && f.txnOf(c) == nil && f.otherNamesJudgeRecords(n):
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
func (f *FS) openPlain(in *fuse.OpenIn, k *kernelNode, n *inode, live bool, out *fuse.OpenOut) fuse.Status {
	if err := f.unshare(n); err != nil {
		return statusOf(err)
	}
	if e := f.settleLazy(n); e != 0 {
		return status(e)
	}
	h := f.newHandle(k, n, plainHandle, in.Flags, ids{in.Uid, in.Gid})
	if h == nil {
		return status(unix.ESTALE)
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
		if e == 0 && in.Mode&fuse.OPEN_KILL_SUIDGID != 0 {
			e = errnoOf(f.killSuidOf(n, fd, f.sender(&in.InHeader)))
		}
		if e != 0 {
			f.closeHandle(h)
			return status(e)
		}
	}
	f.startIO(h, ioPassthrough, out)
	out.Fh = h.id
	return fuse.OK
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
