package reach

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

// MayLock refuses locks on what the user could not keep others from by opening
// it: a lock needs the right to write. Whoever may only read can share a lock, which
// is a weak one.
func (r Root) MayLock(u *access.User, t *lockkey.Target, m lockmgr.Mode) (weak bool, err error) {
	for _, p := range t.Paths {
		e := r.MayReach(u, p, access.Write)
		if e == unix.EACCES && m == lockmgr.Shared {
			weak = true
			e = r.MayReach(u, p, access.Read)
		}
		if e != 0 {
			return false, fmt.Errorf("%q: %w", p, e)
		}
	}
	for _, p := range t.Trees {
		// Even a shared one keeps all writers out.
		if e := r.mayLockTree(u, p); e != 0 {
			return false, fmt.Errorf("%q: %w: a directory is locked with all below it by its owner or root alone", p, e)
		}
	}
	return weak, nil
}

// MayClaim is MayLock for a claim of a file, exclusive, which may stand for what is still to
// be made, with the directories above it.
func (r Root) MayClaim(u *access.User, t *lockkey.Target) error {
	made := *t
	made.Paths = nil
	for _, p := range t.Paths {
		for dir := path.Dir(p); dir != "."; dir = path.Dir(dir) {
			if _, found, e := r.Stat(nil, dir); found && e == 0 || e != 0 && e != unix.ENOENT {
				break
			}
			p = dir // whoever may make this may make what is below
		}
		made.Paths = append(made.Paths, p)
	}
	_, err := r.MayLock(u, &made, lockmgr.Exclusive)
	return err
}

// mayLockTree reports whether the user may lock a directory with all below it.
func (r Root) mayLockTree(u *access.User, p string) unix.Errno {
	st, found, e := r.Stat(u, p)
	switch {
	case e != 0:
		return e
	case !found || st.Mode&unix.S_IFMT != unix.S_IFDIR:
		return r.MayReach(u, p, access.Write)
	case !Owns(u, &st):
		return unix.EACCES
	}
	return 0
}
