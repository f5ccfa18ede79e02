package fs

import (
	"errors"
	"slices"
	"sync"
	"sync/atomic"
	"time"

	"golang.org/x/sys/unix"

	"latchfs/fs/denied"
	"latchfs/fs/syscalls"
	"latchfs/lockmgr"
)

// parking lets callers wait where the kernel holds no lock: it sends them back, and they wait
// on the way, when they come again. While the mount is being stopped it holds back what would
// begin a session.
type parking struct {
	otherWaits atomic.Uint64 // how many waits for something else than a lock have begun or ended
	nodeWaits  sync.Map      // of *nodeWait: those who wait for a node

	*ground
	endings  *endings
	locks    *locks
	recovery *recovery
	txns     *txns
}

// Waiting for a lock in a path operation.
//
// While the kernel sends RENAME, UNLINK, SETATTR and the like it holds the
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

// admit gets the lock for a path operation, at its one or two names. ESTALE means that the caller
// was told to walk again, and parks in the GETATTR of one of dirs; granted, if not nil, is run
// there once the lock is granted. The lock, if any, is the operation's to release.
func (pk *parking) admit(c *caller, op string, d *demand, at [2]dkey, dirs []*inode, granted func(*walk) unix.Errno) (*lockmgr.Lock, unix.Errno) {
	w := &walk{promise: promise{Op: op, At: at}, d: d, dirs: dirs, granted: granted}
	if old := pk.resume(d, at); old != nil {
		w.lock, d.label = old.lock, old.d.label
		return pk.toPark(c, w)
	}
	repeated := pk.astray.walks.Repeated(c)
	if old := pk.astray.walks.Take(c, op, at); old != nil && old.lock != nil {
		return pk.readmit(old)
	} else if old != nil {
		pk.endings.dropWalk(old)
	}
	if beginsSession(op) && pk.isHeldBack(c) || pk.life.isTimeUp() {
		return nil, pk.holdBackWalk(c, w, repeated)
	}
	if e := pk.mayAsk(c, w, repeated); e != 0 {
		return nil, e
	}
	return pk.ask(c, w, repeated)
}

// ask asks for the lock, and has a caller that has to wait for it walk again; repeated says that it
// has done so.
func (pk *parking) ask(c *caller, w *walk, repeated bool) (*lockmgr.Lock, unix.Errno) {
	d, op := w.d, w.Op
	l, err := pk.locks.acquire(d, true)
	if err == nil {
		if d.judge == nil || repeated || c.TID() == 0 || !pk.repeats(c, op) {
			return l, 0
		}
		w.lock = l
		return pk.sendBack(c, w)
	}
	walksAgain := c.TID() != 0 && pk.repeats(c, op)
	if !errors.Is(err, lockmgr.ErrWouldBlock) || d.wait == 0 || c.TID() != 0 && !walksAgain {
		if errors.Is(err, lockmgr.ErrWouldBlock) && d.wait != 0 {
			err = &denied.Error{Cause: denied.ErrNotNow, Holders: denied.Holders(err)}
		}
		return nil, pk.locks.refuse(d, err)
	}
	l, err = pk.locks.acquire(d, false)
	if errors.Is(err, lockmgr.ErrDeadlock) && !repeated && walksAgain {
		w.deadlocked = true // whether another thread ends it is seen where the kernel holds no lock
		return pk.sendBack(c, w)
	}
	if err != nil {
		return nil, pk.locks.refuse(d, err)
	}
	if l.Held() {
		return l, 0
	}
	w.lock = l
	if repeated || !walksAgain {
		// The kernel does not walk a third time, and a caller that cannot be told from
		// others is not parked; but a file that it has just closed itself is free soon.
		return pk.readmit(w)
	}
	return pk.toPark(c, w)
}

// mayAsk reports what keeps an operation from asking for its lock: what an error of the
// disk has left half done, or the work of a session of its own family.
func (pk *parking) mayAsk(c *caller, w *walk, repeated bool) unix.Errno {
	if pk.recovery.finishHalfDone() {
		if e := pk.txns.awaitsTxn(c, w.Op, w.d.places); e != 0 {
			return e
		}
	}
	return pk.waitForOwnWork(c, w, repeated)
}

// toPark sends the caller on its second walk, on which it parks, unless the lock was granted
// meanwhile.
func (pk *parking) toPark(c *caller, w *walk) (*lockmgr.Lock, unix.Errno) {
	if w.lock.Held() {
		return pk.checked(w)
	}
	return pk.sendBack(c, w)
}

// sendBack has the caller walk again, and stop on its way.
func (pk *parking) sendBack(c *caller, w *walk) (*lockmgr.Lock, unix.Errno) {
	pk.astray.walks.Put(c, w)
	for _, dir := range w.dirs {
		pk.kernel.forgetAttrs(dir)
	}
	return nil, unix.ESTALE
}

// readmit answers a repeated operation.
func (pk *parking) readmit(w *walk) (*lockmgr.Lock, unix.Errno) {
	if w.lock.Held() {
		return pk.checked(w)
	}
	// It was not parked on its way here, and we are under the kernel's locks.
	t := time.NewTimer(unparkedGrace)
	defer t.Stop()
	select {
	case <-w.lock.Done():
		if w.lock.Held() {
			return pk.checked(w)
		}
		return nil, pk.locks.refuse(w.d, w.lock.Err())
	case <-t.C:
		w.d.wait = unparkedGrace // for the report
		if err := pk.locks.waiting(w.d, nil).GiveUp(w.lock, denied.ErrTimeout); err != nil {
			return nil, pk.locks.refuse(w.d, err)
		}
		return pk.checked(w) // it was granted in the last moment
	}
}

// checked returns the walk's lock if that still covers what the demand is for; if not, the right
// one is asked for once, without a wait.
func (pk *parking) checked(w *walk) (*lockmgr.Lock, unix.Errno) {
	if w.d == nil || pk.locks.covers(w.lock, w.d) {
		return w.lock, 0
	}
	pk.rules.table.Release(w.lock)
	l, err := pk.locks.acquire(w.d, true)
	if err != nil {
		return nil, pk.locks.refuse(w.d, &denied.Error{Cause: denied.ErrNotNow, Holders: denied.Holders(err)})
	}
	return l, 0
}

// parkHere holds the reply to a GETATTR of dir back if the caller is on its
// way to repeat an operation that must wait.
func (pk *parking) parkHere(cancel <-chan struct{}, h *Request, dir *inode) unix.Errno {
	if h.TID == 0 {
		return 0
	}
	w := pk.astray.walks.Of(int32(h.TID))
	if w == nil || w.Op == opWait || !slices.Contains(w.dirs, dir) {
		return 0
	}
	c := pk.callers.callerOf(h)
	if pk.astray.walks.Get(c) != w || !pk.astray.walks.Park(w) {
		return 0
	}
	defer pk.astray.walks.Unpark(w)
	switch {
	case w.own != nil:
		if e := pk.lockAfterOwnWork(w, cancel); e != 0 {
			pk.astray.walks.Drop(w)
			return e
		}
	case w.deadlocked:
		if e := pk.lockAfterDeadlock(w, cancel); e != 0 {
			pk.astray.walks.Drop(w)
			return e
		}
	case w.lock == nil:
		e := pk.holdBack(w.d, cancel)
		pk.astray.walks.Drop(w) // an operation that may go on begins anew
		return e
	}
	w.d.patient = cancel
	l, e := pk.locks.await(w.lock, w.d, cancel)
	w.d.patient = nil
	pk.astray.walks.Parked(w, func() { w.lock = l })
	if e == 0 && w.granted != nil {
		e = w.granted(w)
	}
	if e == 0 && w.d.judge != nil {
		e = w.d.judge(w.d.label, cancel)
	}
	if e == 0 || !pk.astray.walks.Remove(w) {
		return e
	}
	// The verdict: the walk ends here and the operation is not repeated.
	if e == unix.EINTR && w.d.keep && w.lock != nil {
		pk.astray.walks.Put(c, &walk{promise: promise{Op: opWait, At: w.At}, d: w.d, lock: w.lock})
		return e
	}
	pk.endings.dropWalk(w)
	return e
}

// lockAfterDeadlock asks again for the lock of a walk that has met a deadlock, and as patiently
// as an open does: another thread of a program in the circle may end it.
func (pk *parking) lockAfterDeadlock(w *walk, cancel <-chan struct{}) unix.Errno {
	w.d.patient = cancel
	defer func() { w.d.patient = nil }()
	return pk.askLate(w)
}

// repeats reports whether the kernel will repeat the caller's system call
// after ESTALE.
func (pk *parking) repeats(c *caller, op string) bool {
	call, ok := c.Syscall()
	if !ok {
		return op != opBind
	}
	return syscalls.IsRepeated(call)
}

// isLed reports whether the caller's walk was led to the session's shadow.
func (pk *parking) isLed(c *caller, s *session) bool {
	w := pk.astray.walks.Get(c)
	return w != nil && w.sess == s
}

// lockOrResume is locks.lock for an open. One that has queued for the lock already goes on in its
// old place: on an earlier walk, which is w, or before a signal interrupted it.
func (pk *parking) lockOrResume(d *demand, at [2]dkey, w *walk, cancel <-chan struct{}) (*lockmgr.Lock, unix.Errno) {
	c := d.c
	var l *lockmgr.Lock
	d.patient = cancel
	d.keep = c.TID() != 0 && d.wait != 0
	if w == nil {
		w = pk.resume(d, at)
	}
	if w != nil {
		l = w.lock
		if w.d != nil {
			d.label = w.d.label
		}
	}
	if l == nil {
		var err error
		if l, err = pk.locks.acquireOrClosed(d, d.wait == 0); err != nil {
			return nil, pk.locks.refuse(d, err)
		}
	}
	l, e := pk.locks.await(l, d, cancel)
	if e == 0 {
		return l, 0
	}
	if e == unix.EINTR && d.keep {
		pk.astray.walks.Put(c, &walk{promise: promise{Op: opWait, At: at}, d: d, lock: l})
	}
	return nil, e
}

// resume takes up the place in the queue that the caller left because of a signal. A
// demand that keeps no place is not the interrupted one, tried again: the place is
// given back, for nobody else knows of it.
func (pk *parking) resume(d *demand, at [2]dkey) *walk {
	w := pk.astray.walks.PlaceOf(d.c, at)
	if w == nil || d.keep {
		return w
	}
	pk.endings.dropWalk(w)
	return nil
}
