package fs

import (
	"sync"
	"time"

	"golang.org/x/sys/unix"

	"latchfs/fs/appends"
	"latchfs/fs/judge"
	"latchfs/fs/unfinished"
	"latchfs/fs/versions"
	"latchfs/journal/commit"
	"latchfs/lockmgr/policy"
)

// appender is an O_APPEND handle: the end of the file that has the handle's name now, and
// the queue that gathers whole lines for it. Each record that the queue appends is a commit
// of its own, under the file's lock.
type appender struct {
	f     *FS
	h     *handle
	c     *caller
	queue *appends.Queue // what was given and not appended

	mu       sync.Mutex // guards what follows
	fd       int        // of the file that had the name last
	key      inoKey     // its identity
	named    bool       // it has the name, as was seen last: it may have been removed, with nothing in its place
	tail     *commit.Tail
	seq      uint64 // the last record appended to it
	unsynced bool   // and it is not known to be on disk
	stored   bool   // nor is what was stored through a mapping of the handle's own file
	records  int    // appended since the last event
	bytes    int
	open     unfinished.Record
	growth   versions.Growth
	mapped   versions.Growth // by stores through a mapping, of which the kernel does not tell
	used     time.Time       // when its program last did something with it
	usedKey  inoKey          // and with which file, as far as is known
}

// appendsRecords reports whether an open with these flags is an appender's.
func appendsRecords(flags uint32, set policy.Settings) bool {
	return flags&unix.O_APPEND != 0 && flags&unix.O_TRUNC == 0 && set.Append == policy.Record && judge.ByLines(set.Validate)
}

func newAppender(f *FS, h *handle, c *caller) *appender {
	a := &appender{f: f, h: h, c: c, fd: -1, used: time.Now(), usedKey: h.n.key}
	a.queue = appends.New(appends.Config{End: a, Book: f.book, UID: c.uid, Synced: h.flags&(unix.O_SYNC|unix.O_DSYNC) != 0})
	return a
}

// openAppend opens a file for appending records. It waits for a running session
// here, where a wait is harmless and a refusal is seen.
func (f *FS) openAppend(cancel <-chan struct{}, c *caller, in *OpenRequest, k *kernelNode, n *inode, set policy.Settings, out *Opened) unix.Errno {
	wait := set.Wait
	if in.Flags&unix.O_NONBLOCK != 0 {
		wait = 0
	}
	dir, name := f.nameOf(n)
	if f.isClosing() {
		if e := f.holdBack(&demand{c: c, op: opAppend, path: f.path(dir, name), wait: wait}, cancel); e != 0 {
			return e
		}
	}
	there, key := !f.isRemoved(n), f.nameKey(n)
	l, e := f.lock(f.fileDemand(c, opAppend, wait, place{dir, name, n}), cancel)
	if e != 0 {
		return e
	}
	defer f.table.Release(l)
	if there && (f.isRemoved(n) || f.nameKey(n) != key) && c.tid != 0 && !f.walks.Repeated(c) {
		// What was appended to it now would be nowhere, or in a file that has another name.
		// Who has the lock may have had it for long: a transaction. A shadow that was given up
		// meanwhile has no name at all.
		if f.nameKey(n).dir == nil {
			return f.staleUnder(c, key)
		}
		return f.staleAt(c, n)
	}
	n = f.behind(k) // a session may have taken the node over, and ended, while the lock was waited for
	if f.isOrphan(n) && (c.tid != 0 || f.leftBehind(n)) {
		// The session that had taken the file's node over was rolled back while the
		// caller waited for it.
		if f.walks.Repeated(c) {
			return unix.EBUSY
		}
		return f.staleAt(c, n)
	}
	return f.openAppender(c, k, n, in.Flags, out)
}

// openAppender gives the caller, who has the lock of the file's name, an appender on it.
func (f *FS) openAppender(c *caller, k *kernelNode, n *inode, flags uint32, out *Opened) unix.Errno {
	// The file may have been removed before the caller came. Under the lock nobody makes
	// an earlier version of it once somebody has it open to write.
	h := f.newHandle(k, n, appendHandle, flags, c.ids())
	if h == nil {
		return unix.ESTALE
	}
	if err := f.unshare(n); err != nil {
		f.closeHandle(h)
		return errnoOf(err)
	}
	a := newAppender(f, h, c)
	f.mu.Lock()
	h.app = a
	f.mu.Unlock()
	if !f.privileged {
		h.app.openNow()
	}
	f.startIO(h, ioDirect, out)
	h.app.noteMapped()
	out.Handle = h.id
	return 0
}

// openNow opens the file before anything is written, for a daemon that may do with it what its user
// may: a chmod(2) may take away later what the open has granted.
func (a *appender) openNow() {
	a.mu.Lock()
	defer a.mu.Unlock()
	_ = a.followLocked() // the first write tells
}

// write takes data, and appends what ends in a newline now or as soon as the
// lock is free.
func (a *appender) write(in *WriteRequest, data [][]byte) (uint32, unix.Errno) {
	a.use()
	n, e := a.queue.Write(appends.Writer{
		Thread: in.TID, UID: in.UID, GID: in.GID, KillSuid: in.KillSuid,
	}, data)
	return uint32(n), e
}

// drain waits until everything that h was given is in the file, and if the
// policy asks for that, on disk.
func (f *FS) drain(h *handle) unix.Errno {
	a := h.app
	e := a.queue.Drain()
	if a.syncsAtClose() {
		if late := a.sync(); e == 0 {
			e = late
		}
	}
	a.report()
	return e
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
		a.queue.Finish()
	}
}
