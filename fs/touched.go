package fs

import (
	"github.com/hanwen/go-fuse/v2/fuse"
	"golang.org/x/sys/unix"
)

// settleTouched makes a lazily published file durable before it gets a later
// modification time, which a recovery would take for a change around the mount.
func (f *FS) settleTouched(in *fuse.SetAttrIn, n *inode) unix.Errno {
	if f.store == nil || in.Valid&(fuse.FATTR_MTIME|fuse.FATTR_MTIME_NOW) == 0 {
		return 0
	}
	var st unix.Stat_t
	if err := unix.Fstat(f.fdOf(n), &st); err != nil {
		return errnoOf(err)
	}
	set := unix.Timespec{Sec: int64(in.Mtime), Nsec: int64(in.Mtimensec)}
	if in.Valid&fuse.FATTR_MTIME_NOW == 0 && set.Nano() <= st.Mtim.Nano() {
		return 0 // as of rsync, which sets the original's
	}
	return errnoOf(f.store.SettleLazy(&st))
}
