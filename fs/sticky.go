package fs

import (
	"slices"

	"golang.org/x/sys/unix"

	"latchfs/fs/asuser"
	"latchfs/journal/commit"
)

// In a sticky directory a name is taken away by the file's owner, by the directory's,
// or by root (inode(7)). The kernel has looked at the file that had the name when the
// request came, and another user's file may have it by now. So the kernel is asked
// again by the very call that takes the name away, which is made as the caller.

// taker runs calls that take names in dirs away, on behalf of the caller.
func (f *FS) taker(c *caller, dirs ...*node) commit.Runner {
	if !f.privileged || c.uid == 0 || !slices.ContainsFunc(dirs, f.isSticky) {
		return func(do func() error) error { return do() }
	}
	return func(do func() error) error {
		err := asuser.Identity{UID: c.uid, GID: c.gid}.DoOwn(do)
		if err == unix.EPERM && c.takesAny() {
			return do()
		}
		return err
	}
}

// mayTake is the same question where the file is replaced later: it is compared with
// st then.
func (f *FS) mayTake(c *caller, dir *node, st *unix.Stat_t) unix.Errno {
	var up unix.Stat_t
	switch {
	case !f.privileged || c.uid == 0 || c.uid == st.Uid:
		return 0
	case unix.Fstat(f.fdOf(dir), &up) != nil || up.Mode&unix.S_ISVTX == 0 || c.uid == up.Uid || c.takesAny():
		return 0
	}
	return unix.EPERM
}

func (f *FS) isSticky(dir *node) bool {
	var st unix.Stat_t
	return unix.Fstat(f.fdOf(dir), &st) == nil && st.Mode&unix.S_ISVTX != 0
}

// takesAny reports whether the caller's capabilities let it take any name away.
func (c *caller) takesAny() bool {
	return c.tid != 0 && c.f.proc.HasCap(uint32(c.tid), unix.CAP_FOWNER)
}
