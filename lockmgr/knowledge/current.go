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

// OursSince reports whether stamp is a remembered version of key, and every later one
// was made by somebody on the chain or by a descendant of somebody on it.
func (t *Table) OursSince(key Key, stamp Stamp, chain []lockmgr.Owner) bool {
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
	return !slices.ContainsFunc(e.changes, func(c Change) bool {
		return c.Number > number && !slices.ContainsFunc(chain, c.madeBy)
	})
}
