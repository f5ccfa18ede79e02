package lockmgr

import (
	"cmp"
	"slices"

	"latchfs/lockmgr/internal/places"
)

// settle serves every queue that has changed and restores the order of the
// waiters, until nothing is left to do. Every exported method that changes the
// table ends with it.
func (t *Table) settle() {
	t.version.Add(1)
	for again := true; again; again = t.theft() {
		for len(t.dirty)+len(t.suspects)+len(t.fresh) > 0 {
			t.handOver()
			t.sortOut()
		}
	}
	t.sorted = t.token
}

// emptied returns s without its elements, which it forgets.
func emptied[T any](s []*T) []*T {
	clear(s)
	return s[:0]
}

// touch notes that the queue of n may have someone to serve.
func (t *Table) touch(n *node) {
	t.touched++
	if !n.Dirty && n.Waiting.First() != nil {
		n.Dirty = true
		t.dirty = append(t.dirty, n)
	}
}

// handOver grants the first waiter that waits for nobody, until there is none.
// It looks at the dirty nodes only; when a grant touches one, it starts again.
func (t *Table) handOver() {
	for len(t.dirty) > 0 {
		var served bool
		if len(t.dirty) == 1 {
			served = t.serveOne(t.dirty[0])
		} else {
			served = t.serveMany(t.dirty)
		}
		if !served {
			continue
		}
		for _, n := range t.dirty {
			n.Dirty = false
			t.ground.Tidy(n)
		}
		t.dirty = emptied(t.dirty)
	}
}

// serveOne grants whoever of the queue of n waits for nobody. It stops and
// returns false when a grant may have let in others that come earlier.
func (t *Table) serveOne(n *node) bool {
	for p := n.Waiting.First(); p != nil && !t.shut(n); {
		l := p.Lock()
		p = p.Next()
		if !t.serve(l) {
			return false
		}
	}
	return true
}

// serveMany is serveOne for the queues of several nodes, in the order of all
// waiters.
func (t *Table) serveMany(nodes []*node) bool {
	turn := t.turn[:0]
	for _, n := range nodes {
		if t.shut(n) {
			continue
		}
		for p := n.Waiting.First(); p != nil; p = p.Next() {
			turn = append(turn, p.Lock())
		}
	}
	slices.SortFunc(turn, byRank)
	turn = slices.Compact(turn)
	all := true
	for i := 0; i < len(turn) && all; i++ {
		all = t.serve(turn[i])
	}
	t.turn = emptied(turn)
	return all
}

// serve grants the waiter l if it waits for nobody. It returns false when that
// may have let in others that come earlier.
func (t *Table) serve(l *Lock) bool {
	touched := t.touched
	if !l.stand.IsBlocked() && !l.stand.IsBehind() {
		t.grant(l)
	}
	return t.touched == touched
}

// byRank compares two waiters by who comes first.
func byRank(a, b *Lock) int { return cmp.Compare(a.stand.Rank, b.stand.Rank) }

// grant makes a lock, new or waiting, a holder and wakes whoever waits for it.
func (t *Table) grant(l *Lock) {
	waited := l.stand.State == places.Waiting
	t.ground.Hold(&l.stand)
	if l.contended() {
		t.fresh = append(t.fresh, l)
	}
	if waited {
		t.waiting.Remove(l)
		t.owners.CountWaiter(&l.stand.Terms, -1)
	}
	t.held.Insert(l, nil)
	t.token++
	l.stand.Token = t.token
	l.party.Add(l)
	if l.stand.Terms.Class != Session {
		t.absorb(l)
	}
	l.wake(waited)
}

// wake tells whoever waits for l that the wait is over.
func (l *Lock) wake(waited bool) {
	if l.done != nil {
		close(l.done)
	}
	if waited && l.inbox != nil {
		l.inbox.put(l)
	}
}

// weaken notes that the holder l has left n, or has become weaker there.
// Whoever comes next is found by handOver; but waiters of its own family may
// have to wait for others from now on whom it sheltered them from, or hold up
// the rest of the family, which they did not as long as they waited for l.
func (t *Table) weaken(l *stand, n *node) {
	t.ground.Touch(n)
	if !t.owners.HasWaiter(l.Terms.Owner) {
		return
	}
	for p := n.Waiting.First(); p != nil; p = p.Next() {
		if p.Stand().Terms.Descends(l.Terms.Owner) {
			t.suspects = append(t.suspects, p.Lock())
		}
	}
}

// end takes a lock out of the table, held or waiting or just about to, and
// wakes whoever waits for it.
func (t *Table) end(l *Lock, err error) {
	was := l.stand.State
	t.leave(l)
	t.ground.Leave(&l.stand)
	switch was {
	case places.Held:
		t.held.Remove(l)
		if l.expired() {
			t.lapsed--
		}
	case places.Waiting:
		t.waiting.Remove(l)
		t.owners.CountWaiter(&l.stand.Terms, -1)
	case places.Nowhere:
	}
	l.err = err
	if was == places.Waiting {
		l.wake(true)
	}
}
