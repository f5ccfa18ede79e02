package history

import (
	"cmp"
	"errors"
	"os"
	"slices"

	"golang.org/x/sys/unix"
)

// ErrNotKept is the error of opening a content that is not in the history.
var ErrNotKept = errors.New("this version is not kept")

func (e *entry) shown() Version {
	v := e.Version
	v.Kept, v.Current = e.kept(), e.file.last() == e
	if v.Kept {
		v.Rights, v.Reach = e.c.rights, e.c.reach
	}
	return v
}

// Generation rises whenever All would answer differently.
func (s *Store) Generation() uint64 {
	s.mu.RLock()
	defer s.mu.RUnlock()
	return s.gen
}

// All returns every version, oldest first.
func (s *Store) All() []Version {
	s.mu.RLock()
	all := make([]*entry, 0, s.x.records)
	for _, f := range s.x.paths {
		all = append(all, f.versions...)
	}
	slices.SortFunc(all, func(a, b *entry) int { return cmp.Compare(a.seq, b.seq) })
	list := make([]Version, len(all))
	for i, e := range all {
		list[i] = e.shown()
	}
	s.mu.RUnlock()
	return list
}

// Of returns the versions of a path, oldest first.
func (s *Store) Of(path string) []Version {
	s.mu.RLock()
	defer s.mu.RUnlock()
	f := s.x.paths[path]
	if f == nil {
		return nil
	}
	list := make([]Version, len(f.versions))
	for i, e := range f.versions {
		list[i] = e.shown()
	}
	return list
}

// Last returns the state of the file that path holds as far as the history
// knows, and whether only its inode counts. ok is false for a path that is not
// known, or holds nothing.
func (s *Store) Last(path string) (st State, loose, ok bool) {
	s.mu.RLock()
	defer s.mu.RUnlock()
	f := s.x.paths[path]
	if f == nil || f.gone() {
		return State{}, false, false
	}
	return f.last().State, f.loose, true
}

// Dangling returns the versions that are the last of their path and in the
// history all the same; see the package comment.
func (s *Store) Dangling() []Version {
	s.mu.RLock()
	defer s.mu.RUnlock()
	var list []Version
	for _, c := range s.queue {
		if !c.kept {
			continue
		}
		for _, e := range c.refs {
			if e.current() {
				list = append(list, e.Version)
			}
		}
	}
	return list
}

// Below returns the paths with a history in the directory dir, "" for the root,
// at any depth, in order.
func (s *Store) Below(dir string) []string {
	s.mu.Lock()
	if s.sorted == nil || s.sorting != s.x.renamed {
		s.sorted = make([]string, 0, len(s.x.paths))
		for path := range s.x.paths {
			s.sorted = append(s.sorted, path)
		}
		slices.Sort(s.sorted)
		s.sorting = s.x.renamed
	}
	sorted := s.sorted // never written to again
	s.mu.Unlock()
	if dir == "" {
		return sorted
	}
	from, _ := slices.BinarySearch(sorted, dir+"/")
	to, _ := slices.BinarySearch(sorted, dir+"0") // the byte after a slash
	return sorted[from:max(from, to)]
}

// OpenContent opens the content of a version for reading.
func (s *Store) OpenContent(path string, number uint64) (*os.File, error) {
	s.mu.RLock()
	id := ""
	if f := s.x.paths[path]; f != nil {
		for _, e := range f.versions {
			if e.Number == number && e.kept() {
				id = e.Content
			}
		}
	}
	s.mu.RUnlock()
	if id == "" {
		return nil, ErrNotKept
	}
	fd, err := unix.Openat(int(s.dir.Fd()), ContentDir(id)+"/"+id, unix.O_RDONLY|unix.O_NOFOLLOW|unix.O_NONBLOCK|unix.O_CLOEXEC, 0)
	if errors.Is(err, unix.ENOENT) {
		s.Drop(id)
		return nil, ErrNotKept
	}
	if err != nil {
		return nil, os.NewSyscallError("openat", err)
	}
	return os.NewFile(uintptr(fd), id), nil
}
