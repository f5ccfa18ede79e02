package fs

import (
	"golang.org/x/sys/unix"
)

// keepsName is isReadOnly for what is to get another name, too: with a directory's name the
// policy may say that what is below is read-only.
func (nm *names) keepsName(h *Request, dir *inode, name string) unix.Errno {
	if e := nm.reports.isReadOnly(h, opRename, dir, name); e != 0 {
		return e
	}
	path := nm.nodes.path(dir, name)
	var st unix.Stat_t
	if !nm.rules.policy.HoldsReadOnly(path) || unix.Fstatat(nm.nodes.fdOf(dir), name, &st, unix.AT_SYMLINK_NOFOLLOW) != nil || !isDirectory(&st) {
		return 0
	}
	return nm.reports.explainReadOnly(h, opRename, path, `The policy says by this name that files below are read-only (mode = "readonly"), which they would not be under another`)
}

// mayNameAlso is isReadOnly for a name that is to be one more of n, and for n, which could be
// changed by it.
func (nm *names) mayNameAlso(h *Request, n *inode, p place) unix.Errno {
	if e := nm.reports.isReadOnly(h, opLink, p.dir, p.name); e != 0 {
		return e
	}
	dir, name := nm.nodes.nameOf(n)
	if dir == nil || !n.isRegular() {
		return 0
	}
	return nm.reports.isReadOnly(h, opLink, dir, name)
}
