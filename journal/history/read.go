package history

import (
	"iter"

	"latchfs/journal"
	"latchfs/journal/history/internal/arena"
	"latchfs/journal/history/internal/record"
)

// query is versions of which all is to be known: what the index says of them, and the
// log as it was then. It is made with the lock held, and answered without.
type query struct {
	s     *Store
	r     *journal.LogReader
	asked []asked
	bytes int // of the paths in asked
}

// The bounds of a query of which there is more.
const (
	maxAsked      = 256
	maxAskedBytes = 256 << 10
)

func (q *query) isFull() bool { return len(q.asked) >= maxAsked || q.bytes >= maxAskedBytes }

// asked is one version of a query, as the index knows it.
type asked struct {
	version
	path     string
	number   uint64
	id       string // the content's, if the index has it
	current  bool   // the path's last one
	kept     bool
	now      State // of the last one
	rights   Rights
	reach    arena.Offset
	unlogged map[int64][]byte // its records, if the log does not have them
}

// queryLocked begins a query. Its answers end it.
func (s *Store) queryLocked() *query { return &query{s: s, r: s.log.Reader()} }

func (q *query) addLocked(c claim) {
	s, x := q.s, q.s.x
	f, v := x.files.At(c.file), x.versions.At(c.version)
	a := asked{
		version: *v, number: x.number(f, v),
		current: f.last == c.version, kept: x.kept(c),
	}
	if n := len(q.asked); n > 0 && q.asked[n-1].version.before == c.version {
		a.path = q.asked[n-1].path
	} else {
		a.path = x.path(c.file)
		q.bytes += len(a.path)
	}
	if a.current {
		a.now = f.state
	}
	if v.content != 0 {
		a.id = x.contents.At(v.content).id.String()
	}
	if a.kept {
		k := s.kept.At(x.contents.At(v.content).kept)
		a.rights = Rights{UID: k.UID, GID: k.GID, Mode: uint32(k.Mode), ACL: k.ACL}
		a.reach = k.Reach
	}
	for _, at := range []arena.Offset{a.record, a.state, a.reach} {
		if b := s.unlogged[at.Number()]; b != nil {
			if a.unlogged == nil {
				a.unlogged = map[int64][]byte{}
			}
			a.unlogged[at.Number()] = b
		}
	}
	q.asked = append(q.asked, a)
}

// answers reads from the log what the index does not know.
func (q *query) answers() iter.Seq[Version] {
	return func(yield func(Version) bool) {
		defer q.r.Close()
		for i := range q.asked {
			if !yield(q.answer(&q.asked[i])) {
				return
			}
		}
	}
}

func (q *query) answer(a *asked) Version {
	r := q.recordOf(a)
	v := versionOf(&r)
	v.Path, v.Number, v.Kept, v.Current = a.path, a.number, a.kept, a.current
	if a.current {
		v.State = a.now
	}
	if a.id != "" {
		v.Content = a.id
	}
	if a.kept {
		v.Rights = a.rights
		if told := q.read(a, a.reach); told != nil {
			v.Reach = reachOf(told)
		}
	}
	return v
}

// recordOf is the record of a version, with the number that it has now, and with the
// state that it came to.
func (q *query) recordOf(a *asked) record.Record {
	r := q.read(a, a.record)
	if r == nil {
		r = &record.Record{Op: record.OpVersion, Event: record.EventFound}
		if a.flags&isGone != 0 {
			r.Event = record.EventDelete
		}
	}
	if r.Base > 0 {
		r.Base += a.number - r.Number
	}
	r.Path, r.Number = record.Name(a.path), a.number
	if state := q.read(a, a.state); state != nil {
		r.Ino, r.Size, r.Mtime = state.Ino, state.Size, state.Mtime
		if state.Content != "" {
			r.Content = state.Content
		}
	}
	return *r
}

// read reads a record, nil if there is none there, or it cannot be read.
func (q *query) read(a *asked, at arena.Offset) *record.Record {
	b := q.raw(a, at)
	if b == nil {
		return nil
	}
	r, err := record.Decode(b)
	if err != nil {
		q.failed(a, err)
		return nil
	}
	return &r
}

// raw is read, as the log has it. The bytes are good until the next record is read.
func (q *query) raw(a *asked, at arena.Offset) []byte {
	if at == (arena.Offset{}) {
		return nil
	}
	if b := a.unlogged[at.Number()]; b != nil {
		return b
	}
	b, err := q.r.Record(at.Number())
	if err != nil {
		q.failed(a, err)
		return nil
	}
	return b
}

func (q *query) failed(a *asked, err error) {
	q.s.o.Logf("history: a version of %q cannot be read: %v", a.path, err)
}
