package commit

import (
	"encoding/hex"
	"math/rand/v2"
	"os"
	"sync"

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

	mu         sync.Mutex                // guards what follows
	inUse      map[string]struct{}       // reserved names of living shadows
	unfinished map[uint64]journal.Intent // commits in place that failed half-way
}

// NewStore returns the store of the data root rootfd with the state directory
// stateDir and its journal. All three stay the caller's and must outlive the
// store; the descriptors may be O_PATH.
func NewStore(rootfd int, stateDir *os.File, j *journal.Journal) *Store {
	return &Store{
		root: rootfd, state: stateDir, j: j,
		inUse: map[string]struct{}{}, unfinished: map[uint64]journal.Intent{},
	}
}

// do runs one change to the disk, again after an interruption by a signal.
func (s *Store) do(step string, fn func() error) error {
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

// claimName returns a new reserved name, registered so that Sweep spares it.
func (s *Store) claimName() string {
	var b [16]byte
	for i := 0; i < len(b); i += 8 {
		v := rand.Uint64()
		for k := range 8 {
			b[i+k] = byte(v >> (8 * k))
		}
	}
	name := ReservedPrefix + hex.EncodeToString(b[:])
	s.mu.Lock()
	defer s.mu.Unlock()
	s.inUse[name] = struct{}{}
	return name
}

func (s *Store) releaseName(name string) {
	s.mu.Lock()
	defer s.mu.Unlock()
	delete(s.inUse, name)
}

func (s *Store) nameInUse(name string) bool {
	s.mu.Lock()
	defer s.mu.Unlock()
	_, ok := s.inUse[name]
	return ok
}
