package commit

import (
	"errors"

	"golang.org/x/sys/unix"

	"latchfs/journal"
	"latchfs/journal/commit/internal/disk"
)

// publishOver makes the shadow the file Name, which holds the base. The two
// change places in one step, so that what comes out can be looked at: the old
// inode is under the reserved name then, and goes on into the history. st is the shadow's
// status.
func (sh *Shadow) publishOver(o PublishOptions, st *unix.Stat_t) error {
	in := journal.Intent{
		Kind: journal.KindReplace, Dir: o.DirPath, Name: o.Name, ShadowDir: o.DirPath, Token: o.Token,
		ShadowIno: sh.initial.Ino, TargetIno: o.Base.Ino, Keep: o.Keep.ID,
	}
	if err := sh.nameBeside(in, o); err != nil {
		return err
	}
	base, err := sh.checkBase(o)
	if err != nil {
		return err
	}
	if err := sh.placeMarker(o, sh.name.Intent().Shadow); err != nil {
		return err
	}
	as := sh.s.disk.OwnerOfBoth(o.Dir, st, &base)
	err = sh.exchange(o, as)
	switch {
	case errors.Is(err, unix.ENOENT):
		return &ConflictError{Name: o.Name, Base: o.Base}
	case as != nil && errors.Is(err, unix.EPERM):
		return o.foreignBase(err)
	case errors.Is(err, unix.EINVAL), errors.Is(err, unix.ENOSYS), errors.Is(err, unix.EOPNOTSUPP):
		if sh.lazy != nil {
			sh.unmark()
			if err := sh.sync(); err != nil {
				return err
			}
		}
		return sh.publishByRename(o, as) // a filesystem that cannot
	case err != nil:
		return err
	}
	if err := sh.checkReplaced(o, as); err != nil {
		return err
	}
	sh.settleReplaced(o, as)
	return nil
}

// exchange lets the reserved name and the target's change places.
func (sh *Shadow) exchange(o PublishOptions, as Runner) error {
	return sh.s.disk.Do("exchange", func() error {
		return as.Run(func() error {
			return unix.Renameat2(sh.name.Dir(), sh.name.Intent().Shadow, o.Dir, o.Name, unix.RENAME_EXCHANGE)
		})
	})
}

// undoTries bounds how often an exchange is undone that strangers make again.
const undoTries = 4

// checkReplaced looks at what the exchange has brought out. If it is not the
// base, somebody around the mount was faster by a moment: it gets its name back.
func (sh *Shadow) checkReplaced(o PublishOptions, as Runner) error {
	var st unix.Stat_t
	if err := unix.Fstatat(sh.name.Dir(), sh.name.Intent().Shadow, &st, unix.AT_SYMLINK_NOFOLLOW); err != nil {
		return nil // gone: nothing to put back
	}
	found := disk.VersionOf(&st)
	if found.SameContent(*o.Base) {
		return nil
	}
	for range undoTries {
		if err := sh.exchange(o, as); err != nil {
			sh.name.LeaveToRecovery() // which sees what is where
			return errors.Join(&ConflictError{Name: o.Name, Base: o.Base, Found: &found}, err)
		}
		if unix.Fstatat(sh.name.Dir(), sh.name.Intent().Shadow, &st, unix.AT_SYMLINK_NOFOLLOW) != nil || st.Ino == sh.initial.Ino {
			break // the shadow is out again
		}
	}
	return &ConflictError{Name: o.Name, Base: o.Base, Found: &found}
}

// settleReplaced moves the old inode, which is under the reserved name now, into
// the history, or removes it. Nothing can undo the publication any more: what
// cannot be kept goes, and what cannot be removed Recover removes.
func (sh *Shadow) settleReplaced(o PublishOptions, as Runner) {
	if sh.lazy != nil {
		sh.settleLater(o, as)
		return
	}
	kept, err := sh.s.keeper.Settle(as, sh.name.Dir(), sh.name.Intent().Shadow, o.Keep.Of(o.Base.Ino))
	sh.kept = kept
	if err != nil {
		sh.name.LeaveToRecovery()
	}
}

// publishByRename is publishOver for filesystems without an exchange: the old
// inode is linked into the history before the shadow is renamed over it.
func (sh *Shadow) publishByRename(o PublishOptions, as Runner) error {
	if o.Keep.ID != "" {
		sh.kept = sh.s.keeper.KeepLink(o.Dir, o.Name, o.Keep.Of(o.Base.Ino)) == nil
	}
	err := sh.checkLinked(o)
	if err == nil {
		err = sh.s.disk.Do("rename", func() error {
			return as.Run(func() error { return unix.Renameat(sh.name.Dir(), sh.name.Intent().Shadow, o.Dir, o.Name) })
		})
	}
	if as != nil && errors.Is(err, unix.EPERM) {
		err = o.foreignBase(err)
	}
	if err != nil && sh.kept {
		sh.kept = false
		err = errors.Join(err, sh.s.keeper.DropKept(o.Keep.ID))
	}
	return err
}

// checkLinked is checkBase, which the link has changed the ctime of.
func (sh *Shadow) checkLinked(o PublishOptions) error {
	var conflict *ConflictError
	_, err := sh.checkBase(o)
	if errors.As(err, &conflict) && conflict.Found != nil && conflict.Found.SameContent(*o.Base) {
		return nil
	}
	return err
}
