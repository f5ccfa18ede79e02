package lockmgr

// party is one owner with all its locks, held and waiting.
type party struct {
	owner Owner
	locks *Lock // linked by pnext
	n     int   // how many
	next  *party
}

// join enters l into the index of its owner.
func (t *Table) join(l *Lock) {
	y := t.parties[l.owner]
	if y == nil {
		if y = t.spareParty; y == nil {
			y = new(party)
		} else {
			t.spareParty, t.spareCount = y.next, t.spareCount-1
		}
		*y = party{owner: l.owner}
		t.parties[l.owner] = y
	}
	l.party = y
	if l.pnext = y.locks; l.pnext != nil {
		l.pnext.pprev = l
	}
	y.locks = l
	y.n++
}

// leave takes l out of the index.
func (t *Table) leave(l *Lock) {
	y := l.party
	if l.pprev == nil {
		y.locks = l.pnext
	} else {
		l.pprev.pnext = l.pnext
	}
	if l.pnext != nil {
		l.pnext.pprev = l.pprev
	}
	l.party, l.pprev, l.pnext = nil, nil, nil
	y.n--
	if y.locks != nil {
		return
	}
	delete(t.parties, y.owner)
	if t.spareCount < maxSpares {
		*y = party{next: t.spareParty}
		t.spareParty, t.spareCount = y, t.spareCount+1
	}
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
