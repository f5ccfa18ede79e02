package journal

import (
	"cmp"
	"errors"
	"fmt"
	"os"
	"slices"
	"sync"

	"golang.org/x/sys/unix"
)

const defaultMaxBytes = 4 << 20

// ErrClosed is the error of every change after Close.
var ErrClosed = errors.New("journal is closed")

// Options are the journal's settings; the zero value is good.
type Options struct {
	MaxBytes int64 // a segment is rotated when it would grow past this; 0: 4 MiB
	Logf     func(format string, args ...any)
}

func (o *Options) setDefaults() {
	if o.MaxBytes <= 0 {
		o.MaxBytes = defaultMaxBytes
	}
	if o.Logf == nil {
		o.Logf = func(string, ...any) {}
	}
}

// Journal is an open journal. All methods may be called concurrently. One
// process at a time may have a state directory's journal open; the caller sees
// to that.
//
// Mutex ordering: syncMu, then mu.
type Journal struct {
	dir   *os.File
	opts  Options
	found []Intent // pending at Open, by ID
	clean bool     // the previous stop was clean

	datasync func(*os.File) error // fdatasync, but for tests

	syncMu sync.Mutex // serialises fsync, so that waiting callers share one

	mu     sync.Mutex // guards what follows
	seg    *segment
	st     state
	failed error // a sync failed: the segment must be replaced before it is trusted
	defers int64 // size at which a rotation that failed is tried again
	closed bool
}

// Open reads the journal in the state directory dir, creating its files in a
// directory that is new. It cuts a torn tail off, and refuses a corrupt journal
// with a *CorruptError, and one that is missing with an ErrCorrupt, having
// changed nothing. dir stays the caller's and must remain open as long as the
// journal.
func Open(dir *os.File, o Options) (*Journal, error) {
	o.setDefaults()
	found, err := findSegment(dir)
	if err != nil {
		return nil, err
	}
	j := &Journal{dir: dir, opts: o, clean: true, datasync: datasync}
	if found.name == "" {
		err = missesSegment(dir)
		j.st = state{next: 1, clean: true, open: map[uint64]Intent{}}
	} else {
		err = j.load(found)
	}
	if err != nil {
		return nil, err
	}
	for _, in := range j.st.open {
		j.found = append(j.found, in)
	}
	slices.SortFunc(j.found, func(a, b Intent) int { return cmp.Compare(a.ID, b.ID) })

	// A segment of our own: what is left of the old one was only read.
	j.st.started, j.st.running = true, true
	j.seg = &segment{number: found.number}
	if err := j.rotateLocked(); err != nil {
		return nil, err
	}
	removeSegments(dir, found.all, j.seg.name)
	return j, nil
}

// load replays the segment found.
func (j *Journal) load(found foundSegment) error {
	data, err := readFile(j.dir, found.name)
	if err != nil {
		return err
	}
	intact, err := scan(found.name, data, func(f frame) error { return j.st.apply(f.payload) })
	if err != nil {
		return err
	}
	if lost := j.st.lost(); lost != nil {
		return corruptAt(found.name, intact, lost)
	}
	if torn := int64(len(data)) - intact; torn > 0 {
		j.opts.Logf("journal %s: cut %d bytes of an unfinished record at byte %d", found.name, torn, intact)
	}
	j.clean = j.st.clean && !j.st.running
	j.st.clean = j.clean
	return nil
}

// Begin records that in is about to happen and returns the id for Done. The
// record is written, not synced: it survives a crash of the process at once
// and one of the machine after the next Sync.
func (j *Journal) Begin(in Intent) (id uint64, err error) {
	j.mu.Lock()
	defer j.mu.Unlock()
	in.ID = j.st.next
	w := in.wire()
	r := record{Op: "begin", ID: in.ID, Intent: &w}
	if err := j.appendLocked(r); err != nil {
		return 0, err
	}
	j.st.next++
	j.st.open[in.ID] = in
	return in.ID, nil
}

// Done records that the intent id is finished or undone. It is not synced: after
// a crash of the machine the intent may be found pending again. Unknown and
// finished ids are ignored.
func (j *Journal) Done(id uint64) error {
	j.mu.Lock()
	defer j.mu.Unlock()
	if _, ok := j.st.open[id]; !ok {
		return nil
	}
	if err := j.appendLocked(record{Op: "done", ID: id}); err != nil {
		return err
	}
	j.st.finish(id)
	return nil
}

// Sync returns when every record written before the call is on disk. Concurrent
// callers share one fsync.
func (j *Journal) Sync() error {
	j.mu.Lock()
	seg, upTo := j.seg, j.seg.size
	j.mu.Unlock()

	j.syncMu.Lock()
	defer j.syncMu.Unlock()
	j.mu.Lock()
	if j.closed || j.failed != nil || j.seg != seg || j.seg.synced >= upTo {
		// A segment that has been replaced was synced in its successor.
		defer j.mu.Unlock()
		if j.closed {
			return ErrClosed
		}
		if j.failed != nil {
			return j.rotateLocked()
		}
		return nil
	}
	size := seg.size
	j.mu.Unlock()

	err := j.datasync(seg.file)

	j.mu.Lock()
	defer j.mu.Unlock()
	if j.seg != seg {
		return nil // replaced meanwhile, and closed under us perhaps
	}
	if err != nil {
		// The kernel reports a lost write once and forgets it, so the file
		// cannot be trusted any more. A new one can, and it says the same.
		j.opts.Logf("journal %s: sync: %v", seg.name, err)
		j.failed = fmt.Errorf("journal sync: %w", err)
		return j.rotateLocked()
	}
	seg.synced = max(seg.synced, size)
	return nil
}

// WriteBack sends what a file holds to the disk and waits until it is there, but not until
// the disk keeps it (sync_file_range(2)).
func WriteBack(fd int) error {
	const flags = unix.SYNC_FILE_RANGE_WAIT_BEFORE | unix.SYNC_FILE_RANGE_WRITE | unix.SYNC_FILE_RANGE_WAIT_AFTER
	err := unix.SyncFileRange(fd, 0, 0, flags)
	if err == unix.ENOSYS || err == unix.ESPIPE {
		return unix.Fdatasync(fd)
	}
	return err
}

// WriteBack sends the records that were written to the disk, and does not wait until the
// disk keeps them. Where the filesystem keeps the order of what it is told, a later sync of
// any file of it makes them durable.
func (j *Journal) WriteBack() error {
	j.mu.Lock()
	seg := j.seg
	j.mu.Unlock()
	conn, err := seg.file.SyscallConn()
	if err != nil {
		return nil // closed: it was synced, or its successor
	}
	var written error
	err = conn.Control(func(fd uintptr) { // not of a segment that is replaced meanwhile
		written = retryIntr(func() error { return WriteBack(int(fd)) })
	})
	if err != nil {
		return nil
	}
	j.mu.Lock()
	defer j.mu.Unlock()
	switch {
	case j.seg != seg || j.closed:
		return nil
	case written == nil && j.failed != nil: // a sync was told in our place
		return j.rotateLocked()
	case written == nil:
		return nil
	}
	// As in Sync: the next one would not be told.
	j.opts.Logf("journal %s: write-back: %v", seg.name, written)
	j.failed = fmt.Errorf("journal write-back: %w", written)
	return j.rotateLocked()
}

// Pending returns the intents that were found begun and not done at Open and
// have not been finished since, oldest first.
func (j *Journal) Pending() []Intent {
	j.mu.Lock()
	defer j.mu.Unlock()
	var pending []Intent
	for _, in := range j.found {
		if _, open := j.st.open[in.ID]; open {
			pending = append(pending, in)
		}
	}
	return pending
}

// LastToken returns the highest fencing token that was ever reserved, so that
// every token issued so far, before whatever crash, is at most this.
func (j *Journal) LastToken() uint64 {
	j.mu.Lock()
	defer j.mu.Unlock()
	return j.st.tokens
}

// ReserveTokens reserves n fencing tokens and returns the first of them. It is
// on disk before the call returns; reserve in blocks.
func (j *Journal) ReserveTokens(n uint64) (first uint64, err error) {
	j.mu.Lock()
	first = j.st.tokens + 1
	last := j.st.tokens + n
	if err := j.appendLocked(record{Op: "tokens", Tokens: last}); err != nil {
		j.mu.Unlock()
		return 0, err
	}
	j.st.tokens = last
	j.mu.Unlock()
	return first, j.Sync()
}

// Clean reports whether the previous daemon stopped cleanly and left nothing
// behind that still has to be looked for. A new journal is clean.
func (j *Journal) Clean() bool { return j.clean }

// Settle records that everything an unclean stop may have left has been dealt
// with. Until then Close does not make the journal clean.
func (j *Journal) Settle() error {
	j.mu.Lock()
	defer j.mu.Unlock()
	if j.st.clean {
		return nil
	}
	if err := j.appendLocked(record{Op: "settled"}); err != nil {
		return err
	}
	j.st.clean = true
	return nil
}

// Close marks a clean stop and closes the files. Intents that are still open
// stay pending for the next start. The records of what is finished go: another
// version of latchfs may be the next to read the journal, and not know them all.
func (j *Journal) Close() error {
	j.syncMu.Lock()
	defer j.syncMu.Unlock()
	j.mu.Lock()
	defer j.mu.Unlock()
	if j.closed {
		return nil
	}
	if j.failed == nil && j.seg.size > j.seg.base {
		if err := j.rotateLocked(); err != nil {
			j.opts.Logf("journal ends in %s: %v", j.seg.name, err)
		}
	}
	err := j.appendLocked(record{Op: "close"})
	if err == nil {
		err = j.datasync(j.seg.file)
	}
	j.closed = true
	return errors.Join(err, j.seg.file.Close())
}

// appendLocked writes one record. On an error the segment is as it was.
func (j *Journal) appendLocked(r record) error {
	switch {
	case j.closed:
		return ErrClosed
	case j.failed != nil:
		if err := j.rotateLocked(); err != nil {
			return err
		}
	case j.seg.size > max(j.opts.MaxBytes, 2*j.seg.base, j.defers):
		if err := j.rotateLocked(); err != nil {
			if j.failed != nil {
				return err
			}
			// Mere housekeeping: the old segment is good, only long.
			j.opts.Logf("journal goes on in %s: %v", j.seg.name, err)
			j.defers = j.seg.size + j.opts.MaxBytes/4
		}
	}
	return j.seg.append(r)
}
