package knowledge

import (
	"cmp"
	"maps"
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
		before := len(e.facts)
		if e.sweep(now, t.fade, gone) {
			t.news.Add(1)
			t.outdated(key, e)
			t.facts -= before - len(e.facts)
		}
		if len(e.facts) == 0 && len(e.deaf) == 0 {
			t.dropLocked(key, e)
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

// sweep reports whether anybody knows less than before.
func (x *file) sweep(now time.Time, fade time.Duration, gone map[lockmgr.Owner]bool) (less bool) {
	for o, k := range x.facts {
		had := k
		if now.Sub(k.lent.at) > fade {
			k.lent = sighting{}
		}
		if (gone[o] || k.own.made) && now.Sub(k.own.at) > fade {
			k.own = sighting{}
		}
		switch {
		case k == had:
			continue
		case k == (fact{}):
			delete(x.facts, o)
		default:
			x.facts[o] = k
		}
		less = true
	}
	maps.DeleteFunc(x.barred, func(_ lockmgr.Owner, until time.Time) bool { return now.After(until) })
	for o, r := range x.refused {
		if now.Sub(r.at) > insistWithin {
			delete(x.refused, o)
		}
	}
	for o, d := range x.deaf {
		if now.Sub(d.until) > fadeOfDeafness {
			delete(x.deaf, o)
		}
	}
	return less
}

// Whoever knows more keys than maxKeys, and keys that more processes know than
// maxReaders, give way first where there is too much: a search through a tree must not
// take from the others what they have read.
const (
	maxKeys    = 1000
	maxReaders = 1000
)

// shrink forgets a quarter: first what takes more than its share, then the keys that
// were used longest ago. mu is held.
func (t *Table) shrink() {
	counts := map[lockmgr.Owner]int{}
	keys := make([]Key, 0, len(t.files))
	for key, e := range t.files {
		keys = append(keys, key)
		for o := range e.facts {
			counts[o]++
		}
	}
	slices.SortFunc(keys, func(a, b Key) int { return cmp.Compare(t.files[a].used, t.files[b].used) })
	const enough = MaxFacts * 3 / 4
	for _, key := range keys {
		if t.facts <= enough {
			return
		}
		e := t.files[key]
		before := len(e.facts)
		e.trim(counts)
		if len(e.facts) == before {
			continue
		}
		t.outdated(key, e)
		t.facts -= before - len(e.facts)
		if len(e.facts) == 0 {
			t.dropLocked(key, e)
		}
	}
	for _, key := range keys {
		if e := t.files[key]; e != nil && t.facts > enough && len(t.files) > 1 {
			t.dropLocked(key, e)
		}
	}
}

// trim forgets of a file what takes more than its share; counts is how many keys each
// process knows.
func (x *file) trim(counts map[lockmgr.Owner]int) {
	for o := range x.facts {
		if counts[o] > maxKeys {
			delete(x.facts, o)
			counts[o]--
		}
	}
	if len(x.facts) <= maxReaders {
		return
	}
	owners := make([]lockmgr.Owner, 0, len(x.facts))
	for o := range x.facts {
		owners = append(owners, o)
	}
	slices.SortFunc(owners, func(a, b lockmgr.Owner) int { return x.facts[a].last().Compare(x.facts[b].last()) })
	for _, o := range owners[:len(owners)-maxReaders] {
		delete(x.facts, o)
		counts[o]--
	}
}

// last is when the process has last learned anything.
func (k fact) last() time.Time {
	if k.lent.at.After(k.own.at) {
		return k.lent.at
	}
	return k.own.at
}

// Size is how many keys and facts are remembered.
func (t *Table) Size() (keys, facts int) {
	t.mu.Lock()
	defer t.mu.Unlock()
	return len(t.files), t.facts
}
