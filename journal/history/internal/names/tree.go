// Package names holds the names of many paths in little memory, and renames a directory
// in one step: they are a tree, as in a filesystem, in which the rename of a directory
// changes one node, however much is below it.
//
// Paths are relative to the root, have a slash between two names, and any bytes in them.
// A path has a value if its user has set one: a number, which means nothing here. Of the
// other paths there are those that lead to one with a value, and no more. A node stands
// for a path, and goes with it: when its directory is renamed the node, and what is below
// it, stand for the new paths.
//
// What a path's own value is has nothing to do with what is below it: a rename of a
// directory (Move, Exchange) concerns only the values below, so a path may have a value
// and be a directory, as one that was a file once.
//
// The package has no mutex: its user guards a tree.
package names

import (
	"hash/maphash"
	"slices"
	"strings"

	"latchfs/journal/history/internal/arena"
)

// node is a name in a directory: of a path with a value, or of a directory above one.
type node struct {
	parent uint32
	name   uint32 // in Tree.texts
	kids   uint32 // how many names are below
	value  uint32 // of the path, 0 if it has none
}

// Tree is the names of all paths.
type Tree struct {
	nodes  arena.Arena[node]
	byName arena.Table
	texts  texts
	seed   maphash.Seed
	moved  func(value, node uint32)
}

// root is the number of the node above all.
const root = 1

// New makes a tree without paths. moved is told when a rename has made a value that of
// another node; a value that Move merges is told to its merge instead.
func New(moved func(value, node uint32)) *Tree {
	t := &Tree{seed: maphash.MakeSeed(), moved: moved}
	t.nodes.Add(node{parent: root, name: t.texts.add("")})
	return t
}

// Snapshot is a copy of which only Path may be called. It may be asked while the tree
// itself changes.
func (t *Tree) Snapshot() *Tree {
	return &Tree{nodes: t.nodes.Clone(), texts: texts{chunks: slices.Clone(t.texts.chunks)}}
}

func (t *Tree) hash(n uint32) uint32 {
	e := t.nodes.At(n)
	return mix(maphash.Bytes(t.seed, t.texts.get(e.name)), e.parent)
}

func mix(name uint64, parent uint32) uint32 {
	h := name ^ uint64(parent)*0x9e3779b97f4a7c15
	return uint32(h ^ h>>32)
}

// child is the node of a name in a directory, 0 if there is none.
func (t *Tree) child(parent uint32, name string) uint32 {
	return t.byName.Find(mix(maphash.String(t.seed, name), parent), func(n uint32) bool {
		e := t.nodes.At(n)
		return e.parent == parent && string(t.texts.get(e.name)) == name
	})
}

// Find is the node of a path, 0 if there is none.
func (t *Tree) Find(path string) uint32 {
	n := uint32(root)
	for more := true; more && n != 0; {
		var name string
		name, path, more = strings.Cut(path, "/")
		n = t.child(n, name)
	}
	return n
}

// Value is the value of a node's path, 0 if it has none.
func (t *Tree) Value(n uint32) uint32 { return t.nodes.At(n).value }

// Set gives a node's path a value, which is not 0.
func (t *Tree) Set(n, value uint32) { t.nodes.At(n).value = value }

// Clear takes the value of a node's path away. The node goes unless it leads to others.
func (t *Tree) Clear(n uint32) {
	t.nodes.At(n).value = 0
	t.prune(n)
}

// Make is Find, and makes the nodes that are missing. The caller gives the path a value
// (Set) before anything else is done with the tree, or takes it back (Clear).
func (t *Tree) Make(path string) uint32 {
	n := uint32(root)
	for more := true; more; {
		var name string
		name, path, more = strings.Cut(path, "/")
		n = t.makeChild(n, name)
	}
	return n
}

func (t *Tree) makeChild(parent uint32, name string) uint32 {
	n := t.child(parent, name)
	if n == 0 {
		n = t.nodes.Add(node{name: t.texts.add(name)})
		t.hang(n, parent)
	}
	return n
}

// hang puts a node that is in no directory into one.
func (t *Tree) hang(n, parent uint32) {
	t.nodes.At(n).parent = parent
	t.nodes.At(parent).kids++
	t.byName.Add(n, t.hash)
}

// unhang takes a node out of its directory, which may be empty then.
func (t *Tree) unhang(n uint32) {
	t.byName.Remove(n, t.hash)
	t.nodes.At(t.nodes.At(n).parent).kids--
}

// prune drops a node that leads to nothing, and the directories above that do so no
// longer.
func (t *Tree) prune(n uint32) {
	for n != root && t.nodes.At(n).kids == 0 && t.nodes.At(n).value == 0 {
		parent := t.nodes.At(n).parent
		t.unhang(n)
		t.texts.drop(t.nodes.At(n).name)
		t.nodes.Drop(n)
		n = parent
	}
	if t.texts.wasteful() {
		t.pack()
	}
}

// pack gives the texts that nobody uses back.
func (t *Tree) pack() {
	var packed texts
	for n := uint32(1); n <= t.nodes.Size(); n++ {
		if e := t.nodes.At(n); e.parent != 0 {
			e.name = packed.add(string(t.texts.get(e.name)))
		}
	}
	t.texts = packed
}

// Path is the path of a node.
func (t *Tree) Path(n uint32) string {
	size := -1
	for at := n; at != root; at = t.nodes.At(at).parent {
		size += len(t.texts.get(t.nodes.At(at).name)) + 1
	}
	if size < 0 {
		return ""
	}
	b := make([]byte, size)
	for at := n; at != root; at = t.nodes.At(at).parent {
		name := t.texts.get(t.nodes.At(at).name)
		size -= copy(b[size-len(name):], name)
		if size > 0 {
			size--
			b[size] = '/'
		}
	}
	return string(b)
}

// Below are the paths with values in a directory, "" for the root, at any depth, in
// order.
func (t *Tree) Below(dir string) []string {
	n := uint32(root)
	if dir != "" {
		n = t.Find(dir)
	}
	if n == 0 || t.nodes.At(n).kids == 0 {
		return nil
	}
	nodes := t.below(n)
	paths := make([]string, len(nodes))
	for i, n := range nodes {
		paths[i] = t.Path(n)
	}
	slices.Sort(paths)
	return paths
}

// below are the nodes with values in a directory, at any depth.
func (t *Tree) below(dir uint32) []uint32 {
	const unknown, in, out = 0, 1, 2
	is := make([]byte, t.nodes.Size()+1)
	is[root], is[dir] = out, in
	var found []uint32
	var climbed []uint32
	for n := uint32(1); n <= t.nodes.Size(); n++ {
		if t.nodes.At(n).parent == 0 {
			continue
		}
		climbed = climbed[:0]
		at := n
		for is[at] == unknown {
			climbed = append(climbed, at)
			at = t.nodes.At(at).parent
		}
		for _, c := range climbed {
			is[c] = is[at]
		}
		if is[n] == in && n != dir && t.nodes.At(n).value != 0 {
			found = append(found, n)
		}
	}
	return found
}

// nested reports whether one of two directories is the other, or in it.
func nested(a, b string) bool {
	return a == b || strings.HasPrefix(a, b+"/") || strings.HasPrefix(b, a+"/")
}

// Move renames what is below a directory. Where from and to both have a name the two are
// merged: of each path with a value below from whose new path is there already, merge is
// told both nodes. It decides what value the second has from then on (Set); the first is
// gone when it has returned, with all that is known of it. Nothing moves if one of the
// directories is the other, or in it.
func (t *Tree) Move(from, to string, merge func(moved, there uint32)) {
	n := t.Find(from)
	if n == 0 || t.nodes.At(n).kids == 0 || nested(from, to) {
		return
	}
	there := t.Make(to)
	if t.nodes.At(there).kids > 0 {
		t.join(n, there, merge)
		t.prune(n)
		return
	}
	// The directory gets the other's place; the values of the two paths stay.
	t.swap(n, there)
	t.prune(there)
}

// Exchange makes what is below two directories change places, unless one of them is the
// other, or in it.
func (t *Tree) Exchange(a, b string) {
	if nested(a, b) {
		return
	}
	na, nb := t.Make(a), t.Make(b)
	t.swap(na, nb)
	t.prune(na)
	t.prune(nb)
}

// swap makes two nodes change places, but for their own values.
func (t *Tree) swap(a, b uint32) {
	pa, pb := t.nodes.At(a).parent, t.nodes.At(b).parent
	t.unhang(a)
	t.unhang(b)
	ea, eb := t.nodes.At(a), t.nodes.At(b)
	ea.name, eb.name = eb.name, ea.name
	ea.value, eb.value = eb.value, ea.value
	for _, n := range []uint32{a, b} {
		if value := t.nodes.At(n).value; value != 0 {
			t.moved(value, n)
		}
	}
	t.hang(a, pb)
	t.hang(b, pa)
}

// join moves all that is in one directory into another.
func (t *Tree) join(from, to uint32, merge func(moved, there uint32)) {
	first, next := make([]uint32, t.nodes.Size()+1), make([]uint32, t.nodes.Size()+1)
	for n := uint32(root + 1); n <= t.nodes.Size(); n++ {
		if p := t.nodes.At(n).parent; p != 0 {
			first[p], next[n] = n, first[p]
		}
	}
	t.joinListed(from, to, first, next, merge)
}

func (t *Tree) joinListed(from, to uint32, first, next []uint32, merge func(moved, there uint32)) {
	for n := first[from]; n != 0; n = next[n] {
		e := t.nodes.At(n)
		there := t.child(to, string(t.texts.get(e.name)))
		if there == 0 {
			t.unhang(n)
			t.hang(n, to)
			continue
		}
		if e.value != 0 {
			merge(n, there)
		}
		t.joinListed(n, there, first, next, merge)
		t.unhang(n)
		t.texts.drop(e.name)
		t.nodes.Drop(n)
	}
}
