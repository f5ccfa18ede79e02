package fs

import (
	"golang.org/x/sys/unix"

	"latchfs/fs/suid"
	"latchfs/fs/syscalls"
)

// killSuidOf is suid.Kill for a write that the kernel sent to n. The kernel, which
// runs programs with the bits that it remembers, is told when they go.
func (hs *handles) killSuidOf(n *inode, fd int, in suid.Membership) error {
	changed, err := suid.Kill(fd, in)
	if changed {
		hs.kernel.forgetAttrs(n)
	}
	return err
}

// killSuidBy is killSuidOf for a write through h. If that is of a session, contents.changeRead
// runs it.
func (hs *handles) killSuidBy(h *handle, fd int, in suid.Membership) error {
	if s := h.sess; s != nil && h.kind == shadowHandle {
		s.suid.Killed() // s.mu is held
		s.showBits()
	}
	return hs.killSuidOf(h.n, fd, in)
}

// mayDropBits answers a change of attributes that names none. It takes setuid and setgid
// bits away, and the kernel sends it for two reasons: for a write, whose right was
// checked at the open, and for a chown(2) that names neither an owner nor a group,
// which is for those who may change the mode.
func (hs *handles) mayDropBits(in *SetAttrRequest, n *inode) unix.Errno {
	var st unix.Stat_t
	if err := unix.Fstat(hs.nodes.fdOf(n), &st); err != nil {
		return errnoOf(err)
	}
	h := &in.Request
	if st.Mode&unix.S_IFMT == unix.S_IFDIR || suid.AfterWrite(st.Mode, st.Gid, hs.callers.membership(h)) == st.Mode ||
		h.UID == st.Uid || hs.callers.proc.HasCap(h.TID, unix.CAP_FOWNER) {
		return 0
	}
	c := hs.callers.callerOf(h)
	call, known := c.Syscall()
	switch {
	case known && syscalls.Chowns(call):
		return unix.EPERM
	case known && syscalls.Writes(call), c.MayOpen(hs.nodes.fdOf(n), unix.O_WRONLY):
		return 0 // whoever may write the file takes its bits away with that
	}
	return unix.EPERM
}

// showBits shows the setuid and setgid bits that what is written leaves to the file, and that the
// shadow may have lost. s.mu is held, or the session is only being made.
func (s *session) showBits() { s.shown.ShowBits(s.suid.Left()) }

// fixMode does for setuid, setgid and file capabilities what a plain write does.
func (s *session) fixMode() error {
	// What is clean is published in a transaction, if other attributes or the name were changed.
	return s.suid.Fix(s.shadow.FD(), s.isNew.Load(), s.content.IsClean)
}

// cutByLocked does for the shadow's setuid and setgid bits what an open with O_TRUNC by the caller
// does.
func (cm *commits) cutByLocked(s *session, c *caller) error {
	var st unix.Stat_t
	if err := unix.Fstat(s.shadow.FD(), &st); err != nil {
		return err
	}
	st.Mode |= s.suid.Left() // writes have taken them off the shadow
	if st.Mode&suid.Bits == 0 || keepsSuid(c, &st, 0) {
		return nil
	}
	return cm.dropBitsLocked(s)
}

// dropBitsLocked takes those bits off the shadow, which somebody without CAP_FSETID has cut. They
// are gone at once: fixMode leaves a new file what it has at the close.
func (cm *commits) dropBitsLocked(s *session) error {
	s.suid.CutByOrdinary()
	s.showBits()
	return cm.handles.killSuidOf(s.inode, s.shadow.FD(), s.suid.IsIn)
}
