package fs

import "latchfs/fs/dcache"

// dentry is a name in the mount, with what is kept with it. The root's is that of the
// data directory. All dentries and their states are guarded by nodes.mu.
type dentry = dcache.Dentry[nameState]

// otherDentries are names that a file had before the last one that was seen.
type otherDentries = dcache.Earlier[nameState]

// nameState is what is kept with a name. Whoever enters something has a reference on the
// dentry for as long.
type nameState struct {
	dir    *inode      // the directory that has the name, as long as we know it
	sess   *session    // who writes the next version of what has the name
	staged *stagedName // what a transaction has done to it
	stale  int         // callers who were told to walk again
	live   liveBy      // what has made the file live that has the name
	former []*inode    // files that lost the name to newer versions, and may be open still
}

// busy reports whether what the name leads to depends on who asks, or may in a moment.
func (d *nameState) busy() bool { return d.sess != nil || d.staged != nil || d.stale > 0 }

// nameLocked is what is kept with a name in dir; nothing if there is no dentry, which
// is not to be changed then. nodes.mu is held.
func (ns *nodes) nameLocked(dir *inode, name string) nameState {
	if d := ns.dentries.Find(dir.dentry, name); d != nil {
		return d.State
	}
	return nameState{}
}

func (ns *nodes) isBusyNameLocked(dir *inode, name string) bool {
	is := ns.nameLocked(dir, name)
	return is.busy()
}

// setNameLocked records the name under which n was last seen; parent is nil of a file that
// never had one (O_TMPFILE). nodes.mu is held.
func (ns *nodes) setNameLocked(n, parent *inode, name string) {
	if parent == nil {
		return
	}
	named := n.dentry != nil && ns.dentries.Find(parent.dentry, name) == n.dentry
	if n.parent == parent && named {
		return
	}
	old := n.parent
	switch {
	case named:
		// Its dentry has been moved already.
	case n.isDir():
		ns.nameDirLocked(n, parent, name)
	default:
		n.leaveFormer()
		if n.dentry != nil && n.isRegular() {
			n.others.Note(ns.dentries, n.dentry)
		} else if n.dentry != nil {
			ns.dentries.Put(n.dentry)
		}
		n.dentry = ns.dentries.Get(parent.dentry, name)
		if n.saved {
			n.joinFormer()
		}
	}
	n.parent = parent
	parent.pins++
	if old != nil {
		ns.unpinLocked(old)
	}
	n.regainedLocked()
}

// getName is the dentry of a name in dir, with a reference.
func (ns *nodes) getName(dir *inode, name string) *dentry {
	ns.mu.Lock()
	defer ns.mu.Unlock()
	return ns.dentries.Get(dir.dentry, name)
}

// putName gives back a reference on a dentry.
func (ns *nodes) putName(d *dentry) {
	ns.mu.Lock()
	defer ns.mu.Unlock()
	ns.dentries.Put(d)
}

// nameDirLocked gives a directory its dentry, or moves that to another name. nodes.mu is
// held.
func (ns *nodes) nameDirLocked(n, parent *inode, name string) {
	if n.dentry != nil {
		ns.dentries.Move(n.dentry, parent.dentry, name)
		return
	}
	n.dentry = ns.dentries.GetUnless(parent.dentry, name, func(d *nameState) bool {
		return d.dir != nil && d.dir.key != n.key // it was removed, or replaced outside the mount, and is still in use
	})
	if n.dentry.State.dir == nil {
		n.dentry.State.dir = n
	}
}

// strandLocked takes a directory away from the one that it was last seen in, which is
// about to be found below it: it is somewhere until it is next looked up. nodes.mu is held.
func (ns *nodes) strandLocked(n *inode) {
	root := ns.kernelNodes[rootID].in
	ns.dentries.Strand(n.dentry)
	root.pins++
	old := n.parent
	n.parent = root
	ns.unpinLocked(old)
}

// dropNamesLocked gives n's names back. nodes.mu is held.
func (ns *nodes) dropNamesLocked(n *inode) {
	if n.dentry == nil {
		return
	}
	if n.dentry.State.dir == n {
		n.dentry.State.dir = nil
	}
	n.leaveFormer()
	ns.dentries.Put(n.dentry)
	n.others.Drop(ns.dentries)
	n.dentry = nil
}

// nameOf returns the directory and name under which n was last seen; parent is
// nil for the root and for inodes without a name.
func (ns *nodes) nameOf(n *inode) (parent *inode, name string) {
	ns.mu.Lock()
	defer ns.mu.Unlock()
	return n.namedLocked()
}

// namedLocked is nameOf. nodes.mu is held.
func (n *inode) namedLocked() (parent *inode, name string) {
	if n.parent == nil {
		return nil, ""
	}
	return n.parent, n.dentry.Name()
}

// nameKey is n's name as the kernel asks for it; zero if it has none.
func (ns *nodes) nameKey(n *inode) dkey {
	ns.mu.Lock()
	defer ns.mu.Unlock()
	return n.keyLocked()
}

// keyLocked is nameKey. nodes.mu is held.
func (n *inode) keyLocked() dkey {
	if n.parent == nil {
		return dkey{}
	}
	return dkey{n.parent, n.dentry.Name()}
}

// pathLocked is the path of name in dir relative to the root. nodes.mu is held.
func pathLocked(dir *inode, name string) string { return dir.dentry.Join(name) }

// path is the path of name in dir relative to the root.
func (ns *nodes) path(dir *inode, name string) string {
	ns.mu.Lock()
	defer ns.mu.Unlock()
	return pathLocked(dir, name)
}

// nodePath is the path under which n was last seen, "" for the root.
func (ns *nodes) nodePath(n *inode) string {
	ns.mu.Lock()
	defer ns.mu.Unlock()
	return n.pathLocked()
}

// pathLocked is nodePath. nodes.mu is held.
func (n *inode) pathLocked() string {
	if n.parent == nil {
		return ""
	}
	return n.dentry.Path()
}

// liveBy is what has made the file live that has a name.
type liveBy uint8

const (
	notLive      liveBy = iota
	liveByUse           // its users treat it as a database: see commits.autoLive
	liveByHandle        // its descriptors are of a live name that it had: see live.carryLive
)

// liveBy is what has made the file live that has a path.
func (ns *nodes) liveBy(path string) liveBy {
	ns.mu.Lock()
	defer ns.mu.Unlock()
	if d := ns.dentries.At(path); d != nil {
		return d.State.live
	}
	return notLive
}

// isLivePath reports whether the file at path is live although its name is not.
func (ns *nodes) isLivePath(path string) bool { return ns.liveBy(path) != notLive }

// setLiveLocked notes what makes the file live that has a name. nodes.mu is held.
func (ns *nodes) setLiveLocked(d *dentry, by liveBy) {
	was := d.State.live
	d.State.live = by
	switch {
	case was == notLive && by != notLive:
		ns.dentries.Ref(d)
	case was != notLive && by == notLive:
		ns.dentries.Put(d)
	}
}

// setLiveNameLocked is setLiveLocked for a name in dir. nodes.mu is held.
func (ns *nodes) setLiveNameLocked(dir *inode, name string, by liveBy) {
	d := ns.dentries.Get(dir.dentry, name)
	ns.setLiveLocked(d, by)
	ns.dentries.Put(d)
}
