package fs

import "time"

// Where nobody can tell who has a shadow open, its last close is told by RELEASE alone, which comes
// when close(2) has returned. Whoever the closing program tells of the file, or starts after
// itself, may come for it before that.

// Whoever comes for such a file waits for RELEASE, releaseTicks of releaseTick at most. It is sent
// before the close returns, so that it is about to be handled; if it does not come, a descriptor is
// left. Ticks are counted, and not the time: where others take the processors away, no more than one
// passes.
const (
	releaseTick  = 10 * time.Millisecond
	releaseTicks = 10
)

// awaitRelease lets a session end first whose last close may be under way, and reports whether it
// has. ticks is how many it may wait, of which it takes those that it has waited. Relatives of its
// writer wait, too: what they read is to be what the close has made. The kernel may hold the
// directory's lock.
func (en *endings) awaitRelease(s *session, ticks *int) (ended bool) {
	if !s.holders.IsUnseen() {
		return false
	}
	t := time.NewTicker(releaseTick)
	defer t.Stop()
	for ; *ticks > 0; *ticks-- {
		select {
		case <-s.left:
			return true
		case <-en.life.done:
			return false
		case <-t.C:
		}
	}
	s.mu.Lock() // which a commit has until it is over
	defer s.mu.Unlock()
	if len(s.handles) > 0 {
		s.holders.StopAwaiting() // or each who looks at a file that stays open would wait
	}
	return s.state.HasEnded()
}
