package lockmgr

// This file is about the locks of processes that may only read what they lock.
//
// On a plain filesystem such a lock binds those who ask for the same kind of lock,
// and nobody else: whoever opens the file to write it does not notice. So it is
// here. A weak lock and a session do not wait for each other; a weak lock, and any
// other that a program has asked for by itself, do: a flock for a flock, an fcntl
// lock for an fcntl lock, a gate for a gate.
//
// A session that queued behind a flock would wait for a weak lock all the same if
// that flock does. So whoever waits for a weak lock lets all those past who do not.

// advises reports whether two locks, of which one is weak, are of one kind.
func (l *Lock) advises(x *Lock) bool {
	return l.class == x.class && (l.class != Session || l.gate && x.gate)
}

// queuesBehind reports whether l, which comes to wait or waits at n, is served after
// the waiter x, which stands there before it.
func (l *Lock) queuesBehind(x *Lock, n *node) bool {
	return l.conflicts(x) && l.meets(x, n) && !(l.t.weak > 0 && l.passes(x))
}

// passes reports whether the waiter x waits for a weak lock that l does not wait for.
func (l *Lock) passes(x *Lock) bool {
	for at := &x.first; at != nil; at = at.also {
		n := at.node
		if n == nil || n.held.weak+n.waiting.weak == 0 {
			continue
		}
		for p := n.held.head; p != nil; p = p.next {
			if p.lock.weak && x.blockedBy(p.lock, n) && !l.conflicts(p.lock) {
				return true
			}
		}
		for p := n.waiting.head; p != nil && p != at; p = p.next {
			if p.lock.weak && x.conflicts(p.lock) && x.meets(p.lock, n) && !l.conflicts(p.lock) {
				return true
			}
		}
	}
	return false
}

// touchBehind touches all that those who wait at n stand at: a weak lock has come
// before them, and whoever waits behind them may pass.
func (t *Table) touchBehind(n *node) {
	for p := n.waiting.head; p != nil; p = p.next {
		t.touchAll(p.lock)
	}
}
