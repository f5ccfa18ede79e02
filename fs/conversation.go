package fs

import (
	"bytes"
	"maps"
	"slices"
	"sync"
	"time"

	"github.com/hanwen/go-fuse/v2/fuse"
	"golang.org/x/sys/unix"

	"latchfs/fs/control"
	"latchfs/fs/denied"
	"latchfs/fs/locksdir"
	"latchfs/lockmgr"
	"latchfs/lockmgr/proc"
)

// controlName is the file in .locks through which locks are taken without
// opening what is locked; package control describes it.
const controlName = "control"

// maxUnread bounds the replies that a conversation keeps for a program that does
// not read them.
const maxUnread = 16 << 20

// keptOut is how long a buffer for replies may be to be used again.
const keptOut = 64 << 10

// conversation is one open of the control file.
type conversation struct {
	f   *FS
	c   *caller // who opened it
	ino uint64  // of the control file, as /proc shows it

	// inbox tells which waits are over; it is looked after by one goroutine,
	// started by the first wait.
	inbox *lockmgr.Inbox
	watch sync.Once
	used  usage
	gone  chan struct{}

	mu      sync.Mutex    // guards what follows
	owner   lockmgr.Owner // whose the locks are
	lineage []lockmgr.Ancestor
	in      []byte // a request that has no end yet
	out     bytes.Buffer
	more    chan struct{} // closed at the next change of out or waits
	locks   map[uint64]*claim
	waits   map[*lockmgr.Lock]*wait
	ending  int // waits that are over and not answered yet
	closed  bool
	charged int64 // for in and out; see account
}

func (v *virtual) openControl(in *fuse.OpenIn, out *fuse.OpenOut) fuse.Status {
	f := v.f
	if f.opts.ReadOnly {
		return fuse.EROFS
	}
	if f.isStopped() {
		return status(unix.ESHUTDOWN)
	}
	c := f.callerOf(&in.InHeader)
	if c.uid != 0 {
		c.supplementary() // a later writer does not add to them
	}
	cv := &conversation{
		f: f, c: c, ino: in.NodeId, owner: c.owner, lineage: c.ancestors(), inbox: lockmgr.NewInbox(),
		gone: make(chan struct{}), more: make(chan struct{}), locks: map[uint64]*claim{}, waits: map[*lockmgr.Lock]*wait{},
	}
	out.Fh = v.newHandle(&vhandle{talk: cv})
	out.OpenFlags = fuse.FOPEN_DIRECT_IO | fuse.FOPEN_STREAM
	return fuse.OK
}

// isOpeners reports whether a request comes from a process with the credentials of the
// one that opened the control file. Whoever else has the descriptor, a setuid program
// above all, was given it, and does not know what it writes to.
func (cv *conversation) isOpeners(h *fuse.InHeader) bool {
	return h.Uid == cv.c.uid && h.Gid == cv.c.gid
}

// write takes what was written: requests, a line each. They count for the opener's
// credentials, and for the process that wrote them.
func (cv *conversation) write(in *fuse.WriteIn, data [][]byte) (uint32, fuse.Status) {
	if !cv.isOpeners(&in.InHeader) {
		return 0, fuse.EPERM
	}
	cv.used.note()
	c := cv.f.callerOf(&in.InHeader)
	if c.uid != 0 {
		c.haveGroups(cv.c.supplementary(), cv.c.groupsKnown)
	}
	v := cv.f.virt.viewerOf(c)
	cv.mu.Lock()
	given := 0
	for _, d := range data {
		given += len(d)
	}
	if cv.out.Len() > maxUnread || !cv.f.book.Fits(cv.c.uid, int64(given)) {
		cv.mu.Unlock()
		return 0, status(unix.ENOBUFS)
	}
	buf := cv.in
	for _, d := range data {
		buf = append(buf, d...)
	}
	var lines [][]byte
	for {
		line, rest, ok := bytes.Cut(buf, []byte{'\n'})
		if !ok {
			break
		}
		lines, buf = append(lines, line), rest
	}
	tooLong := len(buf) > control.MaxLine
	if tooLong {
		buf = nil
	}
	cv.in = slices.Clone(buf)
	cv.settleLocked()
	cv.mu.Unlock()
	for _, line := range lines {
		switch {
		case len(bytes.TrimSpace(line)) == 0:
		case cv.isFull():
			cv.reply("", refused(control.Unavailable, "the replies are not read; a request was dropped"))
		default:
			cv.serve(c, v, line)
		}
	}
	if tooLong {
		cv.reply("", refused(control.Invalid, "the request is longer than a line may be"))
	}
	return uint32(given), fuse.OK
}

// isFull reports whether there are too many replies that nobody reads.
func (cv *conversation) isFull() bool {
	cv.mu.Lock()
	defer cv.mu.Unlock()
	return cv.out.Len() > maxUnread || !cv.f.book.Fits(cv.c.uid, 1)
}

// serve carries out one request.
func (cv *conversation) serve(c *caller, v locksdir.Viewer, line []byte) {
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
func (cv *conversation) query() *query { return &query{cv: cv, f: cv.f, c: cv.c} }

func refused(word, message string) *control.Reply {
	return &control.Reply{Refusal: &control.Refusal{Error: word, Message: message}}
}

// reply lets the next read have an answer.
func (cv *conversation) reply(id string, r *control.Reply) {
	r.ID = id
	line := locksdir.PrintableJSON(r.Append(nil))
	cv.mu.Lock()
	defer cv.mu.Unlock()
	if cv.closed {
		return // nobody can read it
	}
	cv.out.Write(line)
	cv.settleLocked()
	cv.changedLocked()
}

func (cv *conversation) changedLocked() {
	close(cv.more)
	cv.more = make(chan struct{})
}

// read waits for a reply as long as one is to come. A program that has asked for
// nothing is at the end of the file.
func (cv *conversation) read(cancel <-chan struct{}, in *fuse.ReadIn, buf []byte) (fuse.ReadResult, fuse.Status) {
	if !cv.isOpeners(&in.InHeader) {
		return nil, fuse.EPERM
	}
	var poll <-chan time.Time
	buf = buf[:min(len(buf), int(in.Size))]
	for {
		cv.mu.Lock()
		n, _ := cv.out.Read(buf)
		if cv.out.Len() == 0 && cv.out.Cap() > keptOut {
			cv.out = bytes.Buffer{}
		}
		if n > 0 {
			cv.settleLocked()
		}
		idle, more := len(cv.waits)+cv.ending == 0, cv.more
		cv.mu.Unlock()
		switch {
		case n > 0 || idle:
			return fuse.ReadResultData(buf[:n]), fuse.OK
		case in.Flags&unix.O_NONBLOCK != 0:
			return nil, status(unix.EAGAIN)
		}
		select {
		case <-more:
		case <-cancel:
			cancel = nil
			t := time.NewTicker(signalPoll)
			defer t.Stop()
			poll = t.C
			if cv.f.proc.Pending(in.Pid) != proc.NoReason {
				return nil, status(unix.EINTR)
			}
		case <-poll:
			if p := cv.f.proc.Pending(in.Pid); p != proc.NoReason && p != proc.Nothing {
				return nil, status(unix.EINTR)
			}
		}
	}
}

// flush notes that a descriptor was closed. Where the owner has none left, the
// locks are those of an heir who has.
func (cv *conversation) flush(in *fuse.FlushIn) {
	c := cv.f.callerOf(&in.InHeader)
	cv.mu.Lock()
	owner := cv.owner
	cv.mu.Unlock()
	if c.foreign() || c.owner != owner {
		return
	}
	_, exiting := cv.f.proc.Exit(uint32(c.tid))
	if !exiting && cv.has(owner.PID) {
		return
	}
	for _, pid := range cv.f.proc.Descendants(owner.PID) {
		if th, err := cv.f.proc.Process(pid); err == nil && cv.has(pid) {
			cv.handOver(th.Owner)
			return
		}
	}
	if !exiting || !cv.keeps() {
		return
	}
	// The children of a process of several threads that was killed may have got another
	// parent by the time its last thread closes its descriptors. What guard starts
	// carries its lock's name.
	for _, o := range cv.f.proc.All() {
		if o != owner && cv.has(o.PID) && cv.isNamedBy(o) {
			cv.handOver(o)
			return
		}
	}
}

// keeps reports whether the conversation holds a lock.
func (cv *conversation) keeps() bool {
	cv.mu.Lock()
	defer cv.mu.Unlock()
	return len(cv.locks) > 0
}

// isNamedBy reports whether a process was started with the name of one of the
// conversation's locks in its environment.
func (cv *conversation) isNamedBy(o lockmgr.Owner) bool {
	id := cv.f.proc.EnvOf(o, []string{control.SessionEnv})
	if id == "" {
		return false
	}
	cv.mu.Lock()
	defer cv.mu.Unlock()
	for _, cl := range cv.locks {
		if cl.label.id() == id {
			return true
		}
	}
	return false
}

// has reports whether a process has the conversation open, or another one.
func (cv *conversation) has(pid int32) bool {
	r, w, err := cv.f.proc.Opens(pid, proc.File{Dev: cv.f.mountDev, Ino: cv.ino, MountID: cv.f.mountID})
	return err == nil && r+w > 0
}

// handOver makes an heir the owner.
func (cv *conversation) handOver(to lockmgr.Owner) {
	f := cv.f
	cv.mu.Lock()
	defer cv.mu.Unlock()
	cv.owner, cv.lineage = to, f.proc.Lineage(to.PID)
	for _, cl := range cv.locks {
		if t := cl.txn.Load(); t != nil {
			go t.rollback("the process that would have decided has ended")
		}
		l := f.controls.lockOf(cl)
		f.table.SetOwner(l, to, l.Request().Since) // its heirs are what they were
	}
	for l := range cv.waits {
		f.table.SetOwner(l, to, l.Request().Since)
	}
}

// awaits reports whether a request waits for l already.
func (cv *conversation) awaits(l *lockmgr.Lock) bool {
	cv.mu.Lock()
	defer cv.mu.Unlock()
	return cv.waits[l] != nil
}

// close ends the conversation: its last descriptor is closed.
func (cv *conversation) close() {
	cv.mu.Lock()
	cv.closed = true
	locks, waits := cv.locks, cv.waits
	cv.locks, cv.waits = nil, nil
	cv.in, cv.out = nil, bytes.Buffer{}
	cv.settleLocked()
	cv.changedLocked()
	cv.mu.Unlock()
	close(cv.gone)
	for l, w := range waits {
		w.stop()
		cv.f.table.Cancel(l, denied.ErrInterrupted)
		cv.f.table.Release(l)
		w.forget()
	}
	cv.f.controls.release(slices.Collect(maps.Values(locks))...)
}

// collect answers the requests whose wait is over.
func (cv *conversation) collect() {
	for {
		select {
		case <-cv.gone:
			return
		case <-cv.f.draining:
			cv.giveUp(denied.ErrShutdown)
			return
		case <-cv.inbox.Ready():
		}
		for _, l := range cv.f.table.Collect(cv.inbox) {
			cv.settle(l)
		}
	}
}

// settle answers the request that waited for l, unless it has been answered.
func (cv *conversation) settle(l *lockmgr.Lock) {
	cv.mu.Lock()
	w := cv.waits[l]
	if w == nil {
		cv.mu.Unlock()
		return
	}
	delete(cv.waits, l)
	cv.ending++ // a read must not find nothing to wait for before the reply is there
	cv.mu.Unlock()
	w.stop()
	w.over(l)
	cv.mu.Lock()
	cv.ending--
	cv.changedLocked()
	cv.mu.Unlock()
}

// giveUp ends all waits for a reason.
func (cv *conversation) giveUp(cause error) {
	cv.mu.Lock()
	waits := cv.waits
	cv.waits = map[*lockmgr.Lock]*wait{}
	cv.ending++
	cv.mu.Unlock()
	defer func() {
		cv.mu.Lock()
		cv.ending--
		cv.changedLocked()
		cv.mu.Unlock()
	}()
	for l, w := range waits {
		w.stop()
		w.holders = cv.f.table.FirstConflicts(l, 1)
		cv.f.table.Cancel(l, cause)
		cv.f.table.Release(l)
		w.forget()
		cv.reply(w.id, cv.query().refusal(w.cl, &denied.Error{Cause: cause, Holders: w.holders}, w.wait))
	}
}
