package fs

import (
	"time"

	"golang.org/x/sys/unix"

	"latchfs/fs/changes"
	"latchfs/fs/iomode"
	"latchfs/fs/lostupdate"
	"latchfs/fs/rewalk"
	"latchfs/lockmgr/policy"
)

// opens looks names up, and opens and creates files.
type opens struct {
	glances chan struct{} // slots for closer looks at files changed outside the mount

	*ground
	*engine
	appending *appending
	attrs     *attrs
	contents  *contents
}

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
	opFsync    = "fsync"
	opAppend   = lostupdate.Appended
	opWait     = rewalk.Wait  // an interrupted open
	opPutBack  = "put_back"   // of a file whose removal began a change that is refused
	opStale    = rewalk.Stale // any that was merely told to walk again
)

// fmodeExec is __FMODE_EXEC of include/linux/fs.h: the open is an execve(2)'s.
const fmodeExec = 0x20

// Open opens a file: open(2), execve(2). The kernel holds no directory or inode
// lock here, so this is where a writer waits for another.
func (op *opens) Open(cancel <-chan struct{}, in *OpenRequest, out *Opened) unix.Errno {
	if isVirtual(in.Node) {
		return op.view.virt.open(in, out)
	}
	k := op.kernel.nodeOf(in.Node)
	if k == nil {
		return unix.ESTALE
	}
	n := op.kernel.behind(k)
	if e := op.reports.mayOpenMore(&in.Request, opOpen, func() string { return op.nodes.nodePath(n) }); e != 0 {
		return e
	}
	if finished := op.recovery.finishHalfDone(); finished || op.recovery.finishedLately() {
		if finished {
			op.kernel.forgetAttrs(n) // its size may be another one now
		}
		if c := op.callers.callerOf(&in.Request); op.nodes.isReplaced(n) && c.TID() != 0 && !op.astray.walks.Repeated(c) {
			return op.astray.staleAt(c, n)
		}
	}
	if e := op.recovery.isDue(in, n); e != 0 {
		return e
	}
	writes := in.Flags&unix.O_ACCMODE != unix.O_RDONLY || in.Flags&unix.O_TRUNC != 0
	if writes && op.attrs.isReadOnly(n) {
		return unix.EROFS // a shell would not hear of it at the close
	}
	if op.astray.isRenamed(n) {
		if e := op.astray.comesAstray(op.callers.callerOf(&in.Request), n, writes); e != 0 {
			return e
		}
	}
	if !writes {
		if in.Flags&fmodeExec != 0 && op.attrs.forbids(n, unix.ST_NOEXEC) {
			return unix.EACCES
		}
		op.handles.showLines(&in.Request, n) // with passthrough nobody asks for its size before it is read
		if e := op.claimRead(cancel, in, n); e != 0 {
			return e
		}
		return op.openRead(cancel, in, k, out)
	}
	if op.disk.opts.ReadOnly {
		return unix.EROFS
	}
	return op.openWrite(cancel, in, k, out)
}

// openRead pins the version that the node stands for.
func (op *opens) openRead(cancel <-chan struct{}, in *OpenRequest, k *kernelNode, out *Opened) unix.Errno {
	op.nodes.mu.Lock()
	n := k.in
	s, fd := n.sess, n.fd
	posix, saved, standsForAnother := n.advisory.HasBytesLocked(), n.saved, n.standsFor != 0
	op.nodes.mu.Unlock()
	if fd < 0 {
		return unix.ENOENT
	}
	seen := s
	if s == nil {
		if e := op.names.leadsOn(in, n, saved); e != 0 {
			return e
		}
	}
	if s != nil {
		c := op.callers.callerOf(&in.Request)
		switch {
		case c.BelongsTo(s.who.Load()):
		case op.names.isPublished(n):
			s = nil // the commit is not over, but this is the file already
		default:
			// A path that led to somebody else's shadow leads elsewhere when
			// it is walked again. A descriptor (/proc/self/fd) does not.
			ticks := releaseTicks
			switch {
			case op.endings.awaitRelease(s, &ticks):
				return op.openLeft(cancel, in, k, out)
			case op.astray.walks.Repeated(c):
				return op.openBase(in, k, s, out)
			case c.TID() == 0 && op.astray.strayed.PerhapsRepeated(op.nodes.nameKey(n), s.id):
				return op.openAfter(cancel, in, k, s, out)
			}
			return op.astray.staleAt(c, n)
		}
	}
	h := op.handles.newReader(k, n, seen, in.Flags, ids{in.UID, in.GID})
	if h == nil {
		return op.openRead(cancel, in, k, out) // a session has just begun, or ended
	}
	if op.astray.walks.Any() {
		op.astray.walks.Repeated(op.callers.callerOf(&in.Request))
	}
	if op.astray.strayed.Any() && op.callers.callerOf(&in.Request).TID() == 0 {
		op.astray.strayed.Arrived(op.nodes.nameKey(n))
	}
	h.sess = s
	switch {
	case in.Flags&fmodeExec != 0: // who runs a program does not read it
	case s == nil:
		h.sight.Store(op.losses.noteRead(&in.Request, n))
	default:
		op.losses.noteOwnRead(s, op.callers.callerOf(&in.Request))
	}
	want := iomode.Passthrough
	if s != nil && !s.isFilled() || standsForAnother {
		want = iomode.Watched
	}
	op.handles.startIO(h, want, out)
	out.Handle = h.id
	if !posix && !op.rules.isLive(n) {
		// Saves a request at each close. The close of a descriptor ends its
		// process's POSIX locks, so where there may be some, closes are told.
		out.NoFlush = true
		h.noFlush = true
	}
	return 0
}

// strayedWait is how long a caller waits for a session if the kernel may not let it
// walk again.
const strayedWait = 2 * time.Second

// openAfter opens what the session makes of the node, if that is soon. The base could
// be given at once, but not its size: the kernel asks for the node's.
func (op *opens) openAfter(cancel <-chan struct{}, in *OpenRequest, k *kernelNode, s *session, out *Opened) unix.Errno {
	t := time.NewTimer(strayedWait)
	defer t.Stop()
	select {
	case <-s.left:
	case <-t.C:
		return unix.ESTALE
	case <-cancel:
		return unix.EINTR
	}
	return op.openLeft(cancel, in, k, out)
}

// openLeft opens what a session that is over has made of the node.
func (op *opens) openLeft(cancel <-chan struct{}, in *OpenRequest, k *kernelNode, out *Opened) unix.Errno {
	op.nodes.mu.Lock()
	unpublished := k.in.orphan
	op.nodes.mu.Unlock()
	if unpublished {
		return unix.ESTALE
	}
	return op.openRead(cancel, in, k, out)
}

// openBase opens the committed file at the node that a session has taken over.
func (op *opens) openBase(in *OpenRequest, k *kernelNode, s *session, out *Opened) unix.Errno {
	op.nodes.mu.Lock()
	base := s.base
	op.nodes.mu.Unlock()
	if base == nil {
		return unix.ESTALE
	}
	fd, err := op.handles.reopen(op.nodes.fdOf(base), unix.O_RDONLY)
	if err != nil {
		return errnoOf(err)
	}
	op.nodes.mu.Lock()
	h := op.handles.newHandleLocked(k, plainHandle, in.Flags, ids{in.UID, in.GID})
	op.nodes.mu.Unlock()
	h.fd = fd
	op.handles.startIO(h, iomode.Direct, out) // the node's pages and backing file are the shadow's
	out.Handle = h.id
	return 0
}

func (op *opens) openWrite(cancel <-chan struct{}, in *OpenRequest, k *kernelNode, out *Opened) unix.Errno {
	return (&opening{opens: op, c: op.callers.openerOf(&in.Request), in: in, out: out, k: k, cancel: cancel}).start()
}

// start carries the opening out, on what the node stands for now.
func (o *opening) start() unix.Errno {
	c, in, k, out, cancel := o.c, o.in, o.k, o.out, o.cancel
	o.nodes.mu.Lock()
	n := k.in
	s := n.sess
	parent, name := n.namedLocked()
	o.nodes.mu.Unlock()
	if in.Flags&(unix.O_APPEND|unix.O_TRUNC) != unix.O_APPEND {
		o.appending.finishLinesOf(&in.Request, n)
	}
	o.n = n
	switch {
	case s != nil && (o.parking.isLed(c, s) || c.BelongsTo(s.who.Load())):
		o.set = s.settings
		return o.shadow(s)
	case parent == nil:
		return o.opens.openPlain(in, k, n, false, out)
	}
	if e := o.txns.awaitsTxn(c, opOpen, []place{{parent, name, n}}); e != 0 {
		return e
	}
	path := o.nodes.path(parent, name)
	set := o.rules.settings(path)
	switch {
	case set.Mode == policy.ReadOnly:
		return o.reports.refuseReadOnly(&in.Request, opOpen, path, &set)
	case set.Mode == policy.Live || o.rules.isAutoLive(n):
		if o.nodes.isReplaced(n) && !o.astray.walks.Repeated(c) {
			return o.astray.staleAt(c, n) // it went live while the caller was on its way
		}
		if o.nodes.sessionAt(parent, name) != nil && !o.rules.isAutoLive(n) {
			// The file that somebody is writing was moved to where files are live:
			// its close will put another inode there.
			o.set = set
			return o.begin()
		}
		if e := o.locks.passGuard(c, place{parent, name, n}, set.Wait, cancel); e != 0 {
			return e
		}
		return o.opens.openPlain(in, k, n, true, out)
	case o.contents.isWrittenUnread(place{parent, name, n}):
		if e := o.locks.passGuard(c, place{parent, name, n}, set.Wait, cancel); e != 0 {
			return e
		}
		return o.opens.openUnread(in, k, n, out)
	case appendsRecords(in.Flags, set) && o.callers.txnOf(c) == nil && o.judging.judge.ByLines(o.names.otherPaths(n)):
		return o.appending.openAppend(cancel, c, in, k, n, set, out)
	}
	o.set = set
	return o.begin()
}

// openPlain opens the file itself for writing.
func (op *opens) openPlain(in *OpenRequest, k *kernelNode, n *inode, live bool, out *Opened) unix.Errno {
	if err := op.recorder.unshare(n); err != nil {
		return errnoOf(err)
	}
	if e := op.recorder.settleLazy(n); e != 0 {
		return e
	}
	h := op.handles.newHandle(k, n, plainHandle, in.Flags, ids{in.UID, in.GID})
	if h == nil {
		return unix.ESTALE
	}
	if live {
		op.live.setLive(h)
		if h.writes() {
			h.work = op.live.beginWork(func() *caller { return op.callers.openerOf(&in.Request) }, opOpen, n)
		}
	}
	if in.Flags&unix.O_TRUNC != 0 {
		fd, e := op.handles.file(h)
		if e == 0 && in.Flags&unix.O_ACCMODE == unix.O_RDONLY {
			e = errnoOf(unix.Truncate(procSelf(fd), 0)) // the kernel has asked whether the caller may write
		} else if e == 0 {
			e = errnoOf(unix.Ftruncate(fd, 0))
		}
		if e == 0 && in.KillSuid {
			e = errnoOf(op.handles.killSuidOf(n, fd, op.callers.membership(&in.Request)))
		}
		if e != 0 {
			op.endings.closeHandle(h)
			return e
		}
	}
	op.handles.startIO(h, iomode.Passthrough, out)
	if out.Passthrough && h.writes() && in.Flags&unix.O_TRUNC == 0 { // else it has just been opened
		if e := op.handles.mayPassWrites(h); e != 0 {
			op.endings.closeHandle(h)
			return e
		}
	}
	out.Handle = h.id
	return 0
}

// openUnread opens a file to write that the daemon may not read.
func (op *opens) openUnread(in *OpenRequest, k *kernelNode, n *inode, out *Opened) unix.Errno {
	op.contents.changesUnread(n)
	return op.openPlain(in, k, n, true, out)
}
