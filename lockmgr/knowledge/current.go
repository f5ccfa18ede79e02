package knowledge

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
