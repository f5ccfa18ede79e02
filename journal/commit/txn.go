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

// Txn publishes several changes, all or none; see "Transactions" in the package
// comment. Its methods are not for concurrent use. It ends with Commit or
// Rollback.
type Txn struct {
	s     *Store
	id    uint64
	made  []txnMade
	parts []*txnPart
}

// txnMade is a name that was made on the way.
type txnMade struct {
	in  journal.Intent
	dir int // own descriptor
}

// txnPart is one change that is prepared.
type txnPart struct {
	in     journal.Intent
	dir    int       // own descriptor of the target's directory
	sh     *Shadow   // nil: a removal
	target int       // own descriptor, of a change in place; else -1
	keep   keep.Keep // what becomes of what is replaced or removed
	kept   bool
}

// Removal is a removal that was prepared.
type Removal struct{ p *txnPart }

// Kept reports, after the commit, whether what was removed is in the history.
func (r *Removal) Kept() bool { return r.p.kept }

// NewTxn returns a transaction. The id must never have been used for one.
func (s *Store) NewTxn(id uint64) *Txn { return &Txn{s: s, id: id} }

// MakeOptions say what Make gives a name to.
type MakeOptions struct {
	Dir     int    // descriptor of the directory; O_PATH will do
	DirPath string // that directory relative to the data root, for the journal
	Name    string
}

// Make gives a name to something that is no regular file (a directory, a symbolic
// link, ...), at once: do makes it under the name that it is given. Rollback, or
// the recovery after a crash, takes it away again. EEXIST if the name is taken.
func (t *Txn) Make(o MakeOptions, do func(dir int, name string) error) error {
	s := t.s
	tmp := s.disk.ClaimName()
	defer s.disk.Release(tmp)
	own, err := unix.FcntlInt(uintptr(o.Dir), unix.F_DUPFD_CLOEXEC, 0)
	if err != nil {
		return os.NewSyscallError("dup", err)
	}
	temporary, err := s.disk.Begin(journal.Intent{Kind: journal.KindShadow, Txn: t.id, Dir: o.DirPath, Name: o.Name, ShadowDir: o.DirPath, Shadow: tmp})
	if err != nil {
		unix.Close(own)
		return err
	}
	in := journal.Intent{Kind: journal.KindMade, Txn: t.id, Dir: o.DirPath, Name: o.Name, ShadowDir: o.DirPath}
	err = s.disk.Do("make", func() error { return do(own, tmp) })
	if err == nil {
		err = t.name(own, tmp, o.Name, &in)
		if err != nil {
			_ = s.disk.RemoveName(own, tmp)
		}
	}
	err = errors.Join(err, s.disk.Done(temporary))
	if in.ID == 0 {
		unix.Close(own)
		return err
	}
	t.made = append(t.made, txnMade{in, own})
	return err
}

// MakesAlike reports whether a directory that do makes is like the one that has the name: of
// the same owner, group and mode, and with the same extended attributes. do makes it under
// the name that it is given, and it is removed again.
func (t *Txn) MakesAlike(o MakeOptions, do func(dir int, name string) error) (bool, error) {
	s := t.s
	tmp := s.disk.ClaimName()
	defer s.disk.Release(tmp)
	in := journal.Intent{Kind: journal.KindShadow, Txn: t.id, Dir: o.DirPath, Name: o.Name, ShadowDir: o.DirPath, Shadow: tmp}
	var err error
	if in.ID, err = s.disk.Begin(in); err != nil {
		return false, err
	}
	alike := false
	err = s.disk.Do("make", func() error { return do(o.Dir, tmp) })
	if err == nil {
		alike = disk.Alike(o.Dir, tmp, o.Name)
		err = s.disk.RemoveName(o.Dir, tmp)
	}
	if err != nil {
		s.disk.Abandon(in) // Recover removes it
		return false, err
	}
	return alike, s.disk.Done(in.ID)
}

// name moves what was made to its own name, and completes in.
func (t *Txn) name(dir int, tmp, name string, in *journal.Intent) error {
	s := t.s
	var st unix.Stat_t
	if err := unix.Fstatat(dir, tmp, &st, unix.AT_SYMLINK_NOFOLLOW); err != nil {
		return os.NewSyscallError("fstatat", err)
	}
	in.TargetDev, in.TargetIno, in.TargetBirth = uint64(st.Dev), st.Ino, disk.BirthOf(dir, tmp)
	id, err := s.disk.Begin(*in)
	if err != nil {
		return err
	}
	// The name may come to the disk at any time, and by it alone nobody could tell that it has to
	// go again if the power fails.
	err = s.disk.Do("syncmade", s.disk.Journal.Sync)
	if err == nil {
		err = s.disk.Do("rename", func() error { return unix.Renameat2(dir, tmp, dir, name, unix.RENAME_NOREPLACE) })
	}
	if err != nil {
		return errors.Join(err, s.disk.Done(id))
	}
	in.ID = id
	return nil
}

// Unmake takes away what Make has made under a name in a directory, of which dir is a
// descriptor (O_PATH will do), whatever its path is by now: ENOTEMPTY if it is a directory
// with something in it, ErrConflict if the name holds something else.
func (t *Txn) Unmake(dir int, name string) error {
	for i, m := range t.made {
		if m.in.Name != name || !disk.SameFile(m.dir, dir) {
			continue
		}
		if err := t.s.disk.RemoveNamed(m.dir, m.in); err != nil {
			return err
		}
		t.made = append(t.made[:i], t.made[i+1:]...)
		unix.Close(m.dir)
		return t.s.disk.Done(m.in.ID)
	}
	return &ConflictError{Name: name}
}

// Put prepares a shadow to become the file o.Name at the commit: it is on disk
// then, under a reserved name. The errors are those of Publish, and nothing is
// changed by them. The shadow stays the caller's, to be discarded after Commit or
// Rollback.
func (t *Txn) Put(sh *Shadow, o PublishOptions) error {
	if sh.inPlace != nil {
		return sh.inPlace
	}
	in := journal.Intent{
		Kind: journal.KindReplace, Dir: o.DirPath, Name: o.Name, ShadowDir: o.DirPath, Token: o.Token, Txn: t.id,
		ShadowIno: sh.initial.Ino, Keep: o.Keep.ID,
	}
	if o.Base != nil {
		in.TargetIno, in.TargetBirth = o.Base.Ino, disk.BirthOf(o.Dir, o.Name)
	}
	return t.prepare(sh, o, in, -1)
}

// PutInPlace prepares a shadow to be written into target, the file o.Name opened
// for reading and writing, at the commit; see InPlace.
func (t *Txn) PutInPlace(sh *Shadow, target int, o PublishOptions) error {
	in, err := sh.redoIntent(target, o)
	if err != nil {
		return err
	}
	if err := disk.Before(sh.fd, target, &in); err != nil {
		return err
	}
	in.Txn = t.id
	own, err := unix.FcntlInt(uintptr(target), unix.F_DUPFD_CLOEXEC, 0)
	if err != nil {
		return os.NewSyscallError("dup", err)
	}
	if err := t.prepare(sh, o, in, own); err != nil {
		unix.Close(own)
		return err
	}
	return t.s.disk.Reserve(sh.as, sh.fd, target) // last, for it changes the target's ctime
}

func (t *Txn) prepare(sh *Shadow, o PublishOptions, in journal.Intent, target int) error {
	if _, err := sh.checkBase(o); err != nil {
		return err
	}
	if _, err := sh.settledStat(); err != nil {
		return err
	}
	if err := sh.syncFor(o, in.Txn); err != nil {
		return err
	}
	if err := sh.nameBeside(in, o); err != nil {
		return fmt.Errorf("prepare %q: %w", o.Name, err)
	}
	own, err := unix.FcntlInt(uintptr(o.Dir), unix.F_DUPFD_CLOEXEC, 0)
	if err != nil {
		return os.NewSyscallError("dup", err)
	}
	t.parts = append(t.parts, &txnPart{in: sh.name.Intent(), dir: own, sh: sh, target: target, keep: o.Keep})
	return nil
}

// RemoveOptions say which name a transaction removes.
type RemoveOptions struct {
	Dir     int    // descriptor of the directory; O_PATH will do
	DirPath string // that directory relative to the data root, for the journal
	Name    string
	Base    disk.Version // what the name must hold
	IsDir   bool         // it is a directory, of which only the inode is compared
	Keep    keep.Keep    // what becomes of the file
}

// Remove prepares the removal of a name: ErrConflict if it does not hold o.Base.
// Directories are removed last, so that what is in them may be removed as well.
func (t *Txn) Remove(o RemoveOptions) (*Removal, error) {
	var st unix.Stat_t
	err := unix.Fstatat(o.Dir, o.Name, &st, unix.AT_SYMLINK_NOFOLLOW)
	found := disk.VersionOf(&st)
	same := found == o.Base || o.IsDir && found.Ino == o.Base.Ino && found.Dev == o.Base.Dev
	switch {
	case errors.Is(err, unix.ENOENT):
		return nil, &ConflictError{Name: o.Name, Base: &o.Base}
	case err != nil:
		return nil, os.NewSyscallError("fstatat", err)
	case !same:
		return nil, &ConflictError{Name: o.Name, Base: &o.Base, Found: &found}
	}
	in := journal.Intent{
		Kind: journal.KindRemove, Txn: t.id, Dir: o.DirPath, Name: o.Name, ShadowDir: o.DirPath, Keep: o.Keep.ID,
		TargetDev: uint64(st.Dev), TargetIno: st.Ino, TargetBirth: disk.BirthOf(o.Dir, o.Name),
	}
	own, err := unix.FcntlInt(uintptr(o.Dir), unix.F_DUPFD_CLOEXEC, 0)
	if err != nil {
		return nil, os.NewSyscallError("dup", err)
	}
	if in.ID, err = t.s.disk.Begin(in); err != nil {
		unix.Close(own)
		return nil, err
	}
	p := &txnPart{in: in, dir: own, target: -1, keep: o.Keep}
	t.parts = append(t.parts, p)
	return &Removal{p}, nil
}
