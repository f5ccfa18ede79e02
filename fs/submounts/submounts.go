// Package submounts knows what the filesystems are like that are mounted inside the data
// directory, and how the mount shows them, which shows all of them as one.
//
// Such a filesystem may have stricter flags than the data directory's own: nosuid, nodev,
// noexec, ro. The mount has one set of flags, so what such a filesystem forbids is taken out of
// what the kernel is told of its files (Forbids, Mode). The flags are asked for when they
// matter; so a remount counts from the next question on.
//
// It numbers its inodes anew, too, while the mount shows one device: its numbers are moved
// out of the way of others (Number).
package submounts

import (
	"sync"

	"golang.org/x/sys/unix"
)

// Table is what is known of the filesystems inside one data directory. The zero one
// forbids what the filesystem of a file does.
type Table struct {
	look   look   // nil: the kernel
	outer  uint64 // the mount that the data directory is on; 0: not known
	strict int64  // what our mount forbids, unix.ST_*

	mu    sync.Mutex        // guards what follows
	known map[uint64]uint64 // devices, numbered from 1
}

// look tells of the mount that a descriptor was opened through.
type look interface {
	// mount is its id.
	mount(fd int) (id uint64, ok bool)
	// flags are its flags, unix.ST_*.
	flags(fd int) (flags int64, ok bool)
}

// kernel is the look of the kernel.
type kernel struct{}

func (kernel) mount(fd int) (id uint64, ok bool) {
	var st unix.Statx_t
	err := unix.Statx(fd, "", unix.AT_EMPTY_PATH|unix.AT_STATX_DONT_SYNC, unix.STATX_MNT_ID, &st)
	return st.Mnt_id, err == nil && st.Mask&unix.STATX_MNT_ID != 0
}

func (kernel) flags(fd int) (flags int64, ok bool) {
	var st unix.Statfs_t
	err := unix.Fstatfs(fd, &st)
	return int64(st.Flags), err == nil
}

func (t *Table) at() look {
	if t.look == nil {
		return kernel{}
	}
	return t.look
}

// Note remembers which mount the data directory is on, and what it forbids, which our mount
// forbids as well. dir is a descriptor of it. Our own mount forbids more if fusermount3 makes
// it for an ordinary user. It is called before the table is asked.
func (t *Table) Note(dir int, privileged bool) {
	t.outer, _ = t.at().mount(dir)
	t.strict, _ = t.at().flags(dir)
	if !privileged {
		t.strict |= unix.ST_NOSUID | unix.ST_NODEV
	}
}

// Forbids reports whether the inode of fd (O_PATH suffices) is on a mount below the data
// directory that has flag, one of unix.ST_*, where our mount does not have it. What
// cannot be asked is forbidden.
func (t *Table) Forbids(fd int, flag int64) bool {
	if t.strict&flag != 0 {
		return false
	}
	if id, ok := t.at().mount(fd); ok && id == t.outer {
		return false
	}
	flags, ok := t.at().flags(fd)
	return !ok || flags&flag != 0
}

// specialBits let a program run as its owner or group.
const specialBits = unix.S_ISUID | unix.S_ISGID

// Mode is the mode of an inode that has the status st, and the device that it stands for,
// as far as the mount that it is on lets them count: no setuid and setgid bits of files
// below nosuid; below nodev devices that nobody can open. fd is asked for a descriptor of
// the inode where that matters.
func (t *Table) Mode(st *unix.Stat_t, fd func() int) (mode, rdev uint32) {
	mode, rdev = st.Mode, uint32(st.Rdev)
	switch mode & unix.S_IFMT {
	case unix.S_IFREG:
		if mode&specialBits != 0 && t.Forbids(fd(), unix.ST_NOSUID) {
			mode &^= specialBits
		}
	case unix.S_IFCHR, unix.S_IFBLK:
		if t.Forbids(fd(), unix.ST_NODEV) {
			mode, rdev = mode&unix.S_IFMT, 0
		}
	}
	return mode, rdev
}

// Number is the inode number that is shown for an inode of a device other than the data
// directory's. It is the same whenever it is asked for, and the devices that were first
// asked for are told apart by its highest bits.
func (t *Table) Number(dev, ino uint64) uint64 {
	t.mu.Lock()
	defer t.mu.Unlock()
	i, ok := t.known[dev]
	if !ok {
		if t.known == nil {
			t.known = map[uint64]uint64{}
		}
		i = uint64(len(t.known) + 1)
		t.known[dev] = i
	}
	return ino ^ i<<48
}
