package fs

import (
	"errors"
	"slices"
	"time"

	"github.com/hanwen/go-fuse/v2/fuse"
	"golang.org/x/sys/unix"

	"latchfs/lockmgr"
	"latchfs/lockmgr/proc"
)

// Flush implements fuse.RawFileSystem. It comes for every close of every
// descriptor in every process; the one after which nobody can write any more
// is the commit, so that close reports how it went.
func (f *FS) Flush(_ <-chan struct{}, in *fuse.FlushIn) fuse.Status {
	if isVirtual(in.NodeId) {
		f.virt.flush(in)
		return fuse.OK
	}
	h := f.handleOf(in.Fh)
	if h == nil {
		return fuse.OK
	}
	f.unlockPosix(h.n, in.LockOwner)
	if h.kind == appendHandle {
		h.app.dropUnfinished(f.callerOf(&in.InHeader))
	}
	switch {
	case h.kind == appendHandle && h.app.lineGoesOn(f.callerOf(&in.InHeader)):
		return fuse.OK
	case h.kind == appendHandle:
		return status(f.drain(h))
	case h.kind != shadowHandle:
		return fuse.OK
	}
	e := f.flushShadow(f.callerOf(&in.InHeader), h)
	if lost := h.sess.closeStale(h); e == 0 {
		e = lost
	}
	return status(e)
}

// flushShadow notes who closes a descriptor of the shadow and commits if that
// was the last one.
func (f *FS) flushShadow(c *caller, h *handle) unix.Errno {
	s := h.sess
	sig, exiting := 0, false
	if !c.foreign() {
		sig, exiting = f.proc.Exit(uint32(c.tid))
	}
	var killed *killedWriter
	if sig != 0 {
		killed = killedWriterOf(c, sig)
	}
	s.mu.Lock()
	by := &closer{owner: c.owner, exiting: exiting, killed: sig != 0}
	if s.state.hasEnded() {
		h.flushed = true
		e, grows := s.toldLocked(c.owner), s.grows
		if grows {
			s.noteChildren(by)
		}
		s.mu.Unlock()
		if grows {
			s.closedWhileGrowing(by)
		}
		return e
	}
	h.flushed, s.closed = true, true
	s.noteLocked(c.owner)
	s.noteChildren(by)
	if killed != nil {
		s.noteKilledLocked(killed)
	}
	s.mu.Unlock()
	e := s.endIfIdle(by)
	if e != 0 {
		s.mu.Lock()
		defer s.mu.Unlock()
		if s.state.hasEnded() {
			return s.toldLocked(c.owner)
		}
	} else {
		s.noteOutput(c.owner)
	}
	return e
}

// noteChildren adds the descendants who inherited the descriptor of a process
// that closes its own: once it is dead nobody knows whose children they were.
func (s *session) noteChildren(by *closer) {
	if by.owner.PID == 0 {
		return
	}
	by.children = s.f.proc.Descendants(by.owner.PID)
	for _, pid := range by.children {
		if !s.mayLookAt(pid) || !s.holds(pid) {
			continue
		}
		if th, err := s.f.proc.Process(pid); err == nil {
			s.noteLocked(th.Owner)
		}
	}
}

// closer is the process whose close may be the last.
type closer struct {
	owner   lockmgr.Owner
	exiting bool // its descriptors and mappings are gone already
	killed  bool // by a signal
	// children are its descendants at the time of the close.
	children []int32
}

// endIfIdle ends the session if nobody can write its shadow any more. It waits for
// processes that are being killed: they have no descriptors any more, and their FLUSH
// may be on its way.
func (s *session) endIfIdle(by *closer) unix.Errno {
	patience := dyingPatience{until: time.Now().Add(dyingWait)}
	for {
		e, dying := s.endUnlessBusy(by)
		if len(dying) == 0 {
			return e
		}
		// Of processes that are killed at once, none may wait for another.
		if by.killed || !patience.wait(s.f.proc, dying) {
			return 0 // RELEASE will tell
		}
	}
}

// endUnlessBusy ends the session if nobody can write its shadow any more, and nobody
// dies who could a moment ago: otherwise it returns those who die.
func (s *session) endUnlessBusy(by *closer) (unix.Errno, []lockmgr.Owner) {
	s.mu.Lock()
	defer s.mu.Unlock()
	if s.state.hasEnded() {
		return s.result, nil
	}
	if s.held() || s.expected() {
		return 0, nil
	}
	if busy, dying := s.busyLocked(by); busy || len(dying) > 0 {
		return 0, dying
	}
	if len(s.handles) > 0 && s.state == stateWriting && s.isCleanLocked() {
		return s.lingerLocked(), nil
	}
	return s.endLocked(), nil
}

// isCleanLocked reports whether there is nothing to publish.
func (s *session) isCleanLocked() bool {
	if s.isNew.Load() || s.wrote || s.truncated {
		return false
	}
	dirty, err := s.dirtyLocked()
	return err == nil && !dirty
}

// lingerLocked is for a close that leaves nothing to commit: the session ends
// at the RELEASE that follows. If none does, somebody whom the holder set
// missed has the descriptor and may yet write.
func (s *session) lingerLocked() unix.Errno {
	e := s.applyMetaLocked()
	s.idle.Store(true)
	if s.lingering == nil {
		s.lingering = time.AfterFunc(lateGrace, s.adopt)
	}
	return e
}

func (s *session) expected() bool {
	s.f.mu.Lock()
	defer s.f.mu.Unlock()
	return s.walkers > 0
}

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
		if !s.mayLookAt(owner.PID) || s.holds(owner.PID) {
			return true, nil
		}
		dying = s.f.addDying(dying, owner.PID, by)
	}
	for _, pid := range s.holderSet(by) {
		if pid == owner.PID || exits && pid == by.owner.PID {
			continue
		}
		if !s.mayLookAt(pid) {
			return true, nil // RELEASE will tell
		}
		if !s.holds(pid) {
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
	if w, _, err := s.f.proc.Opens(pid, file); err == nil && w > 0 || errors.Is(err, proc.ErrBusy) {
		return true // where it cannot be seen, RELEASE will tell
	}
	mapped := s.f.maps(pid, file, s.backingFile())
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
	key := s.node.key
	earlier := slices.Clone(s.node.numbers)
	s.f.mu.Unlock()
	if a := s.shown.Load(); a.ino != 0 {
		key = inoKey{a.dev, a.ino}
	}
	file := proc.File{
		Dev: s.f.mountDev, Ino: s.f.inoFor(key.dev, key.ino), MountID: s.f.mountID, NoAppend: s.besideAppenders(),
	}
	for _, k := range earlier {
		file.Also = append(file.Also, s.f.inoFor(k.dev, k.ino))
	}
	return file
}

// besideAppenders reports whether the file that the shadow stands for, and whose
// number it shows, is open to append records, and the shadow is not: descriptors
// of the two are told apart by their mode. A descriptor that appends shows the number
// of the file that it follows, which may have taken the place of its own.
func (s *session) besideAppenders() bool {
	f := s.f
	f.mu.Lock()
	defer f.mu.Unlock()
	if f.appends == 0 || s.baseKey == (inoKey{}) {
		return false
	}
	beside := false
	for _, h := range f.handles {
		switch {
		case h.kind == shadowHandle && h.sess == s && h.flags&unix.O_APPEND != 0:
			return false
		case h.kind == appendHandle:
			beside = beside || h.n == s.base || h.follows == s.baseKey || slices.Contains(h.n.numbers, s.baseKey)
		}
	}
	return beside
}

// backingFile is the shadow as /proc shows a mapping of it in passthrough.
func (s *session) backingFile() proc.File {
	s.f.mu.Lock()
	defer s.f.mu.Unlock()
	return proc.File{Dev: s.node.key.dev, Ino: s.node.key.ino}
}

// mappedLocked reports whether somebody still has the shadow mapped although
// all descriptors are closed, as a passthrough mapping does not keep the
// handle open.
func (s *session) mappedLocked() bool {
	if s.f.registrar == nil {
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

// Release implements fuse.RawFileSystem. It comes once for each open, after
// the last descriptor is closed, and after the closing call has returned.
func (f *FS) Release(_ <-chan struct{}, in *fuse.ReleaseIn) {
	if isVirtual(in.NodeId) {
		f.virt.release(in.Fh)
		return
	}
	h := f.handleOf(in.Fh)
	if h == nil {
		return
	}
	f.unlockHandle(h)
	if h.app != nil {
		if e := f.drain(h); e != 0 {
			f.log.Warnf("appending to %q failed after its close: %v", f.nodePath(h.n), e)
		}
		h.app.close()
	}
	s := h.sess
	if s != nil {
		s.closeStale(h)
	}
	f.closeHandle(h)
	if s == nil || h.kind != shadowHandle {
		return
	}
	s.mu.Lock()
	delete(s.handles, h)
	if s.lingering != nil && len(s.handles) == 0 {
		s.lingering.Stop()
		s.lingering = nil
	}
	last := len(s.handles) == 0
	ended := s.state.hasEnded()
	if last && s.grows {
		s.settleLocked()
	}
	s.mu.Unlock()
	switch {
	case !last:
	case ended:
		s.released()
	default:
		s.endAtRelease()
	}
}
