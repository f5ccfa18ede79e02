// Package dcache keeps the names of a tree of directories: which of them matter, where
// each is, and what its user keeps with it. It does no I/O, and knows nothing of inodes.
//
// A Dentry is a name in a directory. It has an identity for as long as somebody refers
// to it, so that what is kept with a name needs no path: when a directory gets another
// name, its dentry moves (Move, Exchange), and with it all dentries below. None of those
// is touched. When a file gets another name, its dentry stays; what belongs to the file
// moves, which is the user's to do, and what belongs to the name remains.
//
// A dentry that is no longer to be found by its name, because another has come to its
// place or its directory has been left behind, is displaced. It lives on for those who
// refer to it and shows the path that it had.
//
// A Tree has no mutex: its user's guards it, with what is kept in the dentries.
package dcache

// ID is the number of a dentry. It is never used for another.
type ID uint64

// A Tree has the names below one directory. S is what is kept with each.
type Tree[S any] struct {
	root   *Dentry[S]
	lastID ID
	size   int
}

// A Dentry is a name in a directory, or the root of a Tree.
type Dentry[S any] struct {
	// State is what the user keeps with the name. Whoever keeps something there needs
	// a reference for as long.
	State S

	id       ID
	parent   *Dentry[S] // nil of the root
	name     string
	children map[string]*Dentry[S]
	refs     int  // those of Get and Ref, and one for each dentry that has this parent
	found    bool // it is in its parent's children
}

// New makes a tree that has a root alone.
func New[S any]() *Tree[S] {
	t := &Tree[S]{}
	t.root = t.add(nil, "")
	t.root.refs, t.root.found = 1, true
	return t
}

// Root is the directory that the tree has the names of. It needs no reference.
func (t *Tree[S]) Root() *Dentry[S] { return t.root }

// Len is how many dentries there are, with the root.
func (t *Tree[S]) Len() int { return t.size }

func (t *Tree[S]) add(parent *Dentry[S], name string) *Dentry[S] {
	t.lastID++
	t.size++
	return &Dentry[S]{id: t.lastID, parent: parent, name: name}
}

// Get is the dentry of a name in a directory, with a reference for the caller, who
// gives it back by Put.
func (t *Tree[S]) Get(dir *Dentry[S], name string) *Dentry[S] {
	d := dir.children[name]
	if d == nil {
		d = t.add(dir, name)
		dir.refs++
		d.enter(dir)
	}
	d.refs++
	return d
}

// Find is the dentry of a name in a directory, nil if nobody refers to one. The caller
// gets no reference.
func (t *Tree[S]) Find(dir *Dentry[S], name string) *Dentry[S] { return dir.children[name] }

// Ref takes another reference on a dentry, and returns it.
func (t *Tree[S]) Ref(d *Dentry[S]) *Dentry[S] {
	d.refs++
	return d
}

// Put gives a reference back. A dentry to which nobody refers any more is gone.
func (t *Tree[S]) Put(d *Dentry[S]) {
	for d != nil {
		d.refs--
		if d.refs > 0 {
			return
		}
		d.leave()
		t.size--
		d = d.parent
	}
}

// enter makes d found by its name in dir, its parent.
func (d *Dentry[S]) enter(dir *Dentry[S]) {
	if dir.children == nil {
		dir.children = map[string]*Dentry[S]{}
	}
	dir.children[d.name] = d
	d.found = true
}

// leave makes d found no more.
func (d *Dentry[S]) leave() {
	if !d.found {
		return
	}
	d.found = false
	delete(d.parent.children, d.name)
	if len(d.parent.children) == 0 {
		d.parent.children = nil
	}
}

// Strand displaces a dentry to the root: it is somewhere.
func (t *Tree[S]) Strand(d *Dentry[S]) {
	d.leave()
	t.setParent(d, t.root)
}

// Move gives a dentry, which may be displaced, another name. All that is below goes with
// it, and the dentry that the name had before, if any, is displaced. A directory does not
// get a name below itself: whatever is there is displaced to the root first. The caller
// has references on d and dir.
func (t *Tree[S]) Move(d, dir *Dentry[S], name string) {
	if d.found && d.parent == dir && d.name == name {
		return
	}
	for at := dir; at.parent != nil; at = at.parent {
		if at.parent == d {
			t.Strand(at)
			break
		}
	}
	if other := dir.children[name]; other != nil {
		other.leave()
	}
	d.leave()
	d.name = name
	t.setParent(d, dir)
	d.enter(dir)
}

func (t *Tree[S]) setParent(d, dir *Dentry[S]) {
	was := d.parent
	d.parent = dir
	dir.refs++
	t.Put(was)
}

// Exchange lets two dentries, neither of which is above the other, have each other's
// names, with all that is below them.
func (t *Tree[S]) Exchange(a, b *Dentry[S]) {
	a.leave()
	b.leave()
	// The references that the two have on their parents change places with them.
	a.parent, b.parent = b.parent, a.parent
	a.name, b.name = b.name, a.name
	a.enter(a.parent)
	b.enter(b.parent)
}

// ID is the dentry's number.
func (d *Dentry[S]) ID() ID { return d.id }

// Name is the dentry's name in its directory, "" of the root.
func (d *Dentry[S]) Name() string { return d.name }

// Parent is the dentry of the directory that the name is in, nil of the root.
func (d *Dentry[S]) Parent() *Dentry[S] { return d.parent }

// Path is the dentry's path from the root, without a slash before it; "" of the root.
func (d *Dentry[S]) Path() string { return d.Join("") }

// Join is the path of a name in the directory d; of d itself if the name is "".
func (d *Dentry[S]) Join(name string) string {
	size := len(name)
	for at := d; at.parent != nil; at = at.parent {
		size += len(at.name) + 1
	}
	if name == "" && size > 0 {
		size--
	}
	buf := make([]byte, size)
	end := size - len(name)
	copy(buf[end:], name)
	for at := d; at.parent != nil; at = at.parent {
		if end < size || name != "" {
			end--
			buf[end] = '/'
		}
		end -= len(at.name)
		copy(buf[end:], at.name)
	}
	return string(buf)
}

// At is the dentry at a path, as Path returns it; nil if nobody refers to one. The caller
// gets no reference.
func (t *Tree[S]) At(path string) *Dentry[S] {
	d := t.root
	for path != "" && d != nil {
		var name string
		name, path = cut(path)
		d = d.children[name]
	}
	return d
}

// GetAt is At with a reference for the caller; it makes what is missing.
func (t *Tree[S]) GetAt(path string) *Dentry[S] {
	d := t.Ref(t.root)
	for path != "" {
		var name string
		name, path = cut(path)
		next := t.Get(d, name)
		t.Put(d)
		d = next
	}
	return d
}

// cut splits a path after its first name.
func cut(path string) (name, rest string) {
	for i := range len(path) {
		if path[i] == '/' {
			return path[:i], path[i+1:]
		}
	}
	return path, ""
}

// All calls do for each dentry below the root that is found by its name.
func (t *Tree[S]) All(do func(*Dentry[S])) { t.root.each(do) }

func (d *Dentry[S]) each(do func(*Dentry[S])) {
	for _, c := range d.children {
		do(c)
		c.each(do)
	}
}
