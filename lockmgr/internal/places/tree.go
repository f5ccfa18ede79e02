package places

// This file keeps the intentions: see Tree locks above.

// announce adds l's intentions: a place at each tree lock's key above its own.
// They are in no list yet. It returns the first of them.
func (g *Ground[L]) announce(l *Stand[L]) (first *Place[L]) {
	if g.trees == 0 {
		return nil
	}
	last := &l.first
	for last.also != nil {
		last = last.also
	}
	for own, end := &l.first, last; ; own = own.also {
		if own.stand != nil && !own.intent && own.key != own.key.Parent() {
			for n := g.nodes.Nearest(own.key.Parent()); n != nil; n = n.Parent() {
				if n.trees == 0 || l.At(n) != nil {
					continue
				}
				last.also = &Place[L]{stand: l, key: n.Key(), node: n, intent: true}
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

// announceAt gives l, held or waiting below n, an intention at n.
func (g *Ground[L]) announceAt(l *Stand[L], n *Node[L]) {
	if l.At(n) != nil {
		return
	}
	p := &Place[L]{stand: l, key: n.Key(), node: n, intent: true, also: l.first.also}
	l.first.also = p
	if l.State == Held {
		n.Held.insertByToken(p)
	} else {
		n.Waiting.insertByRank(p)
	}
}

// announceMoved gives a lock, held or waiting under a new name, its intentions
// there. Two holders that this brings together remain holders.
func (g *Ground[L]) announceMoved(l *Stand[L]) {
	for p := g.announce(l); p != nil; p = p.also {
		if l.State == Held {
			l.Guest = true
			p.node.Held.insert(p, nil)
		} else {
			p.node.Waiting.insertByRank(p)
		}
	}
}

// retract removes all intentions of l. Their nodes stay, for a tree lock is there.
func (g *Ground[L]) retract(l *Stand[L]) {
	for q := &l.first; q.also != nil; {
		p := q.also
		if !p.intent {
			q = p
			continue
		}
		if p.node != nil {
			g.dequeue(p)
		}
		q.also = p.also
		p.node, p.also = nil, nil
	}
}

// retractAll removes the intentions of every lock that stands at n.
func (g *Ground[L]) retractAll(n *Node[L]) {
	if g.trees == 0 {
		return
	}
	var locks []*Stand[L]
	for _, list := range []*Queue[L]{&n.Held, &n.Waiting} {
		for p := list.First(); p != nil; p = p.Next() {
			locks = append(locks, p.stand)
		}
	}
	for _, l := range locks {
		g.retract(l)
	}
}

// plant notes that p, which is about to stand at its node, is a tree lock's. At
// the first one of a node everybody who is below gets an intention there.
func (g *Ground[L]) plant(p *Place[L]) {
	n := p.node
	n.trees++
	g.trees++
	if n.trees > 1 {
		return
	}
	g.nodes.WalkBelow(n, func(c *Node[L]) {
		for q := c.Held.First(); q != nil; q = q.Next() {
			g.announceAt(q.stand, n)
		}
		for q := c.Waiting.First(); q != nil; q = q.Next() {
			g.announceAt(q.stand, n)
		}
	})
}

// fell notes that a tree lock's place has left its node n. With the last one
// go the intentions there; who waits is served where else it stands.
func (g *Ground[L]) fell(n *Node[L]) {
	n.trees--
	g.trees--
	if n.trees > 0 {
		return
	}
	for _, list := range []*Queue[L]{&n.Held, &n.Waiting} {
		for p := list.First(); p != nil; {
			q := p
			p = p.Next()
			if q.intent {
				list.remove(q)
				q.stand.drop(q)
				if q.stand.State == Waiting {
					g.touchAll(q.stand)
				}
			}
		}
	}
}
