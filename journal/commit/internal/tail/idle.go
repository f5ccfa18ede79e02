package tail

import (
	"slices"
	"time"
)

// linger is how long the undo record of a file stands after the last
// appender has closed it, so that a loop of short appends writes one.
const linger = 5 * time.Second

// idle are the tails that nobody uses, and that linger. Each has a descriptor, so of more than
// max the oldest are told to end at once: that takes as long as the disk takes to sync their
// files. Set.mu guards it.
type idle struct {
	max     int    // 0: any number
	queue   []rest // the oldest first; those that are over are among them
	n       int    // of the tails that linger
	hurried int    // of these, how many are told to end, or could not
}

// rest is one time that a tail lingers.
type rest struct {
	tail   *Tail
	number uint64 // of the tail's
}

func (r *rest) isOver() bool {
	return r.tail.linger == nil || r.tail.hurried || r.number != r.tail.rests
}

// SetMaxIdle says how many files may be kept that were appended to a moment ago.
func (s *Set) SetMaxIdle(n int) {
	s.mu.Lock()
	defer s.mu.Unlock()
	s.idle.max = max(n, 1)
}

// restLocked lets a tail end after a while. Set.mu is held.
func (t *Tail) restLocked(wait time.Duration) {
	i := &t.s.idle
	t.rests++
	t.endAfterLocked(wait)
	i.n++
	i.queue = append(i.queue, rest{t, t.rests})
	for i.max > 0 && i.n-i.hurried > i.max {
		oldest := i.queue[0]
		i.queue = i.queue[1:]
		if !oldest.isOver() {
			oldest.tail.hurryLocked()
			oldest.tail.linger.Reset(0)
		}
	}
	if len(i.queue) > 2*i.n+16 {
		i.queue = slices.DeleteFunc(i.queue, func(r rest) bool { return r.isOver() })
	}
}

// endAfterLocked ends the tail after a while, if this rest lasts so long. Set.mu is held.
func (t *Tail) endAfterLocked(wait time.Duration) {
	number := t.rests
	t.linger = time.AfterFunc(wait, func() { t.expire(number) })
}

// restsLocked reports whether the rest with that number lasts. Set.mu is held.
func (t *Tail) restsLocked(number uint64) bool {
	return t.users == 0 && t.rests == number && !t.s.closed
}

// hurryLocked takes the tail out of those of whom the oldest is told to end. Set.mu is held.
func (t *Tail) hurryLocked() {
	if !t.hurried {
		t.hurried = true
		t.s.idle.hurried++
	}
}

// againLocked lets a tail that could not end try again after a while. Set.mu is held.
func (t *Tail) againLocked() {
	t.hurryLocked()
	t.endAfterLocked(t.s.Linger)
}

// wakeLocked ends the rest of a tail: it is used again, or has ended. Set.mu is held.
func (t *Tail) wakeLocked() {
	if t.linger == nil {
		return
	}
	t.linger.Stop()
	t.linger = nil
	t.s.idle.n--
	if t.hurried {
		t.hurried = false
		t.s.idle.hurried--
	}
}
