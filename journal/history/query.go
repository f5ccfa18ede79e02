package history

import (
	"cmp"
	"errors"
	"iter"
	"math"
	"os"
	"slices"

	"golang.org/x/sys/unix"
)

// ErrNotKept is the error of opening a content that is not in the history.
var ErrNotKept = errors.New("this version is not kept")

// Generation rises whenever All would answer differently.
func (s *Store) Generation() uint64 {
	s.mu.RLock()
	defer s.mu.RUnlock()
	return s.gen
}

// All are all versions, oldest first. What happens while they are looked at may be
// among them or not. Of however many there are, some thousand places and some hundred
// versions are in memory at a time.
func (s *Store) All() iter.Seq[Version] {
	return func(yield func(Version) bool) {
		var ahead []place
		merged, done, last := int64(-1), int64(0), int64(0)
		for {
			s.mu.RLock()
			if merged != s.x.merged {
				merged, last, ahead = s.x.merged, s.x.seq, nil
			}
			if len(ahead) == 0 {
				ahead = s.x.inOrder(done, last, maxAhead)
			}
			if len(ahead) == 0 {
				s.mu.RUnlock()
				return
			}
			q := s.queryLocked()
			for len(ahead) > 0 && !q.isFull() {
				p := ahead[0]
				ahead, done = ahead[1:], p.seq
				if s.x.holds(p) {
					q.addLocked(p.claim)
				}
			}
			s.mu.RUnlock()
			for v := range q.answers() {
				if !yield(v) {
					return
				}
			}
		}
	}
}

// maxAhead is of how many versions All finds the order at a time.
const maxAhead = 4096

// place is a version in the order of all.
type place struct {
	claim
	seq int64
}

// inOrder lists the first versions after one and up to another, oldest first, but no more
// than most.
func (x *index) inOrder(after, last int64, most int) []place {
	var first []place
	cut := func() {
		slices.SortFunc(first, func(a, b place) int { return cmp.Compare(a.seq, b.seq) })
		if len(first) > most {
			first = first[:most]
			last = first[most-1].seq
		}
	}
	x.all(func(f uint32) {
		x.of(f, func(c claim, v *version) bool {
			if seq := v.seq.Number(); seq > after && seq <= last {
				if first = append(first, place{c, seq}); len(first) == 2*most {
					cut()
				}
			}
			return true
		})
	})
	cut()
	return first
}

// holds reports whether the version is still there that p was, if no paths have been
// merged since.
func (x *index) holds(p place) bool {
	return x.versions.At(p.version).seq.Number() == p.seq
}

// Of returns the versions of a path, oldest first.
func (s *Store) Of(path string) []Version {
	return s.some(path, func(claim) bool { return true })
}

// KeptOf returns those versions of a path whose content can be opened, oldest first.
func (s *Store) KeptOf(path string) []Version { return s.some(path, s.x.kept) }

func (s *Store) some(path string, chosen func(claim) bool) []Version {
	s.mu.RLock()
	f := s.x.file(path)
	if f == 0 {
		s.mu.RUnlock()
		return nil
	}
	q := s.queryLocked()
	s.x.of(f, func(c claim, _ *version) bool {
		if chosen(c) {
			q.addLocked(c)
		}
		return true
	})
	s.mu.RUnlock()
	slices.Reverse(q.asked)
	list := make([]Version, 0, len(q.asked))
	for v := range q.answers() {
		list = append(list, v)
	}
	return list
}

// NewestOf are the versions of a path, newest first: for the caller who looks for one
// that is among the last.
func (s *Store) NewestOf(path string) iter.Seq[Version] {
	return func(yield func(Version) bool) {
		seen, more := uint64(math.MaxUint64), true
		for atOnce := 8; more; atOnce *= 4 {
			s.mu.RLock()
			f := s.x.file(path)
			q := s.queryLocked()
			more = false
			if f != 0 {
				s.x.of(f, func(c claim, v *version) bool {
					number := s.x.number(s.x.files.At(f), v)
					more = len(q.asked) == atOnce
					if number < seen && !more {
						q.addLocked(c)
						seen = number
					}
					return !more
				})
			}
			s.mu.RUnlock()
			for v := range q.answers() {
				if !yield(v) {
					return
				}
			}
		}
	}
}

// Known reports whether there are versions of a path.
func (s *Store) Known(path string) bool {
	s.mu.RLock()
	defer s.mu.RUnlock()
	return s.x.file(path) != 0
}

// Last returns the state of the file that path holds as far as the history
// knows, and whether only its inode counts. ok is false for a path that is not
// known, or holds nothing.
func (s *Store) Last(path string) (st State, loose, ok bool) {
	s.mu.RLock()
	defer s.mu.RUnlock()
	i := s.x.file(path)
	if i == 0 || s.x.gone(i) {
		return State{}, false, false
	}
	f := s.x.files.At(i)
	return f.state, f.loose, true
}

// Dangling returns the versions that are the last of their path and in the
// history all the same; see the package comment.
func (s *Store) Dangling() []Version {
	s.mu.RLock()
	q := s.queryLocked()
	for it := range s.kept.OldestFirst() {
		for _, c := range s.x.claims(it.Content) {
			if s.x.current(c) {
				q.addLocked(c)
			}
		}
	}
	s.mu.RUnlock()
	return slices.Collect(q.answers())
}

// Below returns the paths with a history in the directory dir, "" for the root,
// at any depth, in order.
func (s *Store) Below(dir string) []string {
	s.mu.RLock()
	defer s.mu.RUnlock()
	return s.x.names.Below(dir)
}

// OpenContent opens the content of a version for reading.
func (s *Store) OpenContent(path string, number uint64) (*os.File, error) {
	s.mu.RLock()
	id := ""
	if f := s.x.file(path); f != 0 {
		s.x.of(f, func(c claim, v *version) bool {
			if s.x.number(s.x.files.At(f), v) == number && s.x.kept(c) {
				id = s.x.contents.At(v.content).id.String()
			}
			return id == ""
		})
	}
	s.mu.RUnlock()
	if id == "" {
		return nil, ErrNotKept
	}
	f, err := s.files().Content(id)
	if errors.Is(err, unix.ENOENT) {
		s.Drop(id)
		return nil, ErrNotKept
	}
	return f, err
}
