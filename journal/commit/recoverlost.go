package commit

import (
	"context"
	"os"

	"golang.org/x/sys/unix"

	"latchfs/journal"
)

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

// findLost looks everywhere for the shadows and targets of lost.
func findLost(s *disk, lost []*lostRedo) error {
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
func (s *recoverer) finishLost(l *lostRedo, tails *tailRecovery, r *Report) error {
	switch {
	case l.in.Kind != journal.KindAppend:
		return s.redoLost(l, r)
	case l.target < 0:
		return s.finish(l.in) // it was removed
	}
	return tails.checkTail(l.in, l.target)
}

// redoLost finishes what find has found. Bytes without a target are kept aside.
func (s *recoverer) redoLost(l *lostRedo, r *Report) error {
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
	id, err := s.rejects.keep(meta, &st, func(dir int, st *unix.Stat_t) error { return s.rejects.copyKept(l.shadow, dir, st) })
	if err != nil {
		return err
	}
	r.Salvaged = append(r.Salvaged, id)
	if err := s.do("unlink", func() error { return unix.Unlinkat(l.shadowDir, l.in.Shadow, 0) }); err != nil {
		return err
	}
	return s.finish(l.in)
}
