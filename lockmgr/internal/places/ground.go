package places

import (
	"slices"

	"latchfs/lockmgr/internal/keytree"
)

// Ground is all keys at which locks stand.
type Ground[L any] struct {
	nodes *keytree.Tree[Node[L], *Node[L]]
	trees int // how many places are tree locks', over all nodes

	touched  func(*Node[L])
	weakened func(*Stand[L], *Node[L])
}

// New returns a ground on which nobody stands. While it changes it calls touched for a
// node whose queue may have somebody to serve, or has had a place taken away; and
// weakened for a holder that has left a node, or is about to hold it in a weaker mode: it
// touches that node, and notes that the holder's kin there may have to wait for others
// from now on.
func New[L any](touched func(*Node[L]), weakened func(*Stand[L], *Node[L])) *Ground[L] {
	return &Ground[L]{nodes: keytree.New[Node[L]](), touched: touched, weakened: weakened}
}

// Find returns the node of a key; nil when nobody stands there or below, but for the roots
// (see package keytree), which always have one.
func (g *Ground[L]) Find(k keytree.Key) *Node[L] { return g.nodes.Find(k) }

// Tidy forgets n if it was kept for being dirty alone.
func (g *Ground[L]) Tidy(n *Node[L]) { g.nodes.Prune(n) }

// Len is how many nodes there are. It is for tests, as Walk and Trees are.
func (g *Ground[L]) Len() int { return g.nodes.Len() }

// Walk calls f for all nodes.
func (g *Ground[L]) Walk(f func(*Node[L])) { g.nodes.WalkAll(f) }

// Trees is how many places tree locks have, held or waiting, or about to.
func (g *Ground[L]) Trees() int { return g.trees }

// Stand gives a lock that stands nowhere a node for each key. It is in no queue as yet,
// and nobody meets it; but it can be asked for whom it would wait.
func (g *Ground[L]) Stand(l *Stand[L]) {
	for p := &l.first; p != nil; p = p.also {
		if p.stand != nil {
			p.node = g.nodes.At(p.key)
			if p.tree {
				g.plant(p)
			}
		}
	}
	g.announce(l)
}

// Enqueue lets l, which stands in no queue as yet, wait behind all others.
func (g *Ground[L]) Enqueue(l *Stand[L]) {
	l.State = Waiting
	for p := l.First(); p != nil; p = p.Also() {
		p.node.Waiting.insert(p, nil)
	}
}

// Requeue moves the waiter l to where its rank, which has changed, says. It touches all
// nodes where it stands.
func (g *Ground[L]) Requeue(l *Stand[L]) {
	for p := l.First(); p != nil; p = p.Also() {
		p.node.Waiting.remove(p)
		p.node.Waiting.insertByRank(p)
	}
	g.touchAll(l)
}

// Hold makes l a holder, which has waited or was about to. It is a Guest if it conflicts
// with another one. It touches those who may go on beside it: its guests, and whoever
// passes those whom a weak lock keeps waiting now.
func (g *Ground[L]) Hold(l *Stand[L]) {
	for p := l.First(); p != nil; p = p.Also() {
		n := p.node
		if l.State == Waiting {
			n.Waiting.remove(p)
		}
		l.Guest = l.Guest || l.conflictsWithHolder(n)
		n.Held.insert(p, nil)
		if n.Held.shelters() || l.Terms.Weak {
			g.Touch(n)
		}
	}
	l.State = Held
}

// conflictsWithHolder reports whether l conflicts with a holder of n and only the shelter
// of a common session lets it in.
func (l *Stand[L]) conflictsWithHolder(n *Node[L]) bool {
	if !n.Held.Clashes(l.Terms.Mode) {
		return false
	}
	for p := n.Held.First(); p != nil; p = p.Next() {
		if l.ConflictsAt(p.stand, n) {
			return true
		}
	}
	return false
}

// Leave takes l away from where it stands, in a queue or not. It keeps its keys, and can
// come again.
func (g *Ground[L]) Leave(l *Stand[L]) {
	g.retract(l)
	for p := l.First(); p != nil; {
		gone := p
		p = p.Also()
		g.vacate(gone)
	}
	l.State = Nowhere
}

// vacate takes a place that is no intention away from its node.
func (g *Ground[L]) vacate(p *Place[L]) {
	n := p.node
	g.dequeue(p)
	p.node = nil
	if p.tree {
		g.fell(n)
	}
	g.nodes.Prune(n)
}

// dequeue takes p out of the list it is in, and tells of it.
func (g *Ground[L]) dequeue(p *Place[L]) {
	switch p.stand.State {
	case Held:
		p.node.Held.remove(p)
		g.weakened(p.stand, p.node)
	case Waiting:
		p.node.Waiting.remove(p)
		g.Touch(p.node)
	case Nowhere: // in neither list
	}
}

// GiveUp takes keys away from the holder l, which keeps at least one.
func (g *Ground[L]) GiveUp(l *Stand[L], keys []keytree.Key) {
	g.retract(l)
	for p := l.First(); p != nil; {
		gone := p
		p = p.Also()
		if slices.Contains(keys, gone.key) {
			g.vacate(gone)
			gone.stand = nil
		}
	}
	for p := g.announce(l); p != nil; p = p.also {
		p.node.Held.insertByToken(p)
	}
}

// Split gives part, which has no keys and stands nowhere, the one place of the holder o,
// right behind it. Both are one grant.
func (g *Ground[L]) Split(o, part *Stand[L]) {
	part.State = Held
	part.first = Place[L]{stand: part, key: o.first.key, node: o.first.node}
	part.first.node.Held.insert(&part.first, o.first.Next())
	for p := g.announce(part); p != nil; p = p.also {
		p.node.Held.insert(p, o.At(p.node).Next())
	}
}

// FirstClash is the holder for which l would wait, which stands nowhere; nil when there
// is none. Of several it is one at the first key, and there the one with the lowest range.
// Below the trees of l it does not look.
func (g *Ground[L]) FirstClash(l *Stand[L]) (first *Stand[L]) {
	for p := &l.first; p != nil; p = p.also {
		if p.stand != nil {
			p.node = g.nodes.Find(p.key)
		}
	}
	g.announce(l)
	for p := l.First(); p != nil && first == nil; p = p.Also() {
		first = l.firstClash(p.node)
	}
	g.retract(l)
	for p := &l.first; p != nil; p = p.also {
		p.node = nil
	}
	return first
}

// Holders are all who hold one of the keys, or a tree above one, each once; of trees,
// also all who hold anything in them.
func (g *Ground[L]) Holders(keys, trees []keytree.Key) (out []*L) {
	seen := map[*L]bool{}
	add := func(p *Place[L]) {
		if l := p.stand.Lock; !seen[l] {
			seen[l] = true
			out = append(out, l)
		}
	}
	for _, k := range slices.Concat(keys, trees) {
		for n := g.nodes.Nearest(k); n != nil; n = n.Parent() {
			for p := n.Held.First(); p != nil; p = p.Next() {
				if n.Key() == k && !p.intent || n.Key() != k && p.tree {
					add(p)
				}
			}
		}
	}
	for _, k := range trees {
		if n := g.nodes.Find(k); n != nil {
			g.nodes.Walk(n, func(n *Node[L]) {
				for p := n.Held.First(); p != nil; p = p.Next() {
					add(p)
				}
			})
		}
	}
	return out
}

// touchAll touches every node at which l stands.
func (g *Ground[L]) touchAll(l *Stand[L]) {
	for p := l.First(); p != nil; p = p.Also() {
		g.Touch(p.node)
	}
}

// Touch touches n, where something has changed. With a weak lock there it touches all at
// which those stand who wait there: who of them waits for the weak lock may have changed,
// and whoever waits behind them may pass.
func (g *Ground[L]) Touch(n *Node[L]) {
	g.touched(n)
	if n.Held.weak+n.Waiting.weak == 0 {
		return
	}
	for p := n.Waiting.First(); p != nil; p = p.Next() {
		for at := p.stand.First(); at != nil; at = at.Also() {
			g.touched(at.node)
		}
	}
}
