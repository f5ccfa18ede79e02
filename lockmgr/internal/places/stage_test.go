package places

import (
	"fmt"
	"slices"
	"strings"

	"latchfs/lockmgr/internal/keytree"
	"latchfs/lockmgr/internal/rules"
)

type lock struct {
	name  string
	stand Stand[lock]
}

// stage is a ground with locks that have names, and what it has told.
type stage struct {
	*Ground[lock]
	told  []string // "touched k" and "name weakened at k"
	count uint64   // of ranks and tokens
}

func newStage() *stage {
	s := &stage{}
	s.Ground = New(func(n *Node[lock]) {
		s.told = append(s.told, fmt.Sprintf("touched %s", n.Key()))
	}, func(l *Stand[lock], n *Node[lock]) {
		s.told = append(s.told, fmt.Sprintf("%s weakened at %s", l.Lock.name, n.Key()))
	})
	return s
}

// news is what was told since it was last asked, sorted, each once.
func (s *stage) news() string {
	slices.Sort(s.told)
	told := strings.Join(slices.Compact(s.told), ", ")
	s.told = nil
	return told
}

// split reads keys as they are written here: "d/" is d with everything below it.
func split(keys []string) (on, trees []keytree.Key) {
	for _, k := range keys {
		if tree, ok := strings.CutSuffix(k, "/"); ok {
			trees = append(trees, keytree.Key(tree))
		} else {
			on = append(on, keytree.Key(k))
		}
	}
	return on, trees
}

// fresh is the session lock of a process that has no relatives; it stands nowhere.
func fresh(pid int32, m rules.Mode, keys ...string) *lock {
	l := &lock{name: fmt.Sprint(pid)}
	owner := rules.Owner{PID: pid, Start: 1}
	l.stand = Stand[lock]{Lock: l, Terms: rules.Terms{Mode: m, Range: rules.Whole, Owner: owner, Client: uint64(pid)}}
	l.stand.SetKeys(split(keys))
	return l
}

// heir is the lock of a child of process 1 that was born after all its locks.
func heir(pid int32, m rules.Mode, keys ...string) *lock {
	l := fresh(pid, m, keys...)
	l.stand.Terms.Lineage = []rules.Ancestor{{Owner: rules.Owner{PID: 1, Start: 1}, Child: rules.Birth{Tick: 1}}}
	return l
}

// flock is the lock of a program.
func flock(pid int32, m rules.Mode, key string) *lock {
	l := fresh(pid, m, key)
	l.stand.Terms.Class = rules.Flock
	return l
}

// weak is the lock of a program that may only read.
func weak(l *lock) *lock {
	l.stand.Terms.Weak = true
	return l
}

// hold makes a lock, new or waiting, a holder, whoever is in its way.
func (s *stage) hold(l *lock) *lock {
	if l.stand.State == Nowhere {
		s.Stand(&l.stand)
	}
	s.Hold(&l.stand)
	s.count++
	l.stand.Token = s.count
	return l
}

// wait lets a new lock wait, whether or not somebody is in its way.
func (s *stage) wait(l *lock) *lock {
	s.Stand(&l.stand)
	s.count++
	l.stand.Rank = 1<<20 + s.count
	s.Enqueue(&l.stand)
	return l
}

// at is who stands at a key: holders, a bar, and waiters; "+" behind a tree lock, "^"
// behind an intention. "" is a key without a node.
func (s *stage) at(k keytree.Key) string {
	n := s.Find(k)
	if n == nil {
		return ""
	}
	return queue(&n.Held) + "|" + queue(&n.Waiting)
}

func queue(q *Queue[lock]) string {
	var out []string
	for p := q.First(); p != nil; p = p.Next() {
		name := p.Lock().name
		if p.IsTree() {
			name += "+"
		}
		if p.IsIntent() {
			name += "^"
		}
		out = append(out, name)
	}
	return strings.Join(out, " ")
}

// names are those of locks.
func names(locks []*lock) string {
	var out []string
	for _, l := range locks {
		out = append(out, l.name)
	}
	return strings.Join(out, " ")
}

// check returns the first thing that is wrong with the ground on which all stand.
func (s *stage) check(all ...*lock) error {
	places, trees, nodes := 0, 0, 0
	for _, l := range all {
		n, err := s.checkLock(l)
		if err != nil {
			return err
		}
		places += n
	}
	var err error
	below := map[*Node[lock]]bool{}
	s.Walk(func(n *Node[lock]) { below[n.Parent()] = true })
	s.Walk(func(n *Node[lock]) {
		nodes++
		if s.Find(n.Key()) != n || n.Idle() && n.Parent() != nil && !below[n] {
			err = fmt.Errorf("%q is a node for nobody", n.Key())
		}
		here := 0
		for _, q := range []*Queue[lock]{&n.Held, &n.Waiting} {
			p, t, wrong := checkQueue(q)
			if wrong != nil {
				err = fmt.Errorf("%q: %w", n.Key(), wrong)
			}
			places -= p
			here += t
		}
		if here != n.Trees() {
			err = fmt.Errorf("%q counts %d trees, has %d", n.Key(), n.Trees(), here)
		}
		trees += here
	})
	switch {
	case err != nil:
		return err
	case places != 0:
		return fmt.Errorf("the locks have %d places more than the nodes", places)
	case trees != s.Trees() || nodes != s.Len():
		return fmt.Errorf("counted %d trees and %d nodes, has %d and %d", s.Trees(), s.Len(), trees, nodes)
	}
	return nil
}

// checkLock: a lock stands at all its keys, and at those above that have a tree lock. It
// returns how many places that are.
func (s *stage) checkLock(l *lock) (places int, err error) {
	if keys, trees := l.stand.Keys(nil), l.stand.Trees(); !unique(keys) || !unique(trees) {
		return 0, fmt.Errorf("%s is on %q, of which %q are trees", l.name, keys, trees)
	}
	want := map[keytree.Key]bool{} // whether it is on the key itself
	if l.stand.State != Nowhere {
		for _, k := range l.stand.Keys(nil) {
			for up := k; ; up = up.Parent() {
				if n := s.Find(up); n != nil && n.Trees() > 0 && !want[up] {
					want[up] = false
				}
				if up == up.Parent() {
					break
				}
			}
			want[k] = true
		}
	}
	for p := l.stand.First(); p != nil; p = p.Also() {
		on, ok := want[p.Node().Key()]
		switch {
		case !ok || on == p.IsIntent() || p.IsIntent() && p.IsTree():
			return 0, fmt.Errorf("%s stands at %q: %+v", l.name, p.Node().Key(), p)
		case p.Stand() != &l.stand || p.Lock() != l || l.stand.At(p.Node()) != p || s.Find(p.Node().Key()) != p.Node():
			return 0, fmt.Errorf("%s at %q is another's", l.name, p.Node().Key())
		}
		delete(want, p.Node().Key())
		places++
	}
	if len(want) > 0 {
		return 0, fmt.Errorf("%s does not stand at %v", l.name, want)
	}
	return places, nil
}

func unique(sorted []keytree.Key) bool {
	return len(slices.Compact(slices.Clone(sorted))) == len(sorted)
}

// checkQueue: a queue has an order, and counts what it lists.
func checkQueue(q *Queue[lock]) (places, trees int, err error) {
	var modes [rules.Modes]int
	weak := 0
	for p := q.First(); p != nil; p = p.Next() {
		places++
		terms := &p.Stand().Terms
		modes[terms.Mode]++
		if terms.Weak {
			weak++
		}
		if p.IsTree() {
			trees++
		}
		if p.Next() == nil && q.Last() != p {
			err = fmt.Errorf("%s is not the last one", p.Lock().name)
		}
		if p.Next() != nil && p.Stand().State == Waiting && p.Next().Stand().Rank <= p.Stand().Rank {
			err = fmt.Errorf("%s waits before %s", p.Lock().name, p.Next().Lock().name)
		}
	}
	for m := rules.Shared; m <= rules.Exclusive; m++ {
		if q.Count(m) != modes[m] {
			err = fmt.Errorf("counts %d of %v, has %d", q.Count(m), m, modes[m])
		}
	}
	if q.Weak() != weak {
		err = fmt.Errorf("counts %d weak locks, has %d", q.Weak(), weak)
	}
	return places, trees, err
}
