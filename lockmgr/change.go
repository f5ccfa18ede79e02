package lockmgr

import "slices"

// Upgrade asks for a stronger mode for a held Session lock. The lock returned
// replaces l: until it is granted l stays held, then l ends with ErrReplaced.
// It waits for other holders only and stands before everybody who queues at
// the same keys; its heirs and records are l's. A lock that is strong enough
// already is returned as it is, and so is a pending upgrade of l that asks for
// as much; one that asks for less is in the way of a stronger one, which is
// refused with ErrInvalid. A lock that has ended is refused with its Err: one
// that was stolen with ErrStolen.
//
// Two holders that both wait for the other to let go would wait for ever, so
// there is one pending upgrade for each key: another owner's is refused with a
// *DeadlockError, after which it had better release. Holders that mean to
// upgrade take Update locks, of which there is only one.
func (t *Table) Upgrade(l *Lock, m Mode, noWait bool) (*Lock, error) {
	t.mu.Lock()
	defer t.mu.Unlock()
	if l.t == t && l.state == ended {
		return nil, l.err
	}
	if l.t != t || l.state != held || l.terms.Class != Session || m < Shared || m > Exclusive {
		return nil, ErrInvalid
	}
	if m <= l.terms.Mode {
		return l, nil
	}
	if u := l.upgrader; u != nil {
		if m <= u.terms.Mode {
			return u, nil
		}
		return nil, ErrInvalid
	}
	u := new(Lock)
	u.init(t, &Request{
		Keys: l.keys(nil), Trees: l.trees(), Gate: l.terms.Gate, Weak: l.terms.Weak, TTL: l.lease.TTL, Yields: l.yields, Steal: l.steals,
		Inbox: l.inbox, Mode: m, Owner: l.terms.Owner, Lineage: l.terms.Lineage, Since: l.terms.Since,
		Now: l.now, Label: l.label,
	})
	if err := rival(u, l, noWait); err != nil {
		return nil, err
	}
	u.replaces, l.upgrader = l, u
	if err := t.enter(u, noWait); err != nil {
		return nil, err
	}
	return u, nil
}

// rival returns the refusal of the upgrade u of l when another owner's upgrade
// is pending at one of its keys.
func rival(u, l *Lock, noWait bool) error {
	for at := &l.first; at != nil; at = at.also {
		if at.lock == nil {
			continue
		}
		for p := at.node.waiting.First(); p != nil; p = p.Next() {
			o := p.lock
			if o.replaces == nil || !l.meets(o, at.node) || !u.terms.Conflicts(&o.terms) {
				continue
			}
			if noWait {
				return &ConflictError{Holders: []Holder{o.replaces.holder(nil), o.holder(nil)}}
			}
			return &DeadlockError{Cycle: []Wait{
				{Waiter: u.holder(nil), Blocker: o.holder(nil), Key: at.key},
				{Waiter: o.holder(nil), Blocker: l.holder(nil), Key: at.key},
			}}
		}
	}
	return nil
}

// Downgrade weakens a held Session lock, under the same token, and lets in
// whom that admits. A lock that is not held, or not stronger than m, stays as
// it is.
func (t *Table) Downgrade(l *Lock, m Mode) {
	t.mu.Lock()
	defer t.mu.Unlock()
	if l.t != t || l.state != held || l.terms.Class != Session || m < Shared || m >= l.terms.Mode {
		return
	}
	for p := &l.first; p != nil; p = p.also {
		if p.lock != nil {
			t.weaken(l, p.node)
			p.node.held.count[l.terms.Mode]--
			p.node.held.count[m]++
		}
	}
	l.terms.Mode = m
	t.settle()
}

// Shrink takes keys away from a held Session lock, of which at least one stays. The
// others keep their token. A lock that is not held, or would lose all, stays as it
// is, and Shrink returns false; so does one that has an upgrade pending.
func (t *Table) Shrink(l *Lock, keys []Key) bool {
	t.mu.Lock()
	defer t.mu.Unlock()
	if l.t != t || l.state != held || l.terms.Class != Session || l.upgrader != nil {
		return false
	}
	if !slices.ContainsFunc(l.keys(nil), func(k Key) bool { return !slices.Contains(keys, k) }) {
		return false
	}
	t.retract(l)
	for p := &l.first; p != nil; p = p.also {
		n := p.node
		if p.lock == nil || !slices.Contains(keys, p.key) {
			continue
		}
		t.weaken(l, n)
		n.held.remove(p)
		p.lock, p.node = nil, nil
		if p.tree {
			p.tree = false
			t.fell(n)
		}
		t.nodes.Prune(n)
	}
	for p := t.announce(l); p != nil; p = p.also {
		p.node.held.insertByToken(p)
	}
	t.settle()
	return true
}

// SetOwner makes a lock another process's, whose heirs are those born after
// since: the process that asked for it has died and another one has its
// descriptor. Holders that were kin of the old owner stay holders. A lock and
// its pending upgrade are one owner's: to give away either is to give away both.
func (t *Table) SetOwner(l *Lock, o Owner, since Birth) {
	t.mu.Lock()
	defer t.mu.Unlock()
	if l.t != t || l.state != held && l.state != waiting {
		return
	}
	t.give(l, o, since)
	// Of two owners, the upgrade would wait for the lock that it replaces.
	if u := l.upgrader; u != nil {
		t.give(u, o, since)
	}
	if old := l.replaces; old != nil {
		t.give(old, o, since)
	}
	t.settle()
}

// give makes one lock o's.
func (t *Table) give(l *Lock, o Owner, since Birth) {
	t.leave(l)
	if l.state == waiting {
		t.owners.CountWaiter(&l.terms, -1)
	}
	l.terms.Owner, l.terms.Lineage, l.terms.Since = o, nil, since
	if l.state == waiting {
		t.owners.CountWaiter(&l.terms, 1)
	}
	t.join(l)
	l.guest = true
	for p := &l.first; p != nil; p = p.also {
		if p.lock != nil {
			t.reconsider(p.node)
		}
	}
}

// reconsider looks at every waiter of n again, because who is kin to whom, or
// who holds n, has changed.
func (t *Table) reconsider(n *node) {
	for p := n.waiting.First(); p != nil; p = p.Next() {
		t.suspects = append(t.suspects, p.lock)
	}
	t.touch(n)
}
