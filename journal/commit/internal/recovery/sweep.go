package recovery

import (
	"context"
	"errors"
	"fmt"
	"path"

	"golang.org/x/sys/unix"

	"latchfs/journal/commit/internal/disk"
	"latchfs/journal/commit/internal/lazy"
)

// RemoveOrphan removes name from the directory dir if it is a reserved name
// that no living shadow uses: what a crash left behind.
func (s *Recoverer) RemoveOrphan(dir int, name string) error {
	if !s.isOrphan(dir, disk.Entry{Name: name}) {
		return fmt.Errorf("%q is no orphan", name)
	}
	return s.disk.RemoveName(dir, name)
}

// isOrphan reports whether e is a reserved name of ours that nothing living has.
func (s *Recoverer) isOrphan(dir int, e disk.Entry) bool {
	if !disk.Reserved(e.Name) || s.disk.NameInUse(e.Name) {
		return false
	}
	if disk.Generated(e.Name) {
		return true
	}
	_, marker := lazy.ReadMark(s.disk, dir, e)
	return marker
}

// removeOrphansIn removes what a crash has left in the directory that name in dir is, of which
// the journal may not tell: a shadow's name can come to the disk before its record. It reports
// whether it has removed anything.
func (s *Recoverer) removeOrphansIn(dir int, name string) (removed bool) {
	fd, err := unix.Openat(dir, name, unix.O_RDONLY|unix.O_DIRECTORY|unix.O_NOFOLLOW|unix.O_CLOEXEC, 0)
	if err != nil {
		return false
	}
	defer unix.Close(fd)
	var orphans []string
	err = disk.ReadDir(fd, func(e disk.Entry) error {
		if s.isOrphan(fd, e) {
			orphans = append(orphans, e.Name)
		}
		return nil
	})
	for _, o := range orphans {
		removed = err == nil && s.RemoveOrphan(fd, o) == nil || removed
	}
	return removed
}

// Sweep walks the data root, through no symbolic link and into no other mount,
// and removes orphaned shadows: reserved names that no living shadow has. It may
// run while the store is in use. When it has been everywhere it settles the
// journal.
func (s *Recoverer) Sweep(ctx context.Context) (Report, error) {
	var r Report
	visit := func(dir int, where string, e disk.Entry) error {
		if !s.isOrphan(dir, e) {
			return nil
		}
		err := s.RemoveOrphan(dir, e.Name)
		if errors.Is(err, unix.ENOENT) || errors.Is(err, unix.ENOTEMPTY) {
			return nil // a directory of ours is empty
		}
		if err == nil {
			r.Removed = append(r.Removed, path.Join(where, e.Name))
		}
		return err
	}
	if err := s.disk.WalkAll(ctx, nil, visit); err != nil {
		return r, fmt.Errorf("sweep: %w", err)
	}
	return r, s.disk.Journal.Settle()
}
