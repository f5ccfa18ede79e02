package knowledge

import (
	"slices"
	"sync"
	"sync/atomic"
	"time"

	"latchfs/lockmgr"
)

// MaxBytes bounds the memory that a Table takes, by an estimate. Beyond it the keys that
// were touched longest ago are forgotten.
const MaxBytes = 8 << 20

// About what things take, in bytes.
const (
	bytesOfKey    = 200 // besides its name
	bytesOfChange = 200
	bytesOfFact   = 112
	bytesInMap    = 250 // of a fact
)

// Table remembers who knows which versions. Its methods may be called by several
// goroutines at once. Its mutex is a leaf: nothing else is locked under it.
type Table struct {
	fade time.Duration

	news atomic.Uint64 // rises with every change

	mu    sync.Mutex
	files map[Key]*entry
	facts int // in all files
	bytes int // of all files
	most  int // how many those may be
	tick  uint64
	live  int64 // how long the records are that count: see Live
	// unsaved are the keys of which the log does not say what is known now, with
	// whether it says anything of them.
	unsaved map[Key]bool
}

// entry is a file with the moment of its last use.
type entry struct {
	*file
	used    uint64
	counted int   // facts
	bytes   int   // that it takes
	logged  int64 // the length of what the log says of it, 0 if that is nothing
}

// New returns an empty table in which what relatives know counts for fade, unless
// Check says otherwise.
func New(fade time.Duration) *Table {
	return &Table{fade: fade, files: map[Key]*entry{}, unsaved: map[Key]bool{}, most: MaxBytes}
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
		e = &entry{file: newFile(stamp), used: t.tick}
		t.files[key] = e
	}
	return e
}

// count adds up what an entry takes, after a change. mu is held.
func (t *Table) count(key Key, e *entry) {
	facts := e.facts.len()
	bytes := bytesOfKey + len(key) + bytesOfChange*len(e.changes) + bytesOfFact*len(e.facts.few) + bytesInMap*len(e.facts.many)
	t.facts += facts - e.counted
	t.bytes += bytes - e.bytes
	e.counted, e.bytes = facts, bytes
}

// counted runs a change of what is known of a key and counts what that takes.
func (t *Table) counted(key Key, e *entry, change func()) {
	t.news.Add(1)
	t.outdated(key, e)
	change()
	t.count(key, e)
	if t.bytes > t.most {
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
	s := e.facts.get(self).own
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
		e.look(who)
		return true
	}
	number := e.find(stamp)
	t.counted(key, e, func() { e.learn(who, sighting{number: number, at: now}) })
	return number != 0
}

// Found says which version is under the key now, whoever has put it there. What it
// has been is no news.
func (t *Table) Found(now time.Time, key Key, stamp Stamp) {
	t.mu.Lock()
	defer t.mu.Unlock()
	e := t.use(key)
	if e != nil && e.find(stamp) == 0 {
		t.counted(key, e, func() { e.arrive(now, t.fade, stamp) })
	}
}

// Changed notes that who has made stamp the current version of key.
func (t *Table) Changed(now time.Time, key Key, stamp Stamp, who Who, by Author) {
	t.mu.Lock()
	defer t.mu.Unlock()
	e := t.use(key)
	if e == nil && who.IsNobody() {
		return // nobody to remember it
	}
	if e == nil {
		e = t.make(key, stamp)
	}
	t.counted(key, e, func() { e.change(now, t.fade, stamp, who, by) })
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
	t.counted(key, e, func() {
		if e.find(before) == 0 {
			e.arrive(now, t.fade, before)
		}
		e.record(now, stamp, who, by)
		e.current().added = true
	})
}

// Restamp notes that the version before has got another stamp and is the same
// version still: its times were set.
func (t *Table) Restamp(key Key, before, stamp Stamp) {
	t.mu.Lock()
	defer t.mu.Unlock()
	if e := t.use(key); e != nil && e.current().Stamp == before {
		e.current().Stamp = stamp
		t.outdated(key, e)
	}
}

// Check says what the decider of the chain, the nearest process first, knows of key.
// stamp is the version that is there now; fade is how long it counts what a process has
// learned through a descendant.
func (t *Table) Check(now time.Time, key Key, stamp Stamp, chain []lockmgr.Owner, fade time.Duration, counts Counts) Basis {
	t.mu.Lock()
	defer t.mu.Unlock()
	e := t.use(key)
	if e == nil {
		return Basis{}
	}
	if e.current().Stamp != stamp {
		t.counted(key, e, func() { e.arrive(now, t.fade, stamp) })
	}
	b := e.basis(now, fade, chain, counts)
	b.Key = key
	return b
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
	t.counted(to, other, func() {
		for o, k := range e.facts.all() {
			had := other.facts.get(o)
			if own := e.in(other.file, k.own); own.newer(had.own) {
				had.own = own
			}
			if lent := e.in(other.file, k.lent); lent.newer(had.lent) {
				had.lent = lent
			}
			other.facts.put(o, had)
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

// Tracks reports whether anything is known of a key.
func (t *Table) Tracks(key Key) bool {
	t.mu.Lock()
	defer t.mu.Unlock()
	return t.files[key] != nil
}
