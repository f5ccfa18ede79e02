package fs

import (
	"golang.org/x/sys/unix"

	"latchfs/lockmgr/policy"
)

// told tells .locks/why of a refusal of a request by a filesystem below the mount that is
// read-only, and returns e. The request was about name in the directory that is the node at,
// or about the node itself. What the policy refuses is told where that is found.
func (s Requests) told(h *Request, op string, at uint64, name string, e unix.Errno) unix.Errno {
	if e != unix.EROFS || s.f.disk.opts.ReadOnly || isVirtual(at) {
		return e
	}
	path := s.pathOf(at, name)
	if s.f.reports.isKept(path) {
		return e
	}
	return s.f.reports.refuseWith(s.f.callers.callerOf(h), op, path, e,
		"The filesystem that has the data is read-only there: it is mounted so, or an error of the disk has made it so",
		"Nothing was changed. `findmnt` shows how it is mounted, and `dmesg` the errors of the disk.")
}

// pathOf is the path of name in the directory that is the node at, or of the node itself.
func (s Requests) pathOf(at uint64, name string) string {
	n := s.f.kernel.inodeOf(at)
	switch {
	case n == nil:
		return name
	case name == "":
		return s.f.nodes.nodePath(n)
	}
	return s.f.nodes.path(n, name)
}

// isKept reports whether the policy says that nobody changes what has the path, or something
// below.
func (rp *reports) isKept(path string) bool {
	return rp.rules.settings(path).Mode == policy.ReadOnly || rp.rules.policy.HoldsReadOnly(path)
}

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
