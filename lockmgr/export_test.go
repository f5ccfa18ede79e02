package lockmgr

import (
	"fmt"
	"maps"
	"math"

	"latchfs/lockmgr/internal/rules"
)

// Queue returns the names of the locks that hold key, and of those that wait
// for it in the order in which they will be served. A name is a lock's label.
func (t *Table) Queue(key Key) (holders, waiters []*Lock) {
	t.mu.Lock()
	defer t.mu.Unlock()
	n := t.nodes.Find(key)
	if n == nil {
		return nil, nil
	}
	for p := n.held.First(); p != nil; p = p.Next() {
		holders = append(holders, p.lock)
	}
	for p := n.waiting.First(); p != nil; p = p.Next() {
		waiters = append(waiters, p.lock)
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
		if l.state != held || l.token < last || l.token > t.token || l.err != nil || l.replaces != nil {
			return fmt.Errorf("holder %v: state %d, token %d after %d, err %w", l.label, l.state, l.token, last, l.err)
		}
		last = l.token
		if err := l.checkPlaces(); err != nil {
			return err
		}
	}
	for l := t.waiting.First(); l != nil; l, n = l.links.Next(), n+1 {
		if l.state != waiting || l.token != 0 || l.err != nil {
			return fmt.Errorf("waiter %v: state %d, token %d, err %w", l.label, l.state, l.token, l.err)
		}
		if l.replaces != nil && (l.replaces.state != held || l.replaces.upgrader != l) {
			return fmt.Errorf("upgrade %v of a lock that does not know it", l.label)
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
	for p := &l.first; p != nil; p = p.also {
		if p.lock == nil {
			continue
		}
		if !p.intent {
			stands++
		}
		if p.tree && p.node != nil && p.node.trees == 0 || p.intent && (p.tree || p.node.trees == 0) {
			return fmt.Errorf("lock %v stands at %q as tree %v, intent %v", l.label, p.key, p.tree, p.intent)
		}
		if p.lock != l || p.node == nil || p.node.Key() != p.key || l.t.nodes.Find(p.key) != p.node {
			return fmt.Errorf("lock %v stands nowhere for %q", l.label, p.key)
		}
		list := &p.node.held
		if l.state == waiting {
			list = &p.node.waiting
		}
		found := 0
		for q := list.First(); q != nil; q = q.Next() {
			if q.lock == l {
				found++
			}
		}
		if found != 1 {
			return fmt.Errorf("lock %v stands %d times at %q", l.label, found, p.key)
		}
	}
	if stands == 0 {
		return fmt.Errorf("lock %v has no keys", l.label)
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
	look := func(n *node) {
		reached++
		trees := 0
		switch {
		case t.nodes.Find(n.Key()) != n:
			err = fmt.Errorf("node %q is not in the table", n.Key())
		case n.dirty:
			err = fmt.Errorf("node %q is dirty", n.Key())
		case n.Idle() && n.Parent() != nil && !t.hasBelow(n):
			err = fmt.Errorf("node %q is idle", n.Key())
		case n.Parent() != nil && n.Parent().Key() != n.Key().Parent():
			err = fmt.Errorf("node %q is below %q", n.Key(), n.Parent().Key())
		}
		for _, list := range []*placeList{&n.held, &n.waiting} {
			var count [rules.Modes]int32
			for p := list.First(); p != nil; p = p.Next() {
				count[p.lock.terms.Mode]++
				if p.tree {
					trees++
				}
				for up := n.Parent(); up != nil; up = up.Parent() {
					if up.trees > 0 && p.lock.placeAt(up) == nil {
						err = fmt.Errorf("lock %v at %q is not announced at %q", p.lock.label, n.Key(), up.Key())
					}
				}
				if p.Next() == nil && list.Last() != p || p.Next() != nil && p.Next().Prev() != p {
					err = fmt.Errorf("node %q is badly linked", n.Key())
				}
			}
			if count != list.count {
				err = fmt.Errorf("node %q counts %v, has %v", n.Key(), list.count, count)
			}
		}
		if trees != n.trees {
			err = fmt.Errorf("node %q counts %d trees, has %d", n.Key(), n.trees, trees)
		}
		total += trees
	}
	t.nodes.WalkAll(look)
	if total != t.trees {
		err = fmt.Errorf("%d trees, counted %d", total, t.trees)
	}
	if err == nil && reached != t.nodes.Len() {
		err = fmt.Errorf("%d nodes in the tree, %d in the table", reached, t.nodes.Len())
	}
	return err
}

func (t *Table) allNodes() map[Key]*node {
	all := make(map[Key]*node)
	t.nodes.WalkAll(func(n *node) { all[n.Key()] = n })
	return all
}

func (t *Table) hasBelow(n *node) (below bool) {
	t.nodes.WalkBelow(n, func(*node) { below = true })
	return below
}

// checkParties: every lock is in the index of its owner, and nothing else is.
func (t *Table) checkParties() error {
	n, all, parties := 0, 0, make(map[*party]bool)
	for _, first := range []*Lock{t.held.First(), t.waiting.First()} {
		for l := first; l != nil; l = l.links.Next() {
			y := l.party
			if y == nil || y.Owner() != l.terms.Owner || t.owners.Find(l.terms.Owner) != y {
				return fmt.Errorf("lock %v of %v is in no party, or another's", l.label, l.terms.Owner)
			}
			if parties[y] {
				continue
			}
			parties[y] = true
			of := 0
			for l := y.First(); l != nil; l, of = l.ofParty.Next(), of+1 {
				if l.terms.Owner != y.Owner() || l.party != y || l.state != held {
					return fmt.Errorf("lock %v of %v is indexed as %v's", l.label, l.terms.Owner, y.Owner())
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
		count[l.terms.Owner]++
		for _, a := range l.terms.Lineage {
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
		for p := n.held.First(); p != nil; p = p.Next() {
			for q := p.Next(); q != nil; q = q.Next() {
				a, b := p.lock, q.lock // b was granted later, unless it was moved here
				if !a.guest && !b.guest && b.terms.Conflicts(&a.terms) && b.meets(a, n) {
					return fmt.Errorf("both hold %q: %+v and %+v", k, a.holder(nil), b.holder(nil))
				}
				if !a.guest && !b.guest && a.terms.Class == b.terms.Class && a.terms.Class != Session && a.terms.Client == b.terms.Client && a.terms.Range.Overlaps(b.terms.Range) && !p.intent && !q.intent {
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
		if w.links.Prev() != nil && w.links.Prev().rank >= w.rank {
			return fmt.Errorf("%v stands behind %v with rank %d behind %d", w.label, w.links.Prev().label, w.rank, w.links.Prev().rank)
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
		for p := n.waiting.First(); p != nil && p.Next() != nil; p = p.Next() {
			if at[p.lock] > at[p.Next().lock] {
				return fmt.Errorf("at %q %v stands before %v, in the snapshot behind", k, p.lock.label, p.Next().lock.label)
			}
		}
	}
	for w := range at {
		for _, x := range w.blockers(math.MaxInt) {
			for v := range at {
				if x.Token != 0 && v != w && v.terms.KinOf(&x.Lock.terms) && !hardFor[v][x.Owner] && at[v] > at[w] {
					return fmt.Errorf("%v waits for %v, which %v holds up; but that stands behind", w.label, x.Label, v.label)
				}
			}
		}
	}
	return nil
}
