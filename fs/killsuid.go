package fs

import (
	"slices"

	"golang.org/x/sys/unix"
)

// membership reports whether who changes a file is in a group.
type membership func(gid uint32) bool

// sender is the membership of who has sent a request. Its supplementary groups are
// looked up when they matter.
func (f *FS) sender(h *Request) membership {
	uid, gid, tid := h.UID, h.GID, h.TID
	return func(g uint32) bool {
		if g == gid || uid == 0 || tid == 0 {
			return g == gid
		}
		groups, _ := f.proc.Groups(tid)
		return slices.Contains(groups, g)
	}
}

// withoutPrivileges is the mode of a file of group gid after a write by an ordinary
// user: the setgid bit of a file that its group may not execute stays for members of
// the group.
func withoutPrivileges(mode, gid uint32, in membership) uint32 {
	next := mode &^ unix.S_ISUID
	if mode&unix.S_ISGID != 0 && (mode&unix.S_IXGRP != 0 || !in(gid)) {
		next &^= unix.S_ISGID
	}
	return next
}

// killSuidOf is killSuid for a write that the kernel sent to n. The kernel, which
// runs programs with the bits that it remembers, is told when they go.
func (f *FS) killSuidOf(n *inode, fd int, in membership) error {
	changed, err := killSuid(fd, in)
	if changed {
		f.forgetAttrs(n)
	}
	return err
}

// killSuidBy is killSuidOf for a write through h. If that is of a session, f.cut or
// f.change runs it.
func (f *FS) killSuidBy(h *handle, fd int, in membership) error {
	if s := h.sess; s != nil && h.kind == shadowHandle {
		s.bits.kept = 0 // s.mu is held
	}
	return f.killSuidOf(h.n, fd, in)
}

// killSuid does to the mode and the file capabilities what a write by an ordinary user
// does, and what chown(2) does to everything but directories.
func killSuid(fd int, in membership) (changed bool, err error) {
	var st unix.Stat_t
	if err := unix.Fstat(fd, &st); err != nil {
		return false, err
	}
	if st.Mode&unix.S_IFMT == unix.S_IFDIR {
		return false, nil
	}
	mode := st.Mode & 0o7777
	if next := withoutPrivileges(mode, st.Gid, in); next != mode {
		if err := unix.Chmod(procSelf(fd), next); err != nil {
			return false, err
		}
		changed = true
	}
	return changed, dropCapabilities(fd)
}

// dropCapabilities takes the file capabilities of what is open as fd away.
func dropCapabilities(fd int) error {
	err := unix.Removexattr(procSelf(fd), "security.capability")
	if err == unix.ENODATA || err == unix.EOPNOTSUPP || err == unix.EPERM {
		return nil
	}
	return err
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
	if st.Mode&unix.S_IFMT == unix.S_IFDIR || withoutPrivileges(st.Mode, st.Gid, f.sender(h)) == st.Mode ||
		h.UID == st.Uid || f.proc.HasCap(h.TID, unix.CAP_FOWNER) {
		return 0
	}
	c := f.callerOf(h)
	call, known := c.Syscall()
	switch {
	case known && slices.Contains(chownCalls, call.Nr):
		return unix.EPERM
	case known && slices.Contains(writeCalls, call.Nr), f.mayOpen(c, f.fdOf(n), unix.O_WRONLY):
		return 0 // whoever may write the file takes its bits away with that
	}
	return unix.EPERM
}

// chownCalls are the system calls that change a file's owner.
var chownCalls = append(oldChowns, unix.SYS_FCHOWN, unix.SYS_FCHOWNAT)

// hasLoneSetgid reports whether a file has the setgid bit, and no right to execute for
// its group.
func (f *FS) hasLoneSetgid(n *inode) bool {
	var st unix.Stat_t
	return unix.Fstat(f.fdOf(n), &st) == nil && st.Mode&(unix.S_ISGID|unix.S_IXGRP) == unix.S_ISGID
}

// privileged are the bits of a mode that a write by an ordinary user takes away.
const privileged = unix.S_ISUID | unix.S_ISGID

// modeBits are the setuid and setgid bits of a session's file, as far as its shadow does not
// tell: with passthrough each write takes them off that, whoever wrote.
type modeBits struct {
	kept uint32 // that the file has, unless somebody without CAP_FSETID has written it
	set  bool   // by the session: a write since then has taken off the shadow what it takes
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
	switch bits := st.Mode & privileged; {
	case in.Set&SetMode != 0:
		s.bits = modeBits{kept: bits, set: true}
		s.fsetid = s.fsetid && (bits == 0 || s.f.proc.HasCap(in.TID, capFsetid))
	default: // chown(2), which does the same for root as for others
		all := func(uint32) bool { return true }
		s.bits.kept = withoutPrivileges(st.Mode|s.bits.kept, st.Gid, all) & privileged
	}
}

// fixMode does for setuid, setgid and file capabilities what a plain write
// does: a writer without CAP_FSETID loses them, one with it keeps them.
func (s *session) fixMode() error {
	if s.fsetid {
		return s.keepBits()
	}
	if s.isNew.Load() {
		return nil
	}
	if dirty, err := s.dirtyLocked(); err == nil && !dirty {
		return nil // in a transaction: other attributes or the name were changed
	}
	if s.bits.set {
		return dropCapabilities(s.shadow.FD())
	}
	_, err := killSuid(s.shadow.FD(), s.isIn)
	return err
}

// keepBits gives the shadow the bits back that writes with passthrough have taken.
func (s *session) keepBits() error {
	if s.bits.kept == 0 {
		return nil
	}
	var st unix.Stat_t
	if err := unix.Fstat(s.shadow.FD(), &st); err != nil {
		return err
	}
	return unix.Fchmod(s.shadow.FD(), st.Mode&0o7777|s.bits.kept)
}

// isIn is the membership of the session's writer, as far as the group of the file is
// concerned.
func (s *session) isIn(gid uint32) bool { return gid == s.gid || s.ofGroup && gid == s.baseGID }
