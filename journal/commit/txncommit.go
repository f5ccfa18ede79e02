package commit

import (
	"errors"
	"fmt"
	"os"

	"golang.org/x/sys/unix"

	"latchfs/journal"
	"latchfs/journal/commit/internal/disk"
)

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
	if err := t.stillThere(); err != nil {
		return err
	}
	decision, err := s.disk.Begin(journal.Intent{Kind: journal.KindTxn, Txn: t.id})
	if err != nil {
		return err
	}
	if err := s.disk.Do("syncjournal", s.disk.Journal.Sync); err != nil {
		// What it says must not be believed by anybody. If that cannot be
		// written either, it is carried out.
		if revoked := s.disk.Done(decision); revoked == nil {
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
	_ = s.disk.Done(decision)
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
			p.sh.kept = s.keeper.KeepCopy(p.sh.as, p.target, p.keep.ID) == nil
		}
		if err := s.disk.ApplyInPlace(p.sh.fd, p.target, p.in, disk.AnyXattr); err != nil {
			s.disk.Leave(p.in, p.target)
			return err
		}
		p.sh.published = true
		return p.sh.name.Drop()
	}
	kept, err := s.keeper.PutInPlaceOf(p.sh.name.Dir(), p.in, p.keep)
	if err == nil {
		p.sh.published, p.sh.mark, p.sh.kept = true, mark{}, kept
	}
	return err
}

func (t *Txn) remove(p *txnPart) (err error) {
	if st, named := t.s.disk.Named(p.dir, p.in); named && p.keep.ID != "" {
		p.kept, err = t.s.keeper.Settle(t.s.disk.OwnerOf(p.dir, st), p.dir, p.in.Name, p.keep.Of(p.in.TargetIno))
		return err
	}
	err = t.s.disk.RemoveNamed(p.dir, p.in)
	if errors.Is(err, unix.ENOTEMPTY) && t.s.settleBelow(p.dir, p.in.Name) == nil {
		err = t.s.disk.RemoveNamed(p.dir, p.in)
	}
	return err
}

// settleBelow settles what was made, and removed, in a directory that is to go.
func (s *Store) settleBelow(dir int, name string) error {
	fd, err := unix.Openat(dir, name, unix.O_PATH|unix.O_DIRECTORY|unix.O_NOFOLLOW|unix.O_CLOEXEC, 0)
	if err != nil {
		return err
	}
	defer unix.Close(fd)
	return s.SettleLazyDir(fd)
}

// finish ends the intents of what has happened.
func (t *Txn) finish() {
	for _, p := range t.parts {
		if p.sh != nil {
			_ = p.sh.name.Gone() // a journal that does not know finds nothing to do
		} else {
			_ = t.s.disk.Done(p.in.ID)
		}
	}
	for _, m := range t.made {
		_ = t.s.disk.Done(m.in.ID)
	}
	t.close()
}

// leave hands what is decided and has not all happened to Recover.
func (t *Txn) leave(decision uint64) {
	s := t.s
	for _, p := range t.parts {
		s.disk.Abandon(p.in)
		if p.sh != nil && p.sh.name.Stands() {
			p.sh.published = true // it will be
			p.sh.name.Forget()
		}
	}
	for _, m := range t.made {
		s.disk.Abandon(m.in)
	}
	s.disk.Abandon(journal.Intent{ID: decision, Kind: journal.KindTxn, Txn: t.id})
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
			errs = append(errs, p.sh.name.Drop())
		} else {
			errs = append(errs, s.disk.Done(p.in.ID))
		}
	}
	for i := len(t.made) - 1; i >= 0; i-- {
		m := t.made[i]
		err := s.disk.RemoveNamed(m.dir, m.in)
		if err == nil {
			err = s.disk.Done(m.in.ID)
		} else {
			s.disk.Abandon(m.in)
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
			return t.s.disk.SyncDir(dir, t.s.disk.StateFD())
		}
		return nil
	}
	var errs []error
	for _, m := range t.made {
		errs = append(errs, sync(m.dir))
	}
	for _, p := range t.parts {
		errs = append(errs, sync(p.dir))
		if p.sh != nil && p.sh.name.Stands() && p.sh.inState {
			errs = append(errs, sync(p.sh.name.Dir()))
		}
	}
	return errors.Join(errs...)
}
