package fs

import (
	"time"

	"golang.org/x/sys/unix"

	"latchfs/fs/suid"
	"latchfs/lockmgr/policy"
)

// SetAttr changes attributes; see SetAttrRequest. The kernel holds the inode's lock.
func (f *FS) SetAttr(_ <-chan struct{}, in *SetAttrRequest, out *AttrReply) unix.Errno {
	if isVirtual(in.Node) {
		return unix.EPERM
	}
	if f.opts.ReadOnly {
		return unix.EROFS
	}
	k := f.nodeOf(in.Node)
	if k == nil {
		return unix.ESTALE
	}
	n := f.meant(k)
	if e := f.setattr(in, k, n); e != 0 {
		return e
	}
	if in.Set&(SetMode|SetUID|SetGID) != 0 {
		f.rootChanged(in.Node)
	}
	n, own := f.besideOf(&in.Request, k, f.meant(k)) // a session may have taken k over
	var st unix.Stat_t
	if e := f.stat(n, &st); e != 0 {
		return e
	}
	if !own && !f.showFollowed(n, &st) {
		out.TTL = f.attrTimeout(n)
	}
	f.fillAttr(&out.Attr, k, &st)
	return 0
}

func (f *FS) setattr(in *SetAttrRequest, k *kernelNode, n *inode) unix.Errno {
	size, resize := in.size()
	if resize || in.Set&(SetMtime|SetMtimeNow) != 0 { // the line would change the time again
		f.finishLinesOf(&in.Request, n)
	}
	if in.Set == 0 {
		if e := f.mayDropBits(in, n); e != 0 {
			return e
		}
	}
	if in.Set&SetHandle != 0 {
		if h := f.handleOf(in.Handle); h != nil && h.writes() {
			return f.setattrHandle(in, h, size, resize)
		}
	}
	c := f.callerOf(&in.Request)
	if resize {
		return f.setattrInode(c, in, k, n)
	}
	return f.alsoFollowed(c, n, func(n *inode) unix.Errno { return f.setattrInode(c, in, k, n) })
}

// setattrInode changes the attributes of n, which no handle names.
func (f *FS) setattrInode(c *caller, in *SetAttrRequest, k *kernelNode, n *inode) unix.Errno {
	size, resize := in.size()
	f.mu.Lock()
	s, parent := n.sess, n.parent
	f.mu.Unlock()
	if e := f.settleTouched(in, n); e != 0 {
		return e
	}
	switch {
	case s != nil && (f.isLed(c, s) || c.kinOf(s.who.Load()) || c.mayBeWriter(s)):
		if e := f.setattrShadow(c, in, s, size, resize); e != errEnded {
			return e
		}
		// Another thread has just closed it: this is about the committed file.
		if f.unnamed(n) {
			return f.setattrPlain(in, n, size, resize)
		}
	case !n.isRegular() || parent == nil || !resize && s == nil && f.unnamed(n):
		return f.setattrPlain(in, n, size, resize)
	}
	return f.setattrFile(c, in, k, n)
}

// setattrFile changes the attributes of the committed file n, as the rules for its name say.
func (f *FS) setattrFile(c *caller, in *SetAttrRequest, k *kernelNode, n *inode) unix.Errno {
	size, resize := in.size()
	parent, name := f.nameOf(n)
	p := place{parent, name, n}
	set := f.settings(f.path(parent, name))
	switch {
	case set.Mode == policy.ReadOnly:
		return f.refuseReadOnly(&in.Request, opSetattr, f.path(parent, name), &set)
	case set.Mode == policy.Live, f.isAutoLive(n):
		return f.setattrPlain(in, n, size, resize)
	case resize && f.isWrittenUnread(p):
		f.changesUnread(n)
		return f.setattrPlain(in, n, size, resize)
	}
	if t := f.txnOf(c); t != nil {
		return t.attributes(c, opSetattr, p, func() unix.Errno {
			if !resize {
				return 0
			}
			return f.mayCutName(c, p)
		})
	}
	if resize {
		return f.truncatePath(in, k, p, set)
	}
	return f.setattrNamed(c, in, p, set.Wait)
}

// setattrNamed changes the attributes of the committed file that has a name, and of the
// shadow that the caller's family has on it.
func (f *FS) setattrNamed(c *caller, in *SetAttrRequest, p place, wait time.Duration) unix.Errno {
	e := f.changeNamed(c, opSetattr, p.inode, p, wait, func(fd int) error { return f.applyAttr(in, fd) })
	if s := f.ownSessionOn(c, p.inode, p.dir, p.name); e == 0 && s != nil {
		s.noteBits(in)
	}
	return e
}

// changeNamed changes the metadata of the committed file that n's name leads
// to, under its lock.
func (f *FS) changeNamed(c *caller, op string, n *inode, p place, wait time.Duration, change func(fd int) error) unix.Errno {
	at := [2]dkey{p.key()}
	repeated := f.walks.Has(c, op, at)
	d := f.fileDemand(c, op, wait, p)
	l, e := f.admit(c, op, d, at, []*inode{p.dir}, nil)
	if e != 0 {
		return e
	}
	if !repeated && c.tid != 0 && !f.isPublished(n) && !f.unnamed(n) && f.repeats(c, op) {
		// The name leads to another inode by now: a second walk finds it, and
		// the lock is kept for that.
		f.walks.Put(c, &walk{promise: promise{Op: op, At: at, Unparked: true}, d: d, lock: l})
		return unix.ESTALE
	}
	defer f.table.Release(l)
	var before, after unix.Stat_t
	fd := f.fdOf(n)
	if fd < 0 {
		return unix.ESTALE
	}
	known := unix.Fstat(fd, &before) == nil
	if e := f.alsoShadow(c, p, func() unix.Errno { return errnoOf(change(fd)) }, change); e != 0 {
		return e
	}
	if known && unix.Fstat(fd, &after) == nil {
		f.restamped(d.path, &before, &after)
	}
	f.unseal(n.key)
	return 0
}

// alsoShadow makes a change of the metadata of the committed file, and repeats it on
// the shadow of the session that the caller's family has on the file, so that the
// commit keeps it. The session does not commit in between: it would take the change
// for one around the mount. A session that begins meanwhile gets the change, too.
func (f *FS) alsoShadow(c *caller, p place, committed func() unix.Errno, change func(fd int) error) unix.Errno {
	s := f.sessionOn(p.inode, p.dir, p.name)
	made := s == nil
	if made {
		if e := committed(); e != 0 {
			return e
		}
		s = f.sessionOn(p.inode, p.dir, p.name)
	}
	if s != nil && !c.kinOf(s.who.Load()) {
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
	e := errnoOf(change(f.fdOf(s.inode)))
	s.rebaseLocked(p.dir, p.name) // our own change is no bypass
	return e
}

// setattrHandle is ftruncate, and what else comes with a descriptor.
func (f *FS) setattrHandle(in *SetAttrRequest, h *handle, size uint64, resize bool) unix.Errno {
	if resize {
		if h.app != nil {
			return h.app.truncate(in, int64(size))
		}
		if s := h.sess; s != nil && h.kind == shadowHandle {
			if e := s.mayCutThrough(h, int64(size)); e != 0 {
				return e
			}
		}
		e := f.cut(h, int64(size), func(fd int) error {
			if err := unix.Ftruncate(fd, int64(size)); err != nil {
				return err
			}
			if in.Set&SetKillSuid != 0 {
				return f.killSuidBy(h, fd, f.sender(&in.Request))
			}
			return nil
		})
		if e != 0 {
			return e
		}
	}
	if s := h.sess; s != nil && h.kind == shadowHandle {
		return s.setMeta(in, true)
	}
	return errnoOf(f.applyAttr(in, f.fdOf(h.n)))
}

// setattrShadow changes the attributes of a shadow: the owner's own, for
// nobody else is led to it.
func (f *FS) setattrShadow(c *caller, in *SetAttrRequest, s *session, size uint64, resize bool) unix.Errno {
	w := f.walks.Get(c)
	led := w != nil && w.sess == s && w.Op == opTruncate && f.walks.Remove(w)
	var e unix.Errno
	if resize {
		e = s.mayCut(int64(size))
	}
	if resize && e == 0 {
		e = s.truncate(int64(size), in.Set&SetKillSuid != 0)
	}
	if e == 0 {
		e = s.setMeta(in, led)
	}
	if e == unix.ESTALE && !led {
		e = errEnded
	}
	if led {
		s.f.mu.Lock()
		s.walkers--
		s.f.mu.Unlock()
		if end := s.endIfIdle(nil); e == 0 {
			e = end
		}
	}
	return e
}

func (s *session) truncate(size int64, killsuid bool) unix.Errno {
	s.mu.Lock()
	defer s.mu.Unlock()
	if s.state.HasEnded() {
		return unix.ESTALE
	}
	if size > 0 {
		if e := s.fillToLocked(size); e != 0 {
			return e
		}
	}
	if err := unix.Ftruncate(s.shadow.FD(), size); err != nil {
		if losesData(errnoOf(err)) {
			s.content.Fail(errnoOf(err))
		}
		return errnoOf(err)
	}
	s.content.Replace()
	if killsuid {
		return errnoOf(s.dropBitsLocked())
	}
	return 0
}

// setMeta changes the shadow's metadata and remembers the change for the case
// that nothing else is changed: then it is made to the committed file instead.
func (s *session) setMeta(in *SetAttrRequest, late bool) unix.Errno {
	if in.Set&(SetMode|SetUID|SetGID|SetAtime|SetMtime|SetAtimeNow|SetMtimeNow) == 0 {
		return 0
	}
	kept := *in
	e := s.changeMeta(func(fd int) error { return s.f.applyAttr(&kept, fd) }, late)
	if e == 0 {
		s.noteBits(in)
	}
	return e
}

// changeMeta changes the metadata of the shadow. Once the session has ended, the
// shadow is the committed file, or nothing: it is changed only by those who hold a
// descriptor of it, late; the others get errEnded.
func (s *session) changeMeta(change func(fd int) error, late bool) unix.Errno {
	s.mu.Lock()
	defer s.mu.Unlock()
	if s.state.HasEnded() && !late {
		return errEnded
	}
	if !s.state.HasEnded() {
		s.content.BeforeMeta()
	}
	if err := change(s.f.fdOf(s.inode)); err != nil {
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
func (f *FS) setattrPlain(in *SetAttrRequest, n *inode, size uint64, resize bool) unix.Errno {
	fd := f.fdOf(n)
	if fd < 0 {
		return unix.ESTALE
	}
	if resize {
		if err := f.unshare(n); err != nil {
			return errnoOf(err)
		}
		if e := f.settleLazy(n); e != 0 {
			return e
		}
		w, err := f.reopen(fd, unix.O_WRONLY)
		if err != nil {
			return errnoOf(err)
		}
		err = unix.Ftruncate(w, int64(size))
		if err == nil && in.Set&SetKillSuid != 0 {
			err = f.killSuidOf(n, w, f.sender(&in.Request))
		}
		unix.Close(w)
		if err != nil {
			return errnoOf(err)
		}
	}
	return errnoOf(f.applyAttr(in, fd))
}

// applyAttr sets mode, owner and times of the inode behind an O_PATH or
// ordinary descriptor.
func (f *FS) applyAttr(in *SetAttrRequest, fd int) error {
	proc := procSelf(fd)
	if in.Set == 0 {
		_, err := suid.Kill(fd, f.sender(&in.Request)) // see mayDropBits
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
