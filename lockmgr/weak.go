package lockmgr

// This file is about weak locks in the queues. Whom they bind package rules says.
//
// A session that queued behind a flock would wait for a weak lock all the same if
// that flock does. So whoever waits for a weak lock lets all those past who do not.

// queuesBehind reports whether l, which comes to wait or waits at n, is served after
// the waiter x, which stands there before it.
func (l *Lock) queuesBehind(x *Lock, n *node) bool {
	return l.terms.Conflicts(&x.terms) && l.meets(x, n) && !(l.t.weak > 0 && l.passes(x))
}

// passes reports whether the waiter x waits for a weak lock that l does not wait for.
func (l *Lock) passes(x *Lock) bool {
	for at := &x.first; at != nil; at = at.also {
		n := at.node
		if n == nil || n.held.weak+n.waiting.weak == 0 {
			continue
		}
		for p := n.held.First(); p != nil; p = p.Next() {
			if p.lock.terms.Weak && x.blockedBy(p.lock, n) && !l.terms.Conflicts(&p.lock.terms) {
				return true
			}
		}
		for p := n.waiting.First(); p != nil && p != at; p = p.Next() {
			if p.lock.terms.Weak && x.terms.Conflicts(&p.lock.terms) && x.meets(p.lock, n) && !l.terms.Conflicts(&p.lock.terms) {
				return true
			}
		}
	}
	return false
}

// touchBehind touches all that those who wait at n stand at: a weak lock has come
// before them, and whoever waits behind them may pass.
func (t *Table) touchBehind(n *node) {
	for p := n.waiting.First(); p != nil; p = p.Next() {
		t.touchAll(p.lock)
	}
}
