package fs

import (
	"errors"
	"sync"
	"sync/atomic"
	"time"

	"golang.org/x/sys/unix"

	"latchfs/lockmgr"
	"latchfs/lockmgr/proc"
)

// walkGrace bounds how long what was prepared for a repeated system call
// survives when the call is not repeated.
const walkGrace = 5 * time.Second

// unparkedGrace is how long a repeated call that was not parked on its way
// may still wait: the kernel holds directory locks meanwhile.
const unparkedGrace = 10 * time.Millisecond

// walk is what one thread was promised when its system call was answered
// ESTALE: the kernel walks the path again and repeats the call once. It is
// known by thread id and start time, operation and names.
type walk struct {
	tid   int32
	start uint64
	op    string
	at    [2]dkey

	// Guarded by walks.mu.
	d       *demand
	lock    *lockmgr.Lock     // waiting, or held for the repeated call
	dirs    []*node           // directories in whose GETATTR the thread parks
	parked  bool              // the thread waits in a GETATTR, or has done so
	busy    bool              // a request of the thread is working on the walk
	sess    *session          // where the walk is led
	looked  bool              // a LOOKUP led it there
	from    *node             // opOpen: the node at which it was answered
	call    proc.Call         // the system call, if it is known
	again   bool              // a signal ended it while it was parked
	granted func() unix.Errno // run when the lock is granted, before the walk goes on
	since   time.Time
	until   time.Time
}

// walks are all threads between an ESTALE and the repeated call.
type walks struct {
	f  *FS
	n  atomic.Int32
	mu sync.Mutex
	m  map[int32]*walk
	// wake starts the sweeper, which drops entries of dead threads.
	wake chan struct{}
}

func newWalks(f *FS) *walks {
	return &walks{f: f, m: map[int32]*walk{}, wake: make(chan struct{}, 1)}
}

// any reports cheaply whether there is an entry at all.
func (ws *walks) any() bool { return ws.n.Load() > 0 }

// put enters w, replacing what the thread may have left behind.
func (ws *walks) put(w *walk) {
	w.since = time.Now()
	w.until = w.since.Add(walkGrace)
	w.call, _ = ws.f.proc.Syscall(uint32(w.tid))
	ws.mu.Lock()
	old := ws.m[w.tid]
	ws.m[w.tid] = w
	if old == nil {
		ws.n.Add(1)
	}
	ws.mu.Unlock()
	ws.f.await1(w, +1)
	if old != nil {
		ws.f.dropWalk(old)
	}
	select {
	case ws.wake <- struct{}{}:
	default:
	}
}

// get returns the entry of the calling thread, nil if there is none. An entry
// of an earlier thread with the same id is dropped.
func (ws *walks) get(c *caller) *walk {
	if c.tid == 0 || !ws.any() {
		return nil
	}
	ws.mu.Lock()
	w := ws.m[c.tid]
	ws.mu.Unlock()
	if w == nil {
		return nil
	}
	if w.start != c.start {
		ws.drop(w)
		return nil
	}
	return w
}

// take removes and returns the caller's entry for op on the names; an entry
// for something else is of an abandoned call and dropped.
func (ws *walks) take(c *caller, op string, at [2]dkey) *walk {
	w := ws.get(c)
	if w == nil {
		return nil
	}
	if w.op != op || w.at != at {
		ws.drop(w)
		return nil
	}
	if !ws.remove(w) {
		return nil
	}
	return w
}

// repeated reports whether the caller's system call was told to walk again
// already, as far as that can be seen before its names are compared: they may
// lead elsewhere the second time.
func (ws *walks) repeated(c *caller) bool {
	w := ws.get(c)
	if w == nil {
		return false
	}
	call, ok := ws.f.proc.Syscall(uint32(c.tid))
	known := ok && w.call != (proc.Call{})
	same := w.call == call
	if !known {
		same = time.Since(w.since) < staleGrace // the kernel repeats it at once
	}
	if w.op == opStale && !ws.remove(w) {
		return false
	}
	return same
}

// staleGrace is how long a caller who was merely told to walk again is expected.
const staleGrace = 200 * time.Millisecond

// staleAt answers ESTALE to a caller who shall find another inode under n's
// name. It is remembered, because the kernel walks only once more.
func (f *FS) staleAt(c *caller, n *node) unix.Errno {
	if dir, name := f.nameOf(n); dir != nil && c.tid != 0 {
		f.walks.put(&walk{tid: c.tid, start: c.start, op: opStale, at: [2]dkey{{dir.id, name}}})
		f.walks.expire(c.tid, staleGrace)
	}
	return unix.ESTALE
}

// has reports whether the caller's entry is for op on the names: its system call
// is being repeated.
func (ws *walks) has(c *caller, op string, at [2]dkey) bool {
	w := ws.get(c)
	return w != nil && w.op == op && w.at == at
}

// remove takes w out of the table; false if somebody else did.
func (ws *walks) remove(w *walk) bool {
	ws.mu.Lock()
	if ws.m[w.tid] != w {
		ws.mu.Unlock()
		return false
	}
	delete(ws.m, w.tid)
	ws.n.Add(-1)
	ws.mu.Unlock()
	ws.f.await1(w, -1)
	return true
}

// drop removes w and gives back what was reserved for it.
func (ws *walks) drop(w *walk) {
	if ws.remove(w) {
		ws.f.dropWalk(w)
	}
}

// await1 counts callers that will park in the directories of w, whose
// attributes must not be cached meanwhile.
func (f *FS) await1(w *walk, by int) {
	if len(w.dirs) == 0 && w.op != opStale {
		return
	}
	f.mu.Lock()
	if w.op == opStale {
		f.nameStateLocked(w.at[0]).stale += by
		f.gcNameLocked(w.at[0])
	}
	for _, d := range w.dirs {
		d.awaited += by
		d.pins += by
		if by < 0 {
			f.reapLocked(d)
		}
	}
	f.mu.Unlock()
}

// dropWalk gives back the lock or session of a removed walk.
func (f *FS) dropWalk(w *walk) {
	if w.lock != nil {
		f.table.Cancel(w.lock, errInterrupted)
		f.table.Release(w.lock)
	}
	if w.sess != nil {
		w.sess.walkerGone()
	}
}

// sweep drops the entries of threads that are gone and of calls that were
// never repeated. It runs while there are entries.
func (ws *walks) sweep() {
	t := time.NewTicker(25 * time.Millisecond)
	defer t.Stop()
	for {
		select {
		case <-ws.f.done:
			return
		case <-ws.wake:
		}
		for ws.any() {
			select {
			case <-ws.f.done:
				return
			case <-t.C:
			}
			ws.sweepOnce(time.Now())
		}
	}
}

func (ws *walks) sweepOnce(now time.Time) {
	ws.mu.Lock()
	all := make([]*walk, 0, len(ws.m))
	for _, w := range ws.m {
		if !w.busy {
			all = append(all, w)
		}
	}
	ws.mu.Unlock()
	for _, w := range all {
		th, err := ws.f.proc.Thread(uint32(w.tid))
		gone := err != nil && !errors.Is(err, proc.ErrBusy) || err == nil && th.Start != w.start
		ws.mu.Lock()
		late := now.After(w.until) && !w.busy
		ws.mu.Unlock()
		if gone || late {
			ws.drop(w)
		}
	}
}

// setBusy marks that a request works on w, so that the sweeper leaves it.
func (ws *walks) setBusy(w *walk, busy bool) bool {
	ws.mu.Lock()
	defer ws.mu.Unlock()
	if ws.m[w.tid] != w || (busy && w.busy) {
		return false
	}
	w.busy = busy
	w.until = time.Now().Add(walkGrace)
	return true
}

// missingGrace is how long a name that is gone stays reserved for a thread that
// has just found that out: if it creates the file, it does so at once.
const missingGrace = 200 * time.Millisecond

// hurry shortens the life of the thread's entry on a name that is gone.
func (ws *walks) hurry(tid uint32, k dkey) {
	ws.mu.Lock()
	defer ws.mu.Unlock()
	w := ws.m[int32(tid)]
	if w == nil || w.at[0] != k || w.sess != nil {
		return
	}
	if soon := time.Now().Add(missingGrace); soon.Before(w.until) {
		w.until = soon
	}
}

// expire bounds the life of the thread's entry.
func (ws *walks) expire(tid int32, in time.Duration) {
	ws.mu.Lock()
	defer ws.mu.Unlock()
	if w := ws.m[tid]; w != nil {
		w.until = time.Now().Add(in)
	}
}
