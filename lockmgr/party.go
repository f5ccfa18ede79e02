package lockmgr

// party is one owner with the locks that it holds.
type party struct {
	owner Owner
	held  *Lock // linked by pnext
	n     int   // how many are held
	all   int   // how many are held or wait
	next  *party
}

// join enters l into the index of its owner.
func (t *Table) join(l *Lock) {
	y := t.parties[l.terms.Owner]
	if y == nil {
		if y = t.spareParty; y == nil {
			y = new(party)
		} else {
			t.spareParty, t.spareCount = y.next, t.spareCount-1
		}
		*y = party{owner: l.terms.Owner}
		t.parties[l.terms.Owner] = y
	}
	l.party = y
	y.all++
	if l.terms.Weak {
		t.weak++
	}
	if l.state == held {
		y.add(l)
	}
}

// add enters l, which has joined y, among the locks that y holds.
func (y *party) add(l *Lock) {
	if l.pnext = y.held; l.pnext != nil {
		l.pnext.pprev = l
	}
	y.held = l
	y.n++
}

// leave takes l out of the index.
func (t *Table) leave(l *Lock) {
	y := l.party
	if l.state == held {
		y.remove(l)
	}
	l.party = nil
	if l.terms.Weak {
		t.weak--
	}
	if y.all--; y.all > 0 {
		return
	}
	delete(t.parties, y.owner)
	if t.spareCount < maxSpares {
		*y = party{next: t.spareParty}
		t.spareParty, t.spareCount = y, t.spareCount+1
	}
}

func (y *party) remove(l *Lock) {
	if l.pprev == nil {
		y.held = l.pnext
	} else {
		l.pprev.pnext = l.pnext
	}
	if l.pnext != nil {
		l.pnext.pprev = l.pprev
	}
	l.pprev, l.pnext = nil, nil
	y.n--
}

// lockList is a list of locks in a fixed order.
type lockList struct {
	head, tail *Lock
	n          int
}

// insert puts l before at; nil appends it.
func (ls *lockList) insert(l, at *Lock) {
	l.next = at
	if at == nil {
		l.prev = ls.tail
		ls.tail = l
	} else {
		l.prev = at.prev
		at.prev = l
	}
	if l.prev == nil {
		ls.head = l
	} else {
		l.prev.next = l
	}
	ls.n++
}

func (ls *lockList) remove(l *Lock) {
	if l.prev == nil {
		ls.head = l.next
	} else {
		l.prev.next = l.next
	}
	if l.next == nil {
		ls.tail = l.prev
	} else {
		l.next.prev = l.prev
	}
	l.prev, l.next = nil, nil
	ls.n--
}
