package fs

import (
	"golang.org/x/sys/unix"

	"latchfs/fs/calling"
	"latchfs/lockmgr"
)

// An append descriptor goes on in the file that has the name now, and so does what a program
// changes through it of the metadata: fchmod(2), fchown(2), futimens(3), fsetxattr(2). The kernel
// names the file that was opened, which may have been replaced since.

// alsoFollowed makes a change of n's metadata that the caller asks for. If the caller's appenders
// go on in another file, that is changed first, and n after it: the descriptor shows n's.
func (ap *appending) alsoFollowed(c *caller, n *inode, change func(n *inode) unix.Errno) unix.Errno {
	if k := ap.followed(c, n); k != nil {
		defer ap.kernel.forget(k, 1)
		m := ap.kernel.behind(k)
		if e := change(m); e != 0 {
			return e
		}
		ap.kernel.forgetAttrs(m)
	}
	return change(n)
}

// followed is the node, with a reference, of the file in which the caller's appenders of n go on
// that was replaced; nil: there are none. The kernel has judged by n what the caller may change, so
// that file has the same owner, and the caller is that or may write it.
func (ap *appending) followed(c *caller, n *inode) *kernelNode {
	a := ap.appenderOn(c, n)
	if a == nil {
		return nil
	}
	id, named, e := a.Following()
	dir, name := ap.nodes.nameOf(n)
	if e != 0 || !named || keyOf(id) == n.key || dir == nil {
		return nil
	}
	var st, was unix.Stat_t
	k, e := ap.names.child(dir, name, &st)
	if e != 0 {
		return nil
	}
	m := ap.kernel.behind(k)
	if ap.names.stat(n, &was) == 0 && m.key == keyOf(id) && st.Uid == was.Uid && st.Gid == was.Gid &&
		(c.UID() == st.Uid || c.MayOpen(ap.nodes.fdOf(m), unix.O_WRONLY)) {
		return k
	}
	ap.kernel.forget(k, 1)
	return nil
}

// appenderOn is an appender of n, which was replaced, that the caller may mean: one of its own
// family, or any if nobody else has n open.
func (ap *appending) appenderOn(c *caller, n *inode) *appender {
	ap.nodes.mu.Lock()
	if !n.saved {
		ap.nodes.mu.Unlock()
		return nil
	}
	var all []*appender
	alone := true
	for _, h := range ap.handles.open {
		switch {
		case h.n != n:
		case h.app != nil:
			all = append(all, h.app)
		default:
			alone = false
		}
	}
	ap.nodes.mu.Unlock()
	for _, a := range all {
		if alone || c.BelongsTo(calling.NewIdentity(a.c.Owner(), lockmgr.Birth{})) {
			return a
		}
	}
	return nil
}
