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
	// deadlocked: it has met a deadlock, and asks for its lock where it parks.
	deadlocked bool

	// Guarded as the promise is.
	lock  *lockmgr.Lock // waiting, or held for the repeated call
	sess  *session      // where the walk is led
	node  *kernelNode   // where a walk without a session is led; pinned
	stale []*dentry     // At[0], once for each time that it counts as stale; by nodes.mu
	own   *session      // of the caller's own family, whose work it waits for before it asks for the lock
}

// walks are all threads between an ESTALE and the repeated call.
type walks = rewalk.Table[dkey, *walk]

// promise is what package rewalk keeps of a walk.
type promise = rewalk.Promise[dkey]

// rewalkEngine is the filesystem as package rewalk needs it.
type rewalkEngine struct{ f *FS }

var _ rewalk.Engine[*walk] = rewalkEngine{}

// Thread implements rewalk.Engine.
func (e rewalkEngine) Thread(tid uint32) (proc.Thread, error) {
	return e.f.callers.proc.Process(int32(tid)) // it does not wait for us
}

// Syscall implements rewalk.Engine.
func (e rewalkEngine) Syscall(tid uint32) (proc.Call, bool) { return e.f.callers.proc.Syscall(tid) }

// Entered implements rewalk.Engine. The attributes of directories in which the caller will
// park must not be cached meanwhile.
func (e rewalkEngine) Entered(w *walk) {
	f := e.f
	if len(w.dirs) == 0 && w.Op != opStale {
		return
	}
	f.nodes.mu.Lock()
	defer f.nodes.mu.Unlock()
	if w.Op == opStale {
		f.astray.staleLocked(w)
	}
	for _, d := range w.dirs {
		d.awaited++
		d.pins++
	}
}

// Left implements rewalk.Engine.
func (e rewalkEngine) Left(w *walk) {
	f := e.f
	if len(w.dirs) == 0 && w.Op != opStale && w.node == nil {
		return
	}
	f.nodes.mu.Lock()
	defer f.nodes.mu.Unlock()
	for _, d := range w.stale {
		d.State.stale--
		f.nodes.dentries.Put(d)
	}
	w.stale = nil
	if w.node != nil {
		w.node.pins--
		f.kernel.dropNodeLocked(w.node)
	}
	for _, d := range w.dirs {
		d.awaited--
		d.pins--
		f.nodes.reapLocked(d)
	}
}

// Abandon implements rewalk.Engine.
func (e rewalkEngine) Abandon(w *walk) { e.f.endings.dropWalk(w) }

// leadTo makes the session, which owns the walk's lock from now on, its target.
func (pk *parking) leadTo(w *walk, s *session) {
	pk.astray.walks.Update(w, func() { w.sess, w.lock = s, nil })
}

// walkToTwin is leadTo for a further node of an inode, which lookups do not lead to and
// the walk keeps.
func (pk *parking) walkToTwin(w *walk, n *inode) {
	pk.nodes.mu.Lock()
	pk.astray.staleLocked(w) // so that LOOKUP asks for the walk
	k := pk.kernel.newNodeLocked(n)
	k.aside, k.pins = true, 1
	pk.nodes.mu.Unlock()
	pk.astray.walks.Update(w, func() { w.node = k })
}

// leadToTwin leads a walk to a node of its own for a directory. The kernel marks the
// inode that rmdir(2) is sent for as dead, and lets nobody find or make anything in
// it any more; to others the directory is there as before.
func (pk *parking) leadToTwin(w *walk, dir *inode, name string) unix.Errno {
	fd, err := unix.Openat(pk.nodes.fdOf(dir), name, unix.O_PATH|unix.O_NOFOLLOW|unix.O_DIRECTORY|unix.O_CLOEXEC, 0)
	if err != nil {
		return errnoOf(err)
	}
	var st unix.Stat_t
	if err := unix.Fstat(fd, &st); err != nil {
		unix.Close(fd)
		return errnoOf(err)
	}
	pk.nodes.mu.Lock()
	n := pk.nodes.inodes[inoKey{uint64(st.Dev), st.Ino}]
	if n == nil {
		n = pk.nodes.newInodeLocked(fd, inoKey{uint64(st.Dev), st.Ino}, unix.S_IFDIR)
	} else {
		unix.Close(fd)
	}
	pk.nodes.setNameLocked(n, dir, name)
	n.pins++
	pk.nodes.mu.Unlock()
	pk.walkToTwin(w, n)
	pk.nodes.unpin(n)
	return 0
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
func (pk *parking) missing(c *caller, k dkey) {
	ends := func(op string) bool {
		call, known := c.Syscall()
		return op != opWait && op != opStale && !makesName(op) && (op != opOpen || known && !syscalls.Creates(call))
	}
	pk.astray.walks.Missed(c, k, ends)
	w := pk.astray.walks.Get(c)
	switch {
	case w == nil || w.At[0] != k:
	case ends(w.Op):
		pk.astray.walks.Drop(w)
	case w.Op == opOpen:
		pk.astray.walks.Hasten(c, w, func() bool { return w.sess == nil })
	}
}

// dropWalk gives back the lock or session of a removed walk, if there is one.
func (en *endings) dropWalk(w *walk) {
	if w == nil {
		return
	}
	if w.lock != nil {
		en.rules.table.Cancel(w.lock, denied.ErrInterrupted)
		en.rules.table.Release(w.lock)
	}
	if w.sess != nil {
		en.walkerGone(w.sess)
	}
}
