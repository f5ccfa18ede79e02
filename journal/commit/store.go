package commit

import (
	"errors"
	"os"

	"golang.org/x/sys/unix"

	"latchfs/journal"
)

// Store makes the shadows of one data root. Its methods may be called
// concurrently.
type Store struct {
	*disk
	*keeper
	*rejects
	*lazies
	*tails
	*recoverer

	// lazyAnywhere, set by tests of crashes of the daemon alone, makes lazy commits
	// where a power cut would not leave them whole.
	lazyAnywhere bool
}

// NewStore returns the store of the data root rootfd with the state directory
// stateDir and its journal. All three stay the caller's and must outlive the
// store; the descriptors may be O_PATH.
func NewStore(rootfd int, stateDir *os.File, j *journal.Journal) *Store {
	d := newDisk(rootfd, stateDir, j)
	r := newRejects(d)
	l := newLazies(d)
	return &Store{disk: d, keeper: newKeeper(d), rejects: r, lazies: l, tails: newTails(d, l), recoverer: newRecoverer(d, r)}
}

// Close ends what goes on in the background, with everything that was appended
// on disk. It comes before the journal's Close; tails that are still in use must
// not be appended to any more.
func (s *Store) Close() error { return errors.Join(s.lazies.close(), s.tails.close()) }

// settleTarget settles what recovery would do to the target of in, which is about
// to be changed in place.
func (s *Store) settleTarget(in journal.Intent) error {
	if err := s.SettleLazy(&unix.Stat_t{Dev: in.TargetDev, Ino: in.TargetIno}); err != nil {
		return err
	}
	return s.settleTail(in)
}

// Durability says what a returned Publish has waited for; see the package
// comment.
type Durability string

// The durabilities. The empty one is Full.
const (
	Full    Durability = "full"
	Ordered Durability = "ordered"
	Lazy    Durability = "lazy"
)

// SetRoom makes give be called when a step finds no room (ENOSPC, EDQUOT): the
// step is repeated as long as it returns true. It is to be called before the
// store is used.
func (s *Store) SetRoom(give func(error) bool) { s.disk.room = give }

// HalfWritten reports whether an InPlace has returned ErrRedoPending and no
// Recover has finished it since.
func (s *Store) HalfWritten() bool {
	return s.redoPending(func(journal.Intent) bool { return true })
}

// SyncDir makes the names in the directory dir durable. file is any file of the
// same filesystem.
func (s *Store) SyncDir(dir, file int) error { return s.syncDir(dir, file) }
