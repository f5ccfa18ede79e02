package fs

import (
	"golang.org/x/sys/unix"
)

// settleTouched makes a lazily published file durable before it gets a later
// modification time, which a recovery would take for a change around the mount.
func (f *FS) settleTouched(in *SetAttrRequest, n *inode) unix.Errno {
	if f.store == nil || in.Set&(SetMtime|SetMtimeNow) == 0 {
		return 0
	}
	var st unix.Stat_t
	if err := unix.Fstat(f.fdOf(n), &st); err != nil {
		return errnoOf(err)
	}
	if in.Set&SetMtimeNow == 0 && in.Mtime.Nano() <= st.Mtim.Nano() {
		return 0 // as of rsync, which sets the original's
	}
	return errnoOf(f.store.SettleLazy(&st))
}
