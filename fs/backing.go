package fs

import (
	"os"
	"sync"

	"golang.org/x/sys/unix"

	"latchfs/fs/asuser"
)

// ioMode is how the kernel does a handle's I/O.
type ioMode uint8

const (
	ioNone        ioMode = iota
	ioPassthrough        // straight to the backing file
	ioMixed              // passthrough inode, but this handle's I/O comes to us
	ioCached             // through the page cache
	ioDirect             // to us, uncached
	ioWatched            // to us, and so do the reads of its mappings' pages
)

// ioState keeps a node within the kernel's rules: all opens in passthrough at
// one time share one backing file, and none may be cached meanwhile.
type ioState struct {
	mu          sync.Mutex // guards the fields below
	id          int32      // the registered backing file, 0 if none
	roots       bool       // it was registered for writes of root
	passthrough int
	cached      int        // ioWatched included: a mapping is cached
	stamp       cacheStamp // what the page cache was filled from
}

type cacheStamp struct {
	size         int64
	mtime, ctime unix.Timespec
}

// ownIdentity is the daemon's.
var ownIdentity = asuser.Identity{UID: uint32(os.Geteuid()), GID: uint32(os.Getegid())}

// startIO chooses how h's I/O is done and fills in the answer to its open.
func (hs *handles) startIO(h *handle, want ioMode, out *Opened) {
	k := h.k
	k.io.mu.Lock()
	defer k.io.mu.Unlock()
	if want == ioWatched && k.io.passthrough == 0 {
		k.io.cached++
		out.Direct = true
		h.io = want
		return
	}
	if want == ioPassthrough && h.writes() && hs.callers.hasLoneSetgid(h.n) {
		want = ioDirect // whether a write leaves the bit depends on the writer's groups
	}
	if want == ioPassthrough && (k.io.cached > 0 || !hs.backingLocked(h)) {
		want = ioCached
	}
	if want == ioPassthrough && h.writes() && !hs.passesWritesLocked(h) {
		want = ioDirect
	}
	if want != ioPassthrough && (k.io.passthrough > 0 || k.io.cached == 0 && hs.backingLocked(h)) {
		// The kernel refuses an open without passthrough beside one with it
		// (EIO), and another open's answer may overtake this one; with both
		// flags DIRECT_IO wins for this handle.
		want = ioMixed
	}
	switch want {
	case ioPassthrough:
		k.io.passthrough++
		out.Passthrough = true
		out.Backing = k.io.id
	case ioMixed:
		k.io.passthrough++
		out.Passthrough, out.Direct = true, true
		out.Backing = k.io.id
	case ioCached:
		k.io.cached++
		if hs.cacheValidLocked(k) {
			out.KeepCache = true
		}
	case ioDirect, ioWatched:
		out.Direct = true
	case ioNone: // nobody asks for it
	}
	h.io = want
}

// passesWritesLocked reports whether the kernel may write what h writes to the backing file
// itself.
func (hs *handles) passesWritesLocked(h *handle) bool {
	if h.flags&unix.O_DIRECT != 0 {
		// The kernel opens the backing file with this flag and keeps it, whereas the program
		// may take it off (F_SETFL) for the rest of its data that fills no block: dd does.
		return false
	}
	// What it passed through would be root's, or would not be.
	roots := h.k.io.roots
	return roots == (h.uid == 0) || !roots && !hs.disk.shortOfSpace()
}

// endIO undoes startIO.
func (hs *handles) endIO(h *handle) {
	k := h.k
	k.io.mu.Lock()
	defer k.io.mu.Unlock()
	switch h.io {
	case ioPassthrough, ioMixed:
		k.io.passthrough--
	case ioCached, ioWatched:
		k.io.cached--
	case ioNone, ioDirect: // not counted
	}
	h.io = ioNone
}

// backingLocked registers the inode that h's node stands for as a backing file unless it is. The
// registration stays for later opens until the node is forgotten, or somebody opens
// it to write with other rights.
func (hs *handles) backingLocked(h *handle) bool {
	k, forRoot := h.k, h.uid == 0
	if k.io.id != 0 && h.writes() && k.io.roots != forRoot && k.io.passthrough == 0 {
		hs.kernel.dropBacking(k)
	}
	if k.io.id != 0 {
		return true
	}
	if !hs.disk.passthrough {
		return false
	}
	fd, err := hs.reopenUnnoticed(hs.nodes.fdOf(hs.kernel.behind(k)))
	if err != nil {
		return false
	}
	defer unix.Close(fd)
	id, err := hs.kernel.register(fd, forRoot)
	if err != nil {
		hs.disk.log.Debugf("passthrough not available for node %d: %v", k.id, err)
		return false
	}
	k.io.id, k.io.roots = id, forRoot
	return true
}

// cacheValidLocked reports whether pages cached at an earlier open are still
// those of the file, which may have been changed outside the mount.
func (hs *handles) cacheValidLocked(k *kernelNode) bool {
	var st unix.Stat_t
	if unix.Fstat(hs.nodes.fdOf(hs.kernel.behind(k)), &st) != nil {
		return false
	}
	now := cacheStamp{st.Size, st.Mtim, st.Ctim}
	same := k.io.stamp == now
	k.io.stamp = now
	return same
}
