package knowledge

// Forget drops what is known of a key: its file is written without versions from
// now on.
func (t *Table) Forget(key Key) {
	t.mu.Lock()
	defer t.mu.Unlock()
	e := t.files[key]
	if e == nil {
		return
	}
	t.news.Add(1)
	t.dropLocked(key, e)
}
