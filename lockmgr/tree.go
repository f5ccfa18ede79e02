package lockmgr

// This file is about locks on a key with everything below it.
//
// A tree lock and a lock further down conflict, though they share no key. So that
// they meet all the same, a lock also stands at each key above its own where
// there is a tree lock, as what data bases call an intention lock: there it
// conflicts with tree locks and with nothing else. As long as a key has no tree
// lock, nobody has an intention there, and whoever takes no tree lock pays for
// none.

// meets reports whether two locks that both stand at n have anything there in
// common: not an intention with what is no tree.
func (l *Lock) meets(x *Lock, n *node) bool {
	if n.trees == 0 {
		return true
	}
	a, b := l.placeAt(n), x.placeAt(n)
	return (!a.intent || b.tree) && (!b.intent || a.tree)
}

// allOn reports whether three locks at n are on that key, and none below it.
func (n *node) allOn(l, x, h *Lock) bool {
	return n.trees == 0 || !l.placeAt(n).intent && !x.placeAt(n).intent && !h.placeAt(n).intent
}

// announce adds l's intentions: a place at each tree lock's key above its own.
// They are in no list yet. It returns the first of them.
func (t *Table) announce(l *Lock) *place {
	if t.trees == 0 {
		return nil
	}
	var first *place
	last := &l.first
	for last.also != nil {
		last = last.also
	}
	for own, end := &l.first, last; ; own = own.also {
		if own.lock != nil && !own.intent && own.key != own.key.Parent() {
			for n := t.nodes.Nearest(own.key.Parent()); n != nil; n = n.Parent() {
				if n.trees == 0 || l.placeAt(n) != nil {
					continue
				}
				last.also = &place{lock: l, key: n.Key(), node: n, intent: true}
				last = last.also
				if first == nil {
					first = last
				}
			}
		}
		if own == end {
			return first
		}
	}
}

// plant notes that p, which is about to stand at its node, is a tree lock's. At
// the first one of a node everybody who is below gets an intention there.
func (t *Table) plant(p *place) {
	n := p.node
	n.trees++
	t.trees++
	if n.trees > 1 {
		return
	}
	t.nodes.WalkBelow(n, func(c *node) {
		for q := c.held.First(); q != nil; q = q.Next() {
			t.announceAt(q.lock, n)
		}
		for q := c.waiting.First(); q != nil; q = q.Next() {
			t.announceAt(q.lock, n)
		}
	})
}

// announceAt gives l, held or waiting below n, an intention at n.
func (t *Table) announceAt(l *Lock, n *node) {
	if l.placeAt(n) != nil {
		return
	}
	p := &place{lock: l, key: n.Key(), node: n, intent: true, also: l.first.also}
	l.first.also = p
	if l.state == held {
		n.held.insertByToken(p)
	} else {
		n.waiting.insertByRank(p)
	}
}

// fell notes that a tree lock's place has left its node n. With the last one
// go the intentions there; who waits is served where else it stands.
func (t *Table) fell(n *node) {
	n.trees--
	t.trees--
	if n.trees > 0 {
		return
	}
	for _, list := range []*placeList{&n.held, &n.waiting} {
		for p := list.First(); p != nil; {
			q := p
			p = p.Next()
			if q.intent {
				list.remove(q)
				q.lock.forget(q)
				if q.lock.state == waiting {
					t.touchAll(q.lock)
				}
			}
		}
	}
}

// forget takes an intention out of the places of l.
func (l *Lock) forget(p *place) {
	for q := &l.first; q.also != nil; q = q.also {
		if q.also == p {
			q.also = p.also
			p.node, p.also = nil, nil
			return
		}
	}
}

// retractAll removes the intentions of every lock that stands at n.
func (t *Table) retractAll(n *node) {
	if t.trees == 0 {
		return
	}
	var locks []*Lock
	for _, list := range []*placeList{&n.held, &n.waiting} {
		for p := list.First(); p != nil; p = p.Next() {
			locks = append(locks, p.lock)
		}
	}
	for _, l := range locks {
		t.retract(l)
	}
}

// announceMoved gives a lock, held or waiting under a new name, its intentions
// there. Two holders that this brings together remain holders.
func (t *Table) announceMoved(l *Lock) {
	for p := t.announce(l); p != nil; p = p.also {
		if l.state == held {
			l.guest = true
			p.node.held.insert(p, nil)
		} else {
			p.node.waiting.insertByRank(p)
		}
	}
}

// retract removes all intentions of l. Their nodes stay, for a tree lock is there.
func (t *Table) retract(l *Lock) {
	for q := &l.first; q.also != nil; {
		p := q.also
		if !p.intent {
			q = p
			continue
		}
		switch n := p.node; {
		case n == nil:
		case l.state == held:
			t.weaken(l, n)
			n.held.remove(p)
		case l.state == waiting:
			n.waiting.remove(p)
			t.touch(n)
		}
		q.also = p.also
		p.node, p.also = nil, nil
	}
}
