package lockmgr

// compatible is the mode matrix of the package comment.
var compatible = [modes][modes]bool{
	Shared: {Shared: true, Update: true},
	Update: {Shared: true},
}

// kinOf reports whether l, as requester, is kin to x: of the same owner, or an
// heir of x, that is a descendant born after x was asked for. It is not
// symmetric: a parent inherits nothing from its child.
func (l *Lock) kinOf(x *Lock) bool {
	if l.owner == x.owner {
		return true
	}
	if l.owner.PID == 0 || x.owner.PID == 0 {
		return false
	}
	for i := range l.lineage {
		if a := &l.lineage[i]; a.Owner == x.owner {
			return a.Child.After(x.since)
		}
	}
	return false
}

// descends reports whether l is o's or a descendant's of it, whenever born.
func (l *Lock) descends(o Owner) bool {
	if l.owner == o {
		return true
	}
	for i := range l.lineage {
		if l.lineage[i].Owner == o {
			return true
		}
	}
	return false
}

// conflicts reports whether l must wait for x at a key both stand at.
func (l *Lock) conflicts(x *Lock) bool {
	switch {
	case compatible[l.mode][x.mode]:
		return false
	case (l.weak || x.weak) && !l.advises(x):
		return false
	case l.class == Session || x.class == Session:
		return !l.kinOf(x)
	case l.class != x.class:
		return false // "flock and fcntl locks have no effect on each other"
	case l.client == x.client:
		return false
	case l.class == Posix:
		return l.rng.overlaps(x.rng)
	}
	return true
}

// sheltered reports whether l and the holder x are both kin to one session
// that is held at n and as strong as either: they are guests in that session,
// which keeps all others out, and do not wait for each other. So the children
// of one writer join its session side by side. A gate shelters nobody.
func (l *Lock) sheltered(x *Lock, n *node) bool {
	if l.class != Session && x.class != Session {
		return false
	}
	for p := n.held.head; p != nil; p = p.next {
		h := p.lock
		if h != x && h.class == Session && h.mode >= max(l.mode, x.mode) && !h.gate && !h.weak &&
			l.kinOf(h) && x.kinOf(h) && n.allOn(l, x, h) {
			return true
		}
	}
	return false
}

// blockedBy reports whether the requester l waits for x, which stands at n
// before it.
func (l *Lock) blockedBy(x *Lock, n *node) bool {
	return l.conflicts(x) && l.meets(x, n) && !(x.state == held && l.sheltered(x, n))
}

// clash returns the first lock held at n that l waits for, or nil.
func (l *Lock) clash(n *node) *Lock {
	if !n.held.clashes(l.mode) {
		return nil
	}
	for p := n.held.head; p != nil; p = p.next {
		if l.blockedBy(p.lock, n) {
			return p.lock
		}
	}
	return nil
}

// clashAhead returns the first lock that waits at n before the place end (nil:
// anywhere) and that l waits for, or nil.
func (l *Lock) clashAhead(n *node, end *place) *Lock {
	if !n.waiting.clashes(l.mode) {
		return nil
	}
	for p := n.waiting.head; p != nil && p != end; p = p.next {
		if p.lock != l && l.queuesBehind(p.lock, n) {
			return p.lock
		}
	}
	return nil
}

// joins reports whether the held lock x lets l past those who queue at the same
// key: they may be waiting for x, and x for l. Between client locks kinship
// does not count (see conflicts).
func (l *Lock) joins(x *Lock) bool {
	return !x.weak && (l.class == Session || x.class == Session) && l.kinOf(x)
}

// inside reports whether n has a holder that lets l past the waiter w.
func (l *Lock) inside(n *node, w *Lock) bool {
	for p := n.held.head; p != nil; p = p.next {
		if l.joins(p.lock) && w.meets(p.lock, n) {
			return true
		}
	}
	return false
}
