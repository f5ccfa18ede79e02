package fs

import (
	"slices"
	"time"

	"golang.org/x/sys/unix"

	"latchfs/fs/denied"
	"latchfs/fs/syscalls"
	"latchfs/lockmgr"
)

// This file is what the queue of an appender has to know of the file and of its writers.

// TryLock implements appends.End.
func (a *appender) TryLock() (unlock func(), err error) {
	l, err := a.f.acquire(a.demand(), true)
	if err != nil {
		return nil, err
	}
	return func() { a.f.table.Release(l) }, nil
}

// Lock implements appends.End. It also gives up when the mount ends.
func (a *appender) Lock(giveUp <-chan struct{}) (unlock func(), err error) {
	d := a.demand()
	d.label = a.c.label(opAppend, d.path)
	l, err := a.f.acquire(d, false)
	for err == nil {
		if err = a.awaitLock(l, giveUp); err != nil || a.f.covers(l, d) {
			break
		}
		a.f.table.Release(l)
		l, err = a.f.acquire(d, false)
	}
	if err != nil {
		return nil, err
	}
	return func() { a.f.table.Release(l) }, nil
}

// awaitLock waits for the lock without a caller: until it is granted, the
// closing program has waited long enough, or the mount ends.
func (a *appender) awaitLock(l *lockmgr.Lock, giveUp <-chan struct{}) error {
	var err error
	select {
	case <-l.Done():
		return l.Err()
	case <-giveUp:
		err = denied.ErrTimeout
	case <-a.f.done:
		err = denied.ErrShutdown
	}
	if !a.f.table.Cancel(l, err) && l.Held() {
		return nil
	}
	return err
}

// demand is the request for the lock of the file's name, or of the file that has none.
func (a *appender) demand() *demand {
	f := a.f
	c := a.c
	dir, name := f.nameOf(a.h.n)
	if dir == nil {
		return &demand{c: c, op: opAppend, mode: lockmgr.Exclusive, keys: []lockmgr.Key{f.inodeKey(a.h.n)}, wait: -1}
	}
	return f.fileDemand(c, opAppend, -1, place{dir, name, a.h.n})
}

// Errno implements appends.End.
func (a *appender) Errno(err error) unix.Errno { return lockErrno(err) }

// HoldsLine implements appends.End: whoever asks for the file's attributes has its own lines
// appended first.
func (a *appender) HoldsLine(holds bool) {
	n := a.h.n
	a.f.mu.Lock()
	if holds {
		n.lined = append(n.lined, a)
	} else {
		n.lined = slices.DeleteFunc(slices.Clone(n.lined), func(b *appender) bool { return a == b })
	}
	saved := n.saved
	a.f.mu.Unlock()
	if holds && saved {
		a.f.forgetFollowed(n)
	}
}

// Patience implements appends.End.
func (a *appender) Patience() time.Duration { return a.f.settings(a.f.nodePath(a.h.n)).Wait }

// IsWorking implements appends.End.
func (a *appender) IsWorking(tid uint32) bool {
	if tid == 0 {
		return false
	}
	if call, ok := a.f.proc.Syscall(tid); ok {
		return syscalls.Writes(call)
	}
	_, err := a.f.proc.Process(int32(tid))
	return err == nil
}
