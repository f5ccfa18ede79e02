package fs

import (
	"time"

	"golang.org/x/sys/unix"

	"latchfs/fs/sessionstate"
)

// This file ends a session. Its states, and which of them may follow which, are package
// sessionstate's; what ends it are endings.endIfIdle, commits.goLive and endings.abandon.

// become is the only way from one state to another. s.mu is held.
func (s *session) become(next sessionstate.State) {
	if err := s.state.Become(next); err != nil {
		s.nodes.disk.log.Errorf("session %s: %v", s.id, err)
	}
}

// endAs is the only end of a session while the mount stands: it gives everything back that
// the session had, and lets those go on who wait for its lock. e is what the closes are
// told. s.mu is held.
func (cm *commits) endAs(s *session, next sessionstate.State, e unix.Errno) unix.Errno {
	s.state.Answer(e)
	cm.closeLocked(s)
	s.become(next)
	switch {
	case len(s.handles) == 0, next == sessionstate.Dropped:
		cm.disk.discard(s.shadow)
	case next == sessionstate.Committed && e == 0:
		time.AfterFunc(lateGrace, func() { cm.late(s) })
	}
	cm.rules.table.Release(s.lock)
	s.state.Free()
	return e
}

// endWith is endAs after a commit that was tried, and a rollback if it has failed.
func (cm *commits) endWith(s *session, e unix.Errno) unix.Errno {
	return cm.endAs(s, s.state.AfterTry(e, s.saved.IsPublished()), e)
}
