package knowledge

import (
	"cmp"
	"maps"
	"slices"
	"time"

	"latchfs/lockmgr"
)

// settled is after how long nobody asks any more what a process knew that is gone, unless
// it has left a file: by then what it did last has been noted.
const settled = time.Minute

// Sweep forgets what counts for nothing any more: what relatives knew too long ago, and
// what was known to processes that are gone. If such a process, or one that it is an
// ancestor of, has made the current version of a file, that counts as long as what
// relatives knew, for the file may still be renamed; otherwise for a minute. alive is
// asked once for each process, without the table's lock.
func (t *Table) Sweep(now time.Time, alive func(lockmgr.Owner) bool) {
	gone := map[lockmgr.Owner]bool{}
	for _, o := range t.owners() {
		if !alive(o) {
			gone[o] = true
		}
	}
	t.mu.Lock()
	defer t.mu.Unlock()
	makers := t.makers()
	rest := func(o lockmgr.Owner) time.Duration {
		if gone[o] && !makers[o] {
			return min(settled, t.fade)
		}
		return t.fade
	}
	for key, e := range t.files {
		if e.sweep(now, rest, gone) {
			t.news.Add(1)
			t.outdated(key, e)
			t.count(key, e)
		}
		if e.facts.len() == 0 && len(e.deaf) == 0 {
			t.dropLocked(key, e)
		}
	}
}

// makers are the processes whose knowledge counts when a file is renamed, because the file
// is their work. mu is held.
func (t *Table) makers() map[lockmgr.Owner]bool {
	makers := map[lockmgr.Owner]bool{}
	for _, e := range t.files {
		if last := e.current(); last.Stamp != (Stamp{}) {
			for _, o := range last.owners {
				makers[o] = true
			}
		}
	}
	return makers
}

// owners lists the processes that know anything.
func (t *Table) owners() []lockmgr.Owner {
	t.mu.Lock()
	defer t.mu.Unlock()
	seen := map[lockmgr.Owner]bool{}
	var list []lockmgr.Owner
	for _, e := range t.files {
		for o := range e.facts.all() {
			if !seen[o] {
				seen[o] = true
				list = append(list, o)
			}
		}
	}
	return list
}

// sweep reports whether anybody knows less than before.
func (x *file) sweep(now time.Time, rest func(lockmgr.Owner) time.Duration, gone map[lockmgr.Owner]bool) (less bool) {
	less = x.facts.update(func(o lockmgr.Owner, k fact) fact {
		fade := rest(o)
		if now.Sub(k.lent.at) > fade {
			k.lent = sighting{}
		}
		if (gone[o] || k.own.made) && now.Sub(k.own.at) > fade {
			k.own = sighting{}
		}
		return k
	})
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
		for o := range e.facts.all() {
			counts[o]++
		}
	}
	slices.SortFunc(keys, func(a, b Key) int { return cmp.Compare(t.files[a].used, t.files[b].used) })
	enough := t.most / 4 * 3
	for _, key := range keys {
		if t.bytes <= enough {
			return
		}
		e := t.files[key]
		if !e.trim(counts) {
			continue
		}
		t.outdated(key, e)
		t.count(key, e)
		if e.facts.len() == 0 {
			t.dropLocked(key, e)
		}
	}
	for _, key := range keys {
		if e := t.files[key]; e != nil && t.bytes > enough && len(t.files) > 1 {
			t.dropLocked(key, e)
		}
	}
}

// trim forgets of a file what takes more than its share, and reports whether there was
// any; counts is how many keys each process knows.
func (x *file) trim(counts map[lockmgr.Owner]int) bool {
	trimmed := x.facts.update(func(o lockmgr.Owner, k fact) fact {
		if counts[o] <= maxKeys {
			return k
		}
		counts[o]--
		return fact{}
	})
	if x.facts.len() <= maxReaders {
		return trimmed
	}
	readers := make([]ownFact, 0, x.facts.len())
	for o, k := range x.facts.all() {
		readers = append(readers, ownFact{o, k})
	}
	slices.SortFunc(readers, func(a, b ownFact) int { return a.last().Compare(b.last()) })
	for _, k := range readers[:len(readers)-maxReaders] {
		x.facts.put(k.owner, fact{})
		counts[k.owner]--
	}
	return true
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
