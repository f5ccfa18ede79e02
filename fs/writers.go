package fs

import (
	"slices"

	"golang.org/x/sys/unix"

	"latchfs/fs/denied"
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
	next := s.who.Load().passedTo(o, s.f.proc)
	s.holders.Note(o)
	s.who.Store(next)
	s.f.table.SetOwner(s.lock, next.owner, next.since)
}

// passedTo is who holds a session from now on that id held, and of which another process
// has the descriptors. Where that is an heir of id, id and its other heirs stay kin: a
// script that starts a daemon closes the descriptor that the daemon has inherited, and
// goes on to use the file.
func (id *identity) passedTo(o lockmgr.Owner, procs Procs) *identity {
	up := procs.Lineage(o.PID)
	for ; id != nil; id = id.from {
		if id.owner == o {
			return id // it has a descriptor again
		}
		isHeir := func(a lockmgr.Ancestor) bool { return a.Owner == id.owner && a.Child.After(id.since) }
		if slices.ContainsFunc(up, isHeir) {
			break
		}
	}
	return &identity{owner: o, since: procs.Now(), from: id}
}

// leftToHeirs is how many sessions in the way of a lock joinLeft looks at: those who hold
// the names, of which an operation has two at most, come first.
const leftToHeirs = 4

// joinLeft makes the demand that of an heir where a session is in the way that the caller's
// family has left to a descendant: the lock table knows the descendant alone. l is the lock
// that waits, or err says what is in the way. It reports whether there is such a session
// that the demand did not have yet.
func (f *FS) joinLeft(d *demand, l *lockmgr.Lock, err error) (news bool) {
	if d.owner != nil || d.class != lockmgr.Session {
		return false
	}
	holders := denied.Holders(err)
	if err == nil {
		holders = f.table.FirstConflicts(l, leftToHeirs)
	}
	for i := range holders {
		lb, _ := holders[i].Label.(*label)
		if lb == nil || lb.session.Load() == nil {
			continue
		}
		id := lb.session.Load().who.Load()
		isKnown := func(a lockmgr.Ancestor) bool { return a.Owner == id.owner }
		if !d.c.kinOf(id.from) || slices.ContainsFunc(d.left, isKnown) {
			continue
		}
		d.left = append(d.left, lockmgr.Ancestor{Owner: id.owner, Child: f.proc.Now()})
		news = true
	}
	return news
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
	if dev, ino, ok := s.shown.File(); ok {
		key = inoKey{dev, ino}
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
