package lockmgr

import (
	"cmp"
	"slices"
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
	if !n.dirty && n.waiting.First() != nil {
		n.dirty = true
		t.dirty = append(t.dirty, n)
	}
}

// touchAll touches every node that l stands at.
func (t *Table) touchAll(l *Lock) {
	for at := &l.first; at != nil; at = at.also {
		if n := at.node; n != nil {
			t.touch(n)
		}
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
			n.dirty = false
			t.nodes.Prune(n)
		}
		t.dirty = emptied(t.dirty)
	}
}

// serveOne grants whoever of the queue of n waits for nobody. It stops and
// returns false when a grant may have let in others that come earlier.
func (t *Table) serveOne(n *node) bool {
	for p := n.waiting.First(); p != nil && !t.shut(n); {
		l := p.lock
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
		for p := n.waiting.First(); p != nil; p = p.Next() {
			turn = append(turn, p.lock)
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
	if l.free() {
		t.grant(l)
	}
	return t.touched == touched
}

// byRank compares two waiters by who comes first.
func byRank(a, b *Lock) int { return cmp.Compare(a.rank, b.rank) }

// free reports whether a waiting lock waits for nobody.
func (l *Lock) free() bool {
	for p := &l.first; p != nil; p = p.also {
		if p.lock != nil && (l.clash(p.node) != nil || l.clashAhead(p.node, p) != nil) {
			return false
		}
	}
	return true
}

// grant makes a lock, new or waiting, a holder and wakes whoever waits for it.
func (t *Table) grant(l *Lock) {
	contended := false
	for p := &l.first; p != nil; p = p.also {
		if p.lock == nil {
			continue
		}
		n := p.node
		if l.state == waiting {
			n.waiting.remove(p)
		}
		l.guest = l.guest || l.conflictsWithHolder(n)
		n.held.insert(p, nil)
		contended = contended || n.waiting.First() != nil
		if n.held.shelters() {
			t.touch(n)
		}
		if l.terms.Weak {
			t.touchBehind(n)
		}
	}
	if contended {
		t.fresh = append(t.fresh, l)
	}
	waited := l.state == waiting
	if waited {
		t.waiting.Remove(l)
		t.owners.CountWaiter(&l.terms, -1)
	}
	t.held.Insert(l, nil)
	t.token++
	l.token = t.token
	l.state = held
	l.party.Add(l)
	if l.terms.Class != Session {
		t.absorb(l)
	}
	if old := l.replaces; old != nil {
		l.replaces, old.upgrader = nil, nil
		t.inherit(l, old)
		t.end(old, ErrReplaced)
	}
	l.wake(waited)
}

// inherit goes on with the lease of the lock that l replaces, so that an upgrade
// is no sign of life. A flock that is converted is a new request and begins anew.
func (t *Table) inherit(l, old *Lock) {
	if l.terms.Class != Session {
		return
	}
	l.lease.Continue(&old.lease)
	if l.expired() {
		t.lapsed++
	}
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

// weaken notes that the holder l is about to leave n, or to become weaker
// there. Whoever comes next is found by handOver; but waiters of its own
// family may have to wait for others from now on whom it sheltered them from,
// or hold up the rest of the family, which they did not as long as they waited
// for l.
func (t *Table) weaken(l *Lock, n *node) {
	t.touch(n)
	if !t.owners.HasWaiter(l.terms.Owner) {
		return
	}
	for p := n.waiting.First(); p != nil; p = p.Next() {
		if p.lock.terms.Descends(l.terms.Owner) {
			t.suspects = append(t.suspects, p.lock)
		}
	}
}

// conflictsWithHolder reports whether l conflicts with a holder of n and only
// the shelter of a common session lets it in.
func (l *Lock) conflictsWithHolder(n *node) bool {
	if !n.held.clashes(l.terms.Mode) {
		return false
	}
	for p := n.held.First(); p != nil; p = p.Next() {
		if l.terms.Conflicts(&p.lock.terms) && l.meets(p.lock, n) {
			return true
		}
	}
	return false
}

// end takes a lock out of the table, held or waiting or just about to, and
// wakes whoever waits for it.
func (t *Table) end(l *Lock, err error) {
	was := l.state
	for p := &l.first; p != nil; p = p.also {
		if p.lock == nil {
			continue
		}
		n := p.node
		switch was {
		case held:
			t.weaken(l, n)
			n.held.remove(p)
		case waiting:
			n.waiting.remove(p)
			t.touch(n)
		case fresh, ended: // in neither list
		}
		p.node = nil
		if p.tree {
			t.fell(n)
		}
		t.nodes.Prune(n)
	}
	switch was {
	case held:
		t.held.Remove(l)
		if l.expired() {
			t.lapsed--
		}
	case waiting:
		t.waiting.Remove(l)
		t.owners.CountWaiter(&l.terms, -1)
	case fresh, ended:
	}
	if u := l.upgrader; u != nil {
		u.replaces, l.upgrader = nil, nil
	}
	if old := l.replaces; old != nil {
		l.replaces, old.upgrader = nil, nil
	}
	t.leave(l)
	l.state, l.err = ended, err
	if was == waiting {
		l.wake(true)
	}
}
