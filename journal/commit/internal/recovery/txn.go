package recovery

import (
	"context"
	"errors"
	"os"
	"slices"
	"strings"

	"golang.org/x/sys/unix"

	"latchfs/journal"
	"latchfs/journal/commit/internal/disk"
	"latchfs/journal/commit/internal/keep"
)

// recoverTxns makes what belongs to decided transactions happen, and takes back
// what belongs to others. It returns what has to be looked for first, and the names that
// takeAllAway takes away when nothing else is left to be done, for directories must be empty
// then. The decisions themselves stay pending until finishTxns.
func (s *Recoverer) recoverTxns(pending []journal.Intent, r *Report, fail func(journal.Intent, error)) (lost []*Lost, later []journal.Intent) {
	decided := map[uint64]bool{}
	for _, in := range pending {
		if in.Kind == journal.KindTxn {
			decided[in.Txn] = true
		}
	}
	for _, in := range pending {
		switch {
		case in.Txn == 0, in.Kind == journal.KindTxn:
		case in.Kind == journal.KindShadow, !decided[in.Txn] && IsShadow(in):
			lost = append(lost, s.takeBack(in, s.undo, r, fail)...)
		case decided[in.Txn] && in.Kind == journal.KindMade, !decided[in.Txn] && in.Kind == journal.KindRemove:
			fail(in, s.disk.Finish(in))
		case in.Kind == journal.KindMade, in.Kind == journal.KindRemove:
			later = append(later, in)
		default:
			found, err := s.redoPart(in, r)
			fail(in, err)
			if err == nil && !found {
				lost = append(lost, &Lost{In: in, Shadow: -1, Target: -1})
			}
		}
	}
	return lost, later
}

// takeAllAway takes away the names that decided transactions remove, and that others have made.
func (s *Recoverer) takeAllAway(names []journal.Intent, r *Report, fail func(journal.Intent, error)) {
	var astray []journal.Intent
	for _, in := range Inside(names) {
		found, err := s.takeAway(in, r)
		if err == nil && !found {
			astray = append(astray, in)
		}
		fail(in, err)
	}
	s.takeAstray(astray, r, fail)
}

// Inside puts what lies deeper first: what was made or found later in a
// transaction comes before the directory that it is in.
func Inside(ins []journal.Intent) []journal.Intent {
	ins = slices.Clone(ins)
	slices.SortStableFunc(ins, func(a, b journal.Intent) int {
		if d := depth(b) - depth(a); d != 0 {
			return d
		}
		return int(b.ID) - int(a.ID)
	})
	return ins
}

func depth(in journal.Intent) int {
	if in.Dir == "" || in.Dir == "." {
		return -1
	}
	return strings.Count(in.Dir, "/")
}

// IsShadow reports whether in makes a shadow the file, or writes it into the file.
func IsShadow(in journal.Intent) bool {
	return in.Kind == journal.KindReplace || in.Kind == journal.KindInPlace
}

// redoPart makes a part of a decided transaction happen. found is false if its
// directory has to be looked for.
func (s *Recoverer) redoPart(in journal.Intent, r *Report) (found bool, err error) {
	if in.Kind == journal.KindInPlace {
		return s.redoAt(in, r)
	}
	dir, err := s.disk.OpenBelow(in.Dir)
	if disk.Gone(err) {
		return false, nil
	}
	if err != nil {
		return false, err
	}
	defer unix.Close(dir)
	return true, s.redoReplace(in, dir, r)
}

// redoReplace gives a shadow in dir the name that it is to have, unless that has happened.
func (s *Recoverer) redoReplace(in journal.Intent, dir int, r *Report) error {
	var st unix.Stat_t
	err := unix.Fstatat(dir, in.Shadow, &st, unix.AT_SYMLINK_NOFOLLOW)
	var kept bool
	switch {
	case errors.Is(err, unix.ENOENT):
		return s.disk.Finish(in) // it has happened
	case err != nil:
		return os.NewSyscallError("fstatat", err)
	case st.Ino == in.ShadowIno:
		if err = s.saveFound(dir, in.Name, &st, in, r); err == nil {
			kept, err = s.keeper.PutInPlaceOf(dir, in, keep.Keep{ID: in.Keep})
		}
	default: // what it was exchanged for
		if err = s.saveFound(dir, in.Shadow, &st, in, r); err == nil {
			kept, err = s.keeper.Settle(s.disk.OwnerOf(dir, &st), dir, in.Shadow, keep.Keep{ID: in.Keep, Ino: in.TargetIno})
		}
	}
	for _, taken := range []error{disk.ErrForeignName, errNoFile} {
		if errors.Is(err, taken) {
			return s.setAside(dir, in, taken, r)
		}
	}
	if err != nil {
		return err
	}
	if kept {
		r.Kept = append(r.Kept, in)
	}
	return s.renamed(in, dir, r)
}

func (s *Recoverer) renamed(in journal.Intent, dir int, r *Report) error {
	if err := s.disk.SyncDir(dir, s.disk.StateFD()); err != nil {
		return err
	}
	r.Redone = append(r.Redone, in)
	return s.disk.Finish(in)
}

// takeAway removes a name that a decided transaction removes, or that one has
// made which is not decided. found is false if what was made has to be looked for. A
// directory in which there is something by now stays.
func (s *Recoverer) takeAway(in journal.Intent, r *Report) (found bool, err error) {
	dir, err := s.disk.OpenBelow(in.Dir)
	switch {
	case disk.Gone(err) && in.Kind == journal.KindMade:
		return false, nil
	case disk.Gone(err):
		return true, s.disk.Finish(in)
	case err != nil:
		return false, err
	}
	defer unix.Close(dir)
	st, there := s.disk.Named(dir, in)
	if !there && in.Kind == journal.KindMade {
		return false, nil
	}
	return true, s.take(dir, in, st, there, r)
}

// takeAstray is takeAway for what undecided transactions have made in directories that have
// got other names since: outsiders may rename those. It is looked for everywhere.
func (s *Recoverer) takeAstray(ins []journal.Intent, r *Report, fail func(journal.Intent, error)) {
	if len(ins) == 0 {
		return
	}
	found := map[uint64]bool{}
	err := s.disk.WalkAll(context.Background(), nil, func(dir int, where string, e disk.Entry) error {
		for i := range ins {
			if e.Ino != ins[i].TargetIno || e.Name != ins[i].Name {
				continue
			}
			if _, there := s.disk.Named(dir, ins[i]); there {
				ins[i].Dir, found[ins[i].ID] = where, true
			}
		}
		return nil
	})
	for _, in := range Inside(ins) {
		switch {
		case err != nil:
			fail(in, err)
		case found[in.ID]:
			_, err := s.takeAway(in, r)
			fail(in, err)
		default:
			fail(in, s.disk.Finish(in))
		}
	}
}

// take is takeAway where the directory is open, and the name was looked at.
func (s *Recoverer) take(dir int, in journal.Intent, st *unix.Stat_t, there bool, r *Report) error {
	var kept bool
	var err error
	if there && in.Keep != "" {
		kept, err = s.keeper.Settle(s.disk.OwnerOf(dir, st), dir, in.Name, keep.Keep{ID: in.Keep, Ino: in.TargetIno})
	} else {
		err = s.disk.RemoveNamed(dir, in)
	}
	if errors.Is(err, unix.ENOTEMPTY) && s.removeOrphansIn(dir, in.Name) {
		err = s.disk.RemoveNamed(dir, in)
	}
	if kept {
		r.Kept = append(r.Kept, in)
	}
	switch {
	case errors.Is(err, unix.ENOTEMPTY), errors.Is(err, os.ErrExist):
		return s.disk.Finish(in)
	case err != nil:
		return err
	}
	if err := s.disk.SyncDir(dir, s.disk.StateFD()); err != nil {
		return err
	}
	if there && in.Kind == journal.KindRemove {
		r.Redone = append(r.Redone, in)
	} else if there {
		r.Undone = append(r.Undone, in)
	}
	return s.disk.Finish(in)
}

// finishTxns forgets the decisions, when all of them have been carried out.
func (s *Recoverer) finishTxns(pending []journal.Intent) error {
	var errs []error
	for _, in := range pending {
		if in.Kind == journal.KindTxn {
			errs = append(errs, s.disk.Finish(in))
		}
	}
	return errors.Join(errs...)
}
