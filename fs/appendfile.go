package fs

import (
	"cmp"
	"time"

	"golang.org/x/sys/unix"

	"latchfs/fs/appends"
	"latchfs/fs/judge"
	"latchfs/fs/refusals"
	"latchfs/fs/unfinished"
	"latchfs/journal/audit"
	"latchfs/journal/commit"
	"latchfs/lockmgr/policy"
)

// Keep implements appends.End.
func (a *appender) Keep(b []byte, e unix.Errno, reason string) { a.keepBytes(b, e, reason, nil) }

// keepBytes puts bytes that could not be appended under rejected/; why may be a validator's
// refusal.
func (a *appender) keepBytes(b []byte, e unix.Errno, reason string, why error) {
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
		if _, err = unix.Write(sh.FD(), b); err == nil {
			meta := map[string]any{"path": path, "operation": opAppend, "reason": reason, "pid": a.c.owner.PID}
			judge.Note(meta, why)
			dir, _ := f.nameOf(a.h.n)
			f.noteReach(meta, dir, f.fdOf(a.h.n))
			id, err = sh.Reject(meta)
		}
	}
	if err != nil {
		f.log.Errorf("%d bytes for the end of %q are lost: %v", len(b), path, err)
	}
	detail := map[string]any{"operation": opAppend, "uid": a.c.uid, "errno": unix.ErrnoName(e), "reason": reason, "kept": id}
	judge.Note(detail, why)
	f.event(audit.Event{Time: time.Now(), Event: "rollback", Path: path, PID: a.c.owner.PID, Detail: detail})
	x := refusals.Refusal{Path: path, Op: opAppend, Errno: e, Reason: reason, Kept: id, Verdict: judge.VerdictOf(why), Owner: a.c.owner, UID: a.c.uid}
	if e == unix.EINTR && id != "" {
		x.Hint = "To append it after all: latchfs rejected restore " + id
	}
	f.explain(x)
}

// Append implements appends.End.
func (a *appender) Append(w appends.Writer, b []byte, late bool) unix.Errno {
	a.mu.Lock()
	defer a.mu.Unlock()
	if e, done := a.appendToOwn(w, b); done {
		return e
	}
	if e := a.followLocked(); e != 0 {
		return e
	}
	if e := a.judgeBatch(b); e != 0 {
		return e
	}
	if w.KillSuid {
		if e := a.killSuidLocked(w.UID, w.GID); e != 0 {
			return e
		}
	}
	ch := a.changes(opAppend)
	seq, err := a.tail.AppendAs(func(do func() error) error { return a.f.asUser(w.UID, w.GID, do) }, a.fd, b)
	if err != nil {
		return errnoOf(err)
	}
	a.tell(ch)
	if !late {
		a.usedKey = a.key
	}
	a.noteRecord(b)
	a.seq, a.unsynced = seq, true
	a.recordsSoonOnDisk()
	a.records++
	a.bytes += len(b)
	a.noteGrowth(len(b))
	a.tellKernel(late)
	return 0
}

// killSuidLocked takes the setuid and setgid bits from the file, whatever inode it has,
// after a change by a user with that group.
func (a *appender) killSuidLocked(uid, gid uint32) unix.Errno {
	f, n := a.f, a.h.n
	f.mu.Lock()
	if now := f.inodes[a.key]; now != nil {
		n = now
	}
	f.mu.Unlock()
	return errnoOf(f.killSuidOf(n, a.fd, func(g uint32) bool { return g == gid || uid == a.c.uid && a.c.inGroup(g) }))
}

// tellKernel makes the kernel look again at a file that has grown otherwise than
// by the WRITE to its node that is under way.
func (a *appender) tellKernel(late bool) {
	f := a.f
	f.mu.Lock()
	n := f.inodes[a.key]
	told := n == a.h.n && !late && len(n.nodes) == 1
	f.mu.Unlock()
	if n == nil || told || f.isOver() {
		return
	}
	f.forgetAttrs(n) // whoever asks next sees the record, as its writer expects
	var st unix.Stat_t
	if unix.Fstat(a.fd, &st) == nil {
		go f.notifyInode(n, max(0, st.Size-appends.MaxPending-appends.MaxLine), 0) // somebody may hold a page and wait for us
	}
}

// report puts what was appended since the last time into the audit trail: one
// event for each close, not for each line of a log.
func (a *appender) report() {
	a.mu.Lock()
	records, size := a.records, a.bytes
	a.records, a.bytes = 0, 0
	a.noteRest()
	a.mu.Unlock()
	if records == 0 {
		return
	}
	a.f.event(audit.Event{
		Time: time.Now(), Event: "commit", Path: a.f.nodePath(a.h.n), PID: a.c.owner.PID, Actor: a.f.actorOf(&label{c: a.c}),
		Detail: map[string]any{"operation": opAppend, "records": records, "bytes": size, "program": a.c.program(), "uid": a.c.uid},
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
	key := a.h.n.key
	if named && key != (inoKey{uint64(st.Dev), st.Ino}) && !a.isReplaced() {
		named = false
	}
	if named && a.fd >= 0 && a.key == (inoKey{uint64(st.Dev), st.Ino}) {
		a.named = true
		return 0
	}
	next := f.fdOf(a.h.n)
	if named {
		// Whoever changes the directory outside the mount may give the name to
		// another file at any time: what is asked about is what is written to.
		found, err := unix.Openat(f.fdOf(dir), name, unix.O_PATH|unix.O_NOFOLLOW|unix.O_CLOEXEC, 0)
		if err != nil {
			return errnoOf(err)
		}
		defer unix.Close(found)
		if named = a.mayFollow(found, &st); named {
			key, next = inoKey{uint64(st.Dev), st.Ino}, found
		}
	}
	if a.fd >= 0 && key == a.key {
		a.named = named
		return 0
	}
	fd, err := f.reopen(next, unix.O_RDWR|unix.O_APPEND|int(a.h.flags&(unix.O_SYNC|unix.O_DSYNC)))
	if err != nil {
		return errnoOf(err)
	}
	o := commit.TailOptions{FD: fd, Name: name}
	if dir != nil {
		o.DirPath = f.nodePath(dir)
	}
	tail, err := f.store.Tail(o)
	if err != nil {
		unix.Close(fd)
		return errnoOf(err)
	}
	e := a.leaveLocked()
	a.fd, a.key, a.tail, a.named = fd, key, tail, named
	f.mu.Lock()
	a.h.follows = key
	f.mu.Unlock()
	return e
}

// leaveLocked gives the file back that the appender has written to so far.
func (a *appender) leaveLocked() (e unix.Errno) {
	if a.fd < 0 {
		return 0
	}
	if a.unsynced && a.syncsAtClose() {
		e = errnoOf(a.tail.Sync(a.seq))
		a.unsynced = false
	}
	a.tail.Close()
	unix.Close(a.fd)
	a.fd, a.tail = -1, nil
	return e
}

// isReplaced reports whether another file took the place of the appender's own, as
// a careful save puts it there. After an unlink there is no successor, nor of a file
// that goes on under another name.
func (a *appender) isReplaced() bool {
	f := a.f
	f.mu.Lock()
	removed, replaced := a.h.n.removed, a.h.n.saved
	f.mu.Unlock()
	return !removed && (replaced || f.unnamed(a.h.n))
}

// mayFollow reports whether the appender goes on in the file behind fd, which has
// the name now: its own, or one that its opener may write, and read if that is how
// it opened. st becomes what that file is like.
func (a *appender) mayFollow(fd int, st *unix.Stat_t) bool {
	f := a.f
	if unix.Fstat(fd, st) != nil || st.Mode&unix.S_IFMT != unix.S_IFREG {
		return false
	}
	if a.h.n.key == (inoKey{uint64(st.Dev), st.Ino}) {
		return true
	}
	return a.isReplaced() && f.mayOpen(a.c, fd, a.h.flags)
}

// syncsAtClose reports whether a close makes durable what was appended.
func (a *appender) syncsAtClose() bool {
	return a.f.settings(a.f.nodePath(a.h.n)).Durability == policy.Full
}

// readFile is a descriptor to read and sync, which the caller closes. Who reads sees what
// he wrote.
func (a *appender) readFile() (int, unix.Errno) {
	a.queue.Flush()
	a.mu.Lock()
	defer a.mu.Unlock()
	if e := a.followLocked(); e != 0 {
		return -1, e
	}
	fd, err := unix.FcntlInt(uintptr(a.fd), unix.F_DUPFD_CLOEXEC, 0)
	return fd, errnoOf(err)
}

// sync makes what was appended durable, and the name of a file that was created
// for it.
func (a *appender) sync() unix.Errno {
	a.mu.Lock()
	tail, seq, fd, unsynced := a.tail, a.seq, a.fd, a.unsynced
	a.mu.Unlock()
	if tail == nil || !unsynced {
		return 0
	}
	err := tail.Sync(seq)
	if err == nil {
		err = a.f.syncName(a.h.n, fd)
	}
	if err != nil {
		a.f.log.Errorf("%q: %v: %v", a.f.nodePath(a.h.n), commit.ErrNotDurable, err)
		return unix.EIO
	}
	a.mu.Lock()
	defer a.mu.Unlock()
	a.unsynced = a.unsynced && (a.tail != tail || a.seq != seq)
	return 0
}

// syncName makes the name of a file durable that was created without that.
func (f *FS) syncName(n *inode, fd int) error {
	f.mu.Lock()
	dir, fresh := n.parent, n.fresh
	f.mu.Unlock()
	if !fresh || dir == nil {
		return nil
	}
	if err := f.store.SyncDir(f.fdOf(dir), fd); err != nil {
		return err
	}
	f.mu.Lock()
	defer f.mu.Unlock()
	n.fresh = n.parent != dir
	return nil
}

// fsync is fsync(2), or fdatasync(2), on an append descriptor.
func (f *FS) fsyncAppended(h *handle, data bool) unix.Errno {
	a := h.app
	if e := f.drain(h); e != 0 {
		return e
	}
	if e := cmp.Or(a.sync(), a.syncStored()); e != 0 {
		return e
	}
	a.mu.Lock()
	a.open = unfinished.Record{}
	a.mu.Unlock()
	fd, e := a.readFile()
	if e != 0 {
		return e
	}
	defer unix.Close(fd)
	if !data {
		if err := unix.Fsync(fd); err != nil {
			return errnoOf(err)
		}
	}
	return f.lostSince(h.n)
}

// close gives the appender's descriptor back.
func (a *appender) close() {
	a.mu.Lock()
	defer a.mu.Unlock()
	a.unsynced = false // who wanted to know was told
	a.noteUnmapped()
	a.leaveLocked()
}
