package commit

import (
	"cmp"
	"encoding/binary"
	"encoding/hex"
	"errors"
	"math/rand/v2"
	"os"
	"slices"
	"sync"
	"time"

	"latchfs/journal"

	"golang.org/x/sys/unix"
)

// Store makes the shadows of one data root. Its methods may be called
// concurrently.
type Store struct {
	root  int
	state *os.File
	j     *journal.Journal

	// fault, if set, is asked before every change to the disk; tests use it to
	// stop there.
	fault func(step string) error
	// lazyAnywhere, set by tests of crashes of the daemon alone, makes lazy commits
	// where a power cut would not leave them whole.
	lazyAnywhere bool

	room     func(error) bool // see SetRoom; or nil
	kept     chan struct{}    // see Kept
	rejMu    sync.Mutex       // guards what follows; before mu
	rejected rejectedList

	// recovering is held by Recover: two of them would finish the same things, the
	// slower one when something newer is in place already. Taken before mu.
	recovering sync.Mutex

	mu        sync.Mutex                // guards what follows
	inUse     map[string]struct{}       // names in use by living shadows; Sweep spares them
	abandoned map[uint64]journal.Intent // intents of this run that nobody but Recover will finish
	ballast   bool                      // none has been dropped since it was last complete
	tails     map[tailKey]*Tail         // files that are appended to, or were a moment ago
	closed    bool
	lazy      lazies

	piece      int                 // how much of a record one write takes; constant, but for tests
	tailLinger time.Duration       // the same
	epoch      func(fd int) string // epochOf, but for tests
}

// NewStore returns the store of the data root rootfd with the state directory
// stateDir and its journal. All three stay the caller's and must outlive the
// store; the descriptors may be O_PATH.
func NewStore(rootfd int, stateDir *os.File, j *journal.Journal) *Store {
	return &Store{
		root: rootfd, state: stateDir, j: j,
		kept:  make(chan struct{}, 1),
		inUse: map[string]struct{}{}, abandoned: map[uint64]journal.Intent{},
		tails: map[tailKey]*Tail{}, piece: 1 << 20, tailLinger: tailLinger, lazy: newLazies(), epoch: epochOf,
	}
}

// do runs one change to the disk, again after an interruption by a signal, and
// when there was no room and some has been made.
func (s *Store) do(step string, fn func() error) error {
	for {
		err := s.try(step, fn)
		noRoom := errors.Is(err, unix.ENOSPC) || errors.Is(err, unix.EDQUOT)
		if !noRoom || s.room == nil || !s.room(err) {
			return err
		}
	}
}

func (s *Store) try(step string, fn func() error) error {
	if s.fault != nil {
		if err := s.fault(step); err != nil {
			return &os.SyscallError{Syscall: step, Err: err}
		}
	}
	for {
		switch err := fn(); err {
		case nil:
			return nil
		case unix.EINTR:
		default:
			return os.NewSyscallError(step, err)
		}
	}
}

func (s *Store) begin(in journal.Intent) (id uint64, err error) {
	err = s.do("begin", func() error { id, err = s.j.Begin(in); return err })
	return id, err
}

func (s *Store) done(id uint64) error {
	return s.do("done", func() error { return s.j.Done(id) })
}

func (s *Store) stateFD() int { return int(s.state.Fd()) }

// claimName returns a new reserved name, registered as in use.
func (s *Store) claimName() string {
	var b [16]byte
	binary.LittleEndian.PutUint64(b[:], rand.Uint64())
	binary.LittleEndian.PutUint64(b[8:], rand.Uint64())
	name := ReservedPrefix + hex.EncodeToString(b[:])
	s.hold(name)
	return name
}

func (s *Store) hold(name string) {
	s.mu.Lock()
	defer s.mu.Unlock()
	s.inUse[name] = struct{}{}
}

func (s *Store) release(name string) {
	s.mu.Lock()
	defer s.mu.Unlock()
	delete(s.inUse, name)
}

// nameInUse reports whether a living shadow, or an intent that Recover has yet
// to finish, stands behind the name.
func (s *Store) nameInUse(name string) bool {
	s.mu.Lock()
	_, ok := s.inUse[name]
	s.mu.Unlock()
	return ok || slices.ContainsFunc(s.pending(), func(in journal.Intent) bool { return in.Shadow == name })
}

// pending returns the intents for Recover, oldest first.
func (s *Store) pending() []journal.Intent {
	pending := s.j.Pending()
	s.mu.Lock()
	defer s.mu.Unlock()
	for _, in := range s.abandoned {
		pending = append(pending, in)
	}
	slices.SortFunc(pending, func(a, b journal.Intent) int { return cmp.Compare(a.ID, b.ID) })
	return pending
}

// finish ends a pending intent.
func (s *Store) finish(in journal.Intent) error {
	if err := s.done(in.ID); err != nil {
		return err
	}
	s.mu.Lock()
	defer s.mu.Unlock()
	delete(s.abandoned, in.ID)
	return nil
}

// abandon leaves the intent in, and the name it stands for, to Recover.
func (s *Store) abandon(in journal.Intent) {
	s.mu.Lock()
	defer s.mu.Unlock()
	s.abandoned[in.ID] = in
}

// HalfWritten reports whether an InPlace has returned ErrRedoPending and no
// Recover has finished it since.
func (s *Store) HalfWritten() bool {
	return s.redoPending(func(journal.Intent) bool { return true })
}

// redoPending reports whether Recover will write to a file that ok is true of.
func (s *Store) redoPending(ok func(journal.Intent) bool) bool {
	s.mu.Lock()
	defer s.mu.Unlock()
	for _, in := range s.abandoned {
		if in.Kind == journal.KindInPlace && ok(in) {
			return true
		}
	}
	return false
}
