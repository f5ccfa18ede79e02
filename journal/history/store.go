package history

import (
	"encoding/binary"
	"encoding/hex"
	"errors"
	"fmt"
	"math/rand/v2"
	"os"
	"sync"
	"time"

	"latchfs/journal"
	"latchfs/journal/statedir"

	"golang.org/x/sys/unix"
)

const (
	logName           = "log"
	defaultMaxRecords = 100_000
	minRewrite        = 4 << 20 // bytes of log that are never worth a rewrite
	perRecord         = 1 << 10 // bytes of log for a record above which it is
)

// Options are the store's settings; the zero value is good.
type Options struct {
	MaxBytes   int64         // of all contents together; 0: any
	MaxAge     time.Duration // of a content since it was kept; 0: any
	MaxRecords int           // 0: 100,000
	Logf       func(format string, args ...any)
	Removing   func(id string)  // is called before a content is removed; nil: nothing
	Now        func() time.Time // nil: time.Now
	// Tick is how often records are synced and what is old is dropped; 0: 5 s.
	Tick time.Duration
}

func (o *Options) setDefaults() {
	if o.MaxRecords <= 0 {
		o.MaxRecords = defaultMaxRecords
	}
	if o.Removing == nil {
		o.Removing = func(string) {}
	}
	if o.Logf == nil {
		o.Logf = func(string, ...any) {}
	}
	if o.Now == nil {
		o.Now = time.Now
	}
	if o.Tick <= 0 {
		o.Tick = 5 * time.Second
	}
}

// Store is the history of one data root. All methods may be called concurrently,
// except that what happens to one path is told in its order.
type Store struct {
	o   Options
	dir *os.File // the history's directory
	log *journal.Log

	done    chan struct{}
	kick    chan struct{} // wakes the housekeeper
	stopped chan struct{} // closed when it has ended

	emptying sync.Mutex // held while the trash is emptied; taken before mu

	mu      sync.RWMutex // guards what follows
	x       *index
	queue   []*content // kept, oldest first; some may have been dropped since
	order   uint64
	gen     uint64
	bytes   int64 // weight of what is kept
	inos    map[uint64]*content
	users   map[uint32]*share
	trash   []*content // dropped, for the housekeeper to remove
	fading  []*entry   // ends of paths that are gone, oldest first
	ids     uint32
	sorted  []string // all paths, in order, as of sortedAt
	sorting uint64
	stale   bool // the log does not say what is known, and has to be rewritten
	failing bool // that has been complained about
}

// Open opens the history in the state directory, making its files where they are
// missing, and removes what a crash has left. A corrupt log is refused with a
// *journal.CorruptError, and nothing has been changed.
func Open(state *os.File, o Options) (*Store, error) {
	o.setDefaults()
	if err := unix.Mkdirat(int(state.Fd()), Dir, 0o700); err != nil && !errors.Is(err, unix.EEXIST) {
		return nil, fmt.Errorf("history: %w", os.NewSyscallError("mkdirat", err))
	}
	fd, err := statedir.OpenDir(int(state.Fd()), Dir)
	if err != nil {
		return nil, fmt.Errorf("history: %w", os.NewSyscallError("openat", err))
	}
	s := &Store{
		o: o, dir: os.NewFile(uintptr(fd), Dir), x: newIndex(), inos: map[uint64]*content{}, ids: rand.Uint32(),
		done: make(chan struct{}), kick: make(chan struct{}, 1), stopped: make(chan struct{}),
	}
	s.log, err = journal.OpenLog(s.dir, logName, o.Logf, func(b []byte) error {
		r, err := decode(b)
		if err == nil {
			s.x.apply(&r)
		}
		return err
	})
	if err == nil {
		err = s.findContents()
	}
	if err != nil {
		s.dir.Close()
		return nil, fmt.Errorf("history: %w", err)
	}
	for _, f := range s.x.paths {
		if f.gone() {
			s.fading = append(s.fading, f.last())
		}
	}
	go s.housekeep()
	return s, nil
}

// Close syncs the log and closes it.
func (s *Store) Close() error {
	close(s.done)
	<-s.stopped
	s.tidy()
	return errors.Join(s.log.Close(), s.dir.Close())
}

// Ref says what stands for a state of a path.
type Ref struct {
	Number  uint64 // the version, 0 if there is none
	Content string // the content id under which it is to be kept
}

// Match returns the last version of path if that is the file with the state st.
// If it is not, the file was not made by us: enter it as Found.
func (s *Store) Match(path string, st State) (Ref, bool) {
	s.mu.Lock()
	defer s.mu.Unlock()
	e := s.matchLocked(path, st)
	if e == nil {
		return Ref{}, false
	}
	return Ref{e.Number, e.Content}, true
}

// matchLocked returns the last version of path if it is the file with that
// state.
func (s *Store) matchLocked(path string, st State) *entry {
	f := s.x.paths[path]
	if f == nil || f.gone() || f.last().State.Ino != st.Ino {
		return nil
	}
	if f.last().State == st {
		return f.last()
	}
	if !f.loose {
		return nil
	}
	s.writeLocked(&record{Op: opState, Path: raw(path), Ino: st.Ino, Size: st.Size, Mtime: st.Mtime})
	return f.last()
}

// Absent makes sure that the last version of path says that it holds nothing, and
// returns its number, 0 for a path without history.
func (s *Store) Absent(path string) (number uint64) {
	s.mu.Lock()
	defer s.mu.Unlock()
	f := s.x.paths[path]
	switch {
	case f == nil:
		return 0
	case f.gone():
		return f.last().Number
	}
	return s.addLocked(Version{Path: path, Event: Delete, Operation: string(Found), Base: f.last().Number}).Number
}

// Add enters a version, which gets the next number of its path, and is the one
// that the path holds from now on. Whatever happens to the log, the version is
// known until Close.
func (s *Store) Add(v Version) Ref {
	s.mu.Lock()
	defer s.mu.Unlock()
	e := s.addLocked(v)
	return Ref{e.Number, e.Content}
}

func (s *Store) addLocked(v Version) *entry {
	v.Number = 1
	if f := s.x.paths[v.Path]; f != nil {
		v.Number = f.last().Number + 1
	}
	if v.Time.IsZero() {
		v.Time = s.o.Now()
	}
	v.Time = v.Time.UTC().Round(0)
	if v.Content == "" && !v.Event.gone() {
		v.Content = s.nextIDLocked()
	}
	r := recordOf(&v)
	s.logLocked(&r)
	e := s.x.add(v)
	if v.Event.gone() {
		s.fading = append(s.fading, e)
	}
	if s.x.records > s.o.MaxRecords {
		s.wake()
	}
	return e
}

// nextIDLocked makes a content id. Contents that are kept one after the other lie
// in one directory, so that a sync after each of them writes few blocks.
func (s *Store) nextIDLocked() string {
	const perDir = 256
	var b [idSize]byte
	binary.LittleEndian.PutUint64(b[:], rand.Uint64())
	binary.LittleEndian.PutUint64(b[8:], rand.Uint64())
	s.ids++
	b[0] = byte(s.ids / perDir)
	return hex.EncodeToString(b[:])
}

// Changed tells that the file which path holds was changed by us without a new
// version: appended to, given other times, or exchanged for a copy of the inode
// was. From then on the last version is the file as it is now. While it is loose,
// only its inode counts.
func (s *Store) Changed(path string, was uint64, now State, loose bool) {
	s.mu.Lock()
	defer s.mu.Unlock()
	if f := s.x.paths[path]; f != nil {
		s.changedLocked(f, was, now, loose)
	}
}

// Linked tells that the file which path holds was written in place, and is as now:
// all other paths that hold the same inode have changed with it. It looks at every
// path there is.
func (s *Store) Linked(path string, now State) {
	s.mu.Lock()
	defer s.mu.Unlock()
	for _, f := range s.x.paths {
		if f.path != path {
			s.changedLocked(f, now.Ino, now, false)
		}
	}
}

func (s *Store) changedLocked(f *file, was uint64, now State, loose bool) {
	if f.gone() || f.last().State.Ino != was || f.last().State == now && f.loose == loose {
		return
	}
	r := &record{Op: opState, Path: raw(f.path), Ino: now.Ino, Size: now.Size, Mtime: now.Mtime, Loose: loose}
	if e := f.last(); len(e.c.refs) > 1 && (loose || e.State.Size != now.Size) {
		r.Content = s.nextIDLocked() // the versions that shared it were as it was
	}
	s.writeLocked(r)
}

// Moved tells that a directory was renamed, or has changed places with another:
// the paths below are other ones now, and keep their versions.
func (s *Store) Moved(from, to string, exchange bool) {
	s.mu.Lock()
	defer s.mu.Unlock()
	op := opMove
	if exchange {
		op = opExchange
	}
	s.writeLocked(&record{Op: op, Path: raw(from), To: rawPtr(to)})
}

func (s *Store) writeLocked(r *record) {
	s.logLocked(r)
	s.x.apply(r)
}

// logLocked appends to the log. A record that cannot be written is in the next
// rewrite; what it says is known until then, and a crash forgets it.
func (s *Store) logLocked(r *record) {
	s.gen++
	b := r.encode()
	err := s.log.Append(b)
	for isNoRoom(err) {
		c := s.excessLocked()
		if c == nil {
			break
		}
		s.dropLocked(c)
		s.emptyLocked()
		err = s.log.Append(b)
	}
	if err != nil {
		s.failedLocked(err)
		s.wake()
	}
}

// failedLocked notes that the log does not hold all that is known, and says so
// once.
func (s *Store) failedLocked(err error) {
	if !s.failing {
		s.o.Logf("history: %v", err)
	}
	s.failing, s.stale = true, true
}

func isNoRoom(err error) bool { return errors.Is(err, unix.ENOSPC) || errors.Is(err, unix.EDQUOT) }

func (s *Store) wake() {
	select {
	case s.kick <- struct{}{}:
	default:
	}
}
