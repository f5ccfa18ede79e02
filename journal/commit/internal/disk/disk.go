package disk

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

// Disk is one data root and its state directory as the rooms above see them: each
// change is a step, each reserved name is claimed, and each intent is begun and
// ended here. Its methods may be called concurrently.
type Disk struct {
	Root    int
	State   *os.File
	Journal *journal.Journal

	// Fault, if set, is asked before every change to the disk; tests use it to
	// stop there.
	Fault  func(step string) error
	Room   func(error) bool             // makes room on a full disk, and says whether there is some; or nil
	Settle func() bool                  // the same, by settling commits that keep files which are gone; or nil
	Last   func() bool                  // the same, when both have made none; or nil
	Owners func(uid, gid uint32) Runner // runs what only a file's owner may do in a sticky directory; or nil
	Epoch  func(fd int) string          // epochOf, but for tests

	rootOrder    func() order // of the filesystem of the state directory, asked once
	tellsChanges func() bool  // the same of its change times
	changes      changes
	tidied       tidied

	mu        sync.Mutex                // guards what follows
	inUse     map[string]struct{}       // names in use by living shadows; a sweep spares them
	abandoned map[uint64]journal.Intent // intents of this run that nobody but a recovery will finish
	left      map[uint64]Version        // by intent: how this run has left a file that it could not finish
}

// New returns the disk of the data root rootfd with the state directory
// stateDir. j may be nil as long as nothing is begun.
func New(rootfd int, stateDir *os.File, j *journal.Journal) *Disk {
	return &Disk{
		Root: rootfd, State: stateDir, Journal: j, Epoch: epochOf,
		rootOrder: sync.OnceValue(func() order {
			var st unix.Stat_t
			if unix.Fstat(int(stateDir.Fd()), &st) != nil {
				return order{}
			}
			return orderOf(int(stateDir.Fd()), uint64(st.Dev))
		}),
		tellsChanges: sync.OnceValue(func() bool { return tellsChanges(int(stateDir.Fd())) }),
		inUse:        map[string]struct{}{}, abandoned: map[uint64]journal.Intent{}, left: map[uint64]Version{},
	}
}

// Do runs one change to the disk, again after an interruption by a signal, and
// when there was no room and some has been made.
func (s *Disk) Do(step string, fn func() error) error { return s.repeat(step, fn, s.GiveRoom) }

// DoSettling is Do for whoever settles commits: that is not asked for in its turn.
func (s *Disk) DoSettling(step string, fn func() error) error { return s.repeat(step, fn, s.giveOld) }

func (s *Disk) repeat(step string, fn func() error, give func(error) bool) error {
	for {
		err := s.Once(step, fn)
		noRoom := errors.Is(err, unix.ENOSPC) || errors.Is(err, unix.EDQUOT)
		if !noRoom || !give(err) {
			return err
		}
	}
}

// GiveRoom makes room for a change that has failed with err, and reports whether there is
// some: it is to be tried again then.
func (s *Disk) GiveRoom(err error) bool {
	return s.giveOld(err) || s.Settle != nil && s.Settle() || s.Last != nil && s.Last()
}

func (s *Disk) giveOld(err error) bool { return s.Room != nil && s.Room(err) }

// Once is Do without making room: for whoever is making some.
func (s *Disk) Once(step string, fn func() error) error {
	if s.Fault != nil {
		if err := s.Fault(step); err != nil {
			return &os.SyscallError{Syscall: step, Err: err}
		}
	}
	if !leavesNames(step) {
		s.changes.begun.Add(1)
		defer s.endChange()
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

// Step is a change to the disk.
type Step struct {
	Name string
	Do   func() error
}

// Both takes two steps at once, so that they wait for the disk together.
func (s *Disk) Both(a, b Step) error {
	if err := s.Once(a.Name, func() error { return nil }); err != nil {
		return err
	}
	second := make(chan error, 1)
	if err := s.Once(b.Name, func() error { return nil }); err != nil {
		second <- err
	} else {
		go func() { second <- os.NewSyscallError(b.Name, b.Do()) }()
	}
	err := os.NewSyscallError(a.Name, a.Do())
	return errors.Join(err, <-second)
}

// Begin puts an intent into the journal.
func (s *Disk) Begin(in journal.Intent) (id uint64, err error) {
	err = s.Do("begin", func() error { id, err = s.Journal.Begin(in); return err })
	return id, err
}

// Done ends an intent in the journal.
func (s *Disk) Done(id uint64) error {
	return s.Do("done", func() error { return s.Journal.Done(id) })
}

// StateFD is the descriptor of the state directory.
func (s *Disk) StateFD() int { return int(s.State.Fd()) }

// ClaimName returns a new reserved name, registered as in use.
func (s *Disk) ClaimName() string {
	var b [16]byte
	binary.LittleEndian.PutUint64(b[:], rand.Uint64())
	binary.LittleEndian.PutUint64(b[8:], rand.Uint64())
	name := ReservedPrefix + hex.EncodeToString(b[:])
	s.Hold(name)
	return name
}

// Hold registers a name as in use.
func (s *Disk) Hold(name string) {
	s.mu.Lock()
	defer s.mu.Unlock()
	s.inUse[name] = struct{}{}
}

// Release ends what ClaimName or Hold has registered.
func (s *Disk) Release(name string) {
	s.mu.Lock()
	defer s.mu.Unlock()
	delete(s.inUse, name)
}

// NamesInUse returns the reserved names that are in use.
func (s *Disk) NamesInUse() []string {
	s.mu.Lock()
	defer s.mu.Unlock()
	return slices.Sorted(maps.Keys(s.inUse))
}

// NameInUse reports whether a living shadow, or an intent that Recover has yet
// to finish, stands behind the name.
func (s *Disk) NameInUse(name string) bool {
	s.mu.Lock()
	_, ok := s.inUse[name]
	s.mu.Unlock()
	return ok || slices.ContainsFunc(s.Pending(), func(in journal.Intent) bool { return in.Shadow == name })
}

// Pending returns the intents for Recover, oldest first.
func (s *Disk) Pending() []journal.Intent {
	pending := s.Journal.Pending()
	s.mu.Lock()
	defer s.mu.Unlock()
	for _, in := range s.abandoned {
		pending = append(pending, in)
	}
	slices.SortFunc(pending, func(a, b journal.Intent) int { return cmp.Compare(a.ID, b.ID) })
	return pending
}

// Finish ends a pending intent.
func (s *Disk) Finish(in journal.Intent) error {
	if err := s.Done(in.ID); err != nil {
		return err
	}
	s.mu.Lock()
	defer s.mu.Unlock()
	delete(s.abandoned, in.ID)
	delete(s.left, in.ID)
	return nil
}

// Abandon leaves the intent in, and the name it stands for, to Recover.
func (s *Disk) Abandon(in journal.Intent) {
	s.mu.Lock()
	defer s.mu.Unlock()
	s.abandoned[in.ID] = in
}

// IsAbandoned reports whether an intent was left to Recover in this run, rather than by a
// crash.
func (s *Disk) IsAbandoned(in journal.Intent) bool {
	s.mu.Lock()
	defer s.mu.Unlock()
	_, is := s.abandoned[in.ID]
	return is
}

// Leave notes in which state the file target is after an error in the middle of the commit
// in place in.
func (s *Disk) Leave(in journal.Intent, target int) {
	var st unix.Stat_t
	if unix.Fstat(target, &st) != nil {
		return
	}
	s.mu.Lock()
	defer s.mu.Unlock()
	s.left[in.ID] = VersionOf(&st)
}

// IsAsLeft reports whether nobody has changed the file target since Leave.
func (s *Disk) IsAsLeft(in journal.Intent, target int) bool {
	var st unix.Stat_t
	if unix.Fstat(target, &st) != nil {
		return false
	}
	s.mu.Lock()
	defer s.mu.Unlock()
	v, is := s.left[in.ID]
	return is && v == VersionOf(&st)
}

// RedoPending reports whether Recover will write to a file that ok is true of.
func (s *Disk) RedoPending(ok func(journal.Intent) bool) bool {
	s.mu.Lock()
	defer s.mu.Unlock()
	for _, in := range s.abandoned {
		if in.Kind == journal.KindInPlace && ok(in) {
			return true
		}
	}
	return false
}

// TxnPending reports whether Recover will finish a transaction with a part that ok is true of,
// or will take away something of that kind that one has made which was rolled back.
func (s *Disk) TxnPending(ok func(in journal.Intent, decided bool) bool) bool {
	s.mu.Lock()
	defer s.mu.Unlock()
	if len(s.abandoned) == 0 {
		return false
	}
	decided := map[uint64]bool{}
	for _, in := range s.abandoned {
		if in.Kind == journal.KindTxn {
			decided[in.Txn] = true
		}
	}
	for _, in := range s.abandoned {
		concerned := in.Kind != journal.KindTxn && decided[in.Txn] || in.Kind == journal.KindMade
		if concerned && ok(in, decided[in.Txn]) {
			return true
		}
	}
	return false
}

// Runner runs a change of a user's data so that the user's quota and the space that
// the filesystem reserves for root bind it. nil runs it as the daemon's own.
type Runner func(do func() error) error

// Run runs do as that user, or as the daemon itself.
func (r Runner) Run(do func() error) error {
	if r == nil {
		return do()
	}
	return r(do)
}
