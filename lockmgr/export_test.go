package lockmgr

import (
	"fmt"
	"maps"
	"math"

	"latchfs/lockmgr/internal/places"
	"latchfs/lockmgr/internal/rules"
)

// Queue returns the names of the locks that hold key, and of those that wait
// for it in the order in which they will be served. A name is a lock's label.
func (t *Table) Queue(key Key) (holders, waiters []*Lock) {
	t.mu.Lock()
	defer t.mu.Unlock()
	n := t.ground.Find(key)
	if n == nil {
		return nil, nil
	}
	for p := n.Held.First(); p != nil; p = p.Next() {
		holders = append(holders, p.Lock())
	}
	for p := n.Waiting.First(); p != nil; p = p.Next() {
		waiters = append(waiters, p.Lock())
	}
	return holders, waiters
}

// CheckInvariants returns the first thing that is wrong with the table, or nil.
// It trusts none of the indexes that the table keeps.
func (t *Table) CheckInvariants() error {
	t.mu.Lock()
	defer t.mu.Unlock()
	for _, check := range []func() error{
		t.checkLocks, t.checkNodes, t.checkParties, t.checkFamilies, t.checkExclusion, t.checkProgress, t.checkOrder,
	} {
		if err := check(); err != nil {
			return err
		}
	}
	return nil
}

// checkLocks: every lock stands at all its keys, in the state it says.
func (t *Table) checkLocks() error {
	var last uint64
	n, lapsed := 0, 0
	defer func() {
		if lapsed != t.lapsed {
			panic(fmt.Sprintf("%d leases have expired, counted %d", lapsed, t.lapsed))
		}
	}()
	for l := t.held.First(); l != nil; l, n = l.links.Next(), n+1 {
		if l.expired() {
			lapsed++
		}
		if l.stand.State != places.Held || l.stand.Token < last || l.stand.Token > t.token || l.err != nil {
			return fmt.Errorf("holder %v: state %d, token %d after %d, err %w", l.label, l.stand.State, l.stand.Token, last, l.err)
		}
		last = l.stand.Token
		if err := l.checkPlaces(); err != nil {
			return err
		}
	}
	for l := t.waiting.First(); l != nil; l, n = l.links.Next(), n+1 {
		if l.stand.State != places.Waiting || l.stand.Token != 0 || l.err != nil {
			return fmt.Errorf("waiter %v: state %d, token %d, err %w", l.label, l.stand.State, l.stand.Token, l.err)
		}
		if err := l.checkPlaces(); err != nil {
			return err
		}
	}
	if n != t.held.Len()+t.waiting.Len() {
		return fmt.Errorf("%d locks, counted %d and %d", n, t.held.Len(), t.waiting.Len())
	}
	return nil
}

func (l *Lock) checkPlaces() error {
	stands := 0
	for p := l.stand.First(); p != nil; p = p.Also() {
		if !p.IsIntent() {
			stands++
		}
		if p.IsTree() && p.Node().Trees() == 0 || p.IsIntent() && (p.IsTree() || p.Node().Trees() == 0) {
			return fmt.Errorf("lock %v stands at %q as tree %v, intent %v", l.label, p.Node().Key(), p.IsTree(), p.IsIntent())
		}
		if p.Lock() != l || l.t.ground.Find(p.Node().Key()) != p.Node() {
			return fmt.Errorf("lock %v stands nowhere for %q", l.label, p.Node().Key())
		}
		list := &p.Node().Held
		if l.stand.State == places.Waiting {
			list = &p.Node().Waiting
		}
		found := 0
		for q := list.First(); q != nil; q = q.Next() {
			if q.Lock() == l {
				found++
			}
		}
		if found != 1 {
			return fmt.Errorf("lock %v stands %d times at %q", l.label, found, p.Node().Key())
		}
	}
	if keys := l.stand.Keys(nil); stands == 0 || stands != len(keys) {
		return fmt.Errorf("lock %v stands at %d of its keys %q", l.label, stands, keys)
	}
	return nil
}

// checkNodes: the nodes are exactly the keys with locks and what is above them,
// linked as their names say, and count what they list.
func (t *Table) checkNodes() error {
	if len(t.dirty)+len(t.suspects)+len(t.fresh) > 0 {
		return fmt.Errorf("%d dirty queues, %d suspects, %d fresh holders left", len(t.dirty), len(t.suspects), len(t.fresh))
	}
	reached, total := 0, 0
	var err error
	below := make(map[*node]bool) // has one
	t.ground.Walk(func(n *node) { below[n.Parent()] = true })
	look := func(n *node) {
		reached++
		trees := 0
		switch {
		case t.ground.Find(n.Key()) != n:
			err = fmt.Errorf("node %q is not in the table", n.Key())
		case n.Dirty:
			err = fmt.Errorf("node %q is dirty", n.Key())
		case n.Idle() && n.Parent() != nil && !below[n]:
			err = fmt.Errorf("node %q is idle", n.Key())
		case n.Parent() != nil && n.Parent().Key() != n.Key().Parent():
			err = fmt.Errorf("node %q is below %q", n.Key(), n.Parent().Key())
		}
		for _, list := range []*places.Queue[Lock]{&n.Held, &n.Waiting} {
			var count [rules.Modes]int
			weak := 0
			for p := list.First(); p != nil; p = p.Next() {
				count[p.Stand().Terms.Mode]++
				if p.IsTree() {
					trees++
				}
				if p.Stand().Terms.Weak {
					weak++
				}
				for up := n.Parent(); up != nil; up = up.Parent() {
					if up.Trees() > 0 && p.Stand().At(up) == nil {
						err = fmt.Errorf("lock %v at %q is not announced at %q", p.Lock().label, n.Key(), up.Key())
					}
				}
				if p.Next() == nil && list.Last() != p || p.Next() != nil && p.Next().Prev() != p {
					err = fmt.Errorf("node %q is badly linked", n.Key())
				}
			}
			for m := range Mode(rules.Modes) {
				if count[m] != list.Count(m) {
					err = fmt.Errorf("node %q counts %d of %v, has %v", n.Key(), list.Count(m), m, count)
				}
			}
			if weak != list.Weak() {
				err = fmt.Errorf("node %q counts %d weak locks, has %d", n.Key(), list.Weak(), weak)
			}
		}
		if trees != n.Trees() {
			err = fmt.Errorf("node %q counts %d trees, has %d", n.Key(), n.Trees(), trees)
		}
		total += trees
	}
	t.ground.Walk(look)
	if total != t.ground.Trees() {
		err = fmt.Errorf("%d trees, counted %d", total, t.ground.Trees())
	}
	if err == nil && reached != t.ground.Len() {
		err = fmt.Errorf("%d nodes in the tree, %d in the table", reached, t.ground.Len())
	}
	return err
}

func (t *Table) allNodes() map[Key]*node {
	all := make(map[Key]*node)
	t.ground.Walk(func(n *node) { all[n.Key()] = n })
	return all
}

// checkParties: every lock is in the index of its owner, and nothing else is.
func (t *Table) checkParties() error {
	n, all, parties := 0, 0, make(map[*party]bool)
	for _, first := range []*Lock{t.held.First(), t.waiting.First()} {
		for l := first; l != nil; l = l.links.Next() {
			y := l.party
			if y == nil || y.Owner() != l.stand.Terms.Owner || t.owners.Find(l.stand.Terms.Owner) != y {
				return fmt.Errorf("lock %v of %v is in no party, or another's", l.label, l.stand.Terms.Owner)
			}
			if parties[y] {
				continue
			}
			parties[y] = true
			of := 0
			for l := y.First(); l != nil; l, of = l.ofParty.Next(), of+1 {
				if l.stand.Terms.Owner != y.Owner() || l.party != y || l.stand.State != places.Held {
					return fmt.Errorf("lock %v of %v is indexed as %v's", l.label, l.stand.Terms.Owner, y.Owner())
				}
			}
			if of != y.Held() {
				return fmt.Errorf("party %v counts %d locks held, has %d", y.Owner(), y.Held(), of)
			}
			n += of
			all += y.Joined()
		}
	}
	if len(parties) != t.owners.Len() {
		return fmt.Errorf("%d owners in the index, %d in the table", t.owners.Len(), len(parties))
	}
	if n != t.held.Len() || all != t.held.Len()+t.waiting.Len() {
		return fmt.Errorf("%d and %d locks in the index of owners, %d and %d in the table", n, all-n, t.held.Len(), t.waiting.Len())
	}
	return nil
}

// checkFamilies: the waiters are counted as what they are.
func (t *Table) checkFamilies() error {
	count := make(map[Owner]int)
	for l := t.waiting.First(); l != nil; l = l.links.Next() {
		count[l.stand.Terms.Owner]++
		for _, a := range l.stand.Terms.Lineage {
			count[a.Owner]++
		}
	}
	if !maps.Equal(count, t.owners.Waiters()) {
		return fmt.Errorf("families of the waiters: %v, counted %v", count, t.owners.Waiters())
	}
	return nil
}

// checkExclusion: no two holders of a key conflict, except where one was let
// in as a guest, or moved there.
func (t *Table) checkExclusion() error {
	for k, n := range t.allNodes() {
		for p := n.Held.First(); p != nil; p = p.Next() {
			for q := p.Next(); q != nil; q = q.Next() {
				a, b := p.Lock(), q.Lock() // b was granted later, unless it was moved here
				if !a.stand.Guest && !b.stand.Guest && b.stand.Terms.Conflicts(&a.stand.Terms) && b.stand.Meets(&a.stand, n) {
					return fmt.Errorf("both hold %q: %+v and %+v", k, a.holder(nil), b.holder(nil))
				}
				if !a.stand.Guest && !b.stand.Guest && a.stand.Terms.Class == b.stand.Terms.Class && a.stand.Terms.Class != Session && a.stand.Terms.Client == b.stand.Terms.Client && a.stand.Terms.Range.Overlaps(b.stand.Terms.Range) && !p.IsIntent() && !q.IsIntent() {
					return fmt.Errorf("%v and %v are of one client and overlap", a.label, b.label)
				}
			}
		}
	}
	return nil
}

// checkProgress: nobody waits without a reason: no wake-up was lost.
func (t *Table) checkProgress() error {
	for l := t.waiting.First(); l != nil; l = l.links.Next() {
		if len(l.blockers(math.MaxInt)) == 0 {
			return fmt.Errorf("%v waits for nobody", l.label)
		}
	}
	return nil
}

// checkOrder: every queue is in the one order of all waiters, and in that order
// everybody stands behind whom he depends on; so nobody depends on himself. The
// dependencies are found anew, from every pair of locks.
func (t *Table) checkOrder() error {
	at := make(map[*Lock]int)
	hardFor := make(map[*Lock]map[Owner]bool) // whose held locks somebody waits for
	for w := t.waiting.First(); w != nil; w = w.links.Next() {
		if w.links.Prev() != nil && w.links.Prev().stand.Rank >= w.stand.Rank {
			return fmt.Errorf("%v stands behind %v with rank %d behind %d", w.label, w.links.Prev().label, w.stand.Rank, w.links.Prev().stand.Rank)
		}
		at[w] = len(at)
		hardFor[w] = make(map[Owner]bool)
		for _, h := range w.blockers(math.MaxInt) {
			if h.Token != 0 {
				hardFor[w][h.Owner] = true
			}
		}
	}
	for k, n := range t.allNodes() {
		for p := n.Waiting.First(); p != nil && p.Next() != nil; p = p.Next() {
			if at[p.Lock()] > at[p.Next().Lock()] {
				return fmt.Errorf("at %q %v stands before %v, in the snapshot behind", k, p.Lock().label, p.Next().Lock().label)
			}
		}
	}
	for w := range at {
		for _, x := range w.blockers(math.MaxInt) {
			for v := range at {
				if x.Token != 0 && v != w && v.stand.Terms.KinOf(&x.Lock.stand.Terms) && !hardFor[v][x.Owner] && at[v] > at[w] {
					return fmt.Errorf("%v waits for %v, which %v holds up; but that stands behind", w.label, x.Label, v.label)
				}
			}
		}
	}
	return nil
}
