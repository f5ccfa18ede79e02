package knowledge

import (
	"maps"
	"slices"
	"strings"
	"time"

	"latchfs/lockmgr"
)

// Moved notes that who has renamed a directory from the key from to the key to, or
// exchanged the two. What was known of the names stays known, and has changed; what was
// known of the files goes along. Nobody learns anything by it: a process that renames a
// directory has not seen the files in it.
func (t *Table) Moved(now time.Time, from, to Key, exchanged bool, who Who, by Author) {
	t.mu.Lock()
	defer t.mu.Unlock()
	arrivals := t.below(from, to)
	if exchanged {
		arrivals = append(arrivals, t.below(to, from)...)
	}
	for _, a := range arrivals {
		old := t.files[a.from]
		t.counted(a.from, old, func() { old.record(now, Stamp{}, who, by) })
	}
	for _, a := range arrivals {
		e := t.make(a.to, Stamp{})
		t.counted(a.to, e, func() { e.file = merged(e.file, a.file) })
	}
}

// arrival is a file that gets another key.
type arrival struct {
	from, to Key
	file     *file
}

// below copies what is known of the keys below a directory that gets another key.
func (t *Table) below(from, to Key) []arrival {
	var list []arrival
	for key, e := range t.files {
		if rest, ok := strings.CutPrefix(string(key), string(from)+"/"); ok {
			list = append(list, arrival{key, to + "/" + Key(rest), e.clone()})
		}
	}
	return list
}

func (x *file) clone() *file {
	return &file{
		changes: slices.Clone(x.changes), facts: x.facts.clone(), deaf: maps.Clone(x.deaf),
		refused: maps.Clone(x.refused), barred: maps.Clone(x.barred),
	}
}

// merged puts what is known of a file that arrives under a key behind what was known
// of the key. The versions of the one that arrives follow on those of the other, from
// the first that is remembered: numbers grow by no more than that at each move.
func merged(there, arrives *file) *file {
	x := there.clone()
	last, first := there.current().Number, arrives.changes[0].Number
	shift := func(number uint64) uint64 {
		if number < first {
			return 0 // too long ago to tell
		}
		return number - first + 1 + last
	}
	moved := func(s sighting) sighting {
		s.number, s.through = shift(s.number), shift(s.through)
		return s
	}
	for _, c := range arrives.changes {
		c.Number = shift(c.Number)
		x.changes = append(x.changes, c)
	}
	x.changes = x.changes[max(0, len(x.changes)-remembered):]
	for o, k := range arrives.facts.all() {
		had := x.facts.get(o)
		if own := moved(k.own); own.newer(had.own) {
			had.own = own
		}
		if lent := moved(k.lent); lent.newer(had.lent) {
			had.lent = lent
		}
		x.facts.put(o, had)
	}
	for o, r := range arrives.refused {
		if x.refused == nil {
			x.refused = map[lockmgr.Owner]refusal{}
		}
		r.version = shift(r.version)
		x.refused[o] = r
	}
	return x
}
