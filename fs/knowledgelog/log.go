// Package knowledgelog keeps what processes have read (lockmgr/knowledge) over a restart
// of the daemon, while its clients go on, as a log of the state directory.
//
// What has changed is appended, ten times a second by Keep; nothing is synced, for what is
// known of processes need not survive a power cut, since the processes do not. When the
// log has grown to more than twice what counts of it (and to growth besides), it begins
// anew with that, beside the old log, whose name it takes then (journal.Log). So its
// length goes by what is known now, and what is written by what has changed.
//
// The log is a help and no more: whatever has become of it, a mount begins. A torn tail
// is cut off; of a log that is damaged otherwise the records before the damage count,
// and the file is set aside under a name with ".broken".
package knowledgelog

import (
	"errors"
	"fmt"
	"io"
	"os"
	"sync"
	"time"

	"golang.org/x/sys/unix"

	"latchfs/journal"
	"latchfs/journal/statedir"
	"latchfs/lockmgr/knowledge"
)

const (
	// Name is the file of the state directory.
	Name = "knowledge.log"
	// oldName is the file that earlier releases wrote anew each time.
	oldName = "knowledge.json"
	broken  = ".broken"
)

const (
	growth = 1 << 20   // what a log may grow by, in bytes, before it is looked at
	maxOld = 256 << 20 // against an old file that is not ours
)

// Log is an open log. Its methods may be called by several goroutines at once.
type Log struct {
	dir   *os.File
	boot  string
	table *knowledge.Table
	logf  func(format string, args ...any)

	mu     sync.Mutex   // held while the file is written
	file   *journal.Log // nil if it could not be opened
	behind bool         // the file lacks something that Unsaved does not tell any more
	old    bool         // what an earlier release has left is there still
	closed bool
	failed bool // it could not be written the last time
}

// What is new is written every writeEvery, or more seldom if that takes more than one part
// in rest of the time, and at the end.
const (
	writeEvery = 100 * time.Millisecond
	rest       = 50
	sweepEvery = time.Minute
)

// Keep writes what is new from time to time, and calls sweep, which makes the table forget
// what counts no more, every minute. It returns when done is closed.
func (l *Log) Keep(done <-chan struct{}, sweep func(now time.Time)) {
	t := time.NewTimer(writeEvery)
	defer t.Stop()
	swept := time.Now()
	for {
		select {
		case <-done:
			return
		case <-t.C:
		}
		began := time.Now()
		if began.Sub(swept) > sweepEvery {
			sweep(began)
			swept = began
		}
		_ = l.Write() // it tells of an error itself
		t.Reset(max(writeEvery, rest*time.Since(began)))
	}
}

// Open tells the table what the log in the state directory dir says, or what an earlier
// release has left there. dir must stay open as long as the log. boot names the life of
// the machine: what is known of the processes of another one is forgotten. logf is told
// what was lost.
func Open(dir *os.File, boot string, table *knowledge.Table, logf func(format string, args ...any)) *Log {
	l := &Log{dir: dir, boot: boot, table: table, logf: logf}
	replay := func(record []byte) error { return table.Replay(record, boot) }
	switch err := l.readOld(); {
	case err == nil:
		// The log is older, or says the same: an earlier release has run last, or this
		// one was stopped before it could remove the file.
		l.old, l.behind = true, true
		replay = ignore
	case !errors.Is(err, unix.ENOENT):
		logf("%s: what processes have read before this start is forgotten: %v", oldName, err)
		l.old = true
	}
	if err := l.open(replay); err != nil {
		logf("%s: %v", Name, err) // and the next Write tries again
	}
	return l
}

func ignore([]byte) error { return nil }

// open opens the file, or begins another one if it is damaged. mu is held, or l new.
func (l *Log) open(replay func([]byte) error) error {
	var err error
	l.file, err = journal.OpenLog(l.dir, Name, l.logf, replay)
	if err == nil {
		return nil
	}
	l.behind = true
	var damage *journal.CorruptError
	switch {
	case errors.As(err, &damage):
		l.logf("%s: damaged at byte %d (%s): what processes have read after that is forgotten; the file is now %s",
			Name, damage.Offset, damage.Reason, Name+broken)
	case errors.Is(err, statedir.ErrForeign):
		l.logf("%s: %v: what processes have read before this start is forgotten; the file is now %s", Name, err, Name+broken)
	default:
		return err
	}
	if err := unix.Renameat(int(l.dir.Fd()), Name, int(l.dir.Fd()), Name+broken); err != nil {
		return os.NewSyscallError("renameat", err)
	}
	l.file, err = journal.OpenLog(l.dir, Name, l.logf, ignore)
	return err
}

// readOld tells the table what an earlier release has saved.
func (l *Log) readOld() error {
	fd, err := statedir.OpenFile(int(l.dir.Fd()), oldName, unix.O_RDONLY)
	if err != nil {
		return err
	}
	file := os.NewFile(uintptr(fd), oldName)
	defer file.Close()
	data, err := io.ReadAll(io.LimitReader(file, maxOld))
	if err != nil {
		return err
	}
	return l.table.Load(data, l.boot)
}

// Write writes what the log does not say yet. After an error the next one writes all; logf
// is told of it, unless the last one had an error, too.
func (l *Log) Write() error {
	l.mu.Lock()
	defer l.mu.Unlock()
	if l.closed {
		return nil
	}
	err := l.write()
	if err != nil {
		l.behind = true
		err = fmt.Errorf("%s: %w", Name, err)
	} else if l.old {
		l.old = false
		_ = unix.Unlinkat(int(l.dir.Fd()), oldName, 0) // or the next start reads it again
	}
	l.noteLocked(err)
	return err
}

// noteLocked notes how writing has ended. mu is held.
func (l *Log) noteLocked(err error) {
	if err != nil && !l.failed {
		l.logf("what was read will not be known after a restart: %v", err)
	}
	l.failed = err != nil
}

func (l *Log) write() error {
	if l.file == nil {
		if err := l.open(ignore); err != nil {
			return err
		}
	}
	if !l.behind {
		for record := range l.table.Unsaved(l.boot) {
			if err := l.file.Append(record); err != nil {
				return err
			}
		}
	}
	if !l.behind && l.file.Size() <= 2*l.table.Live()+growth {
		return nil
	}
	return l.rewrite()
}

// rewrite begins the log anew.
func (l *Log) rewrite() error {
	rw, err := l.file.StartRewrite()
	if err != nil {
		return err
	}
	for record := range l.table.Records(l.boot) {
		if err := rw.Add(record); err != nil {
			rw.Abort()
			return err
		}
	}
	if err := rw.Commit(); err != nil {
		return err
	}
	l.behind = false
	return nil
}

// Close writes what is left, and closes the log. logf is told of an error as by Write.
func (l *Log) Close() error {
	err := l.Write()
	l.mu.Lock()
	defer l.mu.Unlock()
	closed := l.closed || l.file == nil
	l.closed = true
	if closed {
		return err
	}
	if e := l.file.Close(); e != nil {
		l.noteLocked(e)
		err = errors.Join(err, e)
	}
	return err
}
