package journal

import (
	"bytes"
	"errors"
	"fmt"
	"os"
	"sync"

	"golang.org/x/sys/unix"

	"latchfs/journal/statedir"
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
	file    *logFile
	size    int64 // length of the intact part
	synced  int64 // how much of it is known to be on disk
	space   int64 // up to where space is reserved
	buf     []byte
	rewrite *Rewrite // one that is under way
	lost    error    // of a sync that failed: the file may lack something until it is rewritten
	closed  bool
}

// OpenLog opens the log name in the directory dir, which stays the caller's and
// must remain open as long as the log; it is made if it is missing. replay is
// called for each record in order; the bytes are its own. A torn tail is cut
// off, which logf is told. A log that is damaged otherwise, or whose record
// replay does not accept, is refused with a *CorruptError, and nothing has been
// changed.
func OpenLog(dir *os.File, name string, logf func(format string, args ...any), replay func(record []byte) error) (*Log, error) {
	return OpenLogAt(dir, name, 0, logf, func(_ int64, record []byte) error { return replay(bytes.Clone(record)) })
}

// OpenLogAt is OpenLog for a writer that reads single records later: replay is told
// where each of them is, too, and the bytes are its own only until it returns. least is how
// many bytes of the log are known to have been on disk: one that is not intact up to there is
// damaged.
func OpenLogAt(dir *os.File, name string, least int64, logf func(format string, args ...any), replay func(at int64, record []byte) error) (*Log, error) {
	intact, size, err := CheckLog(dir, name, least, replay)
	if err != nil && !errors.Is(err, os.ErrNotExist) {
		return nil, err
	}
	if torn := size - intact; torn > 0 {
		logf("%s: cut %d bytes of an unfinished record at byte %d", name, torn, intact)
	}
	l := &Log{dir: dir, name: name}
	if intact < headerSize {
		return l, l.create()
	}
	file, err := statedir.File(dir, name, unix.O_RDWR)
	if err != nil {
		return nil, err
	}
	l.file, l.size = newLogFile(file), intact
	if intact < size {
		// On disk before anything is written there: the rests of two tails would
		// be neither.
		if err := errors.Join(file.Truncate(intact), datasync(file)); err != nil {
			file.Close()
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
	_, err := l.Put(record)
	return err
}

// Put is Append, and tells where the record is.
func (l *Log) Put(record []byte) (at int64, err error) {
	if len(record) > maxPayload || bytes.IndexByte(record, 0) >= 0 {
		return 0, fmt.Errorf("%s: a record of %d bytes cannot be written", l.name, len(record))
	}
	l.mu.Lock()
	defer l.mu.Unlock()
	if l.closed {
		return 0, ErrClosed
	}
	l.buf = appendFrame(l.buf[:0], l.synced, record)
	l.reserveLocked(int64(len(l.buf)))
	if _, err := l.file.WriteAt(l.buf, l.size); err != nil {
		return 0, errors.Join(fmt.Errorf("%s: %w", l.name, err), l.file.Truncate(l.size))
	}
	at = l.size
	l.size += int64(len(l.buf))
	if l.rewrite != nil {
		l.rewrite.tail = append(l.rewrite.tail, bytes.Clone(record))
	}
	return at, nil
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

// Sync returns when every record appended before the call is on disk. Where that fails once
// it fails until the log is rewritten: the kernel tells of a lost write once and forgets it.
func (l *Log) Sync() error {
	l.syncMu.Lock()
	defer l.syncMu.Unlock()
	l.mu.Lock()
	file, size := l.file, l.size
	err, done := l.lost, l.closed || l.synced == size
	l.mu.Unlock()
	if err != nil || done {
		return err
	}
	err = datasync(file.File)
	if err != nil {
		err = fmt.Errorf("%s: %w", l.name, err)
	}
	l.mu.Lock()
	defer l.mu.Unlock()
	switch {
	case err != nil:
		l.lost = err
	case l.file == file:
		l.synced = max(l.synced, size)
	}
	return err
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
	return errors.Join(err, l.file.release())
}
