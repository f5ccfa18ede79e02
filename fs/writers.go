package fs

import (
	"slices"

	"golang.org/x/sys/unix"

	"latchfs/fs/holders"
	"latchfs/lockmgr"
	"latchfs/lockmgr/proc"
)

// This file finds out who can still write the shadow of a session.

var _ holders.File = (*session)(nil)

// busyLocked reports whether somebody still has the shadow open for writing or mapped. If a
// process other than its owner has, the session is that process's from now on. Where nobody
// has it open, dying are those of the holder set who are being killed: whether they had is
// not known yet.
func (s *session) busyLocked(by *holders.Closer) (busy bool, dying []lockmgr.Owner) {
	if len(s.handles) == 0 {
		return s.mappedLocked(), nil
	}
	if s.hasUnclosedLocked() {
		return true, nil
	}
	found := s.holders.Find(s.who.Load().owner, by)
	if found.Next != (lockmgr.Owner{}) {
		s.handToLocked(found.Next)
	}
	return found.Held, found.Dying
}

// hasUnclosedLocked reports whether the shadow is open through a handle of which the kernel has
// told of no close yet. s.mu is held.
func (s *session) hasUnclosedLocked() bool {
	for h := range s.handles {
		if !h.flushed {
			return true
		}
	}
	return false
}

// handToLocked makes another process the owner.
func (s *session) handToLocked(o lockmgr.Owner) {
	next := &identity{o, s.f.proc.Now()}
	s.holders.Note(o)
	s.who.Store(next)
	s.f.table.SetOwner(s.lock, next.owner, next.since)
}

// AsOpen implements holders.File.
func (s *session) AsOpen() proc.File {
	s.f.mu.Lock()
	key := s.inode.key
	earlier := slices.Clone(s.besides)
	for _, k := range s.inode.nodes {
		earlier = append(earlier, k.numbers...)
	}
	s.f.mu.Unlock()
	if a := s.shown.Load(); a.ino != 0 {
		key = inoKey{a.dev, a.ino}
	}
	file := proc.File{
		Dev: s.f.mountDev, Ino: s.f.inoFor(key.dev, key.ino), MountID: s.f.mountID,
		NoAppend: s.besideAppenders(append(earlier, key)),
	}
	for _, k := range earlier {
		file.Also = append(file.Also, s.f.inoFor(k.dev, k.ino))
	}
	return file
}

// besideAppenders reports whether a file is open to append records that shows one of the
// numbers which the shadow shows or has shown, and the shadow is not: descriptors of the
// two are told apart by their mode. It may be the file that the shadow stands for, or a
// version from before: a node shows the number of the file from which its session began,
// and a descriptor that appends that of the file which it follows.
func (s *session) besideAppenders(shown []inoKey) bool {
	f := s.f
	f.mu.Lock()
	defer f.mu.Unlock()
	if f.appends == 0 || s.baseKey == (inoKey{}) {
		return false
	}
	shown = append(shown, s.baseKey)
	beside := false
	for _, h := range f.handles {
		switch {
		case h.kind == shadowHandle && h.sess == s && h.flags&unix.O_APPEND != 0:
			return false
		case h.kind == appendHandle:
			shows := func(key inoKey) bool { return slices.Contains(shown, key) }
			beside = beside || h.n == s.base || shows(h.n.key) || shows(h.follows) || slices.ContainsFunc(h.k.numbers, shows)
		}
	}
	return beside
}

// AsMapped implements holders.File.
func (s *session) AsMapped() proc.File {
	s.f.mu.Lock()
	defer s.f.mu.Unlock()
	return proc.File{Dev: s.inode.key.dev, Ino: s.inode.key.ino}
}

// mappedLocked reports whether somebody still has the shadow mapped although
// all descriptors are closed, as a passthrough mapping does not keep the
// handle open.
func (s *session) mappedLocked() bool {
	return s.f.passthrough && s.holders.IsMapped()
}
