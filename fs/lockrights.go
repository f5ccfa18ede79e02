package fs

import (
	"fmt"
	"path"

	"golang.org/x/sys/unix"

	"latchfs/fs/access"
	"latchfs/fs/lockkey"
	"latchfs/lockmgr"
)

// A lock adds no right to anybody: nobody keeps others from what it could not keep
// them from by itself. So a lock binds sessions if its holder may write the file,
// and is advisory otherwise, as it is on a plain filesystem (lockmgr.Request.Weak).
// A lock on a directory with all below it takes the directory's owner, for others
// may write there what it keeps everybody from.

// mayKeepOut reports whether a lock through h binds more than other lockers: the
// caller may write the file, or was given a descriptor to write it.
func (f *FS) mayKeepOut(c *caller, h *handle) bool {
	if c.uid == 0 || h.flags&unix.O_ACCMODE != unix.O_RDONLY {
		return true
	}
	return f.mayAccess(c, f.fdOf(h.n), access.Write)
}

// mayAccess reports whether the owner, the mode and the ACL of what is open as fd, which
// may be O_PATH, give the caller these rights. When in doubt, no.
func (f *FS) mayAccess(c *caller, fd int, want uint32) bool {
	if c.uid == 0 {
		return true
	}
	var st unix.Stat_t
	if unix.Fstat(fd, &st) != nil {
		return false
	}
	acl, ok := aclOf(fd)
	u := access.User{UID: c.uid, GIDs: append([]uint32{c.gid}, c.supplementary()...), All: c.groupsKnown}
	return ok && u.May(want, &access.File{UID: st.Uid, GID: st.Gid, Mode: st.Mode, ACL: acl})
}

// mayLock refuses locks on what the caller could not keep others from by opening
// it: a lock needs the right to write. Whoever may only read can share a lock, which
// is a weak one.
func (f *FS) mayLock(c *caller, t *lockkey.Target, m lockmgr.Mode) (weak bool, err error) {
	for _, p := range t.Paths {
		e := f.mayReach(c, p, access.Write)
		if e == unix.EACCES && m == lockmgr.Shared {
			weak = true
			e = f.mayReach(c, p, access.Read)
		}
		if e != 0 {
			return false, fmt.Errorf("%q: %w", p, e)
		}
	}
	for _, p := range t.Trees {
		// Even a shared one keeps all writers out.
		if e := f.mayLockTree(c, p); e != 0 {
			return false, fmt.Errorf("%q: %w: a directory is locked with all below it by its owner or root alone", p, e)
		}
	}
	return weak, nil
}

// mayReach checks the caller's rights on a path; where it leads to nothing yet,
// those on its directory.
func (f *FS) mayReach(c *caller, p string, bits uint32) unix.Errno {
	dir, e := f.openParent(c, p)
	if e != 0 {
		return e
	}
	defer unix.Close(dir)
	var st, up unix.Stat_t
	err := unix.Fstatat(dir, path.Base("/"+p), &st, unix.AT_SYMLINK_NOFOLLOW)
	if e := unix.Fstat(dir, &up); e != nil {
		return errnoOf(e)
	}
	link := err == nil && st.Mode&unix.S_IFMT == unix.S_IFLNK
	at := dir
	switch {
	case p == "" || err == unix.ENOENT || link && (up.Mode&unix.S_ISVTX == 0 || owns(c, &st) || owns(c, &up)):
		bits = access.Write // what a lock on a name alone keeps others from
	case link:
		return unix.EACCES
	case err != nil:
		return errnoOf(err)
	default:
		if at, err = unix.Openat(dir, path.Base(p), unix.O_PATH|unix.O_NOFOLLOW|unix.O_CLOEXEC, 0); err != nil {
			return errnoOf(err)
		}
		defer unix.Close(at)
	}
	if !f.mayAccess(c, at, bits) {
		return unix.EACCES
	}
	return 0
}

// mayLockTree reports whether the caller may lock a directory with all below it.
func (f *FS) mayLockTree(c *caller, p string) unix.Errno {
	st, found, e := f.statOf(c, p)
	switch {
	case e != 0:
		return e
	case !found || st.Mode&unix.S_IFMT != unix.S_IFDIR:
		return f.mayReach(c, p, access.Write)
	case !owns(c, &st):
		return unix.EACCES
	}
	return 0
}

// statOf is the file at a path or, where there is none, its directory. The caller must
// be allowed to search to it.
func (f *FS) statOf(c *caller, p string) (st unix.Stat_t, found bool, e unix.Errno) {
	dir, e := f.openParent(c, p)
	if e != 0 {
		return st, false, e
	}
	defer unix.Close(dir)
	if p != "" {
		err := unix.Fstatat(dir, path.Base(p), &st, unix.AT_SYMLINK_NOFOLLOW)
		if err != unix.ENOENT {
			return st, true, errnoOf(err)
		}
	}
	return st, p == "", errnoOf(unix.Fstat(dir, &st))
}

func owns(c *caller, st *unix.Stat_t) bool { return c.uid == 0 || c.uid == st.Uid }
