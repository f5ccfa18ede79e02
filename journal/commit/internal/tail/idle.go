package tail

import "time"

// linger is how long the undo record of a file stands after the last
// appender has closed it, so that a loop of short appends writes one.
const linger = 5 * time.Second

// idle are the tails that nobody uses, and that linger. Each has a descriptor, so there may be
// only so many: of more the oldest end at once. Set.mu guards it.
type idle struct {
	max     int     // 0: any number
	queue   []*Tail // the oldest first; those that are used again are among them
	n       int     // of those that linger
	hurried int     // of these, how many are told to end
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
	t.linger = time.AfterFunc(wait, t.expire)
	i.n++
	i.queue = append(i.queue, t)
	for i.max > 0 && i.n-i.hurried > i.max {
		oldest := i.queue[0]
		i.queue = i.queue[1:]
		if oldest.linger != nil && !oldest.hurried {
			oldest.hurried = true
			i.hurried++
			oldest.linger.Reset(0)
		}
	}
	if len(i.queue) > 2*i.n+16 {
		i.forget()
	}
}

// forget drops the entries of tails that do not linger.
func (i *idle) forget() {
	kept, seen := i.queue[:0], map[*Tail]bool{}
	for _, t := range i.queue {
		if t.linger != nil && !t.hurried && !seen[t] {
			seen[t] = true
			kept = append(kept, t)
		}
	}
	clear(i.queue[len(kept):])
	i.queue = kept
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
