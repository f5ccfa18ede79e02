package commit

import (
	"context"
	"errors"
	"fmt"
	"os"
	"path/filepath"
	"slices"
	"strings"

	"latchfs/journal"
	"latchfs/journal/history"

	"golang.org/x/sys/unix"
)

// Report says what recovery has found and done. Paths are relative to the data
// root.
type Report struct {
	Undone   []journal.Intent // replacements that had not happened: the old version stands
	Redone   []journal.Intent // commits in place that were finished
	Kept     []journal.Intent // replacements that had happened, whose old version is in the history now
	Cut      []CutTail        // files that ended in an unfinished record
	Reverted []Reverted       // files whose new version was not whole
	Removed  []string         // orphaned shadows
	Salvaged []string         // IDs under rejected/ of bytes that had no place to go
	// SweepDue: the previous stop was not clean, so orphans may lie anywhere
	// below the root. Sweep finds them; it may run beside everything else.
	SweepDue bool
}

// Reverted is a file that a lazy commit had replaced, or made, and whose new
// version a crash has left unfinished.
type Reverted struct {
	Path string // relative to the data root
	Gone bool   // there was no version before: the name is gone
	Kept string // ID under rejected/ of what was left of the new version; "" if it could not be kept
}

// Recover finishes or undoes every intent that is pending: at a start before
// anything else is done with the data root, and later to finish what InPlace
// left with ErrRedoPending. An error names what could not be put right; the
// intents concerned stay pending.
func (s *Store) Recover() (Report, error) {
	s.recovering.Lock()
	defer s.recovering.Unlock()
	r := Report{SweepDue: !s.j.Clean()}
	var errs []error
	fail := func(in journal.Intent, err error) {
		if err != nil {
			errs = append(errs, fmt.Errorf("recover %q in %q: %w", in.Name, in.Dir, err))
		}
	}
	pending := slices.DeleteFunc(s.pending(), func(in journal.Intent) bool {
		err := plausible(in)
		fail(in, err)
		return err != nil
	})
	if err := s.recoverLazy(pending, &r); err != nil {
		// What comes next would take the old versions away.
		return r, errors.Join(append(errs, fmt.Errorf("recover commits that were not on disk: %w", err))...)
	}
	lost := s.recoverTxns(pending, &r, fail)
	tails := false
	for _, in := range pending {
		if in.Txn != 0 {
			continue
		}
		tails = tails || in.Kind == journal.KindAppend
		switch in.Kind {
		case journal.KindShadow:
			fail(in, s.undo(in, &r))
		case journal.KindReplace:
			fail(in, s.undoReplace(in, &r))
		case journal.KindInPlace:
			found, err := s.redoAt(in, &r)
			fail(in, err)
			if err == nil && !found {
				lost = append(lost, &lostRedo{in: in, shadow: -1, target: -1})
			}
		case journal.KindLazy: // done first
		case journal.KindAppend:
			found, err := s.checkTailAt(in, &r)
			fail(in, err)
			if err == nil && !found {
				lost = append(lost, &lostRedo{in: in, shadow: -1, target: -1})
			}
		default:
			fail(in, fmt.Errorf("intent of unknown kind %q", in.Kind))
		}
	}
	if len(lost) > 0 {
		if err := s.find(lost); err != nil {
			errs = append(errs, fmt.Errorf("recover: look for moved files: %w", err))
		} else {
			for _, l := range lost {
				fail(l.in, s.finishLost(l, &r))
			}
		}
		for _, l := range lost {
			l.close()
		}
	}
	if len(errs) == 0 {
		errs = append(errs, s.finishTxns(pending))
	}
	if tails {
		// On disk before anything else is done with the files: what becomes of them
		// is not to be measured by these records.
		errs = append(errs, s.do("syncjournal", s.j.Sync))
	}
	errs = append(errs, s.tidyState(&r), s.tidyRejected(&r))
	s.stockBallast()
	return r, errors.Join(errs...)
}

// undo removes a shadow that did not become a file.
func (s *Store) undo(in journal.Intent, r *Report) error {
	dir, err := s.openShadowDir(in)
	if gone(err) {
		return s.finish(in) // moved, perhaps: then it is Sweep's
	}
	if err != nil {
		return err
	}
	defer unix.Close(dir)
	err = s.removeName(dir, in.Shadow)
	switch {
	case err == nil:
		r.Undone = append(r.Undone, in)
	case !errors.Is(err, unix.ENOENT):
		return err
	}
	return s.finish(in)
}

// redoAt repeats a commit in place, if the shadow and the target are where the
// intent says. found is false if they have to be looked for.
func (s *Store) redoAt(in journal.Intent, r *Report) (found bool, err error) {
	dir, err := s.openBelow(in.Dir)
	if gone(err) {
		return false, nil
	}
	if err != nil {
		return false, err
	}
	defer unix.Close(dir)
	target, err := openTarget(dir, in.Name, in)
	if err != nil {
		return false, err
	}
	if target < 0 {
		return false, nil
	}
	defer unix.Close(target)
	shadowDir, err := s.openShadowDir(in)
	if gone(err) {
		return false, nil
	}
	if err != nil {
		return false, err
	}
	defer unix.Close(shadowDir)
	shadow, err := openShadow(shadowDir, in.Shadow)
	if errors.Is(err, unix.ENOENT) {
		// The target is in its place and the shadow is not: it was not linked
		// yet, and the target not touched, or all was done.
		return true, s.finish(in)
	}
	if err != nil {
		return false, err
	}
	defer unix.Close(shadow)
	return true, s.redo(in, shadowDir, shadow, target, r)
}

func (s *Store) redo(in journal.Intent, shadowDir, shadow, target int, r *Report) error {
	with, err := restrain(in, target)
	if err != nil {
		return err
	}
	if err := s.applyInPlace(shadow, target, with, userXattr); err != nil {
		return err
	}
	if err := s.do("unlink", func() error { return unix.Unlinkat(shadowDir, in.Shadow, 0) }); err != nil {
		return err
	}
	if err := s.finish(in); err != nil {
		return err
	}
	// On disk before anything newer is written to the target.
	if err := s.do("syncjournal", s.j.Sync); err != nil {
		return err
	}
	r.Redone = append(r.Redone, in)
	return nil
}

// lostRedo is a commit in place, or a file that was appended to, whose directory
// was renamed, or whose target was, before it was finished.
type lostRedo struct {
	in        journal.Intent
	shadowDir int // valid with shadow
	shadow    int // -1: not found
	target    int // -1: not found
}

func (l *lostRedo) close() {
	if l.shadow >= 0 {
		unix.Close(l.shadow)
		unix.Close(l.shadowDir)
	}
	if l.target >= 0 {
		unix.Close(l.target)
	}
}

// find looks everywhere for the shadows and targets of lost.
func (s *Store) find(lost []*lostRedo) error {
	look := func(dir int, e dirent) error {
		for _, l := range lost {
			if l.shadow < 0 && e.name == l.in.Shadow {
				fd, err := openShadow(dir, e.name)
				if err != nil {
					return err
				}
				own, err := unix.FcntlInt(uintptr(dir), unix.F_DUPFD_CLOEXEC, 0)
				if err != nil {
					unix.Close(fd)
					return os.NewSyscallError("dup", err)
				}
				l.shadow, l.shadowDir = fd, own
			}
			if l.target < 0 && e.ino == l.in.TargetIno && !Reserved(e.name) {
				fd, err := openTarget(dir, e.name, l.in)
				if err != nil {
					return err
				}
				l.target = fd
			}
		}
		return nil
	}
	if err := readDir(s.stateFD(), func(e dirent) error { return look(s.stateFD(), e) }); err != nil {
		return err
	}
	return s.walk(context.Background(), func(dir int, _ string, e dirent) error { return look(dir, e) })
}

// finishLost deals with what find has found, or has not.
func (s *Store) finishLost(l *lostRedo, r *Report) error {
	switch {
	case l.in.Kind != journal.KindAppend:
		return s.redoLost(l, r)
	case l.target < 0:
		return s.finish(l.in) // it was removed
	}
	return s.checkTail(l.in, l.target, r)
}

// redoLost finishes what find has found. Bytes without a target are kept aside.
func (s *Store) redoLost(l *lostRedo, r *Report) error {
	switch {
	case l.shadow < 0:
		return s.finish(l.in)
	case l.in.Kind == journal.KindReplace:
		return s.renameLost(l, r)
	case l.target >= 0:
		return s.redo(l.in, l.shadowDir, l.shadow, l.target, r)
	}
	var st unix.Stat_t
	if err := unix.Fstat(l.shadow, &st); err != nil {
		return os.NewSyscallError("fstat", err)
	}
	meta := map[string]any{
		"reason": "the file was removed before its commit was finished", "path": l.in.Dir + "/" + l.in.Name, "token": l.in.Token,
	}
	id, err := s.keep(meta, &st, func(dir int, st *unix.Stat_t) error { return s.copyKept(l.shadow, dir, st) })
	if err != nil {
		return err
	}
	r.Salvaged = append(r.Salvaged, id)
	if err := s.do("unlink", func() error { return unix.Unlinkat(l.shadowDir, l.in.Shadow, 0) }); err != nil {
		return err
	}
	return s.finish(l.in)
}

// openTarget opens the file that in is about, -1 if name is not that file.
func openTarget(dir int, name string, in journal.Intent) (int, error) {
	var st unix.Stat_t
	err := unix.Fstatat(dir, name, &st, unix.AT_SYMLINK_NOFOLLOW)
	if gone(err) || err == nil && (st.Ino != in.TargetIno || st.Mode&unix.S_IFMT != unix.S_IFREG) {
		return -1, nil
	}
	if err != nil {
		return -1, os.NewSyscallError("fstatat", err)
	}
	fd, err := unix.Openat(dir, name, unix.O_RDWR|unix.O_NOFOLLOW|unix.O_NONBLOCK|unix.O_CLOEXEC, 0)
	if err != nil {
		return -1, os.NewSyscallError("openat", err)
	}
	if isTarget(fd, &st, in) {
		return fd, nil
	}
	unix.Close(fd)
	return -1, nil
}

// isTarget reports whether fd, which has the status st, is the file that in is
// about.
func isTarget(fd int, st *unix.Stat_t, in journal.Intent) bool {
	if st.Ino != in.TargetIno || st.Mode&unix.S_IFMT != unix.S_IFREG {
		return false
	}
	// Device numbers change with the order of mounting; births do not.
	return birth(fd) == in.TargetBirth && (in.TargetBirth != 0 || uint64(st.Dev) == in.TargetDev)
}

// plausible refuses an intent that this package cannot have written: what
// recovery removes or overwrites has to be named properly.
func plausible(in journal.Intent) error {
	shadow := in.Kind == journal.KindShadow || in.Kind == journal.KindReplace || in.Kind == journal.KindInPlace
	outside := func(dir string) bool { return dir != "" && !filepath.IsLocal(dir) }
	switch {
	case outside(in.Dir), !in.InState && outside(in.ShadowDir):
		return fmt.Errorf("%q is no directory of the data root", in.Dir)
	case !shadow && in.Kind != journal.KindMade && in.Kind != journal.KindRemove:
		return nil
	case shadow && !generated(in.Shadow):
		return fmt.Errorf("%q is no name of a shadow", in.Shadow)
	case in.Keep != "" && !history.IsContentID(in.Keep):
		return fmt.Errorf("%q is no name of a content", in.Keep)
	case in.Name == "" || in.Name == "." || in.Name == ".." || strings.ContainsAny(in.Name, "/\x00"):
		return fmt.Errorf("%q is no name of a file", in.Name)
	}
	return nil
}

func openShadow(dir int, name string) (int, error) {
	fd, err := OpenUnnoticed(dir, name)
	return fd, os.NewSyscallError("openat", err)
}

// OpenUnnoticed opens the file name in dir for a look of our own: it follows no
// link, waits for no FIFO's writer and, where we may ask for that (it is our file,
// or we are root), leaves the access time as its users' reading has it.
func OpenUnnoticed(dir int, name string) (int, error) {
	const flags = unix.O_RDONLY | unix.O_NOFOLLOW | unix.O_NONBLOCK | unix.O_CLOEXEC
	fd, err := unix.Openat(dir, name, flags|unix.O_NOATIME, 0)
	if err == unix.EPERM {
		fd, err = unix.Openat(dir, name, flags, 0)
	}
	return fd, err
}

func (s *Store) openShadowDir(in journal.Intent) (int, error) {
	if in.InState {
		return openDir(s.stateFD(), ".")
	}
	return s.openBelow(in.ShadowDir)
}

// gone reports whether err says that a name does not lead where it did.
func gone(err error) bool {
	return errors.Is(err, unix.ENOENT) || errors.Is(err, unix.ENOTDIR) || errors.Is(err, unix.ELOOP)
}

// tidyState removes the redo shadows in the state directory that no intent
// stands for.
func (s *Store) tidyState(r *Report) error {
	return readDir(s.stateFD(), func(e dirent) error {
		if !generated(e.name) || s.nameInUse(e.name) {
			return nil
		}
		r.Removed = append(r.Removed, StateDirName+"/"+e.name)
		return s.do("unlink", func() error { return unix.Unlinkat(s.stateFD(), e.name, 0) })
	})
}
