package fs

import (
	"slices"

	"golang.org/x/sys/unix"
)

// This file notes which inodes are about to lose their name to a save.
//
// Who has such a file open goes on as if it had been written in place: what it appends
// comes to the newer version, and what it locks is the name. So the file that was replaced
// goes where its successor goes, and is removed when that is.

// setSavedLocked notes whether a save takes n's name, or has done so. nodes.mu is held.
func (n *inode) setSavedLocked(saved bool) {
	if n.saved == saved {
		return
	}
	if n.saved = saved; saved {
		n.joinFormer()
	} else {
		n.leaveFormer()
	}
}

// joinFormer lets n, which a save has taken its name, go where the newer version goes.
// nodes.mu is held.
func (n *inode) joinFormer() {
	if n.dentry != nil {
		n.dentry.State.former = append(n.dentry.State.former, n)
	}
}

// leaveFormer undoes joinFormer. nodes.mu is held.
func (n *inode) leaveFormer() {
	if !n.saved || n.dentry == nil {
		return
	}
	at := &n.dentry.State.former
	if *at = slices.DeleteFunc(*at, func(o *inode) bool { return o == n }); len(*at) == 0 {
		*at = nil
	}
}

// formerLocked are the files that lost a name to newer versions of what has it now.
// nodes.mu is held.
func (nm *names) formerLocked(k dkey) []*inode {
	if dir := k.knownDir(); dir != nil {
		return slices.Clone(nm.nodes.nameLocked(dir, k.name).former)
	}
	return nil
}

// followLocked gives files that were replaced the name that their successor has now.
// nodes.mu is held.
func (nm *names) followLocked(former []*inode, dir *inode, name string) {
	for _, n := range former {
		nm.nodes.setNameLocked(n, dir, name)
	}
}

// unlinked takes note that n's file has lost the name k, its last one or not. The lock of
// its names is held.
func (nm *names) unlinked(n *inode, k dkey, last bool) {
	if n == nil {
		return
	}
	if last {
		nm.nodes.mu.Lock()
		nm.setRemovedLocked(n, k, true)
		nm.nodes.mu.Unlock()
	}
	nm.lostName(n, k)
	if last {
		return
	}
	nm.nodes.mu.Lock()
	defer nm.nodes.mu.Unlock()
	if dir, name := n.namedLocked(); dir != nil {
		nm.followLocked(nm.formerLocked(k), dir, name)
	}
}

// setRemovedLocked notes that n's file, which had the name k, has been removed, with the
// versions that it had replaced there; or that it has the name again. nodes.mu is held.
func (nm *names) setRemovedLocked(n *inode, k dkey, removed bool) {
	n.removed = removed
	for _, o := range nm.formerLocked(k) {
		o.removed = removed
	}
}

// markSaved notes that the base is about to lose its name to a save: from the
// moment in which it has none, whoever locks it means the name. undo is for a
// save that fails.
func (nm *names) markSaved(s *session) (undo func()) {
	if s.inPlace || s.state.IsNobodys() {
		return func() {}
	}
	ended := nm.markReplaced(s.baseKey, s.base)
	nm.noteWritten(s, true)
	return func() {
		nm.noteWritten(s, false)
		ended(false)
	}
}

// noteWritten notes whether the base is about to lose its name to what the session wrote.
func (nm *names) noteWritten(s *session, written bool) {
	if s.base == nil {
		return
	}
	nm.nodes.mu.Lock()
	defer nm.nodes.mu.Unlock()
	s.base.written = written
}

// markReplaced is markSaved for the inode key; known is what we know of it, if its number has
// been another one's since. ended says how it went.
func (nm *names) markReplaced(key inoKey, known *inode) (ended func(replaced bool)) {
	nm.nodes.mu.Lock()
	defer nm.nodes.mu.Unlock()
	// Somebody may have looked at it since its replacement began, or have it open
	// from before.
	is := []*inode{known, nm.nodes.inodes[key]}
	is = slices.DeleteFunc(is, func(n *inode) bool { return n == nil || n.saved })
	for _, n := range is {
		n.setSavedLocked(true)
	}
	nm.nodes.saves.Add(1)
	nm.nodes.replacing[key] = true // for one that is only just being found
	return func(replaced bool) {
		nm.nodes.mu.Lock()
		defer nm.nodes.mu.Unlock()
		delete(nm.nodes.replacing, key)
		if replaced {
			nm.nodes.saves.Add(1) // who has looked since may have found it before it was replaced
			return
		}
		for _, n := range is {
			n.setSavedLocked(false)
		}
	}
}

// markReplaced is names.markSaved for the file that a rename is about to replace:
// the way in which most programs save. ended says how it went.
func (r *renaming) markReplaced() (ended func(replaced bool)) {
	if st := r.toSt; st == nil || r.flags != 0 || st.Mode&unix.S_IFMT != unix.S_IFREG || st.Nlink > 1 || r.sameFile() {
		return func(bool) {}
	}
	was := r.to.inode
	marked := r.names.markReplaced(inoKey{uint64(r.toSt.Dev), r.toSt.Ino}, was)
	return func(replaced bool) {
		marked(replaced)
		if was != nil {
			r.nodes.mu.Lock()
			defer r.nodes.mu.Unlock()
			was.overtaken = replaced
		}
	}
}

// isSuperseded reports whether a save has taken n's name. The file may have another one
// underneath for a while, by which a crash would undo the save (durability = "lazy"): it has
// none that programs see.
func (nm *names) isSuperseded(n *inode) bool {
	nm.nodes.mu.Lock()
	saved := n.saved
	nm.nodes.mu.Unlock()
	return saved && !nm.isPublished(n)
}

// isRemoved reports whether n's file has been removed, and nothing has taken its place.
func (nm *names) isRemoved(n *inode) bool {
	nm.nodes.mu.Lock()
	defer nm.nodes.mu.Unlock()
	return n.removed
}

// replacesFile reports whether a file loses its name to another one.
func (r *renaming) replacesFile() bool {
	return r.flags&unix.RENAME_EXCHANGE == 0 && r.toSt != nil && r.toSt.Mode&unix.S_IFMT == unix.S_IFREG
}
