package commit

import (
	"errors"
	"fmt"
	"os"

	"latchfs/journal"

	"golang.org/x/sys/unix"
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
	dir    int     // own descriptor of the target's directory
	sh     *Shadow // nil: a removal
	target int     // own descriptor, of a change in place; else -1
	base   bool    // there is something to replace
	keep   Keep    // what becomes of that
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
	tmp := s.claimName()
	defer s.release(tmp)
	own, err := unix.FcntlInt(uintptr(o.Dir), unix.F_DUPFD_CLOEXEC, 0)
	if err != nil {
		return os.NewSyscallError("dup", err)
	}
	temporary, err := s.begin(journal.Intent{Kind: journal.KindShadow, Txn: t.id, Dir: o.DirPath, Name: o.Name, ShadowDir: o.DirPath, Shadow: tmp})
	if err != nil {
		unix.Close(own)
		return err
	}
	in := journal.Intent{Kind: journal.KindMade, Txn: t.id, Dir: o.DirPath, Name: o.Name, ShadowDir: o.DirPath}
	err = s.do("make", func() error { return do(own, tmp) })
	if err == nil {
		err = t.name(own, tmp, o.Name, &in)
		if err != nil {
			_ = s.removeName(own, tmp)
		}
	}
	err = errors.Join(err, s.done(temporary))
	if in.ID == 0 {
		unix.Close(own)
		return err
	}
	t.made = append(t.made, txnMade{in, own})
	return err
}

// name moves what was made to its own name, and completes in.
func (t *Txn) name(dir int, tmp, name string, in *journal.Intent) error {
	s := t.s
	var st unix.Stat_t
	if err := unix.Fstatat(dir, tmp, &st, unix.AT_SYMLINK_NOFOLLOW); err != nil {
		return os.NewSyscallError("fstatat", err)
	}
	in.TargetDev, in.TargetIno, in.TargetBirth = uint64(st.Dev), st.Ino, birthOf(dir, tmp)
	id, err := s.begin(*in)
	if err != nil {
		return err
	}
	err = s.do("rename", func() error { return unix.Renameat2(dir, tmp, dir, name, unix.RENAME_NOREPLACE) })
	if err != nil {
		return errors.Join(err, s.done(id))
	}
	in.ID = id
	return nil
}

// Unmake takes away what Make has made under a name: ENOTEMPTY if it is a
// directory with something in it, ErrConflict if the name holds something else.
func (t *Txn) Unmake(dirPath, name string) error {
	for i, m := range t.made {
		if m.in.Dir != dirPath || m.in.Name != name {
			continue
		}
		if err := t.s.removeNamed(m.dir, m.in); err != nil {
			return err
		}
		t.made = append(t.made[:i], t.made[i+1:]...)
		unix.Close(m.dir)
		return t.s.done(m.in.ID)
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
		in.TargetIno = o.Base.Ino
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
	in.Txn = t.id
	own, err := unix.FcntlInt(uintptr(target), unix.F_DUPFD_CLOEXEC, 0)
	if err != nil {
		return os.NewSyscallError("dup", err)
	}
	if err := t.prepare(sh, o, in, own); err != nil {
		unix.Close(own)
		return err
	}
	return t.s.reserve(sh.fd, target) // last, for it changes the target's ctime
}

func (t *Txn) prepare(sh *Shadow, o PublishOptions, in journal.Intent, target int) error {
	if err := sh.checkBase(o); err != nil {
		return err
	}
	if err := sh.settleTimes(); err != nil {
		return err
	}
	if err := sh.sync(); err != nil {
		return err
	}
	var err error
	switch {
	case sh.named():
		err = sh.retag(in)
	case sh.inState:
		err = sh.linkReserved(sh.s.stateFD(), in)
	default:
		err = sh.linkReserved(o.Dir, in)
	}
	if err != nil {
		return fmt.Errorf("prepare %q: %w", o.Name, err)
	}
	own, err := unix.FcntlInt(uintptr(o.Dir), unix.F_DUPFD_CLOEXEC, 0)
	if err != nil {
		return os.NewSyscallError("dup", err)
	}
	t.parts = append(t.parts, &txnPart{in: sh.intent, dir: own, sh: sh, target: target, base: o.Base != nil, keep: o.Keep})
	return nil
}

// RemoveOptions say which name a transaction removes.
type RemoveOptions struct {
	Dir     int    // descriptor of the directory; O_PATH will do
	DirPath string // that directory relative to the data root, for the journal
	Name    string
	Base    Version // what the name must hold
	IsDir   bool    // it is a directory, of which only the inode is compared
	Keep    Keep    // what becomes of the file
}

// Remove prepares the removal of a name: ErrConflict if it does not hold o.Base.
// Directories are removed last, so that what is in them may be removed as well.
func (t *Txn) Remove(o RemoveOptions) (*Removal, error) {
	var st unix.Stat_t
	err := unix.Fstatat(o.Dir, o.Name, &st, unix.AT_SYMLINK_NOFOLLOW)
	found := VersionOf(&st)
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
		TargetDev: uint64(st.Dev), TargetIno: st.Ino, TargetBirth: birthOf(o.Dir, o.Name),
	}
	own, err := unix.FcntlInt(uintptr(o.Dir), unix.F_DUPFD_CLOEXEC, 0)
	if err != nil {
		return nil, os.NewSyscallError("dup", err)
	}
	if in.ID, err = t.s.begin(in); err != nil {
		unix.Close(own)
		return nil, err
	}
	p := &txnPart{in: in, dir: own, target: -1, keep: o.Keep}
	t.parts = append(t.parts, p)
	return &Removal{p}, nil
}

// Commit makes everything that was prepared happen. ErrRedoPending: it is
// decided, and Recover finishes it, now or at the next start. ErrNotDurable: it
// has happened, and is not known to be on disk. After any other error nothing has
// happened, and Rollback is due.
func (t *Txn) Commit() error {
	s := t.s
	// A decision counts only if what it decides about is on disk.
	if err := t.syncDirs(); err != nil {
		return err
	}
	if err := t.settleTails(); err != nil {
		return err
	}
	decision, err := s.begin(journal.Intent{Kind: journal.KindTxn, Txn: t.id})
	if err != nil {
		return err
	}
	if err := s.do("syncjournal", s.j.Sync); err != nil {
		// What it says must not be believed by anybody. If that cannot be
		// written either, it is carried out.
		if revoked := s.done(decision); revoked == nil {
			return err
		}
	}
	errs := make([]error, 0, len(t.parts))
	for _, last := range []bool{false, true} { // directories are removed last
		for _, p := range t.parts {
			if p.isRmdir() == last {
				errs = append(errs, t.apply(p))
			}
		}
	}
	if err := errors.Join(errs...); err != nil {
		t.leave(decision)
		return &kinded{ErrRedoPending, fmt.Sprintf("transaction %d", t.id), err}
	}
	late := t.syncDirs()
	t.finish()
	_ = s.done(decision)
	if late != nil {
		return &kinded{ErrNotDurable, fmt.Sprintf("transaction %d", t.id), late}
	}
	return nil
}

// settleTails ends the undo records of files that are to be written in place.
func (t *Txn) settleTails() error {
	var errs []error
	for _, p := range t.parts {
		if p.in.Kind == journal.KindInPlace {
			errs = append(errs, t.s.settleTarget(p.in))
		}
	}
	return errors.Join(errs...)
}

func (p *txnPart) isRmdir() bool {
	var st unix.Stat_t
	return p.in.Kind == journal.KindRemove && unix.Fstatat(p.dir, p.in.Name, &st, unix.AT_SYMLINK_NOFOLLOW) == nil && st.Mode&unix.S_IFMT == unix.S_IFDIR
}

// apply makes one change happen.
func (t *Txn) apply(p *txnPart) error {
	s := t.s
	switch p.in.Kind {
	case journal.KindRemove:
		return t.remove(p)
	case journal.KindInPlace:
		if p.keep.ID != "" {
			p.sh.kept = s.keepCopy(p.target, p.keep.ID) == nil
		}
		if err := s.applyInPlace(p.sh.fd, p.target, p.in); err != nil {
			return err
		}
		p.sh.published = true
		return p.sh.dropName()
	}
	kept, err := s.putInPlaceOf(p.sh.dir, p.in, p.keep)
	if err == nil {
		p.sh.published, p.sh.mark, p.sh.kept = true, mark{}, kept
	}
	return err
}

func (t *Txn) remove(p *txnPart) (err error) {
	if p.keep.ID != "" && t.s.isNamed(p.dir, p.in) {
		p.kept, err = t.s.settle(p.dir, p.in.Name, p.keep)
		return err
	}
	return t.s.removeNamed(p.dir, p.in)
}

// putInPlaceOf gives the name of in to the shadow in dir; what has it goes where
// keep says. It may be repeated after a crash.
func (s *Store) putInPlaceOf(dir int, in journal.Intent, keep Keep) (kept bool, err error) {
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

// finish ends the intents of what has happened.
func (t *Txn) finish() {
	for _, p := range t.parts {
		if p.sh != nil {
			_ = p.sh.nameGone() // a journal that does not know finds nothing to do
		} else {
			_ = t.s.done(p.in.ID)
		}
	}
	for _, m := range t.made {
		_ = t.s.done(m.in.ID)
	}
	t.close()
}

// leave hands what is decided and has not all happened to Recover.
func (t *Txn) leave(decision uint64) {
	s := t.s
	for _, p := range t.parts {
		s.abandon(p.in)
		if p.sh != nil && p.sh.named() {
			p.sh.published = true // it will be
			p.sh.forgetName()
		}
	}
	for _, m := range t.made {
		s.abandon(m.in)
	}
	s.abandon(journal.Intent{ID: decision, Kind: journal.KindTxn, Txn: t.id})
	t.close()
}

// Rollback takes back what was made, and forgets what was prepared: the shadows
// are without a name again, unless they have been rejected or discarded before. An
// error says what could not be taken back; the next start tries again.
func (t *Txn) Rollback() error {
	s := t.s
	var errs []error
	for _, p := range t.parts {
		if p.sh != nil {
			errs = append(errs, p.sh.dropName())
		} else {
			errs = append(errs, s.done(p.in.ID))
		}
	}
	for i := len(t.made) - 1; i >= 0; i-- {
		m := t.made[i]
		err := s.removeNamed(m.dir, m.in)
		if err == nil {
			err = s.done(m.in.ID)
		} else {
			s.abandon(m.in)
		}
		errs = append(errs, err)
	}
	t.close()
	return errors.Join(errs...)
}

func (t *Txn) close() {
	for _, p := range t.parts {
		unix.Close(p.dir)
		if p.target >= 0 {
			unix.Close(p.target)
		}
	}
	for _, m := range t.made {
		unix.Close(m.dir)
	}
	t.parts, t.made = nil, nil
}

// syncDirs makes the names durable in every directory concerned.
func (t *Txn) syncDirs() error {
	seen := map[[2]uint64]bool{}
	sync := func(dir int) error {
		var st unix.Stat_t
		if err := unix.Fstat(dir, &st); err != nil {
			return os.NewSyscallError("fstat", err)
		}
		if at := [2]uint64{uint64(st.Dev), st.Ino}; !seen[at] {
			seen[at] = true
			return t.s.syncDir(dir, t.s.stateFD())
		}
		return nil
	}
	var errs []error
	for _, m := range t.made {
		errs = append(errs, sync(m.dir))
	}
	for _, p := range t.parts {
		errs = append(errs, sync(p.dir))
		if p.sh != nil && p.sh.named() && p.sh.inState {
			errs = append(errs, sync(p.sh.dir))
		}
	}
	return errors.Join(errs...)
}

// removeNamed removes the name that in is about, if it holds that inode. A name
// that is gone already is none.
func (s *Store) removeNamed(dir int, in journal.Intent) error {
	if !s.isNamed(dir, in) {
		return nil
	}
	return s.removeName(dir, in.Name)
}

// isNamed reports whether the name still holds the inode that in is about.
func (s *Store) isNamed(dir int, in journal.Intent) bool {
	var st unix.Stat_t
	if unix.Fstatat(dir, in.Name, &st, unix.AT_SYMLINK_NOFOLLOW) != nil {
		return false
	}
	b := birthOf(dir, in.Name)
	return st.Ino == in.TargetIno && b == in.TargetBirth && (b != 0 || uint64(st.Dev) == in.TargetDev)
}

// removeName removes a file, or a directory that is empty.
func (s *Store) removeName(dir int, name string) error {
	return s.do("unlink", func() error {
		err := unix.Unlinkat(dir, name, 0)
		if errors.Is(err, unix.EISDIR) {
			err = unix.Unlinkat(dir, name, unix.AT_REMOVEDIR)
		}
		return err
	})
}

// birthOf is birth for a name.
func birthOf(dir int, name string) int64 {
	var stx unix.Statx_t
	err := unix.Statx(dir, name, unix.AT_SYMLINK_NOFOLLOW, unix.STATX_BTIME, &stx)
	if err != nil || stx.Mask&unix.STATX_BTIME == 0 {
		return 0
	}
	return stx.Btime.Sec*1e9 + int64(stx.Btime.Nsec)
}
