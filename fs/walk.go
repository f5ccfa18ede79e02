package fs

import (
	"sync"
	"sync/atomic"
	"time"

	"golang.org/x/sys/unix"

	"latchfs/fs/denied"
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
	lock    *lockmgr.Lock          // waiting, or held for the repeated call
	dirs    []*inode               // directories in whose GETATTR the thread parks
	parked  bool                   // the thread waits in a GETATTR, or has done so
	busy    bool                   // a request of the thread is working on the walk
	sess    *session               // where the walk is led
	node    *kernelNode            // the same of one without a session; pinned
	stale   []*dentry              // at[0], once for each time that it counts as stale; by FS.mu
	looked  bool                   // the name was looked up since
	own     *session               // of the caller's own family, whose work it waits for before it asks for the lock
	over    <-chan struct{}        // closed when that is done
	from    *kernelNode            // opOpen: the node at which it was answered
	call    proc.Call              // the system call, if it is known
	granted func(*walk) unix.Errno // run when the lock is granted, before the walk goes on
	since   time.Time
	until   time.Time
}

// walks are all threads between an ESTALE and the repeated call.
type walks struct {
	f  *FS
	n  atomic.Int32
	mu sync.Mutex // guards m
	m  map[int32]*walk
	// wake starts the sweeper, which drops entries of dead threads.
	wake chan struct{}
}

func newWalks(f *FS) *walks {
	return &walks{f: f, m: map[int32]*walk{}, wake: make(chan struct{}, 1)}
}

// any reports cheaply whether there is an entry at all.
func (ws *walks) any() bool { return ws.n.Load() > 0 }

// put enters w for the caller's system call, replacing what the thread may have
// left behind.
func (ws *walks) put(c *caller, w *walk) {
	w.tid, w.start = c.tid, c.start
	w.call, _ = c.syscall()
	w.since = time.Now()
	w.until = w.since.Add(walkGrace)
	if w.op == opWait {
		w.until = w.since.Add(retryGrace)
	}
	if w.op == opStale && w.call == (proc.Call{}) {
		w.until = w.since.Add(staleGrace) // otherwise the sweeper sees that the call is over
	}
	ws.mu.Lock()
	old := ws.m[w.tid]
	ws.m[w.tid] = w
	if old == nil {
		ws.n.Add(1)
	}
	ws.mu.Unlock()
	ws.f.countParked(w, +1)
	if old != nil {
		ws.f.countParked(old, -1)
		ws.f.dropWalk(old)
	}
	select {
	case ws.wake <- struct{}{}:
	default:
	}
}

// get returns the entry of the calling thread, nil if there is none. An entry
// of an earlier thread with the same id, or of an earlier system call, is
// dropped: a promise is for one call. Only the place in a queue that a signal
// interrupted (opWait) is for a later one.
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
	if w.start != c.start || w.op != opWait && w.isOver(c.syscall()) {
		ws.drop(w)
		return nil
	}
	return w
}

// isOver reports whether a thread that is in the system call now has left the
// one for which the entry was made.
func (w *walk) isOver(now proc.Call, known bool) bool {
	return known && w.call != (proc.Call{}) && w.call != now
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
	if w == nil || w.op == opWait {
		return false // that one was ended, not repeated
	}
	if w.op == opStale && !ws.remove(w) {
		return false
	}
	if _, known := c.syscall(); known && w.call != (proc.Call{}) {
		return true
	}
	return time.Since(w.since) < staleGrace // the kernel repeats it at once
}

// staleGrace is how long a caller who was merely told to walk again is expected.
const staleGrace = 200 * time.Millisecond

// staleAt answers ESTALE to a caller who shall find another inode under n's
// name. It is remembered, because the kernel walks only once more.
func (f *FS) staleAt(c *caller, n *inode) unix.Errno {
	if dir, name := f.nameOf(n); dir != nil && c.tid != 0 {
		f.walks.put(c, &walk{op: opStale, at: [2]dkey{{dir, name}}})
	}
	return unix.ESTALE
}

// placeOf removes and returns the place in a queue that the caller left because
// of a signal, if it is for this name.
func (ws *walks) placeOf(c *caller, at [2]dkey) *walk {
	w := ws.get(c)
	if w == nil || w.op != opWait || w.at != at || !ws.remove(w) {
		return nil
	}
	return w
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
	ws.f.countParked(w, -1)
	return true
}

// drop removes w and gives back what was reserved for it.
func (ws *walks) drop(w *walk) {
	if ws.remove(w) {
		ws.f.dropWalk(w)
	}
}

// countParked counts callers that will park in the directories of w, whose
// attributes must not be cached meanwhile.
func (f *FS) countParked(w *walk, by int) {
	if len(w.dirs) == 0 && w.op != opStale && w.node == nil {
		return
	}
	f.mu.Lock()
	switch {
	case by < 0:
		for _, d := range w.stale {
			d.State.stale--
			f.names.Put(d)
		}
		w.stale = nil
		if w.node != nil {
			w.node.pins--
			f.dropNodeLocked(w.node)
		}
	case w.op == opStale:
		f.staleLocked(w)
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

// staleLocked notes that the caller of w is on its way to the name again. FS.mu is held.
func (f *FS) staleLocked(w *walk) {
	if dir := w.at[0].knownDir(); dir != nil {
		d := f.names.Get(dir.dentry, w.at[0].name)
		d.State.stale++
		w.stale = append(w.stale, d)
	}
}

// lookedUp notes that a thread has looked a name up, whatever that led to: who then
// opens a file that has just lost this name did not come by a descriptor.
func (ws *walks) lookedUp(tid uint32, k dkey) {
	if !ws.any() {
		return
	}
	ws.mu.Lock()
	defer ws.mu.Unlock()
	if w := ws.m[int32(tid)]; w != nil && w.at[0] == k {
		w.looked = true
	}
}

// leadTo makes the session, which owns the walk's lock from now on, its target.
func (ws *walks) leadTo(w *walk, s *session) {
	ws.mu.Lock()
	defer ws.mu.Unlock()
	w.sess, w.lock = s, nil
}

// leadToTwin is leadTo for a further node of an inode, which lookups do not lead to and
// the walk keeps.
func (ws *walks) leadToTwin(w *walk, n *inode) {
	f := ws.f
	f.mu.Lock()
	f.staleLocked(w) // so that LOOKUP asks for the walk
	k := f.newNodeLocked(n)
	k.aside, k.pins = true, 1
	f.mu.Unlock()
	ws.mu.Lock()
	w.node = k
	ws.mu.Unlock()
}

// dropWalk gives back the lock or session of a removed walk, if there is one.
func (f *FS) dropWalk(w *walk) {
	if w == nil {
		return
	}
	if w.lock != nil {
		f.table.Cancel(w.lock, denied.ErrInterrupted)
		f.table.Release(w.lock)
	}
	if w.sess != nil {
		w.sess.walkerGone()
	}
}

// missingGrace is how long a name that is gone stays reserved for a thread that
// has just found that out: if it creates the file, it does so at once.
const missingGrace = 200 * time.Millisecond

// makesName reports whether an operation wants its first name to be free.
func makesName(op string) bool {
	switch op {
	case opLink, opMkdir, opSymlink, opMknod, opBind:
		return true
	}
	return false
}

// missing notes that the thread found a name to be gone. That ends its system
// call, unless the call creates the name, which it does at once.
func (ws *walks) missing(c *caller, k dkey) {
	w := ws.get(c)
	if w == nil || w.at[0] != k || w.op == opWait || w.op == opStale || makesName(w.op) {
		return
	}
	call, known := c.syscall()
	if w.op != opOpen || known && !creates(call) {
		ws.drop(w)
		return
	}
	if known && w.call == call {
		return // the sweeper sees when the call is over, however long it takes to create
	}
	ws.mu.Lock()
	defer ws.mu.Unlock()
	if soon := time.Now().Add(missingGrace); w.sess == nil && soon.Before(w.until) {
		w.until = soon
	}
}
