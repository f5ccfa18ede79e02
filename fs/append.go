package fs

import (
	"bytes"
	"sync"
	"time"

	"github.com/hanwen/go-fuse/v2/fuse"
	"golang.org/x/sys/unix"

	"latchfs/lockmgr"
)

// maxPending bounds what an appender holds back while another owner's session
// is on the file.
const maxPending = 1 << 20

// appender is an O_APPEND handle. Each write is a commit of its own: it takes
// the file's lock, goes to the end of the file that has the name now, and lets
// go. WRITE arrives under the inode's lock, so it never waits: what cannot be
// written at once is kept in order and follows as soon as the lock is free;
// fsync and close wait for that and report errors.
type appender struct {
	f *FS
	h *handle

	mu      sync.Mutex
	c       *caller
	pending bytes.Buffer
	busy    bool          // a goroutine is draining
	idle    chan struct{} // closed when the draining ends
	failed  unix.Errno
	fd      int    // of the file that had the name last
	key     inoKey // its identity
}

func newAppender(f *FS, h *handle, c *caller) *appender { return &appender{f: f, h: h, c: c, fd: -1} }

// openAppend opens a file for appending records.
func (f *FS) openAppend(in *fuse.OpenIn, n *node, out *fuse.OpenOut) fuse.Status {
	h := f.newHandle(n, appendHandle, in.Flags)
	h.app = newAppender(f, h, f.callerOf(&in.InHeader))
	f.startIO(h, ioDirect, out)
	out.Fh = h.id
	return fuse.OK
}

// write appends data, now or as soon as the lock is free.
func (a *appender) write(data [][]byte) (uint32, unix.Errno) {
	size := 0
	for _, b := range data {
		size += len(b)
	}
	a.mu.Lock()
	defer a.mu.Unlock()
	if a.failed != 0 {
		return 0, a.failed
	}
	if !a.busy {
		l, err := a.f.acquire(a.demand(), true)
		if err == nil {
			n, e := a.appendLocked(bytes.Join(data, nil))
			a.f.table.Release(l)
			return uint32(n), e
		}
	}
	if a.pending.Len()+size > maxPending {
		return 0, unix.EBUSY
	}
	for _, b := range data {
		a.pending.Write(b)
	}
	if !a.busy {
		a.busy = true
		a.idle = make(chan struct{})
		go a.drain()
	}
	return uint32(size), 0
}

func (a *appender) demand() *demand {
	f := a.f
	c := a.c
	dir, name := f.nameOf(a.h.n)
	if dir == nil {
		return &demand{c: c, op: opAppend, mode: lockmgr.Exclusive, keys: []lockmgr.Key{inodeKey(a.h.n)}, wait: -1}
	}
	return f.fileDemand(c, opAppend, -1, place{dir, name, a.h.n})
}

// drain writes what is pending once the lock is free.
func (a *appender) drain() {
	a.mu.Lock()
	d := a.demand()
	a.mu.Unlock()
	d.label = &label{op: opAppend, path: d.path, program: "appender"}
	l, err := a.f.acquire(d, false)
	if err == nil {
		select {
		case <-l.Done():
			err = l.Err()
		case <-a.f.done:
			err = errShutdown
			a.f.table.Cancel(l, err)
		}
	}
	a.mu.Lock()
	defer a.mu.Unlock()
	if err != nil {
		a.failed = unix.EIO
	} else {
		b := a.pending.Bytes()
		if _, e := a.appendLocked(b); e != 0 {
			a.failed = e
		}
		a.f.table.Release(l)
	}
	a.pending.Reset()
	a.busy = false
	close(a.idle)
}

// appendLocked writes one record at the end of the current file.
func (a *appender) appendLocked(b []byte) (int, unix.Errno) {
	if e := a.followLocked(); e != 0 {
		return 0, e
	}
	var st unix.Stat_t
	if err := unix.Fstat(a.fd, &st); err != nil {
		return 0, errnoOf(err)
	}
	for done := 0; done < len(b); {
		n, err := unix.Write(a.fd, b[done:])
		if err == unix.EINTR {
			continue
		}
		if err != nil {
			// All or nothing: a record is never split.
			unix.Ftruncate(a.fd, st.Size)
			return 0, errnoOf(err)
		}
		done += n
	}
	return len(b), 0
}

// followLocked makes a.fd the file that has the handle's name now, be it the
// one that was opened or its successor; a file without a name is kept.
func (a *appender) followLocked() unix.Errno {
	f := a.f
	dir, name := f.nameOf(a.h.n)
	var st unix.Stat_t
	named := dir != nil && unix.Fstatat(f.fdOf(dir), name, &st, unix.AT_SYMLINK_NOFOLLOW) == nil &&
		st.Mode&unix.S_IFMT == unix.S_IFREG
	key := a.h.n.key
	if named {
		key = inoKey{uint64(st.Dev), st.Ino}
	}
	if a.fd >= 0 && key == a.key {
		return 0
	}
	flags := unix.O_RDWR | unix.O_APPEND | int(a.h.flags&(unix.O_SYNC|unix.O_DSYNC))
	var fd int
	var err error
	if named {
		fd, err = unix.Openat(f.fdOf(dir), name, flags|unix.O_NOFOLLOW|unix.O_CLOEXEC, 0)
	} else {
		fd, err = f.reopen(f.fdOf(a.h.n), flags)
	}
	if err != nil {
		return errnoOf(err)
	}
	if a.fd >= 0 {
		unix.Close(a.fd)
	}
	a.fd, a.key = fd, key
	return 0
}

// readFile is the descriptor to read and sync.
func (a *appender) readFile() (int, unix.Errno) {
	a.mu.Lock()
	defer a.mu.Unlock()
	if e := a.followLocked(); e != 0 {
		return -1, e
	}
	return a.fd, 0
}

// truncate is ftruncate on an append descriptor (logrotate's copytruncate).
func (a *appender) truncate(size int64) unix.Errno {
	a.mu.Lock()
	defer a.mu.Unlock()
	if e := a.followLocked(); e != 0 {
		return e
	}
	l, err := a.f.acquire(a.demand(), true)
	if err != nil {
		return unix.EBUSY
	}
	defer a.f.table.Release(l)
	return errnoOf(unix.Ftruncate(a.fd, size))
}

// drain waits until everything that h was given is in the file.
func (f *FS) drain(h *handle) unix.Errno {
	a := h.app
	a.mu.Lock()
	for a.busy {
		idle := a.idle
		a.mu.Unlock()
		select {
		case <-idle:
		case <-time.After(f.opts.LockTimeout):
			return unix.EBUSY
		}
		a.mu.Lock()
	}
	e := a.failed
	a.mu.Unlock()
	return e
}

// close gives the appender's descriptor back.
func (a *appender) close() {
	a.mu.Lock()
	defer a.mu.Unlock()
	if a.fd >= 0 {
		unix.Close(a.fd)
		a.fd = -1
	}
}
