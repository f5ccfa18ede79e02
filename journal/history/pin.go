package history

import (
	"slices"

	"latchfs/journal/history/internal/record"
	"latchfs/journal/history/internal/shelf"
)

// Pin holds the content of a version: no bound gives it up, neither of bytes, age, number
// nor records, and no write takes its space, until release is called. It may be that of a
// file which is still at some path, and comes into the history only later. ok is false if the
// content is nowhere. What is to be erased (Forget) or is damaged goes all the same.
func (s *Store) Pin(path string, number uint64) (release func(), ok bool) {
	s.mu.Lock()
	defer s.mu.Unlock()
	f := s.x.file(path)
	if f == 0 {
		return nil, false
	}
	var id record.ID
	s.x.of(f, func(c claim, v *version) bool {
		if s.x.number(s.x.files.At(f), v) != number {
			return true
		}
		if v.content != 0 && (s.x.kept(c) || slices.ContainsFunc(s.x.claims(v.content), s.x.current)) {
			id, ok = s.x.contents.At(v.content).id, true
		}
		return false
	})
	if !ok {
		return nil, false
	}
	if s.pins == nil {
		s.pins = map[record.ID]int{}
	}
	s.pins[id]++
	return func() { s.unpin(id) }, true
}

func (s *Store) unpin(id record.ID) {
	s.mu.Lock()
	defer s.mu.Unlock()
	if s.pins[id]--; s.pins[id] > 0 {
		return
	}
	delete(s.pins, id)
	s.boundLocked()
}

// pinnedLocked reports whether a content has to stay.
func (s *Store) pinnedLocked(c uint32) bool {
	return c != 0 && len(s.pins) > 0 && s.pins[s.x.contents.At(c).id] > 0
}

// staysLocked reports whether what is kept has to stay.
func (s *Store) staysLocked(it *shelf.Item) bool { return s.pinnedLocked(it.Content) }

// pinsLocked reports whether a version of a path has to stay.
func (s *Store) pinsLocked(f uint32) (pins bool) {
	if len(s.pins) > 0 {
		s.x.of(f, func(_ claim, v *version) bool {
			pins = s.pinnedLocked(v.content)
			return !pins
		})
	}
	return pins
}
