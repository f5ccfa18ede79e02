package knowledge

import (
	"maps"
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
	return s.number == e.current().Number && !s.made && now.Sub(s.at) < within
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

// Added notes that who has appended to the version before, which is stamp now. A
// program that appends need not have read what is there: it learns nothing by that, and
// to whom the version before was no news its own record is none either.
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
		e.record(now, stamp, who, by)
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

// Check says what the decider of the chain, the nearest process first, knows of key.
// stamp is the version that is there now; fade is how long it counts what a process has
// learned through a descendant. What a process in also, or a descendant of it, has
// changed is nobody else's change, as if it were the decider.
func (t *Table) Check(now time.Time, key Key, stamp Stamp, chain []lockmgr.Owner, fade time.Duration, counts Counts, also ...lockmgr.Owner) Basis {
	t.mu.Lock()
	defer t.mu.Unlock()
	e := t.use(key)
	if e == nil {
		return Basis{}
	}
	if e.current().Stamp != stamp {
		t.counted(e, func() { e.arrive(now, t.fade, stamp) })
	}
	b := e.basis(now, fade, chain, counts, also)
	b.Key = key
	return b
}

// A process that tries again after a refusal insists, unless that was at once, as a
// program does that knows no better, or so much later that nobody remembers.
const (
	insistAfter  = time.Second
	insistWithin = 10 * time.Minute
)

// Refused notes that a change by the process self was refused for what b says. Whether
// the decider insists counts from the first refusal since it has learned of the version
// that it knows.
func (t *Table) Refused(now time.Time, b *Basis, self lockmgr.Owner) {
	t.mu.Lock()
	defer t.mu.Unlock()
	e := t.use(b.Key)
	if e == nil {
		return
	}
	if e.barred == nil {
		e.barred = map[lockmgr.Owner]time.Time{}
	}
	e.barred[self] = now.Add(barredFor)
	if r, ok := e.refused[b.By]; ok && r.version == b.Version && now.Sub(r.at) <= insistWithin {
		return
	}
	if e.refused == nil {
		e.refused = map[lockmgr.Owner]refusal{}
	}
	e.refused[b.By] = refusal{b.Version, now}
}

// Obeyed notes that the decider has insisted and is let through: what it did not know
// it has been told of.
func (t *Table) Obeyed(now time.Time, b *Basis) {
	t.mu.Lock()
	defer t.mu.Unlock()
	e := t.use(b.Key)
	if e == nil {
		return
	}
	t.counted(e, func() {
		delete(e.refused, b.By)
		delete(e.deaf, b.By)
		delete(e.barred, b.By)
		e.tell(b.By, !e.facts[b.By].own.at.IsZero(), sighting{number: e.current().Number, at: now})
	})
}

// WrittenBy is the process that has made the version stamp of key, with its relatives,
// and what is known of it; none if that is not known.
func (t *Table) WrittenBy(key Key, stamp Stamp) ([]lockmgr.Owner, Author) {
	t.mu.Lock()
	defer t.mu.Unlock()
	e := t.use(key)
	if e == nil || e.current().Stamp != stamp {
		return nil, Author{}
	}
	return slices.Clone(e.current().owners), e.current().Author
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

// Barred reports whether a process was itself refused a moment ago, so that a removal by
// it is no decision of its own but the next step of the same change.
func (t *Table) Barred(now time.Time, key Key, self lockmgr.Owner) bool {
	t.mu.Lock()
	defer t.mu.Unlock()
	e := t.files[key]
	return e != nil && now.Before(e.barred[self])
}

// JustRemoved reports whether the key holds no file any more, and what is created under
// it now may be the second step of one change.
func (t *Table) JustRemoved(now time.Time, key Key) bool {
	t.mu.Lock()
	defer t.mu.Unlock()
	e := t.files[key]
	return e != nil && e.current().Stamp == Stamp{} && now.Sub(e.current().Author.Time) <= rebirth
}

// barredFor is how long after a refusal the removal of the file belongs to the change
// that was refused.
const barredFor = 2 * time.Second

// Restored notes that the version stamp, which somebody has removed, has its name back:
// it is whose it was.
func (t *Table) Restored(key Key, stamp Stamp) {
	t.mu.Lock()
	defer t.mu.Unlock()
	e := t.use(key)
	if e == nil {
		return
	}
	was := e.version(e.find(stamp))
	if was == nil || e.current().Stamp == stamp {
		return
	}
	t.counted(e, func() {
		author, owners, above := was.Author, was.owners, was.above
		e.advance(author.Time, stamp)
		last := e.current()
		last.Author, last.owners, last.above = author, owners, above
	})
}

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
			if own := e.in(other.file, k.own); own.newer(had.own) {
				had.own = own
			}
			if lent := e.in(other.file, k.lent); lent.newer(had.lent) {
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
	number := func(n uint64) uint64 {
		if v := x.version(n); v != nil {
			return other.find(v.Stamp)
		}
		return 0
	}
	s.number = number(s.number)
	s.through = max(s.number, number(s.through))
	return s
}

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
		t.counted(old, func() { old.record(now, Stamp{}, who, by) })
	}
	for _, a := range arrivals {
		e := t.make(a.to, Stamp{})
		t.counted(e, func() { e.file = merged(e.file, a.file) })
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
		changes: slices.Clone(x.changes), facts: maps.Clone(x.facts), deaf: maps.Clone(x.deaf),
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
	for o, k := range arrives.facts {
		had := x.facts[o]
		if own := moved(k.own); own.newer(had.own) {
			had.own = own
		}
		if lent := moved(k.lent); lent.newer(had.lent) {
			had.lent = lent
		}
		x.facts[o] = had
	}
	for o, r := range arrives.refused {
		if x.refused == nil {
			x.refused = map[lockmgr.Owner]refusal{}
		}
		x.refused[o] = refusal{shift(r.version), r.at}
	}
	return x
}

// Tracks reports whether anything is known of a key.
func (t *Table) Tracks(key Key) bool {
	t.mu.Lock()
	defer t.mu.Unlock()
	return t.files[key] != nil
}
