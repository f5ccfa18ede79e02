package fs

import (
	"golang.org/x/sys/unix"
)

// settleTouched makes a lazily published file durable before it gets a later
// modification time, which a recovery would take for a change outside the mount.
func (rc *recorder) settleTouched(in *SetAttrRequest, n *inode) unix.Errno {
	if rc.disk.store == nil || in.Set&(SetMtime|SetMtimeNow) == 0 {
		return 0
	}
	var st unix.Stat_t
	if err := unix.Fstat(rc.nodes.fdOf(n), &st); err != nil {
		return errnoOf(err)
	}
	if in.Set&SetMtimeNow == 0 && in.Mtime.Nano() <= st.Mtim.Nano() {
		return 0 // as of rsync, which sets the original's
	}
	return errnoOf(rc.disk.store.SettleLazy(&st))
}
