package fs

import (
	"fmt"
	"path"
	"slices"
	"strings"

	"golang.org/x/sys/unix"

	"latchfs/fs/access"
	"latchfs/fs/control"
	"latchfs/fs/denied"
	"latchfs/fs/lockkey"
	"latchfs/fs/locksdir"
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

// steal ends the locks on what the request names: those that are stale, and for the
// owner of all that is named, or root, the active ones of other users, too.
func (q *query) steal(t lockkey.Target) *control.Reply {
	f := q.f
	owner := q.owns(&t)
	if !owner {
		if _, err := f.mayLock(q.c, &t, lockmgr.Exclusive); err != nil {
			return refused(control.NotAllowed, err.Error())
		}
	}
	hs := f.table.Holders(f.keysOfTarget(&t))
	out := &control.Reply{OK: true}
	for i := range hs {
		if !q.r.Force || !hs[i].Stale && !(owner && q.isAnothers(&hs[i])) {
			return q.inTheWay(&hs[i], &t)
		}
		if err := q.maySteal(&hs[i]); err != nil {
			return refused(control.NotAllowed, err.Error())
		}
	}
	for i := range hs {
		if f.table.Steal(hs[i].Lock) == nil || owner && q.isAnothers(&hs[i]) && f.table.Revoke(hs[i].Lock) == nil {
			out.Stolen++
		}
	}
	f.settleThefts(q.c)
	if owner && q.r.Force {
		out.Stolen += q.turnAway(&t)
	}
	if out.Stolen == 0 && len(hs) == 0 {
		out.Warning = "nothing is locked"
	}
	return out
}

// inTheWay refuses a theft because of a lock that is active.
func (q *query) inTheWay(h *lockmgr.Holder, t *lockkey.Target) *control.Reply {
	asked, _ := t.First()
	r := *ptr(q.f.record(h, lockkey.Shown(h))).ShownInTheWay(asked, q.v, q.f.source.Sight(q.v))
	x := locksdir.Refusal{Path: r.Path, Name: r.Name, Errno: "EAGAIN", Holder: &r}
	ref := &control.Refusal{Error: control.Blocked}
	q.describe(ref, &r)
	ttl := r.TTL.Seconds()
	ref.Message, ref.TTLSeconds = x.Message(), &ttl
	return &control.Reply{Refusal: ref}
}

// owns reports whether all that a target names is the requester's: its files and
// directories and, where nothing has the name, the directory. Names are root's.
func (q *query) owns(t *lockkey.Target) bool {
	if q.c.uid == 0 {
		return true
	}
	mine := func(p string) bool {
		st, _, e := q.f.statOf(q.c, p)
		return e == 0 && owns(q.c, &st)
	}
	return len(t.Names) == 0 && !slices.ContainsFunc(slices.Concat(t.Paths, t.Trees), func(p string) bool { return !mine(p) })
}

// isAnothers reports whether a lock is that of another user.
func (q *query) isAnothers(h *lockmgr.Holder) bool {
	lb, _ := h.Label.(*label)
	return lb != nil && lb.c.uid != q.c.uid
}

// turnAway ends the waits of other users' requests for what a target names: they have
// no end of their own, and keep out who comes later.
func (q *query) turnAway(t *lockkey.Target) (ended int) {
	f := q.f
	keys, trees := f.keysOfTarget(t)
	covers := func(tree, k lockmgr.Key) bool {
		return tree == "" || k == tree || strings.HasPrefix(string(k), string(tree)+"/")
	}
	meets := func(h *lockmgr.Holder) bool {
		in := func(trees, keys []lockmgr.Key) bool {
			return slices.ContainsFunc(trees, func(tree lockmgr.Key) bool {
				return slices.ContainsFunc(keys, func(k lockmgr.Key) bool { return covers(tree, k) })
			})
		}
		return in(trees, h.Keys) || in(h.Trees, slices.Concat(keys, trees)) ||
			slices.ContainsFunc(keys, func(k lockmgr.Key) bool { return slices.Contains(h.Keys, k) })
	}
	for _, h := range f.table.Snapshot().Waiting {
		lb, _ := h.Label.(*label)
		if lb != nil && lb.control != 0 && q.isAnothers(&h) && meets(&h) && f.table.Cancel(h.Lock, denied.ErrTurnedAway) {
			ended++
		}
	}
	return ended
}

// maySteal refuses to take a named lock from another user: no file says who may.
func (q *query) maySteal(h *lockmgr.Holder) error {
	lb, _ := h.Label.(*label)
	if q.c.uid == 0 || lb == nil || lb.name == "" || lb.c.uid == q.c.uid {
		return nil
	}
	return fmt.Errorf("the lock %s is another user's", lb.name)
}
