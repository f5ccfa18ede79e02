package fs

import (
	"golang.org/x/sys/unix"

	"latchfs/journal/commit"
)

// Lookup finds what a name in a directory leads to. That depends on who asks only while a
// session is on the name.
func (f *FS) Lookup(_ <-chan struct{}, h *Request, name string, out *Entry) unix.Errno {
	if isVirtual(h.Node) || h.Node == rootID && name == f.opts.LocksDir {
		return f.virt.lookup(h, name, out)
	}
	if commit.Reserved(name) {
		return unix.ENOENT
	}
	parent := f.inodeOf(h.Node)
	if parent == nil {
		return unix.ESTALE
	}
	f.walks.LookedUp(h.TID, dkey{parent, name})
	k, volatile, e := f.resolve(h, parent, name)
	if e != 0 {
		return e
	}
	var st unix.Stat_t
	if k != nil && f.hasEnded(k, &st) {
		k, volatile = nil, true
	}
	if k == nil {
		if k, e = f.childOrDue(parent, name, &st); e == unix.ENOENT {
			// NodeId 0 with a timeout is a negative entry.
			if f.walks.Any() {
				f.missing(f.callerOf(h), dkey{parent, name})
			}
			if !volatile && !f.isBusyName(parent, name) && !f.mayComeBack(parent, name) {
				out.NameTTL = entryTTL
			}
			return 0
		}
		if other, v := f.otherName(h, k, volatile); e == 0 && other != k {
			k, volatile = other, v
			e = f.stat(f.behind(k), &st)
		} else if e == 0 {
			volatile = v
		}
	} else {
		e = f.stat(f.behind(k), &st)
	}
	if e != 0 {
		return e
	}
	f.glance(parent, name, f.behind(k), &st)
	f.fillEntry(out, k, &st, volatile || f.isBusyName(parent, name))
	return 0
}

// hasEnded reports whether the session whose node was just found is over, and
// has left the node without a name; the reference is given back then.
func (f *FS) hasEnded(k *kernelNode, st *unix.Stat_t) bool {
	if e := f.stat(f.behind(k), st); e != 0 || st.Nlink > 0 {
		return false
	}
	f.mu.Lock()
	defer f.mu.Unlock()
	if k.in.sess != nil {
		return false
	}
	f.forgetLocked(k, 1)
	return true
}

// resolve finds the node that a name in session leads the caller to, with one
// reference taken. No node means the committed file; volatile, that the answer
// is this caller's alone. ENOENT is for names that their creator has not
// committed yet.
func (f *FS) resolve(h *Request, parent *inode, name string) (k *kernelNode, volatile bool, e unix.Errno) {
	f.mu.Lock()
	is := f.nameLocked(parent, name)
	f.mu.Unlock()
	if !is.busy() {
		return nil, false, 0
	}
	s, staged := is.sess, is.staged

	c := f.callerOf(h)
	if w := f.walks.Get(c); w != nil && w.At[0] == (dkey{parent, name}) {
		if target := f.walkTarget(w); target != nil {
			return target, true, 0
		}
	}
	if s != nil && c.kinOf(s.who.Load()) && !s.isLeft() {
		f.mu.Lock()
		defer f.mu.Unlock()
		if !s.over {
			return f.lookedUpLocked(s.inode), true, 0
		}
		return nil, false, 0
	}
	if s != nil {
		s.endIfUnmapped()
	}
	if staged != nil && staged.hides(c) {
		return nil, true, unix.ENOENT
	}
	return nil, s != nil || staged != nil, 0
}

// otherName leads to a session on another name of the same inode: the caller
// who is on its way there, and the session's family.
func (f *FS) otherName(h *Request, k *kernelNode, volatile bool) (*kernelNode, bool) {
	if k == nil {
		return nil, volatile
	}
	f.mu.Lock()
	s := k.in.shadow
	f.mu.Unlock()
	if s == nil || volatile {
		return k, volatile
	}
	c := f.callerOf(h)
	led := false
	if w := f.walks.Get(c); w != nil {
		f.walks.Arrive(w, func() bool {
			led = w.sess == s
			return led
		})
	}
	if !led && (!c.kinOf(s.who.Load()) || s.isLeft()) {
		return k, true
	}
	f.mu.Lock()
	defer f.mu.Unlock()
	if s.over {
		return k, true
	}
	f.forgetLocked(k, 1)
	return f.lookedUpLocked(s.inode), true
}

// walkTarget takes a reference on the node to which a walk is led.
func (f *FS) walkTarget(w *walk) *kernelNode {
	var s *session
	var k *kernelNode
	f.walks.Arrive(w, func() bool {
		s, k = w.sess, w.node
		return true
	})
	f.mu.Lock()
	defer f.mu.Unlock()
	if k != nil && f.nodes[k.id] == k {
		k.nlookup++
		return k
	}
	if s == nil || s.over {
		return nil
	}
	return f.lookedUpLocked(s.inode)
}

// isBusyName reports whether a session began on a name while we looked it up:
// its answer must not be cached then.
func (f *FS) isBusyName(dir *inode, name string) bool {
	f.mu.Lock()
	defer f.mu.Unlock()
	return f.isBusyNameLocked(dir, name)
}

func (f *FS) isBusyNameLocked(dir *inode, name string) bool {
	is := f.nameLocked(dir, name)
	return is.busy()
}
