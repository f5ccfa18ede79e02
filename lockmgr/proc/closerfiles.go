package proc

import (
	"errors"
	"strconv"

	"golang.org/x/sys/unix"

	"latchfs/lockmgr"
	"latchfs/lockmgr/proc/internal/links"
	"latchfs/lockmgr/proc/internal/procfs"
)

// OpensOfCloser is Opens for the process that has sent the FLUSH at hand, and is not in
// execve as far as Closer has seen: it cannot enter it before the answer, so that nothing
// but some other kind of file could make the look wait, and those are looked at patiently.
func (r *Reader) OpensOfCloser(o lockmgr.Owner, f File) (writable, readable int, err error) {
	k := r.keeper.borrow(o.PID)
	if k == nil {
		return r.Opens(o.PID, f)
	}
	defer r.keeper.giveBack(k)
	c := &openCounter{r: r, pid: o.PID, file: f}
	if k.o != o || c.countKept(k) != nil {
		return r.Opens(o.PID, f)
	}
	return c.writable, c.readable, nil
}

// maxOpened is how many descriptors may be of files whose fdinfo is not kept. With more a
// patient look, which asks for an fdinfo only where the inode is the file's, costs less.
const maxOpened = keptInfos

// errUnclear means that the descriptors have to be looked at patiently.
var errUnclear = errors.New("not to be seen at once")

// countKept goes through the descriptors of a process of which files are kept.
func (c *openCounter) countKept(k *kept) error {
	k.list.Lock()
	defer k.list.Unlock()
	dir, any, opened := k.files[keptFD], false, 0
	if _, err := unix.Seek(dir, 0, 0); err != nil {
		return err
	}
	err := procfs.Numbers(dir, func(fd int32) error {
		any = true
		var buf [links.Start]byte
		n, err := unix.Readlinkat(dir, strconv.Itoa(int(fd)), buf[:])
		switch {
		case err == unix.ENOENT:
			return nil // closed since it was listed
		case err != nil || links.MayWait(buf[:n]):
			return errUnclear
		case links.IsAnonymous(buf[:n]):
			return nil
		}
		if fd >= keptInfos {
			if opened++; opened > maxOpened {
				return errUnclear
			}
		}
		return procfs.IgnoreGone(c.lookKept(k, fd))
	})
	if err == nil && !any {
		err = errUnclear
	}
	return err
}

// lookKept is look at a descriptor whose fdinfo may be kept.
func (c *openCounter) lookKept(k *kept, fd int32) error {
	if fd >= keptInfos {
		return c.lookAtInfo(c.r.root.Dir(), procfs.PIDPath(c.pid, "fdinfo/"+strconv.Itoa(int(fd))))
	}
	if k.infos[fd] < 0 {
		info, err := procfs.OpenAt(c.r.root.Dir(), procfs.PIDPath(c.pid, "fdinfo/"+strconv.Itoa(int(fd))), unix.O_RDONLY)
		if err != nil {
			return err
		}
		k.infos[fd] = info
	}
	_, err := procfs.Reread(k.infos[fd], c.take)
	return err
}
