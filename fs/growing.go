package fs

import (
	"slices"
	"time"

	"latchfs/fs/sessionstate"
	"latchfs/lockmgr"
	"latchfs/lockmgr/policy"
)

// A new file appears at its close, so that nobody finds half of it. Two kinds are
// waited for while they are written, and appear before (docs/policy.md, grow): the output of
// a program that goes on, and what a program syncs and keeps open. Such a file is live
// from then on, until its writers have closed it.

// syncedWait is how long a new file may stay hidden after its first fsync. A careful
// save closes the file at once.
const syncedWait = 200 * time.Millisecond

// noteOutput finds out whether the shadow is some process's standard output or error,
// after a close by o that has left the session open: a shell opens the file, makes
// it descriptor 1 (dup2) and closes the first descriptor.
func (en *endings) noteOutput(s *session, o lockmgr.Owner) {
	s.mu.Lock()
	defer s.mu.Unlock()
	if s.state.HasEnded() || s.output {
		return
	}
	file, owner := writtenFile{en.handles, s}.AsOpen(), s.who.Load().Owner()
	for _, pid := range slices.Compact([]int32{o.PID, owner.PID}) {
		s.output = s.output || pid > 0 && en.callers.proc.IsOutput(pid, file)
	}
	if s.output && s.settings.Grow > 0 {
		en.appearLocked(s, time.Until(s.began.Add(s.settings.Grow)), "output that is still open after "+s.settings.Grow.String())
	}
}

// appearLocked makes the file appear after a while if it is new and still open then.
// s.mu is held.
func (en *endings) appearLocked(s *session, after time.Duration, why string) {
	if !s.isNew.Load() || s.appears != nil {
		return
	}
	s.appears = time.AfterFunc(max(after, 0), func() { en.appear(s, why) })
}

// appear makes a new file visible and live, unless something speaks against it.
func (en *endings) appear(s *session, why string) {
	s.mu.Lock()
	s.appears = nil
	s.grows = s.isNew.Load() && s.state.Is(sessionstate.Writing) && len(s.handles) > 0 &&
		s.content.Failed() == 0 && en.locks.renewForCommit(s) && !s.isUnfinishedLocked()
	grows := s.grows
	s.mu.Unlock()
	path := s.path()
	if grows && en.rules.settings(path).Mode == policy.Atomic && !en.life.isStopping() {
		if e := en.commits.autoLive(s, why); e != 0 {
			en.disk.log.Warnf("%q cannot appear before it is closed: %v", path, e)
		}
	}
	s.mu.Lock()
	defer s.mu.Unlock()
	s.grows = s.grows && s.state.Is(sessionstate.Live)
}
