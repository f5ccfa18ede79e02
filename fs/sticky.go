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
func (cs *callers) taker(c *caller, dirs ...*inode) commit.Runner {
	if !cs.disk.privileged || c.UID() == 0 || !slices.ContainsFunc(dirs, cs.isSticky) {
		return func(do func() error) error { return do() }
	}
	return c.AsOwn
}

// asOwner is what the store takes names away with; see commit.Store.SetOwners.
func asOwner(uid, gid uint32) commit.Runner { return asuser.Identity{UID: uid, GID: gid}.DoOwn }

// mayTake decides whether the caller may take the name of the file st in dir away. It is for
// names that the store takes away later, on behalf of the file's owner.
func (cs *callers) mayTake(c *caller, dir *inode, st *unix.Stat_t) unix.Errno {
	var up unix.Stat_t
	switch {
	case !cs.disk.privileged || c.UID() == 0 || c.UID() == st.Uid:
		return 0
	case unix.Fstat(cs.nodes.fdOf(dir), &up) != nil || up.Mode&unix.S_ISVTX == 0 || c.UID() == up.Uid || c.HasCap(unix.CAP_FOWNER):
		return 0
	}
	return unix.EPERM
}

// mayTake is callers.mayTake for what has a name, unless the transaction has taken it away
// already.
func (t *txn) mayTake(c *caller, p place) unix.Errno {
	var st unix.Stat_t
	if t.txns.stagedAt(p.dir, p.name) != nil || unix.Fstatat(t.nodes.fdOf(p.dir), p.name, &st, unix.AT_SYMLINK_NOFOLLOW) != nil {
		return 0
	}
	return t.callers.mayTake(c, p.dir, &st)
}

func (cs *callers) isSticky(dir *inode) bool {
	var st unix.Stat_t
	return unix.Fstat(cs.nodes.fdOf(dir), &st) == nil && st.Mode&unix.S_ISVTX != 0
}
