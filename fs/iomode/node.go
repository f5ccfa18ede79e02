package iomode

import "sync"

// Node keeps the opens of one kernel node within the kernel's rules. The zero Node has no opens
// and no backing file. Its methods may be called from any goroutine.
type Node struct {
	mu     sync.Mutex // guards the fields below, and the mode of each Open
	id     int32      // the registered backing file, 0 if none
	roots  bool       // it was registered for writes of root
	passed int        // opens whose mode passes through
	cached int        // opens of whom the kernel may have pages
	stamp  Stamp      // what the page cache was filled from
}

// Open is one open of a node. The zero Open has not been answered.
type Open struct{ mode Mode }

// Mode is how the open was answered, for whoever opens; None after its end.
func (o *Open) Mode() Mode { return o.mode }

// Start chooses how o's I/O is done.
func (n *Node) Start(o *Open, w Wanted, f File) Answer {
	n.mu.Lock()
	defer n.mu.Unlock()
	o.mode = n.chooseLocked(w, f)
	a := Answer{Mode: o.mode}
	switch {
	case o.mode.PassesThrough():
		n.passed++
		a.Backing = n.id
	case o.mode.isCached():
		n.cached++
		a.KeepCache = o.mode == Cached && n.pagesAreGoodLocked(f)
	}
	return a
}

// chooseLocked is the mode of an open. The kernel refuses one that does not pass through beside
// one that does (EIO), and another open's answer may overtake this one: so where an open can pass
// through it does, with DIRECT_IO if its I/O is to come to the daemon all the same, which wins.
func (n *Node) chooseLocked(w Wanted, f File) Mode {
	switch {
	case w.Mode == Watched && n.passed == 0:
		return Watched
	case n.cached == 0 && n.hasBackingLocked(w, f):
		if w.Mode == Passthrough && (!w.Writes || n.passesWritesLocked(w, f)) {
			return Passthrough
		}
		return Mixed
	case w.Mode == Passthrough && w.Grows && !w.Writes:
		return Watched
	case w.Mode == Passthrough && !(w.Writes && f.HasLoneSetgid()):
		return Cached
	}
	return Direct
}

// hasBackingLocked registers the backing file unless that is done, as it is of a node through
// which something passes. With other rights it is registered anew for a writer, if nobody uses it.
func (n *Node) hasBackingLocked(w Wanted, f File) bool {
	if n.id != 0 && w.Writes && n.roots != w.Root && n.passed == 0 {
		n.dropBackingLocked(f)
	}
	if n.id != 0 {
		return true
	}
	id, ok := f.Register(w.Root)
	if ok {
		n.id, n.roots = id, w.Root
	}
	return ok
}

// passesWritesLocked reports whether the kernel may write to the backing file itself what is
// written through an open.
func (n *Node) passesWritesLocked(w Wanted, f File) bool {
	switch {
	case f.HasLoneSetgid():
		return false
	case w.Unbuffered:
		// The kernel opens the backing file with O_DIRECT and keeps it, whereas the program
		// may take it off (F_SETFL) for the rest of its data that fills no block: dd does.
		return false
	case n.roots == w.Root:
		return true
	}
	// What it passed through would be root's, or would not be.
	return !n.roots && !f.IsShortOfSpace()
}

// pagesAreGoodLocked reports whether pages cached at an earlier open are still those of the
// file, which may have been changed outside the mount.
func (n *Node) pagesAreGoodLocked(f File) bool {
	now, ok := f.Stamp()
	if !ok {
		return false
	}
	same := n.stamp == now
	n.stamp = now
	return same
}

// End ends an open: the kernel has closed it, or it failed. One that was not answered, or has
// ended, is left as it is.
func (n *Node) End(o *Open) {
	n.mu.Lock()
	defer n.mu.Unlock()
	switch {
	case o.mode.PassesThrough():
		n.passed--
	case o.mode.isCached():
		n.cached--
	}
	o.mode = None
}

// Pause keeps opens of the node from being answered, and from ending, until Resume: the node may
// be made to stand for another file meanwhile. Nothing but Forget may be called for it.
func (n *Node) Pause() { n.mu.Lock() }

// Resume undoes Pause.
func (n *Node) Resume() { n.mu.Unlock() }

// Forget forgets the file that the node stood for: its backing file, and what the pages were
// filled from. Nothing is open, and the node is paused, or nobody knows it any more.
func (n *Node) Forget(k Kernel) {
	n.dropBackingLocked(k)
	n.stamp = Stamp{}
}

// dropBackingLocked ends the registration of the backing file, if there is one.
func (n *Node) dropBackingLocked(k Kernel) {
	if n.id != 0 {
		k.Unregister(n.id)
		n.id = 0
	}
}

// IsFree reports whether nobody holds the node's mutex.
func (n *Node) IsFree() bool {
	if !n.mu.TryLock() {
		return false
	}
	n.mu.Unlock()
	return true
}
