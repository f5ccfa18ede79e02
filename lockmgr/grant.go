package lockmgr

// settle serves every queue that has changed and untangles every cycle that a
// change has closed, until nothing is left to do. Every exported method that
// changes the table ends with it.
func (t *Table) settle() {
	t.overtakes = 0
	for len(t.dirty)+len(t.suspects) > 0 {
		for i := 0; i < len(t.dirty); i++ { // handOver appends
			t.handOver(t.dirty[i])
		}
		t.dirty = emptied(t.dirty)
		for i := 0; i < len(t.suspects); i++ { // untangle appends
			t.untangle(t.suspects[i])
		}
		t.suspects = emptied(t.suspects)
	}
}

// emptied returns s without its elements, which it forgets.
func emptied[T any](s []*T) []*T {
	clear(s)
	return s[:0]
}

// touch notes that the queue of n may have someone to serve.
func (t *Table) touch(n *node) {
	if !n.dirty && n.waiting.head != nil {
		n.dirty = true
		t.dirty = append(t.dirty, n)
	}
}

// handOver grants, in the order of the queue, whatever waits at n and waits for
// nobody. A grant touches n again: the kin of the new holder come next.
func (t *Table) handOver(n *node) {
	n.dirty = false
	t.promoteAll(n)
	for p := n.waiting.head; p != nil; {
		next := p.next
		if p.lock.free() {
			t.grant(p.lock)
		}
		p = next
	}
	t.prune(n)
}

// free reports whether a waiting lock waits for nobody.
func (l *Lock) free() bool {
	ps := l.places()
	for i := range ps {
		if p := &ps[i]; p.lock != nil && (l.clash(p.node) != nil || l.clashAhead(p.node, p) != nil) {
			return false
		}
	}
	return true
}

// grant makes a lock, new or waiting, a holder and wakes whoever waits for it.
func (t *Table) grant(l *Lock) {
	ps := l.places()
	for i := range ps {
		p := &ps[i]
		if p.lock == nil {
			continue
		}
		n := p.node
		t.suspectAhead(p)
		if l.state == waiting {
			n.waiting.remove(p)
		}
		p.reentrant = false
		l.guest = l.guest || l.conflictsWithHolder(n)
		n.held.insert(p, nil)
		t.touch(n)
	}
	if l.state == waiting {
		t.waiting.remove(l)
	}
	t.held.insert(l, nil)
	t.token++
	l.token = t.token
	l.state = held
	if l.class != Session {
		t.absorb(l)
	}
	if old := l.replaces; old != nil {
		l.replaces, old.upgrader = nil, nil
		t.end(old, ErrReplaced)
	}
	if l.done != nil {
		close(l.done)
	}
}

// suspectAhead notes the waiters that p overtakes at its grant, which is all
// when it does not wait: from now on they wait for it.
func (t *Table) suspectAhead(p *place) {
	for w := p.node.waiting.head; w != nil && w != p; w = w.next {
		if w.lock.conflicts(p.lock) {
			t.suspects = append(t.suspects, w.lock)
		}
	}
}

// conflictsWithHolder reports whether l conflicts with a holder of n and only
// the shelter of a common session lets it in.
func (l *Lock) conflictsWithHolder(n *node) bool {
	if !n.held.clashes(l.mode) {
		return false
	}
	for p := n.held.head; p != nil; p = p.next {
		if l.conflicts(p.lock) {
			return true
		}
	}
	return false
}

// end takes a lock out of the table, held or waiting, and wakes whoever waits
// for it.
func (t *Table) end(l *Lock, err error) {
	was := l.state
	ps := l.places()
	for i := range ps {
		p := &ps[i]
		if p.lock == nil {
			continue
		}
		n := p.node
		if was == held {
			n.held.remove(p)
		} else {
			n.waiting.remove(p)
		}
		p.node = nil
		t.touch(n)
		t.prune(n)
	}
	if was == held {
		t.held.remove(l)
	} else {
		t.waiting.remove(l)
	}
	if u := l.upgrader; u != nil {
		u.replaces, l.upgrader = nil, nil
	}
	if old := l.replaces; old != nil {
		l.replaces, old.upgrader = nil, nil
	}
	t.leave(l)
	l.state, l.err = ended, err
	if was == waiting && l.done != nil {
		close(l.done)
	}
}

// promoteAll lets the kin of new holders ahead of the others at n: they were
// queued before their kin held the key.
func (t *Table) promoteAll(n *node) {
	for h := n.held.tail; h != nil && h.lock.token > n.promoted; h = h.prev {
		t.promote(n, h.lock)
	}
	n.promoted = t.token
}

func (t *Table) promote(n *node, h *Lock) {
	for p := n.waiting.head; p != nil; {
		next := p.next
		if !p.reentrant && p.lock.joins(h) {
			n.waiting.remove(p)
			p.reentrant = true
			t.stand(p, n.behindReentrant(true))
			t.suspects = append(t.suspects, p.lock)
		}
		p = next
	}
}
