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
