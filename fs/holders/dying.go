package holders

import (
	"time"

	"latchfs/lockmgr"
)

// addDying adds a process to a list if it is being killed, and its close is not the one
// that is looked at. Its descriptors are gone before it sends the FLUSH of each of them,
// which tells that it has not finished the file.
func (s *Set) addDying(list []lockmgr.Owner, pid int32, by *Closer) []lockmgr.Owner {
	if by == nil || pid == by.Owner.PID {
		return list // all have flushed, or this is its FLUSH
	}
	if sig, exiting := s.c.Procs.ExitOf(pid); sig == 0 || !exiting {
		return list
	}
	th, err := s.c.Procs.Process(pid)
	if err != nil || !s.c.Procs.Alive(th.Owner) {
		return list
	}
	return append(list, th.Owner)
}

// DyingWait is how long a close waits for processes that are being killed.
const DyingWait = 2 * time.Second

// Patience is how long one close goes on waiting for them.
type Patience struct {
	procs Procs
	by    *Closer
	until time.Time
}

// Patience is that of a close that begins now; by may be nil.
func (s *Set) Patience(by *Closer) Patience {
	return Patience{s.c.Procs, by, time.Now().Add(DyingWait)}
}

// Outlasts waits until processes that die are dead, so that their FLUSHes have come, and
// the file is to be looked at again; false if that takes too long, or if the closer is being
// killed, too: of processes that are killed at once, none may wait for another. RELEASE
// will tell then.
func (p Patience) Outlasts(dying []lockmgr.Owner) bool {
	p.by.held = nil // it takes a while
	if p.by.Killed {
		return false
	}
	t := time.NewTimer(time.Until(p.until))
	defer t.Stop()
	for _, o := range dying {
		dead, stop, err := p.procs.Watch(o)
		if err != nil {
			return false
		}
		select {
		case <-dead:
			stop()
		case <-t.C:
			stop()
			return false
		}
	}
	return true
}
