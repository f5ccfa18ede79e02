package places

import (
	"slices"

	"latchfs/lockmgr/internal/keytree"
	"latchfs/lockmgr/internal/list"
	"latchfs/lockmgr/internal/rules"
)

// State says where a lock stands.
type State uint8

const (
	// Nowhere is a lock that has not come yet, or has left.
	Nowhere State = iota
	// Waiting is in the queue of every key.
	Waiting
	// Held is among the holders of every key.
	Held
)

// Stand is what is known here of a lock, which has it as a field: it is used by pointer,
// and not copied once it has keys.
type Stand[L any] struct {
	Lock  *L          // whose it is
	Terms rules.Terms // of what stands somewhere
	State State       // set by Ground
	// Guest: it was let in, or moved, beside holders that it may conflict with.
	Guest bool
	// Trial: it waits for a moment, and leaves if it is not granted at once. So nobody is
	// let past others because they wait for it.
	Trial bool

	Token uint64 // of the grant: who has a greater one was granted later
	Rank  uint64 // of a waiter: who has a smaller one is served earlier

	first Place[L] // and through also the other places, in no order
}

// Place is where one lock stands at one of its keys.
type Place[L any] struct {
	list.Links[Place[L]] // in a Queue

	stand *Stand[L]   // nil: merged into another place of the lock, or given up
	key   keytree.Key // the current name, kept after the end
	node  *Node[L]    // nil when the lock stands nowhere
	also  *Place[L]   // the next place of the lock

	tree   bool // the lock is on everything below the key, too
	intent bool // the key is above one of the lock's, and has a tree lock
}

// Stand is that of the lock whose place it is.
func (p *Place[L]) Stand() *Stand[L] { return p.stand }

// Lock is whose place it is.
func (p *Place[L]) Lock() *L { return p.stand.Lock }

// Node is where it is.
func (p *Place[L]) Node() *Node[L] { return p.node }

// Also is the next place of the lock; nil behind the last one.
func (p *Place[L]) Also() *Place[L] {
	for p = p.also; p != nil && p.node == nil; {
		p = p.also
	}
	return p
}

// IsTree reports whether the lock is on everything below the key, too.
func (p *Place[L]) IsTree() bool { return p.tree }

// IsIntent reports whether the lock is not on this key, but on one below it.
func (p *Place[L]) IsIntent() bool { return p.intent }

// MeetsAll reports whether all who stand or come there have to do with the lock.
func (p *Place[L]) MeetsAll() bool { return p.node.trees == 0 || p.tree }

// SetKeys says what a lock is on that has no keys yet: the keys, and the trees with
// everything below them. What is among both is a tree. The lock does not stand there as
// yet: see Ground.Stand.
func (l *Stand[L]) SetKeys(keys, trees []keytree.Key) {
	if len(keys) == 1 && len(trees) == 0 {
		l.first = Place[L]{stand: l, key: keys[0]}
		return
	}
	all := slices.Concat(keys, trees)
	slices.Sort(all)
	trees = slices.Sorted(slices.Values(trees))
	all = slices.Compact(all)
	others := make([]Place[L], len(all)-1)
	p := &l.first
	for i, k := range all {
		if i > 0 {
			p.also = &others[i-1]
			p = p.also
		}
		_, tree := slices.BinarySearch(trees, k)
		*p = Place[L]{stand: l, key: k, tree: tree}
	}
}

// First is the first of the places where the lock stands; nil when it stands nowhere.
func (l *Stand[L]) First() *Place[L] {
	if l.first.node != nil {
		return &l.first
	}
	return l.first.Also()
}

// At returns the place of l at n, or nil.
func (l *Stand[L]) At(n *Node[L]) *Place[L] {
	for p := &l.first; p != nil; p = p.also {
		if p.node == n {
			return p
		}
	}
	return nil
}

// Keys appends the lock's keys, sorted, to buf; after its end, the last ones.
func (l *Stand[L]) Keys(buf []keytree.Key) []keytree.Key {
	at := len(buf)
	for p := &l.first; p != nil; p = p.also {
		if p.stand != nil && !p.intent {
			buf = append(buf, p.key)
		}
	}
	if len(buf)-at > 1 {
		slices.Sort(buf[at:])
	}
	return buf
}

// Trees are those of its keys that the lock is on with everything below them, sorted.
func (l *Stand[L]) Trees() []keytree.Key {
	var out []keytree.Key
	for p := &l.first; p != nil; p = p.also {
		if p.stand != nil && p.tree {
			out = append(out, p.key)
		}
	}
	slices.Sort(out)
	return out
}

// drop takes an intention out of the places of l.
func (l *Stand[L]) drop(p *Place[L]) {
	for q := &l.first; q.also != nil; q = q.also {
		if q.also == p {
			q.also = p.also
			p.node, p.also = nil, nil
			return
		}
	}
}
