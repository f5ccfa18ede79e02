package fs

import (
	"bytes"
	"sync"
	"time"

	"github.com/hanwen/go-fuse/v2/fuse"
	"golang.org/x/sys/unix"

	"latchfs/journal"
	"latchfs/journal/commit"
	"latchfs/lockmgr"
	"latchfs/lockmgr/policy"
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
	giveUp  chan struct{} // closed when nobody wants to wait any longer
	gaveUp  bool

	killSuid bool   // the last writer's changes clear setuid and setgid bits
	gid      uint32 // and its group
	failed   unix.Errno
	fd       int    // of the file that had the name last
	key      inoKey // its identity
	records  int    // appended since the last event
	bytes    int
}

// appendsRecords reports whether an open with these flags is an appender's.
func appendsRecords(flags uint32, set policy.Settings) bool {
	return flags&unix.O_APPEND != 0 && flags&unix.O_TRUNC == 0 && set.Append == policy.Record
}

func newAppender(f *FS, h *handle, c *caller) *appender { return &appender{f: f, h: h, c: c, fd: -1} }

// openAppend opens a file for appending records. It waits for a running session
// here, where a wait is harmless and a refusal is seen.
func (f *FS) openAppend(cancel <-chan struct{}, c *caller, in *fuse.OpenIn, n *node, set policy.Settings, out *fuse.OpenOut) fuse.Status {
	wait := set.Wait
	if in.Flags&unix.O_NONBLOCK != 0 {
		wait = 0
	}
	dir, name := f.nameOf(n)
	if f.isClosing() {
		return status(f.refuse(&demand{c: c, op: opAppend, path: f.path(dir, name)}, errShutdown))
	}
	l, e := f.lock(f.fileDemand(c, opAppend, wait, place{dir, name, n}), cancel)
	if e != 0 {
		return status(e)
	}
	f.table.Release(l)
	h := f.newHandle(n, appendHandle, in.Flags)
	h.app = newAppender(f, h, c)
	f.startIO(h, ioDirect, out)
	out.Fh = h.id
	return fuse.OK
}

// write appends data, now or as soon as the lock is free.
func (a *appender) write(data [][]byte, killSuid bool, gid uint32) (uint32, unix.Errno) {
	size := 0
	for _, b := range data {
		size += len(b)
	}
	a.mu.Lock()
	defer a.mu.Unlock()
	a.killSuid, a.gid = killSuid, gid
	if e := a.failed; e != 0 {
		a.failed = 0 // the program knows now; what it writes next is another matter
		return 0, e
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
		a.idle, a.giveUp, a.gaveUp = make(chan struct{}), make(chan struct{}), false
		go a.drain()
	}
	return uint32(size), 0
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

// drain writes what is pending once the lock is free.
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
	} else {
		b := a.pending.Bytes()
		if _, e := a.appendLocked(b); e != 0 {
			a.failed = e
			a.keepLocked("appending failed: " + e.Error())
		}
		a.f.table.Release(l)
	}
	a.pending.Reset()
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
		err = errTimeout
	case <-a.f.done:
		err = errShutdown
	}
	if !a.f.table.Cancel(l, err) && l.Held() {
		return nil
	}
	return err
}

// keepLocked puts bytes that could not be appended under rejected/.
func (a *appender) keepLocked(reason string) {
	f := a.f
	path := f.nodePath(a.h.n)
	var st unix.Stat_t
	o := commit.ShadowOptions{Dir: int(f.state.Fd()), Name: "append", Base: -1, Mode: 0o600, UID: -1, GID: -1}
	if unix.Fstat(f.fdOf(a.h.n), &st) == nil && f.privileged {
		o.UID, o.GID = int(st.Uid), int(st.Gid)
	}
	id := ""
	sh, err := f.store.NewShadow(o)
	if err == nil {
		defer f.discard(sh)
		if _, err = unix.Write(sh.FD(), a.pending.Bytes()); err == nil {
			id, err = sh.Reject(map[string]any{"path": path, "operation": opAppend, "reason": reason, "pid": a.c.owner.PID})
		}
	}
	if err != nil {
		f.log.Errorf("%d bytes for the end of %q are lost: %v", a.pending.Len(), path, err)
	}
	f.event(journal.Event{Time: time.Now(), Event: "rollback", Path: path, PID: a.c.owner.PID,
		Detail: map[string]any{"operation": opAppend, "reason": reason, "kept": id}})
	f.explain(refusal{path: path, op: opAppend, errno: unix.EBUSY, reason: reason, kept: id, owner: a.c.owner, uid: a.c.uid})
}

// appendLocked writes one record at the end of the current file.
func (a *appender) appendLocked(b []byte) (int, unix.Errno) {
	if n, e, done := a.appendToOwn(b); done {
		return n, e
	}
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
			if e := unix.Ftruncate(a.fd, st.Size); e != nil {
				a.f.log.Errorf("a record was appended in part and cannot be taken back: %v", e)
			}
			return 0, errnoOf(err)
		}
		done += n
	}
	a.records++
	a.bytes += len(b)
	if a.killSuid {
		if err := killSuidErr(a.fd, a.gid); err != nil {
			return len(b), errnoOf(err)
		}
	}
	return len(b), 0
}

// appendToOwn appends to the shadow of a session that the appender's own family
// has on the file: its commit would replace what is appended to the file itself.
func (a *appender) appendToOwn(b []byte) (n int, e unix.Errno, done bool) {
	dir, name := a.f.nameOf(a.h.n)
	if dir == nil {
		return 0, 0, false
	}
	s := a.f.sessionAt(dir, name)
	if s == nil || !a.c.kinOf(s.who.Load()) {
		return 0, 0, false
	}
	s.mu.Lock()
	defer s.mu.Unlock()
	if s.ended {
		return 0, 0, false
	}
	if e := s.fillLocked(); e != 0 {
		return 0, e, true
	}
	var st unix.Stat_t
	err := unix.Fstat(s.shadow.FD(), &st)
	if err == nil {
		n, err = unix.Pwrite(s.shadow.FD(), b, st.Size)
	}
	if err != nil {
		s.failed = errnoOf(err)
		return 0, s.failed, true
	}
	s.wrote = true
	go a.f.srv.InodeNotify(s.at().id, st.Size, 0) // a writer may hold a page and wait for us
	return n, 0, true
}

// report puts what was appended since the last time into the audit trail: one
// event for each close, not for each line of a log.
func (a *appender) report() {
	a.mu.Lock()
	records, size := a.records, a.bytes
	a.records, a.bytes = 0, 0
	a.mu.Unlock()
	if records == 0 {
		return
	}
	a.f.event(journal.Event{
		Time: time.Now(), Event: "commit", Path: a.f.nodePath(a.h.n), PID: a.c.owner.PID,
		Detail: map[string]any{"operation": opAppend, "records": records, "bytes": size, "program": a.c.program()},
	})
}

// followLocked makes a.fd the file that has the handle's name now, be it the
// one that was opened or its successor; a file without a name is kept.
func (a *appender) followLocked() unix.Errno {
	f := a.f
	dir, name := f.nameOf(a.h.n)
	var st unix.Stat_t
	named := dir != nil && unix.Fstatat(f.fdOf(dir), name, &st, unix.AT_SYMLINK_NOFOLLOW) == nil &&
		st.Mode&unix.S_IFMT == unix.S_IFREG
	key := a.f.inoOf(a.h.n)
	if named && key != (inoKey{uint64(st.Dev), st.Ino}) && !a.mayFollow(&st) {
		named = false
	}
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

// mayFollow reports whether the appender goes on in the file that has the name
// now: one that took the place of its own, as a careful save puts it there, and
// that its opener may write, and read if that is how it opened. After an unlink
// there is no successor.
func (a *appender) mayFollow(st *unix.Stat_t) bool {
	f := a.f
	f.mu.Lock()
	removed := a.h.n.removed
	f.mu.Unlock()
	if removed || !f.mayWrite(a.c, st) {
		return false
	}
	return a.h.flags&unix.O_ACCMODE == unix.O_WRONLY || f.mayAccess(a.c, st, 4)
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
	a.report()
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
