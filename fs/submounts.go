package fs

import (
	"golang.org/x/sys/unix"
)

// Filesystems may be mounted inside the data directory with stricter flags than the
// data directory's own: nosuid, nodev, noexec. The mount shows all of them as one, with
// one set of flags, so what such a filesystem forbids is taken out of what the kernel
// is told of its files. The flags are asked for when they matter, which is rarely; so
// a remount counts from the next question on, at most attrTTL later.

// openToExec is the flag of an open(2) for execve(2), as the kernel passes it on:
// __FMODE_EXEC of include/linux/fs.h.
const openToExec = 0x20

// specialBits let a program run as its owner or group; so does what capabilityAttr holds.
const (
	specialBits    = unix.S_ISUID | unix.S_ISGID
	capabilityAttr = "security.capability"
)

// noteMount remembers which mount the data directory is on, and what it forbids, which
// our mount forbids as well.
func (f *FS) noteMount() {
	f.dataMount, _ = mountOf(f.rootfd)
	var st unix.Statfs_t
	if unix.Fstatfs(f.rootfd, &st) == nil {
		f.strict = int64(st.Flags)
	}
	if !f.privileged {
		f.strict |= unix.ST_NOSUID | unix.ST_NODEV // so mounts fusermount3
	}
}

// mountOf is the id of the mount that fd was opened through.
func mountOf(fd int) (id uint64, ok bool) {
	var st unix.Statx_t
	err := unix.Statx(fd, "", unix.AT_EMPTY_PATH|unix.AT_STATX_DONT_SYNC, unix.STATX_MNT_ID, &st)
	return st.Mnt_id, err == nil && st.Mask&unix.STATX_MNT_ID != 0
}

// forbids reports whether the inode of fd (O_PATH) is on a mount below the data
// directory that has flag, one of unix.ST_*, where our mount does not have it. What
// cannot be asked is forbidden.
func (f *FS) forbids(fd int, flag int64) bool {
	if f.strict&flag != 0 {
		return false
	}
	if id, ok := mountOf(fd); ok && id == f.dataMount {
		return false
	}
	var st unix.Statfs_t
	return unix.Fstatfs(fd, &st) != nil || int64(st.Flags)&flag != 0
}

// forbidsID is forbids for what the kernel means by id.
func (f *FS) forbidsID(id uint64, flag int64) bool {
	n := f.inodeOf(id)
	return n == nil || f.forbids(f.fdOf(n), flag)
}

// shownMode is the mode of n's inode, which has the status st, and the device that it
// stands for, as far as the mount that it is on lets them count: no setuid and setgid
// bits of files below nosuid; below nodev devices that nobody can open.
func (f *FS) shownMode(n *inode, st *unix.Stat_t) (mode, rdev uint32) {
	mode, rdev = st.Mode, uint32(st.Rdev)
	switch mode & unix.S_IFMT {
	case unix.S_IFREG:
		if mode&specialBits != 0 && f.forbids(f.fdOf(n), unix.ST_NOSUID) {
			mode &^= specialBits
		}
	case unix.S_IFCHR, unix.S_IFBLK:
		if f.forbids(f.fdOf(n), unix.ST_NODEV) {
			mode, rdev = mode&unix.S_IFMT, 0
		}
	}
	return mode, rdev
}
