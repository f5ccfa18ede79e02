package owners

import (
	"maps"
	"slices"
	"testing"

	"pgregory.net/rapid"

	"latchfs/lockmgr/internal/list"
	"latchfs/lockmgr/internal/rules"
)

type lock struct {
	id    int
	links list.Links[lock]
	party *Party[lock, held]
	holds bool
}

type held struct{}

func (held) Links(l *lock) *list.Links[lock] { return &l.links }

func owner(pid int32) rules.Owner { return rules.Owner{PID: pid, Start: 1} }

// ids are those of the locks held, as the party lists them.
func ids(y *Party[lock, held]) (out []int) {
	for l := y.First(); l != nil; l = l.links.Next() {
		out = append(out, l.id)
	}
	return out
}

// An owner has a party while it has a lock, which lists what it holds, the newest
// first.
func TestParties(t *testing.T) {
	x := New[lock, held]()
	if x.Find(owner(1)) != nil || x.Len() != 0 {
		t.Error("it is not empty")
	}
	a, b := &lock{id: 1}, &lock{id: 2}
	y := x.Join(owner(1))
	if x.Join(owner(1)) != y || x.Find(owner(1)) != y || y.Owner() != owner(1) || y.Held() != 0 || y.First() != nil {
		t.Error("an owner has two parties, or holds what waits")
	}
	other := x.Join(owner(2))
	if other == y || x.Len() != 2 {
		t.Error("two owners are one")
	}
	y.Add(a)
	y.Add(b)
	if got := ids(y); !slices.Equal(got, []int{2, 1}) || y.Held() != 2 || other.Held() != 0 {
		t.Errorf("%v, %d", got, y.Held())
	}
	y.Remove(b)
	x.Leave(y)
	if x.Find(owner(1)) != y || !slices.Equal(ids(y), []int{1}) {
		t.Error("one of two locks has taken the party with it")
	}
	y.Remove(a)
	x.Leave(y)
	if x.Find(owner(1)) != nil || x.Len() != 1 {
		t.Error("an owner without locks has a party")
	}
}

// Another owner's party is used again with nothing left in it; an owner that comes and
// goes needs no memory, and no more than so many spares are kept.
func TestSpares(t *testing.T) {
	x := New[lock, held]()
	old := x.Join(owner(1))
	x.Leave(old)
	y := x.Join(owner(2))
	if y != old || y.Owner() != owner(2) || y.Joined() != 1 || y.next != nil {
		t.Errorf("%+v", y)
	}
	if n := testing.AllocsPerRun(100, func() { x.Leave(x.Join(owner(3))) }); n != 0 {
		t.Errorf("an owner that comes and goes allocates %v times", n)
	}
	var all []*Party[lock, held]
	for i := range int32(maxSpares + 10) {
		all = append(all, x.Join(owner(10+i)))
	}
	for _, y := range all {
		x.Leave(y)
	}
	if x.spares != maxSpares || x.Len() != 1 {
		t.Errorf("%d spares, %d owners", x.spares, x.Len())
	}
}

// Somebody waits for an owner while it or a descendant of it does.
func TestWaiters(t *testing.T) {
	x := New[lock, held]()
	child := &rules.Terms{Owner: owner(3), Lineage: []rules.Ancestor{{Owner: owner(2)}, {Owner: owner(1)}}}
	parent := &rules.Terms{Owner: owner(2), Lineage: []rules.Ancestor{{Owner: owner(1)}}}
	expect := func(want map[rules.Owner]int) {
		t.Helper()
		if !maps.Equal(x.Waiters(), want) {
			t.Errorf("%v, not %v", x.Waiters(), want)
		}
		for pid := range int32(5) {
			if got := x.HasWaiter(owner(pid)); got != (want[owner(pid)] > 0) {
				t.Errorf("of %v somebody waits: %v", owner(pid), got)
			}
		}
	}
	expect(map[rules.Owner]int{})
	x.CountWaiter(child, 1)
	x.CountWaiter(parent, 1)
	expect(map[rules.Owner]int{owner(1): 2, owner(2): 2, owner(3): 1})
	x.CountWaiter(child, -1)
	expect(map[rules.Owner]int{owner(1): 1, owner(2): 1})
	x.CountWaiter(parent, -1)
	expect(map[rules.Owner]int{})
}

// Random uses against what each lock says of itself.
func TestIndexAgainstModel(t *testing.T) {
	rapid.Check(t, func(p *rapid.T) {
		x := New[lock, held]()
		var locks []*lock
		for i := range rapid.IntRange(1, 50).Draw(p, "steps") {
			at := rapid.IntRange(0, len(locks)).Draw(p, "at")
			if at == len(locks) {
				l := &lock{id: i, holds: rapid.Bool().Draw(p, "holds")}
				l.party = x.Join(owner(rapid.Int32Range(1, 3).Draw(p, "owner")))
				if l.holds {
					l.party.Add(l)
				}
				locks = append(locks, l)
			} else {
				l := locks[at]
				if l.holds {
					l.party.Remove(l)
				}
				x.Leave(l.party)
				locks = slices.Delete(locks, at, at+1)
			}
			have := map[rules.Owner]bool{}
			for pid := range int32(4) {
				var want []int
				for _, l := range slices.Backward(locks) {
					if l.party.Owner() == owner(pid) {
						have[owner(pid)] = true
						if l.holds {
							want = append(want, l.id)
						}
					}
				}
				y := x.Find(owner(pid))
				if (y != nil) != have[owner(pid)] || y != nil && (!slices.Equal(ids(y), want) || y.Held() != len(want)) {
					p.Fatalf("%v holds %v", owner(pid), want)
				}
			}
			if x.Len() != len(have) {
				p.Fatalf("%d owners, not %d", x.Len(), len(have))
			}
		}
	})
}
