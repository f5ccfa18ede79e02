package tail

import (
	"bytes"
	"errors"
	"os"
	"sync"
	"sync/atomic"
	"time"

	"golang.org/x/sys/unix"

	"latchfs/journal"
	"latchfs/journal/commit/internal/disk"
	"latchfs/journal/commit/internal/lazy"
)

// Set are the ends of files to which records are appended.
type Set struct {
	disk   *disk.Disk
	lazies *lazy.Set

	mu     sync.Mutex           // guards what follows
	files  map[disk.Inode]*Tail // files that are appended to, or were a moment ago
	closed bool
	idle   idle

	Piece  int           // how much of a record one write takes; constant, but for tests
	Linger time.Duration // linger, but for tests
}

// New returns the tails of d: none yet. l has the lazy commits of the same files.
func New(d *disk.Disk, l *lazy.Set) *Set {
	return &Set{disk: d, lazies: l, files: map[disk.Inode]*Tail{}, Piece: 1 << 20, Linger: linger}
}

// How much may be appended without being known to be on disk before that is seen
// to in the background: it bounds what the journal carries and what a recovery
// has to read.
const (
	MaxUnknownRecords = 4096
	maxUnknownBytes   = 64 << 20
)

// Tail is the end of a file to which records are appended: one for each inode,
// shared by all who append to it. Its methods may be called concurrently.
//
// Mutex ordering: syncMu, then mu, then Set.mu.
type Tail struct {
	s   *Set
	key disk.Inode
	at  Options

	begun   atomic.Bool // an undo record stands
	users   int         // guarded by Set.mu
	linger  *time.Timer // guarded by Set.mu; nil while there are users
	hurried bool        // guarded by Set.mu: it is told to end, or could not
	rests   uint64      // guarded by Set.mu: how often it has lingered

	syncMu sync.Mutex // serialises fdatasync, so that waiting callers share one

	mu     sync.Mutex // guards what follows
	fd     int
	intent journal.Intent // the undo record; ID 0: none stands
	seq    uint64         // records appended
	size   int64          // of the file behind the last one
	torn   bool           // a part of a record lies behind size

	// The journal vouches for what is written after the records are on disk
	// there. Without them recovery keeps whole lines of text and nothing else.
	odd     bool   // what was appended since the journal was synced has NUL bytes, or replaces a record that failed
	open    bool   // it does not end with a newline
	onDisk  uint64 // records up to here are on disk
	lost    uint64 // records up to here were to be synced and could not be
	lostErr error

	unknownRecords, unknownBytes int64 // appended and not told the journal to be known
	knowing                      bool  // somebody is syncing in the background
}

// Options say which file is appended to.
type Options struct {
	FD      int    // the file, opened for reading and writing
	DirPath string // its directory relative to the data root, for the journal
	Name    string // its name there
}

// Open returns the tail of the file o.FD, to be given back with Close. Nothing is
// written before the first Append.
func (s *Set) Open(o Options) (*Tail, error) {
	var st unix.Stat_t
	if err := unix.Fstat(o.FD, &st); err != nil {
		return nil, os.NewSyscallError("fstat", err)
	}
	key := disk.InodeOf(&st)
	s.mu.Lock()
	defer s.mu.Unlock()
	t := s.files[key]
	if t == nil {
		fd, err := unix.FcntlInt(uintptr(o.FD), unix.F_DUPFD_CLOEXEC, 0)
		if err != nil {
			return nil, os.NewSyscallError("dup", err)
		}
		t = &Tail{s: s, key: key, at: o, fd: fd}
		s.files[key] = t
	}
	t.wakeLocked()
	t.users++
	return t, nil
}

// Count returns how many files have a tail.
func (s *Set) Count() int {
	s.mu.Lock()
	defer s.mu.Unlock()
	return len(s.files)
}

// Last returns the number of the last record.
func (t *Tail) Last() uint64 {
	t.mu.Lock()
	defer t.mu.Unlock()
	return t.seq
}

// Unknown returns how many records are not known to be on disk, and whether that is
// being seen to.
func (t *Tail) Unknown() (records int64, busy bool) {
	t.mu.Lock()
	defer t.mu.Unlock()
	return t.unknownRecords, t.knowing
}

// Append appends b as one record, all of it or nothing, and returns its number,
// for Sync. fd is the file, opened with O_APPEND. Whoever calls has the file's
// lock: nothing else of this process changes the file meanwhile.
func (t *Tail) Append(fd int, b []byte) (seq uint64, err error) { return t.AppendAs(nil, fd, b) }

// AppendAs is Append on behalf of a user. What the journal needs for it is the
// daemon's.
func (t *Tail) AppendAs(as disk.Runner, fd int, b []byte) (seq uint64, err error) {
	t.mu.Lock()
	defer t.mu.Unlock()
	var st unix.Stat_t
	if err := unix.Fstat(fd, &st); err != nil {
		return 0, os.NewSyscallError("fstat", err)
	}
	if t.torn {
		if err := t.takeBackLocked(fd, &st); err != nil {
			return 0, err
		}
	}
	// A file without a name does not survive a crash anyway.
	if st.Nlink > 0 || t.intent.ID != 0 {
		if err := t.beginLocked(&st); err != nil {
			return 0, err
		}
		a := journal.Append{Offset: st.Size, Length: int64(len(b)), CRC: journal.Checksum(b)}
		if err := t.s.disk.Do("record", func() error { return t.s.disk.Journal.Append(t.intent.ID, a) }); err != nil {
			return 0, err
		}
	}
	if err := t.writeLocked(as, fd, b, st.Size); err != nil {
		return 0, err
	}
	t.seq++
	t.odd = t.odd || bytes.IndexByte(b, 0) >= 0
	t.open = len(b) > 0 && b[len(b)-1] != '\n'
	t.unknownRecords++
	t.unknownBytes += int64(len(b))
	t.boundLocked()
	return t.seq, nil
}

// writeLocked writes b at the end of the file, which is at size.
func (t *Tail) writeLocked(as disk.Runner, fd int, b []byte, size int64) error {
	for done := 0; done < len(b); {
		err := t.s.disk.Do("write", func() error {
			return as.Run(func() error {
				n, err := unix.Write(fd, b[done:min(len(b), done+t.s.Piece)])
				done += max(n, 0)
				return err
			})
		})
		if err == nil {
			continue
		}
		// The journal has a record of this one. Where a shorter one follows at
		// the same place, only the journal can tell that it is whole.
		t.odd = true
		t.size, t.torn = size, done > 0
		var st unix.Stat_t
		if t.torn && unix.Fstat(fd, &st) == nil && st.Size == size+int64(done) {
			err = errors.Join(err, t.takeBackLocked(fd, &st))
		}
		return err
	}
	t.size = size + int64(len(b))
	return nil
}

// takeBackLocked cuts a part of a record off. st is what the file is like, and
// then what it has become.
func (t *Tail) takeBackLocked(fd int, st *unix.Stat_t) error {
	if st.Size > t.size {
		if err := t.s.disk.Do("truncate", func() error { return unix.Ftruncate(fd, t.size) }); err != nil {
			return err
		}
		st.Size = t.size
	}
	t.torn = false
	return nil
}

// beginLocked makes the undo record, unless one stands. It is on disk before
// anything of a record can be.
func (t *Tail) beginLocked(st *unix.Stat_t) error {
	if t.intent.ID != 0 {
		return nil
	}
	if t.fd < 0 {
		return unix.EIO // the store was closed
	}
	if err := t.s.lazies.Settle(st); err != nil {
		return err
	}
	in := journal.Intent{
		Kind: journal.KindAppend, Dir: t.at.DirPath, ShadowDir: t.at.DirPath, Name: t.at.Name,
		TargetDev: uint64(st.Dev), TargetIno: st.Ino, TargetBirth: disk.Birth(t.fd),
		Size: st.Size, Epoch: t.s.disk.Epoch(t.fd),
	}
	var err error
	if in.ID, err = t.s.disk.Begin(in); err != nil {
		return err
	}
	if err := t.s.disk.Do("syncjournal", t.s.disk.Journal.Sync); err != nil {
		return errors.Join(err, t.s.disk.Done(in.ID))
	}
	t.intent = in
	t.begun.Store(true)
	t.odd, t.open = false, false
	return nil
}

// boundLocked keeps what is not known to be on disk within bounds.
func (t *Tail) boundLocked() {
	if t.knowing || t.unknownRecords < MaxUnknownRecords && t.unknownBytes < maxUnknownBytes {
		return
	}
	t.knowing = true
	seq := t.seq
	go func() {
		_ = t.syncFile(seq) // whoever syncs next is told
		t.mu.Lock()
		defer t.mu.Unlock()
		t.knowing = false
	}()
}

// Sync returns when record seq, and all before it, are on disk and a recovery
// will find them whole. Concurrent callers share one fdatasync.
func (t *Tail) Sync(seq uint64) error {
	if err := t.syncFile(seq); err != nil {
		return err
	}
	t.mu.Lock()
	now, vouch := t.seq, t.intent.ID != 0 && (t.odd || t.open)
	t.mu.Unlock()
	if !vouch {
		return nil
	}
	if err := t.s.disk.Do("syncjournal", t.s.disk.Journal.Sync); err != nil {
		return err
	}
	t.mu.Lock()
	defer t.mu.Unlock()
	if t.seq == now {
		t.odd, t.open = false, false
	}
	return nil
}

// SyncSoon makes what was appended durable within a second. dir is the directory that the
// file is in, and path its own, relative to the data root.
func (t *Tail) SyncSoon(dir disk.Inode, path string) error {
	return t.s.lazies.Soon(t.key, func() (*lazy.Pending, error) {
		return &lazy.Pending{Dir: dir, Path: path, Sync: func() error { return t.Sync(t.Last()) }, Once: true}, nil
	})
}

func (t *Tail) syncFile(seq uint64) error {
	t.syncMu.Lock()
	defer t.syncMu.Unlock()
	t.mu.Lock()
	switch {
	case seq <= t.lost:
		defer t.mu.Unlock()
		return t.lostErr
	case seq <= t.onDisk, t.fd < 0: // all was settled before it was closed
		t.mu.Unlock()
		return nil
	}
	now, size, records, length, id := t.seq, t.size, t.unknownRecords, t.unknownBytes, t.intent.ID
	t.mu.Unlock()
	err := t.s.disk.Do("fdatasync", func() error { return unix.Fdatasync(t.fd) })
	t.mu.Lock()
	defer t.mu.Unlock()
	if err != nil {
		// The kernel tells of a lost write once. Who waits for the same must not
		// take the second answer for a good one.
		t.lost, t.lostErr = now, err
		return err
	}
	t.onDisk = now
	if id == 0 || id != t.intent.ID || records < MaxUnknownRecords/16 && length < maxUnknownBytes/64 {
		return nil // not worth a record
	}
	t.unknownRecords -= records
	t.unknownBytes -= length
	return t.s.disk.Do("known", func() error { return t.s.disk.Journal.Known(id, size) })
}
