package lockmgr

// This file keeps a count of who waits, family by family. With a long queue it
// tells at once what otherwise takes a look at every waiter: that a holder has
// no kin among them. That is the common case, and then whoever comes first goes
// on and nothing else changes.

// countWaiter enters the waiter l into the families of its owner and of all its
// ancestors (by 1), or takes it out (by -1).
func (t *Table) countWaiter(l *Lock, by int) {
	t.countIn(l.terms.Owner, by)
	for i := range l.terms.Lineage {
		t.countIn(l.terms.Lineage[i].Owner, by)
	}
}

func (t *Table) countIn(o Owner, by int) {
	if n := t.families[o] + by; n != 0 {
		t.families[o] = n
	} else {
		delete(t.families, o)
	}
}

// familyWaits reports whether anybody waits, at any key, who is o or descends
// from it. Only they can be kin to a lock of o.
func (t *Table) familyWaits(o Owner) bool { return t.families[o] > 0 }

// Waits reports whether a process, or a descendant of it, waits for a lock.
func (t *Table) Waits(o Owner) bool {
	t.mu.Lock()
	defer t.mu.Unlock()
	return t.familyWaits(o)
}

// shut reports whether it is plain from the holders of n that nobody who waits
// there can be granted: one of them keeps everybody out but kin, and none of
// them has kin, or could shelter anybody, among those who wait.
func (t *Table) shut(n *node) bool {
	if n.held.count[Exclusive] == 0 || n.waiting.weak > 0 {
		return false
	}
	shut := false
	for p := n.held.First(); p != nil; p = p.Next() {
		if t.familyWaits(p.lock.terms.Owner) {
			return false
		}
		shut = shut || p.lock.terms.Class == Session && !p.lock.terms.Weak && p.lock.terms.Mode == Exclusive && (n.trees == 0 || p.tree)
	}
	return shut
}

// IsAwaited reports whether anybody waits at a key of a lock, for it or behind it.
func (t *Table) IsAwaited(l *Lock) bool {
	t.mu.Lock()
	defer t.mu.Unlock()
	if l.t != t || l.state != held {
		return false
	}
	for p := &l.first; p != nil; p = p.also {
		if p.lock != nil && !p.intent && p.node.waiting.First() != nil {
			return true
		}
	}
	return false
}
