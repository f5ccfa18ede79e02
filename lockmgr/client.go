package lockmgr

// This file holds what is peculiar to the locks that programs take by
// themselves: flock(2) and fcntl(2).

// convert prepares a Flock request of a client that holds the key already.
//
// flock(2): "Converting a lock (shared to exclusive, or vice versa) is not
// guaranteed to be atomic: the existing lock is first removed, and then a new
// lock is established. Between these two steps, a pending lock request by
// another process may be granted, with the result that the conversion either
// blocks, or fails if LOCK_NB was specified." Here it is atomic unless it has
// to wait; then the old lock is gone, even if the new one is refused. Of several
// that Rekey has brought to one key, all are.
func (t *Table) convert(l *Lock) {
	n := t.nodes.Find(l.first.key)
	if n == nil {
		return
	}
	old := n.heldBy(Flock, l.terms.Client)
	switch {
	case old == nil:
	case !t.wouldClash(l, n):
		l.replaces, old.upgrader = old, l // enter grants it past the queue, absorb ends old
	default:
		t.keep(n)
		for ; old != nil; old = n.heldBy(Flock, l.terms.Client) {
			t.end(old, ErrReplaced)
		}
		t.settle()
	}
}

// wouldClash reports whether a holder is in the way of l, which has one key, with
// the node n, and stands nowhere yet.
func (t *Table) wouldClash(l *Lock, n *node) bool {
	l.first.node = n
	t.announce(l)
	clash := false
	for p := &l.first; p != nil; p = p.also {
		clash = clash || l.clash(p.node) != nil
	}
	l.first.node, l.first.also = nil, nil
	return clash
}

// keep makes n outlive its locks until the queues have been served.
func (t *Table) keep(n *node) {
	if !n.dirty {
		n.dirty = true
		t.dirty = append(t.dirty, n)
	}
}

// heldBy returns the first lock of a client held at n.
func (n *node) heldBy(c Class, client uint64) *Lock {
	for p := n.held.First(); p != nil; p = p.Next() {
		if p.lock.terms.Class == c && p.lock.terms.Client == client && !p.intent {
			return p.lock
		}
	}
	return nil
}

// absorb makes room for the client lock l, just granted, among the client's
// other locks on the key: over bytes that l covers they end, and neighbours of
// the same mode become part of l. fcntl_locking(2): "a process can hold only
// one type of lock on a particular file region". What l takes over has been
// held since before, and so has l: its heirs stay heirs.
func (t *Table) absorb(l *Lock) {
	n := l.first.node
	asked := l.terms.Range
	for p := n.held.First(); p != nil; {
		o, intent := p.lock, p.intent
		p = p.Next()
		if o == l || intent || !o.terms.SameClient(&l.terms) {
			continue
		}
		switch {
		case l.terms.Fuses(&o.terms, asked):
			l.terms.Range, l.guest = l.terms.Range.Union(o.terms.Range), l.guest || o.guest
			if o.terms.Owner == l.terms.Owner && l.terms.Since.After(o.terms.Since) {
				l.terms.Since = o.terms.Since
			}
			t.end(o, ErrReplaced)
		case o.terms.Range.Overlaps(asked):
			t.cut(o, asked, ErrReplaced)
		}
	}
}

// cut takes the bytes of r out of the held Posix lock o, which may leave
// nothing, one piece, or two. What is left is the same grant and keeps its
// token.
func (t *Table) cut(o *Lock, r Range, err error) {
	t.weaken(o, o.first.node)
	left, right := o.terms.Range.Start < r.Start, o.terms.Range.End > r.End
	switch {
	case left && right:
		t.split(o, r)
	case left:
		o.terms.Range.End = r.Start - 1
	case right:
		o.terms.Range.Start = r.End + 1
	default:
		t.end(o, err)
	}
}

// split leaves o the bytes before r, and gives those behind r to a new lock.
func (t *Table) split(o *Lock, r Range) {
	rest := &Lock{t: t, entry: entry{
		terms: o.terms, state: held, guest: o.guest, now: o.now, label: o.label, token: o.token, seq: o.seq,
		lease: o.lease, yields: o.yields,
	}}
	rest.terms.Range.Start = r.End + 1
	if rest.expired() {
		t.lapsed++
	}
	o.terms.Range.End = r.Start - 1
	rest.first = place{lock: rest, key: o.first.key, node: o.first.node}
	rest.first.node.held.insert(&rest.first, o.first.Next())
	for p := t.announce(rest); p != nil; p = p.also {
		p.node.held.insert(p, o.placeAt(p.node).Next())
	}
	t.held.Insert(rest, o.links.Next())
	t.join(rest)
}

// Unlock releases what a client holds on a key: of its Posix locks the bytes
// of r, and its Flock lock whole. Bytes on either side stay locked. Unlocking
// what is not locked does nothing, and so does a range that ends before it
// starts. Requests of the client that still wait are
// left alone.
func (t *Table) Unlock(key Key, class Class, client uint64, r Range) {
	t.mu.Lock()
	defer t.mu.Unlock()
	n := t.nodes.Find(key)
	if n == nil || class == Session || class == Posix && r.Start > r.End {
		return
	}
	t.keep(n)
	for p := n.held.First(); p != nil; {
		o, intent := p.lock, p.intent
		p = p.Next()
		switch {
		case intent || o.terms.Class != class || o.terms.Client != client:
		case class == Flock:
			t.end(o, ErrReleased)
		case o.terms.Range.Overlaps(r):
			t.cut(o, r, ErrReleased)
		}
	}
	t.settle()
}

// ReleaseClient releases everything that a client holds on a key, as the
// kernel does when a process closes a file it has Posix locks on, or when the
// last descriptor of an open file description is closed.
func (t *Table) ReleaseClient(key Key, class Class, client uint64) {
	t.Unlock(key, class, client, Range{Start: 0, End: ^uint64(0)})
}
