package lockmgr

import (
	"latchfs/lockmgr/internal/places"
)

// Snapshot describes all locks at one moment.
type Snapshot struct {
	Held    []Holder // in the order of the grants
	Waiting []Holder // in the order of the queues
}

// Waiters is how many wait for each key.
func (s *Snapshot) Waiters() map[Key]int {
	n := map[Key]int{}
	for i := range s.Waiting {
		for _, k := range s.Waiting[i].Keys {
			n[k]++
		}
	}
	return n
}

// holder describes l; buf is where its keys are appended.
func (l *Lock) holder(buf []Key) Holder {
	at := len(buf)
	buf = l.stand.Keys(buf)
	return Holder{
		Keys: buf[at:len(buf):len(buf)], Trees: l.stand.Trees(), TTL: l.lease.TTL, Beat: l.t.clock.Time(l.lease.LastAlive()), Stale: l.stand.State == places.Held && l.expired(),
		Mode: l.stand.Terms.Mode, Class: l.stand.Terms.Class, Client: l.stand.Terms.Client, Range: l.stand.Terms.Range,
		Owner: l.stand.Terms.Owner, Token: l.stand.Token, Since: l.stand.Terms.Since, Now: l.now, Label: l.label, Lock: l,
	}
}

// Snapshot describes all locks at one moment.
func (t *Table) Snapshot() Snapshot {
	t.mu.Lock()
	defer t.mu.Unlock()
	return Snapshot{Held: holders(t.held.First(), t.held.Len()), Waiting: holders(t.waiting.First(), t.waiting.Len())}
}

// holders describes the first lock of a list and all behind it, n in number.
func holders(first *Lock, n int) []Holder {
	keysOfAll := 0
	for l := first; l != nil; l = l.links.Next() {
		for p := l.stand.First(); p != nil; p = p.Also() {
			keysOfAll++
		}
	}
	out, keys := make([]Holder, 0, n), make([]Key, 0, keysOfAll)
	for l := first; l != nil; l = l.links.Next() {
		out = append(out, l.holder(keys))
		keys = keys[:len(keys)+len(out[len(out)-1].Keys)]
	}
	return out
}

// Len returns how many locks are held and how many wait.
func (t *Table) Len() (held, waiting int) {
	t.mu.Lock()
	defer t.mu.Unlock()
	return t.held.Len(), t.waiting.Len()
}

// Test returns the held lock that would keep r waiting, or nil: what F_GETLK
// asks. Of several it is the one on the first key, with the lowest range, and
// granted first. Waiters are no obstacle here, as in fcntl(2); nor is a holder
// below one of r's Trees, for whom nobody has asked yet.
func (t *Table) Test(r Request) *Holder {
	if r.validate() != nil {
		return nil
	}
	t.mu.Lock()
	defer t.mu.Unlock()
	l := newLock(t, &r)
	x := t.ground.FirstClash(&l.stand)
	if x == nil {
		return nil
	}
	h := x.Lock.holder(nil)
	return &h
}

// Holders describes who holds any of the keys, of whatever mode and class, or a
// tree above one; of trees, who holds anything in them, too.
func (t *Table) Holders(keys, trees []Key) []Holder {
	t.mu.Lock()
	defer t.mu.Unlock()
	return describeAll(t.ground.Holders(keys, trees))
}

// describeAll describes locks.
func describeAll(locks []*Lock) []Holder {
	var out []Holder
	for _, l := range locks {
		out = append(out, l.holder(nil))
	}
	return out
}

// Conflicts returns whom a waiting lock waits for, n of them at most: holders first, then
// waiters that stand before it; nil when it does not wait. With a long queue a small n is
// much cheaper.
func (t *Table) Conflicts(l *Lock, n int) []Holder {
	t.mu.Lock()
	defer t.mu.Unlock()
	if l.t != t || l.stand.State != places.Waiting {
		return nil
	}
	return l.blockers(n)
}

// blockers describes everybody l waits for, each once, holders first, up to a
// limit; of a lock that stands in no queue, everybody it would wait for.
func (l *Lock) blockers(limit int) []Holder { return describeAll(l.stand.Blockers(limit)) }
