package lockmgr

// sheltered reports whether l and the holder x are guests of one session that is
// held at n, and so do not wait for each other.
func (l *Lock) sheltered(x *Lock, n *node) bool {
	if !l.terms.MayBeGuests(&x.terms) {
		return false
	}
	for p := n.held.First(); p != nil; p = p.Next() {
		if h := p.lock; h != x && h.terms.Hosts(&l.terms, &x.terms) && n.allOn(l, x, h) {
			return true
		}
	}
	return false
}

// blockedBy reports whether the requester l waits for x, which stands at n
// before it.
func (l *Lock) blockedBy(x *Lock, n *node) bool {
	return l.terms.Conflicts(&x.terms) && l.meets(x, n) && !(x.state == held && l.sheltered(x, n))
}

// clash returns the first lock held at n that l waits for, or nil.
func (l *Lock) clash(n *node) *Lock {
	if !n.held.clashes(l.terms.Mode) {
		return nil
	}
	for p := n.held.First(); p != nil; p = p.Next() {
		if l.blockedBy(p.lock, n) {
			return p.lock
		}
	}
	return nil
}

// clashAhead returns the first lock that waits at n before the place end (nil:
// anywhere) and that l waits for, or nil.
func (l *Lock) clashAhead(n *node, end *place) *Lock {
	if !n.waiting.clashes(l.terms.Mode) {
		return nil
	}
	for p := n.waiting.First(); p != nil && p != end; p = p.Next() {
		if p.lock != l && l.queuesBehind(p.lock, n) {
			return p.lock
		}
	}
	return nil
}

// inside reports whether n has a holder that lets l past the waiter w.
func (l *Lock) inside(n *node, w *Lock) bool {
	for p := n.held.First(); p != nil; p = p.Next() {
		if l.terms.Joins(&p.lock.terms) && w.meets(p.lock, n) {
			return true
		}
	}
	return false
}
