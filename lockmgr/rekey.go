package lockmgr

// Rekey renames a key, and every key below it, as a rename of the directory
// does: locks stay held, waiters keep waiting, both under the new names. When
// the new name has locks already, holders stay holders side by side and the
// queues become one; a lock on both names keeps one.
// Nothing happens when from is empty or to lies below from.
func (t *Table) Rekey(from, to Key) {
	t.mu.Lock()
	defer t.mu.Unlock()
	if from == "" || from == to || to.Below(from) {
		return
	}
	t.resettle(t.uproot(nil, from, to))
}

// RekeyFile renames one key as the rename of an open file does: the locks of
// clients move, which have the file open, and the session lock l. All other session
// locks, and what waits for them, are on the name and stay.
func (t *Table) RekeyFile(l *Lock, from, to Key) {
	t.mu.Lock()
	defer t.mu.Unlock()
	if from == "" || from == to {
		return
	}
	t.resettle(t.uprootFile(nil, l, from, to))
}

// ExchangeFiles is RekeyFile for two keys at once, with a session lock on each or
// none.
func (t *Table) ExchangeFiles(la, lb *Lock, a, b Key) {
	t.mu.Lock()
	defer t.mu.Unlock()
	if a == "" || b == "" || a == b {
		return
	}
	t.resettle(t.uprootFile(t.uprootFile(nil, la, a, b), lb, b, a))
}

// uprootFile is uproot for what RekeyFile moves.
func (t *Table) uprootFile(out []*place, l *Lock, from, to Key) []*place {
	n := t.nodes.Find(from)
	if n == nil {
		return out
	}
	var moving []*place
	for _, list := range []*placeList{&n.held, &n.waiting} {
		for p := list.First(); p != nil; p = p.Next() {
			if !p.intent && (p.lock == l || p.lock.terms.Class != Session) {
				moving = append(moving, p)
			}
		}
	}
	for _, p := range moving {
		t.retract(p.lock)
		if p.lock.state == held {
			t.weaken(p.lock, n)
			n.held.remove(p)
		} else {
			t.touch(n)
			n.waiting.remove(p)
		}
		if p.tree {
			t.fell(n)
		}
		p.node, p.key = nil, to
	}
	t.nodes.Prune(n)
	return append(out, moving...)
}

// Exchange swaps two keys, each with everything below it, as rename with
// RENAME_EXCHANGE does. Nothing happens when one is empty or below the other.
func (t *Table) Exchange(a, b Key) {
	t.mu.Lock()
	defer t.mu.Unlock()
	if a == "" || b == "" || a == b || a.Below(b) || b.Below(a) {
		return
	}
	t.resettle(t.uproot(t.uproot(nil, a, b), b, a))
}

// uproot takes every place at from and below out of its node and gives it its
// new name. It appends the places to out, in an order that keeps that of each
// list.
func (t *Table) uproot(out []*place, from, to Key) []*place {
	top := t.nodes.Find(from)
	if top == nil {
		return out
	}
	var nodes []*node
	t.nodes.Walk(top, func(n *node) { nodes = append(nodes, n) })
	for _, n := range nodes {
		t.retractAll(n)
	}
	for _, n := range nodes {
		name := n.Key().Moved(from, to)
		for _, list := range []*placeList{&n.held, &n.waiting} {
			for p := list.First(); p != nil; p = list.First() {
				list.remove(p)
				if p.tree {
					t.fell(n)
				}
				p.node, p.key = nil, name
				out = append(out, p)
			}
		}
	}
	for _, n := range nodes {
		t.nodes.Prune(n)
	}
	return out
}

// resettle puts uprooted places where their names say.
func (t *Table) resettle(places []*place) {
	locks := make([]*Lock, len(places))
	for i, p := range places {
		locks[i] = p.lock
	}
	for _, p := range places {
		t.resettleOne(p)
	}
	for _, l := range locks {
		t.announceMoved(l)
	}
	for _, l := range locks {
		for q := &l.first; q != nil; q = q.also {
			if q.lock != nil {
				t.reconsider(q.node)
			}
		}
	}
	t.settle()
}

// resettleOne puts one place where its name says. Where its lock has a place
// already, the two become one.
func (t *Table) resettleOne(p *place) {
	l := p.lock
	n := t.nodes.At(p.key)
	q := l.placeAt(n)
	if q != nil && q.intent {
		t.retract(l)
		q = nil
	}
	if q != nil {
		p.lock = nil
		if p.tree && !q.tree {
			q.tree = true
			t.plant(q)
			l.guest = l.guest || n.held.First() != n.held.Last()
		}
		t.nodes.Prune(n)
		return
	}
	p.node = n
	if p.tree {
		t.plant(p)
	}
	if l.state == held {
		l.guest = l.guest || n.held.First() != nil
		n.held.insert(p, nil)
	} else {
		n.waiting.insertByRank(p)
	}
}
