package commit

import (
	"errors"
	"fmt"
	"os"

	"latchfs/journal"

	"golang.org/x/sys/unix"
)

// InPlace writes the shadow's content, mode bits, times and (unless
// MustInPlace) other attributes into target, the file Name opened for reading
// and writing, and returns its version then. A crash at any moment leaves the
// old version or a redo record. Readers that have the target open may see the
// update happen. Durability is always full.
//
// The errors are those of Publish. With ErrRedoPending, too, the target is half
// written; Recover finishes it, now or at the next start. After any other error
// the target is untouched.
func (sh *Shadow) InPlace(target int, o PublishOptions) (Version, error) {
	in, err := sh.redoIntent(target, o)
	if err != nil {
		return Version{}, err
	}
	if err := sh.settleTimes(); err != nil {
		return Version{}, err
	}
	if err := sh.sync(); err != nil {
		return Version{}, err
	}
	if err := sh.armRedo(in, o); err != nil {
		return Version{}, fmt.Errorf("commit %q in place: %w", o.Name, errors.Join(err, sh.disarmRedo(in)))
	}
	if _, err := sh.redoIntent(target, o); err != nil {
		return Version{}, errors.Join(err, sh.disarmRedo(in))
	}
	if err := sh.s.applyInPlace(sh.fd, target, in); err != nil {
		return Version{}, sh.handOver(in, err)
	}
	// From here on the new version is in place, and on disk.
	late := sh.unlinkName()
	if late == nil {
		late = sh.s.do("syncjournal", sh.s.j.Sync)
	}
	var st unix.Stat_t
	if err := unix.Fstat(target, &st); err != nil {
		return Version{}, os.NewSyscallError("fstat", err)
	}
	sh.mark = mark{}
	if late != nil {
		late = &kinded{ErrNotDurable, o.Name, late}
	}
	return VersionOf(&st), late
}

// redoIntent checks the target against what is expected and describes what
// recovery has to know of it.
func (sh *Shadow) redoIntent(target int, o PublishOptions) (journal.Intent, error) {
	var st, now unix.Stat_t
	if err := unix.Fstat(target, &st); err != nil {
		return journal.Intent{}, os.NewSyscallError("fstat", err)
	}
	found := VersionOf(&st)
	if o.Base == nil || found != *o.Base {
		return journal.Intent{}, &ConflictError{Name: o.Name, Base: o.Base, Found: &found}
	}
	if err := sh.checkBase(o); err != nil {
		return journal.Intent{}, err
	}
	in := journal.Intent{
		Kind: journal.KindInPlace, Name: o.Name, Token: o.Token, ShadowIno: sh.initial.Ino,
		TargetDev: uint64(st.Dev), TargetIno: st.Ino, TargetBirth: birth(target),
		Meta: sh.inPlace == nil, Mode: -1,
	}
	if err := unix.Fstat(sh.fd, &now); err != nil {
		return journal.Intent{}, os.NewSyscallError("fstat", err)
	}
	if now.Mode != sh.initial.Mode {
		in.Mode = int64(now.Mode & 0o7777)
	}
	return in, nil
}

// birth returns a file's time of birth in nanoseconds, 0 if it is not known.
func birth(fd int) int64 {
	var stx unix.Statx_t
	err := unix.Statx(fd, "", unix.AT_EMPTY_PATH, unix.STATX_BTIME, &stx)
	if err != nil || stx.Mask&unix.STATX_BTIME == 0 {
		return 0
	}
	return stx.Btime.Sec*1e9 + int64(stx.Btime.Nsec)
}

// armRedo gives the shadow a reserved name and makes it, the name and the
// intent durable.
func (sh *Shadow) armRedo(in journal.Intent, o PublishOptions) error {
	if sh.name != "" {
		if err := sh.retag(in); err != nil {
			return err
		}
	} else {
		dir := o.Dir
		if sh.inState {
			dir = sh.s.stateFD()
		}
		if err := sh.linkReserved(dir, o.DirPath, in); err != nil {
			return err
		}
	}
	if err := sh.s.syncDir(sh.dir, sh.fd); err != nil {
		return err
	}
	return sh.s.do("syncjournal", sh.s.j.Sync)
}

// retag replaces the intent that stands for the shadow's name.
func (sh *Shadow) retag(in journal.Intent) error {
	in.Dir, in.Shadow, in.InState = sh.dirPath, sh.name, sh.inState
	id, err := sh.s.begin(in)
	if err != nil {
		return err
	}
	old := sh.intent
	sh.intent = id
	return sh.s.done(old)
}

// disarmRedo makes sure that no recovery does what was refused. The name stays
// if the journal can say that it is a mere shadow's.
func (sh *Shadow) disarmRedo(in journal.Intent) error {
	if sh.name == "" {
		return nil
	}
	if err := sh.retag(journal.Intent{Kind: journal.KindShadow, Name: in.Name, Token: in.Token, ShadowIno: in.ShadowIno}); err != nil {
		return sh.unlinkName()
	}
	return nil
}

// handOver leaves the armed redo to Recover.
func (sh *Shadow) handOver(in journal.Intent, cause error) error {
	in.ID, in.Dir, in.Shadow, in.InState = sh.intent, sh.dirPath, sh.name, sh.inState
	sh.s.mu.Lock()
	sh.s.unfinished[in.ID] = in
	sh.s.mu.Unlock()
	unix.Close(sh.dir)
	sh.name, sh.dir, sh.intent = "", -1, 0
	return &kinded{ErrRedoPending, in.Name, cause}
}

// applyInPlace makes target a copy of shadow and syncs it. It may be repeated
// from the start at any time.
func (s *Store) applyInPlace(shadow, target int, in journal.Intent) error {
	var st unix.Stat_t
	if err := unix.Fstat(shadow, &st); err != nil {
		return os.NewSyscallError("fstat", err)
	}
	if err := s.overwrite(shadow, target, st.Size); err != nil {
		return err
	}
	if in.Meta {
		if err := copyXattrs(s, shadow, target); err != nil {
			return err
		}
	}
	if in.Mode >= 0 {
		if err := s.do("chmod", func() error { return unix.Fchmod(target, uint32(in.Mode)) }); err != nil {
			return err
		}
	}
	err := s.do("utimens", func() error { return futimens(target, [2]unix.Timespec{st.Atim, st.Mtim}) })
	if err != nil && !errors.Is(err, unix.EPERM) { // only the owner may
		return err
	}
	return s.do("fsync", func() error { return unix.Fsync(target) })
}

// overwrite replaces the content of target.
func (s *Store) overwrite(shadow, target int, size int64) error {
	if err := s.do("truncate", func() error { return unix.Ftruncate(target, 0) }); err != nil {
		return err
	}
	return copyContent(s, shadow, target, size)
}
