package knowledge

import "time"

// Meet is Found for a reader that has come across stamp under a key whose file is written in
// place: a version is there that nobody has announced. number is that of the current version
// before the reader looked. What it has seen may be half of a version while somebody is about
// to make one (Expect), or where another version has come since: then it is none.
func (t *Table) Meet(now time.Time, key Key, number uint64, stamp Stamp) {
	t.mu.Lock()
	defer t.mu.Unlock()
	e := t.use(key)
	if e == nil || e.expected != nil || e.current().Number != number {
		return
	}
	t.counted(key, e, func() { e.advance(now, stamp) })
}
