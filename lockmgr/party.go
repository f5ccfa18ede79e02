package lockmgr

import "latchfs/lockmgr/internal/list"

// party is one owner with the locks that it holds.
type party struct {
	owner Owner
	held  list.List[Lock, ofParty] // the newest first
	all   int                      // how many are held or wait
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
		y.held.Insert(l, y.held.First())
	}
}

// leave takes l out of the index.
func (t *Table) leave(l *Lock) {
	y := l.party
	if l.state == held {
		y.held.Remove(l)
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

// lockList is a list of locks in a fixed order: t.held or t.waiting.
type lockList = list.List[Lock, inTable]

// inTable and ofParty are by which links a lock is in a list.
type (
	inTable struct{}
	ofParty struct{}
)

func (inTable) Links(l *Lock) *list.Links[Lock] { return &l.links }
func (ofParty) Links(l *Lock) *list.Links[Lock] { return &l.ofParty }
