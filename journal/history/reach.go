package history

import (
	"fmt"

	"latchfs/journal/history/internal/arena"
	"latchfs/journal/history/internal/record"

	"golang.org/x/sys/unix"
)

// Gate is a directory that not everybody could search: who could, its owner, group and
// permission bits say.
type Gate struct{ UID, GID, Mode uint32 }

// Reach says who could reach a content when it was kept: who could search each of
// these. Where that is not known nobody could.
type Reach struct {
	Known bool
	Gates []Gate
}

// Reached tells who could reach a content that is kept.
func (s *Store) Reached(id string, r Reach) {
	s.mu.Lock()
	defer s.mu.Unlock()
	c := s.findLocked(id)
	if c == 0 || s.x.contents.At(c).kept == 0 || !r.Known {
		return
	}
	s.kept.At(s.x.contents.At(c).kept).Reach = arena.OffsetOf(s.logLocked(reachRecord(id, r)))
}

func reachRecord(id string, r Reach) *record.Record {
	out := &record.Record{Op: record.OpReach, Content: id}
	for _, d := range r.Gates {
		out.Dirs = append(out.Dirs, [3]uint32{d.UID, d.GID, d.Mode})
	}
	return out
}

func reachOf(r *record.Record) Reach {
	out := Reach{Known: true}
	for _, d := range r.Dirs {
		out.Gates = append(out.Gates, Gate{d[0], d[1], d[2]})
	}
	return out
}

// Forget erases the kept contents of a path's versions that are chosen, and returns how
// many those were and their size. Versions of other paths with the same content lose it
// as well. When it returns without an error they are gone from the disk: if the machine
// stops before, what is there again is whole.
func (s *Store) Forget(path string, chosen func(*Version) bool) (versions int, bytes int64, err error) {
	s.mu.Lock()
	var gone []string
	q := s.queryLocked()
	if f := s.x.file(path); f != 0 {
		s.x.of(f, func(c claim, _ *version) bool {
			if s.x.kept(c) {
				q.addLocked(c)
			}
			return true
		})
	}
	for v := range q.answers() {
		var st unix.Stat_t
		if c := s.findLocked(v.Content); c == 0 || s.x.contents.At(c).kept == 0 || !chosen(&v) {
			continue
		} else if s.files().Stat(v.Content, &st) == nil {
			bytes += st.Size
		}
		versions++
		gone = append(gone, v.Content)
		s.dropLocked(s.findLocked(v.Content))
	}
	s.mu.Unlock()
	if len(gone) == 0 {
		return 0, 0, nil
	}
	s.emptyTrash()
	for _, id := range gone {
		if err := s.files().Erased(id); err != nil {
			return versions, bytes, fmt.Errorf("history: %w", err)
		}
	}
	return versions, bytes, nil
}
