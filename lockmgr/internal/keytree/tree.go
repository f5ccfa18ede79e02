package keytree

// maxSpares bounds how many unused nodes a tree keeps for reuse.
const maxSpares = 1024

// Node is a key's place in the tree. The user's nodes, of type T, embed it.
type Node[T any] struct {
	key        Key
	parent     *T // nil for a root
	child      *T // the first of those right below
	prev, next *T // its siblings
}

// Key is what the node is for. It does not change.
func (n *Node[T]) Key() Key { return n.key }

// Parent is the node of the key above, nil for a root.
func (n *Node[T]) Parent() *T { return n.parent }

func (n *Node[T]) node() *Node[T] { return n }

// Content is a pointer to a user's node: a struct that embeds a Node of its own type.
type Content[T any] interface {
	*T
	// Idle reports whether nobody needs the node for its own sake.
	Idle() bool

	node() *Node[T]
}

// Tree has the nodes of the keys that are in use, and of those above them.
type Tree[T any, P Content[T]] struct {
	nodes  map[Key]P
	spare  P // linked by next
	spares int
}

// New returns a tree that has its two roots, which are never forgotten.
func New[T any, P Content[T]]() *Tree[T, P] {
	t := &Tree[T, P]{nodes: make(map[Key]P)}
	for _, k := range []Key{"", Apart} {
		n := P(new(T))
		n.node().key = k
		t.nodes[k] = n
	}
	return t
}

// Len is how many nodes there are.
func (t *Tree[T, P]) Len() int { return len(t.nodes) }

// Find returns the node of a key, or nil.
func (t *Tree[T, P]) Find(k Key) P { return t.nodes[k] }

// Nearest is the node of k or, if it has none, of the next key above that has.
func (t *Tree[T, P]) Nearest(k Key) P {
	for {
		if n := t.nodes[k]; n != nil {
			return n
		}
		k = k.Parent()
	}
}

// At returns the node of a key, which it makes when there is none. One that stays
// idle is to be pruned.
func (t *Tree[T, P]) At(k Key) P {
	if n := t.nodes[k]; n != nil {
		return n
	}
	n := t.spare
	if n == nil {
		n = new(T)
	} else {
		t.spare, t.spares = n.node().next, t.spares-1
	}
	up := t.At(k.Parent())
	var zero T
	*n = zero
	*n.node() = Node[T]{key: k, parent: up, next: up.node().child}
	if next := P(n.node().next); next != nil {
		next.node().prev = n
	}
	up.node().child = n
	t.nodes[k] = n
	return n
}

// Prune forgets n, and what is above it, as far as it is idle and has nothing below.
func (t *Tree[T, P]) Prune(n P) {
	for {
		at := n.node()
		if at.parent == nil || at.child != nil || !n.Idle() {
			return
		}
		up := P(at.parent)
		if prev := P(at.prev); prev != nil {
			prev.node().next = at.next
		} else {
			up.node().child = at.next
		}
		if next := P(at.next); next != nil {
			next.node().prev = at.prev
		}
		delete(t.nodes, at.key)
		if t.spares < maxSpares {
			var zero T
			*n = zero
			n.node().next = t.spare
			t.spare, t.spares = n, t.spares+1
		}
		n = up
	}
}

// Walk calls f for n and every node below it. What f does makes and prunes no node.
func (t *Tree[T, P]) Walk(n P, f func(P)) {
	f(n)
	t.WalkBelow(n, f)
}

// WalkBelow is Walk without n itself.
func (t *Tree[T, P]) WalkBelow(n P, f func(P)) {
	for c := P(n.node().child); c != nil; c = c.node().next {
		t.Walk(c, f)
	}
}

// WalkAll is Walk from both roots.
func (t *Tree[T, P]) WalkAll(f func(P)) {
	t.Walk(t.nodes[""], f)
	t.Walk(t.nodes[Apart], f)
}
