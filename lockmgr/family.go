package lockmgr

// Waits reports whether a process, or a descendant of it, waits for a lock.
func (t *Table) Waits(o Owner) bool {
	t.mu.Lock()
	defer t.mu.Unlock()
	return t.owners.HasWaiter(o)
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
		if t.owners.HasWaiter(p.lock.terms.Owner) {
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
