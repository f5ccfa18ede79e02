package ranks

import (
	"slices"
	"testing"

	"pgregory.net/rapid"

	"latchfs/lockmgr/internal/list"
)

type waiter struct {
	id    int
	rank  uint64
	links list.Links[waiter]
}

type inLine struct{}

func (inLine) Links(w *waiter) *list.Links[waiter] { return &w.links }
func (inLine) Rank(w *waiter) *uint64              { return &w.rank }

type line = List[waiter, inLine]

// ids are those of the elements; their ranks rise.
func ids(t interface {
	Helper()
	Fatalf(string, ...any)
}, ls *line,
) (out []int) {
	t.Helper()
	var last uint64
	for w := ls.First(); w != nil; w = w.links.Next() {
		if w.rank <= last {
			t.Fatalf("%d has rank %d behind %d", w.id, w.rank, last)
		}
		last = w.rank
		out = append(out, w.id)
	}
	if ls.Len() != len(out) {
		t.Fatalf("%v, counted %d", out, ls.Len())
	}
	return out
}

func appended(ls *line, n int) (all []*waiter) {
	for i := range n {
		all = append(all, &waiter{id: i})
		ls.Append(all[i])
	}
	return all
}

func TestLead(t *testing.T) {
	for _, c := range []struct {
		name string
		set  []int
		w    int
		want []int
	}{
		{"the last one to the front", []int{4}, 0, []int{4, 0, 1, 2, 3}},
		{"where it stands already", []int{1}, 2, []int{0, 1, 2, 3, 4}},
		{"backwards", []int{0}, 4, []int{1, 2, 3, 0, 4}},
		{"in the order of the set", []int{4, 2, 3}, 1, []int{0, 4, 2, 3, 1}},
		{"from before and from behind", []int{0, 4}, 2, []int{1, 0, 4, 2, 3}},
	} {
		var ls line
		all := appended(&ls, 5)
		var set []*waiter
		for _, i := range c.set {
			set = append(set, all[i])
		}
		ls.Lead(set, all[c.w])
		if got := ids(t, &ls); !slices.Equal(got, c.want) {
			t.Errorf("%s: %v", c.name, got)
		}
	}
}

// An element that comes back stands behind all others, whatever rank it has had.
func TestAppendAgain(t *testing.T) {
	var ls line
	all := appended(&ls, 3)
	ls.Remove(all[0])
	ls.Append(all[0])
	if got := ids(t, &ls); !slices.Equal(got, []int{1, 2, 0}) {
		t.Errorf("%v", got)
	}
	for _, w := range all {
		ls.Remove(w)
	}
	if ids(t, &ls) != nil || ls.First() != nil {
		t.Error("it is not empty")
	}
}

// Those before whom nobody is put keep their ranks, so that other lists in this order
// need no look; until there is no number left in between. Then all get new ones.
func TestNoRoom(t *testing.T) {
	var ls line
	all := appended(&ls, 5)
	ls.Remove(all[0])
	want, old, anew := []int{1, 2, 3, 4}, all[4].rank, 0
	for i := range 100 {
		second := ls.First().links.Next()
		ls.Lead([]*waiter{second.links.Next()}, second)
		want[1], want[2] = want[2], want[1]
		if got := ids(t, &ls); !slices.Equal(got, want) {
			t.Fatalf("%v, not %v", got, want)
		}
		if all[4].rank != old && anew == 0 {
			anew = i
		}
	}
	if anew < 15 || all[4].rank != 4*gap {
		t.Errorf("ranked anew after %d moves; the last one has %d", anew, all[4].rank)
	}
}

// Random uses against a slice.
func TestListAgainstModel(t *testing.T) {
	rapid.Check(t, func(p *rapid.T) {
		var ls line
		var model []*waiter
		pick := func(what string) int { return rapid.IntRange(0, len(model)-1).Draw(p, what) }
		for i := range rapid.IntRange(1, 60).Draw(p, "steps") {
			switch what := rapid.IntRange(0, 3).Draw(p, "what"); {
			case what == 0 || len(model) < 2:
				w := &waiter{id: i, rank: rapid.Uint64().Draw(p, "old rank")}
				ls.Append(w)
				model = append(model, w)
			case what == 1:
				at := pick("who")
				ls.Remove(model[at])
				model = slices.Delete(model, at, at+1)
			default:
				w := model[pick("before whom")]
				var set []*waiter
				for range rapid.IntRange(1, len(model)-1).Draw(p, "how many") {
					if x := model[pick("who")]; x != w && !slices.Contains(set, x) {
						set = append(set, x)
					}
				}
				if set == nil {
					continue
				}
				ls.Lead(set, w)
				model = slices.DeleteFunc(model, func(x *waiter) bool { return slices.Contains(set, x) })
				model = slices.Insert(model, slices.Index(model, w), set...)
			}
			var want []int
			for _, w := range model {
				want = append(want, w.id)
			}
			if got := ids(p, &ls); !slices.Equal(got, want) {
				p.Fatalf("%v, not %v", got, want)
			}
		}
	})
}
