package lockmgr

import (
	"slices"

	"latchfs/lockmgr/internal/places"
	"latchfs/lockmgr/internal/turns"
)

// This file keeps the waiters in order. The package comment explains why one
// order for all of them answers both who comes next and who is deadlocked.

// wait is one waiter waiting for the held lock at a place.
type wait = turns.Step[Lock, place]

// dependence is the queue of all waiters, with who depends on whom.
type dependence struct{}

func (dependence) Next(l *Lock) *Lock        { return l.links.Next() }
func (dependence) Depends(l, c *Lock) *place { return l.dependsOn(c) }

// sortOut restores the order after a change. The suspects are the waiters whose
// waits, or whose kin's, the change may have affected.
func (t *Table) sortOut() {
	for _, x := range t.fresh {
		if x.stand.State == places.Held && x.contended() {
			t.suspectKin(x)
		}
	}
	t.fresh = emptied(t.fresh)
	for _, l := range t.suspects[:len(t.suspects):len(t.suspects)] {
		if l.stand.State == places.Waiting {
			t.suspectAfter(l)
		}
	}
	suspects := t.suspects
	t.suspects = t.spareSuspects[:0]
	slices.SortFunc(suspects, byRank)
	for _, l := range slices.Compact(suspects) {
		t.lead(l)
	}
	t.spareSuspects = emptied(suspects)
	t.newcomer, t.sorted = nil, t.token
}

// contended reports whether anybody waits at a key of l.
func (l *Lock) contended() bool {
	for at := l.stand.First(); at != nil; at = at.Also() {
		if at.Node().Waiting.First() != nil {
			return true
		}
	}
	return false
}

// suspectKin makes every waiter that is kin to the new holder x a suspect.
func (t *Table) suspectKin(x *Lock) {
	if !t.owners.HasWaiter(x.stand.Terms.Owner) {
		return
	}
	for w := t.waiting.First(); w != nil; w = w.links.Next() {
		if w.stand.Terms.KinOf(&x.stand.Terms) {
			t.suspects = append(t.suspects, w)
		}
	}
}

// suspectAfter makes every waiter a suspect that stands behind the waiter l
// though l depends on it.
func (t *Table) suspectAfter(l *Lock) {
	for c := l.links.Next(); c != nil; c = c.links.Next() {
		if l.dependsOn(c) != nil {
			t.suspects = append(t.suspects, c)
		}
	}
}

// dependsOn returns the held lock that l waits for and c holds up, or nil. If
// there is one, l cannot go on before c does.
func (l *Lock) dependsOn(c *Lock) *place {
	for at := l.stand.First(); at != nil; at = at.Also() {
		n := at.Node()
		if !n.Held.Clashes(l.stand.Terms.Mode) {
			continue
		}
		for p := n.Held.First(); p != nil; p = p.Next() {
			if l != c && l.stand.BlockedBy(p.Stand(), n) && c.stand.Terms.KinOf(&p.Stand().Terms) && c.holdsUp(p.Stand().Terms.Owner) {
				return p
			}
		}
	}
	return nil
}

// holdsUp reports whether the process o, which is the waiter l's owner or an
// ancestor, counts as waiting while l waits. It does not when l waits for a
// lock of o itself: that one is in the hands of another thread, or of a parent
// that does not wait for its child, and will be released.
func (l *Lock) holdsUp(o Owner) bool {
	for at := l.stand.First(); at != nil; at = at.Also() {
		n := at.Node()
		if !n.Held.Clashes(l.stand.Terms.Mode) {
			continue
		}
		for p := n.Held.First(); p != nil; p = p.Next() {
			if p.Stand().Terms.Owner == o && l.stand.BlockedBy(p.Stand(), n) {
				return false
			}
		}
	}
	return true
}

// lead puts the waiter l before everybody that is to stand behind it, together
// with all that l itself depends on. If one of those depends on l, somebody is
// refused.
func (t *Table) lead(l *Lock) {
	var floor uint64
	for l.stand.State == places.Waiting {
		w, must := t.follower(l, floor)
		if w == nil {
			return
		}
		switch set, cycle := t.search.Gather(dependence{}, l, w, must); {
		case set != nil:
			t.move(set, w)
			return
		case cycle != nil:
			t.refuseNewest(cycle)
			floor = 0
		default:
			floor = w.stand.Rank // l would be let ahead of w, but has to wait for it
		}
	}
}

// follower returns the first waiter, of a rank above floor, that stands before
// the waiter l and is to stand behind it: because it depends on l (must), or
// because they conflict at a key that a kin of l holds, where l is not to queue
// behind others. The latter is decided once, when l comes or its kin gets the
// key.
func (t *Table) follower(l *Lock, floor uint64) (w *Lock, must bool) {
	f := following{l: l, floor: floor, since: t.sorted}
	if l == t.newcomer {
		f.since = 0
	}
	f.behindKin(t, l.party, reach{all: true})
	if l.stand.Terms.Owner.PID != 0 {
		for i := range l.stand.Terms.Lineage {
			if a := &l.stand.Terms.Lineage[i]; a.Owner.PID != 0 && a.Owner != l.stand.Terms.Owner {
				f.behindKin(t, t.owners.Find(a.Owner), reach{born: a.Child})
			}
		}
	}
	return f.first, f.must
}

// reach says which locks of a party a waiter is kin to: all, when the party is
// its owner, or those asked for before its branch of the family was born.
type reach struct {
	all  bool
	born Birth
}

func (r reach) covers(x *Lock) bool { return r.all || r.born.After(x.stand.Terms.Since) }

// following is the state of a search for the first waiter to stand behind l.
type following struct {
	l     *Lock
	floor uint64
	since uint64 // the token after which a holder is news to l
	first *Lock
	must  bool
}

// behindKin looks at who waits for the locks of y within reach. Either those
// locks or all waiters lead there; it takes the shorter way.
func (f *following) behindKin(t *Table, y *party, r reach) {
	if y == nil || y.Held() == 0 {
		return
	}
	up := f.l.holdsUp(y.Owner())
	if y.Held() < t.waiting.Len() {
		for x := y.First(); x != nil; x = x.ofParty.Next() {
			for at := x.stand.First(); at != nil; at = at.Also() {
				if r.covers(x) {
					f.behind(x, at.Node(), up)
				}
			}
		}
		return
	}
	for w := t.waiting.First(); w != f.l; w = w.links.Next() {
		for at := w.stand.First(); at != nil; at = at.Also() {
			n := at.Node()
			for p := n.Held.First(); p != nil; p = p.Next() {
				if x := p.Lock(); x.party == y && r.covers(x) {
					f.behind(x, n, up)
				}
			}
		}
	}
}

// behind looks at who waits for x at n. If up, whoever does depends on l.
func (f *following) behind(x *Lock, n *node, up bool) {
	last := f.l.stand.Rank - 1
	if f.first != nil {
		last = f.first.stand.Rank
	}
	reenters := x.stand.Token > f.since && f.l.stand.Terms.Joins(&x.stand.Terms) && f.l.stand.At(n) != nil
	for p := n.Waiting.First(); p != nil && p.Stand().Rank <= last; p = p.Next() {
		w := p.Lock()
		if w.stand.Rank <= f.floor {
			continue
		}
		must := up && w.stand.BlockedBy(&x.stand, n)
		if must || reenters && w.stand.Meets(&x.stand, n) && w.stand.ConflictsAt(&f.l.stand, n) {
			f.must = must || f.must && w == f.first
			f.first = w
			return
		}
	}
}

// move puts the waiters of set, in their order, right before w.
func (t *Table) move(set []*Lock, w *Lock) {
	t.waiting.Lead(set, w)
	for _, l := range set {
		t.ground.Requeue(&l.stand)
	}
}

// refuseNewest ends a cycle by refusing its newest waiter.
func (t *Table) refuseNewest(cycle []wait) {
	at := 0
	for i := range cycle {
		if cycle[i].Waiter.seq > cycle[at].Waiter.seq {
			at = i
		}
	}
	victim := cycle[at].Waiter
	err := &DeadlockError{Cycle: make([]Wait, len(cycle))}
	for i := range cycle {
		e := cycle[(at+i)%len(cycle)]
		err.Cycle[i] = Wait{Waiter: e.Waiter.holder(nil), Blocker: e.Why.Lock().holder(nil), Key: e.Why.Node().Key()}
	}
	t.end(victim, err)
}
