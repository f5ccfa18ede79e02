package fs

import "golang.org/x/sys/unix"

// An append descriptor goes on in the file that has the name now, and so does what a program
// changes through it of the metadata: fchmod(2), fchown(2), futimens(3), fsetxattr(2). The kernel
// names the file that was opened, which may have been replaced since.

// alsoFollowed makes a change of n's metadata that the caller asks for. If the caller's appenders
// go on in another file, that is changed first, and n after it: the descriptor shows n's.
func (f *FS) alsoFollowed(c *caller, n *inode, change func(n *inode) unix.Errno) unix.Errno {
	if k := f.followed(c, n); k != nil {
		defer f.forget(k, 1)
		m := f.behind(k)
		if e := change(m); e != 0 {
			return e
		}
		f.forgetAttrs(m)
	}
	return change(n)
}

// followed is the node, with a reference, of the file in which the caller's appenders of n go on
// that was replaced; nil: there are none. The kernel has judged by n what the caller may change, so
// that file has the same owner, and the caller is that or may write it.
func (f *FS) followed(c *caller, n *inode) *kernelNode {
	a := f.appenderOn(c, n)
	if a == nil {
		return nil
	}
	id, named, e := a.Following()
	dir, name := f.nameOf(n)
	if e != 0 || !named || keyOf(id) == n.key || dir == nil {
		return nil
	}
	var st, was unix.Stat_t
	k, e := f.child(dir, name, &st)
	if e != 0 {
		return nil
	}
	m := f.behind(k)
	if f.stat(n, &was) == 0 && m.key == keyOf(id) && st.Uid == was.Uid && st.Gid == was.Gid &&
		(c.uid == st.Uid || f.mayOpen(c, f.fdOf(m), unix.O_WRONLY)) {
		return k
	}
	f.forget(k, 1)
	return nil
}

// appenderOn is an appender of n, which was replaced, that the caller may mean: one of its own
// family, or any if nobody else has n open.
func (f *FS) appenderOn(c *caller, n *inode) *appender {
	f.mu.Lock()
	if !n.saved {
		f.mu.Unlock()
		return nil
	}
	var all []*appender
	alone := true
	for _, h := range f.handles {
		switch {
		case h.n != n:
		case h.app != nil:
			all = append(all, h.app)
		default:
			alone = false
		}
	}
	f.mu.Unlock()
	for _, a := range all {
		if alone || c.kinOf(&identity{owner: a.c.owner}) {
			return a
		}
	}
	return nil
}
