package appends

import (
	"bytes"
	"time"
)

// waitLocked sees to it that an unfinished line does not wait for ever.
func (q *Queue) waitLocked() {
	if len(q.buf) == 0 {
		q.buf = nil
	}
	q.settleLocked()
	unfinished := len(q.buf) > q.due
	if unfinished != q.holds {
		q.holds = unfinished
		q.c.End.HoldsLine(unfinished)
	}
	switch {
	case !unfinished && q.timer != nil:
		q.timer.Stop()
		q.timer = nil
	case unfinished && q.timer == nil:
		begun := time.Now()
		q.begun = begun
		q.timer = time.AfterFunc(lineDelay, func() { q.waited(begun) })
	}
}

// settleLocked charges the user for what is held back.
func (q *Queue) settleLocked() {
	now := int64(cap(q.buf))
	q.c.Book.Charge(q.c.UID, now-q.charged)
	q.charged = now
}

// waited ends the wait for the rest of a line, unless its program is about to write that.
func (q *Queue) waited(begun time.Time) {
	writer := q.Writer()
	again := time.Since(begun) < maxLineDelay && q.c.End.IsWorking(writer.Thread)
	q.mu.Lock()
	defer q.mu.Unlock()
	switch {
	case q.timer == nil || q.begun != begun: // it has come, or gone
	case again:
		q.timer.Reset(lineDelay / 4)
	case q.c.End.JudgesLines(): // it waits for its end
	default:
		q.flushLocked()
	}
}

// Writer is who wrote last.
func (q *Queue) Writer() Writer {
	q.mu.Lock()
	defer q.mu.Unlock()
	return q.writer
}

// HoldsOnlyLine reports whether there is nothing to do but to wait for the end of a line.
func (q *Queue) HoldsOnlyLine() bool {
	q.mu.Lock()
	defer q.mu.Unlock()
	return len(q.buf) > 0 && !q.busy && q.failed == 0
}

// MayDrop reports whether bytes may be taken back that do not end in a newline: text that is
// not synced as it is written.
func (q *Queue) MayDrop(b []byte) bool { return !q.c.Synced && bytes.IndexByte(b, 0) < 0 }

// TakeBack takes back the line that the last writer, which is dying, has not finished, and
// returns what there was of it: what is held back, and if that was all, what is in the file.
// It takes nothing if somebody else has written since the caller asked who that was.
func (q *Queue) TakeBack(w Writer) []byte {
	q.mu.Lock()
	defer q.mu.Unlock()
	if q.writer != w {
		return nil
	}
	i := bytes.LastIndexByte(q.buf, '\n')
	rest := bytes.Clone(q.buf[i+1:])
	if !q.MayDrop(rest) {
		return nil
	}
	q.buf = q.buf[:i+1]
	q.due = min(q.due, len(q.buf))
	q.waitLocked()
	if !q.busy { // nothing of what was written before it waits
		rest = append(q.cutOpenLocked(), rest...)
	}
	return rest
}

// cutOpenLocked takes what is in the file of the line out of it, and returns it.
func (q *Queue) cutOpenLocked() []byte {
	for range cutTries {
		if part, done := q.c.End.CutOpen(); done {
			return part
		}
		time.Sleep(cutPause)
	}
	return nil
}
