package fs

import (
	"golang.org/x/sys/unix"

	"latchfs/fs/judge"
	"latchfs/lockmgr/policy"
)

// newFile are the flags by which a file is made that must not be there yet.
const newFile = unix.O_RDWR | unix.O_CREAT | unix.O_EXCL | unix.O_NOFOLLOW | unix.O_CLOEXEC

// makesToRead reports whether an open that makes a file only reads it. Nothing comes of waiting
// for its close: the file is empty before and after. So flock(1) opens the file that it locks,
// and has it open as long as its command runs.
func makesToRead(flags, mode uint32, set policy.Settings) bool {
	return flags&(unix.O_ACCMODE|unix.O_TRUNC) == unix.O_RDONLY && mode&0o400 != 0 && judge.ByLines(set.Validate)
}

// createToRead makes an empty file, which is there at once, and opens it to read. The caller has
// the name's lock.
func (op *opens) createToRead(cancel <-chan struct{}, c *caller, in *CreateRequest, dir *inode, name string, mode uint32, out *Created) unix.Errno {
	exclusive := in.Flags&unix.O_EXCL != 0
	if e := op.losses.mayMake(c, opCreate, place{dir, name, nil}, exclusive); e != 0 {
		return e
	}
	var made unix.Stat_t
	switch fd, err := op.makeFile(c, dir, name, newFile, mode); {
	case err == unix.EEXIST && !exclusive:
		st, e := op.existing(c, in, dir, name)
		switch {
		case e != 0:
			return e
		case st == nil:
			return unix.ESTALE // it is gone again
		}
		made = *st
	case err != nil:
		return errnoOf(err)
	default:
		err := unix.Fstat(fd, &made)
		unix.Close(fd)
		if err != nil {
			return errnoOf(err)
		}
		op.tellCreated(c, dir, name, &made)
		op.names.namesSoonOnDisk(dir, name)
	}
	return op.openMade(dir, name, &made, out, func(k *kernelNode, _ *inode) unix.Errno {
		return op.openRead(cancel, &in.OpenRequest, k, &out.Opened)
	})
}

// makeFile makes a file as the caller would make it.
func (op *opens) makeFile(c *caller, dir *inode, name string, flags int, mode uint32) (fd int, err error) {
	dirfd := op.nodes.fdOf(dir)
	err = op.nodes.trim.Spare(func() error {
		return op.disk.makeAs(c, func() (err error) {
			fd, err = unix.Openat(dirfd, name, flags, mode)
			return err
		})
	})
	return fd, err
}
