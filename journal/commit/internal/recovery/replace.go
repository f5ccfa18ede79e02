package recovery

import (
	"errors"
	"os"

	"golang.org/x/sys/unix"

	"latchfs/journal"
	"latchfs/journal/commit/internal/disk"
	"latchfs/journal/commit/internal/keep"
)

// undoReplace puts right what a crash has left of a replacement: a shadow that
// did not become the file, or an old version that did not get where it belongs. found is
// false if the shadow has to be looked for.
func (s *Recoverer) undoReplace(in journal.Intent, r *Report) (found bool, err error) {
	dir, err := s.disk.OpenShadowDir(in)
	if disk.Gone(err) {
		if in.Synced || s.isElsewhere(-1, in) {
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
	return true, s.undoReplaceAt(dir, in, r)
}

func (s *Recoverer) undoReplaceAt(dir int, in journal.Intent, r *Report) error {
	var st unix.Stat_t
	err := unix.Fstatat(dir, in.Shadow, &st, unix.AT_SYMLINK_NOFOLLOW)
	switch {
	case errors.Is(err, unix.ENOENT): // it had no name yet, or all was done
		err = nil
	case err != nil:
		return os.NewSyscallError("fstatat", err)
	case in.ShadowIno == 0 || st.Ino == in.ShadowIno:
		err = s.removeShadow(dir, in, r)
	case st.Ino == in.TargetIno:
		var kept bool
		kept, err = s.keeper.Settle(s.disk.OwnerOf(dir, &st), dir, in.Shadow, keep.Keep{ID: in.Keep, Ino: in.TargetIno})
		if kept {
			r.Kept = append(r.Kept, in)
		}
	default:
		err = s.putBack(dir, in, r)
	}
	if err == nil && in.Keep != "" {
		err = s.keeper.DropLink(in.Keep)
	}
	if err != nil {
		return err
	}
	return s.disk.Finish(in)
}

// putBack gives a file its name back that somebody around the mount had put in
// the base's place at the moment of the exchange.
func (s *Recoverer) putBack(dir int, in journal.Intent, r *Report) error {
	var st unix.Stat_t
	err := unix.Fstatat(dir, in.Name, &st, unix.AT_SYMLINK_NOFOLLOW)
	switch {
	case err == nil && st.Ino == in.ShadowIno:
		as := s.disk.OwnerOfNames(dir, in.Shadow, in.Name, in.ShadowIno)
		err = s.disk.Do("exchange", func() error {
			return as.Run(func() error { return unix.Renameat2(dir, in.Shadow, dir, in.Name, unix.RENAME_EXCHANGE) })
		})
		if err != nil {
			return err
		}
		return s.removeShadow(dir, in, r)
	case errors.Is(err, unix.ENOENT):
		return s.disk.Do("rename", func() error { return unix.Renameat2(dir, in.Shadow, dir, in.Name, unix.RENAME_NOREPLACE) })
	case err != nil:
		return os.NewSyscallError("fstatat", err)
	}
	if in.Synced { // in a copy of the directory all inodes are other ones
		return s.rescue(dir, in.Dir, in, r)
	}
	return s.disk.Do("unlink", func() error { return unix.Unlinkat(dir, in.Shadow, 0) })
}

// removeShadow removes a shadow that did not become the file, or keeps what was synced of
// it.
func (s *Recoverer) removeShadow(dir int, in journal.Intent, r *Report) error {
	if in.Synced {
		return s.rescue(dir, in.Dir, in, r)
	}
	err := s.disk.Do("unlink", func() error { return unix.Unlinkat(dir, in.Shadow, 0) })
	if err == nil {
		r.Undone = append(r.Undone, in)
	}
	return err
}
