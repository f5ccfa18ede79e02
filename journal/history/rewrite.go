package history

import (
	"maps"
	"math"

	"latchfs/journal"
	"latchfs/journal/history/internal/arena"
	"latchfs/journal/history/internal/record"
)

// rewrite replaces the log by the records that are left.
func (s *Store) rewrite() {
	c, err := s.startRewrite()
	if err == nil {
		err = c.run()
	}
	if err == nil {
		err = c.rw.Sync()
	}
	s.endRewrite(c, err)
}

func (s *Store) startRewrite() (*copying, error) {
	s.mu.Lock()
	defer s.mu.Unlock()
	rw, err := s.log.StartRewrite()
	if err != nil {
		return nil, err
	}
	s.stale = false
	return s.copyLocked(rw), nil
}

// endRewrite puts the new log in the place of the old one, unless there was an error.
func (s *Store) endRewrite(c *copying, err error) {
	s.mu.Lock()
	defer s.mu.Unlock()
	switch {
	case err == nil:
		err = c.rw.Commit()
		if c.rw.Committed() {
			c.relocateLocked(s)
		}
	case c != nil:
		c.rw.Abort()
	}
	if err != nil {
		s.failedLocked(err)
	} else if !s.stale {
		s.failing = false
	}
}

// copying writes the versions that there are at one time into a new log, while others
// go on to add versions.
type copying struct {
	rw *journal.Rewrite
	q  *query
	// was is the index as it was then, with the records that were in memory alone.
	was *Store
	at  []arena.Offset // where the record of each version is in the new log
	// reach is the same of the records that say who could reach what is kept.
	reach []arena.Offset
}

func (s *Store) copyLocked(rw *journal.Rewrite) *copying {
	x := &index{
		names: s.x.names.Snapshot(),
		files: s.x.files.Clone(), versions: s.x.versions.Clone(), contents: s.x.contents.Clone(), records: s.x.records,
	}
	was := &Store{o: s.o, log: s.log, x: x, kept: s.kept.Snapshot(), unlogged: maps.Clone(s.unlogged)}
	return &copying{
		rw: rw, q: was.queryLocked(), was: was,
		at: make([]arena.Offset, x.versions.Size()+1), reach: make([]arena.Offset, was.kept.Size()+1),
	}
}

func (c *copying) run() error {
	defer c.q.r.Close()
	x := c.was.x
	for _, p := range x.inOrder(0, math.MaxInt64, x.records) {
		c.q.asked = c.q.asked[:0]
		c.q.addLocked(p.claim)
		a := &c.q.asked[0]
		b, loose := c.record(a), x.files.At(p.file).loose && a.current
		if len(b) > journal.MaxRecord {
			continue // its path is too long; all others are written
		}
		c.at[p.version] = arena.OffsetOf(c.rw.Next())
		if err := c.rw.Add(b); err != nil {
			return err
		}
		if err := c.tellReach(a); err != nil {
			return err
		}
		if loose {
			r := record.Record{Op: record.OpState, Path: record.Name(a.path), Ino: a.now.Ino, Size: a.now.Size, Mtime: a.now.Mtime, Loose: true}
			if err := c.rw.Add(r.Encode()); err != nil {
				return err
			}
		}
	}
	return nil
}

// record is the record of a version that says by itself all that is known of it.
func (c *copying) record(a *asked) []byte {
	if a.state == (arena.Offset{}) && a.flags&renewed == 0 {
		if b := c.q.raw(a, a.record); b != nil {
			var r record.Record
			if record.Parse(b, &r) && string(r.Path) == a.path && r.Number == a.number {
				return b
			}
		}
	}
	r := c.q.recordOf(a)
	if a.id != "" {
		r.Content = a.id
	}
	if !Event(r.Event).gone() && !IsContentID(r.Content) {
		r.Content = record.RandomID().String()
	}
	return r.Encode()
}

// tellReach writes who could reach the content of a version, if it is kept, once.
func (c *copying) tellReach(a *asked) error {
	if a.content == 0 {
		return nil
	}
	k := c.was.x.contents.At(a.content).kept
	if k == 0 || c.reach[k] != (arena.Offset{}) || c.was.kept.At(k).Reach == (arena.Offset{}) {
		return nil
	}
	at := c.was.kept.At(k).Reach
	told := c.was.unlogged[at.Number()] // whichever version it is that comes first
	if told == nil {
		told = c.q.raw(a, at)
	}
	if told == nil {
		return nil
	}
	c.reach[k] = arena.OffsetOf(c.rw.Next())
	return c.rw.Add(told)
}

// relocateLocked tells the index where the records are now.
func (c *copying) relocateLocked(s *Store) {
	later := func(o arena.Offset) arena.Offset {
		if at := o.Number(); at != 0 && at < inMemory {
			return arena.OffsetOf(c.rw.Moved(at))
		}
		return o
	}
	x, was := s.x, c.was.x
	for i := uint32(1); i <= x.versions.Size(); i++ {
		v := x.versions.At(i)
		if v.seq == (arena.Offset{}) {
			continue
		}
		if i > was.versions.Size() || was.versions.At(i).record != v.record {
			v.record, v.state = later(v.record), later(v.state)
			continue
		}
		v.record = c.at[i]
		if was.versions.At(i).state == v.state {
			v.state = arena.Offset{}
			v.flags &^= renewed
		} else {
			v.state = later(v.state)
		}
	}
	for i := uint32(1); i <= s.kept.Size(); i++ {
		k := s.kept.At(i)
		if i <= c.was.kept.Size() && c.was.kept.At(i).Reach == k.Reach {
			k.Reach = c.reach[i]
		} else {
			k.Reach = later(k.Reach)
		}
	}
	maps.DeleteFunc(s.unlogged, func(at int64, _ []byte) bool { return c.was.unlogged[at] != nil })
}
