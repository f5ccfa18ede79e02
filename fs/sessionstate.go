package fs

import (
	"slices"
	"time"

	"golang.org/x/sys/unix"
)

// sessionState is where a session is in its life:
//
//	writing ─┬─► ending ────┬─► committed ──► apart
//	         │              └─► rolledBack
//	         ├─► goingLive ─┬─► live
//	         │              ├─► committed
//	         │              └─► rolledBack
//	         └─► detached ────► dropped
//
// A session is begun by an open that may write (begin), and everybody of its family who
// opens the file meanwhile joins it (attach). It ends once, at the first of these:
//
//   - the close, or the RELEASE, after which nobody can write the shadow any more
//     (endIfIdle);
//   - the commit or the rollback of the transaction that it is a part of;
//   - the moment in which its file goes live (goLive);
//   - the end of the mount (abandon).
//
// A handle may outlive its session: a descriptor that the holder set missed, or one of a
// live file.
type sessionState uint8

const (
	// stateWriting: its writer writes the shadow, and nobody else sees it.
	stateWriting sessionState = iota
	// stateEnding: it is being committed or rolled back. Nobody joins it any more.
	stateEnding
	// stateGoingLive: the shadow is about to become the file while it is written.
	stateGoingLive
	// stateCommitted: what was written, if anything, is the file.
	stateCommitted
	// stateLive: the shadow is the file, and what its handles write goes straight there.
	stateLive
	// stateRolledBack: what was written did not become the file. It may be kept.
	stateRolledBack
	// stateDetached: its own family has taken the name away. What is written is nobody's.
	stateDetached
	// stateDropped: it was detached, and is closed.
	stateDropped
	// stateApart: committed, but somebody still has the shadow open. A copy has taken its
	// place, so that what is written now is nobody's.
	stateApart
)

var sessionStates = [...]string{
	"writing", "ending", "going live", "committed", "live", "rolled back", "detached", "dropped", "apart",
}

func (st sessionState) String() string { return sessionStates[st] }

// nextStates are those that may follow a state.
var nextStates = [...][]sessionState{
	stateWriting:    {stateEnding, stateGoingLive, stateDetached},
	stateEnding:     {stateCommitted, stateRolledBack},
	stateGoingLive:  {stateLive, stateCommitted, stateRolledBack},
	stateCommitted:  {stateApart},
	stateLive:       nil,
	stateRolledBack: nil,
	stateDetached:   {stateDropped},
	stateDropped:    nil,
	stateApart:      nil,
}

// hasEnded reports whether nobody joins the session any more, and nothing that is
// written to its shadow will be committed by it.
func (st sessionState) hasEnded() bool { return st != stateWriting && st != stateDetached }

// isNobodys reports whether what is written to the shadow comes to no file.
func (st sessionState) isNobodys() bool {
	return st == stateDetached || st == stateDropped || st == stateApart
}

// become is the only way from one state to another. s.mu is held.
func (s *session) become(next sessionState) {
	if !slices.Contains(nextStates[s.state], next) {
		s.f.log.Errorf("session %s: it is %v, and cannot become %v", s.id, s.state, next)
	}
	s.state = next
}

// endAs is the only end of a session while the mount stands: it gives everything back that
// the session had, and lets those go on who wait for its lock. e is what the closes are
// told. s.mu is held.
func (s *session) endAs(next sessionState, e unix.Errno) unix.Errno {
	s.result = e
	s.closeLocked()
	s.become(next)
	switch {
	case len(s.handles) == 0, next == stateDropped:
		s.discard(s.shadow)
	case next == stateCommitted && e == 0:
		time.AfterFunc(lateGrace, s.late)
	}
	s.f.table.Release(s.lock)
	close(s.freed)
	return e
}

// endWith is endAs after a commit that was tried, and a rollback if it has failed. A
// commit that is not known to be on disk has an error, too.
func (s *session) endWith(e unix.Errno) unix.Errno {
	switch {
	case e != 0 && s.sealed == (cacheStamp{}):
		return s.endAs(stateRolledBack, e)
	case e == 0 && s.state == stateGoingLive:
		return s.endAs(stateLive, 0)
	}
	return s.endAs(stateCommitted, e)
}
