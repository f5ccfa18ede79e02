package rules

import (
	"fmt"
	"testing"
)

// by is a lock of a process that has no ancestors.
func by(pid int32, c Class, m Mode) *Terms {
	return &Terms{Mode: m, Class: c, Range: Whole, Owner: Owner{PID: pid, Start: 1}, Client: uint64(pid)}
}

// The mode matrix of the package comment, row by row.
func TestModes(t *testing.T) {
	want := map[Mode]string{Shared: "++-", Update: "+--", Exclusive: "---"}
	for held, row := range want {
		for i, asked := range []Mode{Shared, Update, Exclusive} {
			if got := asked.GoesWith(held); got != (row[i] == '+') {
				t.Errorf("%v with %v: %v", asked, held, got)
			}
			if got := by(1, Session, asked).Conflicts(by(2, Session, held)); got != (row[i] == '-') {
				t.Errorf("%v conflicts with %v: %v", asked, held, got)
			}
		}
	}
}

// The class matrix of the package comment, for an heir, for the same client and for
// strangers.
func TestClasses(t *testing.T) {
	for _, c := range []struct {
		held, asked                 Class
		stranger, heir, client, far bool // does it conflict?
	}{
		{Session, Session, true, false, true, true},
		{Session, Flock, true, false, true, true},
		{Session, Posix, true, false, true, true},
		{Flock, Session, true, false, true, true},
		{Flock, Flock, true, true, false, true},
		{Flock, Posix, false, false, false, false},
		{Posix, Session, true, false, true, true},
		{Posix, Flock, false, false, false, false},
		{Posix, Posix, true, true, false, false},
	} {
		x := by(1, c.held, Exclusive)
		x.Since, x.Range = Birth{5, 0}, Range{0, 9}
		stranger, heir, client, far := by(2, c.asked, Shared), by(3, c.asked, Shared), by(4, c.asked, Shared), by(5, c.asked, Shared)
		heir.Lineage = []Ancestor{{x.Owner, Birth{6, 0}}}
		client.Client = x.Client
		far.Range = Range{10, 20}
		for name, got := range map[string][2]bool{
			"a stranger": {stranger.Conflicts(x), c.stranger}, "an heir": {heir.Conflicts(x), c.heir},
			"the same client": {client.Conflicts(x), c.client}, "one far away": {far.Conflicts(x), c.far},
		} {
			if got[0] != got[1] {
				t.Errorf("%s asks for a %v beside a %v: conflicts %v", name, c.asked, c.held, got[0])
			}
		}
	}
}

// An heir is a descendant that was born after the lock was asked for.
func TestKin(t *testing.T) {
	x := by(1, Session, Exclusive)
	x.Since = Birth{50, 7}
	family := func(pid int32, up ...Ancestor) *Terms {
		l := by(pid, Session, Exclusive)
		l.Lineage = up
		return l
	}
	unseen := &Terms{Mode: Exclusive, Owner: Owner{0, 9}}
	for _, c := range []struct {
		name       string
		l, x       *Terms
		kin, below bool
	}{
		{"the same owner", by(1, Flock, Shared), x, true, true},
		{"a pid used again", &Terms{Owner: Owner{1, 2}}, x, false, false},
		{"a younger child", family(2, Ancestor{x.Owner, Birth{50, 8}}), x, true, true},
		{"an older child", family(2, Ancestor{x.Owner, Birth{50, 7}}), x, false, true},
		{"a grandchild of a younger branch", family(3, Ancestor{Owner{2, 1}, Birth{70, 0}}, Ancestor{x.Owner, Birth{60, 0}}), x, true, true},
		{"a grandchild of an older branch", family(3, Ancestor{Owner{2, 1}, Birth{70, 0}}, Ancestor{x.Owner, Birth{40, 0}}), x, false, true},
		{"its parent", by(9, Session, Shared), family(1, Ancestor{Owner{9, 1}, Birth{1, 0}}), false, false},
		{"an unseen process itself", unseen, unseen, true, true},
		{"the child of an unseen one", family(2, Ancestor{unseen.Owner, Birth{60, 0}}), unseen, false, true},
		{"an unseen child", &Terms{Owner: Owner{0, 3}, Lineage: []Ancestor{{x.Owner, Birth{60, 0}}}}, x, false, true},
	} {
		if got := c.l.KinOf(c.x); got != c.kin {
			t.Errorf("%s: kin %v", c.name, got)
		}
		if got := c.l.Descends(c.x.Owner); got != c.below {
			t.Errorf("%s: descends %v", c.name, got)
		}
	}
}

// A weak lock binds its own kind and nobody else.
func TestWeak(t *testing.T) {
	gate := func(pid int32) *Terms {
		l := by(pid, Session, Exclusive)
		l.Gate = true
		return l
	}
	for _, c := range []struct {
		name string
		l, x *Terms
		want bool
	}{
		{"a flock", by(2, Flock, Exclusive), by(1, Flock, Shared), true},
		{"an fcntl lock", by(2, Posix, Exclusive), by(1, Posix, Shared), true},
		{"a session beside a flock", by(2, Session, Exclusive), by(1, Flock, Shared), false},
		{"a session", by(2, Session, Exclusive), by(1, Session, Exclusive), false},
		{"a gate", gate(2), gate(1), true},
		{"a session beside a gate", by(2, Session, Exclusive), gate(1), false},
	} {
		if !c.l.Conflicts(c.x) && c.want {
			t.Errorf("%s: no conflict to begin with", c.name)
		}
		for _, weak := range []*Terms{c.l, c.x} {
			weak.Weak = true
			if c.l.Conflicts(c.x) != c.want || c.x.Conflicts(c.l) != c.want {
				t.Errorf("%s: conflicts %v", c.name, !c.want)
			}
			weak.Weak = false
		}
	}
}

// The heirs of a session are its guests, as far as they are not stronger; those of a
// gate and of a weak lock, and of what is no session, are not.
func TestGuests(t *testing.T) {
	heir := func(pid int32, m Mode) *Terms {
		l := by(pid, Session, m)
		l.Lineage = []Ancestor{{Owner{1, 1}, Birth{2, 0}}}
		return l
	}
	a, b := heir(2, Update), heir(3, Update)
	if !by(1, Session, Exclusive).Hosts(a, b) || by(1, Flock, Exclusive).Hosts(a, b) || by(1, Posix, Exclusive).Hosts(a, b) {
		t.Error("sessions, and nothing else, have guests")
	}
	h := by(1, Session, Update)
	if !h.Hosts(a, b) || h.Hosts(heir(4, Exclusive), b) || h.Hosts(a, heir(4, Exclusive)) {
		t.Error("guests are not measured by the session's mode")
	}
	if h.Hosts(a, by(7, Session, Update)) || h.Hosts(by(7, Session, Update), a) {
		t.Error("a stranger is a guest")
	}
	for _, flag := range []*bool{&h.Gate, &h.Weak} {
		*flag = true
		if h.Hosts(a, b) {
			t.Errorf("gate %v, weak %v: has guests", h.Gate, h.Weak)
		}
		*flag = false
	}
}

// A holder lets its kin past the queue, but no weak one does, and no client lock
// another.
func TestJoins(t *testing.T) {
	for _, c := range []struct {
		l, x *Terms
		want bool
	}{
		{by(1, Session, Shared), by(1, Flock, Exclusive), true},
		{by(1, Flock, Shared), by(1, Session, Exclusive), true},
		{by(1, Flock, Shared), by(1, Flock, Exclusive), false},
		{by(1, Posix, Shared), by(1, Flock, Exclusive), false},
		{by(2, Session, Shared), by(1, Session, Exclusive), false},
	} {
		if got := c.l.Joins(c.x); got != c.want || got && !c.l.MayBeGuests(c.x) {
			t.Errorf("a %v of %v past a %v of %v: %v", c.l.Class, c.l.Owner, c.x.Class, c.x.Owner, got)
		}
		c.x.Weak = true
		if c.l.Joins(c.x) {
			t.Errorf("past a weak %v", c.x.Class)
		}
	}
}

// What a client takes becomes one with what it has.
func TestFuses(t *testing.T) {
	l, o := by(1, Posix, Shared), by(1, Posix, Shared)
	asked := Range{10, 19}
	for r, want := range map[Range]bool{
		{0, 8}: false, {0, 9}: true, {0, 10}: true, {12, 13}: true, {19, 30}: true, {20, 30}: true, {21, 30}: false,
	} {
		if o.Range = r; l.Fuses(o, asked) != want {
			t.Errorf("%v beside %v: %v", r, asked, !want)
		}
	}
	o.Range = Range{12, 13}
	if o.Mode = Exclusive; l.Fuses(o, asked) {
		t.Error("another mode becomes one with it")
	}
	if o.Mode, o.Weak = Shared, true; l.Fuses(o, asked) {
		t.Error("a weak lock becomes one with another")
	}
	if o.Class, o.Mode, o.Range = Flock, Exclusive, Whole; !l.Fuses(o, asked) {
		t.Error("a flock is not converted")
	}
	other := by(2, Posix, Shared)
	if !l.SameClient(by(1, Posix, Exclusive)) || l.SameClient(other) || l.SameClient(by(1, Flock, Shared)) {
		t.Error("a client is not known by its class and number")
	}
}

// Ranges include both ends.
func TestRanges(t *testing.T) {
	for _, c := range []struct {
		a, b              Range
		overlaps, touches bool
		union             Range
	}{
		{Range{0, 4}, Range{5, 9}, false, true, Range{0, 9}},
		{Range{0, 5}, Range{5, 9}, true, true, Range{0, 9}},
		{Range{0, 3}, Range{5, 9}, false, false, Range{0, 9}},
		{Range{2, 3}, Range{0, 9}, true, true, Range{0, 9}},
		{Whole, Range{7, 7}, true, true, Whole},
	} {
		for _, p := range [][2]Range{{c.a, c.b}, {c.b, c.a}} {
			if p[0].Overlaps(p[1]) != c.overlaps || p[0].Touches(p[1]) != c.touches || p[0].Union(p[1]) != c.union {
				t.Errorf("%v and %v: %v, %v, %v", p[0], p[1], p[0].Overlaps(p[1]), p[0].Touches(p[1]), p[0].Union(p[1]))
			}
		}
	}
	for r, want := range map[Range]bool{Whole: true, {3, 3}: true, {3, 2}: false, {0, Whole.End + 1}: false} {
		if r.IsValid() != want {
			t.Errorf("%v is valid: %v", r, !want)
		}
	}
}

// A full order of birth: ticks, and pids within a tick, also while they begin anew.
func TestBirthAfter(t *testing.T) {
	for _, order := range [][]Birth{
		{{1, 9}, {2, 3}, {2, 4}, {3, 1}},
		{{2, 32_000}, {2, 32_767}, {2, 301}, {2, 302}, {3, 300}},
		{{2, 4_194_300}, {2, 4_194_303}, {2, 301}, {2, 5000}},
	} {
		for i, a := range order {
			for j, b := range order {
				if a.After(b) != (i > j) {
					t.Errorf("%v after %v: %v", a, b, a.After(b))
				}
			}
		}
	}
}

func TestNames(t *testing.T) {
	got := fmt.Sprint(Shared, Update, Exclusive, Mode(9), Session, Flock, Posix, Class(9), Owner{3, 4}, Owner{0, 4})
	if want := "shared update exclusive Mode(9) session flock posix Class(9) pid 3 foreign process #4"; got != want {
		t.Errorf("%s, not %s", got, want)
	}
}
