package fs

import (
	"time"

	"latchfs/fs/sessionstate"

	"golang.org/x/sys/unix"
)

// endings decides when a session ends: at a close, at a RELEASE, at the end of the mount. Until
// then it syncs and shows what the session has written.
type endings struct {
	lookDelay time.Duration // the constant of that name; simulations have another one

	*ground
	commits  *commits
	judging  *judging
	live     *live
	locks    *locks
	losses   *losses
	recorder *recorder
}

// inheritByDescriptor gives a session that has nothing to commit, and whose known holders are
// gone, to a process that still has its descriptor: one to which the descriptor was passed.
func (en *endings) inheritByDescriptor(s *session) {
	s.mu.Lock()
	defer s.mu.Unlock()
	s.lingering = nil
	if !s.state.Is(sessionstate.Writing) || len(s.handles) == 0 {
		return
	}
	if o, ok := s.holders.Anybody(); ok {
		en.locks.handToLocked(s, o)
	}
}

// released cleans up after the last RELEASE of an ended session.
func (en *endings) released(s *session) {
	s.mu.Lock()
	defer s.mu.Unlock()
	if s.writtenLate() {
		en.commits.rejectLocked(s, unix.ESTALE, "written after the commit through a descriptor that had been passed on")
	}
	en.disk.discard(s.shadow)
	en.nodes.mu.Lock()
	en.commits.finishLocked(s)
	en.nodes.mu.Unlock()
}

// mapPoll is how often the mappings of a shadow without descriptors are looked
// at: no request tells when the last one goes.
const mapPoll = 20 * time.Millisecond

// endAtRelease is the catch-all for sessions that no FLUSH ended: the last
// descriptor is closed, but a passthrough mapping may still be written. The errno is the answer to
// the session, if it has ended now.
func (en *endings) endAtRelease(s *session) unix.Errno {
	if e := en.endIfIdle(s, nil); en.isLookedAfter(s) {
		return e
	}
	go func() {
		t := time.NewTicker(mapPoll)
		defer t.Stop()
		for {
			select {
			case <-en.life.done:
				return
			case <-t.C:
			}
			if en.endIfIdle(s, nil); en.isLookedAfter(s) {
				return
			}
		}
	}()
	return 0
}

// isLookedAfter reports whether the session has ended, or something is still to come that
// ends it: a close, the arrival of a caller that is on its way, the end of its transaction.
func (en *endings) isLookedAfter(s *session) bool {
	s.mu.Lock()
	defer s.mu.Unlock()
	return s.state.HasEnded() || len(s.handles) > 0 || s.expected() || s.held()
}

// abandon ends a session that the end of the mount has cut off: it rolls it back, but for a new
// file that its writer has synced, which appears as it would after a crash.
func (en *endings) abandon(s *session) {
	s.mu.Lock()
	defer s.mu.Unlock()
	if !s.state.Is(sessionstate.Writing) {
		return
	}
	s.become(sessionstate.Ending)
	switch dirty, err := s.content.Dirty(); {
	case s.shadow.Secured() && en.mayAppearLocked(s):
		s.state.Answer(en.commits.decideLocked(s))
	case err != nil || dirty:
		s.state.Answer(en.commits.rejectLocked(s, unix.ESHUTDOWN, "latchfs was stopped before the file was closed"))
	}
	en.disk.discard(s.shadow)
	if s.saved.IsPublished() {
		s.become(sessionstate.Committed)
	} else {
		s.become(sessionstate.RolledBack)
	}
	en.rules.table.Release(s.lock)
}

// walkerGone notes that a caller which was led to the shadow has come, or will not come. The errno
// is the answer to the session, if that has ended so.
func (en *endings) walkerGone(s *session) unix.Errno {
	en.nodes.mu.Lock()
	s.walkers--
	en.nodes.mu.Unlock()
	return en.endAtRelease(s) // without a descriptor nothing else would look for mappings
}
