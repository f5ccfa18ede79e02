package lazy

import (
	"cmp"
	"context"
	"errors"
	"fmt"
	"os"
	"path"
	"slices"

	"golang.org/x/sys/unix"

	"latchfs/journal"
	"latchfs/journal/commit/internal/disk"
	"latchfs/journal/commit/internal/rejected"
	"latchfs/journal/history"
)

// Reverted is a file that a lazy commit had replaced, or made, and whose new
// version a crash has left unfinished.
type Reverted struct {
	Path string // relative to the data root
	Gone bool   // there was no version before: the name is gone
	Kept string // ID under rejected/ of what was left of the new version; "" if it could not be kept
}

// recovery is one recovery of the commits of a data root that were not known to be
// on disk.
type recovery struct {
	disk     *disk.Disk
	rejects  *rejected.Store
	pending  []journal.Intent
	reverted []Reverted
}

// Recover looks at the commits that were not known to be on disk, in every
// directory of which an intent says that there may be some: where the new version
// is not whole the old one gets the name back. It may be repeated from the start
// at any time.
func Recover(d *disk.Disk, r *rejected.Store, pending []journal.Intent) ([]Reverted, error) {
	s := &recovery{disk: d, rejects: r, pending: pending}
	err := s.run()
	return s.reverted, err
}

func (s *recovery) run() error {
	var errs []error
	var finished []journal.Intent
	everywhere := false
	for _, in := range s.pending {
		if in.Kind != journal.KindLazy {
			continue
		}
		finished = append(finished, in)
		dir, err := s.openMarked(in)
		switch {
		case err != nil:
			errs = append(errs, err)
		case dir < 0:
			everywhere = true // it was moved, or removed
		default:
			errs = append(errs, s.recoverDir(dir, in.Dir, in.Epoch != "" && in.Epoch == s.disk.Epoch(dir)))
			unix.Close(dir)
		}
	}
	if everywhere {
		errs = append(errs, s.everywhere())
	}
	if err := errors.Join(errs...); err != nil {
		return err // with all intents as they are, for the next try
	}
	for _, in := range finished {
		errs = append(errs, s.disk.Finish(in))
	}
	return errors.Join(errs...)
}

// openMarked opens the directory of an intent, -1 if it is not there.
func (s *recovery) openMarked(in journal.Intent) (int, error) {
	dir, err := s.disk.OpenBelow(in.Dir)
	if disk.Gone(err) {
		return -1, nil
	}
	if err != nil {
		return -1, err
	}
	var st unix.Stat_t
	if err := unix.Fstat(dir, &st); err == nil && st.Ino == in.TargetIno && disk.Birth(dir) == in.TargetBirth {
		return dir, nil
	}
	unix.Close(dir)
	return -1, nil
}

// everywhere does it in every directory that has a marker.
func (s *recovery) everywhere() error {
	var dirs []string
	err := s.disk.Walk(context.Background(), func(dir int, where string, e disk.Entry) error {
		if _, ok := ReadMark(s.disk, dir, e); ok && !slices.Contains(dirs, where) {
			dirs = append(dirs, where)
		}
		return nil
	})
	errs := []error{err}
	for _, where := range dirs {
		dir, err := s.disk.OpenBelow(where)
		if err == nil {
			err = s.recoverDir(dir, where, false)
			unix.Close(dir)
		}
		errs = append(errs, err)
	}
	return errors.Join(errs...)
}

// foundMark is a marker that a crash has left.
type foundMark struct {
	Mark
	marker string
}

// recoverDir deals with the markers of one directory, the newest first: what
// an older one says is asked only if the newer versions did not make it. cached:
// the kernel has lost nothing, so that every version is whole.
func (s *recovery) recoverDir(dir int, where string, cached bool) error {
	var marks []foundMark
	err := disk.ReadDir(dir, func(e disk.Entry) error {
		if m, ok := ReadMark(s.disk, dir, e); ok {
			marks = append(marks, foundMark{m, e.Name})
		}
		return nil
	})
	if err != nil || len(marks) == 0 {
		return err
	}
	slices.SortFunc(marks, func(a, b foundMark) int { return cmp.Compare(b.seq, a.seq) })
	for _, m := range marks {
		if err := s.recoverMark(dir, where, m, cached); err != nil {
			return err
		}
	}
	// The markers go when what they are about is on disk.
	if err := s.disk.SyncDir(dir, s.disk.StateFD()); err != nil {
		return err
	}
	for _, m := range marks {
		if err := s.dropMark(dir, m); err != nil {
			return err
		}
	}
	return s.disk.SyncDir(dir, s.disk.StateFD())
}

// recoverMark puts the old version back if the name holds the new one, and that
// is not whole.
func (s *recovery) recoverMark(dir int, where string, m foundMark, cached bool) error {
	fd, err := openNew(dir, m.Mark)
	if err != nil || fd < 0 {
		return err
	}
	defer unix.Close(fd)
	whole := cached
	if !whole {
		if whole, err = m.isWhole(fd); err != nil {
			return err
		}
	}
	if whole {
		return s.disk.Do("fsync", func() error { return unix.Fsync(fd) })
	}
	return s.revert(dir, where, m, fd)
}

// openNew opens the new version if it has the name, else it is -1. Who has barred it from us has
// changed it since.
func openNew(dir int, m Mark) (int, error) {
	fd, err := disk.ReadTarget(dir, m.name, journal.Intent{TargetIno: m.ino, TargetBirth: m.birth, TargetDev: devOf(dir)})
	if errors.Is(err, disk.ErrBarred) {
		return -1, nil
	}
	return fd, err
}

func devOf(fd int) uint64 {
	var st unix.Stat_t
	_ = unix.Fstat(fd, &st) // it is open
	return uint64(st.Dev)
}

// isWhole reports whether the file has the content that the marker says. What a
// crash has lost need not be zeros: a shadow that shares its base's blocks, or that
// was written more than once, shows earlier bytes there. Only a file that was
// modified later than the marker says may have been changed around us, and is
// taken to be so unless it is too short or has lost a sector.
func (m *Mark) isWhole(fd int) (bool, error) {
	var st unix.Stat_t
	if err := unix.Fstat(fd, &st); err != nil {
		return false, os.NewSyscallError("fstat", err)
	}
	if st.Size < m.size {
		return false, nil
	}
	ok, lost, err := disk.Verify(fd, journal.Append{Length: m.size, CRC: m.crc})
	return ok || !lost && st.Mtim.Nano() > m.mtime, err
}

// revert gives the name back to the old version, or takes it away if there was
// none. The bytes of the new one are kept aside as they are.
func (s *recovery) revert(dir int, where string, m foundMark, fd int) error {
	var st unix.Stat_t
	if err := unix.Fstat(fd, &st); err != nil {
		return os.NewSyscallError("fstat", err)
	}
	rev := Reverted{Path: path.Join(where, m.name), Gone: m.oldIno == 0}
	old, at := -1, ""
	if m.oldIno != 0 {
		if old, at = s.findOld(dir, m.Mark); old < 0 {
			return nil // it was given up, for the new version was on disk: somebody has changed it since
		}
	}
	meta := map[string]any{"path": rev.Path, "reason": "the new version was not whole after a crash; the one before has its place"}
	if id, err := s.rejects.Put(meta, &st, func(to int, st *unix.Stat_t) error { return s.rejects.CopyContent(fd, to, st) }); err == nil {
		rev.Kept = id
	}
	as := s.disk.OwnerOf(dir, &st)
	step, do := "rename", func() error { return unix.Renameat(old, at, dir, m.name) }
	if m.oldIno == 0 {
		step, do = "unlink", func() error { return unix.Unlinkat(dir, m.name, 0) }
	} else {
		var is unix.Stat_t
		if err := unix.Fstatat(old, at, &is, unix.AT_SYMLINK_NOFOLLOW); err != nil {
			return os.NewSyscallError("fstatat", err)
		}
		as = s.disk.OwnerOfBoth(dir, &is, &st)
	}
	err := as.Foreign(s.disk.Do(step, func() error { return as.Run(do) }))
	if errors.Is(err, disk.ErrForeignName) {
		return nil // as if it had been there before the start
	}
	if err != nil {
		return err
	}
	s.reverted = append(s.reverted, rev)
	return nil
}

// findOld returns where the old version is: under the reserved name, or in the
// history; -1 if it is nowhere.
func (s *recovery) findOld(dir int, m Mark) (at int, name string) {
	is := func(dir int, name string) bool {
		var st unix.Stat_t
		return unix.Fstatat(dir, name, &st, unix.AT_SYMLINK_NOFOLLOW) == nil && st.Ino == m.oldIno
	}
	switch {
	case m.old != "" && is(dir, m.old):
		return dir, m.old
	case history.IsContentID(m.keep) && is(s.disk.StateFD(), history.ContentPath(m.keep)):
		return s.disk.StateFD(), history.ContentPath(m.keep)
	}
	return -1, ""
}

// dropMark removes a marker that has been dealt with, and the old version if no
// intent says what is to become of it.
func (s *recovery) dropMark(dir int, m foundMark) error {
	known := m.old == "" || slices.ContainsFunc(s.pending, func(in journal.Intent) bool { return in.Shadow == m.old })
	if !known {
		err := s.disk.Do("unlink", func() error { return disk.Unname(dir, m.old) })
		if err != nil && !errors.Is(err, unix.ENOENT) {
			return err
		}
	}
	err := s.disk.Do("unlink", func() error { return disk.Unname(dir, m.marker) })
	switch {
	case errors.Is(err, unix.ENOENT):
		return nil
	case err != nil:
		return fmt.Errorf("the marker %s of %s: %w", m.marker, m.name, err)
	}
	return nil
}
