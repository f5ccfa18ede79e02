package fs

import (
	"slices"

	"golang.org/x/sys/unix"

	"latchfs/fs/listing"
	"latchfs/fs/sessionstate"
)

// A session that writes into a file with several names stands under one of them, and its
// commit opens the file by that. If its own family takes that name away it goes on under
// another one: what it has written is the file's.

// withoutName gives a session another name of its file before the caller's operation takes its
// name p away. It returns the session if that name is the last one. A file whose other names
// are not known keeps this one as long as somebody has written to it: EBUSY.
func (mv *moves) withoutName(s *session, c *caller, op string, p place) (*session, unix.Errno) {
	if s == nil {
		return nil, 0
	}
	file := mv.fileOfNames(s)
	if file == nil {
		return s, 0
	}
	dir, name, ok := mv.anotherName(file, p)
	switch {
	case ok:
		mv.standUnder(s, p, dir, name)
		mv.takeShadowAlong(s)
		mv.nodes.unpin(dir)
		return nil, 0
	case s.isClean():
		return s, 0
	}
	return s, mv.reports.refuseWith(c, op, mv.nodes.path(p.dir, p.name), unix.EBUSY,
		"The file has other names, which latchfs does not know, and what was written to it by this one is not committed",
		"Close the file first, or look at it by one of its other names.")
}

// fileOfNames is the file that the session writes into, if that has several names; or nil.
func (mv *moves) fileOfNames(s *session) *inode {
	s.mu.Lock()
	base, running := s.base, s.inPlace && s.state.Is(sessionstate.Writing) && s.txn.Load() == nil
	s.mu.Unlock()
	var st unix.Stat_t
	if !running || base == nil || mv.names.stat(base, &st) != 0 || st.Nlink < 2 {
		return nil
	}
	return base
}

// isClean reports whether there is nothing to publish.
func (s *session) isClean() bool {
	s.mu.Lock()
	defer s.mu.Unlock()
	return s.isCleanLocked()
}

// standUnder moves the session, and its lock, from a name of its file to another one.
func (mv *moves) standUnder(s *session, p place, dir *inode, name string) {
	l := s.heldLock()
	mv.nodes.ns.RLock() // no directory above gets another name meanwhile
	defer mv.nodes.ns.RUnlock()
	mv.locks.advisoryKeys.Lock()
	defer mv.locks.advisoryKeys.Unlock()
	mv.moveWithLock(s, l, mv.nodes.path(p.dir, p.name), dir, name)
}

// anotherName is a name of n but p, its directory pinned: one that was seen, or one beside p.
func (mv *moves) anotherName(n *inode, p place) (dir *inode, name string, ok bool) {
	mv.nodes.mu.Lock()
	seen := n.othersLocked()
	if n.parent != nil {
		n.parent.pins++
		seen = append(seen, n.keyLocked())
	}
	mv.nodes.mu.Unlock()
	for _, k := range slices.Backward(seen) {
		if !ok && k != p.key() && mv.names.isNameOf(n, k.dir, k.name) {
			dir, name, ok = k.dir, k.name, true
			continue // it stays pinned
		}
		mv.nodes.unpin(k.dir)
	}
	if ok {
		return dir, name, true
	}
	fd, err := mv.nodes.openList(p.dir)
	if err != nil {
		return nil, "", false
	}
	defer unix.Close(fd)
	list, err := listing.Read(fd, visible)
	if err != nil {
		return nil, "", false
	}
	for _, e := range list {
		if e.Ino == n.key.ino && e.Name != p.name && mv.names.isNameOf(n, p.dir, e.Name) {
			mv.nodes.pin(p.dir)
			return p.dir, e.Name, true
		}
	}
	return nil, "", false
}
