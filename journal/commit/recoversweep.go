package commit

import (
	"context"
	"errors"
	"fmt"
	"path"

	"golang.org/x/sys/unix"
)

// RemoveOrphan removes name from the directory dir if it is a reserved name
// that no living shadow uses: what a crash left behind.
func (s *recoverer) RemoveOrphan(dir int, name string) error {
	if !generated(name) || s.nameInUse(name) {
		return fmt.Errorf("%q is no orphan", name)
	}
	return s.removeName(dir, name)
}

// Sweep walks the data root, through no symbolic link and into no other mount,
// and removes orphaned shadows: reserved names that no living shadow has. It may
// run while the store is in use. When it has been everywhere it settles the
// journal.
func (s *recoverer) Sweep(ctx context.Context) (Report, error) {
	var r Report
	visit := func(dir int, where string, e dirent) error {
		if !generated(e.name) || s.nameInUse(e.name) {
			return nil
		}
		err := s.RemoveOrphan(dir, e.name)
		if errors.Is(err, unix.ENOENT) || errors.Is(err, unix.ENOTEMPTY) {
			return nil // a directory of ours is empty
		}
		if err == nil {
			r.Removed = append(r.Removed, path.Join(where, e.name))
		}
		return err
	}
	if err := s.walkAll(ctx, nil, visit); err != nil {
		return r, fmt.Errorf("sweep: %w", err)
	}
	return r, s.j.Settle()
}
