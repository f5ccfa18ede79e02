package appends

import "time"

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
		q.flushLocked(Late)
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
