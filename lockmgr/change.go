package lockmgr

import (
	"slices"

	"latchfs/lockmgr/internal/places"
)

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
	if l.t == t && l.stand.State == places.Nowhere {
		return nil, l.err
	}
	if l.t != t || l.stand.State != places.Held || l.stand.Terms.Class != Session || m < Shared || m > Exclusive {
		return nil, ErrInvalid
	}
	if m <= l.stand.Terms.Mode {
		return l, nil
	}
	if u := l.upgrader; u != nil {
		if m <= u.stand.Terms.Mode {
			return u, nil
		}
		return nil, ErrInvalid
	}
	u := new(Lock)
	u.init(t, &Request{
		Keys: l.stand.Keys(nil), Trees: l.stand.Trees(), Gate: l.stand.Terms.Gate, Weak: l.stand.Terms.Weak, TTL: l.lease.TTL, Yields: l.yields, Steal: l.steals,
		Inbox: l.inbox, Mode: m, Owner: l.stand.Terms.Owner, Lineage: l.stand.Terms.Lineage, Since: l.stand.Terms.Since,
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
	for at := l.stand.First(); at != nil; at = at.Also() {
		for p := at.Node().Waiting.First(); p != nil; p = p.Next() {
			o := p.Lock()
			if o.replaces == nil || !l.stand.Meets(p.Stand(), at.Node()) || !u.stand.Terms.Conflicts(&o.stand.Terms) {
				continue
			}
			if noWait {
				return &ConflictError{Holders: []Holder{o.replaces.holder(nil), o.holder(nil)}}
			}
			return &DeadlockError{Cycle: []Wait{
				{Waiter: u.holder(nil), Blocker: o.holder(nil), Key: at.Node().Key()},
				{Waiter: o.holder(nil), Blocker: l.holder(nil), Key: at.Node().Key()},
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
	if l.t != t || l.stand.State != places.Held || l.stand.Terms.Class != Session || m < Shared || m >= l.stand.Terms.Mode {
		return
	}
	t.ground.SetMode(&l.stand, m)
	t.settle()
}

// Shrink takes keys away from a held Session lock, of which at least one stays. The
// others keep their token. A lock that is not held, or would lose all, stays as it
// is, and Shrink returns false; so does one that has an upgrade pending.
func (t *Table) Shrink(l *Lock, keys []Key) bool {
	t.mu.Lock()
	defer t.mu.Unlock()
	if l.t != t || l.stand.State != places.Held || l.stand.Terms.Class != Session || l.upgrader != nil {
		return false
	}
	if !slices.ContainsFunc(l.stand.Keys(nil), func(k Key) bool { return !slices.Contains(keys, k) }) {
		return false
	}
	t.ground.GiveUp(&l.stand, keys)
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
	if l.t != t || l.stand.State != places.Held && l.stand.State != places.Waiting {
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
	if l.stand.State == places.Waiting {
		t.owners.CountWaiter(&l.stand.Terms, -1)
	}
	l.stand.Terms.Owner, l.stand.Terms.Lineage, l.stand.Terms.Since = o, nil, since
	if l.stand.State == places.Waiting {
		t.owners.CountWaiter(&l.stand.Terms, 1)
	}
	t.join(l)
	l.stand.Guest = true
	for p := l.stand.First(); p != nil; p = p.Also() {
		t.reconsider(p.Node())
	}
}

// reconsider looks at every waiter of n again, because who is kin to whom, or
// who holds n, has changed.
func (t *Table) reconsider(n *node) {
	for p := n.Waiting.First(); p != nil; p = p.Next() {
		t.suspects = append(t.suspects, p.Lock())
	}
	t.ground.Touch(n)
}
