package fs

import (
	"slices"

	"golang.org/x/sys/unix"

	"latchfs/fs/suid"
	"latchfs/fs/syscalls"
)

// sender is the membership of who has sent a request. Its supplementary groups are
// looked up when they matter.
func (f *FS) sender(h *Request) suid.Membership {
	uid, gid, tid := h.UID, h.GID, h.TID
	return func(g uint32) bool {
		if g == gid || uid == 0 || tid == 0 {
			return g == gid
		}
		groups, _ := f.proc.Groups(tid)
		return slices.Contains(groups, g)
	}
}

// killSuidOf is suid.Kill for a write that the kernel sent to n. The kernel, which
// runs programs with the bits that it remembers, is told when they go.
func (f *FS) killSuidOf(n *inode, fd int, in suid.Membership) error {
	changed, err := suid.Kill(fd, in)
	if changed {
		f.forgetAttrs(n)
	}
	return err
}

// killSuidBy is killSuidOf for a write through h. If that is of a session, f.cut or
// f.change runs it.
func (f *FS) killSuidBy(h *handle, fd int, in suid.Membership) error {
	if s := h.sess; s != nil && h.kind == shadowHandle {
		s.suid.Killed() // s.mu is held
	}
	return f.killSuidOf(h.n, fd, in)
}

// mayDropBits answers a change of attributes that names none. It takes setuid and setgid
// bits away, and the kernel sends it for two reasons: for a write, whose right was
// checked at the open, and for a chown(2) that names neither an owner nor a group,
// which is for those who may change the mode.
func (f *FS) mayDropBits(in *SetAttrRequest, n *inode) unix.Errno {
	var st unix.Stat_t
	if err := unix.Fstat(f.fdOf(n), &st); err != nil {
		return errnoOf(err)
	}
	h := &in.Request
	if st.Mode&unix.S_IFMT == unix.S_IFDIR || suid.AfterWrite(st.Mode, st.Gid, f.sender(h)) == st.Mode ||
		h.UID == st.Uid || f.proc.HasCap(h.TID, unix.CAP_FOWNER) {
		return 0
	}
	c := f.callerOf(h)
	call, known := c.Syscall()
	switch {
	case known && syscalls.Chowns(call):
		return unix.EPERM
	case known && syscalls.Writes(call), f.mayOpen(c, f.fdOf(n), unix.O_WRONLY):
		return 0 // whoever may write the file takes its bits away with that
	}
	return unix.EPERM
}

// hasLoneSetgid reports whether a file has the setgid bit, and no right to execute for
// its group.
func (f *FS) hasLoneSetgid(n *inode) bool {
	var st unix.Stat_t
	return unix.Fstat(f.fdOf(n), &st) == nil && suid.IsLoneSetgid(st.Mode)
}

// noteBits notes a change of the shadow's mode, owner or group.
func (s *session) noteBits(in *SetAttrRequest) {
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
		s.suid.SetMode(st.Mode, func() bool { return s.f.proc.HasCap(in.TID, capFsetid) })
	} else {
		s.suid.SetOwner(&st)
	}
}

// cutByLocked does for the shadow's setuid and setgid bits what an open with O_TRUNC by the caller
// does.
func (s *session) cutByLocked(c *caller) error {
	var st unix.Stat_t
	if err := unix.Fstat(s.shadow.FD(), &st); err != nil {
		return err
	}
	if st.Mode&suid.Bits == 0 || c.keepsSuid(&st, 0) {
		return nil
	}
	return s.dropBitsLocked()
}

// dropBitsLocked takes those bits off the shadow, which somebody without CAP_FSETID has cut. They
// are gone at once: fixMode leaves a new file what it has at the close.
func (s *session) dropBitsLocked() error {
	s.suid.CutByOrdinary()
	return s.f.killSuidOf(s.inode, s.shadow.FD(), s.suid.IsIn)
}

// fixMode does for setuid, setgid and file capabilities what a plain write does.
func (s *session) fixMode() error {
	// What is clean is published in a transaction, if other attributes or the name were changed.
	return s.suid.Fix(s.shadow.FD(), s.isNew.Load(), s.content.IsClean)
}
