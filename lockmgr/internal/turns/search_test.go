package turns

import (
	"fmt"
	"slices"
	"strings"
	"testing"

	"pgregory.net/rapid"
)

type waiter struct {
	name string
	on   map[*waiter]*string // on whom it depends, and why
	next *waiter
}

type queue struct{}

func (queue) Next(w *waiter) *waiter       { return w.next }
func (queue) Depends(l, c *waiter) *string { return l.on[c] }
func names(ws []*waiter) (out string) {
	for _, w := range ws {
		out += w.name
	}
	return out
}

// line makes a queue of waiters named by one letter each; "ab" in depends is that a
// depends on b.
func line(order string, depends ...string) map[string]*waiter {
	all := map[string]*waiter{}
	var last *waiter
	for _, r := range order {
		w := &waiter{name: string(r), on: map[*waiter]*string{}}
		if last != nil {
			last.next = w
		}
		all[w.name], last = w, w
	}
	for _, d := range depends {
		all[d[:1]].on[all[d[1:]]] = &d
	}
	return all
}

func TestGather(t *testing.T) {
	for _, c := range []struct {
		name, order string
		depends     string
		must        bool
		set, cycle  string // of l, before w
	}{
		{"nobody", "awl", "", false, "l", ""},
		{"one behind", "wlx", "lx", false, "xl", ""},
		{"a chain", "wlxy", "lx xy", false, "yxl", ""},
		{"two that share a third", "wlxyz", "lx ly xz yz", false, "zxyl", ""},
		{"one before w does not matter", "awl", "la", false, "l", ""},
		{"one between", "wxl", "lx", true, "xl", ""},
		{"w itself", "wl", "lw", false, "", ""},
		{"w itself, by another", "wlx", "lx xw", false, "", ""},
		{"w, which depends on l", "wl", "lw wl", true, "", "lw wl"},
		{"w by another, which depends on l", "wlx", "lx xw wl", true, "", "lx xw wl"},
		{"each other", "wlx", "lx xl", false, "", "lx xl"},
		{"a cycle beside l", "wlxyz", "lx xy yz zy", false, "", "yz zy"},
	} {
		q := line(c.order, strings.Fields(c.depends)...)
		var s Search[waiter, string]
		for range 2 { // what a search leaves does not matter to the next
			set, cycle := s.Gather(queue{}, q["l"], q["w"], c.must)
			var steps []string
			for _, e := range cycle {
				if !strings.HasPrefix(*e.Why, e.Waiter.name) {
					t.Errorf("%s: %s by %s", c.name, e.Waiter.name, *e.Why)
				}
				steps = append(steps, *e.Why)
			}
			if got := names(set); got != c.set || strings.Join(steps, " ") != c.cycle {
				t.Errorf("%s: set %q, cycle %q", c.name, got, steps)
			}
		}
	}
}

// However the waiters depend on each other: the set has l and all on whom it depends
// behind w, nobody else, each after its own; and a cycle is one.
func TestGatherAtRandom(t *testing.T) {
	rapid.Check(t, func(p *rapid.T) {
		order := "wabcdefl"[:rapid.IntRange(2, 7).Draw(p, "others")] + "l"
		var depends []string
		for range rapid.IntRange(0, 12).Draw(p, "edges") {
			pick := func(what string) byte { return order[rapid.IntRange(0, len(order)-1).Draw(p, what)] }
			if a, b := pick("who"), pick("on whom"); a != b {
				depends = append(depends, fmt.Sprintf("%c%c", a, b))
			}
		}
		q := line(order, depends...)
		l, w := q["l"], q["w"]
		must := w.on[l] != nil
		var s Search[waiter, string]
		set, cycle := s.Gather(queue{}, l, w, must)
		need := map[*waiter]bool{}
		var reach func(*waiter)
		reach = func(x *waiter) {
			if need[x] {
				return
			}
			need[x] = true
			for c := range x.on {
				reach(c)
			}
		}
		reach(l)
		for i, x := range set {
			if !need[x] || x == w {
				p.Fatalf("%v: %q has %s", depends, names(set), x.name)
			}
			for c := range x.on {
				if !slices.Contains(set[:i], c) {
					p.Fatalf("%v: %q has %s before %s", depends, names(set), x.name, c.name)
				}
			}
		}
		for i, e := range cycle {
			if e.Waiter.on[cycle[(i+1)%len(cycle)].Waiter] != e.Why {
				p.Fatalf("%v: no cycle at %s", depends, e.Waiter.name)
			}
		}
		if set != nil && (len(set) != len(need) || set[len(set)-1] != l) || set == nil && cycle == nil && (!need[w] || must) {
			p.Fatalf("%v: set %q, cycle of %d", depends, names(set), len(cycle))
		}
	})
}
