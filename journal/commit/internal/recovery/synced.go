package recovery

import (
	"errors"
	"os"
	"path"
	"slices"

	"golang.org/x/sys/unix"

	"latchfs/journal"
	"latchfs/journal/commit/internal/disk"
	"latchfs/journal/commit/internal/rejected"
)

// Synced is a shadow whose bytes fsync had acknowledged, of a file that its writer had not
// closed.
type Synced struct {
	In   journal.Intent
	Path string // relative to the data root
	Kept string // ID under rejected/ of the bytes; "": they are the file now
}

// syncedReason says in meta.json why the bytes are there.
const syncedReason = "latchfs ended before the file was closed; what its writer had synced by then is kept here"

// keepSynced deals with a shadow that its writer has synced. found is false if the
// shadow has to be looked for.
func (s *Recoverer) keepSynced(in journal.Intent, r *Report) (found bool, err error) {
	dir, err := s.disk.OpenShadowDir(in)
	if disk.Gone(err) {
		return false, nil
	}
	if err != nil {
		return false, err
	}
	defer unix.Close(dir)
	var st unix.Stat_t
	err = unix.Fstatat(dir, in.Shadow, &st, unix.AT_SYMLINK_NOFOLLOW)
	switch {
	case errors.Is(err, unix.ENOENT):
		// It is the file, was kept, or had no name yet; unless this is another directory.
		if in.Kind == journal.KindShadow && !isDir(dir, in) {
			return false, nil
		}
		err = nil
	case err != nil:
		return true, os.NewSyscallError("fstatat", err)
	case st.Ino == in.ShadowIno:
		err = s.rescue(dir, in.Dir, in, r)
	default:
		err = s.removeExchanged(dir, in.Dir, in, r)
	}
	if err != nil {
		return true, err
	}
	return true, s.disk.Finish(in)
}

// isDir reports whether dir is the directory in which the shadow of in was synced.
func isDir(dir int, in journal.Intent) bool {
	var st unix.Stat_t
	return unix.Fstat(dir, &st) == nil && st.Ino == in.TargetIno && disk.Birth(dir) == in.TargetBirth
}

// removeExchanged removes the version that the shadow has replaced, unless another intent
// says what is to become of it. In a copy of a directory all inodes are other ones: what
// cannot be told from the shadow is treated as that. where is the path of dir.
func (s *Recoverer) removeExchanged(dir int, where string, in journal.Intent, r *Report) error {
	same := func(other journal.Intent) bool { return other.Shadow == in.Shadow && other.ID != in.ID }
	if slices.ContainsFunc(s.disk.Pending(), same) {
		return nil
	}
	if !isExchanged(dir, in) {
		return s.rescue(dir, where, in, r)
	}
	return s.disk.RemoveName(dir, in.Shadow)
}

// isExchanged reports whether the shadow has become the file, so that its reserved name, in
// dir as well, has what the file was before.
func isExchanged(dir int, in journal.Intent) bool {
	var st unix.Stat_t
	return unix.Fstatat(dir, in.Name, &st, unix.AT_SYMLINK_NOFOLLOW) == nil && st.Ino == in.ShadowIno
}

// rescue lets the shadow appear under its name in dir, whose path is where, or keeps its
// bytes aside.
func (s *Recoverer) rescue(dir int, where string, in journal.Intent, r *Report) error {
	done := Synced{In: in, Path: path.Join(where, in.Name)}
	if in.Appears && in.Kind == journal.KindShadow && in.Dir == in.ShadowDir && !disk.Reserved(in.Name) {
		err := s.appear(dir, in)
		if err == nil {
			err = s.disk.SyncDir(dir, s.disk.StateFD())
			r.Synced = append(r.Synced, done)
		}
		if !errors.Is(err, unix.EEXIST) {
			return err
		}
	}
	fd, err := disk.OpenShadow(dir, in.Shadow)
	if err != nil {
		return err
	}
	defer unix.Close(fd)
	var st unix.Stat_t
	if err := unix.Fstat(fd, &st); err != nil {
		return os.NewSyscallError("fstat", err)
	}
	meta := map[string]any{"reason": syncedReason, "path": done.Path, "uid": st.Uid}
	if in.Token != 0 {
		meta["token"] = in.Token
	}
	done.Kept, err = s.rejects.Put(meta, &st, func(to int, st *unix.Stat_t) error { return s.moveAside(dir, in.Shadow, fd, to, st) })
	if err == nil {
		r.Synced = append(r.Synced, done)
	}
	return err
}

// renameNew gives a file another name that nothing has.
func renameNew(dir int, from, to string) error {
	err := unix.Renameat2(dir, from, dir, to, unix.RENAME_NOREPLACE)
	if err != unix.EINVAL && err != unix.ENOSYS {
		return err
	}
	if err := unix.Linkat(dir, from, dir, to, 0); err != nil {
		return err
	}
	return unix.Unlinkat(dir, from, 0)
}

// moveAside makes the file name in dir, which fd has open, the content of an entry of the
// rejected store that is made in the directory to. It is on disk before its intent ends.
func (s *Recoverer) moveAside(dir int, name string, fd, to int, st *unix.Stat_t) error {
	err := s.rejects.DoWithRoom("rename", func() error { return unix.Renameat(dir, name, to, rejected.Content) })
	if !errors.Is(err, unix.EXDEV) && !errors.Is(err, unix.EPERM) {
		if err == nil {
			// Nobody gets past the 0700 above it, so this is for later copies.
			_ = s.disk.Do("chmod", func() error { return unix.Fchmod(fd, 0o600) })
			err = s.disk.SyncDir(to, s.disk.StateFD())
		}
		return err
	}
	err = s.rejects.CopyContent(fd, to, st)
	if err == nil {
		err = errors.Join(s.rejects.SyncContent(to), s.disk.SyncDir(to, s.disk.StateFD()))
	}
	if err != nil {
		return err
	}
	return s.disk.RemoveName(dir, name)
}

// keepLost is keepSynced where Find has found the shadow, or has not.
func (s *Recoverer) keepLost(l *Lost, r *Report) error {
	if l.Shadow >= 0 {
		var st unix.Stat_t
		err := os.NewSyscallError("fstat", unix.Fstat(l.Shadow, &st))
		switch {
		case err != nil:
		case st.Ino == l.In.ShadowIno:
			err = s.rescue(l.ShadowDir, l.Where, l.In, r)
		default:
			err = s.removeExchanged(l.ShadowDir, l.Where, l.In, r)
		}
		if err != nil {
			return err
		}
	}
	return s.disk.Finish(l.In)
}
