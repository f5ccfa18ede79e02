package fs

import (
	"time"

	"golang.org/x/sys/unix"

	"latchfs/fs/denied"
	"latchfs/fs/rewalk"
	"latchfs/fs/syscalls"
	"latchfs/lockmgr"
	"latchfs/lockmgr/proc"
)

// This file says what threads are promised that walk their path again; which thread that
// is, and how long it holds, is package rewalk's.

// unparkedGrace is how long a repeated call that was not parked on its way
// may still wait: the kernel holds directory locks meanwhile.
const unparkedGrace = 10 * time.Millisecond

// walk is what one thread was promised when its system call was answered ESTALE: the kernel
// walks the path again and repeats the call once.
type walk struct {
	promise

	d       *demand
	dirs    []*inode               // directories in whose GETATTR the thread parks
	granted func(*walk) unix.Errno // run when the lock is granted, before the walk goes on
	from    *kernelNode            // opOpen: the node at which it was answered
	over    <-chan struct{}        // closed when the work of own is done

	// Guarded as the promise is.
	lock  *lockmgr.Lock // waiting, or held for the repeated call
	sess  *session      // where the walk is led
	node  *kernelNode   // the same of one without a session; pinned
	stale []*dentry     // At[0], once for each time that it counts as stale; by FS.mu
	own   *session      // of the caller's own family, whose work it waits for before it asks for the lock
}

// walks are all threads between an ESTALE and the repeated call.
type walks = rewalk.Table[dkey, *walk]

// promise is what package rewalk keeps of a walk.
type promise = rewalk.Promise[dkey]

// staleAt answers ESTALE to a caller who shall find another inode under n's
// name. It is remembered, because the kernel walks only once more.
func (f *FS) staleAt(c *caller, n *inode) unix.Errno {
	return f.staleUnder(c, f.nameKey(n))
}

// staleUnder is staleAt where it is known by which name the caller has come.
func (f *FS) staleUnder(c *caller, name dkey) unix.Errno {
	if name.dir != nil && c.tid != 0 {
		f.walks.Put(c, &walk{promise: promise{Op: opStale, At: [2]dkey{name}}})
	}
	return unix.ESTALE
}

// walkEngine is the filesystem as package rewalk needs it.
type walkEngine struct{ f *FS }

var _ rewalk.Engine[*walk] = walkEngine{}

// Thread implements rewalk.Engine.
func (e walkEngine) Thread(tid uint32) (proc.Thread, error) { return e.f.proc.Thread(tid) }

// Syscall implements rewalk.Engine.
func (e walkEngine) Syscall(tid uint32) (proc.Call, bool) { return e.f.proc.Syscall(tid) }

// Entered implements rewalk.Engine. The attributes of directories in which the caller will
// park must not be cached meanwhile.
func (e walkEngine) Entered(w *walk) {
	f := e.f
	if len(w.dirs) == 0 && w.Op != opStale {
		return
	}
	f.mu.Lock()
	defer f.mu.Unlock()
	if w.Op == opStale {
		f.staleLocked(w)
	}
	for _, d := range w.dirs {
		d.awaited++
		d.pins++
	}
}

// Left implements rewalk.Engine.
func (e walkEngine) Left(w *walk) {
	f := e.f
	if len(w.dirs) == 0 && w.Op != opStale && w.node == nil {
		return
	}
	f.mu.Lock()
	defer f.mu.Unlock()
	for _, d := range w.stale {
		d.State.stale--
		f.names.Put(d)
	}
	w.stale = nil
	if w.node != nil {
		w.node.pins--
		f.dropNodeLocked(w.node)
	}
	for _, d := range w.dirs {
		d.awaited--
		d.pins--
		f.reapLocked(d)
	}
}

// Abandon implements rewalk.Engine.
func (e walkEngine) Abandon(w *walk) { e.f.dropWalk(w) }

// staleLocked notes that the caller of w is on its way to the name again. FS.mu is held.
func (f *FS) staleLocked(w *walk) {
	if dir := w.At[0].knownDir(); dir != nil {
		d := f.names.Get(dir.dentry, w.At[0].name)
		d.State.stale++
		w.stale = append(w.stale, d)
	}
}

// leadTo makes the session, which owns the walk's lock from now on, its target.
func (f *FS) leadTo(w *walk, s *session) {
	f.walks.Update(w, func() { w.sess, w.lock = s, nil })
}

// walkToTwin is leadTo for a further node of an inode, which lookups do not lead to and
// the walk keeps.
func (f *FS) walkToTwin(w *walk, n *inode) {
	f.mu.Lock()
	f.staleLocked(w) // so that LOOKUP asks for the walk
	k := f.newNodeLocked(n)
	k.aside, k.pins = true, 1
	f.mu.Unlock()
	f.walks.Update(w, func() { w.node = k })
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
func (f *FS) missing(c *caller, k dkey) {
	w := f.walks.Get(c)
	if w == nil || w.At[0] != k || w.Op == opWait || w.Op == opStale || makesName(w.Op) {
		return
	}
	if call, known := c.Syscall(); w.Op != opOpen || known && !syscalls.Creates(call) {
		f.walks.Drop(w)
		return
	}
	f.walks.Hasten(c, w, func() bool { return w.sess == nil })
}
