package records

import (
	"golang.org/x/sys/unix"

	"latchfs/fs/appends"
	"latchfs/fs/sys"
)

// Allocate is fallocate(2) on the descriptor with a mode, as far as that gives the file room, as
// posix_fallocate(3) does: the file may get longer, and what is appended comes behind that. Other
// modes change what the file holds. Where lines are judged, nothing but lines comes to its end.
// do makes the call on a descriptor of the file.
func (a *Appender) Allocate(w appends.Writer, mode uint32, do func(fd int) error) unix.Errno {
	host := a.c.Host
	if mode&^unix.FALLOC_FL_KEEP_SIZE != 0 || host.JudgesLines() {
		return unix.ENOTSUP
	}
	own := func() (unix.Errno, bool) { return host.AllocateOwn(w, do) }
	return a.changeAsIs(w, own, func(uint64) unix.Errno {
		var before, after unix.Stat_t
		if err := unix.Fstat(a.fd, &before); err != nil {
			return sys.Errno(err)
		}
		ch, _ := a.changeLocked(Appended)
		if err := a.tail.Allocate(func() error { return do(a.fd) }); err != nil {
			return sys.Errno(err)
		}
		if err := unix.Fstat(a.fd, &after); err != nil {
			return sys.Errno(err)
		}
		tell(ch, a.fd)
		a.growLocked(int(after.Size - before.Size))
		host.ShowEnd(a.id, a.fd, appends.Written)
		return 0
	})
}
