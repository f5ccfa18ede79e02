package fs

import (
	"fmt"

	"golang.org/x/sys/unix"

	"latchfs/fs/printable"
	"latchfs/lockmgr/policy"
)

// isReadOnly refuses to change what has a name, if the policy says that nobody does: EROFS.
func (f *FS) isReadOnly(h *Request, op string, dir *inode, name string) unix.Errno {
	path := f.path(dir, name)
	set := f.settings(path)
	if set.Mode != policy.ReadOnly {
		return 0
	}
	return f.refuseReadOnly(h, op, path, &set)
}

// refuseReadOnly refuses to change what has settings of mode readonly.
func (f *FS) refuseReadOnly(h *Request, op, path string, set *policy.Settings) unix.Errno {
	return f.explainReadOnly(h, op, path, fmt.Sprintf(`The policy says that nobody changes it (mode = "readonly", by %s)`, printable.Line(set.Rule)))
}

// keepsName is isReadOnly for what is to get another name, too: with a directory's name the
// policy may say that what is below is read-only.
func (f *FS) keepsName(h *Request, dir *inode, name string) unix.Errno {
	if e := f.isReadOnly(h, opRename, dir, name); e != 0 {
		return e
	}
	path := f.path(dir, name)
	var st unix.Stat_t
	if !f.policy.HoldsReadOnly(path) || unix.Fstatat(f.fdOf(dir), name, &st, unix.AT_SYMLINK_NOFOLLOW) != nil || !isDirectory(&st) {
		return 0
	}
	return f.explainReadOnly(h, opRename, path, `The policy says by this name that files below are read-only (mode = "readonly"), which they would not be under another`)
}

// mayNameAlso is isReadOnly for a name that is to be one more of n, and for n, which could be
// changed by it.
func (f *FS) mayNameAlso(h *Request, n *inode, p place) unix.Errno {
	if e := f.isReadOnly(h, opLink, p.dir, p.name); e != 0 {
		return e
	}
	dir, name := f.nameOf(n)
	if dir == nil || !n.isRegular() {
		return 0
	}
	return f.isReadOnly(h, opLink, dir, name)
}

func (f *FS) explainReadOnly(h *Request, op, path, reason string) unix.Errno {
	c := f.callerOf(h)
	return f.refuseWith(c, op, path, unix.EROFS, reason, "latchfs policy shows what holds for a path, and by which rule.")
}
