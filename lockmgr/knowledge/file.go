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
	informed uint64   // the last version made by somebody who had looked
	facts    map[lockmgr.Owner]fact
	expected *expected
	deaf     map[lockmgr.Owner]deafness
}

// fact is what one process knows of a key.
type fact struct {
	own  sighting // what it has itself read or made
	lent sighting // what a relative has
}

// sighting is one look at a version. The zero sighting is none.
type sighting struct {
	number uint64 // 0: a version that is too long ago to tell
	at     time.Time
	blind  bool // made without ever having looked
}

// deafness keeps a process from learning for a while.
type deafness struct {
	until time.Time
	next  time.Duration // how long the next one lasts
}

func newFile(stamp Stamp) *file {
	return &file{changes: []Change{{Number: 1, Stamp: stamp}}, facts: map[lockmgr.Owner]fact{}}
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

// best is what a process knows that still counts: the latest.
func (x *file) best(o lockmgr.Owner, now time.Time, fade time.Duration) (sighting, bool) {
	k, ok := x.facts[o]
	if !ok {
		return sighting{}, false
	}
	faded := func(s sighting) bool { return now.Sub(s.at) > fade }
	own, lent := k.own, k.lent
	if own.blind && faded(own) {
		own = sighting{}
	}
	if faded(lent) {
		lent = sighting{}
	}
	if lent.later(own) {
		own = lent
	}
	return own, !own.at.IsZero()
}

// later reports whether s is what was learned last, of two versions at one moment the
// newer.
func (s sighting) later(o sighting) bool {
	return s.at.After(o.at) || s.at.Equal(o.at) && s.number > o.number
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
	k := x.facts[o]
	at := &k.lent
	if own {
		at = &k.own
	}
	if s.number >= at.number {
		*at = s
		x.facts[o] = k
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
	if number := x.advance(now, stamp); x.informed < number {
		x.informed = number
	}
}

// change makes stamp the current version, which who has made, and tells those of it.
// Each of them who has not looked at any version before knows this one blindly.
func (x *file) change(now time.Time, fade time.Duration, stamp Stamp, who Who, by Author) {
	x.expected = nil
	chain, nobody := who.chain(), who.Self == (lockmgr.Owner{})
	if nobody {
		chain = nil
	}
	looked := nobody || x.basis(now, fade, chain).looked
	number := x.advance(now, stamp)
	last := x.current()
	by.Time = now
	last.Author, last.owners = by, nil
	if looked {
		x.informed = number
	}
	if nobody {
		return
	}
	last.owners = who.family()
	for _, o := range chain {
		had, ok := x.best(o, now, fade)
		x.tell(o, o == who.Self, sighting{number: number, at: now, blind: !ok || had.blind})
	}
}

// basis is what the first on the chain who knows a version knows.
func (x *file) basis(now time.Time, fade time.Duration, chain []lockmgr.Owner) Basis {
	b := Basis{Current: x.current().Number}
	for _, o := range chain {
		s, ok := x.best(o, now, fade)
		if !ok {
			continue
		}
		b.Known, b.Version, b.By, b.At, b.looked = true, s.number, o, s.at, !s.blind
		break
	}
	if !b.Known || b.Version == b.Current {
		return b
	}
	if known := x.version(b.Version); known != nil {
		if known.Stamp == (Stamp{}) && now.Sub(b.At) > rebirth {
			return Basis{Current: b.Current} // that there was none some time ago is no basis
		}
		if known.Stamp == x.current().Stamp {
			return b // it is back
		}
		b.Absent = known.Stamp == Stamp{}
	}
	b.Ours = b.Version+1 >= x.changes[0].Number
	for _, c := range x.changes {
		if c.Number == b.Version {
			b.Stamp = c.Stamp
		}
		if c.Number > b.Version {
			b.Since = append(b.Since, c)
			b.Ours = b.Ours && slices.ContainsFunc(c.owners, func(o lockmgr.Owner) bool { return slices.Contains(chain, o) })
		}
	}
	b.Stale = b.looked || x.informed > b.Version && !b.Ours
	return b
}
