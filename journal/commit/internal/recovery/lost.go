package recovery

import (
	"context"
	"errors"
	"os"

	"golang.org/x/sys/unix"

	"latchfs/journal"
	"latchfs/journal/commit/internal/disk"
	"latchfs/journal/commit/internal/tail"
)

// Lost is a commit in place, a file that was appended to, or a shadow that was synced or
// that this run could not take away, whose directory was renamed, or whose target was, before it
// was finished.
type Lost struct {
	In        journal.Intent
	ShadowDir int    // valid with shadow
	Where     string // its path, likewise
	Shadow    int    // -1: not found
	Target    int    // -1: not found
	Barred    bool   // the target may not be opened
	Keep      bool   // its bytes are kept, whatever they were for
	Back      bool   // what there is of it is undone
}

// Close closes what Find has opened.
func (l *Lost) Close() {
	if l.Shadow >= 0 {
		unix.Close(l.Shadow)
		unix.Close(l.ShadowDir)
	}
	if l.Target >= 0 {
		unix.Close(l.Target)
	}
}

// open opens the target, if the name in dir is that.
func (l *Lost) open(dir int, name string) (err error) {
	open := disk.OpenTarget
	if l.In.Kind == journal.KindAppend {
		open = tail.OpenTarget
	}
	l.Target, err = open(dir, name, l.In)
	if errors.Is(err, disk.ErrBarred) {
		l.Barred = true
		return nil
	}
	return err
}

// Find looks everywhere for the shadows and targets of lost.
func Find(s *disk.Disk, lost []*Lost) error {
	look := func(dir int, where string, e disk.Entry) error {
		for _, l := range lost {
			if l.Shadow < 0 && e.Name == l.In.Shadow {
				fd, err := disk.OpenShadow(dir, e.Name)
				if err != nil {
					return err
				}
				own, err := unix.FcntlInt(uintptr(dir), unix.F_DUPFD_CLOEXEC, 0)
				if err != nil {
					unix.Close(fd)
					return os.NewSyscallError("dup", err)
				}
				l.Shadow, l.ShadowDir, l.Where = fd, own, where
			}
			if l.Target < 0 && e.Ino == l.In.TargetIno && !disk.Reserved(e.Name) {
				if err := l.open(dir, e.Name); err != nil {
					return err
				}
			}
		}
		return nil
	}
	err := disk.ReadDir(s.StateFD(), func(e disk.Entry) error { return look(s.StateFD(), disk.StateDirName, e) })
	if err != nil {
		return err
	}
	return s.Walk(context.Background(), look)
}

// finishLost deals with what find has found, or has not.
func (s *Recoverer) finishLost(l *Lost, tails *tail.Recovery, r *Report) error {
	switch {
	case l.Keep:
		return s.keepLost(l, r)
	case l.Back && l.Shadow < 0:
		return s.disk.Finish(l.In)
	case l.Back && l.In.Kind == journal.KindReplace:
		return s.undoReplaceAt(l.ShadowDir, l.In, r)
	case l.Back:
		return s.undoAt(l.ShadowDir, l.In, r)
	case l.In.Kind != journal.KindAppend:
		return s.redoLost(l, r)
	case l.Barred:
		return tails.Leave(l.In)
	case l.Target < 0:
		return s.disk.Finish(l.In) // it was removed
	}
	return tails.Check(l.In, l.Target)
}

// redoLost finishes what find has found. Bytes without a target are kept aside.
func (s *Recoverer) redoLost(l *Lost, r *Report) error {
	switch {
	case l.Shadow < 0:
		return s.disk.Finish(l.In)
	case l.In.Kind == journal.KindReplace:
		return s.redoReplace(l.In, l.ShadowDir, r)
	case l.Target >= 0:
		return s.redo(l.In, l.ShadowDir, l.Shadow, l.Target, r)
	}
	reason := "the file was removed before its commit was finished"
	if l.Barred {
		reason = "the file could not be opened to finish its commit"
	}
	if _, err := s.keepAside(l.Shadow, reason, l.In, r); err != nil {
		return err
	}
	if err := s.disk.Do("unlink", func() error { return unix.Unlinkat(l.ShadowDir, l.In.Shadow, 0) }); err != nil {
		return err
	}
	return s.disk.Finish(l.In)
}
