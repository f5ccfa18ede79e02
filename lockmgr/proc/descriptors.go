package proc

import (
	"strconv"
	"unsafe"

	"golang.org/x/sys/unix"

	"latchfs/lockmgr/proc/internal/links"
	"latchfs/lockmgr/proc/internal/procfs"
)

// descriptorList lists the descriptors of a thread, by a directory of /proc.
type descriptorList struct {
	path  string // of the thread's directory in /proc
	dir   int
	links bool // it is fd; else it is fdinfo
}

// open opens the list of a thread's descriptors. In execve the links below fd wait for the
// process, and fdinfo does not.
func (c *openCounter) open(path string) (descriptorList, error) {
	if !c.r.inExec(c.pid) {
		if dir, err := c.r.root.OpenDir(path + "fd"); err == nil {
			return descriptorList{path, dir, true}, nil
		}
	}
	dir, err := c.r.root.OpenDir(path + "fdinfo")
	return descriptorList{path, dir, false}, err
}

// look counts one descriptor if it is one of the file. Only what leads to the file's inode
// is asked for its fdinfo, whatever it is otherwise: a look at the inode costs a fifth, and
// needs no lock of the open file. Where it fails, as on the filesystem of another user
// (fuse(4), allow_other), the link tells what has an fdinfo that may be read.
func (c *openCounter) look(list descriptorList, fd int32) error {
	if !list.links {
		return c.lookAtInfo(list.dir, strconv.Itoa(int(fd)))
	}
	dev, ino, err := inodeOf(list.dir, fd)
	switch {
	case err == nil && (dev != c.file.Dev || !c.file.has(ino)):
		return nil
	case err != nil && procfs.Gone(err) == ErrGone:
		return ErrGone
	case err != nil && c.r.isAnonymous(list.path, fd):
		return nil
	}
	return c.lookAtInfo(c.r.root.Dir(), list.path+"fdinfo/"+strconv.Itoa(int(fd)))
}

// lookAtInfo counts a descriptor by its fdinfo. What counts stands at the beginning of what
// the kernel says; the list of its locks may be long.
func (c *openCounter) lookAtInfo(dir int, path string) error {
	info, err := procfs.OpenAt(dir, path, unix.O_RDONLY)
	if err != nil {
		return err
	}
	defer unix.Close(info)
	return procfs.WithStart(info, c.take)
}

// inodeOf is the inode to which a descriptor leads, as the kernel remembers it: with
// AT_STATX_DONT_SYNC FUSE, NFS, Ceph and AFS ask nobody. Other network filesystems may ask
// their server, so that this belongs into a patient question.
func inodeOf(dir int, fd int32) (dev, ino uint64, err error) {
	var name [12]byte // and a zero at the end
	strconv.AppendInt(name[:0], int64(fd), 10)
	var st unix.Statx_t
	for {
		_, _, errno := unix.Syscall6(unix.SYS_STATX, uintptr(dir), uintptr(unsafe.Pointer(&name[0])),
			unix.AT_STATX_DONT_SYNC|unix.AT_NO_AUTOMOUNT, unix.STATX_INO, uintptr(unsafe.Pointer(&st)), 0)
		switch {
		case errno == unix.EINTR:
			continue
		case errno != 0:
			return 0, 0, errno
		case st.Mask&unix.STATX_INO == 0:
			return 0, 0, unix.ENODATA
		}
		return unix.Mkdev(st.Dev_major, st.Dev_minor), st.Ino, nil
	}
}

// isAnonymous reports by its link whether a descriptor is of something that no filesystem
// has. The link does not say it while its process is in execve, but a wait for that ends
// with who waits.
func (r *Reader) isAnonymous(path string, fd int32) bool {
	var buf [links.Start]byte
	n, err := unix.Readlinkat(r.root.Dir(), path+"fd/"+strconv.Itoa(int(fd)), buf[:])
	return err == nil && links.IsAnonymous(buf[:n])
}
