package lockmgr

import "latchfs/lockmgr/internal/places"

// Rename is a key that is renamed.
type Rename = places.Rename

// RenameTrees renames keys, each with every key below it, as a rename of a directory
// does: locks stay held, waiters keep waiting, both under the new names. Of several the
// renames take place at once, so that two trees can change places. When a new name has
// locks already, holders stay holders side by side and the queues become one; a lock on
// both names keeps one. Nothing happens when a From is empty or its To lies below it.
func (t *Table) RenameTrees(renames ...Rename) {
	t.mu.Lock()
	defer t.mu.Unlock()
	var list []Rename
	for _, r := range renames {
		switch {
		case r.From == "" || r.To.Below(r.From):
			return
		case r.From != r.To:
			list = append(list, r)
		}
	}
	t.resettle(t.ground.Move(list...))
}

// FileRename is the key of an open file that is renamed, with the session lock that goes
// along; nil: none does.
type FileRename struct {
	Rename
	With *Lock
}

// RenameFiles renames keys as the rename of an open file does: the locks of clients move,
// which have the file open, and the session lock With. All other session locks, and what
// waits for them, are on the name and stay. Of several the renames take place at once, so
// that files can change places. A rename whose From is empty is left out.
func (t *Table) RenameFiles(renames ...FileRename) {
	t.mu.Lock()
	defer t.mu.Unlock()
	var list []places.Which[Lock]
	for _, r := range renames {
		if r.From != "" && r.From != r.To {
			list = append(list, places.Which[Lock]{
				Rename: r.Rename,
				Moves:  func(x *stand) bool { return x.Lock == r.With || x.Terms.Class != Session },
			})
		}
	}
	t.resettle(t.ground.MoveSome(list...))
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
