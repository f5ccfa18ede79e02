package recovery

import (
	"errors"
	"os"
	"path"

	"golang.org/x/sys/unix"

	"latchfs/journal"
	"latchfs/journal/commit/internal/disk"
)

// setAside keeps the bytes of a shadow that a decided transaction was to give a name; reason
// says why it cannot have it.
func (s *Recoverer) setAside(dir int, in journal.Intent, reason error, r *Report) error {
	fd, err := disk.OpenShadow(dir, in.Shadow)
	if err != nil {
		return err
	}
	defer unix.Close(fd)
	if _, err := s.keepAside(fd, reason.Error(), in, r); err != nil {
		return err
	}
	if err := s.disk.Do("unlink", func() error { return unix.Unlinkat(dir, in.Shadow, 0) }); err != nil {
		return err
	}
	return s.disk.Finish(in)
}

// keepAside keeps the bytes of fd, which in is about, and has them on disk: what they were
// kept from comes next.
func (s *Recoverer) keepAside(fd int, reason string, in journal.Intent, r *Report) (id string, err error) {
	var st unix.Stat_t
	if err := unix.Fstat(fd, &st); err != nil {
		return "", os.NewSyscallError("fstat", err)
	}
	meta := map[string]any{"reason": reason, "path": path.Join(in.Dir, in.Name), "token": in.Token}
	id, err = s.rejects.Put(meta, &st, func(dir int, st *unix.Stat_t) error {
		if err := s.rejects.CopyContent(fd, dir, st); err != nil {
			return err
		}
		return errors.Join(s.rejects.SyncContent(dir), s.disk.SyncDir(dir, s.disk.StateFD()))
	})
	if err == nil {
		r.Salvaged = append(r.Salvaged, id)
	}
	return id, err
}
