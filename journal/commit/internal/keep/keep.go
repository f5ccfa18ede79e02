package keep

import (
	"errors"
	"fmt"
	"os"

	"golang.org/x/sys/unix"

	"latchfs/journal"
	"latchfs/journal/commit/internal/disk"
	"latchfs/journal/history"
)

// Keeper moves content that loses its name into the history.
type Keeper struct{ disk *disk.Disk }

// New returns the keeper of d.
func New(d *disk.Disk) *Keeper { return &Keeper{d} }

// Keep says what becomes of content that loses its name.
type Keep struct {
	ID string // the content id under which it goes into the history; "": it goes
	// Copy: somebody may yet write the inode, so that a copy is kept in its place.
	Copy bool
	Ino  uint64 // the inode; 0: whichever has the name. Another one is not kept.
}

// Of is k for the inode that is to be kept.
func (k Keep) Of(ino uint64) Keep {
	k.Ino = ino
	return k
}

// MaxKeptCopy is the size in bytes up to which content is copied into the
// history where its inode itself cannot go there. Larger content is kept only
// where it can be cloned.
const MaxKeptCopy = 16 << 20

// errTooLarge: a copy would cost too much.
var errTooLarge = fmt.Errorf("content of more than %d MiB is kept only where it can be cloned", MaxKeptCopy>>20)

// Remove removes the regular file name from dir like unlink(2), into the history
// if k says so. as takes the name away. kept tells whether the file is there. Where it
// cannot be kept it is removed all the same.
func (s *Keeper) Remove(as disk.Runner, dir int, name string, k Keep) (kept bool, err error) {
	return s.Settle(as, dir, name, k)
}

// RenameOptions are the names of a rename(2) over an existing regular file.
type RenameOptions struct {
	FromDir int
	From    string
	ToDir   int
	To      string
	Keep    Keep // what becomes of the file To
	As      disk.Runner
}

// RenameOver is rename(2), except that the inode which loses its name to the
// other file goes into the history: it is linked there before, for the rename
// itself must remain one step. After a crash between the two the link is removed
// when the history is opened.
func (s *Keeper) RenameOver(o RenameOptions) (kept bool, err error) {
	if o.Keep.ID != "" {
		kept = s.KeepLink(o.ToDir, o.To, o.Keep) == nil
	}
	err = s.disk.Do("rename", func() error { return o.As.Run(func() error { return unix.Renameat(o.FromDir, o.From, o.ToDir, o.To) }) })
	if err != nil && kept {
		return false, errors.Join(err, s.DropKept(o.Keep.ID))
	}
	return kept, err
}

// Unshare gives the content id, which has become somebody's file again, to that
// file alone: the history gets a copy, or loses it. It may have lost it already, to make
// room.
func (s *Keeper) Unshare(id string) (kept bool, err error) {
	path := history.ContentPath(id)
	fd, err := disk.OpenShadow(s.disk.StateFD(), path)
	if err == nil {
		defer unix.Close(fd)
		err = s.DropKept(id)
	}
	switch {
	case errors.Is(err, unix.ENOENT):
		return false, nil
	case err != nil:
		return false, err
	}
	return s.KeepCopy(nil, fd, id) == nil, nil
}

// PutBack gives the content id, which was a file that Remove has removed, its name in
// dir back, if nothing has that name now. The history loses it. A crash in between
// leaves the file with its name, and the link in the history is removed when that is
// opened.
func (s *Keeper) PutBack(id string, dir int, name string) error {
	err := s.disk.Do("link", func() error { return unix.Linkat(s.disk.StateFD(), history.ContentPath(id), dir, name, 0) })
	if err != nil {
		return err
	}
	return s.DropKept(id)
}

// Settle moves the file name from dir into the history, or removes it; as takes the
// name away. An error means that it is still there.
func (s *Keeper) Settle(as disk.Runner, dir int, name string, k Keep) (kept bool, err error) {
	if k.ID != "" {
		err := errCopy
		if !k.Copy {
			kept, err = s.Move(as, dir, name, k)
		}
		switch {
		case err == nil:
			return kept, nil
		case errors.Is(err, unix.ENOENT):
			return false, err
		case needsCopy(err):
			kept = s.KeepCopyOf(dir, name, k) == nil
		}
	}
	err = s.disk.Do("unlink", func() error { return as.Run(func() error { return unix.Unlinkat(dir, name, 0) }) })
	if err != nil && kept {
		return false, errors.Join(err, s.DropKept(k.ID))
	}
	return kept, err
}

// Move moves a file into the history. One that has got the name a moment ago has lost it
// then, as by unlink(2), and is not kept: it would be read by whoever may read the
// version whose place it has. One that has other names is not moved.
func (s *Keeper) Move(as disk.Runner, dir int, name string, k Keep) (kept bool, err error) {
	if hasOtherNames(dir, name) {
		return false, errCopy
	}
	err = s.IntoHistory(k.ID, "keep", func(path string) error {
		return as.Run(func() error { return unix.Renameat(dir, name, s.disk.StateFD(), path) })
	})
	if err != nil {
		return false, err
	}
	if s.keepAlone(k, 1) != nil {
		return false, s.DropKept(k.ID)
	}
	return true, nil
}

// hasOtherNames reports whether the file name in dir has other names. By those it is
// written in place and gets another mode, so that it is not what the version was.
func hasOtherNames(dir int, name string) bool {
	var st unix.Stat_t
	return unix.Fstatat(dir, name, &st, unix.AT_SYMLINK_NOFOLLOW) == nil && st.Nlink > 1
}

// keepAlone looks at the content that was put into the history: whether it is the one
// meant, and has no more names than that many. A link may have been made since somebody
// looked for other names: a copy takes the content's place then.
func (s *Keeper) keepAlone(k Keep, names uint64) error {
	var st unix.Stat_t
	path := history.ContentPath(k.ID)
	err := unix.Fstatat(s.disk.StateFD(), path, &st, unix.AT_SYMLINK_NOFOLLOW)
	switch {
	case err != nil:
		return os.NewSyscallError("fstatat", err)
	case k.Ino != 0 && st.Ino != k.Ino:
		return errOther
	case uint64(st.Nlink) > names:
		return s.KeepCopyOf(s.disk.StateFD(), path, k)
	}
	return nil
}

// errOther: the name holds another inode than what is to be kept.
var errOther = errors.New("the name has got another file")

// errCopy: the inode itself is not to be kept.
var errCopy = errors.New("a copy is wanted")

// needsCopy reports whether err says that the inode cannot get a name in the
// history: another filesystem, subvolume or quota project, or no links.
func needsCopy(err error) bool {
	return errors.Is(err, errCopy) || errors.Is(err, unix.EXDEV) || errors.Is(err, unix.EPERM) ||
		errors.Is(err, unix.EOPNOTSUPP) || errors.Is(err, unix.EMLINK)
}

// KeepLink gives the file name in dir a second name in the history. Of a file that has
// one already a copy is kept.
func (s *Keeper) KeepLink(dir int, name string, k Keep) error {
	err := errCopy
	if !k.Copy && !hasOtherNames(dir, name) {
		err = s.IntoHistory(k.ID, "link", func(path string) error {
			return unix.Linkat(dir, name, s.disk.StateFD(), path, 0)
		})
	}
	switch {
	case needsCopy(err):
		return s.KeepCopyOf(dir, name, k)
	case err != nil:
		return err
	}
	if err := s.keepAlone(k, 2); err != nil {
		return errors.Join(err, s.DropKept(k.ID))
	}
	return nil
}

// IntoHistory runs a step that puts something at a content's path, and makes the
// directories when they are missing.
func (s *Keeper) IntoHistory(id, step string, fn func(path string) error) error {
	path := history.ContentPath(id)
	err := s.disk.Do(step, func() error { return fn(path) })
	if !errors.Is(err, unix.ENOENT) {
		return err
	}
	for _, dir := range []string{history.Dir, history.Dir + "/" + history.ContentDir(id)} {
		err := s.disk.Do("mkdir", func() error { return unix.Mkdirat(s.disk.StateFD(), dir, 0o700) })
		if err != nil && !errors.Is(err, unix.EEXIST) {
			return err
		}
	}
	return s.disk.Do(step, func() error { return fn(path) })
}

// KeepCopyOf is KeepCopy for a name.
func (s *Keeper) KeepCopyOf(dir int, name string, k Keep) error {
	fd, err := disk.OpenShadow(dir, name)
	if err != nil {
		return err
	}
	defer unix.Close(fd)
	var st unix.Stat_t
	if k.Ino != 0 && (unix.Fstat(fd, &st) != nil || st.Ino != k.Ino) {
		return errOther
	}
	return s.KeepCopy(nil, fd, k.ID)
}

// KeepCopy makes the content id of the history a copy of fd, which gets its name
// when it is complete. What it holds is written to the disk before, for after a power cut
// its size says that it is whole. It is not synced: it may be gone, or have the wrong size,
// and is dropped then when the history is opened.
func (s *Keeper) KeepCopy(as disk.Runner, fd int, id string) error {
	var st unix.Stat_t
	if err := unix.Fstat(fd, &st); err != nil {
		return os.NewSyscallError("fstat", err)
	}
	var to int
	tmp := history.Dir + "/" + history.ContentDir(id) + "/" + history.NewPrefix + id
	err := s.IntoHistory(id, "create", func(string) (err error) {
		to, err = unix.Openat(s.disk.StateFD(), tmp, unix.O_CREAT|unix.O_TRUNC|unix.O_RDWR|unix.O_CLOEXEC|unix.O_NOFOLLOW, 0o600)
		return err
	})
	if err != nil {
		return err
	}
	defer unix.Close(to)
	err = s.copyOld(as, fd, to, &st)
	if err == nil {
		err = s.disk.Do("rename", func() error { return unix.Renameat(s.disk.StateFD(), tmp, s.disk.StateFD(), history.ContentPath(id)) })
	}
	if err != nil {
		return errors.Join(err, s.disk.Do("unlink", func() error { return unix.Unlinkat(s.disk.StateFD(), tmp, 0) }))
	}
	return nil
}

// copyOld copies content, owner, attributes, mode and times. An ordinary user
// cannot give a file away and needs not: it is in his own tree.
func (s *Keeper) copyOld(as disk.Runner, from, to int, st *unix.Stat_t) error {
	err := s.disk.Do("clone", func() error { return as.Run(func() error { return unix.IoctlFileClone(to, from) }) })
	switch {
	case err == nil:
	case !disk.CannotClone(err):
		return err
	case st.Size > MaxKeptCopy:
		return errTooLarge
	default:
		err := s.disk.CopyContent(as, from, to, st.Size)
		if err == nil {
			err = s.disk.Do("writeback", func() error { return journal.WriteBack(to) })
		}
		if err != nil {
			return err
		}
	}
	_ = s.disk.Do("chown", func() error { return unix.Fchown(to, int(st.Uid), int(st.Gid)) })
	_, _ = s.disk.CopyXattrs(from, to, disk.AnyXattr)
	if err := s.disk.Do("chmod", func() error { return unix.Fchmod(to, st.Mode&0o7777) }); err != nil {
		return err
	}
	return s.disk.Do("utimens", func() error { return disk.Futimens(to, [2]unix.Timespec{st.Atim, st.Mtim}) })
}

// DropKept removes a content that was put into the history too early.
func (s *Keeper) DropKept(id string) error {
	return s.disk.Do("unlink", func() error { return unix.Unlinkat(s.disk.StateFD(), history.ContentPath(id), 0) })
}

// DropLink removes a content that has another name: a crash came between the
// link and the rename that was to take that name away.
func (s *Keeper) DropLink(id string) error {
	if !history.IsContentID(id) {
		return nil
	}
	var st unix.Stat_t
	err := unix.Fstatat(s.disk.StateFD(), history.ContentPath(id), &st, unix.AT_SYMLINK_NOFOLLOW)
	if err != nil || st.Nlink < 2 {
		return nil
	}
	return s.DropKept(id)
}

// PutInPlaceOf gives the name of in to the shadow in dir; what has it goes where
// keep says. It may be repeated after a crash.
func (s *Keeper) PutInPlaceOf(dir int, in journal.Intent, keep Keep) (kept bool, err error) {
	as := s.disk.OwnerOfNames(dir, in.Shadow, in.Name, in.TargetIno)
	rename := func(flags uint) error {
		return as.Foreign(s.disk.Do("rename", func() error {
			return as.Run(func() error { return unix.Renameat2(dir, in.Shadow, dir, in.Name, flags) })
		}))
	}
	if keep.ID == "" {
		return false, rename(0)
	}
	err = rename(unix.RENAME_EXCHANGE)
	switch {
	case err == nil:
		return s.Settle(as, dir, in.Shadow, keep.Of(in.TargetIno))
	case errors.Is(err, unix.EINVAL), errors.Is(err, unix.ENOSYS), errors.Is(err, unix.EOPNOTSUPP), errors.Is(err, unix.ENOENT):
		return false, rename(0)
	}
	return false, err
}
