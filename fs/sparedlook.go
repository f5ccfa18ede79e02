package fs

import (
	"time"

	"latchfs/fs/holders"
	"latchfs/fs/sessionstate"
)

// A close after which there is nothing to commit decides nothing: the session ends at the
// RELEASE that follows, and goes on if none does. All that a look at the processes is for
// then is to tell what is likely to come. RELEASE comes within a moment, and tells for
// certain, so that the look is put off where nothing but the process that closes, and
// another descriptor of its own, could be found: see endings.sparesLookLocked. Whoever has
// to know before that looks by itself: see session.isLeft.

// lookDelay is for how long a look is put off.
const lookDelay = 10 * time.Millisecond

// sparesLookLocked reports whether the look after a close is put off, and if so arranges
// for it. In a session with nothing to commit, nor metadata to carry over, a look by which
// its owner alone could be found to have the shadow changes no more than session.idle,
// session.lingering and session.output: the session is the owner's already, and nobody is
// waited for, as its owner is not being killed. s.mu is held.
func (en *endings) sparesLookLocked(s *session, by *holders.Closer) bool {
	if !s.holders.CanFindOnly(s.who.Load().Owner(), by) || s.toll.HasDead() || s.output {
		return false
	}
	if !s.state.Is(sessionstate.Writing) || s.lingering != nil || s.content.HasMeta() || s.held() || s.expected() || !s.isCleanLocked() {
		return false
	}
	if s.hasUnclosedLocked() {
		return false
	}
	s.holders.PutOffLook(by.Owner)
	s.lingering = time.AfterFunc(en.lookDelay, func() { en.lookLate(s) })
	return true
}

// stopLookLocked takes the place of a look that was put off: somebody closes or opens the
// shadow. s.mu is held.
func (s *session) stopLookLocked() {
	if s.holders.EndPendingLook() && s.lingering != nil {
		s.lingering.Stop()
		s.lingering = nil
	}
}

// lookLate makes the look that was put off, as RELEASE has not come. It ends nothing: of a
// process that dies meanwhile the FLUSH is still to come, and tells how it has ended.
func (en *endings) lookLate(s *session) {
	s.mu.Lock()
	o, pending := s.holders.PendingLook()
	if !pending { // it was stopped too late
		s.mu.Unlock()
		return
	}
	s.lingering = nil
	open := s.state.Is(sessionstate.Writing) && len(s.handles) > 0 && !s.held() && !s.expected()
	if open {
		if busy, _ := en.locks.busyLocked(s, nil); !busy && s.isCleanLocked() {
			open = false
			if e := en.lingerLocked(s); e != 0 {
				en.disk.log.Warnf("%s: the change of its metadata failed after its close: %v", s, e)
			}
		}
	}
	s.holders.EndPendingLook()
	s.mu.Unlock()
	if open {
		en.noteOutput(s, o)
	}
}

// isLeft reports whether nothing was written and every descriptor is closed that somebody of
// the holder set had, so that RELEASE is due.
func (s *session) isLeft() bool {
	if o, pending := s.holders.PendingLook(); pending {
		return s.holders.HasLeft(o)
	}
	return s.idle.Load()
}
