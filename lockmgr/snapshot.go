package lockmgr

import (
	"math"
	"slices"
)

// Snapshot describes all locks at one moment.
type Snapshot struct {
	Held    []Holder // in the order of the grants
	Waiting []Holder // in the order of the queues
}

// holder describes l; buf is where its keys are appended.
func (l *Lock) holder(buf []Key) Holder {
	at := len(buf)
	buf = l.keys(buf)
	return Holder{
		Keys: buf[at:len(buf):len(buf)], Trees: l.trees(), TTL: l.lease.TTL, Beat: l.t.clock.Time(l.lease.LastAlive()), Stale: l.state == held && l.expired(),
		Mode: l.terms.Mode, Class: l.terms.Class, Client: l.terms.Client, Range: l.terms.Range,
		Owner: l.terms.Owner, Token: l.token, Since: l.terms.Since, Now: l.now, Label: l.label, Lock: l,
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
	places := 0
	for l := first; l != nil; l = l.links.Next() {
		for p := &l.first; p != nil; p = p.also {
			places++
		}
	}
	out, keys := make([]Holder, 0, n), make([]Key, 0, places)
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
// granted first. Waiters are no obstacle here, as in fcntl(2).
func (t *Table) Test(r Request) *Holder {
	if r.validate() != nil {
		return nil
	}
	t.mu.Lock()
	defer t.mu.Unlock()
	var l Lock
	l.init(t, &r)
	for p := &l.first; p != nil; p = p.also {
		p.node = t.nodes.Find(p.key)
	}
	t.announce(&l)
	for p := &l.first; p != nil; p = p.also {
		if p.node != nil {
			if x := l.firstClash(p.node); x != nil {
				h := x.holder(nil)
				return &h
			}
		}
	}
	return nil
}

// Holders describes who holds any of the keys, of whatever mode and class, or a
// tree above one; of trees, who holds anything in them, too.
func (t *Table) Holders(keys, trees []Key) []Holder {
	t.mu.Lock()
	defer t.mu.Unlock()
	var out []Holder
	seen := map[*Lock]bool{}
	add := func(p *place) {
		if !seen[p.lock] {
			seen[p.lock] = true
			out = append(out, p.lock.holder(nil))
		}
	}
	for _, k := range slices.Concat(keys, trees) {
		for n := t.nodes.Nearest(k); n != nil; n = n.Parent() {
			for p := n.held.First(); p != nil; p = p.Next() {
				if n.Key() == k && !p.intent || n.Key() != k && p.tree {
					add(p)
				}
			}
		}
	}
	for _, k := range trees {
		if n := t.nodes.Find(k); n != nil {
			t.nodes.Walk(n, func(n *node) {
				for p := n.held.First(); p != nil; p = p.Next() {
					add(p)
				}
			})
		}
	}
	return out
}

// firstClash is clash, but for Posix locks the one with the lowest range.
func (l *Lock) firstClash(n *node) *Lock {
	var first *Lock
	for p := n.held.First(); p != nil; p = p.Next() {
		if l.blockedBy(p.lock, n) && (first == nil || p.lock.terms.Range.Start < first.terms.Range.Start) {
			first = p.lock
		}
	}
	return first
}

// Conflicts returns whom a waiting lock waits for: holders first, then waiters
// that stand before it; nil when it does not wait.
func (t *Table) Conflicts(l *Lock) []Holder { return t.FirstConflicts(l, math.MaxInt) }

// FirstConflicts is Conflicts for no more than n of them. With a long queue it is
// much cheaper.
func (t *Table) FirstConflicts(l *Lock, n int) []Holder {
	t.mu.Lock()
	defer t.mu.Unlock()
	if l.t != t || l.state != waiting {
		return nil
	}
	return l.blockers(n)
}

// blockers describes everybody l waits for, each once, holders first, up to a
// limit; of a lock that stands in no queue, everybody it would wait for.
func (l *Lock) blockers(limit int) []Holder {
	var out []Holder
	seen := map[*Lock]bool{l: true}
	add := func(x *Lock, n *node) {
		if len(out) < limit && !seen[x] && l.blockedBy(x, n) {
			seen[x] = true
			out = append(out, x.holder(nil))
		}
	}
	for at := &l.first; at != nil; at = at.also {
		if n := at.node; n != nil {
			for p := n.held.First(); p != nil && len(out) < limit; p = p.Next() {
				add(p.lock, n)
			}
		}
	}
	for at := &l.first; at != nil; at = at.also {
		if n := at.node; n != nil {
			for p := n.waiting.First(); p != nil && p != at && len(out) < limit; p = p.Next() {
				if l.queuesBehind(p.lock, n) && (l.state == waiting || !l.inside(n, p.lock)) {
					add(p.lock, n)
				}
			}
		}
	}
	return out
}
