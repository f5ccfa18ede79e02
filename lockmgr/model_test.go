package lockmgr

import (
	"fmt"
	"slices"
	"strings"
)

// model is a lock table that a reader can check against the package comment by
// looking: plain slices, every question answered by asking everybody, nothing
// remembered that can be found out. It shares the types of requests with the
// table, and no code.
type model struct {
	all      []*mlock // in the order of arrival
	order    []*mlock // the waiters in the order in which they are served
	newcomer *mlock   // who has come since the order was last looked at
}

// mlock is one lock of the model.
type mlock struct {
	id      int
	real    *Lock // its counterpart; nil when that is gone
	keys    []Key // the trees among them
	trees   []Key
	mode    Mode
	class   Class
	client  uint64
	bytes   uint16 // of a Posix lock: one bit for each byte; it may have gaps
	owner   Owner
	lineage []Ancestor
	since   Birth
	held    bool
	granted bool // held, now or before
	fresh   bool // held since the order was last looked at
	waiting bool
	err     outcome // why it was refused
	failed  int     // heartbeats in a row
	yields  bool    // may be stolen by whoever waits, once expired
	steals  bool
	gate    bool
	weak    bool
	trial   bool // it waits for the moment in which it is granted or refused
}

func (a *mlock) kinOf(x *mlock) bool {
	if a.owner == x.owner {
		return true
	}
	i := slices.IndexFunc(a.lineage, func(c Ancestor) bool { return c.Owner == x.owner })
	return i >= 0 && a.owner.PID != 0 && x.owner.PID != 0 && a.lineage[i].Child.After(x.since)
}

// conflicts: the rules for a, who asks, and x, who was there.
func (a *mlock) conflicts(x *mlock) bool {
	modes := map[string]bool{ // what goes together
		"shared shared": true, "shared update": true, "update shared": true,
	}
	if modes[a.mode.String()+" "+x.mode.String()] {
		return false
	}
	asked := func(l *mlock) string { return fmt.Sprint(l.class, l.class == Session && !l.gate) }
	if (a.weak || x.weak) && (asked(a) != asked(x) || asked(a) == "session true") {
		return false
	}
	switch a.class.String() + " " + x.class.String() {
	case "flock flock":
		return a.client != x.client
	case "posix posix":
		return a.client != x.client && a.bytes&x.bytes != 0
	case "flock posix", "posix flock":
		return false
	}
	return !a.kinOf(x)
}

// conflictsAt: the same at one key, where a lock counts that is on the key or,
// if the other is on the whole tree, below it.
func (a *mlock) conflictsAt(x *mlock, k Key) bool {
	return a.conflicts(x) && a.at(k) && x.at(k) &&
		(a.on(k) || slices.Contains(x.trees, k)) && (x.on(k) || slices.Contains(a.trees, k))
}

func (a *mlock) on(k Key) bool { return slices.Contains(a.keys, k) }

// at reports whether a is on the key or below it.
func (a *mlock) at(k Key) bool {
	return slices.ContainsFunc(a.keys, func(own Key) bool { return own == k || strings.HasPrefix(string(own), string(k)+"/") })
}

// places are a's keys and all above them.
func (a *mlock) places() []Key {
	var out []Key
	for _, k := range a.keys {
		for i, c := range k {
			if c == '/' {
				out = append(out, k[:i])
			}
		}
		out = append(out, k)
	}
	slices.Sort(out)
	return slices.Compact(out)
}

// holders are who holds k itself; inside are those who hold it or something
// below.
func (m *model) holders(k Key) []*mlock { return m.heldBy(func(l *mlock) bool { return l.on(k) }) }
func (m *model) inside(k Key) []*mlock  { return m.heldBy(func(l *mlock) bool { return l.at(k) }) }

func (m *model) heldBy(f func(*mlock) bool) []*mlock {
	return slices.DeleteFunc(slices.Clone(m.all), func(l *mlock) bool { return !l.held || !f(l) })
}

// waitsFor returns whom a waits for, holders and those before it in a queue that do
// not let it pass.
func (m *model) waitsFor(a *mlock) (holders, before []*mlock) {
	holders, before = m.waitsForAny(a)
	return holders, slices.DeleteFunc(before, func(x *mlock) bool { return m.passes(a, x) })
}

// waitsForAny is waitsFor without that exception.
func (m *model) waitsForAny(a *mlock) (holders, before []*mlock) {
	for _, k := range a.places() {
		hs := m.inside(k)
		for _, x := range hs {
			guests := (a.class == Session || x.class == Session) &&
				slices.ContainsFunc(hs, func(h *mlock) bool {
					covers := !h.gate && !h.weak && h.on(k) && a.on(k) && x.on(k)
					return h != x && h.class == Session && h.mode >= a.mode && h.mode >= x.mode &&
						a.kinOf(h) && x.kinOf(h) && covers
				})
			if a.conflictsAt(x, k) && !guests {
				holders = append(holders, x)
			}
		}
		for _, x := range m.queue(k) {
			if x == a {
				break
			}
			if a.conflictsAt(x, k) {
				before = append(before, x)
			}
		}
	}
	return holders, before
}

// passes reports whether the waiter x waits for a weak lock that a does not wait for.
func (m *model) passes(a, x *mlock) bool {
	if !slices.ContainsFunc(m.all, func(w *mlock) bool {
		return w.weak && (w.held || w.waiting) && w.isPassedBy(a, x)
	}) {
		return false
	}
	holders, before := m.waitsForAny(x)
	return slices.ContainsFunc(append(holders, before...), func(w *mlock) bool { return w.weak && !(w.waiting && w.trial) && w.isPassedBy(a, x) })
}

// isPassedBy reports whether x would have to wait for the lock a where b would not: of a
// Posix lock on bytes apart from each other, each run of them is a lock of its own.
func (a *mlock) isPassedBy(b, x *mlock) bool {
	if a.class != Posix {
		return x.conflicts(a) && !b.conflicts(a)
	}
	return slices.ContainsFunc(runs(a.bytes), func(run uint16) bool {
		part := *a
		part.bytes = run
		return x.conflicts(&part) && !b.conflicts(&part)
	})
}

// queue returns who waits at k, in order.
func (m *model) queue(k Key) []*mlock {
	return slices.DeleteFunc(slices.Clone(m.order), func(l *mlock) bool { return !l.at(k) })
}

func (m *model) unqueue(a *mlock) {
	m.order = slices.DeleteFunc(m.order, func(l *mlock) bool { return l == a })
	a.waiting = false
}

func (m *model) end(a *mlock) {
	m.unqueue(a)
	a.held, a.bytes = false, 0
}

func (m *model) grant(a *mlock) {
	m.unqueue(a)
	asked := a.bytes
	for _, o := range m.all {
		if a.class == Session || o == a || !o.held || o.class != a.class || o.client != a.client || o.keys[0] != a.keys[0] {
			continue
		}
		if a.class == Flock {
			a.inherit(o)
			m.end(o)
			continue
		}
		for _, run := range runs(o.bytes) {
			switch {
			case o.mode == a.mode && o.weak == a.weak && (run|run<<1|run>>1)&asked != 0:
				o.bytes &^= run
				a.inherit(o)
				a.bytes |= run
			case o.mode != a.mode || o.weak != a.weak:
				o.bytes &^= asked
			}
		}
		if o.bytes == 0 {
			m.end(o)
		}
	}
	a.held, a.granted, a.fresh = true, true, true
}

// inherit: what a takes over from o it has held since then.
func (a *mlock) inherit(o *mlock) {
	if a.owner == o.owner && a.since.After(o.since) {
		a.since = o.since
	}
}

// runs splits a set of bytes into its contiguous parts.
func runs(set uint16) []uint16 {
	var out []uint16
	for bit := uint16(1); bit != 0; bit <<= 1 {
		switch {
		case set&bit == 0:
		case len(out) > 0 && out[len(out)-1]&(bit>>1) != 0:
			out[len(out)-1] |= bit
		default:
			out = append(out, bit)
		}
	}
	return out
}

// settle serves whoever can be served and keeps the order, by turns, until
// nothing is left to do.
func (m *model) settle() {
	for again := true; again || m.theft(); {
		again = false
		for i := 0; i < len(m.order); i++ {
			if hs, bs := m.waitsFor(m.order[i]); len(hs)+len(bs) == 0 {
				m.grant(m.order[i])
				again, i = true, -1
			}
		}
		before := slices.Clone(m.order)
		for _, a := range before {
			if a.waiting {
				m.lead(a)
			}
		}
		m.newcomer = nil
		for _, l := range m.all {
			l.fresh = false
		}
		again = again || !slices.Equal(before, m.order)
	}
}

// dependsOn reports whether a cannot go on before c does: it waits for a holder
// that is stuck while c waits. A holder is stuck while its owner or an heir
// waits, unless that one waits for a lock held by that same owner.
func (m *model) dependsOn(a, c *mlock) bool {
	hs, _ := m.waitsFor(a)
	cs, _ := m.waitsFor(c)
	return a != c && slices.ContainsFunc(hs, func(x *mlock) bool {
		return c.kinOf(x) && !slices.ContainsFunc(cs, func(y *mlock) bool { return y.owner == x.owner })
	})
}

// reenters reports whether a is let past w: they conflict at a key that a kin of
// a holds. It is asked when one of the two has just come.
func (m *model) reenters(a, w *mlock) bool {
	return slices.ContainsFunc(a.places(), func(k Key) bool {
		return w.conflictsAt(a, k) && slices.ContainsFunc(m.inside(k), func(x *mlock) bool {
			meets := (x.on(k) || slices.Contains(w.trees, k)) && (w.on(k) || slices.Contains(x.trees, k))
			return meets && (x.fresh || a == m.newcomer) && (a.class == Session || x.class == Session) && a.kinOf(x) && !x.weak
		})
	})
}

// lead puts a before everybody that is to stand behind it, together with what a
// depends on, or refuses somebody where that is impossible.
func (m *model) lead(a *mlock) {
	for i := 0; a.waiting && i < slices.Index(m.order, a); i++ {
		w := m.order[i]
		must := m.dependsOn(w, a)
		if !must && !m.reenters(a, w) {
			continue
		}
		set, cycle := m.gather(nil, []*mlock{a}, m.order[i:])
		if cycle == nil {
			m.order = slices.DeleteFunc(m.order, func(l *mlock) bool { return slices.Contains(set, l) })
			m.order = slices.Insert(m.order, i, set...)
			return
		}
		if must || cycle[len(cycle)-1] != w {
			newest := slices.MaxFunc(cycle, func(a, b *mlock) int { return a.id - b.id })
			newest.err = deadlock
			m.end(newest)
			i = -1
		}
	}
}

// gather adds to set the last of path and all it depends on among rest, each
// after what it depends on. It returns a cycle if it runs into one, or the path
// to the first of rest if it comes to that.
func (m *model) gather(set, path, rest []*mlock) (_, cycle []*mlock) {
	a := path[len(path)-1]
	for _, c := range rest {
		if slices.Contains(set, c) || !m.dependsOn(a, c) {
			continue
		}
		if i := slices.Index(path, c); i >= 0 {
			return nil, path[i:]
		}
		on := append(slices.Clone(path), c)
		if c == rest[0] {
			return nil, on
		}
		if set, cycle = m.gather(set, on, rest); cycle != nil {
			return nil, cycle
		}
	}
	return append(set, a), nil
}

// outcome of a request.
type outcome string

const (
	granted  outcome = "granted"
	queued   outcome = "queued"
	conflict outcome = "conflict"
	deadlock outcome = "deadlock"
)

// acquire asks for a lock that is not part of the model yet.
func (m *model) acquire(a *mlock, noWait bool) outcome {
	convert := false
	if a.class == Flock {
		old := slices.DeleteFunc(m.holders(a.keys[0]), func(o *mlock) bool { return o.class != Flock || o.client != a.client })
		if hs, _ := m.waitsFor(a); len(hs) == 0 {
			convert = len(old) > 0
		} else {
			for _, o := range old {
				m.end(o)
			}
			m.settle()
		}
	}
	for _, x := range m.prey(a) {
		m.end(x)
	}
	m.settle()
	m.all = append(m.all, a)
	if hs, _ := m.waitsFor(a); len(hs) > 0 && noWait && !convert {
		m.end(a)
		return conflict
	}
	m.order = append(m.order, a)
	a.waiting, a.trial, m.newcomer = true, noWait, a
	if hs, bs := m.waitsFor(a); convert || len(hs)+len(bs) == 0 {
		m.grant(a)
	}
	m.settle()
	a.trial = false
	if a.granted {
		return granted
	}
	if a.waiting && !noWait {
		return queued
	}
	m.end(a)
	m.settle()
	if noWait {
		return conflict
	}
	return deadlock
}

// unlock releases bytes of a client's Posix locks, or its Flock locks whole.
func (m *model) unlock(k Key, c Class, client uint64, bytes uint16) {
	for _, o := range m.holders(k) {
		if o.class != c || o.client != client {
			continue
		}
		if o.bytes &^= bytes; c == Flock || o.bytes == 0 {
			m.end(o)
		}
	}
	m.settle()
}

// rename gives every key the name that f says.
func (m *model) rename(f func(Key) Key) {
	for _, l := range m.all {
		for i, k := range l.keys {
			l.keys[i] = f(k)
		}
		for i, k := range l.trees {
			l.trees[i] = f(k)
		}
		l.keys, l.trees = sortedKeys(l.keys), sortedKeys(l.trees)
	}
	m.settle()
}

// heartbeat of a held lock: it has shown life or not.
func (m *model) heartbeat(x *mlock, alive bool) {
	if x.failed++; alive {
		x.failed = 0
	}
	m.settle()
}

// prey are the holders in the way of a, if a may steal them all.
func (m *model) prey(a *mlock) []*mlock {
	hs, _ := m.waitsFor(a)
	if slices.ContainsFunc(hs, func(x *mlock) bool { return x.failed < 3 || !x.yields && !a.steals }) {
		return nil
	}
	return hs
}

// theft lets the first waiter steal that may steal all that is in its way.
func (m *model) theft() bool {
	for _, w := range m.order {
		if hs := m.prey(w); len(hs) > 0 {
			for _, x := range hs {
				m.end(x)
			}
			return true
		}
	}
	return false
}

func sortedKeys(ks []Key) []Key { return slices.Compact(slices.Sorted(slices.Values(ks))) }

// shrink takes keys away from a.
func (m *model) shrink(a *mlock, gone []Key) {
	minus := func(ks []Key) []Key {
		return slices.DeleteFunc(slices.Clone(ks), func(k Key) bool { return slices.Contains(gone, k) })
	}
	a.keys, a.trees = minus(a.keys), minus(a.trees)
	m.settle()
}

// renameFile moves what is with the file: the lock l and those of clients.
func (m *model) renameFile(move map[*mlock]Key, f map[Key]Key) {
	type change struct {
		l        *mlock
		from, to Key
	}
	var changes []change
	for from, to := range f {
		for _, l := range m.all {
			if (l.held || l.waiting) && l.on(from) && (l.class != Session || move[l] == from) {
				changes = append(changes, change{l, from, to})
			}
		}
	}
	for _, c := range changes {
		rename := func(ks []Key) []Key {
			out := slices.Clone(ks)
			for i, k := range ks {
				if k == c.from {
					out[i] = c.to
				}
			}
			return sortedKeys(out)
		}
		c.l.keys, c.l.trees = rename(c.l.keys), rename(c.l.trees)
	}
	m.settle()
}

// below maps the tree from to the tree to.
func below(from, to Key) func(Key) Key {
	return func(k Key) Key {
		if k == from {
			return to
		}
		if rest, ok := strings.CutPrefix(string(k), string(from)+"/"); ok {
			return to + "/" + Key(rest)
		}
		return k
	}
}
