package history

import (
	"hash/maphash"
	"slices"
	"strings"
)

// The names of the index are a tree, as in a filesystem: the rename of a directory
// changes one node, however much is below it.

// node is a name in a directory: of a path with versions, or of a directory above one.
type node struct {
	parent uint32
	name   uint32 // in tree.texts
	kids   uint32 // how many names are below
	file   uint32 // the versions of the path, 0 if it has none
}

// tree is the names of all paths.
type tree struct {
	nodes  arena[node]
	byName table
	texts  texts
	seed   maphash.Seed
	// moved is told that versions are those of another node.
	moved func(file, node uint32)
}

// root is the number of the node above all.
const root = 1

func newTree() tree {
	t := tree{seed: maphash.MakeSeed()}
	t.nodes.add(node{parent: root, name: t.texts.add("")})
	return t
}

func (t *tree) hash(n uint32) uint32 {
	e := t.nodes.at(n)
	return mix(maphash.Bytes(t.seed, t.texts.get(e.name)), e.parent)
}

func mix(name uint64, parent uint32) uint32 {
	h := name ^ uint64(parent)*0x9e3779b97f4a7c15
	return uint32(h ^ h>>32)
}

// child is the node of a name in a directory, 0 if there is none.
func (t *tree) child(parent uint32, name string) uint32 {
	return t.byName.find(mix(maphash.String(t.seed, name), parent), func(n uint32) bool {
		e := t.nodes.at(n)
		return e.parent == parent && string(t.texts.get(e.name)) == name
	})
}

// find is the node of a path, 0 if there is none.
func (t *tree) find(path string) uint32 {
	n := uint32(root)
	for more := true; more && n != 0; {
		var name string
		name, path, more = strings.Cut(path, "/")
		n = t.child(n, name)
	}
	return n
}

// make is find, and makes the nodes that are missing.
func (t *tree) make(path string) uint32 {
	n := uint32(root)
	for more := true; more; {
		var name string
		name, path, more = strings.Cut(path, "/")
		n = t.makeChild(n, name)
	}
	return n
}

func (t *tree) makeChild(parent uint32, name string) uint32 {
	n := t.child(parent, name)
	if n == 0 {
		n = t.nodes.add(node{name: t.texts.add(name)})
		t.hang(n, parent)
	}
	return n
}

// hang puts a node that is in no directory into one.
func (t *tree) hang(n, parent uint32) {
	t.nodes.at(n).parent = parent
	t.nodes.at(parent).kids++
	t.byName.add(n, t.hash)
}

// unhang takes a node out of its directory, which may be empty then.
func (t *tree) unhang(n uint32) {
	t.byName.remove(n, t.hash)
	t.nodes.at(t.nodes.at(n).parent).kids--
}

// prune drops a node that leads to nothing, and the directories above that do so no
// longer.
func (t *tree) prune(n uint32) {
	for n != root && t.nodes.at(n).kids == 0 && t.nodes.at(n).file == 0 {
		parent := t.nodes.at(n).parent
		t.unhang(n)
		t.texts.drop(t.nodes.at(n).name)
		t.nodes.drop(n)
		n = parent
	}
	if t.texts.wasteful() {
		t.pack()
	}
}

// pack gives the texts that nobody uses back.
func (t *tree) pack() {
	var packed texts
	for n := uint32(1); n <= t.nodes.size; n++ {
		if e := t.nodes.at(n); e.parent != 0 {
			e.name = packed.add(string(t.texts.get(e.name)))
		}
	}
	t.texts = packed
}

// path is the path of a node.
func (t *tree) path(n uint32) string {
	size := -1
	for at := n; at != root; at = t.nodes.at(at).parent {
		size += len(t.texts.get(t.nodes.at(at).name)) + 1
	}
	if size < 0 {
		return ""
	}
	b := make([]byte, size)
	for at := n; at != root; at = t.nodes.at(at).parent {
		name := t.texts.get(t.nodes.at(at).name)
		size -= copy(b[size-len(name):], name)
		if size > 0 {
			size--
			b[size] = '/'
		}
	}
	return string(b)
}

// below are the nodes with versions in a directory, at any depth.
func (t *tree) below(dir uint32) []uint32 {
	const unknown, in, out = 0, 1, 2
	is := make([]byte, t.nodes.size+1)
	is[root], is[dir] = out, in
	var found []uint32
	var climbed []uint32
	for n := uint32(1); n <= t.nodes.size; n++ {
		if t.nodes.at(n).parent == 0 {
			continue
		}
		climbed = climbed[:0]
		at := n
		for is[at] == unknown {
			climbed = append(climbed, at)
			at = t.nodes.at(at).parent
		}
		for _, c := range climbed {
			is[c] = is[at]
		}
		if is[n] == in && n != dir && t.nodes.at(n).file != 0 {
			found = append(found, n)
		}
	}
	return found
}

// nested reports whether one of two directories is the other, or in it.
func nested(a, b string) bool {
	return a == b || strings.HasPrefix(a, b+"/") || strings.HasPrefix(b, a+"/")
}

// move renames what is below a directory; merge is told of two that have versions and
// get the same name.
func (t *tree) move(from, to string, merge func(moved, there uint32)) {
	n := t.find(from)
	if n == 0 || t.nodes.at(n).kids == 0 || nested(from, to) {
		return
	}
	there := t.make(to)
	if t.nodes.at(there).kids > 0 {
		t.join(n, there, merge)
		t.prune(n)
		return
	}
	// The directory gets the other's place; the versions of the paths stay.
	t.swap(n, there)
	t.prune(there)
}

// exchange makes what is below two directories change places.
func (t *tree) exchange(a, b string) {
	if nested(a, b) {
		return
	}
	na, nb := t.make(a), t.make(b)
	t.swap(na, nb)
	t.prune(na)
	t.prune(nb)
}

// swap makes two nodes change places, but for their own versions.
func (t *tree) swap(a, b uint32) {
	pa, pb := t.nodes.at(a).parent, t.nodes.at(b).parent
	t.unhang(a)
	t.unhang(b)
	ea, eb := t.nodes.at(a), t.nodes.at(b)
	ea.name, eb.name = eb.name, ea.name
	ea.file, eb.file = eb.file, ea.file
	for _, n := range []uint32{a, b} {
		if file := t.nodes.at(n).file; file != 0 {
			t.moved(file, n)
		}
	}
	t.hang(a, pb)
	t.hang(b, pa)
}

// join moves all that is in one directory into another.
func (t *tree) join(from, to uint32, merge func(moved, there uint32)) {
	first, next := make([]uint32, t.nodes.size+1), make([]uint32, t.nodes.size+1)
	for n := uint32(root + 1); n <= t.nodes.size; n++ {
		if p := t.nodes.at(n).parent; p != 0 {
			first[p], next[n] = n, first[p]
		}
	}
	t.joinListed(from, to, first, next, merge)
}

func (t *tree) joinListed(from, to uint32, first, next []uint32, merge func(moved, there uint32)) {
	for n := first[from]; n != 0; n = next[n] {
		e := t.nodes.at(n)
		there := t.child(to, string(t.texts.get(e.name)))
		if there == 0 {
			t.unhang(n)
			t.hang(n, to)
			continue
		}
		if e.file != 0 {
			merge(n, there)
		}
		t.joinListed(n, there, first, next, merge)
		t.unhang(n)
		t.texts.drop(e.name)
		t.nodes.drop(n)
	}
}

// sortedPaths are the paths of nodes, in order.
func (t *tree) sortedPaths(nodes []uint32) []string {
	paths := make([]string, len(nodes))
	for i, n := range nodes {
		paths[i] = t.path(n)
	}
	slices.Sort(paths)
	return paths
}
