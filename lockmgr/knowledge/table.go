package knowledge

import (
	"slices"
	"strings"
	"sync"
	"sync/atomic"
	"time"

	"latchfs/lockmgr"
)

// MaxFacts bounds what a Table remembers: so many pairs of a key and a process,
// about 200 bytes each. Beyond it the keys that were touched longest ago are
// forgotten.
const MaxFacts = 100_000

// Table remembers who knows which versions. Its methods may be called by several
// goroutines at once. Its mutex is a leaf: nothing else is locked under it.
type Table struct {
	fade time.Duration

	news atomic.Uint64 // rises with every change

	mu    sync.Mutex
	files map[Key]*entry
	facts int // in all files
	tick  uint64
}

// entry is a file with the moment of its last use.
type entry struct {
	*file
	used uint64
}

// New returns an empty table in which what relatives know counts for fade, unless
// Check says otherwise.
func New(fade time.Duration) *Table {
	return &Table{fade: fade, files: map[Key]*entry{}}
}

// News rises whenever the table has changed so that it should be saved.
func (t *Table) News() uint64 { return t.news.Load() }

// use returns what is known of a key, nil if nothing. mu is held.
func (t *Table) use(key Key) *entry {
	e := t.files[key]
	if e != nil {
		t.tick++
		e.used = t.tick
	}
	return e
}

// make is use for a key that is to be remembered from now on.
func (t *Table) make(key Key, stamp Stamp) *entry {
	e := t.use(key)
	if e == nil {
		t.tick++
		e = &entry{newFile(stamp), t.tick}
		t.files[key] = e
	}
	return e
}

// counted runs a change of what is known of a key and counts the facts.
func (t *Table) counted(e *entry, change func()) {
	t.news.Add(1)
	before := len(e.facts)
	change()
	t.facts += len(e.facts) - before
	if t.facts > MaxFacts {
		t.shrink()
	}
}

// Knows reports whether the process has itself seen this version as the current
// one within the last while, so that there is nothing to tell it: the cheap
// question before Saw.
func (t *Table) Knows(now time.Time, key Key, stamp Stamp, self lockmgr.Owner, within time.Duration) bool {
	t.mu.Lock()
	defer t.mu.Unlock()
	e := t.use(key)
	if e == nil || e.current().Stamp != stamp {
		return false
	}
	s := e.facts[self].own
	return s.number == e.current().Number && !s.blind && now.Sub(s.at) < within
}

// Saw notes that somebody has opened the version stamp of key for reading. It is
// false if that is no version that is remembered, which may be newer or older than
// the current one: the caller finds out with Found, and tells it again.
func (t *Table) Saw(now time.Time, key Key, stamp Stamp, who Who) bool {
	t.mu.Lock()
	defer t.mu.Unlock()
	e := t.make(key, stamp)
	if e.isDeaf(who.Self, now) {
		return true
	}
	number := e.find(stamp)
	t.counted(e, func() { e.learn(who, sighting{number: number, at: now}) })
	return number != 0
}

// Found says which version is under the key now, whoever has put it there. What it
// has been is no news.
func (t *Table) Found(now time.Time, key Key, stamp Stamp) {
	t.mu.Lock()
	defer t.mu.Unlock()
	e := t.use(key)
	if e != nil && e.find(stamp) == 0 {
		t.counted(e, func() { e.arrive(now, t.fade, stamp) })
	}
}

// Changed notes that who has made stamp the current version of key.
func (t *Table) Changed(now time.Time, key Key, stamp Stamp, who Who, by Author) {
	t.mu.Lock()
	defer t.mu.Unlock()
	e := t.use(key)
	if e == nil && who.Self == (lockmgr.Owner{}) {
		return // nobody to remember it
	}
	if e == nil {
		e = t.make(key, stamp)
	}
	t.counted(e, func() { e.change(now, t.fade, stamp, who, by) })
}

// Expect notes that who is about to make stamp the current version of key, or one
// whose stamp is not known yet: whoever finds that there before Changed says so knows
// whose it is. Expected takes it back, if it has not come.
func (t *Table) Expect(key Key, stamp Stamp, who Who, by Author) {
	t.mu.Lock()
	defer t.mu.Unlock()
	if e := t.use(key); e != nil {
		e.expected = &expected{stamp, who, by}
	}
}

// Expected says that nothing is about to happen to key.
func (t *Table) Expected(key Key) {
	t.mu.Lock()
	defer t.mu.Unlock()
	if e := t.use(key); e != nil {
		e.expected = nil
	}
}

// Added notes that who has appended to the version before, which is stamp now. Who
// appends need not have looked at what is there: who knew the version before knows
// this one, who did not still does not.
func (t *Table) Added(now time.Time, key Key, before, stamp Stamp, who Who, by Author) {
	t.mu.Lock()
	defer t.mu.Unlock()
	e := t.use(key)
	if e == nil {
		return
	}
	t.counted(e, func() {
		if e.find(before) == 0 {
			e.arrive(now, t.fade, before)
		}
		knew := e.basis(now, t.fade, who.chain())
		number := e.advance(now, stamp)
		last := e.current()
		by.Time = now
		last.Author, last.owners = by, nil
		if who.Self != (lockmgr.Owner{}) {
			last.owners = who.family()
		}
		e.informed = number
		if knew.Known && !knew.Stale {
			e.learn(who, sighting{number: number, at: now})
		}
	})
}

// Restamp notes that the version before has got another stamp and is the same
// version still: its times were set.
func (t *Table) Restamp(key Key, before, stamp Stamp) {
	t.mu.Lock()
	defer t.mu.Unlock()
	if e := t.use(key); e != nil && e.current().Stamp == before {
		e.current().Stamp = stamp
	}
}

// Check says what is known of key to those on the chain, the nearest first. stamp
// is the version that is there now; fade is how long a relative's knowledge counts.
func (t *Table) Check(now time.Time, key Key, stamp Stamp, chain []lockmgr.Owner, fade time.Duration) Basis {
	t.mu.Lock()
	defer t.mu.Unlock()
	e := t.use(key)
	if e == nil {
		return Basis{}
	}
	if e.current().Stamp != stamp {
		t.counted(e, func() { e.arrive(now, t.fade, stamp) })
	}
	return e.basis(now, fade, chain)
}

// onceRefused is how long somebody is refused who has only ever written: he never
// reads, and so would never be told of a newer version.
const onceRefused = 10 * time.Second

// Refused notes that a change was refused for what b says. A process that has only
// ever written may do so again after ten seconds.
func (t *Table) Refused(now time.Time, key Key, b *Basis, fade time.Duration) {
	t.mu.Lock()
	defer t.mu.Unlock()
	e := t.use(key)
	if e == nil || b.looked {
		return
	}
	k, ok := e.facts[b.By]
	soon := now.Add(onceRefused - fade)
	if ok && k.own.blind && k.own.at.After(soon) {
		k.own.at = soon
	}
	if ok && k.lent.blind && k.lent.at.After(soon) {
		k.lent.at = soon
	}
	e.facts[b.By] = k
	if !ok {
		delete(e.facts, b.By)
	}
}

// WrittenBy is who has made the version stamp of key, and its relatives; none if
// that is not known.
func (t *Table) WrittenBy(key Key, stamp Stamp) []lockmgr.Owner {
	t.mu.Lock()
	defer t.mu.Unlock()
	e := t.use(key)
	if e == nil || e.current().Stamp != stamp {
		return nil
	}
	return slices.Clone(e.current().owners)
}

// deafFor is how long somebody learns nothing after a refusal, the first time;
// each further time in a row it is half as long.
const deafFor = 2 * time.Second

// Deafen keeps a process from learning anything of key for two seconds: it was
// refused, and what it reads next is not what it is going to write (DESIGN §6).
// Who is refused again right after that is deaf for half as long each time, so that
// a program that does read again and try again gets its turn.
func (t *Table) Deafen(now time.Time, key Key, self lockmgr.Owner) {
	t.mu.Lock()
	defer t.mu.Unlock()
	e := t.use(key)
	if e == nil {
		return
	}
	if e.deaf == nil {
		e.deaf = map[lockmgr.Owner]deafness{}
	}
	d, ok := e.deaf[self]
	if !ok || now.Sub(d.until) > fadeOfDeafness {
		d.next = deafFor
	}
	if now.Before(d.until) {
		return // it is deaf already
	}
	e.deaf[self] = deafness{until: now.Add(d.next), next: d.next / 2}
}

// fadeOfDeafness is after how long a refusal is no longer one in a row.
const fadeOfDeafness = 10 * time.Second

func (x *file) isDeaf(o lockmgr.Owner, now time.Time) bool {
	d, ok := x.deaf[o]
	return ok && now.Before(d.until)
}

// Share notes that what is known of one key is known of another too: they are names
// of one file. A version that the other has not had is one that is too long ago to
// tell.
func (t *Table) Share(from, to Key) {
	t.mu.Lock()
	defer t.mu.Unlock()
	e := t.use(from)
	if e == nil || from == to {
		return
	}
	other := t.make(to, e.current().Stamp)
	t.counted(other, func() {
		for o, k := range e.facts {
			had := other.facts[o]
			if own := e.in(other.file, k.own); own.later(had.own) {
				had.own = own
			}
			if lent := e.in(other.file, k.lent); lent.later(had.lent) {
				had.lent = lent
			}
			if had != (fact{}) {
				other.facts[o] = had
			}
		}
	})
}

// in is a sighting as the one of another key of the same file.
func (x *file) in(other *file, s sighting) sighting {
	if s.at.IsZero() {
		return s
	}
	v := x.version(s.number)
	s.number = 0
	if v != nil {
		s.number = other.find(v.Stamp)
	}
	return s
}

// Moved notes that who has renamed a directory from the key from to the key to, or
// exchanged the two. What was known of the names stays known, and has changed; what was
// known of the files goes along; and who knows what it has done.
func (t *Table) Moved(now time.Time, from, to Key, exchanged bool, who Who, by Author) {
	t.mu.Lock()
	defer t.mu.Unlock()
	arrivals := t.below(from, to)
	if exchanged {
		arrivals = append(arrivals, t.below(to, from)...)
	}
	for _, a := range arrivals {
		old := t.files[a.from]
		t.counted(old, func() { old.change(now, t.fade, Stamp{}, who, by) })
	}
	for _, a := range arrivals {
		e := t.make(a.to, Stamp{})
		t.counted(e, func() {
			e.file = merged(e.file, a.file)
			if who.Self != (lockmgr.Owner{}) {
				e.learn(who, sighting{number: e.current().Number, at: now})
			}
		})
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
	c := &file{changes: slices.Clone(x.changes), informed: x.informed, facts: make(map[lockmgr.Owner]fact, len(x.facts))}
	for o, k := range x.facts {
		c.facts[o] = k
	}
	return c
}

// merged puts what is known of a file that arrives under a key behind what was known
// of the key. The numbers of the one that arrives follow on those of the other.
func merged(there, arrives *file) *file {
	x := there.clone()
	x.deaf = there.deaf
	shift := there.current().Number
	moved := func(s sighting) sighting {
		if s.number != 0 {
			s.number += shift
		}
		return s
	}
	for _, c := range arrives.changes {
		c.Number += shift
		x.changes = append(x.changes, c)
	}
	x.changes = x.changes[max(0, len(x.changes)-remembered):]
	x.informed = x.current().Number
	for o, k := range arrives.facts {
		had := x.facts[o]
		if own := moved(k.own); own.later(had.own) {
			had.own = own
		}
		if lent := moved(k.lent); lent.later(had.lent) {
			had.lent = lent
		}
		x.facts[o] = had
	}
	return x
}

// Tracks reports whether anything is known of a key.
func (t *Table) Tracks(key Key) bool {
	t.mu.Lock()
	defer t.mu.Unlock()
	return t.files[key] != nil
}
