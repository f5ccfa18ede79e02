package fs

import (
	"bytes"
	"sync"
	"time"

	"github.com/hanwen/go-fuse/v2/fuse"
	"golang.org/x/sys/unix"

	"latchfs/fs/denied"
	"latchfs/fs/unfinished"
	"latchfs/journal/commit"
	"latchfs/lockmgr"
	"latchfs/lockmgr/policy"
)

// maxPending bounds what an appender holds back while another owner's session
// is on the file.
const maxPending = 1 << 20

// What bounds the wait for the end of a line: how much waits, how long the
// program may be quiet, and how long it may take that is not quiet but has got
// no processor, or has something to compute.
const (
	maxLine      = 1 << 20
	lineDelay    = 100 * time.Millisecond
	maxLineDelay = 2 * time.Second
)

// appender is an O_APPEND handle. Whole lines are a commit of their own: they
// take the file's lock, go to the end of the file that has the name now as one
// record, and let go. What follows the last newline waits for the rest of its
// line: a program that writes a line in several pieces is not interrupted. It
// goes out at a close, a sync, a look at the file by the same program, or after
// a short delay.
//
// WRITE arrives under the inode's lock, so it never waits: what cannot be
// written at once is kept in order and follows as soon as the lock is free;
// fsync and close wait for that and report errors.
type appender struct {
	f *FS
	h *handle

	mu     sync.Mutex // guards what follows
	c      *caller
	buf    []byte        // given and not appended
	due    int           // so many bytes of it wait for nothing but the lock
	timer  *time.Timer   // makes the rest due; nil: not running
	begun  time.Time     // when the rest had to begin to wait
	writer uint32        // the thread that wrote it
	busy   bool          // a goroutine is draining
	idle   chan struct{} // closed when the draining ends
	giveUp chan struct{} // closed when nobody wants to wait any longer
	gaveUp bool
	shown  bool // it is in inode.lined

	killSuid bool   // the last writer's changes clear setuid and setgid bits
	uid, gid uint32 // its user and group
	failed   unix.Errno
	fd       int    // of the file that had the name last
	key      inoKey // its identity
	tail     *commit.Tail
	seq      uint64 // the last record appended to it
	unsynced bool   // and it is not known to be on disk
	records  int    // appended since the last event
	bytes    int
	open     unfinished.Record
	charged  int64  // for buf; see account
	growing  inoKey // the file that the history knows to be growing
}

// appendsRecords reports whether an open with these flags is an appender's.
func appendsRecords(flags uint32, set policy.Settings) bool {
	return flags&unix.O_APPEND != 0 && flags&unix.O_TRUNC == 0 && set.Append == policy.Record && judgesRecords(set.Validate)
}

func newAppender(f *FS, h *handle, c *caller) *appender { return &appender{f: f, h: h, c: c, fd: -1} }

// openAppend opens a file for appending records. It waits for a running session
// here, where a wait is harmless and a refusal is seen.
func (f *FS) openAppend(cancel <-chan struct{}, c *caller, in *fuse.OpenIn, k *kernelNode, n *inode, set policy.Settings, out *fuse.OpenOut) fuse.Status {
	wait := set.Wait
	if in.Flags&unix.O_NONBLOCK != 0 {
		wait = 0
	}
	dir, name := f.nameOf(n)
	if f.isClosing() {
		if e := f.holdBack(&demand{c: c, op: opAppend, path: f.path(dir, name), wait: wait}, cancel); e != 0 {
			return status(e)
		}
	}
	there := !f.isRemoved(n)
	l, e := f.lock(f.fileDemand(c, opAppend, wait, place{dir, name, n}), cancel)
	if e != 0 {
		return status(e)
	}
	defer f.table.Release(l)
	if there && f.isRemoved(n) && c.tid != 0 && !f.walks.Repeated(c) {
		// What was appended to it now would be nowhere. Who has the lock may have had it
		// for long: a transaction.
		return status(f.staleAt(c, n))
	}
	n = f.behind(k) // a session may have taken the node over, and ended, while the lock was waited for
	if f.isOrphan(n) && (c.tid != 0 || f.leftBehind(n)) {
		// The session that had taken the file's node over was rolled back while the
		// caller waited for it.
		if f.walks.Repeated(c) {
			return status(unix.EBUSY)
		}
		return status(f.staleAt(c, n))
	}
	return f.openAppender(c, k, n, in.Flags, out)
}

// openAppender gives the caller, who has the lock of the file's name, an appender on it.
func (f *FS) openAppender(c *caller, k *kernelNode, n *inode, flags uint32, out *fuse.OpenOut) fuse.Status {
	// The file may have been removed before the caller came. Under the lock nobody makes
	// an earlier version of it once somebody has it open to write.
	h := f.newHandle(k, n, appendHandle, flags)
	if h == nil {
		return status(unix.ESTALE)
	}
	if err := f.unshare(n); err != nil {
		f.closeHandle(h)
		return statusOf(err)
	}
	h.uid, h.gid = c.uid, c.gid
	h.app = newAppender(f, h, c)
	f.startIO(h, ioDirect, out)
	out.Fh = h.id
	return fuse.OK
}

// write takes data, and appends what ends in a newline now or as soon as the
// lock is free.
func (a *appender) write(in *fuse.WriteIn, data [][]byte) (uint32, unix.Errno) {
	a.mu.Lock()
	defer a.mu.Unlock()
	a.killSuid, a.uid, a.gid, a.writer = in.WriteFlags&fuse.WRITE_KILL_SUIDGID != 0, in.Uid, in.Gid, in.Pid
	if e := a.failed; e != 0 {
		a.failed = 0 // the program knows now; what it writes next is another matter
		return 0, e
	}
	held := len(a.buf)
	all := together(a.buf, data)
	size := len(all) - held
	due := a.due
	if i := bytes.LastIndexByte(all[held:], '\n'); i >= 0 {
		due = held + i + 1
	}
	fits := a.f.book.Fits(a.c.uid, int64(len(all)))
	if len(all)-due > maxLine || !fits {
		due = len(all)
	}
	if !a.busy && due > 0 {
		l, err := a.f.acquire(a.demand(), true)
		if err == nil {
			defer a.f.table.Release(l)
			if e := a.appendLocked(all[:due], held > 0); e != 0 {
				if e == unix.EBADMSG {
					a.due = held
					a.dueGoneLocked() // the beginning of a line that was not accepted
				}
				return 0, e // and the program still has the bytes
			}
			all, due = all[due:], 0
		}
	}
	if due > 0 && held+size > maxPending {
		return 0, unix.EBUSY
	}
	if due > 0 && !fits {
		return 0, unix.ENOMEM
	}
	a.buf, a.due = append(a.buf[:0], all...), due
	a.waitLocked()
	if a.due > 0 && !a.busy {
		a.drainLocked()
	}
	return uint32(size), 0
}

// isIn is the membership of who wrote last.
func (a *appender) isIn(gid uint32) bool {
	return gid == a.gid || a.uid == a.c.uid && a.c.inGroup(gid)
}

// writeCalls are the system calls that write a file.
var writeCalls = []int{
	unix.SYS_WRITE, unix.SYS_PWRITE64, unix.SYS_WRITEV, unix.SYS_PWRITEV, unix.SYS_PWRITEV2,
	unix.SYS_SENDFILE, unix.SYS_SPLICE, unix.SYS_COPY_FILE_RANGE,
}

func (a *appender) demand() *demand {
	f := a.f
	c := a.c
	dir, name := f.nameOf(a.h.n)
	if dir == nil {
		return &demand{c: c, op: opAppend, mode: lockmgr.Exclusive, keys: []lockmgr.Key{f.inodeKey(a.h.n)}, wait: -1}
	}
	return f.fileDemand(c, opAppend, -1, place{dir, name, a.h.n})
}

// drainLocked starts a goroutine that appends what is due once the lock is free.
func (a *appender) drainLocked() {
	a.busy = true
	a.idle, a.giveUp, a.gaveUp = make(chan struct{}), make(chan struct{}), false
	go a.drain()
}

func (a *appender) drain() {
	a.mu.Lock()
	d := a.demand()
	a.mu.Unlock()
	d.label = a.c.label(opAppend, d.path)
	l, err := a.f.acquire(d, false)
	for err == nil {
		if err = a.awaitLock(l); err != nil || a.f.covers(l, d) {
			break
		}
		a.f.table.Release(l)
		l, err = a.f.acquire(d, false)
	}
	a.mu.Lock()
	defer a.mu.Unlock()
	if err != nil {
		a.failed = lockErrno(err)
		a.keepLocked(err.Error())
		a.dueGoneLocked()
	} else {
		a.appendDueLocked()
		a.f.table.Release(l)
	}
	a.busy = false
	close(a.idle)
}

// awaitLock waits for the lock without a caller: until it is granted, the
// closing program has waited long enough, or the mount ends.
func (a *appender) awaitLock(l *lockmgr.Lock) error {
	var err error
	select {
	case <-l.Done():
		return l.Err()
	case <-a.giveUp:
		err = denied.ErrTimeout
	case <-a.f.done:
		err = denied.ErrShutdown
	}
	if !a.f.table.Cancel(l, err) && l.Held() {
		return nil
	}
	return err
}

// drain waits until everything that h was given is in the file, and if the
// policy asks for that, on disk.
func (f *FS) drain(h *handle) unix.Errno {
	a := h.app
	a.mu.Lock()
	a.flushLocked()
	for a.busy {
		idle, giveUp := a.idle, a.giveUp
		a.mu.Unlock()
		select {
		case <-idle:
		case <-time.After(f.settings(f.nodePath(h.n)).Wait):
			a.mu.Lock()
			if a.giveUp == giveUp && giveUp != nil && !a.gaveUp {
				a.gaveUp = true
				close(giveUp)
			}
			a.mu.Unlock()
			<-idle
		}
		a.mu.Lock()
	}
	e := a.failed
	a.mu.Unlock()
	if a.syncsAtClose() {
		if late := a.sync(); e == 0 {
			e = late
		}
	}
	a.report()
	return e
}

// showLines appends the unfinished lines of the caller's own appenders of a
// inode whose attributes it asks for.
func (f *FS) showLines(h *fuse.InHeader, n *inode) {
	f.mu.Lock()
	lined := n.lined
	f.mu.Unlock()
	if len(lined) == 0 {
		return
	}
	c := f.callerOf(h)
	for _, a := range lined {
		if c.kinOf(&identity{owner: a.c.owner}) && !a.judgesLines() {
			a.mu.Lock()
			a.flushLocked()
			a.mu.Unlock()
		}
	}
}

// finishAppenders appends what is still held back when the mount has ended.
func (f *FS) finishAppenders() {
	f.mu.Lock()
	var all []*appender
	for _, h := range f.handles {
		if h.app != nil {
			all = append(all, h.app)
		}
	}
	f.mu.Unlock()
	for _, a := range all {
		a.mu.Lock()
		for a.busy {
			idle := a.idle
			a.mu.Unlock()
			<-idle
			a.mu.Lock()
		}
		a.due = len(a.buf)
		if a.due > 0 {
			a.appendDueLocked() // nobody else is there to be kept out
		}
		a.mu.Unlock()
	}
}
