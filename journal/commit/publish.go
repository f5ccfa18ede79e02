package commit

import (
	"errors"
	"fmt"
	"os"

	"golang.org/x/sys/unix"

	"latchfs/journal"
	"latchfs/journal/commit/internal/disk"
	"latchfs/journal/commit/internal/keep"
)

// PublishOptions say where a shadow goes and what is expected there.
type PublishOptions struct {
	Dir        int           // descriptor of the target's directory; O_PATH will do
	DirInode   disk.Inode    // what that is, where the caller knows; else Publish asks
	DirPath    string        // that directory relative to the data root, for the journal
	Name       string        // the target's name in Dir
	Base       *disk.Version // what the name must hold; nil: it must be free
	Durability Durability
	Token      uint64    // fencing token, for the journal
	Keep       keep.Keep // what becomes of the base
	// Published, if not nil, is called when the version is in place, and before
	// that is known to be durable: a crash from then on finds it.
	Published func(disk.Version)
}

// Publish makes the shadow the file Name and returns the version that it is
// then. The errors: ErrConflict if the name does not hold Base, ErrCannotPreserve
// if the shadow must be committed in place, else that of the system call. After
// these the old version is untouched and the shadow can still be published,
// rejected or discarded. Only with ErrNotDurable the new version is in place,
// and it is returned. Kept then tells whether the base is in the history.
func (sh *Shadow) Publish(o PublishOptions) (disk.Version, error) {
	if sh.inPlace != nil {
		return disk.Version{}, sh.inPlace
	}
	st, err := sh.settledStat()
	if err == nil {
		err = o.findDir()
	}
	if err != nil {
		return disk.Version{}, err
	}
	sh.name.Borrow()
	defer sh.name.Own()
	o.Durability = sh.settled(o)
	sh.lazy = sh.prepareLazy(o, &st)
	if sh.lazy == nil && st.Size > earlyFrom {
		if _, err := sh.checkBase(o); err != nil {
			return disk.Version{}, err
		}
	}
	var late error
	if o.Durability == Full && sh.lazy == nil {
		// Whoever finds this version after a crash finds what was made before it beside it.
		late = sh.s.SettleBefore(o.Dir, o.DirPath)
	}
	err = sh.putContent(o)
	switch {
	case err != nil:
		return disk.Version{}, err
	case o.Base == nil:
		err = sh.publishNew(o)
	default:
		err = sh.publishOver(o, &st)
	}
	if err != nil {
		sh.unmark()
		return disk.Version{}, fmt.Errorf("publish %q: %w", o.Name, err)
	}
	// From here on it is published, and nothing undoes that. A journal that
	// does not know it finds no shadow when it looks, and is content.
	sh.published, sh.mark = true, mark{}
	waits := o.Durability == Full
	if sh.name.Intent().Synced && !sh.keepsOrder() {
		waits = true // for the new name, before the old one is forgotten
	} else {
		_ = sh.name.Gone()
	}
	if sh.lazy != nil {
		sh.s.lazies.Published(sh.lazy)
	}
	if err := unix.Fstat(sh.fd, &st); err != nil {
		sh.name.LeaveToRecovery()
		return disk.Version{}, &kinded{ErrNotDurable, o.Name, os.NewSyscallError("fstat", err)}
	}
	v := disk.VersionOf(&st)
	o.published(v)
	if err := errors.Join(sh.syncName(o, waits), late); err != nil {
		return v, &kinded{ErrNotDurable, o.Name, err}
	}
	return v, nil
}

// earlyFrom is the size in bytes from which a conflict is looked for before the content is
// brought to the disk, and not only before the name changes.
const earlyFrom = 1 << 20

// findDir completes the options.
func (o *PublishOptions) findDir() error {
	if o.DirInode != (disk.Inode{}) {
		return nil
	}
	var st unix.Stat_t
	if err := unix.Fstat(o.Dir, &st); err != nil {
		return os.NewSyscallError("fstat", err)
	}
	o.DirInode = disk.InodeOf(&st)
	return nil
}

func (o *PublishOptions) published(v disk.Version) {
	if o.Published != nil {
		o.Published(v)
	}
}

// putContent sees to it that no name leads to the content on the disk before that is there,
// unless a marker does. Where the disk keeps the order, the bytes are written back and
// waited for, and what makes the new name durable makes them durable with it.
func (sh *Shadow) putContent(o PublishOptions) error {
	switch {
	case sh.lazy != nil:
		return nil
	case sh.keepsOrder():
		return sh.s.WriteBack(sh.fd)
	}
	return sh.syncFor(o, 0)
}

// syncFor makes the content durable, whatever name it gets then. Btrfs writes
// nothing about a file without a name to its log, and fsync(2) of one is a promise
// about nothing: once it has a name, the next sync of the directory would make
// that durable with a length of 0. There it has a reserved name first.
func (sh *Shadow) syncFor(o PublishOptions, txn uint64) error {
	if !sh.name.Stands() && sh.forgetsUnnamed() {
		err := sh.nameFor(journal.Intent{
			Kind: journal.KindShadow, Txn: txn, Dir: o.DirPath, Name: o.Name, ShadowDir: o.DirPath,
		}, o)
		if err != nil {
			return err
		}
	}
	return sh.sync()
}

func (sh *Shadow) sync() error {
	return sh.s.disk.Do("fsync", func() error { return unix.Fsync(sh.fd) })
}

// CheckBase reports whether the name still holds what o expects there: nil, an
// ErrConflict, or that it cannot be told. Publish finds out for itself; this is
// for checks that make sense only then.
func (sh *Shadow) CheckBase(o PublishOptions) error {
	_, err := sh.checkBase(o)
	return err
}

// checkBase compares the name with what is expected there, whose status it returns.
func (sh *Shadow) checkBase(o PublishOptions) (st unix.Stat_t, err error) {
	err = unix.Fstatat(o.Dir, o.Name, &st, unix.AT_SYMLINK_NOFOLLOW)
	switch {
	case errors.Is(err, unix.ENOENT) && o.Base == nil:
		return st, nil
	case errors.Is(err, unix.ENOENT):
		return st, &ConflictError{Name: o.Name, Base: o.Base}
	case err != nil:
		return st, &os.PathError{Op: "stat", Path: o.Name, Err: err}
	}
	if found := disk.VersionOf(&st); o.Base == nil || found != *o.Base {
		return st, &ConflictError{Name: o.Name, Base: o.Base, Found: &found}
	}
	return st, nil
}

func (sh *Shadow) publishNew(o PublishOptions) error {
	err := sh.placeMarker(o, "")
	if err != nil {
		return err
	}
	if !sh.name.Stands() {
		err = sh.s.disk.Do("link", func() error { return disk.LinkFD(sh.fd, o.Dir, o.Name) })
	} else {
		err = sh.appear(o)
	}
	if errors.Is(err, unix.EEXIST) {
		return &ConflictError{Name: o.Name}
	}
	return err
}

// renameNew gives the shadow the name that is free instead of the reserved one.
func (sh *Shadow) renameNew(o PublishOptions) error {
	name := sh.name.Intent().Shadow
	err := sh.s.disk.Do("rename", func() error {
		return unix.Renameat2(sh.name.Dir(), name, o.Dir, o.Name, unix.RENAME_NOREPLACE)
	})
	if errors.Is(err, unix.EINVAL) || errors.Is(err, unix.ENOSYS) {
		err = sh.s.disk.Do("link", func() error { return unix.Linkat(sh.name.Dir(), name, o.Dir, o.Name, 0) })
		if err == nil {
			_ = sh.name.Drop()
		}
	}
	return err
}

// nameFor gives the shadow a reserved name where it lies, or makes in what stands
// for the one that it has.
func (sh *Shadow) nameFor(in journal.Intent, o PublishOptions) error {
	if sh.name.Stands() {
		sh.follow(o)
		return sh.name.Retag(in, sh.initial.Ino)
	}
	in.InState = sh.inState
	return sh.name.Link(sh.fd, sh.lies(o.Dir), in)
}

// nameBeside is nameFor for a commit: what that, or a recovery, does to the shadow's name and
// the target's is done in one directory. The file may have been renamed since the shadow got
// its name.
func (sh *Shadow) nameBeside(in journal.Intent, o PublishOptions) error {
	if !sh.name.Stands() || sh.inState || disk.SameFile(sh.name.Dir(), o.Dir) {
		return sh.nameFor(in, o)
	}
	return sh.moveTo(o.Dir, in)
}

// moveTo gives the shadow another reserved name, in dir, and the intent in. What was synced
// stays so.
func (sh *Shadow) moveTo(dir int, in journal.Intent) error {
	before := sh.name.Intent().ID
	err := sh.name.MoveTo(dir, in, sh.fd, sh.initial.Ino)
	if sh.name.Intent().ID != before {
		sh.linked = linked{}
	}
	return err
}
