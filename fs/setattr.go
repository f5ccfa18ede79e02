package fs

import (
	"time"

	"golang.org/x/sys/unix"

	"latchfs/fs/suid"
	"latchfs/lockmgr/policy"
)

// SetAttr changes attributes; see SetAttrRequest. The kernel holds the inode's lock.
func (ats *attrs) SetAttr(_ <-chan struct{}, in *SetAttrRequest, out *AttrReply) unix.Errno {
	if isVirtual(in.Node) {
		return unix.EPERM
	}
	if ats.disk.opts.ReadOnly {
		return unix.EROFS
	}
	k := ats.kernel.nodeOf(in.Node)
	if k == nil {
		return unix.ESTALE
	}
	n := ats.kernel.meant(k)
	if e := ats.setattr(in, k, n); e != 0 {
		return e
	}
	if in.Set&(SetMode|SetUID|SetGID) != 0 {
		ats.kernel.rootChanged(in.Node)
	}
	n, own := ats.besideOf(&in.Request, k, ats.kernel.meant(k)) // a session may have taken k over
	var st unix.Stat_t
	if e := ats.names.stat(n, &st); e != 0 {
		return e
	}
	if !own && !ats.showFollowed(n, &st) {
		out.TTL = ats.attrTimeout(n)
	}
	ats.fillAttr(&out.Attr, k, &st)
	return 0
}

func (ats *attrs) setattr(in *SetAttrRequest, k *kernelNode, n *inode) unix.Errno {
	size, resize := in.size()
	special := in.Set&SetMode != 0 && in.Mode&(unix.S_ISUID|unix.S_ISGID) != 0
	if resize || special || in.Set&(SetMtime|SetMtimeNow) != 0 { // the line would change the time again, or drop the bits
		ats.appending.finishLinesOf(&in.Request, n)
	}
	if in.Set&SetMode != 0 && in.Mode&ownerMayOpen != ownerMayOpen {
		ats.handles.openBeforeChmod(n)
	}
	if in.Set == 0 {
		if e := ats.handles.mayDropBits(in, n); e != 0 {
			return e
		}
	}
	if in.Set&SetHandle != 0 {
		if h := ats.handles.handleOf(in.Handle); h != nil && h.writes() {
			return ats.setattrHandle(in, h, size, resize)
		}
	}
	c := ats.callers.callerOf(&in.Request)
	if resize {
		return ats.setattrInode(c, in, k, n)
	}
	return ats.appending.alsoFollowed(c, n, func(n *inode) unix.Errno { return ats.setattrInode(c, in, k, n) })
}

// setattrInode changes the attributes of n, which no handle names.
func (ats *attrs) setattrInode(c *caller, in *SetAttrRequest, k *kernelNode, n *inode) unix.Errno {
	size, resize := in.size()
	ats.nodes.mu.Lock()
	s, parent := n.sess, n.parent
	ats.nodes.mu.Unlock()
	if e := ats.recorder.settleTouched(in, n); e != 0 {
		return e
	}
	switch {
	case s != nil && (ats.parking.isLed(c, s) || c.BelongsTo(s.who.Load()) || mayBeWriter(c, s)):
		if e := ats.setattrShadow(c, in, s, size, resize); e != errEnded {
			return e
		}
		// Another thread has just closed it: this is about the committed file.
		if ats.nodes.unnamed(n) {
			return ats.setattrPlain(in, n, size, resize)
		}
	case !n.isRegular() || parent == nil || !resize && s == nil && ats.nodes.unnamed(n):
		if ats.astray.isLateAt(c, n) {
			return ats.astray.staleAt(c, n)
		}
		if !ats.astray.meansName(c, n) || ats.callers.txnOf(c) != nil {
			return ats.setattrPlain(in, n, size, resize)
		}
	}
	return ats.setattrFile(c, in, k, n)
}

// setattrFile changes the attributes of the committed file n, as the rules for its name say.
func (ats *attrs) setattrFile(c *caller, in *SetAttrRequest, k *kernelNode, n *inode) unix.Errno {
	size, resize := in.size()
	parent, name := ats.nodes.nameOf(n)
	p := place{parent, name, n}
	set := ats.rules.settings(ats.nodes.path(parent, name))
	switch {
	case set.Mode == policy.ReadOnly:
		return ats.reports.refuseReadOnly(&in.Request, opSetattr, ats.nodes.path(parent, name), &set)
	case set.Mode == policy.Live, ats.rules.isAutoLive(n):
		return ats.setattrLive(c, in, n, size, resize)
	case resize && ats.contents.isWrittenUnread(p):
		ats.contents.changesUnread(n)
		return ats.setattrPlain(in, n, size, resize)
	}
	if t := ats.callers.txnOf(c); t != nil {
		return t.attributes(c, opSetattr, p, func() unix.Errno {
			if !resize {
				return 0
			}
			return ats.losses.mayCutName(c, p)
		})
	}
	if resize {
		return ats.truncatePath(in, k, p, set)
	}
	return ats.setattrNamed(c, in, p, set.Wait)
}

// setattrNamed changes the attributes of the committed file that has a name, and of the
// shadow that the caller's family has on it.
func (ats *attrs) setattrNamed(c *caller, in *SetAttrRequest, p place, wait time.Duration) unix.Errno {
	e := ats.changeNamed(c, opSetattr, p.inode, p, wait, func(fd int) error { return ats.applyAttr(in, fd) })
	if s := ats.sessions.ownSessionOn(c, p.inode, p.dir, p.name); e == 0 && s != nil {
		ats.noteBits(s, in)
	}
	return e
}

// changeNamed changes the metadata of the committed file that n's name leads
// to, under its lock.
func (ats *attrs) changeNamed(c *caller, op string, n *inode, p place, wait time.Duration, change func(fd int) error) unix.Errno {
	at := [2]dkey{p.key()}
	repeated := ats.astray.walks.Has(c, op, at)
	d := ats.locks.fileDemand(c, op, wait, p)
	l, e := ats.parking.admit(c, op, d, at, []*inode{p.dir}, nil)
	if e != 0 {
		return e
	}
	if !repeated && c.TID() != 0 && !ats.names.isPublished(n) && !ats.nodes.unnamed(n) && ats.parking.repeats(c, op) {
		// The name leads to another inode by now: a second walk finds it, and
		// the lock is kept for that.
		ats.astray.walks.Put(c, &walk{promise: promise{Op: op, At: at, Unparked: true}, d: d, lock: l})
		return unix.ESTALE
	}
	defer ats.rules.table.Release(l)
	var before, after unix.Stat_t
	fd := ats.nodes.fdOf(n)
	if now := ats.astray.successorOf(c, n); now >= 0 {
		defer unix.Close(now)
		fd = now
	}
	if fd < 0 {
		return unix.ESTALE
	}
	known := unix.Fstat(fd, &before) == nil
	if e := ats.alsoShadow(c, p, func() unix.Errno { return errnoOf(change(fd)) }, change); e != 0 {
		return e
	}
	if known && unix.Fstat(fd, &after) == nil {
		ats.recorder.restamped(d.path, &before, &after)
		ats.kernel.changedSuccessor(n, &after)
	}
	ats.nodes.unseal(n.key)
	return 0
}

// alsoShadow makes a change of the metadata of the committed file, and repeats it on
// the shadow of the session that the caller's family has on the file, so that the
// commit keeps it. The session does not commit in between: it would take the change
// for one outside the mount. A session that begins meanwhile gets the change, too.
func (ats *attrs) alsoShadow(c *caller, p place, committed func() unix.Errno, change func(fd int) error) unix.Errno {
	s := ats.nodes.sessionOn(p.inode, p.dir, p.name)
	made := s == nil
	if made {
		if e := committed(); e != 0 {
			return e
		}
		s = ats.nodes.sessionOn(p.inode, p.dir, p.name)
	}
	if s != nil && !c.BelongsTo(s.who.Load()) {
		s = nil
	}
	if s != nil {
		s.mu.Lock()
		defer s.mu.Unlock()
	}
	if !made {
		if e := committed(); e != 0 {
			return e
		}
	}
	if s == nil || s.state.HasEnded() {
		return 0
	}
	s.content.BeforeMeta()
	e := errnoOf(change(ats.nodes.fdOf(s.inode)))
	ats.moves.rebaseLocked(s, p.dir, p.name) // our own change is no bypass
	if e != 0 {
		return e
	}
	return errnoOf(s.content.AfterMeta())
}

// setattrHandle is ftruncate, and what else comes with a descriptor.
func (ats *attrs) setattrHandle(in *SetAttrRequest, h *handle, size uint64, resize bool) unix.Errno {
	if resize {
		if h.app != nil {
			return h.app.truncate(in, int64(size))
		}
		if s := h.sess; s != nil && h.kind == shadowHandle {
			if e := ats.sessions.mayCutThrough(s, h, int64(size)); e != 0 {
				return e
			}
		}
		e := ats.contents.cut(h, &in.Request, int64(size), func(fd int) error {
			if err := unix.Ftruncate(fd, int64(size)); err != nil {
				return err
			}
			if in.Set&SetKillSuid != 0 {
				return ats.handles.killSuidBy(h, fd, ats.callers.membership(&in.Request))
			}
			return nil
		})
		if e != 0 {
			return e
		}
	}
	if s := h.sess; s != nil && h.kind == shadowHandle {
		return ats.setMeta(s, in, true)
	}
	return errnoOf(ats.applyAttr(in, ats.nodes.fdOf(h.n)))
}

// setattrShadow changes the attributes of a shadow: the owner's own, for
// nobody else is led to it.
func (ats *attrs) setattrShadow(c *caller, in *SetAttrRequest, s *session, size uint64, resize bool) unix.Errno {
	w := ats.astray.walks.Get(c)
	led := w != nil && w.sess == s && w.Op == opTruncate && ats.astray.walks.Remove(w)
	var e unix.Errno
	if resize {
		e = ats.judging.mayCut(s, int64(size))
	}
	if resize && e == 0 {
		e = ats.sessions.truncate(s, int64(size), in.Set&SetKillSuid != 0)
	}
	if e == 0 {
		e = ats.setMeta(s, in, led)
	}
	if e == unix.ESTALE && !led {
		e = errEnded
	}
	if led {
		ats.nodes.mu.Lock()
		s.walkers--
		ats.nodes.mu.Unlock()
		if end := ats.endings.endIfIdle(s, nil); e == 0 {
			e = end
		}
	}
	return e
}

// setMeta changes the shadow's metadata and remembers the change for the case
// that nothing else is changed: then it is made to the committed file instead.
func (ats *attrs) setMeta(s *session, in *SetAttrRequest, late bool) unix.Errno {
	if in.Set&(SetMode|SetUID|SetGID|SetAtime|SetMtime|SetAtimeNow|SetMtimeNow) == 0 {
		return 0
	}
	kept := *in
	e := ats.changeMeta(s, func(fd int) error { return ats.applyAttr(&kept, fd) }, late)
	if e == 0 {
		ats.noteBits(s, in)
	}
	return e
}

// changeMeta changes the metadata of the shadow. Once the session has ended, the
// shadow is the committed file, or nothing: it is changed only by those who hold a
// descriptor of it, late; the others get errEnded.
func (ats *attrs) changeMeta(s *session, change func(fd int) error, late bool) unix.Errno {
	s.mu.Lock()
	defer s.mu.Unlock()
	if s.state.HasEnded() && !late {
		return errEnded
	}
	if !s.state.HasEnded() {
		s.content.BeforeMeta()
	}
	if err := change(ats.nodes.fdOf(s.inode)); err != nil {
		return errnoOf(err)
	}
	if s.state.HasEnded() {
		return 0
	}
	s.content.NoteMeta(change)
	s.shown.ShowOwnTimes()
	return errnoOf(s.content.AfterMeta())
}

// setattrPlain changes the inode itself.
func (ats *attrs) setattrPlain(in *SetAttrRequest, n *inode, size uint64, resize bool) unix.Errno {
	fd := ats.nodes.fdOf(n)
	if fd < 0 {
		return unix.ESTALE
	}
	if resize {
		if err := ats.recorder.unshare(n); err != nil {
			return errnoOf(err)
		}
		if e := ats.recorder.settleLazy(n); e != 0 {
			return e
		}
		w, err := ats.handles.reopen(fd, unix.O_WRONLY)
		if err != nil {
			return errnoOf(err)
		}
		err = unix.Ftruncate(w, int64(size))
		if err == nil && in.Set&SetKillSuid != 0 {
			err = ats.handles.killSuidOf(n, w, ats.callers.membership(&in.Request))
		}
		unix.Close(w)
		if err != nil {
			return errnoOf(err)
		}
	}
	return errnoOf(ats.applyAttr(in, fd))
}

// applyAttr sets mode, owner and times of the inode behind an O_PATH or ordinary descriptor.
// A filesystem may need room even for that: a mode is in the access control list, too.
func (ats *attrs) applyAttr(in *SetAttrRequest, fd int) error {
	return ats.disk.retrySmall(func() error { return applyAttrOnce(ats.callers, in, fd) })
}

func applyAttrOnce(cl *callers, in *SetAttrRequest, fd int) error {
	proc := procSelf(fd)
	if in.Set == 0 {
		_, err := suid.Kill(fd, cl.membership(&in.Request)) // see mayDropBits
		return err
	}
	if in.Set&(SetUID|SetGID) != 0 {
		u, g := -1, -1
		if in.Set&SetUID != 0 {
			u = int(in.Owner)
		}
		if in.Set&SetGID != 0 {
			g = int(in.Group)
		}
		if err := unix.Fchownat(fd, "", u, g, unix.AT_EMPTY_PATH|unix.AT_SYMLINK_NOFOLLOW); err != nil {
			return err
		}
	}
	if in.Set&SetMode != 0 {
		if err := unix.Chmod(proc, in.Mode); err != nil {
			return err
		}
	}
	return applyTimes(in, fd)
}

func applyTimes(in *SetAttrRequest, fd int) error {
	const any = SetAtime | SetMtime | SetAtimeNow | SetMtimeNow
	if in.Set&any == 0 {
		return nil
	}
	ts := [2]unix.Timespec{{Nsec: unix.UTIME_OMIT}, {Nsec: unix.UTIME_OMIT}}
	if in.Set&SetAtimeNow != 0 {
		ts[0].Nsec = unix.UTIME_NOW
	} else if in.Set&SetAtime != 0 {
		ts[0] = in.Atime
	}
	if in.Set&SetMtimeNow != 0 {
		ts[1].Nsec = unix.UTIME_NOW
	} else if in.Set&SetMtime != 0 {
		ts[1] = in.Mtime
	}
	return unix.UtimesNanoAt(fd, "", ts[:], unix.AT_EMPTY_PATH|unix.AT_SYMLINK_NOFOLLOW)
}
