package dcache

import "slices"

// MaxEarlier is how many names of a file are remembered beside the last.
const MaxEarlier = 16

// Earlier are names that a file was seen under before the last one, the latest at the
// end, each once and with a reference. They may be names of the file still.
type Earlier[S any] []*Dentry[S]

// Note remembers a name, whose reference is the list's from now on. Beyond MaxEarlier the
// name that was seen longest ago is forgotten.
func (e *Earlier[S]) Note(t *Tree[S], d *Dentry[S]) {
	if i := slices.Index(*e, d); i >= 0 {
		*e = slices.Delete(*e, i, i+1)
		t.Put(d)
	} else if len(*e) == MaxEarlier {
		t.Put((*e)[0])
		*e = slices.Delete(*e, 0, 1)
	}
	*e = append(*e, d)
}

// Drop forgets all of them.
func (e *Earlier[S]) Drop(t *Tree[S]) {
	for _, d := range *e {
		t.Put(d)
	}
	*e = nil
}

// GetUnless is Get of a name that may be another's: if taken says so of what is kept with it,
// that dentry is displaced, and the name has a new one.
func (t *Tree[S]) GetUnless(dir *Dentry[S], name string, taken func(*S) bool) *Dentry[S] {
	d := t.Get(dir, name)
	if !taken(&d.State) {
		return d
	}
	d.leave()
	t.Put(d)
	return t.Get(dir, name)
}

// Rename moves the dentry of a name to another name, or lets the two change places: Move and
// Exchange for whoever has no dentries. The user has references on both directories.
func (t *Tree[S]) Rename(from *Dentry[S], name string, to *Dentry[S], toName string, exchange bool) {
	a := t.Get(from, name)
	if exchange {
		b := t.Get(to, toName)
		t.Exchange(a, b)
		t.Put(b)
	} else {
		t.Move(a, to, toName)
	}
	t.Put(a)
}
