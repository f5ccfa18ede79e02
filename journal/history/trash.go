package history

import (
	"errors"
	"fmt"
	"os"
	"slices"

	"golang.org/x/sys/unix"
)

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
	id := textOf(g.id)
	s.o.Removing(id)
	err := unix.Unlinkat(int(s.dir.Fd()), ContentDir(id)+"/"+id, 0)
	if err == nil || errors.Is(err, unix.ENOENT) {
		return true
	}
	if !g.stuck {
		s.o.Logf("history: cannot remove a content: %v", err)
		g.stuck = true
	}
	return false
}

// erased makes sure that the file of a content is gone for good.
func (s *Store) erased(id string) error {
	var st unix.Stat_t
	if err := s.stat(id, &st); err == nil {
		return fmt.Errorf("history: the content %s cannot be removed", id)
	}
	dir, err := unix.Openat(int(s.dir.Fd()), ContentDir(id), unix.O_RDONLY|unix.O_DIRECTORY|unix.O_NOFOLLOW|unix.O_CLOEXEC, 0)
	if err != nil {
		return fmt.Errorf("history: %w", os.NewSyscallError("openat", err))
	}
	defer unix.Close(dir)
	return os.NewSyscallError("fsync", unix.Fsync(dir))
}
