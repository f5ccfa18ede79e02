package fs

import (
	"errors"
	"slices"
	"time"

	"golang.org/x/sys/unix"

	"latchfs/fs/denied"
	"latchfs/fs/syscalls"
	"latchfs/lockmgr"
)

// Waiting for a lock in a path operation.
//
// While the kernel sends RENAME, UNLINK, SETATTR and their kin it holds the
// locks of the directories and inodes concerned. A handler that waited there
// would stop the holder of the lock from ever closing its file. So a
// conflicting operation queues for the lock, makes the kernel forget the
// attributes of the directories it walked, and answers ESTALE. The kernel
// walks the path again, and asks GETATTR for those directories without holding
// anything: there the reply is held back until the wait is over. The repeated
// operation then finds its lock, or a verdict.

// place is a name that an operation changes, and the inode it names, if any.
type place struct {
	dir   *inode
	name  string
	inode *inode
}

func (p place) key() dkey { return dkey{p.dir, p.name} }

// admit gets the locks for a path operation. ESTALE means that the caller has
// been told to come back; the lock, if any, is the operation's to release.
func (f *FS) admit(c *caller, op string, d *demand, at [2]dkey, dirs []*inode, granted func(*walk) unix.Errno) (*lockmgr.Lock, unix.Errno) {
	w := &walk{promise: promise{Op: op, At: at}, d: d, dirs: dirs, granted: granted}
	if old := f.resume(d, at); old != nil {
		w.lock, d.label = old.lock, old.d.label
		return f.toPark(c, w)
	}
	repeated := f.walks.Repeated(c)
	if old := f.walks.Take(c, op, at); old != nil && old.lock != nil {
		return f.readmit(old)
	} else if old != nil {
		f.dropWalk(old)
	}
	if beginsSession(op) && f.isHeldBack(c) || f.isStopped() {
		return nil, f.holdBackWalk(c, w, repeated)
	}
	if e := f.mayAsk(c, w, repeated); e != 0 {
		return nil, e
	}
	l, err := f.acquire(d, true)
	if err == nil {
		if d.judge == nil || repeated || c.tid == 0 || !f.repeats(c, op) {
			return l, 0
		}
		w.lock = l
		return f.sendBack(c, w)
	}
	walksAgain := c.tid != 0 && f.repeats(c, op)
	if !errors.Is(err, lockmgr.ErrWouldBlock) || d.wait == 0 || c.tid != 0 && !walksAgain {
		if errors.Is(err, lockmgr.ErrWouldBlock) && d.wait != 0 {
			err = &denied.Error{Cause: denied.ErrNotNow, Holders: denied.Holders(err)}
		}
		return nil, f.refuse(d, err)
	}
	l, err = f.acquire(d, false)
	if err != nil {
		return nil, f.refuse(d, err)
	}
	if l.Held() {
		return l, 0
	}
	w.lock = l
	if repeated || !walksAgain {
		// The kernel does not walk a third time; and who cannot be told from others
		// is not parked, but the file that it has itself just closed will be free soon.
		return f.readmit(w)
	}
	return f.toPark(c, w)
}

// mayAsk reports what keeps an operation from asking for its lock: what an error of the
// disk has left half done, or the work of a session of its own family.
func (f *FS) mayAsk(c *caller, w *walk, repeated bool) unix.Errno {
	if f.finishHalfDone() {
		if e := f.awaitsTxn(c, w.Op, w.d.places); e != 0 {
			return e
		}
	}
	return f.waitForOwnWork(c, w, repeated)
}

// toPark sends the caller on its second walk, where it parks.
func (f *FS) toPark(c *caller, w *walk) (*lockmgr.Lock, unix.Errno) {
	if w.lock.Held() {
		return f.checked(w)
	}
	return f.sendBack(c, w)
}

// sendBack has the caller walk again, and stop on its way.
func (f *FS) sendBack(c *caller, w *walk) (*lockmgr.Lock, unix.Errno) {
	f.walks.Put(c, w)
	for _, dir := range w.dirs {
		f.forgetAttrs(dir)
	}
	return nil, unix.ESTALE
}

// readmit answers a repeated operation.
func (f *FS) readmit(w *walk) (*lockmgr.Lock, unix.Errno) {
	if w.lock.Held() {
		return f.checked(w)
	}
	// It was not parked on its way here, and we are under the kernel's locks.
	t := time.NewTimer(unparkedGrace)
	defer t.Stop()
	select {
	case <-w.lock.Done():
		if w.lock.Held() {
			return f.checked(w)
		}
		return nil, f.refuse(w.d, w.lock.Err())
	case <-t.C:
		w.d.wait = unparkedGrace // for the report
		if err := w.d.waiting(nil).GiveUp(w.lock, denied.ErrTimeout); err != nil {
			return nil, f.refuse(w.d, err)
		}
		return f.checked(w) // it was granted in the last moment
	}
}

// checked returns the walk's lock if it is the right one still; if not, there is
// one attempt to get that.
func (f *FS) checked(w *walk) (*lockmgr.Lock, unix.Errno) {
	if w.d == nil || f.covers(w.lock, w.d) {
		return w.lock, 0
	}
	f.table.Release(w.lock)
	l, err := f.acquire(w.d, true)
	if err != nil {
		return nil, f.refuse(w.d, &denied.Error{Cause: denied.ErrNotNow, Holders: denied.Holders(err)})
	}
	return l, 0
}

// parkHere holds the reply to a GETATTR of dir back if the caller is on its
// way to repeat an operation that must wait.
func (f *FS) parkHere(cancel <-chan struct{}, h *Request, dir *inode) unix.Errno {
	if h.TID == 0 {
		return 0
	}
	w := f.walks.Of(int32(h.TID))
	if w == nil || w.Op == opWait || !slices.Contains(w.dirs, dir) {
		return 0
	}
	c := f.callerOf(h)
	if f.walks.Get(c) != w || !f.walks.Park(w) {
		return 0
	}
	defer f.walks.Unpark(w)
	switch {
	case w.own != nil:
		if e := f.lockAfterOwnWork(w, cancel); e != 0 {
			f.walks.Drop(w)
			return e
		}
	case w.lock == nil:
		e := f.holdBack(w.d, cancel)
		f.walks.Drop(w) // an operation that may go on begins anew
		return e
	}
	l, e := f.await(w.lock, w.d, cancel)
	f.walks.Parked(w, func() { w.lock = l })
	if e == 0 && w.granted != nil {
		e = w.granted(w)
	}
	if e == 0 && w.d.judge != nil {
		e = w.d.judge(w.d.label, cancel)
	}
	if e == 0 || !f.walks.Remove(w) {
		return e
	}
	// The verdict: the walk ends here and the operation is not repeated.
	if e == unix.EINTR && w.d.keep && w.lock != nil {
		f.walks.Put(c, &walk{promise: promise{Op: opWait, At: w.At}, d: w.d, lock: w.lock})
		return e
	}
	f.dropWalk(w)
	return e
}

// repeats reports whether the kernel will repeat the caller's system call
// after ESTALE.
func (f *FS) repeats(c *caller, op string) bool {
	call, ok := c.Syscall()
	if !ok {
		return op != opBind
	}
	return syscalls.IsRepeated(call)
}
