package knowledge

import (
	"fmt"
	"iter"
	"maps"
	"slices"
)

// A table outlives its process as a log of records that somebody else writes: Unsaved hands
// out what has changed since the last time, Records all there is, for a log that begins
// anew, and Replay takes either back. A record replaces what earlier ones said of its
// keys. Who was refused, and who learns nothing for the moment, is not in them.
// Each record says of which life of the machine it is, which the caller names: in another
// one processes are others.

const (
	// recordSize is about how long a record is, in bytes, unless there is one key of
	// which more is known.
	recordSize = 64 << 10
	// factsAtOnce is how many facts of a key stand in a row.
	factsAtOnce = 1000
)

// outdated notes that the log does not say what is known of key now. mu is held.
func (t *Table) outdated(key Key, e *entry) {
	if _, ok := t.unsaved[key]; !ok {
		t.unsaved[key] = e.logged > 0
	}
}

// dropLocked forgets a key.
func (t *Table) dropLocked(key Key, e *entry) {
	if e.logged > 0 {
		t.unsaved[key] = true
	} else if !t.unsaved[key] {
		delete(t.unsaved, key)
	}
	t.removeLocked(key, e)
}

func (t *Table) removeLocked(key Key, e *entry) {
	t.facts -= e.counted
	t.bytes -= e.bytes
	t.live -= e.logged
	delete(t.files, key)
}

// Live is about how many bytes the records of what is known now would take.
func (t *Table) Live() int64 {
	t.mu.Lock()
	defer t.mu.Unlock()
	return t.live
}

// Unsaved yields records of what has changed since it was last called; a record is the
// caller's. What is not taken is lost for the log, as is what could not be written: it
// has to begin anew then, with Records.
func (t *Table) Unsaved(boot string) iter.Seq[[]byte] {
	t.mu.Lock()
	unsaved := t.unsaved
	t.unsaved = map[Key]bool{}
	t.mu.Unlock()
	return t.records(boot, slices.Sorted(maps.Keys(unsaved)), unsaved)
}

// Records yields records of all that is known.
func (t *Table) Records(boot string) iter.Seq[[]byte] {
	t.mu.Lock()
	keys := slices.Sorted(maps.Keys(t.files))
	t.mu.Unlock()
	return t.records(boot, keys, nil)
}

// records yields records of these keys. logged says of which the log knows, so that it
// has to be told if they are forgotten.
func (t *Table) records(boot string, keys []Key, logged map[Key]bool) iter.Seq[[]byte] {
	return func(yield func([]byte) bool) {
		for len(keys) > 0 {
			w := writer{encoder: newEncoder(boot), boot: boot}
			n := t.fill(&w, keys, logged)
			keys = keys[n:]
			for _, b := range w.records() {
				if !yield(b) {
					return
				}
			}
		}
	}
}

// longestKey bounds the keys of which records tell. Directories that were moved into one another make
// longer paths than any program can name, and one of them would not fit into a record.
const longestKey = 64 << 10

// fill writes of the first keys until there is enough for a record, and says of how many.
func (t *Table) fill(w *writer, keys []Key, logged map[Key]bool) int {
	t.mu.Lock()
	defer t.mu.Unlock()
	for i, key := range keys {
		if len(w.b) > recordSize || len(w.full) > 0 {
			return i
		}
		if len(key) > longestKey {
			continue
		}
		e := t.files[key]
		if e == nil {
			if logged[key] {
				w.begin(key, forgotten)
			}
			continue
		}
		size := w.file(key, e.file)
		t.live += size - e.logged
		e.logged = size
	}
	return len(keys)
}

// writer writes records, one after the other.
type writer struct {
	*encoder
	boot string
	full [][]byte
}

func (w *writer) records() [][]byte {
	if w.started {
		w.cut()
	}
	return w.full
}

// cut ends a record.
func (w *writer) cut() {
	w.full = append(w.full, stuff(nil, w.b))
	w.encoder = newEncoder(w.boot)
}

// file writes what is known of a key, and returns how many bytes that takes.
func (w *writer) file(key Key, x *file) int64 {
	size := -int64(len(w.b))
	w.begin(key, known)
	w.uint(uint64(len(x.changes)))
	w.uint(x.changes[0].Number)
	for i := range x.changes {
		w.change(&x.changes[i])
	}
	left := x.facts.len()
	w.uint(uint64(min(left, factsAtOnce)))
	n := 0
	for o, k := range x.facts.all() {
		if n == factsAtOnce {
			size += int64(len(w.b))
			w.cut()
			size -= int64(len(w.b))
			w.begin(key, more)
			w.uint(uint64(min(left, factsAtOnce)))
			n = 0
		}
		w.fact(o, k)
		n++
		left--
	}
	return size + int64(len(w.b))
}

// Replay takes over what a record says; of another life of the machine that is nothing.
// An error wraps ErrFormat; the table is as it was then.
func (t *Table) Replay(record []byte, boot string) error {
	b, err := unstuff(record)
	if err != nil {
		return fmt.Errorf("%w: %w", ErrFormat, err)
	}
	t.mu.Lock()
	defer t.mu.Unlock()
	told, err := t.decode(b, boot)
	if err != nil {
		return fmt.Errorf("%w: %w", ErrFormat, err)
	}
	for i := range told {
		t.takeOver(&told[i])
	}
	return nil
}

// telling is what a record says of a key.
type telling struct {
	key   Key
	file  *file  // nil: nothing is known, or more than before
	more  *facts // what is known besides
	bytes int64
}

func (t *Table) takeOver(r *telling) {
	e := t.files[r.key]
	if r.more != nil {
		for o, k := range r.more.all() {
			e.facts.put(o, k)
		}
		t.count(r.key, e)
		e.logged += r.bytes
		t.live += r.bytes
		return
	}
	if e != nil {
		t.removeLocked(r.key, e)
	}
	if r.file != nil {
		t.tick++
		e = &entry{file: r.file, used: t.tick, logged: r.bytes}
		t.files[r.key] = e
		t.count(r.key, e)
		t.live += r.bytes
	}
}

// decode reads a record. mu is held.
func (t *Table) decode(b []byte, boot string) ([]telling, error) {
	d := &decoder{b: b}
	if n := d.uint(); d.err == nil && n != recordFormat {
		return nil, fmt.Errorf("format %d", n)
	}
	if d.uint() != life(boot) && d.err == nil {
		return nil, nil
	}
	var told []telling
	for len(d.b) > 0 {
		before := len(d.b)
		key, what := d.begin()
		r := telling{key: key}
		switch e := t.files[key]; {
		case what == forgotten:
		case what == known:
			r.file = &file{changes: d.changes()}
			r.file.facts = *d.facts(r.file.last())
		case what == more && e != nil && len(told) == 0:
			r.more = d.facts(e.last())
		default:
			d.fail(errOrder)
		}
		r.bytes = int64(before - len(d.b))
		told = append(told, r)
	}
	return told, d.err
}

// last is the number of the current version, 0 if there is none.
func (x *file) last() uint64 {
	if len(x.changes) == 0 {
		return 0
	}
	return x.current().Number
}
