package lockmgr

import "latchfs/lockmgr/internal/places"

// Rekey renames a key, and every key below it, as a rename of the directory
// does: locks stay held, waiters keep waiting, both under the new names. When
// the new name has locks already, holders stay holders side by side and the
// queues become one; a lock on both names keeps one.
// Nothing happens when from is empty or to lies below from.
func (t *Table) Rekey(from, to Key) {
	t.mu.Lock()
	defer t.mu.Unlock()
	if from == "" || from == to || to.Below(from) {
		return
	}
	t.resettle(t.ground.Move(places.Rename{From: from, To: to}))
}

// RekeyFile renames one key as the rename of an open file does: the locks of
// clients move, which have the file open, and the session lock l. All other session
// locks, and what waits for them, are on the name and stay.
func (t *Table) RekeyFile(l *Lock, from, to Key) {
	t.mu.Lock()
	defer t.mu.Unlock()
	if from == "" || from == to {
		return
	}
	t.resettle(t.ground.MoveSome(opened(l, from, to)))
}

// Rename is a key that is renamed.
type Rename = places.Rename

// RekeyFiles is RekeyFile for several keys at once, without session locks: files among
// them may have changed places.
func (t *Table) RekeyFiles(renames ...Rename) {
	t.mu.Lock()
	defer t.mu.Unlock()
	var list []places.Which[Lock]
	for _, r := range renames {
		if r.From != "" && r.From != r.To {
			list = append(list, opened(nil, r.From, r.To))
		}
	}
	t.resettle(t.ground.MoveSome(list...))
}

// ExchangeFiles is RekeyFile for two keys at once, with a session lock on each or
// none.
func (t *Table) ExchangeFiles(la, lb *Lock, a, b Key) {
	t.mu.Lock()
	defer t.mu.Unlock()
	if a == "" || b == "" || a == b {
		return
	}
	t.resettle(t.ground.MoveSome(opened(la, a, b), opened(lb, b, a)))
}

// opened are the locks that RekeyFile moves.
func opened(l *Lock, from, to Key) places.Which[Lock] {
	return places.Which[Lock]{
		Rename: places.Rename{From: from, To: to},
		Moves:  func(x *stand) bool { return x.Lock == l || x.Terms.Class != Session },
	}
}

// Exchange swaps two keys, each with everything below it, as rename with
// RENAME_EXCHANGE does. Nothing happens when one is empty or below the other.
func (t *Table) Exchange(a, b Key) {
	t.mu.Lock()
	defer t.mu.Unlock()
	if a == "" || b == "" || a == b || a.Below(b) || b.Below(a) {
		return
	}
	t.resettle(t.ground.Move(places.Rename{From: a, To: b}, places.Rename{From: b, To: a}))
}

// resettle looks at all anew who wait where the locks have moved to.
func (t *Table) resettle(moved []*stand) {
	for _, l := range moved {
		for p := l.First(); p != nil; p = p.Also() {
			t.reconsider(p.Node())
		}
	}
	t.settle()
}
