package advisory

import (
	"slices"

	"latchfs/lockmgr"
)

// letGo ends the locks that the owner of what is asked for, and its ancestors, have on files that
// another file took the name of by a rename. The name is locked, so whoever renames a file over
// the one that it has locked has locked the new file too, and on a plain directory it may lock that
// before it closes the old one: here it would wait for itself.
func (r *Room) letGo(a *Ask) {
	k := r.Key(a.File, a.Class)
	if a.By.Foreign() || r.c.Engine.Test(a, k) == nil {
		return
	}
	family := []lockmgr.Owner{a.owner()}
	for _, anc := range a.By.Ancestors() {
		family = append(family, anc.Owner)
	}
	for c, f := range r.ofFamily(a, family) {
		if f.Inode() != a.File.Inode() && f.Standing().Overtaken {
			r.c.Table.Unlock(k, c.Class, c.ID, lockmgr.Whole)
		}
	}
}

// owner is the process that is to own the lock.
func (a *Ask) owner() lockmgr.Owner {
	if a.Owner != nil {
		return *a.Owner
	}
	return a.By.Owner()
}

// ofFamily has the other clients of the class of what is asked for whose locks processes of a
// family have, each with an open file through which it has them.
func (r *Room) ofFamily(a *Ask, family []lockmgr.Owner) map[Client]File {
	r.mu.Lock()
	defer r.mu.Unlock()
	out := map[Client]File{}
	for _, ls := range r.files {
		for c, locks := range ls.locks {
			theirs := func(l *lockmgr.Lock) bool { return l.Held() && slices.Contains(family, l.Owner()) }
			if c != a.Client && c.Class == a.Class && slices.ContainsFunc(locks, theirs) {
				out[c] = ls.file
			}
		}
	}
	return out
}
