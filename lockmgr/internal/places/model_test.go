package places

import (
	"maps"
	"slices"
	"testing"

	"pgregory.net/rapid"

	"latchfs/lockmgr/internal/keytree"
	"latchfs/lockmgr/internal/rules"
)

// model is what keys each lock is on, by the spelling of the keys alone.
type model struct {
	*stage
	on    map[*lock]map[keytree.Key]bool // whether with everything below
	order []*lock                        // as they came
	next  int32
}

// meet reports whether two locks have to do with each other by their keys.
func (m *model) meet(a, b *lock) bool {
	for k, aTree := range m.on[a] {
		for x, bTree := range m.on[b] {
			if k == x || aTree && x.In(k) || bTree && k.In(x) {
				return true
			}
		}
	}
	return false
}

// rename is what Move or MoveSome does to the keys of a lock.
func (m *model) rename(l *lock, name func(keytree.Key) keytree.Key) {
	anew := map[keytree.Key]bool{}
	for k, tree := range m.on[l] {
		anew[name(k)] = anew[name(k)] || tree
	}
	m.on[l] = anew
}

func (m *model) check(p *rapid.T) {
	if err := m.stage.check(m.order...); err != nil {
		p.Fatal(err)
	}
	for _, l := range m.order {
		var trees []keytree.Key
		for k, tree := range m.on[l] {
			if tree {
				trees = append(trees, k)
			}
		}
		slices.Sort(trees)
		if keys := slices.Sorted(maps.Keys(m.on[l])); !slices.Equal(l.stand.Keys(nil), keys) || !slices.Equal(l.stand.Trees(), trees) {
			p.Fatalf("%s is on %q and the trees %q, not on %q and %q", l.name, l.stand.Keys(nil), l.stand.Trees(), keys, trees)
		}
		for _, x := range m.order {
			meet := false
			for at := l.stand.First(); at != nil; at = at.Also() {
				meet = meet || x.stand.At(at.Node()) != nil && l.stand.Meets(&x.stand, at.Node())
			}
			if x != l && meet != m.meet(l, x) {
				p.Fatalf("%s on %v and %s on %v meet: %v", l.name, m.on[l], x.name, m.on[x], meet)
			}
		}
	}
}

var modelKeys = []string{"", "a", "a/b", "a/b/c", "a/d", "b", "//x", "//x/y"}

func (m *model) come(p *rapid.T) {
	keys := rapid.SliceOfNDistinct(rapid.SampledFrom(modelKeys), 1, 3, rapid.ID[string]).Draw(p, "keys")
	for i := range keys {
		if rapid.IntRange(0, 2).Draw(p, "tree") == 0 {
			keys[i] += "/"
		}
	}
	m.next++
	l := fresh(m.next, rapid.SampledFrom([]rules.Mode{rules.Shared, rules.Exclusive}).Draw(p, "mode"), keys...)
	m.on[l] = map[keytree.Key]bool{}
	on, trees := split(keys)
	for _, k := range on {
		m.on[l][k] = false
	}
	for _, k := range trees {
		m.on[l][k] = true
	}
	l.stand.Terms.Weak = rapid.Bool().Draw(p, "weak")
	if rapid.Bool().Draw(p, "held") {
		m.hold(l)
	} else {
		m.wait(l)
	}
	m.order = append(m.order, l)
}

func (m *model) leave(l *lock) {
	m.Leave(&l.stand)
	delete(m.on, l)
	m.order = slices.DeleteFunc(m.order, func(x *lock) bool { return x == l })
}

// move is one of the four renames.
func (m *model) move(p *rapid.T) {
	key := rapid.Map(rapid.SampledFrom(modelKeys[1:6]), func(s string) keytree.Key { return keytree.Key(s) })
	a, b := key.Draw(p, "from"), key.Draw(p, "to")
	exchange := rapid.Bool().Draw(p, "exchange")
	if a == b || a.Below(b) || b.Below(a) {
		return
	}
	renames := []Rename{{a, b}, {b, a}}
	if !exchange {
		renames = renames[:1]
	}
	name := func(below bool) func(k keytree.Key) keytree.Key {
		return func(k keytree.Key) keytree.Key {
			for _, r := range renames {
				if k == r.From || below && k.Below(r.From) {
					return k.Moved(r.From, r.To)
				}
			}
			return k
		}
	}
	if rapid.Bool().Draw(p, "some") {
		odd := func(l *Stand[lock]) bool { return l.Terms.Owner.PID%2 == 1 }
		var some []Which[lock]
		for _, r := range renames {
			some = append(some, Which[lock]{r, odd})
		}
		m.MoveSome(some...)
		for _, l := range m.order {
			if odd(&l.stand) {
				m.rename(l, name(false))
			}
		}
		return
	}
	m.Move(renames...)
	for _, l := range m.order {
		m.rename(l, name(true))
	}
}

func (m *model) giveUp(p *rapid.T, l *lock) {
	keys := slices.Sorted(maps.Keys(m.on[l]))
	gone := keys[:rapid.IntRange(0, len(keys)-1).Draw(p, "how many")]
	m.GiveUp(&l.stand, gone)
	for _, k := range gone {
		delete(m.on[l], k)
	}
}

// However locks come, go and are renamed: they stand where their keys say, meet whom
// their keys say, and nothing else is kept.
func TestGroundAgainstModel(t *testing.T) {
	rapid.Check(t, func(p *rapid.T) {
		m := &model{stage: newStage(), on: map[*lock]map[keytree.Key]bool{}}
		for range rapid.IntRange(1, 40).Draw(p, "steps") {
			what := rapid.IntRange(0, 6).Draw(p, "what")
			if what < 2 || len(m.order) == 0 {
				m.come(p)
				m.check(p)
				continue
			}
			l := m.order[rapid.IntRange(0, len(m.order)-1).Draw(p, "who")]
			switch {
			case what == 2:
				m.leave(l)
			case what == 3:
				m.move(p)
			case what == 4 && l.stand.State == Held:
				m.giveUp(p, l)
			case what == 4:
				m.hold(l)
			case what == 5 && l.stand.State == Waiting:
				l.stand.Rank = m.freeRank(p)
				m.Requeue(&l.stand)
			}
			m.check(p)
		}
		for len(m.order) > 0 {
			m.leave(m.order[0])
			m.check(p)
		}
		if m.Len() != 2 {
			p.Fatalf("%d nodes are left", m.Len())
		}
	})
}

// freeRank is a rank that nobody has, before all who come later.
func (m *model) freeRank(p *rapid.T) uint64 {
	for {
		rank := rapid.Uint64Range(1, 1<<16).Draw(p, "rank")
		if !slices.ContainsFunc(m.order, func(l *lock) bool { return l.stand.Rank == rank }) {
			return rank
		}
	}
}
