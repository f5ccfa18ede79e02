package fs

import (
	"errors"
	"time"

	"golang.org/x/sys/unix"

	"latchfs/fs/appends"
	"latchfs/fs/denied"
	"latchfs/fs/records"
	"latchfs/journal/commit"
	"latchfs/lockmgr"
	"latchfs/lockmgr/policy"
	"latchfs/lockmgr/proc"
)

// appended is the file of an append handle, which c has opened, as package records needs it.
type appended struct{ appendedName }

var _ records.Host = appended{}

// appendedName is the name of the file, and what may be done with the one that has it.
type appendedName struct {
	*appending
	h *handle
	c *caller
}

var _ records.Names = appendedName{}

// place is the file's name; its dir is nil if it never had one.
func (is appendedName) place() place {
	dir, name := is.nodes.nameOf(is.h.n)
	return place{dir, name, is.h.n}
}

// Path implements records.Names.
func (is appendedName) Path() string { return is.nodes.nodePath(is.h.n) }

// Name implements records.Names.
func (is appendedName) Name() (dir int, name string, ok bool) {
	p := is.place()
	if p.dir == nil {
		return -1, "", false
	}
	return is.nodes.fdOf(p.dir), p.name, true
}

// Own implements records.Names.
func (is appendedName) Own() (fd int) { return is.nodes.fdOf(is.h.n) }

// IsReplaced implements records.Names. After an unlink there is no successor, nor of a file
// that goes on under another name.
func (is appendedName) IsReplaced() bool {
	is.nodes.mu.Lock()
	removed, replaced := is.h.n.removed, is.h.n.saved
	is.nodes.mu.Unlock()
	return !removed && (replaced || is.nodes.unnamed(is.h.n))
}

// MayOpen implements records.Names.
func (is appendedName) MayOpen(fd int) bool { return is.c.MayOpen(fd, is.h.flags) }

// Reopen implements records.Names.
func (is appendedName) Reopen(fd, flags int) (int, error) { return is.handles.reopen(fd, flags) }

// File implements records.Names.
func (is appendedName) File() proc.File { return is.h.procFile() }

// Tail implements records.Names.
func (is appendedName) Tail(fd int) (records.Tail, error) {
	p := is.place()
	o := commit.TailOptions{FD: fd, Name: p.name}
	if p.dir != nil {
		o.DirPath = is.nodes.nodePath(p.dir)
	}
	t, err := is.disk.store.Tail(o)
	if err != nil {
		return nil, err
	}
	return appendedTail{t, is}, nil
}

// appendedTail is the tail of that file, or of its successor.
type appendedTail struct {
	*commit.Tail
	is appendedName
}

// Append implements records.Tail.
func (t appendedTail) Append(w appends.Writer, fd int, b []byte) (seq uint64, err error) {
	return t.AppendAs(func(do func() error) error { return t.is.disk.asUser(w.UID, w.GID, do) }, fd, b)
}

// Appended implements records.Tail.
func (t appendedTail) Appended() {
	path := t.is.Path()
	if !t.is.names.isSoonOnDisk(path) {
		return
	}
	dir := t.is.place().dir
	if dir == nil {
		return // it goes with its last descriptor
	}
	if err := t.is.disk.store.RecordsSoon(t.Tail, dir.onDisk(), path); err != nil {
		t.is.disk.log.Debugf("%q: its records are on disk when the filesystem writes them: %v", path, err)
	}
}

// SyncsAtClose implements records.Names.
func (is appendedName) SyncsAtClose() bool {
	return is.rules.settings(is.Path()).Durability == policy.Full
}

// SyncName implements records.Names.
func (is appendedName) SyncName(fd int) error {
	n := is.h.n
	is.nodes.mu.Lock()
	dir, fresh := n.parent, n.fresh
	is.nodes.mu.Unlock()
	if !fresh || dir == nil {
		return nil
	}
	if err := is.disk.store.SyncDir(is.nodes.fdOf(dir), fd); err != nil {
		return err
	}
	is.nodes.mu.Lock()
	defer is.nodes.mu.Unlock()
	n.fresh = n.parent != dir
	return nil
}

// Rewrite implements records.Names. The journal has the file as it is to be before any of it is
// changed; a recovery finishes what does not come through at once.
func (is appendedName) Rewrite(target int, st *unix.Stat_t, fill func(to int) error) error {
	p := is.place()
	at := commit.PublishOptions{Dir: is.nodes.fdOf(p.dir), DirPath: is.nodes.nodePath(p.dir), Name: p.name, Base: versionPtr(st)}
	sh, err := is.disk.store.NewShadow(commit.ShadowOptions{Dir: at.Dir, DirPath: at.DirPath, Name: at.Name, Base: target, UID: -1, GID: -1})
	if err != nil {
		return err
	}
	defer is.disk.discard(sh)
	if err := is.disk.retryWithRoom(func() error { return fill(sh.FD()) }); err != nil {
		return err
	}
	_, err = sh.InPlace(target, at)
	if errors.Is(err, commit.ErrRedoPending) {
		_, err = is.disk.store.Recover()
	}
	if errors.Is(err, commit.ErrNotDurable) {
		is.disk.log.Errorf("%q: %v", is.Path(), err)
		return nil
	}
	return err
}

// user is the process that writes through the descriptor, if that is another one than its
// opener; nil if it is not known, or in a transaction: of what is appended nothing is undone.
func (is appended) user(w appends.Writer) *caller {
	u := is.h.user.Load()
	if u == nil || u.Writer != w || is.callers.txnOf(u.c) != nil {
		return nil
	}
	return u.c
}

// noteUser finds out who sends a request by which the descriptor is used. Of anybody but the
// sender it must not be asked: that may be in execve(2), which would be waited for.
func (is appended) noteUser(h *Request, killSuid bool) appends.Writer {
	w := appends.Writer{Thread: h.TID, UID: h.UID, GID: h.GID, KillSuid: killSuid}
	if u := is.h.user.Load(); h.TID == is.c.TID() || !is.mayBeLocked() || u != nil && u.Writer == w && is.callers.proc.Alive(u.c.Owner()) {
		return w
	}
	if c := is.callers.callerOf(h); !c.Foreign() && c.Owner() != is.c.Owner() {
		is.h.user.Store(&writingUser{w, c})
	}
	return w
}

// mayBeLocked reports whether somebody may have a lock of the file's name that keeps others from
// appending for long: by a guard, or a session.
func (is appended) mayBeLocked() bool {
	p := is.place()
	return is.callers.ctl.Claims.Count() > 0 || p.dir != nil && is.nodes.sessionOn(is.h.n, p.dir, p.name) != nil
}

// writingUser is who has written through a descriptor.
type writingUser struct {
	appends.Writer
	c *caller
}

// demand is the caller's request for the lock of the file's name, or of the file that has none.
func (is appended) demand(c *caller) *demand {
	p := is.place()
	if p.dir == nil {
		return &demand{c: c, op: opAppend, lockTerms: lockTerms{mode: lockmgr.Exclusive}, keys: []lockmgr.Key{is.rules.inodeKey(is.h.n)}, wait: -1}
	}
	return is.locks.fileDemand(c, opAppend, -1, p)
}

// TryLock implements records.Locks.
func (is appended) TryLock(w appends.Writer) (token uint64, unlock func(), err error) {
	l, err := is.locks.acquire(is.demand(is.c), true)
	if err != nil {
		if by := is.user(w); by != nil {
			l, err = is.locks.acquire(is.demand(by), true)
		}
	}
	if err != nil {
		return 0, nil, err
	}
	return l.Token(), func() { is.rules.table.Release(l) }, nil
}

// Lock implements records.Locks. It also gives up when the mount ends.
func (is appended) Lock(w appends.Writer, giveUp <-chan struct{}) (unlock func(), err error) {
	if _, unlock, err := is.TryLock(w); err == nil {
		return unlock, nil
	}
	d := is.demand(is.c)
	d.label = labelOf(is.c, opAppend, d.path)
	l, err := is.locks.acquire(d, false)
	for err == nil {
		if err = is.awaitLock(l, giveUp); err != nil || is.rules.covers(l, d) {
			break
		}
		is.rules.table.Release(l)
		l, err = is.locks.acquire(d, false)
	}
	if err != nil {
		return nil, err
	}
	return func() { is.rules.table.Release(l) }, nil
}

// awaitLock waits for the lock without a caller: until it is granted, the
// closing program has waited long enough, or the mount ends.
func (is appended) awaitLock(l *lockmgr.Lock, giveUp <-chan struct{}) error {
	var err error
	select {
	case <-l.Done():
		return l.Err()
	case <-giveUp:
		err = denied.ErrTimeout
	case <-is.life.done:
		err = denied.ErrShutdown
	}
	if !is.rules.table.Cancel(l, err) && l.Held() {
		return nil
	}
	return err
}

// Errno implements records.Locks.
func (is appended) Errno(err error) unix.Errno { return lockErrno(err) }

// Patience implements records.Locks.
func (is appended) Patience() time.Duration { return is.rules.settings(is.Path()).Wait }
