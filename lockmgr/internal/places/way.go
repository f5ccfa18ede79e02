package places

// Meets reports whether two locks that both stand at n have anything there in common: not
// an intention with what is no tree.
func (l *Stand[L]) Meets(x *Stand[L], n *Node[L]) bool {
	if n.trees == 0 {
		return true
	}
	a, b := l.At(n), x.At(n)
	return (!a.intent || b.tree) && (!b.intent || a.tree)
}

// ConflictsAt reports whether l, which comes later, and x conflict at n, where both
// stand; that they may be guests of one session does not count.
func (l *Stand[L]) ConflictsAt(x *Stand[L], n *Node[L]) bool {
	return l.Terms.Conflicts(&x.Terms) && l.Meets(x, n)
}

// BlockedBy reports whether l waits for x, which stands at n before it.
func (l *Stand[L]) BlockedBy(x *Stand[L], n *Node[L]) bool {
	return l.ConflictsAt(x, n) && !(x.State == Held && l.sheltered(x, n))
}

// sheltered reports whether l and the holder x are guests of one session that is held
// at n, and so do not wait for each other.
func (l *Stand[L]) sheltered(x *Stand[L], n *Node[L]) bool {
	if !l.Terms.MayBeGuests(&x.Terms) {
		return false
	}
	for p := n.Held.First(); p != nil; p = p.Next() {
		if h := p.stand; h != x && h.Terms.Hosts(&l.Terms, &x.Terms) && n.isKeyOf(l, x, h) {
			return true
		}
	}
	return false
}

// isKeyOf reports whether three locks at n are on that key, and none below it.
func (n *Node[L]) isKeyOf(l, x, h *Stand[L]) bool {
	return n.trees == 0 || !l.At(n).intent && !x.At(n).intent && !h.At(n).intent
}

// IsBlocked reports whether l, waiting or about to, waits for a holder. Otherwise it may
// have to stand in a queue: see IsBehind.
func (l *Stand[L]) IsBlocked() bool {
	for p := l.First(); p != nil; p = p.Also() {
		if l.clash(p.node) {
			return true
		}
	}
	return false
}

// IsBehind reports whether l, waiting or about to, stands behind a waiter for whom it
// has to wait.
func (l *Stand[L]) IsBehind() bool {
	for at := l.First(); at != nil; at = at.Also() {
		if !at.node.Waiting.Clashes(l.Terms.Mode) {
			continue
		}
		for p := at.node.Waiting.First(); p != nil && p != at; p = p.Next() {
			if l.queuesBehind(p.stand, at.node) {
				return true
			}
		}
	}
	return false
}

// Blockers are all for whom l waits, each once: holders first, then those who wait before
// it; up to a limit. Of a lock that waits nowhere, they are all for whom it would wait.
func (l *Stand[L]) Blockers(limit int) (out []*L) {
	seen := map[*Stand[L]]bool{l: true}
	add := func(x *Stand[L], n *Node[L]) {
		if !seen[x] && l.BlockedBy(x, n) {
			seen[x] = true
			out = append(out, x.Lock)
		}
	}
	for at := l.First(); at != nil; at = at.Also() {
		for p := at.node.Held.First(); p != nil && len(out) < limit; p = p.Next() {
			add(p.stand, at.node)
		}
	}
	for at := l.First(); at != nil; at = at.Also() {
		for p := at.node.Waiting.First(); p != nil && p != at && len(out) < limit; p = p.Next() {
			if l.queuesBehind(p.stand, at.node) && (l.State == Waiting || !l.isInside(at.node, p.stand)) {
				add(p.stand, at.node)
			}
		}
	}
	return out
}

// clash reports whether n has a holder for which l waits.
func (l *Stand[L]) clash(n *Node[L]) bool {
	if !n.Held.Clashes(l.Terms.Mode) {
		return false
	}
	for p := n.Held.First(); p != nil; p = p.Next() {
		if l.BlockedBy(p.stand, n) {
			return true
		}
	}
	return false
}

// firstClash is the holder of n for which l waits, of several the one with the lowest
// range; nil when there is none.
func (l *Stand[L]) firstClash(n *Node[L]) (first *Stand[L]) {
	for p := n.Held.First(); p != nil; p = p.Next() {
		if l.BlockedBy(p.stand, n) && (first == nil || p.stand.Terms.Range.Start < first.Terms.Range.Start) {
			first = p.stand
		}
	}
	return first
}

// queuesBehind reports whether l, which comes to wait or waits at n, is served after
// the waiter x, which stands there before it.
func (l *Stand[L]) queuesBehind(x *Stand[L], n *Node[L]) bool {
	return l.ConflictsAt(x, n) && !l.passes(x)
}

// passes reports whether the waiter x waits for a weak lock that l does not wait for.
func (l *Stand[L]) passes(x *Stand[L]) bool {
	for at := x.First(); at != nil; at = at.Also() {
		n := at.node
		if n.Held.weak+n.Waiting.weak == 0 {
			continue
		}
		for p := n.Held.First(); p != nil; p = p.Next() {
			if w := p.stand; w.Terms.Weak && x.BlockedBy(w, n) && !l.Terms.Conflicts(&w.Terms) {
				return true
			}
		}
		for p := n.Waiting.First(); p != nil && p != at; p = p.Next() {
			if w := p.stand; w.Terms.Weak && !w.Trial && x.ConflictsAt(w, n) && !l.Terms.Conflicts(&w.Terms) {
				return true
			}
		}
	}
	return false
}

// isInside reports whether n has a holder that lets l past the waiter w.
func (l *Stand[L]) isInside(n *Node[L], w *Stand[L]) bool {
	for p := n.Held.First(); p != nil; p = p.Next() {
		if l.Terms.Joins(&p.stand.Terms) && w.Meets(p.stand, n) {
			return true
		}
	}
	return false
}
