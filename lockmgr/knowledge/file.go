package knowledge

import (
	"slices"
	"time"

	"latchfs/lockmgr"
)

// remembered is how many changes of a key are remembered with their authors.
const remembered = 32

// rebirth is how long it counts that somebody knows that there is no file: who has
// removed one creates the next at once, if he does.
const rebirth = 2 * time.Second

// file is what is known of a key.
type file struct {
	changes  []Change // the latest, at least one; the last is the current version
	facts    facts
	expected *expected
	deaf     map[lockmgr.Owner]deafness
	refused  map[lockmgr.Owner]refusal
	barred   map[lockmgr.Owner]time.Time // until when
}

// fact is what one process knows of a key.
type fact struct {
	own  sighting // what it has itself read or made
	lent sighting // what a descendant of it has
}

// sighting is one look at a version. The zero sighting is none.
type sighting struct {
	number uint64 // 0: a version that is too long ago to tell
	// through is the last version up to which every later one was made by the
	// process itself or by a descendant of it.
	through uint64
	at      time.Time
	made    bool // by a process that has written the file and never read it
}

// deafness keeps a process from learning for a while.
type deafness struct {
	until time.Time
	next  time.Duration // how long the next one lasts
}

// refusal is what a process was refused since it learned of the version that it knows.
type refusal struct {
	version uint64
	at      time.Time // for the first time
	last    time.Time // it was refused
	another bool      // it was somebody else who was refused, for what the process had written
	looked  bool      // it has read the file since the last refusal, while it was deaf
}

// look notes a look that teaches nobody anything. What its chain tries next is made
// from that, or from what it knew before: nobody can tell, so that it does not insist.
func (x *file) look(who Who) {
	for _, o := range who.chain() {
		if r, ok := x.refused[o]; ok {
			r.looked = true
			x.refused[o] = r
		}
	}
}

func newFile(stamp Stamp) *file {
	return &file{changes: []Change{{Number: 1, Stamp: stamp}}}
}

func (x *file) current() *Change { return &x.changes[len(x.changes)-1] }

// find is the number of a remembered version; 0 of no such version.
func (x *file) find(stamp Stamp) uint64 {
	for i := len(x.changes) - 1; i >= 0; i-- {
		if x.changes[i].Stamp == stamp {
			return x.changes[i].Number
		}
	}
	return 0
}

// version is a remembered version by its number, or nil.
func (x *file) version(number uint64) *Change {
	if first := x.changes[0].Number; number >= first && number <= x.current().Number {
		return &x.changes[number-first]
	}
	return nil
}

// advance makes stamp the current version, if it is not, and returns its number.
func (x *file) advance(now time.Time, stamp Stamp) uint64 {
	last := x.current()
	if last.Stamp == stamp {
		return last.Number
	}
	number := last.Number + 1
	if len(x.changes) == remembered {
		x.changes = slices.Delete(x.changes, 0, 1)
	}
	x.changes = append(x.changes, Change{Number: number, Stamp: stamp, Author: Author{Time: now}})
	return number
}

// best is what a process knows that still counts: the newest version.
func (x *file) best(o lockmgr.Owner, now time.Time, fade time.Duration) (sighting, bool) {
	k := x.facts.get(o)
	own, lent := k.own, k.lent
	if now.Sub(lent.at) > fade {
		lent = sighting{}
	}
	best := own
	if lent.newer(own) {
		best = lent
	}
	if !own.at.IsZero() && !lent.at.IsZero() {
		best.made = own.made && lent.made
	}
	return best, !best.at.IsZero()
}

// newer reports whether s tells of a newer version than o does; of one version the
// look counts before the making of it, and then the later.
func (s sighting) newer(o sighting) bool {
	switch {
	case s.at.IsZero() || o.at.IsZero():
		return o.at.IsZero() && !s.at.IsZero()
	case s.number != o.number:
		return s.number > o.number
	case s.made != o.made:
		return o.made
	}
	return s.at.After(o.at)
}

// learn tells a process and its relatives of a version.
func (x *file) learn(who Who, s sighting) {
	for _, o := range who.chain() {
		x.tell(o, o == who.Self, s)
	}
}

// tell notes what a process has learned. That an older version was read, by an open
// that a newer one has overtaken, is no news.
func (x *file) tell(o lockmgr.Owner, own bool, s sighting) {
	k := x.facts.get(o)
	at := &k.lent
	if own {
		at = &k.own
	}
	if s.number >= at.number {
		s.through = max(s.number, at.through)
		*at = s
	} else {
		at.made = at.made && s.made // but it has read the file
	}
	x.facts.put(o, k)
}

// foreign is the last of the changes since a sighting that neither the process that
// has it nor a descendant of it has made; nil if there is none. A file that one of
// these has removed on purpose, and that was not created anew at once, is settled:
// whatever was made before that is nobody's loss any more.
func foreign(changes []Change, o lockmgr.Owner, s sighting, now time.Time) *Change {
	for i := len(changes) - 1; i >= 0; i-- {
		c := &changes[i]
		switch {
		case c.Number <= s.through:
			return nil
		case !c.madeBy(o):
			return c
		case c.Stamp == (Stamp{}) && now.Sub(c.Author.Time) > rebirth:
			return nil
		}
	}
	if len(changes) > 0 && changes[0].Number > s.through+1 {
		return &changes[0] // what came before it is forgotten, and may be anybody's
	}
	return nil
}

// replaced lists the changes up to the version that a change of the key would replace.
// That is the current one or, if there is no file because somebody on the chain has
// just removed it, the one before. There is none if the file was removed by somebody
// else, or some time ago.
func (x *file) replaced(chain []lockmgr.Owner, now time.Time) []Change {
	last := x.current()
	switch {
	case last.Stamp != Stamp{}:
		return x.changes
	case now.Sub(last.Author.Time) > rebirth || !slices.ContainsFunc(chain, last.madeBy):
		return nil
	}
	// What was appended meanwhile is in the history: a log that is rotated may get a
	// last line while it is removed.
	return slices.DeleteFunc(slices.Clone(x.changes[:len(x.changes)-1]), func(c Change) bool { return c.added })
}

// follow notes that a process with this lineage is about to make stamp the current
// version: to those of them whom no change before was news this one is none either.
func (x *file) follow(now time.Time, stamp Stamp, lineage []lockmgr.Owner) {
	before, number := x.changes, x.current().Number+1
	if x.current().Stamp == stamp { // somebody has met it there already
		before, number = before[:len(before)-1], number-1
	}
	for _, o := range lineage {
		k := x.facts.get(o)
		for _, s := range []*sighting{&k.own, &k.lent} {
			if !s.at.IsZero() && foreign(before, o, *s, now) == nil {
				s.through = max(s.through, number)
			}
		}
		x.facts.put(o, k)
	}
}

// expected is a change that is about to happen.
type expected struct {
	stamp Stamp // the zero Stamp: any, for a file that is written in place
	who   Who
	by    Author
}

// arrive makes a version current of which nobody has said who made it, unless
// somebody was about to.
func (x *file) arrive(now time.Time, fade time.Duration, stamp Stamp) {
	if e := x.expected; e != nil && (e.stamp == stamp || e.stamp == (Stamp{})) {
		x.change(now, fade, stamp, e.who, e.by)
		return
	}
	x.advance(now, stamp)
}

// record makes stamp the current version, which who has made, and returns its number.
func (x *file) record(now time.Time, stamp Stamp, who Who, by Author) uint64 {
	nobody := who.IsNobody()
	if !nobody {
		x.follow(now, stamp, who.lineage())
	}
	number := x.advance(now, stamp)
	last := x.current()
	by.Time = now
	last.Author, last.owners, last.above, last.added = by, nil, nil, false
	if !nobody {
		last.owners, last.above = who.family(), who.Above
	}
	return number
}

// change makes stamp the current version, which who has made, and tells those of it
// who are credited with what it does. A process that removes what it has not seen goes
// on knowing what it knew: what it creates next is decided by that.
func (x *file) change(now time.Time, fade time.Duration, stamp Stamp, who Who, by Author) {
	x.expected = nil
	if who.IsNobody() {
		x.record(now, stamp, who, by)
		return
	}
	chain := who.chain()
	unseen := stamp == (Stamp{}) && x.basis(now, fade, chain, Readers).Stale
	number := x.record(now, stamp, who, by)
	if unseen {
		return
	}
	for _, o := range chain {
		had, ok := x.best(o, now, fade)
		x.tell(o, o == who.Self, sighting{number: number, at: now, made: !ok || had.made})
	}
}

// basis is what the decider knows: the first on the chain that knows a version, of
// those whose knowledge counts.
func (x *file) basis(now time.Time, fade time.Duration, chain []lockmgr.Owner, counts Counts) Basis {
	b := Basis{Current: x.current().Number}
	var s sighting
	for _, o := range chain {
		var ok bool
		if s, ok = x.best(o, now, fade); !ok || s.made && counts == Readers {
			continue
		}
		b.Known, b.Version, b.By, b.At, b.Made = true, s.number, o, s.at, s.made
		break
	}
	if !b.Known || b.Version == b.Current {
		return b
	}
	if known := x.version(b.Version); known != nil {
		if known.Stamp == (Stamp{}) && now.Sub(b.At) > rebirth {
			return Basis{Current: b.Current} // that there was none some time ago is no basis
		}
		b.Stamp, b.Own = known.Stamp, known.madeBy(b.By)
		if known.Stamp == x.current().Stamp {
			return b // it is back
		}
		b.Absent = known.Stamp == Stamp{}
	}
	newer := foreign(x.replaced(chain, now), b.By, s, now)
	if newer == nil {
		return b
	}
	b.Stale, b.Newer = true, *newer
	b.Insists, b.ForAnother = x.insists(now, &b)
	for _, c := range x.changes {
		if c.Number > b.Version {
			b.Since = append(b.Since, c)
		}
	}
	return b
}
