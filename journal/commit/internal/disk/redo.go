package disk

import (
	"errors"
	"os"

	"golang.org/x/sys/unix"

	"latchfs/journal"
)

// ApplyInPlace makes target a copy of shadow and syncs it. It may be repeated
// from the start at any time. Of the extended attributes it carries those over that
// carries allows.
func (s *Disk) ApplyInPlace(shadow, target int, in journal.Intent, carries func(string) bool) error {
	var st unix.Stat_t
	if err := unix.Fstat(shadow, &st); err != nil {
		return os.NewSyscallError("fstat", err)
	}
	if err := s.Overwrite(shadow, target, st.Size); err != nil {
		return err
	}
	if err := s.applyMeta(shadow, target, &st, in, carries); err != nil {
		return err
	}
	return s.Do("fsync", func() error { return unix.Fsync(target) })
}

// applyMeta carries the metadata over to target. What only the target's owner
// may do, and we are not, is left out: the content counts.
func (s *Disk) applyMeta(shadow, target int, st *unix.Stat_t, in journal.Intent, carries func(string) bool) error {
	steps := []func() error{
		func() error {
			if in.UID < 0 && in.GID < 0 {
				return nil
			}
			return s.Do("chown", func() error { return unix.Fchown(target, int(in.UID), int(in.GID)) })
		},
		func() error {
			if !in.Meta {
				return nil
			}
			_, err := s.CopyXattrs(shadow, target, carries)
			return err
		},
		func() error {
			if in.Mode < 0 {
				return nil
			}
			return s.Do("chmod", func() error { return unix.Fchmod(target, uint32(in.Mode)) })
		},
		func() error {
			return s.Do("utimens", func() error { return Futimens(target, [2]unix.Timespec{st.Atim, st.Mtim}) })
		},
	}
	for _, step := range steps {
		if err := step(); err != nil && !errors.Is(err, unix.EPERM) {
			return err
		}
	}
	return nil
}
