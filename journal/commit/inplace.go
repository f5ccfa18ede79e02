package commit

import (
	"errors"
	"fmt"
	"os"

	"golang.org/x/sys/unix"

	"latchfs/journal"
	"latchfs/journal/commit/internal/disk"
)

// InPlace writes the shadow's content, mode bits, times and (unless
// MustInPlace) other attributes into target, the file Name opened for reading
// and writing, and returns its version then. A crash at any moment leaves the
// old version or a redo record. Readers that have the target open may see the
// update happen. Durability is always full.
//
// The errors are those of Publish; after them the target's content is
// untouched, although its ctime may have changed. With ErrRedoPending, too, it
// is half written: Recover finishes it, now or at the next start, and the
// shadow has nothing left to reject. With ErrNotDurable it is complete.
func (sh *Shadow) InPlace(target int, o PublishOptions) (disk.Version, error) {
	in, err := sh.redoIntent(target, o)
	if err != nil {
		return disk.Version{}, err
	}
	if _, err := sh.settledStat(); err != nil {
		return disk.Version{}, err
	}
	if err := sh.syncFor(o, 0); err != nil {
		return disk.Version{}, err
	}
	err = errors.Join(sh.s.settleTarget(in), disk.Before(sh.fd, target, &in))
	if err == nil && o.Keep.ID != "" {
		sh.kept = sh.s.keeper.KeepCopy(sh.as, target, o.Keep.ID) == nil
		o.Base = stillBase(target, o.Base)
	}
	if err == nil {
		err = sh.armRedo(in, o)
	}
	if err == nil {
		_, err = sh.redoIntent(target, o) // is it still the base?
	}
	if err == nil {
		err = sh.s.disk.Reserve(sh.as, sh.fd, target)
	}
	if err != nil {
		err = errors.Join(err, sh.disarmRedo())
		if sh.kept {
			sh.kept = false
			err = errors.Join(err, sh.s.keeper.DropKept(o.Keep.ID))
		}
		return disk.Version{}, fmt.Errorf("commit %q in place: %w", o.Name, err)
	}
	if err := sh.s.disk.ApplyInPlace(sh.fd, target, in, disk.AnyXattr); err != nil {
		sh.s.disk.Leave(sh.name.Intent(), target)
		sh.name.LeaveToRecovery()
		sh.published = true // it will be
		return disk.Version{}, &kinded{ErrRedoPending, o.Name, err}
	}
	// From here on the new version is in place and on disk. What is left is to
	// see that no recovery does it again, over something newer.
	sh.published, sh.mark = true, mark{}
	var st unix.Stat_t
	if err := unix.Fstat(target, &st); err != nil {
		return disk.Version{}, &kinded{ErrNotDurable, o.Name, errors.Join(os.NewSyscallError("fstat", err), sh.name.Drop())}
	}
	v := disk.VersionOf(&st)
	o.published(v)
	late := sh.name.Drop()
	if late == nil {
		late = sh.s.disk.Do("syncjournal", sh.s.disk.Journal.Sync)
	}
	if late != nil {
		late = &kinded{ErrNotDurable, o.Name, late}
	}
	return v, late
}

// stillBase is the version base of target, whose ctime may be a newer one by now: the copy
// of it that was kept has perhaps taken the name of a link to it which an error of the disk
// has left.
func stillBase(target int, base *disk.Version) *disk.Version {
	var st unix.Stat_t
	if unix.Fstat(target, &st) != nil {
		return base
	}
	if now := disk.VersionOf(&st); now.SameContent(*base) {
		return &now
	}
	return base
}

// redoIntent checks the target against what is expected and describes what
// recovery has to know of it.
func (sh *Shadow) redoIntent(target int, o PublishOptions) (journal.Intent, error) {
	var st, now unix.Stat_t
	if err := unix.Fstat(target, &st); err != nil {
		return journal.Intent{}, os.NewSyscallError("fstat", err)
	}
	earlier := func(in journal.Intent) bool { return in.TargetIno == st.Ino && in.TargetDev == uint64(st.Dev) }
	if sh.s.disk.RedoPending(earlier) {
		// Finished after this one, it would write over it.
		return journal.Intent{}, fmt.Errorf("an earlier commit in place is unfinished: %w", unix.EIO)
	}
	found := disk.VersionOf(&st)
	if o.Base == nil || found != *o.Base {
		return journal.Intent{}, &ConflictError{Name: o.Name, Base: o.Base, Found: &found}
	}
	if _, err := sh.checkBase(o); err != nil {
		return journal.Intent{}, err
	}
	in := journal.Intent{
		Kind: journal.KindInPlace, Token: o.Token, Dir: o.DirPath, Name: o.Name, ShadowDir: o.DirPath,
		TargetDev: uint64(st.Dev), TargetIno: st.Ino, TargetBirth: disk.Birth(target),
		Meta: sh.inPlace == nil, Mode: -1, UID: -1, GID: -1,
	}
	if err := unix.Fstat(sh.fd, &now); err != nil {
		return journal.Intent{}, os.NewSyscallError("fstat", err)
	}
	// What the session has changed is to be changed on the target: see Carried.
	if now.Uid != sh.initial.Uid || now.Gid != sh.initial.Gid {
		in.UID, in.GID = int64(now.Uid), int64(now.Gid)
	}
	if now.Mode != sh.initial.Mode || in.UID >= 0 {
		in.Mode = int64(now.Mode & 0o7777)
	}
	return in, nil
}

// Carried says that the target has the mode and the owner of the shadow by now: a copy of
// the shadow has become it, or what the session has changed was changed there as well. From
// here on InPlace carries over what differs from these, so that going back to what they
// were at first is a change.
func (sh *Shadow) Carried() error {
	var now unix.Stat_t
	if err := unix.Fstat(sh.fd, &now); err != nil {
		return os.NewSyscallError("fstat", err)
	}
	sh.initial.Mode, sh.initial.Uid, sh.initial.Gid = now.Mode, now.Uid, now.Gid
	return nil
}

// armRedo gives the shadow a reserved name and makes it, the name and the
// intent durable.
func (sh *Shadow) armRedo(in journal.Intent, o PublishOptions) error {
	if err := sh.nameBeside(in, o); err != nil {
		return err
	}
	if err := sh.s.disk.SyncDir(sh.name.Dir(), sh.fd); err != nil {
		return err
	}
	return sh.s.disk.Do("syncjournal", sh.s.disk.Journal.Sync)
}

// disarmRedo makes sure that no recovery does what was refused. The name stays
// if the journal can say that it is a mere shadow's.
func (sh *Shadow) disarmRedo() error {
	if sh.name.Intent().Kind != journal.KindInPlace {
		return nil
	}
	in := sh.name.Intent()
	in.Kind, in.Sums = journal.KindShadow, ""
	if err := sh.name.Retag(in, sh.initial.Ino); err != nil {
		return sh.name.Drop()
	}
	return nil
}
