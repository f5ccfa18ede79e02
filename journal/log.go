package journal

import (
	"bytes"
	"errors"
	"fmt"
	"os"
	"sync"

	"golang.org/x/sys/unix"
)

const (
	logNew     = ".new"  // suffix of a log being rewritten; worthless after a crash
	logReserve = 1 << 20 // how far ahead of its end a log has space
)

// Log is an append-only file of records that is checked like a segment of the
// journal: the same header and frames, the same rule for what is a torn tail and
// what is corruption (see the package comment). Nothing is synced unless it is
// asked for: a crash of the process loses nothing, a crash of the machine the
// tail since the last Sync. What the records mean is their writer's business,
// and so is when the log has grown long enough to be rewritten.
//
// All methods may be called concurrently. One process at a time may have a log
// open.
type Log struct {
	dir  *os.File
	name string

	syncMu sync.Mutex // serialises Sync; taken before mu

	mu      sync.Mutex // guards what follows
	file    *os.File
	size    int64 // length of the intact part
	synced  int64 // how much of it is known to be on disk
	space   int64 // up to where space is reserved
	buf     []byte
	rewrite *Rewrite // one that is under way
	closed  bool
}

// OpenLog opens the log name in the directory dir, which stays the caller's and
// must remain open as long as the log; it is made if it is missing. replay is
// called for each record in order; the bytes are its own. A torn tail is cut
// off, which logf is told. A log that is damaged otherwise, or whose record
// replay does not accept, is refused with a *CorruptError, and nothing has been
// changed.
func OpenLog(dir *os.File, name string, logf func(format string, args ...any), replay func(record []byte) error) (*Log, error) {
	data, err := readFile(dir, name)
	if err != nil && !errors.Is(err, os.ErrNotExist) {
		return nil, err
	}
	var intact int64
	if err == nil {
		intact, err = scan(name, data, func(f frame) error { return replay(f.payload) })
		if err != nil {
			return nil, err
		}
		if torn := int64(len(data)) - intact; torn > 0 {
			logf("%s: cut %d bytes of an unfinished record at byte %d", name, torn, intact)
		}
	}
	l := &Log{dir: dir, name: name}
	if intact < headerSize {
		return l, l.create()
	}
	if l.file, err = openat(dir, name, unix.O_RDWR); err != nil {
		return nil, err
	}
	l.size = intact
	if intact < int64(len(data)) {
		// On disk before anything is written there: the rests of two tails would
		// be neither.
		if err := errors.Join(l.file.Truncate(intact), datasync(l.file)); err != nil {
			l.file.Close()
			return nil, err
		}
		l.synced = intact
	}
	return l, nil
}

// create makes the log without records.
func (l *Log) create() error {
	rw, err := l.StartRewrite()
	if err != nil {
		return err
	}
	return rw.Commit()
}

// Append adds a record, which must hold no zero bytes (they mark lost sectors)
// and at most 1 MiB. On an error the log is as it was.
func (l *Log) Append(record []byte) error {
	if len(record) > maxPayload || bytes.IndexByte(record, 0) >= 0 {
		return fmt.Errorf("%s: a record of %d bytes cannot be written", l.name, len(record))
	}
	l.mu.Lock()
	defer l.mu.Unlock()
	if l.closed {
		return ErrClosed
	}
	l.buf = appendFrame(l.buf[:0], l.synced, record)
	l.reserveLocked(int64(len(l.buf)))
	if _, err := l.file.WriteAt(l.buf, l.size); err != nil {
		return errors.Join(fmt.Errorf("%s: %w", l.name, err), l.file.Truncate(l.size))
	}
	l.size += int64(len(l.buf))
	if l.rewrite != nil {
		l.rewrite.tail = append(l.rewrite.tail, bytes.Clone(record))
	}
	return nil
}

// reserveLocked gives the log space ahead of its end: an append that allocates
// none has no part in the syncs of other files.
func (l *Log) reserveLocked(more int64) {
	if l.size+more <= l.space {
		return
	}
	l.space = l.size + more + logReserve
	_ = unix.Fallocate(int(l.file.Fd()), unix.FALLOC_FL_KEEP_SIZE, l.size, l.space-l.size)
}

// Size is the length of the log in bytes.
func (l *Log) Size() int64 {
	l.mu.Lock()
	defer l.mu.Unlock()
	return l.size
}

// Sync returns when every record appended before the call is on disk.
func (l *Log) Sync() error {
	l.syncMu.Lock()
	defer l.syncMu.Unlock()
	l.mu.Lock()
	file, size := l.file, l.size
	done := l.closed || l.synced == size
	l.mu.Unlock()
	if done {
		return nil
	}
	if err := datasync(file); err != nil {
		return fmt.Errorf("%s: %w", l.name, err)
	}
	l.mu.Lock()
	defer l.mu.Unlock()
	if l.file == file {
		l.synced = max(l.synced, size)
	}
	return nil
}

// Close syncs and closes the log.
func (l *Log) Close() error {
	err := l.Sync()
	l.syncMu.Lock()
	defer l.syncMu.Unlock()
	l.mu.Lock()
	defer l.mu.Unlock()
	if l.closed {
		return nil
	}
	l.closed = true
	return errors.Join(err, l.file.Close())
}

// Rewrite is a new beginning of a log that is being written beside it.
type Rewrite struct {
	l    *Log
	file *os.File
	buf  []byte
	size int64
	tail [][]byte // appended to the log meanwhile
}

// StartRewrite begins to replace the log's records. What is appended from now
// on comes behind the records that are added to the Rewrite. Commit or Abort
// ends it; there is one at a time.
func (l *Log) StartRewrite() (*Rewrite, error) {
	l.mu.Lock()
	defer l.mu.Unlock()
	if l.closed {
		return nil, ErrClosed
	}
	if l.rewrite != nil {
		return nil, fmt.Errorf("%s is being rewritten already", l.name)
	}
	file, err := openat(l.dir, l.name+logNew, unix.O_RDWR|unix.O_CREAT|unix.O_TRUNC)
	if err != nil {
		return nil, err
	}
	l.rewrite = &Rewrite{l: l, file: file, buf: appendHeader(nil)}
	return l.rewrite, nil
}

// Add adds a record, as Append does. After an error only Abort is left.
func (rw *Rewrite) Add(record []byte) error {
	if len(record) > maxPayload || bytes.IndexByte(record, 0) >= 0 {
		return fmt.Errorf("%s: a record of %d bytes cannot be written", rw.l.name, len(record))
	}
	rw.buf = appendFrame(rw.buf, 0, record)
	if len(rw.buf) < 256<<10 {
		return nil
	}
	return rw.flush()
}

func (rw *Rewrite) flush() error {
	_, err := rw.file.WriteAt(rw.buf, rw.size)
	rw.size += int64(len(rw.buf))
	rw.buf = rw.buf[:0]
	return err
}

// Commit puts the new records in the place of the old ones. If that fails the
// log is as it was, and goes on.
func (rw *Rewrite) Commit() error {
	err := rw.flush()
	if err == nil {
		err = datasync(rw.file) // most of it, while others append
	}
	l := rw.l
	l.syncMu.Lock()
	defer l.syncMu.Unlock()
	l.mu.Lock()
	defer l.mu.Unlock()
	for i := 0; err == nil && i < len(rw.tail); i++ {
		err = rw.Add(rw.tail[i])
	}
	if err == nil {
		err = rw.flush()
	}
	if err == nil {
		err = rw.file.Sync()
	}
	if err == nil && l.closed {
		err = ErrClosed
	}
	if err == nil {
		fd := int(l.dir.Fd())
		err = unix.Renameat(fd, l.name+logNew, fd, l.name)
	}
	if err != nil {
		rw.abortLocked()
		return fmt.Errorf("%s: %w", l.name, err)
	}
	if l.file != nil {
		l.file.Close()
	}
	l.file, l.size, l.synced, l.space, l.rewrite = rw.file, rw.size, rw.size, rw.size, nil
	return syncDir(l.dir)
}

// Abort gives up; the log stays as it is.
func (rw *Rewrite) Abort() {
	rw.l.mu.Lock()
	defer rw.l.mu.Unlock()
	rw.abortLocked()
}

func (rw *Rewrite) abortLocked() {
	if rw.l.rewrite != rw {
		return
	}
	rw.l.rewrite = nil
	rw.file.Close()
	_ = unix.Unlinkat(int(rw.l.dir.Fd()), rw.l.name+logNew, 0)
}

// CheckLog is OpenLog without an effect: it reads the log name in dir, calls
// replay for each record, and returns how many bytes of how many are intact; what
// is behind them is a torn tail.
func CheckLog(dir *os.File, name string, replay func(record []byte) error) (intact, size int64, err error) {
	data, err := readFile(dir, name)
	if err != nil {
		return 0, 0, err
	}
	intact, err = scan(name, data, func(f frame) error { return replay(f.payload) })
	return intact, int64(len(data)), err
}
