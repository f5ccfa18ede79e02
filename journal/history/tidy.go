package history

import (
	"cmp"
	"slices"
	"time"

	"latchfs/journal/audit"
	"latchfs/journal/history/internal/record"
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
			s.syncLog()
		}
	}
}

// syncLog brings the log to the disk. Where that fails the file may lack something, and is
// rewritten. It says once if it fails, and again only when it has been well in between: a disk
// may be read-only for weeks.
func (s *Store) syncLog() {
	err := s.sync()
	if err != nil && !s.unsynced {
		s.o.Logf("history: %v", err)
	}
	s.unsynced = err != nil
	if err != nil {
		s.mu.Lock()
		s.stale = true
		s.mu.Unlock()
	}
}

func (s *Store) wake() {
	if s.o.asleep {
		return
	}
	select {
	case s.kick <- struct{}{}:
	default:
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
	for len(s.x.fading) > 0 && s.x.fading[0].at.Before(before) {
		e := s.x.fading[0]
		if s.x.isEnd(e) && s.pinsLocked(e.file) {
			return // those behind it wait, too
		}
		s.x.fading = s.x.fading[1:]
		if s.x.isEnd(e) && s.x.isWorthless(e.file) {
			s.forgetLocked(e.file)
		}
	}
}

func (s *Store) forgetLocked(f uint32) {
	s.logLocked(&record.Record{Op: record.OpForget, Path: record.Name(s.x.path(f))})
	had := s.contentsLocked(f, func(*version) bool { return true })
	s.x.forget(f)
	for _, c := range had {
		s.releaseLocked(c)
	}
}

// contentsLocked are the contents that are kept of a path's versions.
func (s *Store) contentsLocked(f uint32, chosen func(*version) bool) (list []uint32) {
	s.x.of(f, func(_ claim, v *version) bool {
		if v.content != 0 && s.x.contents.At(v.content).kept != 0 && chosen(v) {
			list = append(list, v.content)
		}
		return true
	})
	return list
}

// evictLocked drops versions until there are that many, of users who have more than
// an equal share, the least valuable ones first: those of paths that are gone and of which nothing is kept; other
// versions of which nothing is kept, with paths that have only ever had one;
// those that are kept; paths that are there with all their versions.
func (s *Store) evictLocked(most int) {
	x, all := s.x, s.victimsLocked()
	has := map[uint32]int64{}
	for _, p := range all {
		has[x.versions.At(p.version).user]++
	}
	fair := audit.FairShare(has, int64(most))
	left := x.records
	some := map[uint32]bool{} // paths with versions that are marked
	mark := func(v *version) {
		if v.flags&marked == 0 {
			v.flags |= marked
			has[v.user]--
			left--
		}
	}
	for _, p := range all {
		switch v := x.versions.At(p.version); {
		case left <= most:
		case !x.holds(p.place): // dropped already
		case has[v.user] <= fair, s.pinnedLocked(v.content):
		case s.x.files.At(p.file).last == p.version && s.pinsLocked(p.file):
		case x.files.At(p.file).last == p.version:
			x.of(p.file, func(_ claim, v *version) bool {
				mark(v)
				return true
			})
			delete(some, p.file)
			s.forgetLocked(p.file)
		default:
			mark(v)
			some[p.file] = true
		}
	}
	for f := range some {
		had := s.contentsLocked(f, func(v *version) bool { return v.flags&marked != 0 })
		x.removeMarked(f)
		for _, c := range had {
			s.releaseLocked(c)
		}
	}
	s.gen++
	s.stale = true // not all of this is in the log
}

type victim struct {
	place
	value int
}

// victimsLocked are all versions, the least valuable first, and of these the oldest.
func (s *Store) victimsLocked() []victim {
	x := s.x
	all := make([]victim, 0, x.records)
	x.all(func(f uint32) {
		dead := x.gone(f)
		if dead {
			x.of(f, func(c claim, _ *version) bool {
				dead = !x.kept(c)
				return dead
			})
		}
		x.of(f, func(c claim, v *version) bool {
			all = append(all, victim{place{c, v.seq.Number()}, x.value(c, v, dead)})
			return true
		})
	})
	slices.SortFunc(all, func(a, b victim) int {
		return cmp.Or(cmp.Compare(a.value, b.value), cmp.Compare(a.seq, b.seq))
	})
	return all
}

// value ranks a version; dead says that nothing at all is kept of its path, which
// is gone.
func (x *index) value(c claim, v *version, dead bool) int {
	switch {
	case dead:
		return 0
	case x.files.At(c.file).last == c.version && v.before != 0:
		return 3
	case x.kept(c):
		return 2
	}
	return 1
}
