package ctl

import (
	"bytes"
	"maps"
	"slices"
	"sync"
	"sync/atomic"
	"time"

	"golang.org/x/sys/unix"

	"latchfs/fs/control"
	"latchfs/fs/denied"
	"latchfs/fs/printable"
	"latchfs/fs/report"
	"latchfs/lockmgr"
	"latchfs/lockmgr/proc"
)

// maxUnread bounds the replies that a conversation keeps for a program that does
// not read them.
const maxUnread = 16 << 20

// keptOut is how long a buffer for replies may be to be used again.
const keptOut = 64 << 10

// signalPoll is how often a reader that was interrupted without a reason to give up
// looks again: the kernel announces only the first signal of a wait.
const signalPoll = 20 * time.Millisecond

// Conversation is one open of the control file.
type Conversation struct {
	s    *Server
	c    Caller    // who opened it
	file proc.File // the control file, as /proc shows it

	// inbox tells which waits are over; it is looked after by one goroutine,
	// started by the first wait.
	inbox *lockmgr.Inbox
	watch sync.Once
	used  atomic.Int64 // when, in nanoseconds since 1970
	gone  chan struct{}

	mu      sync.Mutex    // guards what follows
	owner   lockmgr.Owner // whose the locks are
	lineage []lockmgr.Ancestor
	in      []byte // a request that has no end yet
	skips   bool   // what comes until the next newline, the end of a request that was too long
	out     bytes.Buffer
	more    chan struct{} // closed at the next change of out or waits
	locks   map[uint64]*Claim
	waits   map[*lockmgr.Lock]*wait
	pins    map[pinned]func() // what ends each
	ending  int               // waits that are over and not answered yet
	closed  bool
	charged int64 // for in and out; see account
}

// Open begins a conversation. file is the control file as /proc shows it to processes
// that have it open.
func (s *Server) Open(c Caller, file proc.File) *Conversation {
	return &Conversation{
		s: s, c: c, file: file, owner: c.Owner(), lineage: c.Ancestors(), inbox: lockmgr.NewInbox(),
		gone: make(chan struct{}), more: make(chan struct{}), locks: map[uint64]*Claim{}, waits: map[*lockmgr.Lock]*wait{},
	}
}

// Opener is who has opened it.
func (cv *Conversation) Opener() Caller { return cv.c }

// IsOpeners reports whether a request comes from a process with the credentials of the
// one that opened the control file. Any other that has the descriptor, a setuid program
// above all, was given it, and does not know what it writes to.
func (cv *Conversation) IsOpeners(uid, gid uint32) bool {
	return uid == cv.c.UID() && gid == cv.c.GID()
}

// Write takes what was written: requests, a line each. They count for the opener's
// credentials, and for c, the process that wrote them.
func (cv *Conversation) Write(c Caller, data [][]byte) (int, unix.Errno) {
	cv.used.Store(time.Now().UnixNano())
	v := cv.s.Engine.Viewer(c)
	lines, n, tooLong, e := cv.take(data)
	if e != 0 {
		return 0, e
	}
	for _, line := range lines {
		switch {
		case len(line) >= control.MaxLine: // and its newline
			cv.replyTooLong()
		case len(bytes.TrimSpace(line)) == 0:
		case cv.isFull():
			cv.reply("", refused(control.Unavailable, "the replies are not read; a request was dropped"))
		default:
			cv.serve(c, v, line)
		}
	}
	if tooLong {
		cv.replyTooLong()
	}
	return n, 0
}

func (cv *Conversation) replyTooLong() {
	cv.reply("", refused(control.Invalid, "the request is longer than a line may be"))
}

// take adds n bytes to what was written before, and returns the lines that are whole. A
// line that is too long is dropped, with what is still to come of it.
func (cv *Conversation) take(data [][]byte) (lines [][]byte, n int, tooLong bool, e unix.Errno) {
	cv.mu.Lock()
	defer cv.mu.Unlock()
	for _, d := range data {
		n += len(d)
	}
	if cv.out.Len() > maxUnread || !cv.s.Book.Fits(cv.c.UID(), int64(n)) {
		return nil, 0, false, unix.ENOBUFS
	}
	buf := cv.in
	for _, d := range data {
		buf = append(buf, d...)
	}
	if cv.skips {
		_, rest, ends := bytes.Cut(buf, []byte{'\n'})
		buf, cv.skips = rest, !ends
	}
	for {
		line, rest, ok := bytes.Cut(buf, []byte{'\n'})
		if !ok {
			break
		}
		lines, buf = append(lines, line), rest
	}
	tooLong = len(buf) > control.MaxLine
	if tooLong {
		buf, cv.skips = nil, true
	}
	cv.in = slices.Clone(buf)
	cv.chargeLocked()
	return lines, n, tooLong, 0
}

// chargeLocked charges the opener for what the conversation keeps. mu is held.
func (cv *Conversation) chargeLocked() {
	now := int64(len(cv.in) + cv.out.Len())
	cv.s.Book.Charge(cv.c.UID(), now-cv.charged)
	cv.charged = now
}

// isFull reports whether there are too many replies that nobody reads.
func (cv *Conversation) isFull() bool {
	cv.mu.Lock()
	defer cv.mu.Unlock()
	return cv.out.Len() > maxUnread || !cv.s.Book.Fits(cv.c.UID(), 1)
}

// serve carries out one request.
func (cv *Conversation) serve(c Caller, v report.Viewer, line []byte) {
	r, err := control.Parse(line)
	if err != nil {
		cv.reply(r.ID, refused(control.Invalid, err.Error()))
		return
	}
	q := cv.query()
	q.c, q.v, q.r = c, v, &r
	if rep := q.run(); rep != nil {
		cv.reply(r.ID, rep)
	}
}

// query is one that the conversation makes by itself.
func (cv *Conversation) query() *query { return &query{cv: cv, s: cv.s, c: cv.c} }

func refused(word, message string) *control.Reply {
	return &control.Reply{Refusal: &control.Refusal{Error: word, Message: message}}
}

// reply lets the next read have an answer.
func (cv *Conversation) reply(id string, r *control.Reply) {
	r.ID = id
	line := printable.JSON(r.Append(nil))
	cv.mu.Lock()
	defer cv.mu.Unlock()
	if cv.closed {
		return // nobody can read it
	}
	cv.out.Write(line)
	cv.chargeLocked()
	cv.changedLocked()
}

// changedLocked wakes the readers. mu is held.
func (cv *Conversation) changedLocked() {
	close(cv.more)
	cv.more = make(chan struct{})
}

// Read waits for a reply as long as one is to come. A program that has asked for
// nothing is at the end of the file. tid is the thread that reads; cancel is closed when
// it gets a signal.
func (cv *Conversation) Read(cancel <-chan struct{}, tid uint32, noWait bool, buf []byte) (int, unix.Errno) {
	var poll <-chan time.Time
	for {
		n, idle, more := cv.next(buf)
		switch {
		case n > 0 || idle:
			return n, 0
		case noWait:
			return 0, unix.EAGAIN
		}
		select {
		case <-more:
		case <-cancel:
			cancel = nil
			t := time.NewTicker(signalPoll)
			defer t.Stop()
			poll = t.C
			if cv.s.Procs.Pending(tid).Ends(true, true) {
				return 0, unix.EINTR
			}
		case <-poll:
			if cv.s.Procs.Pending(tid).Ends(false, true) {
				return 0, unix.EINTR
			}
		}
	}
}

// next reads what there is. It is idle if nothing is to come; more tells of the next
// change.
func (cv *Conversation) next(buf []byte) (n int, idle bool, more <-chan struct{}) {
	cv.mu.Lock()
	defer cv.mu.Unlock()
	n, _ = cv.out.Read(buf)
	if cv.out.Len() == 0 && cv.out.Cap() > keptOut {
		cv.out = bytes.Buffer{}
	}
	if n > 0 {
		cv.chargeLocked()
	}
	return n, len(cv.waits)+cv.ending == 0, cv.more
}

// Close ends the conversation: its last descriptor is closed.
func (cv *Conversation) Close() {
	cv.mu.Lock()
	cv.closed = true
	locks, waits, pins := cv.locks, cv.waits, cv.pins
	cv.locks, cv.waits, cv.pins = nil, nil, nil
	cv.in, cv.out = nil, bytes.Buffer{}
	cv.chargeLocked()
	cv.changedLocked()
	cv.mu.Unlock()
	close(cv.gone)
	for l, w := range waits {
		w.stop()
		cv.s.Table.Cancel(l, denied.ErrInterrupted)
		cv.s.Table.Release(l)
		cv.s.Claims.forget(w.cl)
	}
	cv.s.Claims.release(slices.Collect(maps.Values(locks))...)
	for p, release := range pins {
		cv.endPin(p, release)
	}
}

// own makes a claim the conversation's. It is false if that is over.
func (cv *Conversation) own(cl *Claim) bool {
	cv.mu.Lock()
	defer cv.mu.Unlock()
	if cv.closed {
		return false
	}
	cv.locks[cl.no] = cl
	return true
}

// disown takes a claim away from the conversation.
func (cv *Conversation) disown(cl *Claim) {
	cv.mu.Lock()
	defer cv.mu.Unlock()
	delete(cv.locks, cl.no)
}

// owns reports whether a claim is the conversation's.
func (cv *Conversation) owns(cl *Claim) bool {
	cv.mu.Lock()
	defer cv.mu.Unlock()
	return cv.locks[cl.no] == cl
}

// claims are the conversation's.
func (cv *Conversation) claims() []*Claim {
	cv.mu.Lock()
	defer cv.mu.Unlock()
	return slices.Collect(maps.Values(cv.locks))
}
