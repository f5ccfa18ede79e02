package owners

import (
	"latchfs/lockmgr/internal/list"
	"latchfs/lockmgr/internal/rules"
)

// maxSpares bounds how many unused parties an index keeps for reuse.
const maxSpares = 1024

// Party is one owner with the locks that it holds.
type Party[L any, A list.Access[L]] struct {
	owner rules.Owner
	held  list.List[L, A] // the newest first
	all   int             // how many have joined
	next  *Party[L, A]    // of the spares
}

// Owner is whose party it is.
func (y *Party[L, A]) Owner() rules.Owner { return y.owner }

// First is the lock that the owner has held for the shortest time; nil when it holds
// none. The others are behind it.
func (y *Party[L, A]) First() *L { return y.held.First() }

// Held is how many locks the owner holds.
func (y *Party[L, A]) Held() int { return y.held.Len() }

// Joined is how many locks the owner has, held or not.
func (y *Party[L, A]) Joined() int { return y.all }

// Add enters a lock, which has joined, among those held.
func (y *Party[L, A]) Add(l *L) { y.held.Insert(l, y.held.First()) }

// Remove takes a lock out of those held; it leaves, too, or waits.
func (y *Party[L, A]) Remove(l *L) { y.held.Remove(l) }

// Index has the party of every owner with a lock.
type Index[L any, A list.Access[L]] struct {
	parties map[rules.Owner]*Party[L, A]
	waiters map[rules.Owner]int
	spare   *Party[L, A]
	spares  int
}

// New returns an empty index.
func New[L any, A list.Access[L]]() *Index[L, A] {
	return &Index[L, A]{parties: make(map[rules.Owner]*Party[L, A]), waiters: make(map[rules.Owner]int)}
}

// Len is how many owners have a lock.
func (x *Index[L, A]) Len() int { return len(x.parties) }

// Find returns the party of an owner; nil when it has no lock.
func (x *Index[L, A]) Find(o rules.Owner) *Party[L, A] { return x.parties[o] }

// Join counts a lock of an owner, and returns the party, which is there until as many
// have left as have joined.
func (x *Index[L, A]) Join(o rules.Owner) *Party[L, A] {
	y := x.parties[o]
	if y == nil {
		if y = x.spare; y == nil {
			y = new(Party[L, A])
		} else {
			x.spare, x.spares = y.next, x.spares-1
		}
		*y = Party[L, A]{owner: o}
		x.parties[o] = y
	}
	y.all++
	return y
}

// Leave undoes Join, for a lock that is not among those held any more.
func (x *Index[L, A]) Leave(y *Party[L, A]) {
	if y.all--; y.all > 0 {
		return
	}
	delete(x.parties, y.owner)
	if x.spares < maxSpares {
		*y = Party[L, A]{next: x.spare}
		x.spare, x.spares = y, x.spares+1
	}
}

// CountWaiter enters a waiter for its owner and for all its ancestors (by 1), or takes
// it out (by -1).
func (x *Index[L, A]) CountWaiter(w *rules.Terms, by int) {
	x.count(w.Owner, by)
	for i := range w.Lineage {
		x.count(w.Lineage[i].Owner, by)
	}
}

func (x *Index[L, A]) count(o rules.Owner, by int) {
	if n := x.waiters[o] + by; n != 0 {
		x.waiters[o] = n
	} else {
		delete(x.waiters, o)
	}
}

// HasWaiter reports whether anybody waits who is o or descends from it. Only they can
// be kin to a lock of o.
func (x *Index[L, A]) HasWaiter(o rules.Owner) bool { return x.waiters[o] > 0 }

// Waiters are how many wait, for each owner of whom somebody does.
func (x *Index[L, A]) Waiters() map[rules.Owner]int { return x.waiters }
