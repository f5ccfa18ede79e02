package lockmgr

import "latchfs/lockmgr/internal/places"

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
	if n.Held.Count(Exclusive) == 0 || n.Waiting.Weak() > 0 {
		return false
	}
	shut := false
	for p := n.Held.First(); p != nil; p = p.Next() {
		if t.owners.HasWaiter(p.Stand().Terms.Owner) {
			return false
		}
		terms := &p.Stand().Terms
		shut = shut || terms.Class == Session && !terms.Weak && terms.Mode == Exclusive && p.MeetsAll()
	}
	return shut
}

// IsAwaited reports whether anybody waits at a key of a lock, for it or behind it.
func (t *Table) IsAwaited(l *Lock) bool {
	t.mu.Lock()
	defer t.mu.Unlock()
	if l.t != t || l.stand.State != places.Held {
		return false
	}
	for p := l.stand.First(); p != nil; p = p.Also() {
		if !p.IsIntent() && p.Node().Waiting.First() != nil {
			return true
		}
	}
	return false
}
