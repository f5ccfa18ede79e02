package lockmgr

import (
	"latchfs/lockmgr/internal/keytree"
	"latchfs/lockmgr/internal/list"
	"latchfs/lockmgr/internal/rules"
)

// place is where one lock stands at one of its keys: among the holders or in
// the wait queue.
type place struct {
	list.Links[place] // in a list of node

	lock *Lock  // nil: merged into another place of the lock
	key  Key    // the current name, kept after the end
	node *node  // nil when the lock stands nowhere
	also *place // the next place of the lock

	tree   bool // the lock is on everything below the key, too
	intent bool // the key is above one of the lock's, and has a tree lock; see tree.go
}

// placeList is a list of places; count says how many there are of each mode.
type placeList struct {
	list.List[place, atNode]
	count [rules.Modes]int32
	weak  int32 // how many are weak locks'
}

type atNode struct{}

var _ list.Access[place] = atNode{}

// Links are those by which a place is in a list of its node.
func (atNode) Links(p *place) *list.Links[place] { return &p.Links }

// clashes reports whether the list has a mode that is incompatible with m. Only
// then is it worth walking.
func (ps *placeList) clashes(m Mode) bool {
	for x := Shared; x <= Exclusive; x++ {
		if ps.count[x] > 0 && !m.GoesWith(x) {
			return true
		}
	}
	return false
}

// shelters reports whether the list, of holders, could have one beside which
// others do not conflict (see sheltered).
func (ps *placeList) shelters() bool {
	return ps.Len() > 1 && ps.count[Update]+ps.count[Exclusive] > 0
}

// insert puts p before the place at; nil appends it.
func (ps *placeList) insert(p, at *place) {
	ps.Insert(p, at)
	ps.count[p.lock.terms.Mode]++
	if p.lock.terms.Weak {
		ps.weak++
	}
}

// insertByRank puts p where the rank of its lock says.
func (ps *placeList) insertByRank(p *place) {
	ps.insert(p, ps.TailOf(func(q *place) bool { return q.lock.rank > p.lock.rank }))
}

// insertByToken puts the place of a holder where its grant says.
func (ps *placeList) insertByToken(p *place) {
	ps.insert(p, ps.TailOf(func(q *place) bool { return q.lock.token > p.lock.token }))
}

func (ps *placeList) remove(p *place) {
	ps.Remove(p)
	ps.count[p.lock.terms.Mode]--
	if p.lock.terms.Weak {
		ps.weak--
	}
}

// node is one key of the table with its holders and its wait queue.
type node struct {
	keytree.Node[node]
	held    placeList // in the order of the grants
	waiting placeList // by rank: the order in which they will be served

	trees int  // how many of its places are tree locks'
	dirty bool // in t.dirty
}

// Idle reports whether the table can forget n when nothing is below it.
func (n *node) Idle() bool { return n.held.First() == nil && n.waiting.First() == nil && !n.dirty }
