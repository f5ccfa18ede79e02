package places

import (
	"testing"

	"latchfs/lockmgr/internal/keytree"
)

// step is something that is done, and who stands where after it.
type step struct {
	do   string
	f    func()
	want map[keytree.Key]string
}

func (s *stage) run(t *testing.T, all []*lock, steps []step) {
	t.Helper()
	for _, c := range steps {
		c.f()
		for k, want := range c.want {
			if got := s.at(k); got != want {
				t.Errorf("%s: at %q stand %s, not %s", c.do, k, got, want)
			}
		}
		if err := s.check(all...); err != nil {
			t.Errorf("%s: %v", c.do, err)
		}
	}
}

// Intentions are there while there is a tree lock, whoever comes first.
func TestIntentions(t *testing.T) {
	s := newStage()
	l, w, other := fresh(1, shared, "d/e/f"), fresh(2, exclusive, "d/e/f"), fresh(3, shared, "e")
	tree, second, inner := fresh(4, shared, "d/"), fresh(5, exclusive, "d/"), fresh(6, shared, "d/e/")
	s.run(t, []*lock{l, w, other, tree, second, inner}, []step{
		{"no tree", func() { s.hold(l); s.wait(w); s.hold(other) }, map[keytree.Key]string{"d": "|", "d/e": "|", "d/e/f": "1|2"}},
		{"a tree", func() { s.hold(tree) }, map[keytree.Key]string{"d": "1^ 4+|2^", "d/e": "|"}},
		{"another that waits", func() { s.wait(second) }, map[keytree.Key]string{"d": "1^ 4+|2^ 5+"}},
		{"one in between", func() { s.hold(inner) }, map[keytree.Key]string{"d": "1^ 4+ 6^|2^ 5+", "d/e": "1^ 6+|2^"}},
		{"the holder's goes", func() { s.Leave(&tree.stand) }, map[keytree.Key]string{"d": "1^ 6^|2^ 5+"}},
		{"the waiter's goes", func() { s.Leave(&second.stand) }, map[keytree.Key]string{"d": "|", "d/e": "1^ 6+|2^"}},
		{"one below goes", func() { s.Leave(&l.stand) }, map[keytree.Key]string{"d/e": "6+|2^", "d/e/f": "|2"}},
		{"the last tree goes", func() { s.Leave(&inner.stand) }, map[keytree.Key]string{"d/e": "|", "d/e/f": "|2"}},
		{"the last one goes", func() { s.Leave(&w.stand) }, map[keytree.Key]string{"d": "", "e": "3|"}},
	})
}

// A lock has one intention at a key, however many of its keys are below, and none where
// it is itself.
func TestOneIntention(t *testing.T) {
	s := newStage()
	l, tree := fresh(1, shared, "d", "d/e", "d/f"), fresh(2, shared, "d/", "/")
	s.run(t, []*lock{l, tree}, []step{
		{"the lock first", func() { s.hold(l); s.hold(tree) }, map[keytree.Key]string{"": "1^ 2+|", "d": "1 2+|"}},
		{"the tree first", func() { s.Leave(&l.stand); s.hold(l) }, map[keytree.Key]string{"": "2+ 1^|", "d": "2+ 1|"}},
		{"without the tree", func() { s.Leave(&tree.stand) }, map[keytree.Key]string{"": "|", "d": "1|"}},
	})
}

// Two tree locks of which one is in the other: the lower one has an intention, too.
func TestTreeInTree(t *testing.T) {
	s := newStage()
	up, down := fresh(1, shared, "/"), fresh(2, shared, "d/")
	s.run(t, []*lock{up, down}, []step{
		{"the upper first", func() { s.hold(up); s.hold(down) }, map[keytree.Key]string{"": "1+ 2^|", "d": "2+|"}},
		{"the lower first", func() { s.Leave(&up.stand); s.hold(up) }, map[keytree.Key]string{"": "2^ 1+|", "d": "2+|"}},
		{"the lower goes", func() { s.Leave(&down.stand) }, map[keytree.Key]string{"": "1+|", "d": ""}},
	})
}

// What is apart is in no tree of the empty key, and the other way round.
func TestApart(t *testing.T) {
	s := newStage()
	all, apart := fresh(1, exclusive, "/"), fresh(2, exclusive, "///")
	x, f := fresh(3, exclusive, "//x"), fresh(4, exclusive, "f")
	s.run(t, []*lock{all, apart, x, f}, []step{
		{"both trees", func() { s.hold(x); s.hold(f); s.hold(all); s.hold(apart) }, map[keytree.Key]string{"": "4^ 1+|", "//": "3^ 2+|"}},
		{"one", func() { s.Leave(&all.stand) }, map[keytree.Key]string{"": "|", "//": "3^ 2+|"}},
	})
}
