package places

import (
	"slices"
	"testing"

	"latchfs/lockmgr/internal/keytree"
	"latchfs/lockmgr/internal/rules"
)

// A lock has its keys before it comes and after it has left, each once, and a key that
// is asked for in both ways is a tree.
func TestSetKeys(t *testing.T) {
	for _, c := range []struct {
		asked       []string
		keys, trees []keytree.Key
	}{
		{[]string{"f"}, []keytree.Key{"f"}, nil},
		{[]string{""}, []keytree.Key{""}, nil},
		{[]string{"d/"}, []keytree.Key{"d"}, []keytree.Key{"d"}},
		{[]string{"g", "f", "g"}, []keytree.Key{"f", "g"}, nil},
		{[]string{"f", "d", "e/", "d/"}, []keytree.Key{"d", "e", "f"}, []keytree.Key{"d", "e"}},
	} {
		s := newStage()
		l := fresh(1, rules.Shared, c.asked...)
		for _, when := range []string{"before", "there", "after", "again"} {
			switch when {
			case "there", "again":
				s.hold(l)
			case "after":
				s.Leave(&l.stand)
			}
			if !slices.Equal(l.stand.Keys(nil), c.keys) || !slices.Equal(l.stand.Trees(), c.trees) {
				t.Errorf("%q %s: on %q, trees %q", c.asked, when, l.stand.Keys(nil), l.stand.Trees())
			}
			if stands := l.stand.First() != nil; stands != (l.stand.State != Nowhere) || stands != (when == "there" || when == "again") {
				t.Errorf("%q %s: stands somewhere: %v", c.asked, when, stands)
			}
		}
		if err := s.check(l); err != nil {
			t.Errorf("%q: %v", c.asked, err)
		}
	}
}

// Keys are appended, and what was there before stays as it is.
func TestKeysAppends(t *testing.T) {
	l := fresh(1, rules.Shared, "c", "b")
	if got := l.stand.Keys([]keytree.Key{"z", "a"}); !slices.Equal(got, []keytree.Key{"z", "a", "b", "c"}) {
		t.Errorf("%q", got)
	}
}

// The places of a lock are those where it stands: not what it has given up.
func TestPlacesOfALock(t *testing.T) {
	s := newStage()
	l := s.hold(fresh(1, rules.Exclusive, "a", "b", "c"))
	for _, c := range []struct {
		gone keytree.Key
		left []keytree.Key
	}{
		{"a", []keytree.Key{"b", "c"}},
		{"c", []keytree.Key{"b"}},
	} {
		s.GiveUp(&l.stand, []keytree.Key{c.gone})
		var at []keytree.Key
		for p := l.stand.First(); p != nil; p = p.Also() {
			at = append(at, p.Node().Key())
		}
		if !slices.Equal(at, c.left) || !slices.Equal(l.stand.Keys(nil), c.left) || s.at(c.gone) != "" {
			t.Errorf("without %q: at %q", c.gone, at)
		}
		if err := s.check(l); err != nil {
			t.Error(err)
		}
	}
	if l.stand.At(s.Find("")) != nil {
		t.Error("it has a place at a key that is not its own")
	}
}

// Holders are in the order of their grants and waiters in that of their ranks, also where
// they come to stand later.
func TestOrder(t *testing.T) {
	s := newStage()
	a, b := s.hold(fresh(1, rules.Shared, "d/a")), s.hold(fresh(2, rules.Shared, "d/b"))
	x, y := s.wait(fresh(3, rules.Exclusive, "d/b")), s.wait(fresh(4, rules.Exclusive, "d/a"))
	tree := s.hold(fresh(5, rules.Shared, "d/"))
	if got := s.at("d"); got != "1^ 2^ 5+|3^ 4^" {
		t.Errorf("%s", got)
	}
	y.stand.Rank = x.stand.Rank - 1
	s.Requeue(&y.stand)
	if got := s.at("d"); got != "1^ 2^ 5+|4^ 3^" {
		t.Errorf("%s", got)
	}
	if err := s.check(a, b, x, y, tree); err != nil {
		t.Error(err)
	}
}

// A queue is worth a walk when it has a mode that does not go with the one that asks.
func TestClashes(t *testing.T) {
	s := newStage()
	shared := s.hold(fresh(1, rules.Shared, "f"))
	q := &s.Find("f").Held
	modes := func(want string) {
		t.Helper()
		got := ""
		for m := rules.Shared; m <= rules.Exclusive; m++ {
			got += map[bool]string{false: "+", true: "-"}[q.Clashes(m)]
		}
		if got != want {
			t.Errorf("%s, not %s", got, want)
		}
	}
	modes("++-")
	update := s.hold(fresh(2, rules.Update, "f"))
	modes("+--")
	s.Leave(&shared.stand)
	modes("+--")
	s.Leave(&update.stand)
	modes("+++")
	s.hold(fresh(3, rules.Exclusive, "f"))
	modes("---")
}

// A node that is dirty stays until it is tidied.
func TestDirty(t *testing.T) {
	s := newStage()
	l := s.hold(fresh(1, rules.Exclusive, "d/f"))
	n := s.Find("d/f")
	n.Dirty = true
	s.Leave(&l.stand)
	s.Tidy(n)
	if s.Find("d/f") != n {
		t.Error("it has gone")
	}
	n.Dirty = false
	s.Tidy(n)
	if s.Find("d/f") != nil || s.Find("d") != nil || s.Len() != 2 {
		t.Errorf("%d nodes are left", s.Len())
	}
}
