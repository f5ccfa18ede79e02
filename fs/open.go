package fs

import (
	"github.com/hanwen/go-fuse/v2/fuse"
	"golang.org/x/sys/unix"

	"latchfs/lockmgr"
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
	opAppend   = "append"
	opWait     = "wait"  // an interrupted open
	opStale    = "stale" // any that was merely told to walk again
)

// Open implements fuse.RawFileSystem. The kernel holds no directory or inode
// lock here, so this is where a writer waits for another.
func (f *FS) Open(cancel <-chan struct{}, in *fuse.OpenIn, out *fuse.OpenOut) fuse.Status {
	if isVirtual(in.NodeId) {
		return f.virt.open(in, out)
	}
	n := f.nodeOf(in.NodeId)
	if n == nil {
		return status(unix.ESTALE)
	}
	writes := in.Flags&unix.O_ACCMODE != unix.O_RDONLY || in.Flags&unix.O_TRUNC != 0
	if !writes {
		return f.openRead(in, n, out)
	}
	if f.opts.ReadOnly {
		return fuse.EROFS
	}
	return f.openWrite(cancel, in, n, out)
}

// openRead pins the version that the node stands for.
func (f *FS) openRead(in *fuse.OpenIn, n *node, out *fuse.OpenOut) fuse.Status {
	f.mu.Lock()
	s, fd := n.sess, n.fd
	posix := n.posix
	f.mu.Unlock()
	if fd < 0 {
		return status(unix.ENOENT)
	}
	seen := s
	if s != nil {
		c := f.callerOf(&in.InHeader)
		switch {
		case c.kinOf(s.who.Load()):
		case f.isPublished(n):
			s = nil // the commit is not over, but this is the file already
		default:
			// A path that led to somebody else's shadow leads elsewhere when
			// it is walked again.
			return status(f.staleAt(c, n))
		}
	}
	h := f.newReader(n, seen, in.Flags)
	if f.walks.any() {
		f.walks.repeated(f.callerOf(&in.InHeader))
	}
	if h == nil {
		if n.isRegular() && seen != nil {
			return f.openRead(in, n, out) // its session has just ended
		}
		return status(unix.ESTALE)
	}
	h.sess = s
	want := ioPassthrough
	if s != nil && !s.isFilled() {
		want = ioDirect
	}
	f.startIO(h, want, out)
	out.Fh = h.id
	if !posix && !f.isLive(n) {
		// Saves a request at each close. The close of a descriptor ends its
		// process's POSIX locks, so where there may be some, closes are told.
		out.OpenFlags |= fuse.FOPEN_NOFLUSH
	}
	return fuse.OK
}

func (f *FS) openWrite(cancel <-chan struct{}, in *fuse.OpenIn, n *node, out *fuse.OpenOut) fuse.Status {
	c := f.callerOf(&in.InHeader)
	f.mu.Lock()
	s, parent, name := n.sess, n.parent, n.name
	f.mu.Unlock()
	switch {
	case s != nil && (f.isLed(c, s) || c.kinOf(s.who.Load())):
		return f.openShadow(cancel, c, in, n, s, out)
	case parent == nil:
		return f.openPlain(in, n, false, out)
	}
	path := f.path(parent, name)
	set := f.settings(path)
	switch {
	case set.Mode == policy.ReadOnly:
		return fuse.EROFS
	case set.Mode == policy.Live || f.isAutoLive(n):
		if f.isReplaced(n) && !f.walks.repeated(c) {
			return status(f.staleAt(c, n)) // it went live while the caller was on its way
		}
		return f.openPlain(in, n, true, out)
	case in.Flags&unix.O_APPEND != 0 && in.Flags&unix.O_TRUNC == 0 && set.Append == policy.Record:
		return f.openAppend(cancel, c, in, n, set, out)
	}
	return f.openSession(cancel, c, in, n, set, out)
}

// unnamed reports whether the inode has lost its last name.
func (f *FS) unnamed(n *node) bool {
	var st unix.Stat_t
	return unix.Fstat(f.fdOf(n), &st) == nil && st.Nlink == 0
}

// openPlain opens the file itself for writing.
func (f *FS) openPlain(in *fuse.OpenIn, n *node, live bool, out *fuse.OpenOut) fuse.Status {
	h := f.newHandle(n, plainHandle, in.Flags)
	h.live = live
	if in.Flags&unix.O_TRUNC != 0 {
		fd, e := f.file(h)
		if e == 0 {
			e = errnoOf(unix.Ftruncate(fd, 0))
		}
		if e == 0 && in.Mode&fuse.OPEN_KILL_SUIDGID != 0 {
			e = errnoOf(killSuidErr(fd, in.Gid))
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

// openSession starts a session on the committed file n and leads the caller to
// the shadow: the kernel walks the name again after ESTALE.
func (f *FS) openSession(cancel <-chan struct{}, c *caller, in *fuse.OpenIn, n *node, set policy.Settings, out *fuse.OpenOut) fuse.Status {
	dir, name := f.nameOf(n)
	at := [2]dkey{{dir.id, name}}
	second := f.walks.repeated(c)
	w := f.takeOpenWalk(c, n, at)
	if w != nil {
		second = true // it was answered ESTALE once
		if !w.looked && f.unnamed(n) {
			// The caller has a descriptor of a file that is no more; who came
			// by a name that was replaced meanwhile has been led on.
			f.dropWalk(w)
			return f.openPlain(in, n, false, out)
		}
		if w.sess != nil && !w.looked {
			// No name was walked: the open went through a descriptor, or the
			// file is a mount point of its own.
			return f.openTakeover(cancel, c, in, n, w.sess, out)
		}
		if w.sess != nil || w.at != at || w.again {
			f.dropWalk(w)
			w = nil
		}
	}
	if f.isClosing() {
		return status(f.refuse(&demand{c: c, op: opOpen, path: f.path(dir, name)}, errShutdown))
	}
	if s := f.sessionOn(n, dir, name); s != nil && c.kinOf(s.who.Load()) && s.join() {
		return f.lead(cancel, c, in, n, at, s, out)
	}
	s, e := f.startSession(cancel, c, in, n, set, w, second)
	if e != 0 {
		return status(e)
	}
	if s == nil {
		return status(unix.ESTALE) // the name is reserved for the caller's second walk
	}
	if second {
		return f.openTakeover(cancel, c, in, n, s, out)
	}
	if !s.inPlace && c.tid != 0 && f.isBase(n, s) && f.takeOver(n, s) {
		return f.openTaken(c, in, s, out)
	}
	return f.lead(cancel, c, in, n, [2]dkey{s.dkey()}, s, out)
}

// takeOpenWalk returns what the caller was promised when it opened n before;
// an inode with several names may have been reached by another one.
func (f *FS) takeOpenWalk(c *caller, n *node, at [2]dkey) *walk {
	w := f.walks.get(c)
	if w == nil || w.op == opWait {
		return nil
	}
	if w.op == opOpen {
		f.mu.Lock()
		same := w.from == n || w.sess != nil && n.shadow == w.sess
		f.mu.Unlock()
		if same && f.walks.remove(w) {
			return w
		}
	}
	return f.walks.take(c, opOpen, at)
}

// lead answers ESTALE so that the caller's second walk finds the shadow. The
// session already counts the caller as a walker.
func (f *FS) lead(cancel <-chan struct{}, c *caller, in *fuse.OpenIn, n *node, at [2]dkey, s *session, out *fuse.OpenOut) fuse.Status {
	if c.tid == 0 {
		// Unknown threads cannot be told apart in their second walk.
		return f.openTakeover(cancel, c, in, n, s, out)
	}
	f.walks.put(&walk{tid: c.tid, start: c.start, op: opOpen, at: at, sess: s, from: n})
	return status(unix.ESTALE)
}

// startSession waits for the lock and begins a session on the file that then
// has n's name. A nil session without an errno means that the name is gone: it
// is reserved for the caller, who will find that out itself.
func (f *FS) startSession(cancel <-chan struct{}, c *caller, in *fuse.OpenIn, n *node, set policy.Settings, w *walk, second bool) (*session, unix.Errno) {
	wait := set.Wait
	if in.Flags&unix.O_NONBLOCK != 0 {
		wait = 0
	}
	dir, name := f.nameOf(n)
	d := f.fileDemand(c, opOpen, wait, place{dir, name, n})
	d.label = c.label(opOpen, d.path)
	l, e := f.lockOrResume(d, [2]dkey{{dir.id, name}}, w, cancel)
	if e != 0 {
		return nil, e
	}
	o := beginOptions{settings: set, trunc: in.Flags&unix.O_TRUNC != 0, killSuid: in.Mode&fuse.OPEN_KILL_SUIDGID != 0}
	var st unix.Stat_t
	err := unix.Fstatat(f.fdOf(dir), name, &st, unix.AT_SYMLINK_NOFOLLOW)
	switch gone := err == unix.ENOENT || err == nil && st.Mode&unix.S_IFMT != unix.S_IFREG; {
	case gone && second:
		f.table.Release(l)
		return nil, unix.ENOENT
	case gone:
		return nil, f.reserve(d, l, n)
	case err != nil:
		f.table.Release(l)
		return nil, errnoOf(err)
	case f.wentLive(&st) || f.settings(d.path).Mode == policy.Live:
		f.table.Release(l)
		return nil, 0
	}
	s, e := f.beginOrJoin(c, l, place{dir, name, n}, &st, o)
	if e != 0 {
		f.table.Release(l)
	}
	return s, e
}

// beginOrJoin begins a session on the file st that has a name, or joins the one
// that a relative, who shares the lock, has begun in the meantime. The session
// owns the lock unless there is an error, and counts the caller as a walker.
func (f *FS) beginOrJoin(c *caller, l *lockmgr.Lock, p place, st *unix.Stat_t, o beginOptions) (*session, unix.Errno) {
	for {
		switch s := f.sessionOn(f.nodeFor(st), p.dir, p.name); {
		case s == nil:
		case !c.kinOf(s.who.Load()):
			return nil, unix.EBUSY // no lock that covers the name allows that
		case s.join():
			f.table.Release(l)
			return s, 0
		}
		s, e := f.begin(c, l, p.dir, p.name, st, o)
		switch e {
		case 0:
			s.expect()
			return s, 0
		case unix.EEXIST: // a relative was faster by a moment
		default:
			return nil, e
		}
		if err := unix.Fstatat(f.fdOf(p.dir), p.name, st, unix.AT_SYMLINK_NOFOLLOW); err != nil {
			return nil, errnoOf(err)
		}
	}
}

// nodeFor is the node of an inode, if the kernel knows it.
func (f *FS) nodeFor(st *unix.Stat_t) *node {
	f.mu.Lock()
	defer f.mu.Unlock()
	return f.byIno[inoKey{uint64(st.Dev), st.Ino}]
}

// wentLive reports whether the file that has the name by now is a live one.
func (f *FS) wentLive(st *unix.Stat_t) bool {
	f.mu.Lock()
	defer f.mu.Unlock()
	n := f.byIno[inoKey{uint64(st.Dev), st.Ino}]
	return n != nil && n.live
}

// reserve keeps the lock for the caller's second walk.
func (f *FS) reserve(d *demand, l *lockmgr.Lock, from *node) unix.Errno {
	c := d.c
	if c.tid == 0 {
		f.table.Release(l)
		return unix.ENOENT
	}
	f.walks.put(&walk{tid: c.tid, start: c.start, op: opOpen, at: [2]dkey{d.places[0].key()}, d: d, lock: l, parked: true, from: from})
	return 0
}

// openShadow joins the session whose shadow n is.
func (f *FS) openShadow(cancel <-chan struct{}, c *caller, in *fuse.OpenIn, n *node, s *session, out *fuse.OpenOut) fuse.Status {
	w := f.walks.get(c)
	led := w != nil && w.sess == s && f.walks.remove(w)
	h, e := s.attach(c, in.Flags, out)
	if led {
		s.walkerGone()
	}
	switch {
	case e == unix.ESTALE && f.isAutoLive(n):
		return f.openPlain(in, n, true, out)
	case e == unix.ESTALE && !s.isDetached():
		// The session has just ended: this open begins the next.
		return f.openSession(cancel, c, in, n, s.settings, out)
	}
	if e != 0 {
		return status(e)
	}
	out.Fh = h.id
	return fuse.OK
}

// isLed reports whether the caller's walk was led to the session's shadow.
func (f *FS) isLed(c *caller, s *session) bool {
	w := f.walks.get(c)
	return w != nil && w.sess == s
}

// isPublished reports whether the inode of a shadow has its name already: a
// commit that is still syncing.
func (f *FS) isPublished(n *node) bool {
	parent, name := f.nameOf(n)
	var st unix.Stat_t
	if parent == nil || unix.Fstatat(f.fdOf(parent), name, &st, unix.AT_SYMLINK_NOFOLLOW) != nil {
		return false
	}
	f.mu.Lock()
	defer f.mu.Unlock()
	return n.key == inoKey{uint64(st.Dev), st.Ino}
}

// isReplaced reports whether n's name leads to another inode by now.
func (f *FS) isReplaced(n *node) bool {
	parent, name := f.nameOf(n)
	var st unix.Stat_t
	if parent == nil || unix.Fstatat(f.fdOf(parent), name, &st, unix.AT_SYMLINK_NOFOLLOW) != nil {
		return false
	}
	return f.inoOf(n) != inoKey{uint64(st.Dev), st.Ino}
}

// isLive reports whether the file under n's name is a live one.
func (f *FS) isLive(n *node) bool {
	parent, name := f.nameOf(n)
	return parent != nil && (f.settings(f.path(parent, name)).Mode == policy.Live || f.isAutoLive(n))
}

// attach opens the shadow for writing.
func (s *session) attach(c *caller, flags uint32, out *fuse.OpenOut) (*handle, unix.Errno) {
	s.mu.Lock()
	defer s.mu.Unlock()
	if s.ended {
		return nil, unix.ESTALE
	}
	if s.failed != 0 {
		return nil, s.failed
	}
	if flags&unix.O_TRUNC != 0 && len(s.handles) > 0 || flags&unix.O_TRUNC != 0 && !s.filled {
		s.filled = true
		s.closeBase()
		if err := unix.Ftruncate(s.shadow.FD(), 0); err != nil {
			return nil, errnoOf(err)
		}
		s.wrote = true
	}
	s.f.mu.Lock()
	h := s.f.newHandleLocked(s.node, shadowHandle, flags)
	s.f.mu.Unlock()
	h.sess = s
	s.handles[h] = struct{}{}
	s.idle.Store(false)
	s.noteLocked(c.owner)
	want := ioPassthrough
	if !s.filled || s.f.shortOfSpace() {
		want = ioDirect
	}
	s.f.startIO(h, want, out)
	return h, 0
}

// join is expect for a relative who has found the session by itself: one that
// is ending is not joined any more.
func (s *session) join() bool {
	s.mu.Lock()
	defer s.mu.Unlock()
	return !s.ended && s.expect()
}

func (s *session) isDetached() bool {
	s.mu.Lock()
	defer s.mu.Unlock()
	return s.detached
}

// expect counts one more caller on its way to the shadow; false if the session
// is over.
func (s *session) expect() bool {
	s.f.mu.Lock()
	defer s.f.mu.Unlock()
	if s.over {
		return false
	}
	s.walkers++
	return true
}

func (s *session) dkey() dkey {
	s.f.mu.Lock()
	defer s.f.mu.Unlock()
	return dkey{s.parent.id, s.name}
}

func (s *session) isFilled() bool {
	s.mu.Lock()
	defer s.mu.Unlock()
	return s.filled
}
