package fs

import "time"

// Where nobody can tell who has a shadow open, its last close is told by RELEASE alone, which comes
// when close(2) has returned. Whoever the closing program tells of the file, or starts after
// itself, may come for it before that.

// releaseWait is how long whoever comes for such a file waits for RELEASE. It is sent before the
// close returns, so that it is about to be handled; if it does not come, a descriptor is left.
const releaseWait = 100 * time.Millisecond

// awaitRelease lets a session end first whose last close may be under way, and reports whether it
// has. begun is when the wait for it, or for the first of several, began. Relatives of its writer
// wait, too: what they read is to be what the close has made. The kernel may hold the directory's
// lock.
func (en *endings) awaitRelease(s *session, begun time.Time) (ended bool) {
	if !s.holders.IsUnseen() {
		return false
	}
	t := time.NewTimer(time.Until(begun.Add(releaseWait)))
	defer t.Stop()
	select {
	case <-s.left:
		return true
	case <-en.life.done:
		return false
	case <-t.C:
	}
	s.mu.Lock() // which a commit has until it is over
	defer s.mu.Unlock()
	if len(s.handles) > 0 {
		s.holders.StopAwaiting() // or each who looks at a file that stays open would wait
	}
	return s.state.HasEnded()
}
