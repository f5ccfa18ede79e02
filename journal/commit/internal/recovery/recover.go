package recovery

import (
	"errors"
	"fmt"
	"os"
	"path/filepath"
	"slices"
	"strings"
	"sync"

	"golang.org/x/sys/unix"

	"latchfs/journal"
	"latchfs/journal/commit/internal/disk"
	"latchfs/journal/commit/internal/keep"
	"latchfs/journal/commit/internal/lazy"
	"latchfs/journal/commit/internal/rejected"
	"latchfs/journal/commit/internal/tail"
	"latchfs/journal/history"
)

// Report says what recovery has found and done. Paths are relative to the data
// root.
type Report struct {
	Undone   []journal.Intent // replacements that had not happened: the old version stands
	Redone   []journal.Intent // commits in place that were finished
	Kept     []journal.Intent // replacements that had happened, whose old version is in the history now
	Cut      []tail.Cut       // files that ended in an unfinished record
	Barred   []string         // files that may end in an unfinished record, and could not be opened: they stand as they are
	Reverted []lazy.Reverted  // files whose new version was not whole
	Removed  []string         // orphaned shadows
	Salvaged []string         // IDs under rejected/ of bytes that had no place to go
	Changed  []Changed        // files that somebody has written since a crash cut their commit in place short
	Synced   []Synced         // files whose writers had synced them, and not closed
	// SweepDue: the previous stop was not clean, so orphans may lie anywhere
	// below the root. Sweep finds them; it may run beside everything else.
	SweepDue bool
}

// Recoverer puts right what a crash has left.
type Recoverer struct {
	disk    *disk.Disk
	keeper  *keep.Keeper
	rejects *rejected.Store

	// recovering is held by Recover: two of them would finish the same things, the
	// slower one when something newer is in place already. It comes before all others.
	recovering sync.Mutex
}

// New returns the recovery of d, which keeps aside in r what has no place to go.
func New(d *disk.Disk, r *rejected.Store) *Recoverer {
	return &Recoverer{disk: d, keeper: keep.New(d), rejects: r}
}

// Recover finishes or undoes every intent that is pending: at a start before
// anything else is done with the data root, and later to finish what InPlace
// left with ErrRedoPending. An error names what could not be put right; the
// intents concerned stay pending.
func (s *Recoverer) Recover() (Report, error) {
	s.recovering.Lock()
	defer s.recovering.Unlock()
	r := Report{SweepDue: !s.disk.Journal.Clean()}
	var errs []error
	fail := func(in journal.Intent, err error) {
		if err != nil {
			errs = append(errs, fmt.Errorf("recover %q in %q: %w", in.Name, in.Dir, err))
		}
	}
	pending := slices.DeleteFunc(s.disk.Pending(), func(in journal.Intent) bool {
		err := Plausible(in)
		fail(in, err)
		return err != nil
	})
	var err error
	if r.Reverted, err = lazy.Recover(s.disk, s.rejects, pending); err != nil {
		// What comes next would take the old versions away.
		return r, errors.Join(append(errs, fmt.Errorf("recover commits that were not on disk: %w", err))...)
	}
	lost, gone := s.recoverTxns(pending, &r, fail)
	tails, appended := tail.NewRecovery(s.disk, s.rejects), false
	for _, in := range pending {
		if in.Txn != 0 {
			continue
		}
		appended = appended || in.Kind == journal.KindAppend
		switch in.Kind {
		case journal.KindShadow:
			lost = append(lost, s.takeBack(in, s.undo, &r, fail)...)
		case journal.KindReplace:
			lost = append(lost, s.takeBack(in, s.undoReplace, &r, fail)...)
		case journal.KindInPlace:
			found, err := s.redoAt(in, &r)
			fail(in, err)
			if err == nil && !found {
				lost = append(lost, &Lost{In: in, Shadow: -1, Target: -1})
			}
		case journal.KindLazy: // done first
		case journal.KindAppend:
			found, err := tails.CheckAt(in)
			fail(in, err)
			if err == nil && !found {
				lost = append(lost, &Lost{In: in, Shadow: -1, Target: -1})
			}
		default:
			fail(in, fmt.Errorf("intent of unknown kind %q", in.Kind))
		}
	}
	if len(lost) > 0 {
		if err := Find(s.disk, lost); err != nil {
			errs = append(errs, fmt.Errorf("recover: look for moved files: %w", err))
		} else {
			for _, l := range lost {
				fail(l.In, s.finishLost(l, tails, &r))
			}
		}
		for _, l := range lost {
			l.Close()
		}
	}
	s.takeAllAway(gone, &r, fail)
	if len(errs) == 0 {
		errs = append(errs, s.finishTxns(pending))
	}
	if appended {
		// On disk before anything else is done with the files: what becomes of them
		// is not to be measured by these records.
		errs = append(errs, s.disk.Do("syncjournal", s.disk.Journal.Sync))
	}
	r.Cut, r.Barred = tails.Cut, tails.Barred
	errs = append(errs, s.tidyState(&r))
	salvaged, err := s.rejects.Tidy()
	r.Salvaged = append(r.Salvaged, salvaged...)
	errs = append(errs, err)
	s.rejects.StockBallast()
	return r, errors.Join(errs...)
}

// takeBack does what undo does about an intent, and returns it if its shadow has to be looked
// for.
func (s *Recoverer) takeBack(
	in journal.Intent, undo func(journal.Intent, *Report) (bool, error), r *Report, fail func(journal.Intent, error),
) []*Lost {
	found, err := undo(in, r)
	fail(in, err)
	if found || err != nil {
		return nil
	}
	return []*Lost{{In: in, Shadow: -1, Target: -1, Keep: in.Synced, Back: !in.Synced}}
}

// isElsewhere reports whether a name that this run has left behind is not where it was: with its
// directory it may have got another path since. Sweep looks for what a crash has left, but not
// after a clean stop.
func (s *Recoverer) isElsewhere(dir int, in journal.Intent) bool {
	var st unix.Stat_t
	return !in.Synced && s.disk.IsAbandoned(in) &&
		(dir < 0 || errors.Is(unix.Fstatat(dir, in.Shadow, &st, unix.AT_SYMLINK_NOFOLLOW), unix.ENOENT))
}

// undoAt is undo in the directory in which the shadow is.
func (s *Recoverer) undoAt(dir int, in journal.Intent, r *Report) error {
	err := s.disk.RemoveName(dir, in.Shadow)
	switch {
	case err == nil:
		r.Undone = append(r.Undone, in)
	case !errors.Is(err, unix.ENOENT):
		return err
	}
	return s.disk.Finish(in)
}

// undo removes a shadow that did not become a file, or keeps what was synced of it. found
// is false if it has to be looked for.
func (s *Recoverer) undo(in journal.Intent, r *Report) (found bool, err error) {
	if in.Synced {
		return s.keepSynced(in, r)
	}
	dir, err := s.disk.OpenShadowDir(in)
	if disk.Gone(err) {
		if s.isElsewhere(-1, in) {
			return false, nil
		}
		return true, s.disk.Finish(in) // moved, perhaps: then it is Sweep's
	}
	if err != nil {
		return true, err
	}
	defer unix.Close(dir)
	if s.isElsewhere(dir, in) {
		return false, nil
	}
	return true, s.undoAt(dir, in, r)
}

// redoAt repeats a commit in place, if the shadow and the target are where the
// intent says. found is false if they have to be looked for.
func (s *Recoverer) redoAt(in journal.Intent, r *Report) (found bool, err error) {
	dir, err := s.disk.OpenBelow(in.Dir)
	if disk.Gone(err) {
		return false, nil
	}
	if err != nil {
		return false, err
	}
	defer unix.Close(dir)
	target, err := disk.OpenTarget(dir, in.Name, in)
	if errors.Is(err, disk.ErrBarred) && !s.disk.IsAbandoned(in) {
		return false, nil // Find comes to it as well
	}
	if err != nil { // of a commit of this run the next try may be luckier
		return false, err
	}
	if target < 0 {
		return false, nil
	}
	defer unix.Close(target)
	shadowDir, err := s.disk.OpenShadowDir(in)
	if disk.Gone(err) {
		return false, nil
	}
	if err != nil {
		return false, err
	}
	defer unix.Close(shadowDir)
	shadow, err := disk.OpenShadow(shadowDir, in.Shadow)
	if errors.Is(err, unix.ENOENT) {
		// The target is in its place and the shadow is not: it was not linked
		// yet, and the target not touched, or all was done.
		return true, s.disk.Finish(in)
	}
	if err != nil {
		return false, err
	}
	defer unix.Close(shadow)
	return true, s.redo(in, shadowDir, shadow, target, r)
}

func (s *Recoverer) redo(in journal.Intent, shadowDir, shadow, target int, r *Report) error {
	finish, err := s.makeWay(in, shadow, target, r)
	if err != nil {
		return err
	}
	if finish {
		if err := s.finishInPlace(in, shadow, target); err != nil {
			return err
		}
	}
	if err := s.disk.Do("unlink", func() error { return unix.Unlinkat(shadowDir, in.Shadow, 0) }); err != nil {
		return err
	}
	if err := s.disk.Finish(in); err != nil {
		return err
	}
	// On disk before anything newer is written to the target.
	if err := s.disk.Do("syncjournal", s.disk.Journal.Sync); err != nil {
		return err
	}
	if finish {
		r.Redone = append(r.Redone, in)
	}
	return nil
}

// finishInPlace makes the target of in a copy of its shadow.
func (s *Recoverer) finishInPlace(in journal.Intent, shadow, target int) error {
	with, err := Restrain(in, target)
	if err != nil {
		return err
	}
	err = s.disk.ApplyInPlace(shadow, target, with, disk.UserXattr)
	if err != nil {
		s.disk.Leave(in, target)
	}
	return err
}

// Restrain takes out of in what would give target rights that it does not have now.
// Between the crash and the recovery its owner may have taken them away, and a journal
// is only as good as the directory that it lies in: content is finished, rights are
// given by users alone.
func Restrain(in journal.Intent, target int) (journal.Intent, error) {
	var st unix.Stat_t
	if err := unix.Fstat(target, &st); err != nil {
		return in, os.NewSyscallError("fstat", err)
	}
	in.UID, in.GID = -1, -1
	if in.Mode >= 0 {
		in.Mode &= int64(st.Mode & 0o7777)
	}
	return in, nil
}

// Plausible refuses an intent that this package cannot have written: what
// recovery removes or overwrites has to be named properly.
func Plausible(in journal.Intent) error {
	shadow := in.Kind == journal.KindShadow || in.Kind == journal.KindReplace || in.Kind == journal.KindInPlace
	outside := func(dir string) bool { return dir != "" && !filepath.IsLocal(dir) }
	switch {
	case outside(in.Dir), !in.InState && outside(in.ShadowDir):
		return fmt.Errorf("%q is no directory of the data root", in.Dir)
	case !shadow && in.Kind != journal.KindMade && in.Kind != journal.KindRemove:
		return nil
	case shadow && !disk.Generated(in.Shadow):
		return fmt.Errorf("%q is no name of a shadow", in.Shadow)
	case in.Keep != "" && !history.IsContentID(in.Keep):
		return fmt.Errorf("%q is no name of a content", in.Keep)
	case in.Name == "" || in.Name == "." || in.Name == ".." || strings.ContainsAny(in.Name, "/\x00"):
		return fmt.Errorf("%q is no name of a file", in.Name)
	}
	return nil
}

// tidyState removes the redo shadows in the state directory that no intent
// stands for.
func (s *Recoverer) tidyState(r *Report) error {
	return disk.ReadDir(s.disk.StateFD(), func(e disk.Entry) error {
		if !disk.Generated(e.Name) || s.disk.NameInUse(e.Name) {
			return nil
		}
		r.Removed = append(r.Removed, disk.StateDirName+"/"+e.Name)
		return s.disk.Do("unlink", func() error { return unix.Unlinkat(s.disk.StateFD(), e.Name, 0) })
	})
}
