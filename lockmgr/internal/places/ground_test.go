package places

import (
	"testing"

	"latchfs/lockmgr/internal/keytree"
	"latchfs/lockmgr/internal/rules"
)

// A holder is a guest when it conflicts with another one, and only then.
func TestHoldMakesGuests(t *testing.T) {
	for _, c := range []struct {
		name string
		with *lock
		l    *lock
		want bool
	}{
		{"readers", fresh(1, shared, "f"), fresh(2, shared, "f"), false},
		{"a reader of a writer's key", fresh(1, exclusive, "f"), fresh(2, shared, "f"), true},
		{"its kin", fresh(1, exclusive, "f"), heir(2, exclusive, "f"), false},
		{"another key", fresh(1, exclusive, "f"), fresh(2, exclusive, "g"), false},
		{"in a tree", fresh(1, exclusive, "d/"), fresh(2, exclusive, "d/f"), true},
		{"two intentions", fresh(1, exclusive, "d/e"), fresh(2, exclusive, "d/f"), false},
	} {
		s := newStage()
		tree := s.hold(fresh(9, rules.Shared, "d/"))
		s.hold(c.with)
		s.Leave(&tree.stand)
		s.hold(c.l)
		if c.l.stand.Guest != c.want || c.with.stand.Guest && c.name != "in a tree" && c.name != "two intentions" {
			t.Errorf("%s: a guest %v, beside one %v", c.name, c.l.stand.Guest, c.with.stand.Guest)
		}
		if err := s.check(c.with, c.l); err != nil {
			t.Errorf("%s: %v", c.name, err)
		}
	}
}

// What is told when a lock comes, changes and goes.
func TestNews(t *testing.T) {
	s := newStage()
	expect := func(what, want string) {
		t.Helper()
		if got := s.news(); got != want {
			t.Errorf("%s: told %q, not %q", what, got, want)
		}
	}
	l := s.hold(fresh(1, exclusive, "f", "g"))
	expect("the first holder", "")
	guest := s.hold(heir(2, exclusive, "f"))
	expect("a holder that others may shelter", "touched f")
	w := s.wait(fresh(3, exclusive, "f", "g"))
	expect("a waiter", "")
	w.stand.Rank++
	s.Requeue(&w.stand)
	expect("a waiter at another rank", "touched f, touched g")
	s.GiveUp(&l.stand, []keytree.Key{"g"})
	expect("a key given up", "1 weakened at g")
	s.Leave(&guest.stand)
	expect("a holder leaves", "2 weakened at f")
	s.Leave(&w.stand)
	expect("a waiter leaves", "touched f, touched g")
	x := fresh(4, exclusive, "f")
	s.Stand(&x.stand)
	s.Leave(&x.stand)
	expect("one that stands in no queue", "")
	if err := s.check(l, guest, w, x); err != nil {
		t.Error(err)
	}
}

// Where a weak lock comes before waiters, those may go on who wait behind them, at
// whatever key.
func TestNewsOfWeak(t *testing.T) {
	s := newStage()
	s.wait(flock(2, exclusive, "f"))
	s.wait(fresh(3, exclusive, "f", "g"))
	s.hold(weak(flock(1, exclusive, "f")))
	if got := s.news(); got != "touched f, touched g" {
		t.Errorf("held: %s", got)
	}
	w := s.wait(weak(flock(4, exclusive, "f")))
	w.stand.Rank = 1
	s.Requeue(&w.stand)
	if got := s.news(); got != "touched f, touched g" {
		t.Errorf("put before them: %s", got)
	}
}

// Where a weak lock is, held or waiting, all are touched at which those stand who wait
// there; elsewhere the node alone.
func TestTouch(t *testing.T) {
	s := newStage()
	w := s.wait(fresh(2, exclusive, "f", "g", "d/e"))
	tree := s.hold(fresh(3, shared, "d/"))
	other := s.wait(fresh(4, exclusive, "g", "h"))
	touch := func(what string, k keytree.Key, want string) {
		t.Helper()
		s.told = nil
		s.Touch(s.Find(k))
		if got := s.news(); got != want {
			t.Errorf("%s: told %s, not %s", what, got, want)
		}
	}
	touch("no weak lock", "f", "touched f")
	l := weak(flock(1, exclusive, "f"))
	s.hold(l)
	touch("a weak one is held", "f", "touched d, touched d/e, touched f, touched g")
	touch("elsewhere", "g", "touched g")
	s.Leave(&l.stand)
	touch("it has gone", "f", "touched f")
	s.wait(l)
	touch("it waits", "f", "touched d, touched d/e, touched f, touched g")
	if err := s.check(w, tree, l, other); err != nil {
		t.Error(err)
	}
}

// With a holder go its intentions, and those who wait there are told of; with a tree lock
// go those of others, who may go on where else they wait.
func TestNewsOfTrees(t *testing.T) {
	s := newStage()
	tree := s.hold(fresh(1, exclusive, "d/"))
	l := s.hold(fresh(2, shared, "d/f"))
	w := s.wait(fresh(3, exclusive, "d/e", "g"))
	s.news()
	s.Leave(&l.stand)
	if got := s.news(); got != "2 weakened at d, 2 weakened at d/f" {
		t.Errorf("below: %s", got)
	}
	s.Leave(&tree.stand)
	if got := s.news(); got != "1 weakened at d, touched d/e, touched g" {
		t.Errorf("the tree: %s", got)
	}
	if got := s.at("d"); got != "|" {
		t.Errorf("at d stand %s", got)
	}
	if err := s.check(tree, l, w); err != nil {
		t.Error(err)
	}
}

// A lock that waits becomes a holder at all its keys, intentions among them.
func TestHoldAfterWait(t *testing.T) {
	s := newStage()
	tree := s.hold(fresh(1, shared, "d/"))
	w := s.wait(fresh(2, shared, "d/f", "g"))
	x := s.wait(fresh(3, exclusive, "d/f"))
	s.hold(w)
	for k, want := range map[keytree.Key]string{"d": "1+ 2^|3^", "d/f": "2|3", "g": "2|"} {
		if got := s.at(k); got != want {
			t.Errorf("at %q stand %s, not %s", k, got, want)
		}
	}
	if err := s.check(tree, w, x); err != nil {
		t.Error(err)
	}
}

// What a lock gives up is no tree any more, and with it go the intentions that it had for
// that key alone.
func TestGiveUp(t *testing.T) {
	s := newStage()
	a, b := s.hold(fresh(1, shared, "a/", "b")), s.hold(fresh(2, shared, "a/x", "b/y", "c"))
	c := s.hold(fresh(3, shared, "b/"))
	for k, want := range map[keytree.Key]string{"a": "1+ 2^|", "b": "1 2^ 3+|"} {
		if got := s.at(k); got != want {
			t.Errorf("at %q stand %s, not %s", k, got, want)
		}
	}
	s.GiveUp(&b.stand, []keytree.Key{"b/y"})
	if got := s.at("b"); got != "1 3+|" {
		t.Errorf("at b stand %s", got)
	}
	if got := s.at("a"); got != "1+ 2^|" {
		t.Errorf("at a stand %s", got)
	}
	last := s.hold(fresh(4, shared, "a/z"))
	s.GiveUp(&b.stand, []keytree.Key{"c"})
	if got := s.at("a"); got != "1+ 2^ 4^|" {
		t.Errorf("at a stand %s", got)
	}
	s.GiveUp(&a.stand, []keytree.Key{"a", "nowhere"})
	if got := s.at("a"); got != "|" || s.Trees() != 1 || a.stand.Trees() != nil {
		t.Errorf("at a stand %s, of %d trees", got, s.Trees())
	}
	s.Leave(&a.stand)
	if s.FirstClash(&a.stand) != nil || s.at("a") != "|" {
		t.Error("a question about it is one about what it has given up, too")
	}
	s.hold(a)
	if got := s.at("a") + s.at("b"); got != "|3+ 1|" {
		t.Errorf("when it has come again, at a and b stand %s", got)
	}
	if err := s.check(a, b, c, last); err != nil {
		t.Error(err)
	}
}

// A part of a holder stands right behind it, also where it has intentions.
func TestSplit(t *testing.T) {
	s := newStage()
	tree := s.hold(fresh(1, shared, "d/"))
	o, next := s.hold(fresh(2, shared, "d/f")), s.hold(fresh(3, shared, "d/f"))
	part := &lock{name: "part"}
	part.stand = Stand[lock]{Lock: part, Terms: o.stand.Terms, Token: o.stand.Token}
	s.Split(&o.stand, &part.stand)
	for k, want := range map[keytree.Key]string{"d": "1+ 2^ part^ 3^|", "d/f": "2 part 3|"} {
		if got := s.at(k); got != want {
			t.Errorf("at %q stand %s, not %s", k, got, want)
		}
	}
	if err := s.check(tree, o, part, next); err != nil {
		t.Error(err)
	}
	s.Leave(&o.stand)
	if got := s.at("d/f"); got != "part 3|" {
		t.Errorf("without the other part stand %s", got)
	}
}

// A lock that comes again comes as if it had never been there.
func TestComesAgain(t *testing.T) {
	s := newStage()
	tree := s.hold(fresh(1, shared, "d/"))
	l := fresh(2, shared, "d/e/", "d/f")
	for range 3 {
		s.Stand(&l.stand)
		if err := s.check(tree); err == nil && s.at("d") != "1+|" {
			t.Errorf("before it is in a queue, at d stand %s", s.at("d"))
		}
		s.Leave(&l.stand)
		s.hold(l)
		if got := s.at("d"); got != "1+ 2^|" || s.Trees() != 2 {
			t.Errorf("at d stand %s, of %d trees", got, s.Trees())
		}
		s.Leave(&l.stand)
	}
	if err := s.check(tree, l); err != nil || s.Len() != 3 {
		t.Errorf("%d nodes, %v", s.Len(), err)
	}
	s.Leave(&tree.stand)
	s.hold(l)
	if err := s.check(tree, l); err != nil {
		t.Errorf("when the tree above has gone: %v", err)
	}
}
