package journal

import (
	"bytes"
	"fmt"
	"os"

	"golang.org/x/sys/unix"

	"latchfs/journal/statedir"
)

// Rewrite is a new beginning of a log that is being written beside it.
type Rewrite struct {
	l    *Log
	file *os.File
	buf  []byte
	size int64
	tail [][]byte // appended to the log meanwhile
	from int64    // where in the log the tail begins
	to   int64    // where it begins in the new file
	done bool     // it is the log now
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
	file, err := statedir.File(l.dir, l.name+logNew, unix.O_RDWR|unix.O_CREAT|unix.O_TRUNC)
	if err != nil {
		return nil, err
	}
	l.rewrite = &Rewrite{l: l, file: file, buf: appendHeader(nil), from: l.size}
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

// Next is where the record that is added next will be.
func (rw *Rewrite) Next() int64 { return rw.size + int64(len(rw.buf)) }

// Sync puts on disk what has been added, and what has been appended to the log
// meanwhile, while others go on to append. Nothing can be added after it.
func (rw *Rewrite) Sync() error {
	if rw.to == 0 {
		rw.to = rw.Next()
	}
	for range 2 { // the second time there is little left
		err := rw.flush()
		if err == nil {
			err = datasync(rw.file)
		}
		if err != nil {
			return fmt.Errorf("%s: %w", rw.l.name, err)
		}
		rw.l.mu.Lock()
		tail := rw.tail
		rw.tail = nil
		rw.l.mu.Unlock()
		for i := range tail {
			if err := rw.Add(tail[i]); err != nil {
				return err
			}
		}
	}
	return nil
}

// Moved is where a record is after Commit that was appended at that place of the old
// log after StartRewrite.
func (rw *Rewrite) Moved(at int64) int64 { return at - rw.from + rw.to }

// Commit puts the new records in the place of the old ones. If that fails the
// log is as it was, and goes on.
func (rw *Rewrite) Commit() error {
	var err error
	if rw.to == 0 {
		err = rw.Sync()
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
		_ = l.file.release() // what it held is in the new one
	}
	l.file, l.size, l.synced, l.space, l.rewrite, l.lost = newLogFile(rw.file), rw.size, rw.size, rw.size, nil, nil
	rw.done = true
	return statedir.Sync(l.dir)
}

// Committed reports whether the log is the new one, which it may be although Commit has
// not found out whether its name is on disk.
func (rw *Rewrite) Committed() bool { return rw.done }

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
