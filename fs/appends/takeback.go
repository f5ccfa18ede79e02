package appends

import (
	"bytes"
	"time"
)

// A line whose writer is dying is taken out of the file if its lock can be had within so
// many tries: the end of a process must not wait for long.
const (
	cutTries = 50
	cutPause = 10 * time.Millisecond
)

// A cut is a line that is to be taken out of the file: by whoever has the lock first, the
// one that waits for the cut or one that appends.
type cut struct{ part []byte }

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
	if q.busy || q.cut != nil || !q.c.End.HasOpen() { // something of another line is behind it, or nothing is there
		return rest
	}
	return append(q.cutOpenLocked(), rest...)
}

// cutOpenLocked has what is in the file of the line taken out of it, and returns it. It does
// not hold the mutex while it waits.
func (q *Queue) cutOpenLocked() []byte {
	c := &cut{}
	q.cut = c
	for range cutTries {
		if unlock, err := q.c.End.TryLock(q.writer); err == nil {
			q.cutLocked()
			unlock()
		}
		if q.cut != c {
			return c.part
		}
		q.mu.Unlock()
		time.Sleep(cutPause)
		q.mu.Lock()
	}
	if q.cut == c {
		q.cut = nil
	}
	return c.part
}

// cutLocked makes the cut, if there is one to be made. The file's lock is held.
func (q *Queue) cutLocked() {
	if q.cut != nil {
		q.cut.part = q.c.End.CutOpen()
		q.cut = nil
	}
}
