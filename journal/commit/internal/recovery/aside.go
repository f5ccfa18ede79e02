package recovery

import (
	"os"
	"path"

	"golang.org/x/sys/unix"

	"latchfs/journal"
	"latchfs/journal/commit/internal/disk"
)

// setAside keeps the bytes of a shadow which a decided transaction was to give a name
// that another user's file has by now.
func (s *Recoverer) setAside(dir int, in journal.Intent, r *Report) error {
	fd, err := disk.OpenShadow(dir, in.Shadow)
	if err != nil {
		return err
	}
	defer unix.Close(fd)
	var st unix.Stat_t
	if err := unix.Fstat(fd, &st); err != nil {
		return os.NewSyscallError("fstat", err)
	}
	meta := map[string]any{"reason": disk.ErrForeignName.Error(), "path": path.Join(in.Dir, in.Name), "token": in.Token}
	id, err := s.rejects.Put(meta, &st, func(dir int, st *unix.Stat_t) error { return s.rejects.CopyContent(fd, dir, st) })
	if err != nil {
		return err
	}
	r.Salvaged = append(r.Salvaged, id)
	if err := s.disk.Do("unlink", func() error { return unix.Unlinkat(dir, in.Shadow, 0) }); err != nil {
		return err
	}
	return s.disk.Finish(in)
}
