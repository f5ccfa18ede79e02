package commit

import (
	"errors"
	"fmt"
	"os"

	"golang.org/x/sys/unix"

	"latchfs/journal"
	"latchfs/journal/history"
)

// keeper moves content that loses its name into the history.
type keeper struct{ *disk }

func newKeeper(d *disk) *keeper { return &keeper{d} }

// Keep says what becomes of content that loses its name.
type Keep struct {
	ID string // the content id under which it goes into the history; "": it goes
	// Copy: somebody may yet write the inode, so that a copy is kept in its place.
	Copy bool
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
func (s *keeper) Remove(as Runner, dir int, name string, k Keep) (kept bool, err error) {
	return s.settleAs(as, dir, name, k)
}

// RenameOptions are the names of a rename(2) over an existing regular file.
type RenameOptions struct {
	FromDir int
	From    string
	ToDir   int
	To      string
	Keep    Keep // what becomes of the file To
	As      Runner
}

// RenameOver is rename(2), except that the inode which loses its name to the
// other file goes into the history: it is linked there before, for the rename
// itself must remain one step. After a crash between the two the link is removed
// when the history is opened.
func (s *keeper) RenameOver(o RenameOptions) (kept bool, err error) {
	if o.Keep.ID != "" {
		kept = s.keepLink(o.ToDir, o.To, o.Keep) == nil
	}
	err = s.do("rename", func() error { return o.As.run(func() error { return unix.Renameat(o.FromDir, o.From, o.ToDir, o.To) }) })
	if err != nil && kept {
		return false, errors.Join(err, s.dropKept(o.Keep.ID))
	}
	return kept, err
}

// Unshare gives the content id, which has become somebody's file again, to that
// file alone: the history gets a copy, or loses it.
func (s *keeper) Unshare(id string) (kept bool, err error) {
	path := history.ContentPath(id)
	fd, err := openShadow(s.stateFD(), path)
	if err != nil {
		return false, err
	}
	defer unix.Close(fd)
	if err := s.dropKept(id); err != nil {
		return false, err
	}
	return s.keepCopy(nil, fd, id) == nil, nil
}

// PutBack gives the content id, which was a file that Remove has removed, its name in
// dir back, if nothing has that name now. The history loses it. A crash in between
// leaves the file with its name, and the link in the history is removed when that is
// opened.
func (s *keeper) PutBack(id string, dir int, name string) error {
	err := s.do("link", func() error { return unix.Linkat(s.stateFD(), history.ContentPath(id), dir, name, 0) })
	if err != nil {
		return err
	}
	return s.dropKept(id)
}

// settle moves the file name from dir into the history, or removes it. An error
// means that it is still there.
func (s *keeper) settle(dir int, name string, k Keep) (kept bool, err error) {
	return s.settleAs(nil, dir, name, k)
}

func (s *keeper) settleAs(as Runner, dir int, name string, k Keep) (kept bool, err error) {
	if k.ID != "" {
		err := errCopy
		if !k.Copy {
			err = s.intoHistory(k.ID, "keep", func(path string) error {
				return as.run(func() error { return unix.Renameat(dir, name, s.stateFD(), path) })
			})
		}
		switch {
		case err == nil:
			return true, nil
		case errors.Is(err, unix.ENOENT):
			return false, err
		case needsCopy(err):
			kept = s.keepCopyOf(dir, name, k.ID) == nil
		}
	}
	err = s.do("unlink", func() error { return as.run(func() error { return unix.Unlinkat(dir, name, 0) }) })
	if err != nil && kept {
		return false, errors.Join(err, s.dropKept(k.ID))
	}
	return kept, err
}

// errCopy: the inode itself is not to be kept.
var errCopy = errors.New("a copy is wanted")

// needsCopy reports whether err says that the inode cannot get a name in the
// history: another filesystem, subvolume or quota project, or no links.
func needsCopy(err error) bool {
	return errors.Is(err, errCopy) || errors.Is(err, unix.EXDEV) || errors.Is(err, unix.EPERM) ||
		errors.Is(err, unix.EOPNOTSUPP) || errors.Is(err, unix.EMLINK)
}

// keepLink gives the file name in dir a second name in the history.
func (s *keeper) keepLink(dir int, name string, k Keep) error {
	err := errCopy
	if !k.Copy {
		err = s.intoHistory(k.ID, "link", func(path string) error {
			return unix.Linkat(dir, name, s.stateFD(), path, 0)
		})
	}
	if needsCopy(err) {
		return s.keepCopyOf(dir, name, k.ID)
	}
	return err
}

// intoHistory runs a step that puts something at a content's path, and makes the
// directories when they are missing.
func (s *keeper) intoHistory(id, step string, fn func(path string) error) error {
	path := history.ContentPath(id)
	err := s.do(step, func() error { return fn(path) })
	if !errors.Is(err, unix.ENOENT) {
		return err
	}
	for _, dir := range []string{history.Dir, history.Dir + "/" + history.ContentDir(id)} {
		err := s.do("mkdir", func() error { return unix.Mkdirat(s.stateFD(), dir, 0o700) })
		if err != nil && !errors.Is(err, unix.EEXIST) {
			return err
		}
	}
	return s.do(step, func() error { return fn(path) })
}

func (s *keeper) keepCopyOf(dir int, name, id string) error {
	fd, err := openShadow(dir, name)
	if err != nil {
		return err
	}
	defer unix.Close(fd)
	return s.keepCopy(nil, fd, id)
}

// keepCopy makes the content id of the history a copy of fd, which gets its name
// when it is complete. It is not synced: one that a power cut has cut short has
// the wrong size, and is dropped when the history is opened.
func (s *keeper) keepCopy(as Runner, fd int, id string) error {
	var st unix.Stat_t
	if err := unix.Fstat(fd, &st); err != nil {
		return os.NewSyscallError("fstat", err)
	}
	var to int
	tmp := history.Dir + "/" + history.ContentDir(id) + "/" + history.NewPrefix + id
	err := s.intoHistory(id, "create", func(string) (err error) {
		to, err = unix.Openat(s.stateFD(), tmp, unix.O_CREAT|unix.O_TRUNC|unix.O_RDWR|unix.O_CLOEXEC|unix.O_NOFOLLOW, 0o600)
		return err
	})
	if err != nil {
		return err
	}
	defer unix.Close(to)
	err = s.copyOld(as, fd, to, &st)
	if err == nil {
		err = s.do("rename", func() error { return unix.Renameat(s.stateFD(), tmp, s.stateFD(), history.ContentPath(id)) })
	}
	if err != nil {
		return errors.Join(err, s.do("unlink", func() error { return unix.Unlinkat(s.stateFD(), tmp, 0) }))
	}
	return nil
}

// copyOld copies content, owner, attributes, mode and times. An ordinary user
// cannot give a file away and needs not: it is in his own tree.
func (s *keeper) copyOld(as Runner, from, to int, st *unix.Stat_t) error {
	err := s.do("clone", func() error { return as.run(func() error { return unix.IoctlFileClone(to, from) }) })
	switch {
	case err == nil:
	case !cannotClone(err):
		return err
	case st.Size > MaxKeptCopy:
		return errTooLarge
	default:
		if err := s.copyContent(as, from, to, st.Size); err != nil {
			return err
		}
	}
	_ = s.do("chown", func() error { return unix.Fchown(to, int(st.Uid), int(st.Gid)) })
	_ = s.copyXattrs(from, to, anyXattr)
	if err := s.do("chmod", func() error { return unix.Fchmod(to, st.Mode&0o7777) }); err != nil {
		return err
	}
	return s.do("utimens", func() error { return futimens(to, [2]unix.Timespec{st.Atim, st.Mtim}) })
}

// dropKept removes a content that was put into the history too early.
func (s *keeper) dropKept(id string) error {
	return s.do("unlink", func() error { return unix.Unlinkat(s.stateFD(), history.ContentPath(id), 0) })
}

// dropLink removes a content that has another name: a crash came between the
// link and the rename that was to take that name away.
func (s *keeper) dropLink(id string) error {
	if !history.IsContentID(id) {
		return nil
	}
	var st unix.Stat_t
	err := unix.Fstatat(s.stateFD(), history.ContentPath(id), &st, unix.AT_SYMLINK_NOFOLLOW)
	if err != nil || st.Nlink < 2 {
		return nil
	}
	return s.dropKept(id)
}

// putInPlaceOf gives the name of in to the shadow in dir; what has it goes where
// keep says. It may be repeated after a crash.
func (s *keeper) putInPlaceOf(dir int, in journal.Intent, keep Keep) (kept bool, err error) {
	rename := func(flags uint) error {
		return s.do("rename", func() error { return unix.Renameat2(dir, in.Shadow, dir, in.Name, flags) })
	}
	if keep.ID == "" {
		return false, rename(0)
	}
	err = rename(unix.RENAME_EXCHANGE)
	switch {
	case err == nil:
		return s.settle(dir, in.Shadow, keep)
	case errors.Is(err, unix.EINVAL), errors.Is(err, unix.ENOSYS), errors.Is(err, unix.EOPNOTSUPP), errors.Is(err, unix.ENOENT):
		return false, rename(0)
	}
	return false, err
}
