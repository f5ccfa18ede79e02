package fs

import (
	"slices"
	"time"

	"golang.org/x/sys/unix"

	"latchfs/fs/appends"
	"latchfs/fs/syscalls"
	"latchfs/lockmgr/proc"
)

// attrs reads and changes attributes, extended ones and sizes included.
type attrs struct {
	*ground
	*engine
	appending *appending
	contents  *contents
}

// How long the kernel may believe an answer that does not depend on the
// caller. Every change through the mount reaches the kernel anyway; the second
// bounds how long a change outside the mount stays unseen.
const (
	entryTTL = time.Second
	attrTTL  = time.Second
)

// fillAttr turns backing attributes, those of what k stands for, into the mount's.
func (ats *attrs) fillAttr(a *Attr, k *kernelNode, st *unix.Stat_t) {
	n := ats.noteShown(k, st)
	a.Ino = ats.disk.inoFor(uint64(st.Dev), st.Ino)
	a.Size = uint64(st.Size)
	a.Blocks = uint64(st.Blocks)
	a.Atime, a.Mtime, a.Ctime = st.Atim, st.Mtim, st.Ctim
	a.Mode, a.Rdev = ats.shownMode(n, st)
	a.Nlink = uint32(st.Nlink)
	a.UID, a.GID = st.Uid, st.Gid
	a.Blksize = uint32(st.Blksize)
}

// maxNumbers bounds how many numbers of a node are remembered.
const maxNumbers = 8

// noteShown remembers which inode number of k the kernel is told, returns what k stands
// for, and puts the times into st that the kernel is told. /proc shows the number that the kernel
// has: an earlier one while it has not asked again, or where it ignored attributes that
// crossed an invalidation.
func (ats *attrs) noteShown(k *kernelNode, st *unix.Stat_t) *inode {
	ats.nodes.mu.Lock()
	defer ats.nodes.mu.Unlock()
	if !k.in.isRegular() {
		if k.in.isDir() && ats.disk.store != nil {
			ats.disk.store.ShowTimes(st)
		}
		return k.in
	}
	key := inoKey{uint64(st.Dev), st.Ino}
	if i := len(k.numbers); i == 0 || k.numbers[i-1] != key {
		k.numbers = append(slices.DeleteFunc(k.numbers, func(o inoKey) bool { return o == key }), key)
		k.numbers = k.numbers[max(0, len(k.numbers)-maxNumbers):]
	}
	st.Ctim = ats.commits.commitTimes.Shown(key, st.Ctim)
	return k.in
}

// forbids reports whether n is on a mount inside the data directory that has the flag (unix.ST_*),
// and the mount of the data directory has it not; see package submounts. It is true of nil, an
// inode that is gone.
func (ats *attrs) forbids(n *inode, flag int64) bool {
	return n == nil || ats.disk.submounts.Forbids(ats.nodes.fdOf(n), flag)
}

// isReadOnly reports whether n is on a mount inside the data directory that is read-only. Of an
// inode that is gone others tell.
func (ats *attrs) isReadOnly(n *inode) bool {
	fd := ats.nodes.fdOf(n)
	return fd >= 0 && ats.disk.submounts.Forbids(fd, unix.ST_RDONLY)
}

// shownMode is the mode of n's inode, which has the status st, and the device that it
// stands for, as far as the mount that it is on lets them count.
func (ats *attrs) shownMode(n *inode, st *unix.Stat_t) (mode, rdev uint32) {
	return ats.disk.submounts.Mode(st, func() int { return ats.nodes.fdOf(n) })
}

// fillEntry answers a lookup with k. A name that depends on who asks is not to be
// cached. Attributes are: a shadow has a node of its own.
func (ats *attrs) fillEntry(out *Entry, k *kernelNode, st *unix.Stat_t, volatile bool) {
	out.Node = k.id
	ats.nodes.mu.Lock()
	n := k.in
	shown := n.shownAs
	if !volatile {
		k.shown = time.Now()
	}
	ats.nodes.mu.Unlock()
	if shown.ino != 0 {
		st.Dev, st.Ino = shown.dev, shown.ino
	}
	ats.fillAttr(&out.Attr, k, st)
	out.AttrTTL = ats.attrTimeout(n)
	if volatile {
		out.NameTTL = 0
	} else {
		out.NameTTL = entryTTL
	}
}

// attrTimeout is how long the kernel may keep n's attributes: not at all
// those of a directory in whose GETATTR somebody is about to park, nor those of a file whose
// appenders have more of it when they ask themselves.
func (ats *attrs) attrTimeout(n *inode) time.Duration {
	ats.nodes.mu.Lock()
	defer ats.nodes.mu.Unlock()
	if n.awaited > 0 || n.fd < 0 || len(ats.handles.linedLocked(n)) > 0 {
		return 0
	}
	return attrTTL
}

// GetAttr answers with the attributes of a node: stat(2), fstat(2). It is also where callers that must
// wait for a lock are parked: see parking.go.
func (ats *attrs) GetAttr(cancel <-chan struct{}, in *AttrRequest, out *AttrReply) unix.Errno {
	if isVirtual(in.Node) {
		return ats.view.virt.getattr(in, out)
	}
	k := ats.kernel.nodeOf(in.Node)
	if k == nil {
		return unix.ESTALE
	}
	var st unix.Stat_t
	_, timeout, e := ats.look(cancel, &in.Request, k, &st)
	if e != 0 {
		return e
	}
	ats.fillAttr(&out.Attr, k, &st)
	out.TTL = timeout
	return 0
}

// look is what a caller is told of a node that it asks about: the inode that it is shown, what st
// says then, and for how long the kernel may keep that.
func (ats *attrs) look(cancel <-chan struct{}, h *Request, k *kernelNode, st *unix.Stat_t) (*inode, time.Duration, unix.Errno) {
	n := ats.kernel.meant(k)
	if n.isDir() && ats.astray.walks.Any() {
		if e := ats.parking.parkHere(cancel, h, n); e != 0 {
			return nil, 0, e
		}
	}
	if ats.strangerAt(h, k) && ats.redirect(h, n, syscalls.StatsByName) {
		return nil, 0, unix.ESTALE
	}
	ats.handles.showLinesOn(h, n, appends.Asked)
	n, own := ats.besideOf(h, k, n)
	if e := ats.names.stat(n, st); e != 0 {
		return nil, 0, e
	}
	if st.Nlink == 0 && ats.names.leftBehind(n) && ats.redirect(h, n, syscalls.StatsByName) {
		return nil, 0, unix.ESTALE
	}
	timeout := ats.attrTimeout(n)
	if own || ats.showFollowed(n, st) {
		timeout = 0
	}
	return n, timeout, 0
}

// besideOf is what the caller is shown of n, for which k stands: while his family writes the
// file at this node (see sessions.attachBeside) that is what it has written. Others are shown
// the file.
func (ats *attrs) besideOf(h *Request, k *kernelNode, n *inode) (shown *inode, own bool) {
	ats.nodes.mu.Lock()
	s := k.beside
	writes := s != nil && !s.over
	ats.nodes.mu.Unlock()
	if !writes || !ats.callers.callerOf(h).BelongsTo(s.who.Load()) {
		return n, false
	}
	return s.inode, true
}

// showFollowed gives a file that was replaced the size, the times and the links of the one in
// which its appenders go on, if nobody else has it open: a logger that turns its file over by
// size asks its descriptor for that, and one that looks whether its file was removed for the
// links. Owner and mode stay the file's own, by which the kernel judges who may open it, and
// so does the number, by which /proc tells who has it open.
func (ats *attrs) showFollowed(n *inode, st *unix.Stat_t) bool {
	ats.nodes.mu.Lock()
	if !n.saved {
		ats.nodes.mu.Unlock()
		return false
	}
	var a *appender
	for _, h := range ats.handles.open {
		switch {
		case h.n != n:
		case h.kind != appendHandle:
			ats.nodes.mu.Unlock()
			return false
		default:
			a = h.app
		}
	}
	ats.nodes.mu.Unlock()
	if a == nil {
		return false
	}
	var now unix.Stat_t
	if !a.Stat(&now) {
		return false
	}
	st.Nlink = now.Nlink
	ats.nodes.mu.Lock()
	if followed := ats.nodes.inodes[inoKey{uint64(now.Dev), now.Ino}]; followed != nil && followed.kept && st.Nlink > 0 {
		st.Nlink-- // the history's is nobody's name
	}
	ats.nodes.mu.Unlock()
	st.Size, st.Blocks, st.Atim, st.Mtim, st.Ctim = now.Size, now.Blocks, now.Atim, now.Mtim, now.Ctim
	return true
}

// strangerAt reports whether the caller came to k by a name when it was still
// the committed file's node. Its next walk leads it to the file.
func (ats *attrs) strangerAt(h *Request, k *kernelNode) bool {
	ats.nodes.mu.Lock()
	n := k.in
	s, taken := n.sess, k.former != nil
	ats.nodes.mu.Unlock()
	if s == nil || !taken {
		return false
	}
	c := ats.callers.callerOf(h)
	return !c.Foreign() && !c.BelongsTo(s.who.Load()) && !ats.names.isPublished(n)
}

// redirect tells a stranger at a shadow's node to walk again, since what the node shows is not
// for it, and reports whether it did: the answer is ESTALE then. It does so only in a system
// call that asks by name for what the request is about (asks): for any other the request merely checks
// permissions, which are those of the file, and the one repetition that the kernel allows is
// kept for the operation itself.
func (ats *attrs) redirect(h *Request, n *inode, asks func(proc.Call) bool) bool {
	c := ats.callers.callerOf(h)
	if call, ok := c.Syscall(); ok && !asks(call) {
		return false
	}
	if ats.astray.walks.Repeated(c) {
		ats.astray.walks.Answered(h.TID)
		return false
	}
	ats.astray.staleAt(c, n)
	return true
}

// Statx is GetAttr with the birth time: statx(2).
func (ats *attrs) Statx(cancel <-chan struct{}, in *StatxRequest, out *StatxReply) unix.Errno {
	if isVirtual(in.Node) {
		return unix.ENOSYS
	}
	k := ats.kernel.nodeOf(in.Node)
	if k == nil {
		return unix.ESTALE
	}
	if ats.nodes.fdOf(ats.kernel.meant(k)) < 0 {
		return unix.ENOSYS
	}
	var st unix.Stat_t
	n, timeout, e := ats.look(cancel, &in.Request, k, &st)
	if e != 0 {
		return e
	}
	fd := ats.nodes.fdOf(n)
	if fd < 0 {
		return unix.ENOSYS
	}
	if err := unix.Statx(fd, "", unix.AT_EMPTY_PATH|unix.AT_SYMLINK_NOFOLLOW, int(in.Mask), &out.Statx_t); err != nil {
		return errnoOf(err)
	}
	mode, rdev := ats.shownMode(ats.noteShown(k, &st), &st)
	out.Size, out.Blocks = uint64(st.Size), uint64(st.Blocks)
	out.Atime.Sec, out.Atime.Nsec = st.Atim.Sec, uint32(st.Atim.Nsec)
	out.Mtime.Sec, out.Mtime.Nsec = st.Mtim.Sec, uint32(st.Mtim.Nsec)
	out.Ctime.Sec, out.Ctime.Nsec = st.Ctim.Sec, uint32(st.Ctim.Nsec)
	out.Mode, out.Rdev_major, out.Rdev_minor = uint16(mode), unix.Major(uint64(rdev)), unix.Minor(uint64(rdev))
	out.Ino = ats.disk.inoFor(uint64(st.Dev), st.Ino)
	out.Nlink = uint32(st.Nlink)
	out.TTL = timeout
	return 0
}

// noteBits notes a change of the shadow's mode, owner or group.
func (ats *attrs) noteBits(s *session, in *SetAttrRequest) {
	const owners = SetUID | SetGID
	if in.Set&(SetMode|owners) == 0 {
		return
	}
	s.mu.Lock()
	defer s.mu.Unlock()
	var st unix.Stat_t
	if s.state.HasEnded() || unix.Fstat(s.shadow.FD(), &st) != nil {
		return
	}
	if in.Set&SetMode != 0 {
		s.suid.SetMode(st.Mode, func() bool { return ats.callers.proc.HasCap(in.TID, unix.CAP_FSETID) })
	} else {
		s.suid.SetOwner(&st)
	}
	s.showBits()
}
