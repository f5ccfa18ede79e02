package lockmgr

import (
	"slices"

	"latchfs/lockmgr/internal/places"
)

// Shrink takes keys away from a held Session lock, of which at least one stays. The
// others keep their token. A lock that is not held, or would lose all, stays as it
// is, and Shrink returns false.
func (t *Table) Shrink(l *Lock, keys []Key) bool {
	t.mu.Lock()
	defer t.mu.Unlock()
	if l.t != t || l.stand.State != places.Held || l.stand.Terms.Class != Session {
		return false
	}
	if !slices.ContainsFunc(l.stand.Keys(nil), func(k Key) bool { return !slices.Contains(keys, k) }) {
		return false
	}
	t.ground.GiveUp(&l.stand, keys)
	t.settle()
	return true
}

// SetOwner makes a lock another process's, whose heirs are those born after
// since: the process that asked for it has died and another one has its
// descriptor. Holders that were kin of the old owner stay holders.
func (t *Table) SetOwner(l *Lock, o Owner, since Birth) {
	t.mu.Lock()
	defer t.mu.Unlock()
	if l.t != t || l.stand.State != places.Held && l.stand.State != places.Waiting {
		return
	}
	t.leave(l)
	if l.stand.State == places.Waiting {
		t.owners.CountWaiter(&l.stand.Terms, -1)
	}
	l.stand.Terms.Owner, l.stand.Terms.Lineage, l.stand.Terms.Since = o, nil, since
	if l.stand.State == places.Waiting {
		t.owners.CountWaiter(&l.stand.Terms, 1)
	}
	t.join(l)
	l.stand.Guest = true
	for p := l.stand.First(); p != nil; p = p.Also() {
		t.reconsider(p.Node())
	}
	t.settle()
}

// reconsider looks at every waiter of n again, because who is kin to whom, or
// who holds n, has changed.
func (t *Table) reconsider(n *node) {
	for p := n.Waiting.First(); p != nil; p = p.Next() {
		t.suspects = append(t.suspects, p.Lock())
	}
	t.ground.Touch(n)
}
