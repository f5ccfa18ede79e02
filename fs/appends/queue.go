package appends

import (
	"bytes"
	"slices"
	"sync"
	"time"

	"golang.org/x/sys/unix"

	"latchfs/fs/account"
)

const (
	// MaxPending bounds, in bytes, what a queue holds back while another owner has the
	// file's lock.
	MaxPending = 1 << 20
	// MaxLine is how many bytes of a line that is not finished wait for its end.
	MaxLine = 1 << 20

	// lineDelay is how long a line waits for its end while its writer is quiet.
	lineDelay = 100 * time.Millisecond
	// maxLineDelay is how long it waits if its writer is not quiet, but has got no
	// processor, or has something to compute.
	maxLineDelay = 2 * time.Second
)

// Config is what a Queue stands on.
type Config struct {
	End    End
	Book   *account.Book // of what users make the daemon keep
	UID    uint32        // the user whose account it is
	Synced bool          // the descriptor was opened with O_SYNC or O_DSYNC
}

// A Queue is what was given to one descriptor to append and is not in the file yet. All that
// ends in a newline is due, and as long as something is due the queue is busy.
type Queue struct {
	c Config

	mu      sync.Mutex // guards what follows
	buf     []byte     // given and not appended
	due     int        // so many bytes of it wait for nothing but the lock
	writer  Writer     // who wrote last
	timer   *time.Timer
	begun   time.Time     // when the rest had to begin to wait; the timer makes it due
	busy    bool          // a goroutine is draining
	idle    chan struct{} // closed when the draining ends
	giveUp  chan struct{} // closed when nobody wants to wait any longer
	gaveUp  bool
	holds   bool       // the end has been told that a line is held back
	cut     *cut       // is to be made before anything is appended; nil: none
	failed  unix.Errno // for the next write or close to report
	charged int64      // for buf
}

// New makes an empty queue.
func New(c Config) *Queue { return &Queue{c: c} }

// IsFree reports whether nobody has the queue's mutex at this moment. A simulation stops a
// goroutine only where others need nothing of what it holds.
func (q *Queue) IsFree() bool {
	if !q.mu.TryLock() {
		return false
	}
	q.mu.Unlock()
	return true
}

// Write takes all of data, in one piece, and appends what ends in a newline now or as soon
// as the lock is free. An error says that nothing was taken: the error with which bytes of
// an earlier write were not appended, the error with which these were not, EBUSY if too
// much waits for the lock already, or ENOMEM if the user may not keep so much.
func (q *Queue) Write(w Writer, data [][]byte) (int, unix.Errno) {
	q.mu.Lock()
	defer q.mu.Unlock()
	q.writer = w
	if e := q.failed; e != 0 {
		q.failed = 0 // the program knows now; what it writes next is another matter
		return 0, e
	}
	held := len(q.buf)
	all := together(q.buf, data)
	size := len(all) - held
	due := q.due
	if i := bytes.LastIndexByte(all[held:], '\n'); i >= 0 {
		due = held + i + 1
	}
	fits := q.c.Book.Fits(q.c.UID, int64(len(all)))
	if len(all)-due > MaxLine || !fits || due < len(all) && q.c.End.InOwnSession(w) {
		due = len(all)
	}
	if !q.busy && due > 0 {
		unlock, err := q.c.End.TryLock(q.writer)
		if err == nil {
			defer unlock()
			on := Written
			if held > 0 {
				on = Late
			}
			if e := q.appendLocked(all[:due], on); e != 0 {
				if e == unix.EBADMSG {
					q.due = held
					q.dueGoneLocked() // the beginning of a line that was not accepted
				}
				return 0, e // and the program still has the bytes
			}
			all, due = all[due:], 0
		}
	}
	if due > 0 && held+size > MaxPending {
		return 0, unix.EBUSY
	}
	if due > 0 && !fits {
		return 0, unix.ENOMEM
	}
	q.buf, q.due = append(q.buf[:0], all...), due
	q.waitLocked()
	if q.due > 0 && !q.busy {
		q.drainLocked()
	}
	return size, 0
}

// together returns held followed by data, in memory that is not held's.
func together(held []byte, data [][]byte) []byte {
	if len(held) == 0 && len(data) == 1 {
		return data[0]
	}
	return slices.Concat(held, slices.Concat(data...))
}

// Flush appends everything, now or as soon as the lock is free. An error is the next
// write's or close's to report, and the bytes are kept aside.
func (q *Queue) Flush(on Occasion) {
	q.mu.Lock()
	defer q.mu.Unlock()
	q.flushLocked(on)
}

func (q *Queue) flushLocked(on Occasion) {
	q.due = len(q.buf)
	if q.due == 0 || q.busy {
		q.waitLocked()
		return
	}
	unlock, err := q.c.End.TryLock(q.writer)
	if err != nil {
		q.waitLocked()
		q.drainLocked()
		return
	}
	defer unlock()
	q.appendDueLocked(on) // until then the line is held back: whoever looks meanwhile waits for the mutex
}

// appendDueLocked appends what is due. The file's lock is held.
func (q *Queue) appendDueLocked(on Occasion) {
	if q.due == 0 {
		return
	}
	e := q.appendLocked(q.buf[:q.due], on)
	if e != 0 {
		q.failed = e
	}
	if e != 0 && e != unix.EBADMSG { // what was not accepted is kept already
		q.c.End.Keep(q.buf[:q.due], e, "appending failed: "+e.Error())
	}
	q.dueGoneLocked()
}

// appendLocked appends b to what is whole. The file's lock is held.
func (q *Queue) appendLocked(b []byte, on Occasion) unix.Errno {
	q.cutLocked()
	return q.c.End.Append(q.writer, b, on)
}

// dueGoneLocked forgets what was due.
func (q *Queue) dueGoneLocked() {
	q.buf = q.buf[:copy(q.buf, q.buf[q.due:])]
	q.due = 0
	q.waitLocked()
}
