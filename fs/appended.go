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
type appended struct {
	f *FS
	h *handle
	c *caller
}

var _ records.Host = appended{}

// place is the file's name; its dir is nil if it never had one.
func (is appended) place() place {
	dir, name := is.f.nodes.nameOf(is.h.n)
	return place{dir, name, is.h.n}
}

// Path implements records.Names.
func (is appended) Path() string { return is.f.nodes.nodePath(is.h.n) }

// Name implements records.Names.
func (is appended) Name() (dir int, name string, ok bool) {
	p := is.place()
	if p.dir == nil {
		return -1, "", false
	}
	return is.f.nodes.fdOf(p.dir), p.name, true
}

// Own implements records.Names.
func (is appended) Own() (fd int) { return is.f.nodes.fdOf(is.h.n) }

// IsReplaced implements records.Names. After an unlink there is no successor, nor of a file
// that goes on under another name.
func (is appended) IsReplaced() bool {
	f := is.f
	f.nodes.mu.Lock()
	removed, replaced := is.h.n.removed, is.h.n.saved
	f.nodes.mu.Unlock()
	return !removed && (replaced || f.nodes.unnamed(is.h.n))
}

// MayOpen implements records.Names.
func (is appended) MayOpen(fd int) bool { return is.f.callers.mayOpen(is.c, fd, is.h.flags) }

// Reopen implements records.Names.
func (is appended) Reopen(fd, flags int) (int, error) { return is.f.handles.reopen(fd, flags) }

// File implements records.Names.
func (is appended) File() proc.File { return is.f.ownLocks.procFile(is.h.n) }

// Tail implements records.Names.
func (is appended) Tail(fd int) (records.Tail, error) {
	p := is.place()
	o := commit.TailOptions{FD: fd, Name: p.name}
	if p.dir != nil {
		o.DirPath = is.f.nodes.nodePath(p.dir)
	}
	t, err := is.f.disk.store.Tail(o)
	if err != nil {
		return nil, err
	}
	return appendedTail{t, is}, nil
}

// appendedTail is the tail of that file, or of its successor.
type appendedTail struct {
	*commit.Tail
	is appended
}

// Append implements records.Tail.
func (t appendedTail) Append(w appends.Writer, fd int, b []byte) (seq uint64, err error) {
	return t.AppendAs(func(do func() error) error { return t.is.f.disk.asUser(w.UID, w.GID, do) }, fd, b)
}

// Appended implements records.Tail.
func (t appendedTail) Appended() {
	f, path := t.is.f, t.is.Path()
	if !f.names.isSoonOnDisk(path) {
		return
	}
	dir := t.is.place().dir
	if dir == nil {
		return // it goes with its last descriptor
	}
	if err := f.disk.store.RecordsSoon(t.Tail, dir.onDisk(), path); err != nil {
		f.disk.log.Debugf("%q: its records are on disk when the filesystem writes them: %v", path, err)
	}
}

// SyncsAtClose implements records.Names.
func (is appended) SyncsAtClose() bool {
	return is.f.rules.settings(is.Path()).Durability == policy.Full
}

// SyncName implements records.Names.
func (is appended) SyncName(fd int) error {
	f, n := is.f, is.h.n
	f.nodes.mu.Lock()
	dir, fresh := n.parent, n.fresh
	f.nodes.mu.Unlock()
	if !fresh || dir == nil {
		return nil
	}
	if err := f.disk.store.SyncDir(f.nodes.fdOf(dir), fd); err != nil {
		return err
	}
	f.nodes.mu.Lock()
	defer f.nodes.mu.Unlock()
	n.fresh = n.parent != dir
	return nil
}

// Rewrite implements records.Names. The journal has the file as it is to be before any of it is
// changed; a recovery finishes what does not come through at once.
func (is appended) Rewrite(target int, st *unix.Stat_t, fill func(to int) error) error {
	f, p := is.f, is.place()
	at := commit.PublishOptions{Dir: f.nodes.fdOf(p.dir), DirPath: f.nodes.nodePath(p.dir), Name: p.name, Base: versionPtr(st)}
	sh, err := f.disk.store.NewShadow(commit.ShadowOptions{Dir: at.Dir, DirPath: at.DirPath, Name: at.Name, Base: target, UID: -1, GID: -1})
	if err != nil {
		return err
	}
	defer f.disk.discard(sh)
	if err := f.recorder.retryWithRoom(func() error { return fill(sh.FD()) }); err != nil {
		return err
	}
	_, err = sh.InPlace(target, at)
	if errors.Is(err, commit.ErrRedoPending) {
		_, err = f.disk.store.Recover()
	}
	if errors.Is(err, commit.ErrNotDurable) {
		f.disk.log.Errorf("%q: %v", is.Path(), err)
		return nil
	}
	return err
}

// demand is the request for the lock of the file's name, or of the file that has none.
func (is appended) demand() *demand {
	p := is.place()
	if p.dir == nil {
		return &demand{c: is.c, op: opAppend, mode: lockmgr.Exclusive, keys: []lockmgr.Key{is.f.rules.inodeKey(is.h.n)}, wait: -1}
	}
	return is.f.txns.fileDemand(is.c, opAppend, -1, p)
}

// TryLock implements records.Locks.
func (is appended) TryLock() (token uint64, unlock func(), err error) {
	l, err := is.f.locks.acquire(is.demand(), true)
	if err != nil {
		return 0, nil, err
	}
	return l.Token(), func() { is.f.rules.table.Release(l) }, nil
}

// Lock implements records.Locks. It also gives up when the mount ends.
func (is appended) Lock(giveUp <-chan struct{}) (unlock func(), err error) {
	f, d := is.f, is.demand()
	d.label = is.c.label(opAppend, d.path)
	l, err := f.locks.acquire(d, false)
	for err == nil {
		if err = is.awaitLock(l, giveUp); err != nil || f.rules.covers(l, d) {
			break
		}
		f.rules.table.Release(l)
		l, err = f.locks.acquire(d, false)
	}
	if err != nil {
		return nil, err
	}
	return func() { f.rules.table.Release(l) }, nil
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
	case <-is.f.life.done:
		err = denied.ErrShutdown
	}
	if !is.f.rules.table.Cancel(l, err) && l.Held() {
		return nil
	}
	return err
}

// Errno implements records.Locks.
func (is appended) Errno(err error) unix.Errno { return lockErrno(err) }

// Patience implements records.Locks.
func (is appended) Patience() time.Duration { return is.f.rules.settings(is.Path()).Wait }
