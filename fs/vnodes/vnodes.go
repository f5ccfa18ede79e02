// Package vnodes numbers the nodes of a tree that is made up, and what is open in it: the
// kernel knows a file by the one number, and a descriptor by the other.
//
// A path has the same number as long as the kernel remembers it: from the first lookup
// until as many were forgotten as there were. No number is given out twice, so that the
// kernel cannot take a node for an earlier one. The root always has its own.
//
// Table.mu guards all of it, and nobody takes another mutex while holding it.
package vnodes

import "sync"

// Table has the numbers of one tree, whose open files are of type H.
type Table[H any] struct {
	root uint64

	mu      sync.Mutex // guards what follows
	nextID  uint64
	nextFH  uint64
	nodes   map[uint64]*node
	byPath  map[string]*node
	handles map[uint64]H
}

type node struct {
	id      uint64
	path    string
	nlookup uint64
}

// New makes a Table with nothing but the root, the empty path. Numbers of nodes begin
// with the root's.
func New[H any](root uint64) *Table[H] {
	n := &node{id: root, nlookup: 1}
	return &Table[H]{
		root: root, nextID: root,
		nodes: map[uint64]*node{root: n}, byPath: map[string]*node{"": n}, handles: map[uint64]H{},
	}
}

// Lookup is the number of a path, with one lookup more.
func (t *Table[H]) Lookup(path string) (id uint64) {
	t.mu.Lock()
	defer t.mu.Unlock()
	n := t.byPath[path]
	if n == nil {
		t.nextID++
		n = &node{id: t.nextID, path: path}
		t.nodes[n.id], t.byPath[path] = n, n
	}
	n.nlookup++
	return n.id
}

// Path is the path of a number, false if the kernel has forgotten it.
func (t *Table[H]) Path(id uint64) (string, bool) {
	t.mu.Lock()
	defer t.mu.Unlock()
	n := t.nodes[id]
	if n == nil {
		return "", false
	}
	return n.path, true
}

// Forget takes lookups back.
func (t *Table[H]) Forget(id, nlookup uint64) {
	t.mu.Lock()
	defer t.mu.Unlock()
	n := t.nodes[id]
	if n == nil || id == t.root {
		return
	}
	if n.nlookup -= min(nlookup, n.nlookup); n.nlookup == 0 {
		delete(t.nodes, id)
		delete(t.byPath, n.path)
	}
}

// Open gives what has been opened a number.
func (t *Table[H]) Open(h H) (fh uint64) {
	t.mu.Lock()
	defer t.mu.Unlock()
	t.nextFH++
	t.handles[t.nextFH] = h
	return t.nextFH
}

// Handle is what has a number; the zero H if nothing has.
func (t *Table[H]) Handle(fh uint64) H {
	t.mu.Lock()
	defer t.mu.Unlock()
	return t.handles[fh]
}

// Close takes a number back, and returns what had it; the zero H if nothing had.
func (t *Table[H]) Close(fh uint64) H {
	t.mu.Lock()
	defer t.mu.Unlock()
	h := t.handles[fh]
	delete(t.handles, fh)
	return h
}

// Last is what was opened last of all of which is is true; the zero H if there is none.
// The table is locked while is decides.
func (t *Table[H]) Last(is func(H) bool) (last H) {
	t.mu.Lock()
	defer t.mu.Unlock()
	at := uint64(0)
	for fh, h := range t.handles {
		if fh > at && is(h) {
			last, at = h, fh
		}
	}
	return last
}
