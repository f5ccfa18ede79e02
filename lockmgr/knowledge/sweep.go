package knowledge

import (
	"cmp"
	"slices"
	"time"

	"latchfs/lockmgr"
)

// Sweep forgets what counts for nothing any more: what relatives knew too long ago,
// and, after the same time, what was known to processes that are gone (until then
// the file that one of them has written may still be renamed). alive is asked once
// for each process, without the table's lock.
func (t *Table) Sweep(now time.Time, alive func(lockmgr.Owner) bool) {
	gone := map[lockmgr.Owner]bool{}
	for _, o := range t.owners() {
		if !alive(o) {
			gone[o] = true
		}
	}
	t.mu.Lock()
	defer t.mu.Unlock()
	for key, e := range t.files {
		t.counted(e, func() { e.sweep(now, t.fade, gone) })
		if len(e.facts) == 0 && len(e.deaf) == 0 {
			delete(t.files, key)
		}
	}
}

// owners lists the processes that know anything.
func (t *Table) owners() []lockmgr.Owner {
	t.mu.Lock()
	defer t.mu.Unlock()
	seen := map[lockmgr.Owner]bool{}
	var list []lockmgr.Owner
	for _, e := range t.files {
		for o := range e.facts {
			if !seen[o] {
				seen[o] = true
				list = append(list, o)
			}
		}
	}
	return list
}

func (x *file) sweep(now time.Time, fade time.Duration, gone map[lockmgr.Owner]bool) {
	for o, k := range x.facts {
		if now.Sub(k.lent.at) > fade {
			k.lent = sighting{}
		}
		if (gone[o] || k.own.blind) && now.Sub(k.own.at) > fade {
			k.own = sighting{}
		}
		if k == (fact{}) {
			delete(x.facts, o)
		} else {
			x.facts[o] = k
		}
	}
	for o, d := range x.deaf {
		if now.Sub(d.until) > fadeOfDeafness {
			delete(x.deaf, o)
		}
	}
}

// shrink forgets the quarter of the keys that was used longest ago. mu is held.
func (t *Table) shrink() {
	keys := make([]Key, 0, len(t.files))
	for key := range t.files {
		keys = append(keys, key)
	}
	slices.SortFunc(keys, func(a, b Key) int { return cmp.Compare(t.files[a].used, t.files[b].used) })
	for _, key := range keys {
		if t.facts <= MaxFacts*3/4 || len(t.files) == 1 {
			return
		}
		t.facts -= len(t.files[key].facts)
		delete(t.files, key)
	}
}

// Size is how many keys and facts are remembered.
func (t *Table) Size() (keys, facts int) {
	t.mu.Lock()
	defer t.mu.Unlock()
	return len(t.files), t.facts
}
