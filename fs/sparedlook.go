package fs

import (
	"time"

	"latchfs/lockmgr"
)

// A close after which there is nothing to commit decides nothing: the session ends at the
// RELEASE that follows, and goes on if none does. All that a look at the processes is for
// then is to tell what is likely to come. RELEASE comes within a moment, and tells for
// certain, so that the look is put off where nothing but the process that closes, and
// another descriptor of its own, could be found: see session.sparesLookLocked. Whoever has
// to know before that looks by itself: see session.isLeft.

// lookDelay is for how long a look is put off.
const lookDelay = 10 * time.Millisecond

// sparesLookLocked reports whether the look after a close is put off, and if so arranges
// for it. In a session with nothing to commit, nor metadata to carry over, a look by which
// its owner alone could be found to have the shadow changes no more than session.idle,
// session.lingering and session.output: the session is the owner's already, and nobody is
// waited for, as its owner is not being killed. The children that the owner has left behind
// are known by now. It is not for what may be mapped, and not for a process that is not known
// to be outside execve. s.mu is held.
func (s *session) sparesLookLocked(by *closer) bool {
	alone := by.owner == s.who.Load().owner && len(s.seen) == 1 && s.seen[by.owner.PID] == by.owner && len(by.children) == 0
	if !alone || by.exiting || by.killed || by.program == "" || s.mappable || s.killed != nil || s.output {
		return false
	}
	if s.state != stateWriting || s.lingering != nil || len(s.meta) > 0 || s.held() || s.expected() || !s.isCleanLocked() {
		return false
	}
	for h := range s.handles {
		if !h.flushed {
			return false
		}
	}
	s.unlooked.Store(&by.owner)
	s.lingering = time.AfterFunc(s.f.lookDelay, s.lookLate)
	return true
}

// stopLookLocked takes the place of a look that was put off: somebody closes or opens the
// shadow. s.mu is held.
func (s *session) stopLookLocked() {
	if s.unlooked.Swap(nil) != nil && s.lingering != nil {
		s.lingering.Stop()
		s.lingering = nil
	}
}

// lookLate makes the look that was put off, as RELEASE has not come. It ends nothing: of a
// process that dies meanwhile the FLUSH is still to come, and tells how it has ended.
func (s *session) lookLate() {
	s.mu.Lock()
	o := s.unlooked.Load()
	if o == nil { // it was stopped too late
		s.mu.Unlock()
		return
	}
	s.lingering = nil
	open := s.state == stateWriting && len(s.handles) > 0 && !s.held() && !s.expected()
	if open {
		if busy, _ := s.busyLocked(nil); !busy && s.isCleanLocked() {
			open = false
			if e := s.lingerLocked(); e != 0 {
				s.f.log.Warnf("%s: the change of its metadata failed after its close: %v", s, e)
			}
		}
	}
	s.unlooked.Store(nil)
	s.mu.Unlock()
	if open {
		s.noteOutput(*o)
	}
}

// isLeft reports whether nothing was written and every descriptor is closed that somebody of
// the holder set had, so that RELEASE is due.
func (s *session) isLeft() bool {
	if o := s.unlooked.Load(); o != nil {
		return s.isLeftBy(*o)
	}
	return s.idle.Load()
}

// isLeftBy is isLeft for a session that nobody but o has used.
func (s *session) isLeftBy(o lockmgr.Owner) bool {
	if !s.mayLookAt(o.PID) {
		return false
	}
	w, _, err := s.f.proc.Opens(o.PID, s.procFile())
	return err == nil && w == 0
}
