package lockmgr

import (
	"latchfs/lockmgr/internal/list"
	"latchfs/lockmgr/internal/owners"
	"latchfs/lockmgr/internal/places"
)

// party is one owner with the locks that it holds.
type party = owners.Party[Lock, ofParty]

// join enters l into the index of its owner.
func (t *Table) join(l *Lock) {
	l.party = t.owners.Join(l.stand.Terms.Owner)
	if l.stand.State == places.Held {
		l.party.Add(l)
	}
}

// leave takes l out of the index.
func (t *Table) leave(l *Lock) {
	if l.stand.State == places.Held {
		l.party.Remove(l)
	}
	t.owners.Leave(l.party)
	l.party = nil
}

// inTable and ofParty are by which links a lock is in a list.
type (
	inTable struct{}
	ofParty struct{}
)

func (inTable) Links(l *Lock) *list.Links[Lock] { return &l.links }
func (inTable) Rank(l *Lock) *uint64            { return &l.stand.Rank }
func (ofParty) Links(l *Lock) *list.Links[Lock] { return &l.ofParty }
