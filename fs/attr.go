package fs

import (
	"errors"
	"slices"
	"time"

	"golang.org/x/sys/unix"

	"latchfs/fs/syscalls"
)

// How long the kernel may believe an answer that does not depend on the
// caller. Every change through the mount reaches the kernel anyway; the second
// bounds how long a change around the mount stays unseen.
const (
	entryTTL = time.Second
	attrTTL  = time.Second
)

// errnoOf is the errno in err, EIO for anything else.
func errnoOf(err error) unix.Errno {
	if err == nil {
		return 0
	}
	var e unix.Errno
	if errors.As(err, &e) {
		return e
	}
	return unix.EIO
}

// fillAttr turns backing attributes, those of what k stands for, into the mount's.
func (f *FS) fillAttr(a *Attr, k *kernelNode, st *unix.Stat_t) {
	n, ctime := f.noteShown(k, st)
	a.Ino = f.inoFor(uint64(st.Dev), st.Ino)
	a.Size = uint64(st.Size)
	a.Blocks = uint64(st.Blocks)
	a.Atime, a.Mtime, a.Ctime = st.Atim, st.Mtim, ctime
	a.Mode, a.Rdev = f.shownMode(n, st)
	a.Nlink = uint32(st.Nlink)
	a.UID, a.GID = st.Uid, st.Gid
	a.Blksize = uint32(st.Blksize)
}

// maxNumbers bounds how many numbers of a node are remembered.
const maxNumbers = 8

// noteShown remembers which inode number of k the kernel is told, and returns what k stands
// for, and the change time that the kernel is told. /proc shows the number that the kernel has: an earlier one while
// it has not asked again, or where it ignored attributes that crossed an invalidation.
func (f *FS) noteShown(k *kernelNode, st *unix.Stat_t) (n *inode, ctime unix.Timespec) {
	f.mu.Lock()
	defer f.mu.Unlock()
	if !k.in.isRegular() {
		return k.in, st.Ctim
	}
	key := inoKey{uint64(st.Dev), st.Ino}
	if i := len(k.numbers); i == 0 || k.numbers[i-1] != key {
		k.numbers = append(slices.DeleteFunc(k.numbers, func(o inoKey) bool { return o == key }), key)
		k.numbers = k.numbers[max(0, len(k.numbers)-maxNumbers):]
	}
	return k.in, f.commitTimes.Shown(key, st.Ctim)
}

// inoFor is the inode number shown for a backing inode.
func (f *FS) inoFor(dev, ino uint64) uint64 {
	if dev == f.dev {
		return ino
	}
	return f.submounts.Number(dev, ino)
}

// forbids reports whether n is on a mount inside the data directory that has the flag (unix.ST_*),
// and the mount of the data directory has it not; see package submounts. It is true of nil, an
// inode that is gone.
func (f *FS) forbids(n *inode, flag int64) bool {
	return n == nil || f.submounts.Forbids(f.fdOf(n), flag)
}

// shownMode is the mode of n's inode, which has the status st, and the device that it
// stands for, as far as the mount that it is on lets them count.
func (f *FS) shownMode(n *inode, st *unix.Stat_t) (mode, rdev uint32) {
	return f.submounts.Mode(st, func() int { return f.fdOf(n) })
}

// stat reads the attributes of n, as the owner of the session sees them if it is a
// shadow.
func (f *FS) stat(n *inode, st *unix.Stat_t) unix.Errno {
	f.mu.Lock()
	fd, s, shown, kept := n.fd, n.sess, n.shownAs, n.kept
	f.mu.Unlock()
	if fd < 0 {
		return unix.ESTALE
	}
	if err := unix.Fstat(fd, st); err != nil {
		return errnoOf(err)
	}
	if kept && st.Nlink > 0 {
		st.Nlink-- // the history's is nobody's name
	}
	if s != nil {
		s.shown.Adjust(st)
	} else if shown.ino != 0 {
		st.Dev, st.Ino = shown.dev, shown.ino
	}
	return 0
}

// fillEntry answers a lookup with k. A name that depends on who asks is not to be
// cached. Attributes are: a shadow has a node of its own.
func (f *FS) fillEntry(out *Entry, k *kernelNode, st *unix.Stat_t, volatile bool) {
	out.Node = k.id
	f.mu.Lock()
	n := k.in
	shown := n.shownAs
	if !volatile {
		k.shown = time.Now()
	}
	f.mu.Unlock()
	if shown.ino != 0 {
		st.Dev, st.Ino = shown.dev, shown.ino
	}
	f.fillAttr(&out.Attr, k, st)
	out.AttrTTL = f.attrTimeout(n)
	if volatile {
		out.NameTTL = 0
	} else {
		out.NameTTL = entryTTL
	}
}

// attrTimeout is how long the kernel may keep n's attributes: not at all
// those of a directory in whose GETATTR somebody is about to park, nor those of a file whose
// appenders have more of it when they ask themselves.
func (f *FS) attrTimeout(n *inode) time.Duration {
	f.mu.Lock()
	defer f.mu.Unlock()
	if n.awaited > 0 || n.fd < 0 || len(f.linedLocked(n)) > 0 {
		return 0
	}
	return attrTTL
}

// GetAttr answers with the attributes of a node: stat(2), fstat(2). It is also where callers that must
// wait for a lock are parked: see park.go.
func (f *FS) GetAttr(cancel <-chan struct{}, in *AttrRequest, out *AttrReply) unix.Errno {
	if isVirtual(in.Node) {
		return f.virt.getattr(in, out)
	}
	k := f.nodeOf(in.Node)
	if k == nil {
		return unix.ESTALE
	}
	n := f.meant(k)
	if n.isDir() && f.walks.Any() {
		if e := f.parkHere(cancel, &in.Request, n); e != 0 {
			return e
		}
	}
	if f.strangerAt(&in.Request, k) && f.sendOn(&in.Request, n) {
		return unix.ESTALE
	}
	f.showLines(&in.Request, n)
	var st unix.Stat_t
	n, own := f.besideOf(&in.Request, k, n)
	if e := f.stat(n, &st); e != 0 {
		return e
	}
	if st.Nlink == 0 && f.leftBehind(n) && f.sendOn(&in.Request, n) {
		return unix.ESTALE
	}
	timeout := f.attrTimeout(n)
	if own || f.showFollowed(n, &st) {
		timeout = 0
	}
	f.fillAttr(&out.Attr, k, &st)
	out.TTL = timeout
	return 0
}

// besideOf is what the caller is shown of n, for which k stands: while his family writes the
// file at this node (see session.attachBeside) that is what it has written. Others are shown
// the file.
func (f *FS) besideOf(h *Request, k *kernelNode, n *inode) (shown *inode, own bool) {
	f.mu.Lock()
	s := k.beside
	writes := s != nil && !s.over
	f.mu.Unlock()
	if !writes || !f.callerOf(h).kinOf(s.who.Load()) {
		return n, false
	}
	return s.inode, true
}

// showFollowed gives a file that was replaced the size, the times and the links of the one in
// which its appenders go on, if nobody else has it open: a logger that turns its file over by
// size asks its descriptor for that, and one that looks whether its file was removed for the
// links. Owner and mode stay the file's own, by which the kernel judges who may open it, and
// so does the number, by which /proc tells who has it open.
func (f *FS) showFollowed(n *inode, st *unix.Stat_t) bool {
	f.mu.Lock()
	if !n.saved {
		f.mu.Unlock()
		return false
	}
	var a *appender
	for _, h := range f.handles {
		switch {
		case h.n != n:
		case h.kind != appendHandle:
			f.mu.Unlock()
			return false
		default:
			a = h.app
		}
	}
	f.mu.Unlock()
	if a == nil {
		return false
	}
	var now unix.Stat_t
	if !a.Stat(&now) {
		return false
	}
	st.Nlink = now.Nlink
	f.mu.Lock()
	if followed := f.inodes[inoKey{uint64(now.Dev), now.Ino}]; followed != nil && followed.kept && st.Nlink > 0 {
		st.Nlink-- // the history's is nobody's name
	}
	f.mu.Unlock()
	st.Size, st.Blocks, st.Atim, st.Mtim, st.Ctim = now.Size, now.Blocks, now.Atim, now.Mtim, now.Ctim
	return true
}

// leftBehind reports whether n is a shadow whose session ended without
// publishing it while the caller was on its way by name: its next walk leads it
// to the file.
func (f *FS) leftBehind(n *inode) bool {
	f.mu.Lock()
	defer f.mu.Unlock()
	return n.orphan && n.sess == nil && !n.isOpenLocked()
}

// isOrphan reports whether n is the shadow of a session that is over and has not
// published it. Somebody may have it open.
func (f *FS) isOrphan(n *inode) bool {
	f.mu.Lock()
	defer f.mu.Unlock()
	return n.orphan && n.sess == nil
}

// strangerAt reports whether the caller came to k by a name when it was still
// the committed file's node. Its next walk leads it to the file.
func (f *FS) strangerAt(h *Request, k *kernelNode) bool {
	f.mu.Lock()
	n := k.in
	s, taken := n.sess, k.former != nil
	f.mu.Unlock()
	if s == nil || !taken {
		return false
	}
	c := f.callerOf(h)
	return !c.foreign() && !c.kinOf(s.who.Load()) && !f.isPublished(n)
}

// sendOn decides whether a stranger at a shadow's node is told to walk again,
// since what it shows is not for him. Only a system call that asks for the
// attributes by name is: for any other the request merely checks permissions,
// which are those of the file, and the one repetition that the kernel allows is
// kept for the operation itself.
func (f *FS) sendOn(h *Request, n *inode) bool {
	c := f.callerOf(h)
	if call, ok := c.Syscall(); ok && !syscalls.StatsByName(call) {
		return false
	}
	if f.walks.Repeated(c) {
		return false
	}
	f.staleAt(c, n)
	return true
}

// Statx is GetAttr with the birth time: statx(2).
func (f *FS) Statx(_ <-chan struct{}, in *StatxRequest, out *StatxReply) unix.Errno {
	if isVirtual(in.Node) {
		return unix.ENOSYS
	}
	k := f.nodeOf(in.Node)
	if k == nil {
		return unix.ESTALE
	}
	n := f.meant(k)
	fd := f.fdOf(n)
	if fd < 0 {
		return unix.ENOSYS
	}
	if err := unix.Statx(fd, "", unix.AT_EMPTY_PATH|unix.AT_SYMLINK_NOFOLLOW, int(in.Mask), &out.Statx_t); err != nil {
		return errnoOf(err)
	}
	var st unix.Stat_t
	if e := f.stat(n, &st); e != 0 {
		return e
	}
	_, ctime := f.noteShown(k, &st)
	out.Ctime.Sec, out.Ctime.Nsec = ctime.Sec, uint32(ctime.Nsec)
	mode, rdev := f.shownMode(n, &st)
	out.Mode, out.Rdev_major, out.Rdev_minor = uint16(mode), unix.Major(uint64(rdev)), unix.Minor(uint64(rdev))
	out.Ino = f.inoFor(uint64(st.Dev), st.Ino)
	out.Nlink = uint32(st.Nlink)
	out.TTL = f.attrTimeout(n)
	return 0
}
