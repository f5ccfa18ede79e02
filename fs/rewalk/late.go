package rewalk

import (
	"errors"
	"maps"
	"time"

	"latchfs/lockmgr/proc"
)

// lateFor bounds how long a thread counts as late of which nobody can see whether its system
// call is over, because it is running or waits for a processor.
const lateFor = time.Minute

// lateThread is a thread in a system call that was told to walk again, and for which nothing is
// reserved any more.
type lateThread[P comparable] struct {
	start uint64
	call  proc.Call
	op    string // what was promised, on which name first
	name  P
	since time.Time
}

// IsLate reports whether the caller's system call was told to walk again so long ago that
// nothing is reserved for it any more.
func (t *Table[P, W]) IsLate(c Thread) bool {
	return t.isLate(c, func(*lateThread[P]) bool { return true })
}

// AnyLate reports cheaply whether a thread is late at all.
func (t *Table[P, W]) AnyLate() bool { return t.lags.Load() > 0 }

// isLate is IsLate of those of whom something else is so, too.
func (t *Table[P, W]) isLate(c Thread, is func(l *lateThread[P]) bool) bool {
	tid, start := c.Thread()
	if tid == 0 || !t.AnyLate() {
		return false
	}
	call, known := c.Syscall()
	t.mu.Lock()
	defer t.mu.Unlock()
	l, late := t.late[tid]
	return late && known && l.start == start && l.call == call && is(&l)
}

// Answered notes that a request was answered to which a walk of the thread has led. If it was
// late, it has come: the next system call like this one was not told to walk again.
func (t *Table[P, W]) Answered(tid uint32) {
	if !t.AnyLate() {
		return
	}
	t.mu.Lock()
	defer t.mu.Unlock()
	t.forgetLateLocked(int32(tid))
}

// Missed notes that the caller has found a name to be gone. If it was late with an operation on
// that, which ends then, no request comes any more.
func (t *Table[P, W]) Missed(c Thread, name P, ends func(op string) bool) {
	if t.isLate(c, func(l *lateThread[P]) bool { return l.name == name && ends(l.op) }) {
		tid, _ := c.Thread()
		t.Answered(uint32(tid))
	}
}

// noteLateLocked notes that the thread of a promise is late, if its system call could be seen:
// any other cannot be told from the next. mu is held.
func (t *Table[P, W]) noteLateLocked(p *Promise[P], now time.Time) {
	if p.Op == Wait || p.call == (proc.Call{}) {
		return
	}
	t.late[p.tid] = lateThread[P]{p.start, p.call, p.Op, p.At[0], now}
	t.lags.Store(int32(len(t.late)))
}

// forgetLateLocked forgets that a thread is late. mu is held.
func (t *Table[P, W]) forgetLateLocked(tid int32) {
	delete(t.late, tid)
	t.lags.Store(int32(len(t.late)))
}

// sweepLate forgets the late threads whose system calls are over.
func (t *Table[P, W]) sweepLate(now time.Time) {
	t.mu.Lock()
	all := maps.Clone(t.late)
	t.mu.Unlock()
	for tid, l := range all {
		th, err := t.engine.Thread(uint32(tid))
		over := err != nil && !errors.Is(err, proc.ErrBusy) || err == nil && th.Start != l.start
		call, known := t.engine.Syscall(uint32(tid))
		if !over && (known && call == l.call || !known && now.Sub(l.since) < lateFor) {
			continue
		}
		t.mu.Lock()
		if t.late[tid] == l {
			t.forgetLateLocked(tid)
		}
		t.mu.Unlock()
	}
}
