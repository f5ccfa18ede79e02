package fs

import "latchfs/fs/dcache"

// dentry is a name in the mount, with what is kept with it. The root's is that of the
// data directory. All dentries and their states are guarded by FS.mu.
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
// is not to be changed then. FS.mu is held.
func (f *FS) nameLocked(dir *inode, name string) nameState {
	if d := f.names.Find(dir.dentry, name); d != nil {
		return d.State
	}
	return nameState{}
}

// setNameLocked records the name under which n was last seen; parent is nil of a file that
// never had one (O_TMPFILE). f.mu is held.
func (f *FS) setNameLocked(n, parent *inode, name string) {
	if parent == nil {
		return
	}
	named := n.dentry != nil && f.names.Find(parent.dentry, name) == n.dentry
	if n.parent == parent && named {
		return
	}
	old := n.parent
	switch {
	case named:
		// Its dentry has been moved already.
	case n.isDir():
		f.nameDirLocked(n, parent, name)
	default:
		n.leaveFormer()
		if n.dentry != nil && n.isRegular() {
			n.others.Note(f.names, n.dentry)
		} else if n.dentry != nil {
			f.names.Put(n.dentry)
		}
		n.dentry = f.names.Get(parent.dentry, name)
		if n.saved {
			n.joinFormer()
		}
	}
	n.parent = parent
	parent.pins++
	if old != nil {
		f.unpinLocked(old)
	}
	n.regainedLocked()
}

// getName is the dentry of a name in dir, with a reference.
func (f *FS) getName(dir *inode, name string) *dentry {
	f.mu.Lock()
	defer f.mu.Unlock()
	return f.names.Get(dir.dentry, name)
}

// putName gives back a reference on a dentry.
func (f *FS) putName(d *dentry) {
	f.mu.Lock()
	defer f.mu.Unlock()
	f.names.Put(d)
}

// nameDirLocked gives a directory its dentry, or moves that to another name. FS.mu is
// held.
func (f *FS) nameDirLocked(n, parent *inode, name string) {
	if n.dentry != nil {
		f.names.Move(n.dentry, parent.dentry, name)
		return
	}
	n.dentry = f.names.GetUnless(parent.dentry, name, func(d *nameState) bool {
		return d.dir != nil && d.dir.key != n.key // it was removed, or replaced around the mount, and is still in use
	})
	if n.dentry.State.dir == nil {
		n.dentry.State.dir = n
	}
}

// strandLocked takes a directory away from the one that it was last seen in, which is
// about to be found below it: it is somewhere until it is next looked up. FS.mu is held.
func (f *FS) strandLocked(n *inode) {
	root := f.nodes[rootID].in
	f.names.Strand(n.dentry)
	root.pins++
	old := n.parent
	n.parent = root
	f.unpinLocked(old)
}

// dropNamesLocked gives n's names back. FS.mu is held.
func (f *FS) dropNamesLocked(n *inode) {
	if n.dentry == nil {
		return
	}
	if n.dentry.State.dir == n {
		n.dentry.State.dir = nil
	}
	n.leaveFormer()
	f.names.Put(n.dentry)
	n.others.Drop(f.names)
	n.dentry = nil
}

// nameOf returns the directory and name under which n was last seen; parent is
// nil for the root and for inodes without a name.
func (f *FS) nameOf(n *inode) (parent *inode, name string) {
	f.mu.Lock()
	defer f.mu.Unlock()
	return n.namedLocked()
}

// namedLocked is nameOf. FS.mu is held.
func (n *inode) namedLocked() (parent *inode, name string) {
	if n.parent == nil {
		return nil, ""
	}
	return n.parent, n.dentry.Name()
}

// nameKey is n's name as the kernel asks for it; zero if it has none.
func (f *FS) nameKey(n *inode) dkey {
	f.mu.Lock()
	defer f.mu.Unlock()
	return n.keyLocked()
}

// keyLocked is nameKey. FS.mu is held.
func (n *inode) keyLocked() dkey {
	if n.parent == nil {
		return dkey{}
	}
	return dkey{n.parent, n.dentry.Name()}
}

// pathLocked is the path of name in dir relative to the root. f.mu is held.
func pathLocked(dir *inode, name string) string { return dir.dentry.Join(name) }

// path is the path of name in dir relative to the root.
func (f *FS) path(dir *inode, name string) string {
	f.mu.Lock()
	defer f.mu.Unlock()
	return pathLocked(dir, name)
}

// nodePath is the path under which n was last seen, "" for the root.
func (f *FS) nodePath(n *inode) string {
	f.mu.Lock()
	defer f.mu.Unlock()
	return n.pathLocked()
}

// pathLocked is nodePath. FS.mu is held.
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
	liveByUse           // its users treat it as a database: see session.autoLive
	liveByHandle        // its descriptors are of a live name that it had: see carryLive
)

// liveBy is what has made the file live that has a path.
func (f *FS) liveBy(path string) liveBy {
	f.mu.Lock()
	defer f.mu.Unlock()
	if d := f.names.At(path); d != nil {
		return d.State.live
	}
	return notLive
}

// isLivePath reports whether the file at path is live although its name is not.
func (f *FS) isLivePath(path string) bool { return f.liveBy(path) != notLive }

// setLiveLocked notes what makes the file live that has a name. FS.mu is held.
func (f *FS) setLiveLocked(d *dentry, by liveBy) {
	was := d.State.live
	d.State.live = by
	switch {
	case was == notLive && by != notLive:
		f.names.Ref(d)
	case was != notLive && by == notLive:
		f.names.Put(d)
	}
}

// setLiveNameLocked is setLiveLocked for a name in dir. FS.mu is held.
func (f *FS) setLiveNameLocked(dir *inode, name string, by liveBy) {
	d := f.names.Get(dir.dentry, name)
	f.setLiveLocked(d, by)
	f.names.Put(d)
}
