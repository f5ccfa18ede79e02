package journal

import (
	"bytes"
	"errors"
	"fmt"
	"io"
	"os"
	"strconv"
	"sync"
	"time"
	"unicode/utf16"
	"unicode/utf8"

	"golang.org/x/sys/unix"
)

const (
	eventsName    = "events.jsonl"
	eventsOldName = "events.jsonl.1"
)

// ErrRotated is the error of reading a part of the event log that has been
// rotated away meanwhile.
var ErrRotated = errors.New("this part of the event log has been rotated away")

// Event is one entry of the audit trail.
type Event struct {
	Time    time.Time // zero: now
	Event   string    // what happened: commit, rollback, refusal, recovery, ...
	Path    string    // relative to the data root; "" if it concerns no file
	Session string
	Actor   string
	PID     int32
	Token   uint64         // fencing token
	Detail  map[string]any // further keys of the line; the names above win
}

// events is the log's file pair. Positions are counted from the beginning of
// the oldest file found at start and never shift: rotation moves base up.
type events struct {
	dir *os.File
	max int64

	mu      sync.RWMutex // guards what follows
	cur     *os.File
	size    int64    // bytes in cur
	start   int64    // position of cur's first byte
	old     *os.File // nil if there is none
	oldSize int64
	kept    *os.File // what is kept of what came before old; nil if there is nothing
	// keptSize is its length, keptTimes how often it has changed.
	keptSize  int64
	keptTimes int
}

func openEvents(dir *os.File, max int64) (*events, error) {
	e := &events{dir: dir, max: max}
	old, err := openat(dir, eventsOldName, unix.O_RDONLY)
	switch {
	case err == nil:
		st, err := old.Stat()
		if err != nil {
			old.Close()
			return nil, err
		}
		e.old, e.oldSize, e.start = old, st.Size(), st.Size()
	case !errors.Is(err, os.ErrNotExist):
		return nil, err
	}
	kept, err := openat(dir, eventsKeptName, unix.O_RDONLY)
	if err == nil {
		e.kept = kept
		e.keptSize, err = wholeLinesOf(kept)
		e.start += e.keptSize
	}
	if err != nil && !errors.Is(err, os.ErrNotExist) {
		_ = e.close()
		return nil, err
	}
	e.cur, err = openat(dir, eventsName, unix.O_RDWR|unix.O_CREAT)
	if err == nil {
		e.size, err = cutLine(e.cur)
	}
	if err != nil {
		_ = e.close()
		return nil, err
	}
	return e, nil
}

// cutLine cuts an unfinished last line off f, and the zeros that a power cut
// leaves, and returns the length that remains.
func cutLine(f *os.File) (int64, error) {
	st, err := f.Stat()
	if err != nil {
		return 0, err
	}
	end, err := wholeLines(f, st.Size())
	if err != nil || end == st.Size() {
		return end, err
	}
	return end, f.Truncate(end)
}

// wholeLinesOf is wholeLines for a file that is not written any more.
func wholeLinesOf(f *os.File) (int64, error) {
	st, err := f.Stat()
	if err != nil {
		return 0, err
	}
	return wholeLines(f, st.Size())
}

// wholeLines returns where the unfinished last line of f begins, or what a power
// cut has left of the end: its size, if there is nothing of the kind.
func wholeLines(f *os.File, size int64) (end int64, err error) {
	end = size
	buf := make([]byte, 64<<10)
	for end > 0 {
		n := min(end, int64(len(buf)))
		if _, err := f.ReadAt(buf[:n], end-n); err != nil {
			return 0, err
		}
		i := bytes.LastIndexByte(buf[:n], '\n')
		if i >= 0 && bytes.IndexByte(buf[:i], 0) < 0 {
			return end - n + int64(i) + 1, nil
		}
		if i >= 0 {
			// A lost sector before this line: nothing behind it is whole.
			i = bytes.IndexByte(buf[:i], 0)
			end = end - n + int64(i)
			continue
		}
		end -= n
	}
	return 0, nil
}

// lines are buffers for lines that are being written.
var lines = sync.Pool{New: func() any { return new([]byte) }}

func (e *events) append(ev Event) error {
	if ev.Time.IsZero() {
		ev.Time = time.Now()
	}
	room := lines.Get().(*[]byte)
	defer lines.Put(room)
	line, err := ev.appendTo((*room)[:0])
	if err == nil && len(line) > maxEventLine {
		short := ev.shortened()
		line, err = short.appendTo(line[:0])
	}
	if err != nil {
		return fmt.Errorf("event %q: %w", ev.Event, err)
	}
	line = append(printable(line), '\n')
	if cap(line) <= maxEventLine {
		*room = line
	}
	e.mu.Lock()
	defer e.mu.Unlock()
	if e.size > 0 && e.size+int64(len(line)) > e.max {
		if err := e.rotateLocked(); err != nil {
			return fmt.Errorf("event log: %w", err)
		}
	}
	if _, err := e.cur.WriteAt(line, e.size); err != nil {
		return errors.Join(fmt.Errorf("event log: %w", err), e.cur.Truncate(e.size))
	}
	e.size += int64(len(line))
	return nil
}

// printable escapes what encoding/json leaves as it is and a terminal may obey: DEL,
// C1 controls, marks that turn the direction of text. JSON has such only in strings.
func printable(line []byte) []byte {
	if isASCII(line) || bytes.IndexFunc(line, unprintable) < 0 {
		return line
	}
	b := make([]byte, 0, len(line)+32)
	for _, r := range string(line) {
		switch {
		case !unprintable(r):
			b = utf8.AppendRune(b, r)
		case r > 0xffff:
			high, low := utf16.EncodeRune(r)
			b = fmt.Appendf(b, `\u%04x\u%04x`, high, low)
		default:
			b = fmt.Appendf(b, `\u%04x`, r)
		}
	}
	return b
}

// isASCII reports whether a line consists of printable ASCII characters.
func isASCII(line []byte) bool {
	for _, c := range line {
		if c < ' ' || c > '~' {
			return false
		}
	}
	return true
}

func unprintable(r rune) bool { return !strconv.IsPrint(r) }

func (e *events) rotateLocked() error {
	if e.old != nil {
		if err := e.keepLocked(); err != nil {
			return err
		}
	}
	fd := int(e.dir.Fd())
	if err := unix.Renameat(fd, eventsName, fd, eventsOldName); err != nil {
		return &os.PathError{Op: "rename", Path: eventsName, Err: err}
	}
	next, err := openat(e.dir, eventsName, unix.O_RDWR|unix.O_CREAT|unix.O_EXCL)
	if err != nil {
		return errors.Join(err, unix.Renameat(fd, eventsOldName, fd, eventsName))
	}
	if e.old != nil {
		e.old.Close()
	}
	e.old, e.oldSize = e.cur, e.size
	e.start += e.size
	e.cur, e.size = next, 0
	return nil
}

func (e *events) close() error {
	e.mu.Lock()
	defer e.mu.Unlock()
	var err error
	if e.kept != nil {
		err = e.kept.Close()
	}
	if e.old != nil {
		err = errors.Join(err, e.old.Close())
	}
	if e.cur != nil {
		err = errors.Join(err, e.cur.Close())
	}
	return err
}

// EventLog is a reader's view of the audit trail: it begins with the oldest
// event that is kept when it is made and grows as events are added; what was
// read at an offset once is never anything else. It needs no closing.
type EventLog struct {
	log   *events
	start int64
	kept  int // the kept part, counted as events.keptTimes
}

func (e *events) view() *EventLog {
	e.mu.RLock()
	defer e.mu.RUnlock()
	return &EventLog{log: e, start: e.start - e.oldSize - e.keptSize, kept: e.keptTimes}
}

// Size returns the number of bytes that the view has now.
func (l *EventLog) Size() int64 {
	l.log.mu.RLock()
	defer l.log.mu.RUnlock()
	return l.log.start + l.log.size - l.start
}

// ReadAt implements io.ReaderAt over the view. It ends with io.EOF at the
// present end, and fails with ErrRotated where the part is kept no more.
func (l *EventLog) ReadAt(p []byte, off int64) (n int, err error) {
	e := l.log
	e.mu.RLock()
	defer e.mu.RUnlock()
	at := l.start + off
	old := e.start - e.oldSize
	if at < old {
		if l.kept != e.keptTimes || at < old-e.keptSize {
			return 0, ErrRotated
		}
		n, err = e.kept.ReadAt(p[:min(int64(len(p)), old-at)], at-(old-e.keptSize))
		if err != nil || n == len(p) {
			return n, err
		}
		at = old
	}
	if at < e.start {
		m, err := e.old.ReadAt(p[n:n+int(min(int64(len(p)-n), e.start-at))], at-old)
		n += m
		if err != nil || n == len(p) {
			return n, err
		}
		at = e.start
	}
	avail := e.start + e.size - at
	if avail <= 0 {
		return n, io.EOF
	}
	m, err := e.cur.ReadAt(p[n:n+int(min(int64(len(p)-n), avail))], at-e.start)
	n += m
	if err == nil && n < len(p) {
		err = io.EOF
	}
	return n, err
}
