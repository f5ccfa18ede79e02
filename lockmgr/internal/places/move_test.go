package places

import (
	"slices"
	"testing"

	"latchfs/lockmgr/internal/keytree"
)

// moved are the names of the locks that have moved, each once.
func moved(ls []*Stand[lock]) []string {
	var out []string
	for _, l := range ls {
		out = append(out, l.Lock.name)
	}
	slices.Sort(out)
	return slices.Compact(out)
}

func TestMove(t *testing.T) {
	for _, c := range []struct {
		name    string
		held    []*lock
		waiting []*lock
		renames []Rename
		moved   []string
		want    map[keytree.Key]string
	}{
		{
			"nobody there", []*lock{fresh(1, shared, "f")}, nil, []Rename{{"g", "h"}},
			nil, map[keytree.Key]string{"f": "1|", "h": ""},
		},
		{
			"with what is below", []*lock{fresh(1, shared, "d"), fresh(2, shared, "d/e/f"), fresh(3, shared, "da")}, []*lock{fresh(4, exclusive, "d/e/f")},
			[]Rename{{"d", "x/y"}},
			[]string{"1", "2", "4"}, map[keytree.Key]string{"x/y": "1|", "x/y/e/f": "2|4", "da": "3|", "d": ""},
		},
		{
			"onto others", []*lock{fresh(1, exclusive, "f"), fresh(2, exclusive, "g")}, []*lock{fresh(3, exclusive, "g"), fresh(4, exclusive, "f")},
			[]Rename{{"f", "g"}},
			[]string{"1", "4"}, map[keytree.Key]string{"g": "2 1|3 4", "f": ""},
		},
		{
			"both names of one lock", []*lock{fresh(1, exclusive, "f", "g"), fresh(2, exclusive, "h")}, []*lock{fresh(3, exclusive, "g", "f")},
			[]Rename{{"f", "g"}},
			[]string{"1", "3"}, map[keytree.Key]string{"g": "1|3", "f": ""},
		},
		{
			"an exchange", []*lock{fresh(1, exclusive, "a"), fresh(2, exclusive, "b"), fresh(3, exclusive, "a/x")}, []*lock{fresh(4, exclusive, "b")},
			[]Rename{{"a", "b"}, {"b", "a"}},
			[]string{"1", "2", "3", "4"}, map[keytree.Key]string{"a": "2|4", "b": "1|", "b/x": "3|", "a/x": ""},
		},
		{
			"out of a tree", []*lock{fresh(1, shared, "d/"), fresh(2, shared, "d/f")}, nil,
			[]Rename{{"d/f", "f"}},
			[]string{"2"}, map[keytree.Key]string{"d": "1+|", "f": "2|"},
		},
		{
			"into a tree", []*lock{fresh(1, shared, "d/"), fresh(2, shared, "f")}, []*lock{fresh(3, exclusive, "f")},
			[]Rename{{"f", "d/f"}},
			[]string{"2", "3"}, map[keytree.Key]string{"d": "1+ 2^|3^", "d/f": "2|3", "f": ""},
		},
		{
			"a tree", []*lock{fresh(1, shared, "d/"), fresh(2, shared, "d/f"), fresh(3, shared, "e/g")}, nil,
			[]Rename{{"d", "e"}},
			[]string{"1", "2"}, map[keytree.Key]string{"e": "3^ 1+ 2^|", "e/f": "2|", "d": ""},
		},
		{
			"a tree onto a key of its own", []*lock{fresh(1, shared, "d/", "e"), fresh(2, shared, "e/f")}, nil,
			[]Rename{{"d", "e"}},
			[]string{"1"}, map[keytree.Key]string{"e": "1+ 2^|", "d": ""},
		},
		{
			"onto one's own intention", []*lock{fresh(1, shared, "d/"), fresh(2, shared, "d/f", "g")}, nil,
			[]Rename{{"g", "d"}},
			[]string{"2"}, map[keytree.Key]string{"d": "1+ 2|", "d/f": "2|"},
		},
	} {
		s := newStage()
		var all []*lock
		for _, l := range c.held {
			all = append(all, s.hold(l))
		}
		for _, l := range c.waiting {
			all = append(all, s.wait(l))
		}
		if got := moved(s.Move(c.renames...)); !slices.Equal(got, c.moved) {
			t.Errorf("%s: moved %q", c.name, got)
		}
		for k, want := range c.want {
			if got := s.at(k); got != want {
				t.Errorf("%s: at %q stand %s, not %s", c.name, k, got, want)
			}
		}
		if err := s.check(all...); err != nil {
			t.Errorf("%s: %v", c.name, err)
		}
	}
}

// Those whom a move brings together with other holders are guests; nobody else is.
func TestMovedGuests(t *testing.T) {
	for _, c := range []struct {
		name     string
		from, to keytree.Key
		locks    []*lock
		guests   string
	}{
		{"onto nobody", "f", "g", []*lock{fresh(1, exclusive, "f"), fresh(2, exclusive, "h")}, ""},
		{"onto a holder", "f", "g", []*lock{fresh(1, exclusive, "f"), fresh(2, exclusive, "g")}, "1"},
		{"into a tree", "f", "d/f", []*lock{fresh(1, exclusive, "f"), fresh(2, exclusive, "d/")}, "1"},
		{"a tree over others", "d", "e", []*lock{fresh(1, exclusive, "d/"), fresh(2, exclusive, "e/f")}, "1"},
		{"a tree onto its own key", "d", "e", []*lock{fresh(1, exclusive, "d/", "e"), fresh(2, exclusive, "e/f")}, "1"},
	} {
		s := newStage()
		for _, l := range c.locks {
			s.hold(l)
		}
		s.Move(Rename{c.from, c.to})
		var guests []*lock
		for _, l := range c.locks {
			if l.stand.Guest {
				guests = append(guests, l)
			}
		}
		if got := names(guests); got != c.guests {
			t.Errorf("%s: guests are %q, not %q", c.name, got, c.guests)
		}
	}
}

// Of single keys those locks move that are to, and what is below stays.
func TestMoveSome(t *testing.T) {
	odd := func(l *Stand[lock]) bool { return l.Terms.Owner.PID%2 == 1 }
	s := newStage()
	all := []*lock{
		s.hold(fresh(1, shared, "a", "c")), s.hold(fresh(2, shared, "a")), s.hold(fresh(3, shared, "a/x")),
		s.hold(fresh(4, shared, "b")), s.hold(fresh(5, shared, "b/")),
		s.wait(fresh(6, exclusive, "a")), s.wait(fresh(7, exclusive, "a")), s.wait(fresh(8, exclusive, "b")),
	}
	s.news()
	s.run(t, all, []step{
		{"an exchange", func() {
			got := moved(s.MoveSome(Which[lock]{Rename{"a", "b"}, odd}, Which[lock]{Rename{"b", "a"}, odd}))
			if want := []string{"1", "5", "7"}; !slices.Equal(got, want) {
				t.Errorf("moved %q", got)
			}
		}, map[keytree.Key]string{"a": "2 3^ 5+|6", "a/x": "3|", "b": "4 1|7 8", "c": "1|"}},
		{"nobody", func() { s.MoveSome(Which[lock]{Rename{"x", "y"}, odd}) }, map[keytree.Key]string{"y": ""}},
		{"a waiter", func() {
			s.MoveSome(Which[lock]{Rename{"b", "e"}, func(l *Stand[lock]) bool { return l.State == Waiting }})
		}, map[keytree.Key]string{"b": "4 1|", "e": "|7 8"}},
	})
	if got := s.news(); got != "1 weakened at a, 5 weakened at b, touched a, touched b" {
		t.Errorf("told %s", got)
	}
}
