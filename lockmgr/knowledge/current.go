package knowledge

import (
	"slices"

	"latchfs/lockmgr"
)

// Current is the number and the stamp of the version that key holds as far as is
// known; 0 of a key of which nothing is remembered.
func (t *Table) Current(key Key) (number uint64, stamp Stamp) {
	t.mu.Lock()
	defer t.mu.Unlock()
	e := t.files[key]
	if e == nil {
		return 0, Stamp{}
	}
	return e.current().Number, e.current().Stamp
}

// Versions returns the current version of each key of which something is remembered.
func (t *Table) Versions() map[Key]Change {
	t.mu.Lock()
	defer t.mu.Unlock()
	all := make(map[Key]Change, len(t.files))
	for key, e := range t.files {
		all[key] = *e.current()
	}
	return all
}

// Owners are the process that has made the version and its relatives, none if that is not
// known. The list is not to be changed.
func (c *Change) Owners() []lockmgr.Owner { return c.owners }

// Added reports whether the version was made of the one before by appending to it.
func (c *Change) Added() bool { return c.added }

// OursSince reports whether stamp is a remembered version of key, and every later one was made
// by the script that has run who and the process that has made the first of these, or by what
// the script has started: mv f f.bak; echo > f; mv f.bak f. If who has made the first itself,
// the others have to be its own work as well: see Basis.IsUndo.
func (t *Table) OursSince(key Key, stamp Stamp, who Who) bool {
	t.mu.Lock()
	defer t.mu.Unlock()
	e := t.files[key]
	if e == nil || stamp == (Stamp{}) {
		return false
	}
	number := e.find(stamp)
	if number == 0 {
		return false
	}
	first := e.version(number + 1)
	if first == nil {
		return true // it is the current one
	}
	script, ok := who.scriptWith(first.owners)
	return ok && !slices.ContainsFunc(e.changes, func(c Change) bool { return c.Number > number && !c.madeBy(script) })
}
