package history

import (
	"bytes"
	"errors"
	"fmt"
	"math/rand/v2"
	"os"
	"sync"
	"time"

	"latchfs/journal"
	"latchfs/journal/history/internal/arena"
	"latchfs/journal/history/internal/contents"
	"latchfs/journal/history/internal/logend"
	"latchfs/journal/history/internal/record"
	"latchfs/journal/history/internal/shelf"
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

	asleep bool // the housekeeper is not woken before its time: in tests
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
	put func(record []byte) (at int64, err error) // of log; tests let it fail
	// sync is that of log, too; unsynced is the housekeeper's, and says that the last one has failed.
	sync     func() error
	unsynced bool

	done    chan struct{}
	kick    chan struct{} // wakes the housekeeper
	stopped chan struct{} // closed when it has ended

	emptying sync.Mutex // held while the trash is emptied; taken before mu

	mu    sync.RWMutex // guards what follows
	x     *index
	kept  shelf.Shelf // by index.contents.kept
	gen   uint64
	trash []garbage         // dropped, for the housekeeper to remove
	pins  map[record.ID]int // contents that have to stay, and for how many
	ids   uint32
	// unlogged has the records that the log has no room for, until it is rewritten.
	unlogged map[int64][]byte
	lost     int64     // how many there have been
	buf      []byte    // scratch space of logLocked
	stale    bool      // the log does not say what is known, and has to be rewritten
	failing  bool      // that has been complained about
	helpless bool      // the log has no room, and contents that went have made none
	settling []settled // while the history is opened
}

// Open opens the history in the state directory, making its files where they are
// missing, and removes what a crash has left. A corrupt log is refused with a
// *journal.CorruptError, one that is missing with a journal.ErrCorrupt, and nothing has been changed.
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
		o: o, dir: os.NewFile(uintptr(fd), Dir), x: newIndex(), ids: rand.Uint32(),
		done: make(chan struct{}), kick: make(chan struct{}, 1), stopped: make(chan struct{}),
	}
	if err = s.startReading(); err == nil {
		err = s.missesLog()
	}
	if err == nil {
		s.log, err = journal.OpenLogAt(s.dir, logName, logend.Least(s.dir, logName), o.Logf, s.replay)
	}
	if err == nil {
		err = s.findContents()
	}
	if err != nil {
		s.dir.Close()
		return nil, fmt.Errorf("history: %w", err)
	}
	s.put, s.sync = s.log.Put, s.log.Sync
	logend.Remove(s.dir)
	s.settle()
	go s.housekeep()
	return s, nil
}

// files are the contents in the history's directory.
func (s *Store) files() contents.Dir { return contents.Dir{File: s.dir} }

// startReading prepares the index to read the log.
func (s *Store) startReading() error {
	onDisk, err := s.files().List()
	s.x.reading = &reading{onDisk: onDisk, reach: map[record.ID]arena.Offset{}, size: map[uint32]int64{}}
	return err
}

// replay adds a record of the log to the index.
func (s *Store) replay(at int64, b []byte) error {
	r, err := record.Decode(b)
	if err == nil {
		s.x.apply(at, &r)
	}
	return err
}

// Close syncs the log and closes it.
func (s *Store) Close() error {
	close(s.done)
	<-s.stopped
	s.tidy()
	err := s.log.Close()
	if err == nil {
		logend.Write(s.dir, logName, s.log.Size())
	}
	return errors.Join(err, s.dir.Close())
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
	f := s.x.file(path)
	if f == 0 || !s.matchesLocked(f, path, st) {
		return Ref{}, false
	}
	return s.refLocked(f), true
}

// matchesLocked reports whether the last version of a path is the file with that state.
func (s *Store) matchesLocked(i uint32, path string, st State) bool {
	f := s.x.files.At(i)
	switch {
	case s.x.gone(i) || f.state.Ino != st.Ino:
		return false
	case f.state == st:
		return true
	case !f.loose:
		return false
	}
	s.writeLocked(s.stateLocked(i, &record.Record{Path: record.Name(path), Ino: st.Ino, Size: st.Size, Mtime: st.Mtime}))
	return true
}

// refLocked stands for the last version of a path.
func (s *Store) refLocked(i uint32) Ref {
	ref := Ref{Number: s.x.files.At(i).number}
	if c := s.x.last(i).content; c != 0 {
		ref.Content = s.x.contents.At(c).id.String()
	}
	return ref
}

// stateLocked completes a record of the state of a path's last version: each says which
// content it has, if the version's own record does not.
func (s *Store) stateLocked(i uint32, r *record.Record) *record.Record {
	r.Op = record.OpState
	if v := s.x.last(i); r.Content == "" && v.flags&renewed != 0 && v.content != 0 {
		r.Content = s.x.contents.At(v.content).id.String()
	}
	return r
}

// Absent makes sure that the last version of path says that it holds nothing, and
// returns its number, 0 for a path without history.
func (s *Store) Absent(path string) (number uint64) {
	s.mu.Lock()
	defer s.mu.Unlock()
	f := s.x.file(path)
	switch {
	case f == 0:
		return 0
	case s.x.gone(f):
		return s.x.files.At(f).number
	}
	return s.addLocked(Version{Path: path, Event: Delete, Operation: string(Found), Base: s.x.files.At(f).number}).Number
}

// Add enters a version, which gets the next number of its path, and is the one
// that the path holds from now on. Whatever happens to the log, the version is
// known until Close.
func (s *Store) Add(v Version) Ref {
	s.mu.Lock()
	defer s.mu.Unlock()
	return s.addLocked(v)
}

func (s *Store) addLocked(v Version) Ref {
	v.Number = 1
	if f := s.x.file(v.Path); f != 0 {
		v.Number = s.x.files.At(f).number + 1
	}
	if v.Time.IsZero() {
		v.Time = s.o.Now()
	}
	if v.Content == "" && !v.Event.gone() {
		v.Content = s.nextIDLocked()
	}
	r := recordOf(&v)
	s.x.add(s.logLocked(&r), &r)
	if s.x.records > s.o.MaxRecords {
		s.wake()
	}
	return Ref{v.Number, v.Content}
}

// nextIDLocked makes a content id. Contents that are kept one after the other lie
// in one directory, so that a sync after each of them writes few blocks.
func (s *Store) nextIDLocked() string {
	const perDir = 256
	s.ids++
	id := record.RandomID()
	id[0] = byte(s.ids / perDir)
	return id.String()
}

// Changed tells that the file which path holds was changed by us without a new
// version: appended to, given other times, or exchanged for a copy of the inode
// was. From then on the last version is the file as it is now. While it is loose,
// only its inode counts.
func (s *Store) Changed(path string, was uint64, now State, loose bool) {
	s.mu.Lock()
	defer s.mu.Unlock()
	if f := s.x.file(path); f != 0 {
		s.changedLocked(f, was, now, loose)
	}
}

// Linked tells that the file which path holds was written in place, and is as now:
// all other paths that hold the same inode have changed with it. It looks at every
// path there is.
func (s *Store) Linked(path string, now State) {
	s.mu.Lock()
	defer s.mu.Unlock()
	written := s.x.file(path)
	s.x.all(func(f uint32) {
		if f != written {
			s.changedLocked(f, now.Ino, now, false)
		}
	})
}

func (s *Store) changedLocked(i uint32, was uint64, now State, loose bool) {
	f := s.x.files.At(i)
	if f.state.Ino != was || s.x.gone(i) || f.state == now && f.loose == loose {
		return
	}
	r := &record.Record{Path: record.Name(s.x.path(i)), Ino: now.Ino, Size: now.Size, Mtime: now.Mtime, Loose: loose}
	if c := s.x.last(i).content; len(s.x.claims(c)) > 1 && (loose || f.state.Size != now.Size) {
		r.Content = s.nextIDLocked() // the versions that shared it were as it was
	}
	s.writeLocked(s.stateLocked(i, r))
}

// Moved tells that a directory was renamed, or has changed places with another:
// the paths below are other ones now, and keep their versions.
func (s *Store) Moved(from, to string, exchange bool) {
	s.mu.Lock()
	defer s.mu.Unlock()
	op := record.OpMove
	if exchange {
		op = record.OpExchange
	}
	s.writeLocked(&record.Record{Op: op, Path: record.Name(from), To: record.Optional(to)})
}

func (s *Store) writeLocked(r *record.Record) { s.x.apply(s.logLocked(r), r) }

// logLocked appends to the log, and returns where the record is. One that cannot be
// written is in the next rewrite; what it says is known until then, and a crash forgets
// it.
func (s *Store) logLocked(r *record.Record) (at int64) {
	s.gen++
	b := r.AppendTo(s.buf[:0])
	s.buf = b
	at, err := s.put(b)
	for drops := 0; isNoRoom(err) && drops < maxDrops && !s.helpless; drops++ {
		it := s.kept.Oldest(s.staysLocked)
		if it == nil {
			break
		}
		s.dropLocked(it.Content)
		s.emptyLocked()
		at, err = s.put(b)
	}
	s.helpless = isNoRoom(err)
	if err != nil {
		s.failedLocked(err)
		s.wake()
		return s.rememberLocked(bytes.Clone(b))
	}
	return at
}

// maxDrops bounds how many contents a record takes the room of: where that much does not make
// room, more would not either, as where a snapshot holds what is removed.
const maxDrops = 16

// inMemory is the first place of records that are in memory alone.
const inMemory = 1 << 39

// rememberLocked keeps a record that the log has no room for.
func (s *Store) rememberLocked(b []byte) (at int64) {
	if s.unlogged == nil {
		s.unlogged = map[int64][]byte{}
	}
	s.lost++
	s.unlogged[inMemory+s.lost] = b
	return inMemory + s.lost
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
