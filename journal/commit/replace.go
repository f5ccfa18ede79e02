package commit

import (
	"errors"
	"os"

	"latchfs/journal"

	"golang.org/x/sys/unix"
)

// publishOver makes the shadow the file Name, which holds the base. The two
// change places in one step, so that what comes out can be looked at: the old
// inode is under the reserved name then, and goes on into the history.
func (sh *Shadow) publishOver(o PublishOptions) error {
	in := journal.Intent{
		Kind: journal.KindReplace, Dir: o.DirPath, Name: o.Name, ShadowDir: o.DirPath, Token: o.Token,
		ShadowIno: sh.initial.Ino, TargetIno: o.Base.Ino, Keep: o.Keep.ID,
	}
	err := sh.nameFor(in, o)
	if err == nil {
		err = sh.checkBase(o)
	}
	if err != nil {
		return err
	}
	if err := sh.placeMarker(o, sh.intent.Shadow); err != nil {
		return err
	}
	err = sh.exchange(o)
	switch {
	case errors.Is(err, unix.ENOENT):
		return &ConflictError{Name: o.Name, Base: o.Base}
	case errors.Is(err, unix.EINVAL), errors.Is(err, unix.ENOSYS), errors.Is(err, unix.EOPNOTSUPP):
		if sh.lazy != nil {
			sh.unmark()
			if err := sh.sync(); err != nil {
				return err
			}
		}
		return sh.publishByRename(o) // a filesystem that cannot
	case err != nil:
		return err
	}
	if err := sh.checkReplaced(o); err != nil {
		return err
	}
	sh.settleReplaced(o)
	return nil
}

// exchange lets the reserved name and the target's change places.
func (sh *Shadow) exchange(o PublishOptions) error {
	return sh.s.do("exchange", func() error {
		return unix.Renameat2(sh.dir, sh.intent.Shadow, o.Dir, o.Name, unix.RENAME_EXCHANGE)
	})
}

// undoTries bounds how often an exchange is undone that strangers make again.
const undoTries = 4

// checkReplaced looks at what the exchange has brought out. If it is not the
// base, somebody around the mount was faster by a moment: it gets its name back.
func (sh *Shadow) checkReplaced(o PublishOptions) error {
	var st unix.Stat_t
	if err := unix.Fstatat(sh.dir, sh.intent.Shadow, &st, unix.AT_SYMLINK_NOFOLLOW); err != nil {
		return nil // gone: nothing to put back
	}
	found := VersionOf(&st)
	if found.sameContent(*o.Base) {
		return nil
	}
	for range undoTries {
		if err := sh.exchange(o); err != nil {
			sh.s.abandon(sh.intent) // Recover sees what is where
			sh.forgetName()
			return errors.Join(&ConflictError{Name: o.Name, Base: o.Base, Found: &found}, err)
		}
		if unix.Fstatat(sh.dir, sh.intent.Shadow, &st, unix.AT_SYMLINK_NOFOLLOW) != nil || st.Ino == sh.initial.Ino {
			break // the shadow is out again
		}
	}
	return &ConflictError{Name: o.Name, Base: o.Base, Found: &found}
}

// sameContent reports whether two versions differ in nothing but their ctime,
// which giving the inode another name changes, too.
func (v Version) sameContent(w Version) bool {
	v.Ctime = w.Ctime
	return v == w
}

// settleReplaced moves the old inode, which is under the reserved name now, into
// the history, or removes it. Nothing can undo the publication any more: what
// cannot be kept goes, and what cannot be removed Recover removes.
func (sh *Shadow) settleReplaced(o PublishOptions) {
	if sh.lazy != nil {
		sh.settleLater(o)
		return
	}
	kept, err := sh.s.settle(sh.dir, sh.intent.Shadow, o.Keep)
	sh.kept = kept
	if err != nil {
		sh.s.abandon(sh.intent)
		sh.forgetName()
	}
}

// publishByRename is publishOver for filesystems without an exchange: the old
// inode is linked into the history before the shadow is renamed over it.
func (sh *Shadow) publishByRename(o PublishOptions) error {
	if o.Keep.ID != "" {
		sh.kept = sh.s.keepLink(o.Dir, o.Name, o.Keep) == nil
	}
	err := sh.checkLinked(o)
	if err == nil {
		err = sh.s.do("rename", func() error { return unix.Renameat(sh.dir, sh.intent.Shadow, o.Dir, o.Name) })
	}
	if err != nil && sh.kept {
		sh.kept = false
		err = errors.Join(err, sh.s.dropKept(o.Keep.ID))
	}
	return err
}

// checkLinked is checkBase, which the link has changed the ctime of.
func (sh *Shadow) checkLinked(o PublishOptions) error {
	var conflict *ConflictError
	err := sh.checkBase(o)
	if errors.As(err, &conflict) && conflict.Found != nil && conflict.Found.sameContent(*o.Base) {
		return nil
	}
	return err
}

// undoReplace puts right what a crash has left of a replacement: a shadow that
// did not become the file, or an old version that did not get where it belongs.
func (s *Store) undoReplace(in journal.Intent, r *Report) error {
	dir, err := s.openShadowDir(in)
	if gone(err) {
		return s.finish(in) // moved, perhaps: then it is Sweep's
	}
	if err != nil {
		return err
	}
	defer unix.Close(dir)
	var st unix.Stat_t
	err = unix.Fstatat(dir, in.Shadow, &st, unix.AT_SYMLINK_NOFOLLOW)
	switch {
	case errors.Is(err, unix.ENOENT): // it had no name yet, or all was done
		err = nil
	case err != nil:
		return os.NewSyscallError("fstatat", err)
	case in.ShadowIno == 0 || st.Ino == in.ShadowIno:
		err = s.removeShadow(dir, in, r)
	case st.Ino == in.TargetIno:
		var kept bool
		kept, err = s.settle(dir, in.Shadow, Keep{ID: in.Keep})
		if kept {
			r.Kept = append(r.Kept, in)
		}
	default:
		err = s.putBack(dir, in, r)
	}
	if err == nil && in.Keep != "" {
		err = s.dropLink(in.Keep)
	}
	if err != nil {
		return err
	}
	return s.finish(in)
}

// putBack gives a file its name back that somebody around the mount had put in
// the base's place at the moment of the exchange.
func (s *Store) putBack(dir int, in journal.Intent, r *Report) error {
	var st unix.Stat_t
	err := unix.Fstatat(dir, in.Name, &st, unix.AT_SYMLINK_NOFOLLOW)
	switch {
	case err == nil && st.Ino == in.ShadowIno:
		err = s.do("exchange", func() error { return unix.Renameat2(dir, in.Shadow, dir, in.Name, unix.RENAME_EXCHANGE) })
		if err != nil {
			return err
		}
		return s.removeShadow(dir, in, r)
	case errors.Is(err, unix.ENOENT):
		return s.do("rename", func() error { return unix.Renameat2(dir, in.Shadow, dir, in.Name, unix.RENAME_NOREPLACE) })
	case err != nil:
		return os.NewSyscallError("fstatat", err)
	}
	return s.do("unlink", func() error { return unix.Unlinkat(dir, in.Shadow, 0) })
}

func (s *Store) removeShadow(dir int, in journal.Intent, r *Report) error {
	err := s.do("unlink", func() error { return unix.Unlinkat(dir, in.Shadow, 0) })
	if err == nil {
		r.Undone = append(r.Undone, in)
	}
	return err
}
