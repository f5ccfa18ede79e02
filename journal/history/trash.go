package history

import (
	"slices"

	"latchfs/journal/history/internal/record"
)

// garbage is the file of a content that was dropped.
type garbage struct {
	id     record.ID
	weight int64
	stuck  bool // it could not be removed, and that was told
}

// emptyTrash removes the files of what was dropped. When it returns they are gone,
// unless that failed: a full btrfs has no space for it. Then the next one tries again.
func (s *Store) emptyTrash() {
	s.emptying.Lock()
	defer s.emptying.Unlock()
	var left []garbage
	for {
		s.mu.Lock()
		if len(s.trash) == 0 {
			s.trash = left
			s.mu.Unlock()
			return
		}
		g := s.trash[0]
		s.trash = s.trash[1:]
		back := s.keptLocked(g.id) != nil
		s.mu.Unlock()
		if !back && !s.removeFile(&g) {
			left = append(left, g)
		}
	}
}

// emptyLocked is emptyTrash for a caller who waits for the space.
func (s *Store) emptyLocked() {
	left := s.trash[:0]
	for _, g := range s.trash {
		if s.keptLocked(g.id) == nil && !s.removeFile(&g) {
			left = append(left, g)
		}
	}
	s.trash = slices.Clip(left)
}

// removeFile reports whether the file of a content needs no further removing.
func (s *Store) removeFile(g *garbage) bool {
	id := g.id.String()
	s.o.Removing(id)
	err := s.files().Remove(id)
	if err == nil {
		return true
	}
	if !g.stuck {
		s.o.Logf("history: cannot remove a content: %v", err)
		g.stuck = true
	}
	return false
}
