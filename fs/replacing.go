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

// setSavedLocked notes whether a save takes n's name, or has done so. FS.mu is held.
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
// FS.mu is held.
func (n *inode) joinFormer() {
	if n.dentry != nil {
		n.dentry.State.former = append(n.dentry.State.former, n)
	}
}

// leaveFormer ends that. FS.mu is held.
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
// FS.mu is held.
func (f *FS) formerLocked(k dkey) []*inode {
	if dir := k.knownDir(); dir != nil {
		return slices.Clone(f.nameLocked(dir, k.name).former)
	}
	return nil
}

// followLocked gives files that were replaced the name that their successor has now.
// FS.mu is held.
func (f *FS) followLocked(former []*inode, dir *inode, name string) {
	for _, n := range former {
		f.setNameLocked(n, dir, name)
	}
}

// unlinked takes note that n's file has lost the name k, its last one or not. The lock of
// its names is held.
func (f *FS) unlinked(n *inode, k dkey, last bool) {
	if n == nil {
		return
	}
	if last {
		f.mu.Lock()
		f.setRemovedLocked(n, k, true)
		f.mu.Unlock()
	}
	f.lostName(n)
	if last {
		return
	}
	f.mu.Lock()
	defer f.mu.Unlock()
	if dir, name := n.namedLocked(); dir != nil {
		f.followLocked(f.formerLocked(k), dir, name)
	}
}

// setRemovedLocked notes that n's file, which had the name k, has been removed, with the
// versions that it had replaced there; or that it has the name again. FS.mu is held.
func (f *FS) setRemovedLocked(n *inode, k dkey, removed bool) {
	n.removed = removed
	for _, o := range f.formerLocked(k) {
		o.removed = removed
	}
}

// markSaved notes that the base is about to lose its name to a save: from the
// moment in which it has none, whoever locks it means the name. undo is for a
// save that fails.
func (s *session) markSaved() (undo func()) {
	if s.inPlace || s.state.IsNobodys() {
		return func() {}
	}
	ended := s.f.markReplaced(s.baseKey, s.base)
	s.noteWritten(true)
	return func() {
		s.noteWritten(false)
		ended(false)
	}
}

// noteWritten notes whether the base is about to lose its name to what the session wrote.
func (s *session) noteWritten(written bool) {
	if s.base == nil {
		return
	}
	s.f.mu.Lock()
	defer s.f.mu.Unlock()
	s.base.written = written
}

// markReplaced is markSaved for the inode key; known is what we know of it, if its number has
// been another one's since. ended says how it went.
func (f *FS) markReplaced(key inoKey, known *inode) (ended func(replaced bool)) {
	f.mu.Lock()
	defer f.mu.Unlock()
	// Somebody may have looked at it since its replacement began, or have it open
	// from before.
	is := []*inode{known, f.inodes[key]}
	is = slices.DeleteFunc(is, func(n *inode) bool { return n == nil || n.saved })
	for _, n := range is {
		n.setSavedLocked(true)
	}
	f.saves.Add(1)
	f.replacing[key] = true // for one that is only just being found
	return func(replaced bool) {
		f.mu.Lock()
		defer f.mu.Unlock()
		delete(f.replacing, key)
		if replaced {
			f.saves.Add(1) // who has looked since may have found it before it was replaced
			return
		}
		for _, n := range is {
			n.setSavedLocked(false)
		}
	}
}

// markReplaced is session.markSaved for the file that a rename is about to replace:
// the way in which most programs save. ended says how it went.
func (r *renaming) markReplaced() (ended func(replaced bool)) {
	if st := r.toSt; st == nil || r.flags != 0 || st.Mode&unix.S_IFMT != unix.S_IFREG || st.Nlink > 1 || r.sameFile() {
		return func(bool) {}
	}
	return r.f.markReplaced(inoKey{uint64(r.toSt.Dev), r.toSt.Ino}, r.to.inode)
}

// isSuperseded reports whether a save has taken n's name. The file may have another one
// underneath for a while, by which a crash would undo the save (durability = "lazy"): it has
// none that programs see.
func (f *FS) isSuperseded(n *inode) bool {
	f.mu.Lock()
	saved := n.saved
	f.mu.Unlock()
	return saved && !f.isPublished(n)
}

// isRemoved reports whether n's file has been removed, and nothing has taken its place.
func (f *FS) isRemoved(n *inode) bool {
	f.mu.Lock()
	defer f.mu.Unlock()
	return n.removed
}

// replacesFile reports whether a file loses its name to another one.
func (r *renaming) replacesFile() bool {
	return r.flags&unix.RENAME_EXCHANGE == 0 && r.toSt != nil && r.toSt.Mode&unix.S_IFMT == unix.S_IFREG
}
