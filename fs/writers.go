package fs

import (
	"errors"
	"slices"
	"time"

	"golang.org/x/sys/unix"

	"latchfs/lockmgr"
	"latchfs/lockmgr/proc"
)

// This file finds out who can still write the shadow of a session.

// busyLocked reports whether somebody of the holder set still has the shadow
// open for writing or mapped. The holder set is everybody seen using the
// handle, with all descendants: whoever inherited a descriptor did so from one
// of them, and each of them announces its own close. Where nobody has it open, dying
// are those of them who are being killed: whether they had is not known yet.
func (s *session) busyLocked(by *closer) (busy bool, dying []lockmgr.Owner) {
	if len(s.handles) == 0 {
		return s.mappedLocked(), nil
	}
	for h := range s.handles {
		if !h.flushed {
			return true, nil
		}
	}
	owner := s.who.Load().owner
	exits := by != nil && by.exiting
	if !(exits && by.owner == owner) {
		if !s.mayLookAt(owner.PID) || s.ownerHolds(owner, by) {
			return true, nil
		}
		dying = s.f.addDying(dying, owner.PID, by)
	}
	for _, pid := range s.holderSet(by) {
		if pid == owner.PID || exits && pid == by.owner.PID {
			continue
		}
		holds := by.sawHolding(pid)
		if !holds {
			if !s.mayLookAt(pid) {
				return true, nil // RELEASE will tell
			}
			holds = s.holds(pid)
		}
		if !holds {
			dying = s.f.addDying(dying, pid, by)
			continue
		}
		// The opener has closed its descriptor or dies, and another process
		// has one: the session is that process's now.
		if th, err := s.f.proc.Process(pid); err == nil {
			s.handToLocked(th.Owner)
		}
		return true, nil
	}
	return false, dying
}

// mayLookAt reports whether the session's user has not yet had us look at too many
// descriptors, and notes those of the process.
func (s *session) mayLookAt(pid int32) bool {
	return !s.f.looks.Bounds(s.uid) || s.f.looks.Spend(s.uid, s.f.proc.Descriptors(pid), time.Now())
}

// holds reports whether a process can write the shadow.
func (s *session) holds(pid int32) bool {
	if pid == 0 {
		return false
	}
	file := s.procFile()
	w, _, err := s.f.proc.Opens(pid, file)
	return s.holdsBy(pid, &file, w, err)
}

// ownerHolds is holds for the session's owner, who may be the process that closes.
func (s *session) ownerHolds(o lockmgr.Owner, by *closer) bool {
	if by == nil || by.owner != o || by.program == "" {
		return s.holds(o.PID)
	}
	file := s.procFile()
	w, _, err := s.f.proc.OpensOfCloser(o, file)
	return s.holdsBy(o.PID, &file, w, err)
}

// holdsBy reports whether a process can write the shadow of which it has w descriptors.
func (s *session) holdsBy(pid int32, file *proc.File, w int, err error) bool {
	if err == nil && w > 0 || errors.Is(err, proc.ErrBusy) {
		return true // where it cannot be seen, RELEASE will tell
	}
	if !s.mappable {
		return false
	}
	mapped := s.f.maps(pid, *file, s.backingFile())
	if mapped {
		s.onlyMapped.Store(true)
	}
	return mapped
}

// maps reports whether a process has the file mapped to write it. Where that cannot
// be seen for the moment it is so: RELEASE will tell, or the next look.
func (f *FS) maps(pid int32, file, backing proc.File) bool {
	mapped, err := f.proc.MapsWritable(pid, file, backing)
	return mapped || errors.Is(err, proc.ErrBusy)
}

// handToLocked makes another process the owner.
func (s *session) handToLocked(o lockmgr.Owner) {
	next := &identity{o, s.f.proc.Now()}
	s.noteLocked(o)
	s.who.Store(next)
	s.f.table.SetOwner(s.lock, next.owner, next.since)
}

// holderSet lists the processes known to have used the handle and all that
// descend from them, each once.
func (s *session) holderSet(by *closer) []int32 {
	f := s.f
	out := make([]int32, 0, len(s.seen)+4)
	have := map[int32]bool{}
	add := func(pid int32) {
		if !have[pid] {
			have[pid] = true
			out = append(out, pid)
		}
	}
	for pid, o := range s.seen {
		var below []int32
		switch {
		case by != nil && by.owner == o:
			below = by.children // it may be dying, but its children are known
		case !f.proc.Alive(o):
			delete(s.seen, pid)
			continue
		default:
			below = f.proc.Descendants(pid)
		}
		add(pid)
		for _, d := range below {
			add(d)
		}
	}
	return out
}

// procFile is the shadow as /proc shows it to processes that have it open.
func (s *session) procFile() proc.File {
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

// backingFile is the shadow as /proc shows a mapping of it in passthrough.
func (s *session) backingFile() proc.File {
	s.f.mu.Lock()
	defer s.f.mu.Unlock()
	return proc.File{Dev: s.inode.key.dev, Ino: s.inode.key.ino}
}

// mappedLocked reports whether somebody still has the shadow mapped although
// all descriptors are closed, as a passthrough mapping does not keep the
// handle open.
func (s *session) mappedLocked() bool {
	if !s.f.passthrough || !s.mappable {
		return false
	}
	file, backing := s.procFile(), s.backingFile()
	for _, pid := range s.holderSet(nil) {
		if s.f.maps(pid, file, backing) {
			s.onlyMapped.Store(true)
			return true
		}
	}
	return false
}
