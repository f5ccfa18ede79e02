package fs

import (
	"slices"
	"time"

	"golang.org/x/sys/unix"
)

// This file holds back what an appender has of a line that is not finished, until the rest
// comes or its program does not write.

// together returns held followed by data, in memory that is not held's.
func together(held []byte, data [][]byte) []byte {
	if len(held) == 0 && len(data) == 1 {
		return data[0]
	}
	return slices.Concat(held, slices.Concat(data...))
}

// waitLocked sees to it that an unfinished line does not wait for ever.
func (a *appender) waitLocked() {
	if len(a.buf) == 0 {
		a.buf = nil
	}
	a.settleLocked()
	unfinished := len(a.buf) > a.due
	if unfinished != a.shown {
		a.shown = unfinished
		a.f.mu.Lock()
		if unfinished {
			a.h.n.lined = append(a.h.n.lined, a)
		} else {
			a.h.n.lined = slices.DeleteFunc(slices.Clone(a.h.n.lined), func(b *appender) bool { return a == b })
		}
		a.f.mu.Unlock()
	}
	switch {
	case !unfinished && a.timer != nil:
		a.timer.Stop()
		a.timer = nil
	case unfinished && a.timer == nil:
		begun := time.Now()
		a.begun = begun
		a.timer = time.AfterFunc(lineDelay, func() { a.waited(begun) })
	}
}

// waited ends the wait for the rest of a line, unless its program is about to
// write that.
func (a *appender) waited(begun time.Time) {
	a.mu.Lock()
	writer := a.writer
	a.mu.Unlock()
	again := time.Since(begun) < maxLineDelay && a.f.isWorking(writer)
	a.mu.Lock()
	defer a.mu.Unlock()
	switch {
	case a.timer == nil || a.begun != begun: // it has come, or gone
	case again:
		a.timer.Reset(lineDelay / 4)
	case a.judgesLines(): // it waits for its end
	default:
		a.flushLocked()
	}
}

// isWorking reports whether a thread runs, waits for a processor, or writes.
func (f *FS) isWorking(tid uint32) bool {
	if tid == 0 {
		return false
	}
	if call, ok := f.proc.Syscall(tid); ok {
		return slices.Contains(writeCalls, call.Nr)
	}
	_, err := f.proc.Process(int32(tid))
	return err == nil
}

// flushLocked appends everything, now or as soon as the lock is free. An error
// is the next write's or close's to report, and the bytes are kept aside.
func (a *appender) flushLocked() {
	a.due = len(a.buf)
	a.waitLocked()
	if a.due == 0 || a.busy {
		return
	}
	l, err := a.f.acquire(a.demand(), true)
	if err != nil {
		a.drainLocked()
		return
	}
	defer a.f.table.Release(l)
	a.appendDueLocked()
}

// appendDueLocked appends what is due. The file's lock is held.
func (a *appender) appendDueLocked() {
	if a.due == 0 {
		return
	}
	e := a.appendLocked(a.buf[:a.due], true)
	if e != 0 {
		a.failed = e
	}
	if e != 0 && e != unix.EBADMSG { // what was not accepted is kept already
		a.keepLocked("appending failed: " + e.Error())
	}
	a.dueGoneLocked()
}

// dueGoneLocked forgets what was due.
func (a *appender) dueGoneLocked() {
	a.buf = a.buf[:copy(a.buf, a.buf[a.due:])]
	a.due = 0
	if cap(a.buf) > maxLine/8 && len(a.buf) == 0 {
		a.buf = nil
	}
	a.waitLocked()
}
