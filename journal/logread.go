package journal

import (
	"errors"
	"fmt"
	"io"
	"os"
	"sync"
	"sync/atomic"

	"latchfs/journal/statedir"
)

// logFile is the file of a log, which readers hold open beyond a rewrite.
type logFile struct {
	*os.File
	users atomic.Int32
}

func newLogFile(f *os.File) *logFile {
	l := &logFile{File: f}
	l.users.Store(1)
	return l
}

// release closes the file when nobody else uses it.
func (f *logFile) release() error {
	if f.users.Add(-1) > 0 {
		return nil
	}
	return f.Close()
}

// LogReader reads records of a log as it is at one time: the places that were true
// then stay so, even if the log is rewritten meanwhile.
type LogReader struct {
	file *logFile
	buf  []byte
	at   int64 // where buf begins in the file
}

// Reader returns a reader, which has to be closed, and which one goroutine at a time
// may use.
func (l *Log) Reader() *LogReader {
	l.mu.Lock()
	defer l.mu.Unlock()
	l.file.users.Add(1)
	return &LogReader{file: l.file}
}

// Close ends the reader.
func (r *LogReader) Close() {
	if cap(r.buf) == readAhead {
		aheads.Put((*[readAhead]byte)(r.buf[:readAhead]))
	}
	r.buf = nil
	_ = r.file.release() // nothing was written by it
}

// readAhead is how much of a log is read at once where records are read one after
// another, and readOne where they are not.
const (
	readAhead = 256 << 10
	readOne   = 1 << 10
)

// aheads are the buffers of readers that read ahead.
var aheads = sync.Pool{New: func() any { return new([readAhead]byte) }}

// Record reads the record at a place. The bytes are good until the next one is read.
func (r *LogReader) Record(at int64) ([]byte, error) {
	want := readOne
	if next := at - r.at; r.buf != nil && next >= 0 && next <= int64(len(r.buf))+readOne {
		want = readAhead
	}
	for {
		if off := at - r.at; r.buf != nil && off >= 0 && off < int64(len(r.buf)) {
			f, err := parseFrameOf(r.buf[off:], at)
			if err == nil {
				return f.payload, nil
			}
			if !errors.Is(err, errShort) {
				return nil, fmt.Errorf("at byte %d: %w", at, err)
			}
			if off == 0 && len(r.buf) >= want {
				want = frameSize + maxPayload
			}
		}
		switch {
		case cap(r.buf) >= want:
		case want == readAhead:
			r.buf = aheads.Get().(*[readAhead]byte)[:]
		default:
			r.buf = make([]byte, want)
		}
		r.buf, r.at = r.buf[:cap(r.buf)], at
		n, err := r.file.ReadAt(r.buf, at)
		r.buf = r.buf[:n]
		if err != nil && err != io.EOF {
			return nil, err
		}
		if err == io.EOF && n < frameSize {
			return nil, errShort
		}
		if f, perr := parseFrameOf(r.buf, at); perr == nil {
			return f.payload, nil
		} else if err == io.EOF || !errors.Is(perr, errShort) || n >= frameSize+maxPayload {
			return nil, fmt.Errorf("at byte %d: %w", at, perr)
		}
	}
}

// CheckLog is OpenLogAt without an effect: it reads the log name in dir, calls replay
// for each record, and returns how many bytes of how many are intact; what is behind
// them is a torn tail.
func CheckLog(dir *os.File, name string, least int64, replay func(at int64, record []byte) error) (intact, size int64, err error) {
	intact, size, err = checkLog(dir, name, replay)
	if err == nil && intact < least {
		return 0, 0, corruptAt(name, intact, fmt.Errorf("no record is intact from here on, although %d bytes were safely on disk", least))
	}
	return intact, size, err
}

func checkLog(dir *os.File, name string, replay func(at int64, record []byte) error) (intact, size int64, err error) {
	f, err := statedir.File(dir, name, os.O_RDONLY)
	if err != nil {
		return 0, 0, err
	}
	defer f.Close()
	intact, size, err = scanFile(name, f, replay)
	if !errors.Is(err, errLook) {
		return intact, size, err
	}
	// Whether a crash explains the damage all that is behind it has to say.
	data, err := readFile(dir, name)
	if err != nil {
		return 0, 0, err
	}
	intact, err = scan(name, data, func(f frame) error {
		if f.offset < intact {
			return nil
		}
		return replay(f.offset, f.payload)
	})
	return intact, int64(len(data)), err
}

// errLook says that a log is not intact up to its end.
var errLook = errors.New("the log has to be looked at as a whole")

// scanFile calls replay for each record of a log without having all of it in memory,
// up to where it is not intact: there the error is errLook.
func scanFile(name string, f *os.File, replay func(at int64, record []byte) error) (intact, size int64, err error) {
	ahead := aheads.Get().(*[readAhead]byte)
	defer aheads.Put(ahead)
	room := ahead[:]
	buf := room[:0]
	var at int64 // of buf in the file
	fill := func() error {
		if len(buf) == len(room) {
			room = make([]byte, 2*len(room))
		}
		had := copy(room, buf)
		n, err := f.ReadAt(room[had:], at+int64(had))
		buf = room[:had+n]
		return err
	}
	if err := fill(); err != nil && err != io.EOF {
		return 0, 0, err
	}
	if len(buf) < headerSize || checkHeader(buf) != nil {
		return 0, 0, errLook
	}
	buf, at = buf[headerSize:], headerSize
	for {
		r, err := parseFrameOf(buf, at)
		switch {
		case err == nil:
			if err := replay(at, r.payload); err != nil {
				return 0, 0, corruptAt(name, at, err)
			}
			at += int64(frameSize + len(r.payload))
			buf = buf[frameSize+len(r.payload):]
			continue
		case !errors.Is(err, errShort):
			return at, 0, errLook
		}
		switch had, err := len(buf), fill(); {
		case err != nil && err != io.EOF:
			return 0, 0, err
		case len(buf) > had:
		case len(buf) > 0:
			return at, 0, errLook
		default:
			return at, at, nil
		}
	}
}
