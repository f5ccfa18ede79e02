package history

import (
	"cmp"
	"slices"
	"time"

	"latchfs/journal"
)

// fadeTime is how long a path that is gone keeps versions of which nothing is
// kept but what another path keeps: vim renames a file away and makes it anew.
const fadeTime = time.Minute

// housekeep does in the background what no commit is to wait for.
func (s *Store) housekeep() {
	defer close(s.stopped)
	t := time.NewTicker(s.o.Tick)
	defer t.Stop()
	for {
		select {
		case <-s.done:
			return
		case <-s.kick:
			s.tidy()
		case <-t.C:
			s.tidy()
			if err := s.log.Sync(); err != nil {
				s.o.Logf("history: %v", err)
			}
		}
	}
}

// tidy removes what was dropped, what has become old, and what is too much.
func (s *Store) tidy() {
	s.mu.Lock()
	s.boundLocked()
	s.fadeLocked()
	if s.x.records > s.o.MaxRecords {
		s.evictLocked(s.o.MaxRecords - s.o.MaxRecords/10)
	}
	long := s.stale || s.log.Size() > minRewrite+perRecord*int64(s.x.records)
	s.mu.Unlock()
	s.emptyTrash()
	if long {
		s.rewrite()
	}
}

// fadeLocked drops paths that have been gone for a while and are worth nothing.
func (s *Store) fadeLocked() {
	before := s.o.Now().Add(-fadeTime)
	for len(s.fading) > 0 && s.fading[0].Time.Before(before) {
		e := s.fading[0]
		s.fading = s.fading[1:]
		f := e.file
		if s.x.paths[f.path] == f && f.last() == e && f.isWorthless() {
			s.forgetLocked(f)
		}
	}
}

func (s *Store) forgetLocked(f *file) {
	s.logLocked(&record{Op: opForget, Path: raw(f.path)})
	refs := make([]*content, 0, len(f.versions))
	for _, e := range f.versions {
		if e.c != nil {
			refs = append(refs, e.c)
		}
	}
	s.x.forget(f)
	for _, c := range refs {
		s.releaseLocked(c)
	}
}

// evictLocked drops versions until there are that many, of users who have more than
// an equal share, the least valuable ones first: those of paths that are gone and of which nothing is kept; other
// versions of which nothing is kept, with paths that have only ever had one;
// those that are kept; paths that are there with all their versions.
func (s *Store) evictLocked(most int) {
	all := make([]victim, 0, s.x.records)
	for _, f := range s.x.paths {
		dead := f.gone() && !slices.ContainsFunc(f.versions, (*entry).kept)
		for _, e := range f.versions {
			all = append(all, victim{e, e.value(dead)})
		}
	}
	slices.SortFunc(all, func(a, b victim) int {
		return cmp.Or(cmp.Compare(a.value, b.value), cmp.Compare(a.e.seq, b.e.seq))
	})
	has := map[uint32]int64{}
	for _, v := range all {
		has[v.e.user()]++
	}
	fair := journal.FairShare(has, int64(most))
	for _, v := range all {
		if s.x.records <= most {
			break
		}
		f := v.e.file
		switch {
		case s.x.paths[f.path] != f: // dropped already
		case has[v.e.user()] <= fair:
			continue
		case f.last() == v.e:
			for _, e := range f.versions {
				has[e.user()]--
			}
			s.forgetLocked(f)
		default:
			c := v.e.c
			has[v.e.user()]--
			s.x.remove(v.e)
			if c != nil {
				s.releaseLocked(c)
			}
		}
	}
	s.gen++
	s.stale = true // not all of this is in the log
}

type victim struct {
	e     *entry
	value int
}

// value ranks a version; dead says that nothing at all is kept of its path, which
// is gone.
func (e *entry) value(dead bool) int {
	switch {
	case dead:
		return 0
	case e.file.last() == e && len(e.file.versions) > 1:
		return 3
	case e.kept():
		return 2
	}
	return 1
}

// rewrite replaces the log by the records that are left.
func (s *Store) rewrite() {
	s.mu.Lock()
	rw, err := s.log.StartRewrite()
	var records [][]byte
	if err == nil {
		records = s.recordsLocked()
		s.stale = false
	}
	s.mu.Unlock()
	for i := 0; err == nil && i < len(records); i++ {
		err = rw.Add(records[i])
	}
	switch {
	case err == nil:
		err = rw.Commit()
	case rw != nil:
		rw.Abort()
	}
	s.mu.Lock()
	defer s.mu.Unlock()
	if err != nil {
		s.failedLocked(err)
	} else if !s.stale {
		s.failing = false
	}
}

// recordsLocked are the records that add up to the index.
func (s *Store) recordsLocked() [][]byte {
	all := make([]*entry, 0, s.x.records)
	for _, f := range s.x.paths {
		all = append(all, f.versions...)
	}
	slices.SortFunc(all, func(a, b *entry) int { return cmp.Compare(a.seq, b.seq) })
	records := make([][]byte, 0, len(all))
	told := map[*content]bool{}
	for _, e := range all {
		r := recordOf(&e.Version)
		records = append(records, r.encode())
		if c := e.c; c != nil && c.kept && c.reach.Known && !told[c] {
			told[c] = true
			records = append(records, reachRecord(c.id, c.reach).encode())
		}
		if e.file.loose && e.file.last() == e {
			r := record{Op: opState, Path: raw(e.Path), Ino: e.State.Ino, Size: e.State.Size, Mtime: e.State.Mtime, Loose: true}
			records = append(records, r.encode())
		}
	}
	return records
}
