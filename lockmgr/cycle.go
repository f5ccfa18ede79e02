package lockmgr

// maxOvertakes bounds how often one change of the table lets waiters overtake
// others before it refuses instead.
const maxOvertakes = 64

// edge is one wait: waiter waits for blocker at the key of at. It is hard when
// the blocker is held, and soft when the blocker merely stands before the
// waiter in the queue: a soft wait can be ended by changing the order.
type edge struct {
	waiter, blocker *Lock
	at              *node
}

// reach says which locks of a party are stuck while one waiter waits: all, when
// the party is the waiter's owner, or those asked for before the moment born,
// whose heir the waiter is.
type reach struct {
	all  bool
	born Birth
}

func (r reach) covers(l *Lock) bool { return r.all || r.born.After(l.since) }

func (r reach) within(o reach) bool { return o.all || !r.all && !r.born.After(o.born) }

// visit is one party that the search has come to, because via, who is of the
// party or an heir of it, waits for the lock on of the visit from.
type visit struct {
	party *party
	reach reach
	via   *Lock
	on    *Lock
	at    *node
	from  int // an index into search.visits
}

// search is the scratch space of a search for cycles.
type search struct {
	visits []visit
	run    uint64 // stamps the parties seen
	look   uint64 // stamps the nodes seen in one visit
	mine   []*Lock
	cycle  []edge
}

// untangle ends every cycle that the waiter l is part of. Where only the order
// of a queue closes the cycle, the order is changed; otherwise the newest
// waiter of the cycle is refused.
func (t *Table) untangle(l *Lock) {
	for l.state == waiting {
		if !t.findCycle(l, false) {
			return
		}
		if soft := t.softEdge(); t.overtakes < maxOvertakes && !t.findCycle(l, true) {
			t.overtakes++
			t.overtake(soft)
			continue
		}
		t.refuseNewest()
	}
}

// softEdge returns an edge of the cycle found that can be turned around, if
// there is one: the suspect's own, or else the first.
func (t *Table) softEdge() edge {
	for _, e := range t.search.cycle {
		if e.blocker.state == waiting {
			return e
		}
	}
	return edge{}
}

// overtake puts e's waiter right before e's blocker.
func (t *Table) overtake(e edge) {
	n := e.at
	p, b := e.waiter.placeAt(n), e.blocker.placeAt(n)
	n.waiting.remove(p)
	p.reentrant = b.reentrant
	t.stand(p, b)
	t.suspects = append(t.suspects, e.waiter)
	t.touch(n)
}

// refuseNewest ends the cycle found by refusing its newest waiter.
func (t *Table) refuseNewest() {
	cycle := t.search.cycle
	at := 0
	for i := range cycle {
		if cycle[i].waiter.seq > cycle[at].waiter.seq {
			at = i
		}
	}
	victim := cycle[at].waiter
	if victim.noWait {
		t.end(victim, &ConflictError{Holders: victim.blockers()})
		return
	}
	err := &DeadlockError{Cycle: make([]Wait, len(cycle))}
	for i := range cycle {
		e := cycle[(at+i)%len(cycle)]
		err.Cycle[i] = Wait{Waiter: e.waiter.holder(nil), Blocker: e.blocker.holder(nil), Key: e.at.key}
	}
	t.end(victim, err)
}

// findCycle reports whether the waiter l is part of a cycle, which it leaves in
// t.search.cycle, l's own wait first. With hard it looks only at waits for
// held locks.
//
// It searches backwards: who waits for a lock that is stuck while l waits? For
// most waiters the answer is nobody, and the search ends at once.
func (t *Table) findCycle(l *Lock, hard bool) bool {
	defer t.search.forget()
	if l.holdsUp(l.party) && t.cycleThrough(l, l.party, reach{all: true}, hard) {
		return true
	}
	if l.owner.PID == 0 {
		return false
	}
	for i := range l.lineage {
		a := &l.lineage[i]
		if y := t.parties[a.Owner]; l.holdsUp(y) && t.cycleThrough(l, y, reach{born: a.Child}, hard) {
			return true
		}
	}
	return false
}

// holdsUp reports whether the party y, of l's owner or an ancestor, counts as
// waiting while l waits. It does not when l waits for a lock of y itself: that
// one is in the hands of another thread, or of a parent that did not wait for
// its child, and its holder goes on.
func (l *Lock) holdsUp(y *party) bool {
	if y == nil || y.owner.PID == 0 && y != l.party {
		return false
	}
	ps := l.places()
	for i := range ps {
		n := ps[i].node
		if n == nil || !n.held.clashes(l.mode) {
			continue
		}
		for p := n.held.head; p != nil; p = p.next {
			if p.lock.party == y && l.blockedBy(p.lock, n) {
				return false
			}
		}
	}
	return true
}

// cycleThrough searches for a cycle through l whose last blocker is a lock of
// the party y.
func (t *Table) cycleThrough(l *Lock, y *party, r reach, hard bool) bool {
	s := &t.search
	s.run++
	s.visits = append(s.visits[:0], visit{party: y, reach: r, via: l, from: -1})
	y.stamp, y.reach = s.run, r
	for i := 0; i < len(s.visits); i++ {
		if t.expand(i, l, hard) {
			return true
		}
	}
	return false
}

// expand follows visit i to those who wait for its party.
func (t *Table) expand(i int, l *Lock, hard bool) bool {
	s := &t.search
	s.look++
	for x := s.visits[i].party.locks; x != nil; x = x.pnext {
		ps := x.places()
		for j := range ps {
			n := ps[j].node
			if n == nil || n.waiting.head == nil || n.stamp == s.look {
				continue
			}
			n.stamp = s.look
			if t.expandAt(n, i, l, hard) {
				return true
			}
		}
	}
	return false
}

// expandAt follows visit i to those who wait for its party at n.
func (t *Table) expandAt(n *node, i int, l *Lock, hard bool) bool {
	s := &t.search
	v := s.visits[i]
	s.mine = s.mine[:0]
	for p := n.held.head; p != nil; p = p.next {
		if p.lock.party == v.party && v.reach.covers(p.lock) {
			s.mine = append(s.mine, p.lock)
		}
	}
	for p := n.waiting.head; p != nil; p = p.next {
		w := p.lock
		if w.party == v.party {
			// Waits within one owner are no deadlock: its other threads go on.
			if !hard && v.reach.covers(w) {
				s.mine = append(s.mine, w)
			}
			continue
		}
		for _, x := range s.mine {
			if !w.blockedBy(x, n) {
				continue
			}
			if w != l {
				t.follow(i, w, x, n)
			} else if v.party != s.visits[0].party {
				s.close(i, l, x, n)
				return true
			}
			break
		}
	}
	return false
}

// follow adds the parties that are stuck while w waits for x.
func (t *Table) follow(i int, w, x *Lock, n *node) {
	v := visit{party: w.party, reach: reach{all: true}, via: w, on: x, at: n, from: i}
	t.search.add(v)
	if w.owner.PID == 0 {
		return
	}
	for j := range w.lineage {
		a := &w.lineage[j]
		if v.party = t.parties[a.Owner]; v.party != nil && v.party != x.party {
			v.reach = reach{born: a.Child}
			t.search.add(v)
		}
	}
}

func (s *search) add(v visit) {
	if v.party.stamp == s.run && v.reach.within(v.party.reach) || !v.via.holdsUp(v.party) {
		return
	}
	v.party.stamp, v.party.reach = s.run, v.reach
	s.visits = append(s.visits, v)
}

// close writes down the cycle that ends with l waiting for x, a lock of visit i.
func (s *search) close(i int, l, x *Lock, n *node) {
	s.cycle = append(s.cycle[:0], edge{l, x, n})
	for v := s.visits[i]; v.from >= 0; v = s.visits[v.from] {
		s.cycle = append(s.cycle, edge{v.via, v.on, v.at})
	}
}

// forget drops the pointers of a finished search, so that no lock lives longer
// for having been seen.
func (s *search) forget() {
	clear(s.visits)
	clear(s.mine)
	s.visits, s.mine = s.visits[:0], s.mine[:0]
}
