package lockmgr

// This file holds what is peculiar to the locks that programs take by
// themselves: flock(2) and fcntl(2).

// convert prepares a Flock request of a client that may hold the key k already, and
// reports whether it takes the place of what the client holds, past the queue.
//
// flock(2): "Converting a lock (shared to exclusive, or vice versa) is not
// guaranteed to be atomic: the existing lock is first removed, and then a new
// lock is established. Between these two steps, a pending lock request by
// another process may be granted, with the result that the conversion either
// blocks, or fails if LOCK_NB was specified." Here it is atomic unless it has
// to wait; then the old lock is gone, even if the new one is refused. Of several
// that a rename has brought to one key, all are.
func (t *Table) convert(l *Lock, k Key) bool {
	n := t.ground.Find(k)
	if n == nil {
		return false
	}
	old := heldBy(n, Flock, l.stand.Terms.Client)
	switch {
	case old == nil:
		return false
	case t.ground.FirstClash(&l.stand) == nil:
		return true // absorb ends old
	}
	t.keep(n)
	for ; old != nil; old = heldBy(n, Flock, l.stand.Terms.Client) {
		t.end(old, ErrReplaced)
	}
	t.settle()
	return false
}

// keep makes n outlive its locks until the queues have been served.
func (t *Table) keep(n *node) {
	if !n.Dirty {
		n.Dirty = true
		t.dirty = append(t.dirty, n)
	}
}

// heldBy returns the first lock of a client held at n.
func heldBy(n *node, c Class, client uint64) *Lock {
	for p := n.Held.First(); p != nil; p = p.Next() {
		if p.Stand().Terms.Class == c && p.Stand().Terms.Client == client && !p.IsIntent() {
			return p.Lock()
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
	n := l.stand.First().Node()
	asked := l.stand.Terms.Range
	for p := n.Held.First(); p != nil; {
		o, intent := p.Lock(), p.IsIntent()
		p = p.Next()
		if o == l || intent || !o.stand.Terms.SameClient(&l.stand.Terms) {
			continue
		}
		switch {
		case l.stand.Terms.Fuses(&o.stand.Terms, asked):
			l.stand.Terms.Range, l.stand.Guest = l.stand.Terms.Range.Union(o.stand.Terms.Range), l.stand.Guest || o.stand.Guest
			if o.stand.Terms.Owner == l.stand.Terms.Owner && l.stand.Terms.Since.After(o.stand.Terms.Since) {
				l.stand.Terms.Since = o.stand.Terms.Since
			}
			t.end(o, ErrReplaced)
		case o.stand.Terms.Range.Overlaps(asked):
			t.cut(o, asked, ErrReplaced)
		}
	}
}

// cut takes the bytes of r out of the held Posix lock o, which may leave
// nothing, one piece, or two. What is left is the same grant and keeps its
// token.
func (t *Table) cut(o *Lock, r Range, err error) {
	t.weaken(&o.stand, o.stand.First().Node())
	left, right := o.stand.Terms.Range.Start < r.Start, o.stand.Terms.Range.End > r.End
	switch {
	case left && right:
		t.split(o, r)
	case left:
		o.stand.Terms.Range.End = r.Start - 1
	case right:
		o.stand.Terms.Range.Start = r.End + 1
	default:
		t.end(o, err)
	}
}

// split leaves o the bytes before r, and gives those behind r to a new lock.
func (t *Table) split(o *Lock, r Range) {
	rest := &Lock{t: t, now: o.now, label: o.label, seq: o.seq, lease: o.lease, yields: o.yields}
	rest.stand = stand{Lock: rest, Terms: o.stand.Terms, Guest: o.stand.Guest, Token: o.stand.Token}
	rest.stand.Terms.Range.Start = r.End + 1
	if rest.expired() {
		t.lapsed++
	}
	o.stand.Terms.Range.End = r.Start - 1
	t.ground.Split(&o.stand, &rest.stand)
	t.held.Insert(rest, o.links.Next())
	t.join(rest)
}

// Unlock releases what a client holds on a key: of its Posix locks the bytes of r, and
// its Flock lock whole. Bytes on either side stay locked; of Whole none do, as when a
// process closes a file that it has Posix locks on, or the last descriptor of an open file
// description is closed. Unlocking what is not locked does nothing, and so does a range
// that ends before it starts. Requests of the client that still wait are left alone.
func (t *Table) Unlock(key Key, class Class, client uint64, r Range) {
	t.mu.Lock()
	defer t.mu.Unlock()
	n := t.ground.Find(key)
	if n == nil || class == Session || class == Posix && r.Start > r.End {
		return
	}
	t.keep(n)
	for p := n.Held.First(); p != nil; {
		o, intent := p.Lock(), p.IsIntent()
		p = p.Next()
		switch {
		case intent || o.stand.Terms.Class != class || o.stand.Terms.Client != client:
		case class == Flock:
			t.end(o, ErrReleased)
		case o.stand.Terms.Range.Overlaps(r):
			t.cut(o, r, ErrReleased)
		}
	}
	t.settle()
}
