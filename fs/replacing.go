package fs

import (
	"slices"

	"golang.org/x/sys/unix"
)

// This file notes which inodes are about to lose their name to a save.

// markSaved notes that the base is about to lose its name to a save: from the
// moment in which it has none, whoever locks it means the name. undo is for a
// save that fails.
func (s *session) markSaved() (undo func()) {
	if s.inPlace || s.detached {
		return func() {}
	}
	return s.f.markReplaced(s.baseKey, s.base)
}

// markReplaced is markSaved for the inode key, of which one node may be known that
// lookups do not find.
func (f *FS) markReplaced(key inoKey, known *node) (undo func()) {
	f.mu.Lock()
	defer f.mu.Unlock()
	// Somebody may have looked at it since its replacement began, or have it open
	// from before.
	nodes := append([]*node{known, f.byIno[key]}, f.retired[key]...)
	nodes = slices.DeleteFunc(nodes, func(n *node) bool { return n == nil || n.saved })
	for _, n := range nodes {
		n.saved = true
	}
	f.saves.Add(1)
	f.replacing[key] = true // for nodes that are being made of it
	return func() {
		f.mu.Lock()
		defer f.mu.Unlock()
		delete(f.replacing, key)
		for _, n := range nodes {
			n.saved = false
		}
	}
}

// markReplaced is session.markSaved for the file that a rename is about to replace:
// the way in which most programs save. ended says how it went.
func (r *renaming) markReplaced() (ended func(replaced bool)) {
	if st := r.toSt; st == nil || r.flags != 0 || st.Mode&unix.S_IFMT != unix.S_IFREG || st.Nlink > 1 || r.sameFile() {
		return func(bool) {}
	}
	f, key := r.f, inoKey{uint64(r.toSt.Dev), r.toSt.Ino}
	undo := f.markReplaced(key, r.to.node)
	return func(replaced bool) {
		if !replaced {
			undo()
			return
		}
		f.mu.Lock()
		defer f.mu.Unlock()
		delete(f.replacing, key)
		f.saves.Add(1) // who has looked since may have found it before it was replaced
	}
}
