package commit

import (
	"cmp"
	"encoding/binary"
	"encoding/hex"
	"errors"
	"maps"
	"math/rand/v2"
	"os"
	"slices"
	"sync"

	"golang.org/x/sys/unix"

	"latchfs/journal"
)

// disk is one data root and its state directory as the rooms above see them: each
// change is a step, each reserved name is claimed, and each intent is begun and
// ended here. Its methods may be called concurrently.
type disk struct {
	root  int
	state *os.File
	j     *journal.Journal

	// fault, if set, is asked before every change to the disk; tests use it to
	// stop there.
	fault func(step string) error
	room  func(error) bool    // see Store.SetRoom; or nil
	epoch func(fd int) string // epochOf, but for tests

	mu        sync.Mutex                // guards what follows
	inUse     map[string]struct{}       // names in use by living shadows; a sweep spares them
	abandoned map[uint64]journal.Intent // intents of this run that nobody but a recovery will finish
}

// newDisk returns the disk of the data root rootfd with the state directory
// stateDir. j may be nil as long as nothing is begun.
func newDisk(rootfd int, stateDir *os.File, j *journal.Journal) *disk {
	return &disk{
		root: rootfd, state: stateDir, j: j, epoch: epochOf,
		inUse: map[string]struct{}{}, abandoned: map[uint64]journal.Intent{},
	}
}

// do runs one change to the disk, again after an interruption by a signal, and
// when there was no room and some has been made.
func (s *disk) do(step string, fn func() error) error {
	for {
		err := s.try(step, fn)
		noRoom := errors.Is(err, unix.ENOSPC) || errors.Is(err, unix.EDQUOT)
		if !noRoom || s.room == nil || !s.room(err) {
			return err
		}
	}
}

func (s *disk) try(step string, fn func() error) error {
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

func (s *disk) begin(in journal.Intent) (id uint64, err error) {
	err = s.do("begin", func() error { id, err = s.j.Begin(in); return err })
	return id, err
}

func (s *disk) done(id uint64) error {
	return s.do("done", func() error { return s.j.Done(id) })
}

func (s *disk) stateFD() int { return int(s.state.Fd()) }

// claimName returns a new reserved name, registered as in use.
func (s *disk) claimName() string {
	var b [16]byte
	binary.LittleEndian.PutUint64(b[:], rand.Uint64())
	binary.LittleEndian.PutUint64(b[8:], rand.Uint64())
	name := ReservedPrefix + hex.EncodeToString(b[:])
	s.hold(name)
	return name
}

func (s *disk) hold(name string) {
	s.mu.Lock()
	defer s.mu.Unlock()
	s.inUse[name] = struct{}{}
}

func (s *disk) release(name string) {
	s.mu.Lock()
	defer s.mu.Unlock()
	delete(s.inUse, name)
}

// namesInUse returns the reserved names that are in use.
func (s *disk) namesInUse() []string {
	s.mu.Lock()
	defer s.mu.Unlock()
	return slices.Sorted(maps.Keys(s.inUse))
}

// nameInUse reports whether a living shadow, or an intent that Recover has yet
// to finish, stands behind the name.
func (s *disk) nameInUse(name string) bool {
	s.mu.Lock()
	_, ok := s.inUse[name]
	s.mu.Unlock()
	return ok || slices.ContainsFunc(s.pending(), func(in journal.Intent) bool { return in.Shadow == name })
}

// pending returns the intents for Recover, oldest first.
func (s *disk) pending() []journal.Intent {
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
func (s *disk) finish(in journal.Intent) error {
	if err := s.done(in.ID); err != nil {
		return err
	}
	s.mu.Lock()
	defer s.mu.Unlock()
	delete(s.abandoned, in.ID)
	return nil
}

// abandon leaves the intent in, and the name it stands for, to Recover.
func (s *disk) abandon(in journal.Intent) {
	s.mu.Lock()
	defer s.mu.Unlock()
	s.abandoned[in.ID] = in
}

// redoPending reports whether Recover will write to a file that ok is true of.
func (s *disk) redoPending(ok func(journal.Intent) bool) bool {
	s.mu.Lock()
	defer s.mu.Unlock()
	for _, in := range s.abandoned {
		if in.Kind == journal.KindInPlace && ok(in) {
			return true
		}
	}
	return false
}

// Runner runs a change of a user's data so that the user's quota and the space that
// the filesystem reserves for root bind it. nil runs it as the daemon's own.
type Runner func(do func() error) error

func (r Runner) run(do func() error) error {
	if r == nil {
		return do()
	}
	return r(do)
}
