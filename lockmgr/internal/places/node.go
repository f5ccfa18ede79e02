package places

import (
	"latchfs/lockmgr/internal/keytree"
	"latchfs/lockmgr/internal/list"
	"latchfs/lockmgr/internal/rules"
)

// Node is one key with its holders and its queue.
type Node[L any] struct {
	keytree.Node[Node[L]]
	Held    Queue[L] // in the order of the grants
	Waiting Queue[L] // by rank: the order in which they will be served

	// Dirty is for the user, who is about to look at the queue: until then the node
	// stays, though nobody stands there.
	Dirty bool

	trees int // how many of its places are tree locks'
}

// Idle reports whether n can be forgotten when nothing is below it.
func (n *Node[L]) Idle() bool { return n.Held.First() == nil && n.Waiting.First() == nil && !n.Dirty }

// Trees is how many tree locks stand there, held or waiting, or about to.
func (n *Node[L]) Trees() int { return n.trees }

// Queue is the holders of a key, or those who wait for it.
type Queue[L any] struct {
	places list.List[Place[L], atNode[L]]
	count  [rules.Modes]int32 // of each mode
	weak   int32              // of weak locks
}

type atNode[L any] struct{}

// Links are those by which a place is in a list of its node.
func (atNode[L]) Links(p *Place[L]) *list.Links[Place[L]] { return &p.Links }

// First is the first place, nil when there is none; the others are behind it.
func (q *Queue[L]) First() *Place[L] { return q.places.First() }

// Last is the last place, nil when there is none.
func (q *Queue[L]) Last() *Place[L] { return q.places.Last() }

// Count is how many locks of a mode there are.
func (q *Queue[L]) Count(m rules.Mode) int { return int(q.count[m]) }

// Weak is how many weak locks there are.
func (q *Queue[L]) Weak() int { return int(q.weak) }

// Clashes reports whether there is a mode that does not go with m. Only then the queue
// is worth a walk.
func (q *Queue[L]) Clashes(m rules.Mode) bool {
	for x := rules.Shared; x <= rules.Exclusive; x++ {
		if q.count[x] > 0 && !m.GoesWith(x) {
			return true
		}
	}
	return false
}

// shelters reports whether there could be a holder beside which others do not conflict
// (see sheltered).
func (q *Queue[L]) shelters() bool {
	return q.places.Len() > 1 && q.count[rules.Update]+q.count[rules.Exclusive] > 0
}

// insert puts p before the place at; nil appends it.
func (q *Queue[L]) insert(p, at *Place[L]) {
	q.places.Insert(p, at)
	q.count[p.stand.Terms.Mode]++
	if p.stand.Terms.Weak {
		q.weak++
	}
}

// insertByRank puts p where the rank of its lock says.
func (q *Queue[L]) insertByRank(p *Place[L]) {
	q.insert(p, q.places.TailOf(func(x *Place[L]) bool { return x.stand.Rank > p.stand.Rank }))
}

// insertByToken puts the place of a holder where its grant says.
func (q *Queue[L]) insertByToken(p *Place[L]) {
	q.insert(p, q.places.TailOf(func(x *Place[L]) bool { return x.stand.Token > p.stand.Token }))
}

func (q *Queue[L]) remove(p *Place[L]) {
	q.places.Remove(p)
	q.count[p.stand.Terms.Mode]--
	if p.stand.Terms.Weak {
		q.weak--
	}
}
