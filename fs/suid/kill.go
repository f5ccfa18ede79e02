package suid

import (
	"golang.org/x/sys/unix"

	"latchfs/fs/sys"
)

// Membership reports whether the process that changes a file is in a group.
type Membership func(gid uint32) bool

// Capabilities is the attribute that has the capabilities of a file (capabilities(7)).
const Capabilities = "security.capability"

// Bits are the bits of a mode that a write by an ordinary user takes away.
const Bits = unix.S_ISUID | unix.S_ISGID

// AfterWrite is the mode of a file of group gid after a write by an ordinary
// user: the setgid bit of a file that its group may not execute stays for members of
// the group.
func AfterWrite(mode, gid uint32, in Membership) uint32 {
	next := mode &^ unix.S_ISUID
	if mode&unix.S_ISGID != 0 && (mode&unix.S_IXGRP != 0 || !in(gid)) {
		next &^= unix.S_ISGID
	}
	return next
}

// IsLoneSetgid reports whether a mode has the setgid bit, and no right to execute for the
// group: whether a write leaves the bit depends on who writes.
func IsLoneSetgid(mode uint32) bool {
	return mode&(unix.S_ISGID|unix.S_IXGRP) == unix.S_ISGID
}

// Kill does to the mode and the file capabilities of what is open as fd what a write by an
// ordinary user does, and what chown(2) does to everything but directories. It reports whether
// the mode has changed.
func Kill(fd int, in Membership) (changed bool, err error) {
	var st unix.Stat_t
	if err := unix.Fstat(fd, &st); err != nil {
		return false, err
	}
	if st.Mode&unix.S_IFMT == unix.S_IFDIR {
		return false, nil
	}
	mode := st.Mode & 0o7777
	if next := AfterWrite(mode, st.Gid, in); next != mode {
		if err := unix.Chmod(sys.Self(fd), next); err != nil {
			return false, err
		}
		changed = true
	}
	return changed, dropCapabilities(fd)
}

// dropCapabilities takes the file capabilities of what is open as fd away.
func dropCapabilities(fd int) error {
	err := unix.Removexattr(sys.Self(fd), Capabilities)
	if err == unix.ENODATA || err == unix.EOPNOTSUPP || err == unix.EPERM {
		return nil
	}
	return err
}
