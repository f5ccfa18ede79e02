package commit

import (
	"errors"
	"os"
	"path/filepath"

	"golang.org/x/sys/unix"

	"latchfs/journal"
	"latchfs/journal/commit/internal/disk"
	"latchfs/journal/commit/internal/keep"
	"latchfs/journal/commit/internal/lazy"
	"latchfs/journal/commit/internal/recovery"
	"latchfs/journal/commit/internal/rejected"
	"latchfs/journal/commit/internal/tail"
)

// Store makes the shadows of one data root. Its methods may be called
// concurrently.
type Store struct {
	disk      *disk.Disk
	keeper    *keep.Keeper
	rejects   *rejected.Store
	lazies    *lazy.Set
	tails     *tail.Set
	recoverer *recovery.Recoverer

	// lazyAnywhere, set by tests of crashes of the daemon alone, makes lazy commits
	// where a power cut would not leave them whole.
	lazyAnywhere bool
}

// NewStore returns the store of the data root rootfd with the state directory
// stateDir and its journal. All three stay the caller's and must outlive the
// store; the descriptors may be O_PATH.
func NewStore(rootfd int, stateDir *os.File, j *journal.Journal) *Store {
	d := disk.New(rootfd, stateDir, j)
	r := rejected.New(d)
	l := lazy.New(d)
	d.Settle, d.Last = l.GiveRoom, r.GiveWay
	return &Store{disk: d, keeper: keep.New(d), rejects: r, lazies: l, tails: tail.New(d, l), recoverer: recovery.New(d, r)}
}

// Close ends what goes on in the background, with everything that was appended
// on disk. It comes before the journal's Close; tails that are still in use must
// not be appended to any more.
func (s *Store) Close() error {
	s.rejects.NameLate()
	return errors.Join(s.lazies.Close(), s.tails.Close())
}

// SettleRecords brings what was appended to the file st to the disk: it is about to replace
// another version.
func (s *Store) SettleRecords(st *unix.Stat_t) error {
	return s.tails.Settle(disk.InodeOf(st))
}

// settleTarget settles what recovery would do to the target of in, which is about
// to be changed in place.
func (s *Store) settleTarget(in journal.Intent) error {
	if err := s.SettleLazy(&unix.Stat_t{Dev: in.TargetDev, Ino: in.TargetIno}); err != nil {
		return err
	}
	return s.tails.Settle(disk.Inode{Dev: in.TargetDev, Ino: in.TargetIno})
}

// Durability says what a returned Publish has waited for; see the package
// comment.
type Durability string

// The durabilities. The empty one is Full.
const (
	Auto    Durability = "auto"
	Full    Durability = "full"
	Ordered Durability = "ordered"
	Lazy    Durability = "lazy"
)

// SetRoom makes give be called when a step finds no room (ENOSPC, EDQUOT): the
// step is repeated as long as it returns true. Where it returns false, commits are settled
// for which files are kept that have no name any more. It is to be called before the store
// is used.
func (s *Store) SetRoom(give func(error) bool) { s.disk.Room = give }

// GiveRoom makes room for a change that has failed with err as the store does for its own
// steps, and reports whether the change is to be tried again.
func (s *Store) GiveRoom(err error) bool { return s.disk.GiveRoom(err) }

// SetFault makes ask be called before each change to the disk, which fails with the error
// that it returns, if any; nil asks nobody. It is for tests, and to be called before the
// store is used.
func (s *Store) SetFault(ask func(step string) error) { s.disk.Fault = ask }

// HalfDone reports whether an InPlace or a transaction has returned ErrRedoPending, or a
// transaction was rolled back and what it had made could not be taken away, and no Recover has
// finished that since.
func (s *Store) HalfDone() bool {
	return s.disk.RedoPending(func(journal.Intent) bool { return true }) || s.disk.TxnPending(func(journal.Intent, bool) bool { return true })
}

// AwaitsTxn reports whether Recover has yet to give the name path its part in a
// transaction, or to take it back: what it shows is out of date.
func (s *Store) AwaitsTxn(path string) bool {
	return s.disk.TxnPending(func(in journal.Intent, decided bool) bool {
		return (in.Kind != journal.KindMade || !decided) && filepath.Join(in.Dir, in.Name) == path
	})
}

// SetLost makes tell be called when something that was acknowledged cannot be made
// durable in the background: path is relative to the data root, "" if nobody knows it. It
// is to be called before the store is used.
func (s *Store) SetLost(tell func(path string, err error)) { s.lazies.OnLost = tell }

// SyncNames runs sync, which makes the names in the directory dir durable: nothing is left
// to be done for them within a second.
func (s *Store) SyncNames(dir int, sync func() error) error {
	var st unix.Stat_t
	if unix.Fstat(dir, &st) != nil {
		return sync()
	}
	return s.lazies.SyncNames(disk.InodeOf(&st), sync)
}

// FsyncDir is fsync(2) of the directory dir, which is open for reading. It waits for nothing
// where a crash takes nothing from the directory: see appear.
func (s *Store) FsyncDir(dir int) error {
	err := s.SettleLazyDir(dir)
	var st unix.Stat_t
	if err == nil && unix.Fstat(dir, &st) == nil && s.lazies.Appear(disk.InodeOf(&st), st.Ctim) {
		return nil
	}
	fsync := func() error { return s.disk.Once("fsync", func() error { return unix.Fsync(dir) }) }
	return errors.Join(err, s.SyncNames(dir, fsync))
}

// Change is called before something is done to a directory, or to a name in it, other than
// by the store, and end after that.
func (s *Store) Change() (end func()) { return s.disk.Change() }

// ShowTimes turns the times of a directory of which somebody has just asked the status into
// those that the users of the mount see: the store takes names away that they have not seen.
func (s *Store) ShowTimes(st *unix.Stat_t) { s.disk.ShowTimes(st) }

// SyncDir makes the names in the directory dir durable. file is any file of the
// same filesystem.
func (s *Store) SyncDir(dir, file int) error {
	return s.SyncNames(dir, func() error { return s.disk.SyncDir(dir, file) })
}
