package places

import "latchfs/lockmgr/internal/keytree"

// Rename is the new name To of the key From.
type Rename struct{ From, To keytree.Key }

// Move renames keys with everything below them, all at one moment: what one of them
// moves to where another one was does not move again. It returns the locks that have
// moved, some of them more than once.
//
// Locks stay held, and waiters wait, under the new names. Where there are others already,
// holders are holders side by side, as Guests, and the queues become one; a lock on both
// names keeps one. No key is moved to below itself.
func (g *Ground[L]) Move(renames ...Rename) []*Stand[L] {
	var out []*Place[L]
	for _, r := range renames {
		out = g.uproot(out, r)
	}
	return g.resettle(out)
}

// Which says which locks of a key MoveSome moves.
type Which[L any] struct {
	Rename
	Moves func(*Stand[L]) bool
}

// MoveSome is Move for some locks on single keys: what is on a key below stays.
func (g *Ground[L]) MoveSome(renames ...Which[L]) []*Stand[L] {
	var out []*Place[L]
	for _, r := range renames {
		out = g.uprootSome(out, r)
	}
	return g.resettle(out)
}

// uproot takes every place at r.From and below out of its node and gives it its
// new name. It appends the places to out, in an order that keeps that of each
// list.
func (g *Ground[L]) uproot(out []*Place[L], r Rename) []*Place[L] {
	top := g.nodes.Find(r.From)
	if top == nil {
		return out
	}
	var nodes []*Node[L]
	g.nodes.Walk(top, func(n *Node[L]) { nodes = append(nodes, n) })
	for _, n := range nodes {
		g.retractAll(n)
	}
	for _, n := range nodes {
		name := n.Key().Moved(r.From, r.To)
		for _, list := range []*Queue[L]{&n.Held, &n.Waiting} {
			for p := list.First(); p != nil; p = list.First() {
				list.remove(p)
				if p.tree {
					g.fell(n)
				}
				p.node, p.key = nil, name
				out = append(out, p)
			}
		}
	}
	for _, n := range nodes {
		g.nodes.Prune(n)
	}
	return out
}

// uprootSome is uproot for what MoveSome moves.
func (g *Ground[L]) uprootSome(out []*Place[L], r Which[L]) []*Place[L] {
	n := g.nodes.Find(r.From)
	if n == nil {
		return out
	}
	var moving []*Place[L]
	for _, list := range []*Queue[L]{&n.Held, &n.Waiting} {
		for p := list.First(); p != nil; p = p.Next() {
			if !p.intent && r.Moves(p.stand) {
				moving = append(moving, p)
			}
		}
	}
	for _, p := range moving {
		g.retract(p.stand)
		g.dequeue(p)
		if p.tree {
			g.fell(n)
		}
		p.node, p.key = nil, r.To
	}
	g.nodes.Prune(n)
	return append(out, moving...)
}

// resettle puts uprooted places where their names say. It returns whose they are.
func (g *Ground[L]) resettle(places []*Place[L]) []*Stand[L] {
	moved := make([]*Stand[L], len(places))
	for i, p := range places {
		moved[i] = p.stand
	}
	for _, p := range places {
		g.resettleOne(p)
	}
	for _, l := range moved {
		g.announceMoved(l)
	}
	return moved
}

// resettleOne puts one place where its name says. Where its lock has a place
// already, the two become one.
func (g *Ground[L]) resettleOne(p *Place[L]) {
	l := p.stand
	n := g.nodes.At(p.key)
	q := l.At(n)
	if q != nil && q.intent {
		g.retract(l)
		q = nil
	}
	if q != nil {
		p.stand = nil
		if p.tree && !q.tree {
			q.tree = true
			g.plant(q)
			l.Guest = l.Guest || n.Held.First() != n.Held.Last()
		}
		return
	}
	p.node = n
	if p.tree {
		g.plant(p)
	}
	if l.State == Held {
		l.Guest = l.Guest || n.Held.First() != nil
		n.Held.insert(p, nil)
	} else {
		n.Waiting.insertByRank(p)
	}
}
