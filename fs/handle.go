package fs

import (
	"sync"
	"sync/atomic"

	"golang.org/x/sys/unix"

	"latchfs/fs/iomode"
	"latchfs/fs/listing"
	"latchfs/fs/records"
	"latchfs/lockmgr/knowledge"
)

// handles has the open files, and decides which of them the kernel reads and writes by itself.
type handles struct {
	appenders records.Room // of those that append records

	// Guarded by nodes.mu.
	nextFH uint64
	open   map[uint64]*handle

	callers *callers
	disk    *disk
	kernel  *kernel
	nodes   *nodes
	rules   *rules
}

type handleKind uint8

const (
	readHandle   handleKind = iota // a committed version, or the own shadow
	shadowHandle                   // writing into a session's shadow
	plainHandle                    // writing straight into the file: live and unnamed files
	appendHandle                   // appending records
	dirHandle
)

// ids are those for whom the kernel sent an open. Root stands also for what is written on
// nobody's behalf.
type ids struct{ uid, gid uint32 }

// handle is one open of an inode.
type handle struct {
	handles *handles
	id      uint64
	k       *kernelNode // at which it was opened
	n       *inode      // what that stands for, or the shadow of what it does: see sessions.attachBeside
	kind    handleKind
	flags   uint32 // open(2) flags as the kernel sent them
	sess    *session
	live    bool // opened under a live policy
	io      iomode.Open
	ids
	// noFlush: the kernel does not tell of closes of its descriptors.
	noFlush bool
	// sight is what the open told its process and its relatives, if it was news.
	sight atomic.Pointer[knowledge.Sight]
	// stale: it was opened on a version that its process did not know, and nothing was
	// read through it so far.
	stale atomic.Pointer[staleOpen]
	// flushed, guarded by sess.mu: a descriptor of this open was closed. Until
	// then at least one is open, or on its way to the caller.
	flushed bool

	mu  sync.Mutex // guards fd
	fd  int        // the daemon's own descriptor, opened when first needed
	app *appender
	// user is who has written through the descriptor of an appender last when that was asked.
	user atomic.Pointer[writingUser]
	dir  *listing.Stream
	work *liveWork // what is written through it, if it is live
}

func (h *handle) writes() bool {
	return h.flags&unix.O_ACCMODE != unix.O_RDONLY || h.flags&unix.O_TRUNC != 0
}

// newHandle enters a handle on n, at a node that stood for it when the caller looked; nil
// if it does no more, for a session has taken the node over. Both stay as long as the
// handle.
func (hs *handles) newHandle(k *kernelNode, n *inode, kind handleKind, flags uint32, by ids) *handle {
	hs.nodes.mu.Lock()
	defer hs.nodes.mu.Unlock()
	if k.in != n {
		return nil
	}
	return hs.newHandleLocked(k, kind, flags, by)
}

// newReader is newHandle for reading; nil also if the inode has become, or ceased to be, a
// session's since the caller looked.
func (hs *handles) newReader(k *kernelNode, n *inode, s *session, flags uint32, by ids) *handle {
	hs.nodes.mu.Lock()
	defer hs.nodes.mu.Unlock()
	if k.in != n || n.sess != s {
		return nil
	}
	return hs.newHandleLocked(k, readHandle, flags, by)
}

func (hs *handles) newHandleLocked(k *kernelNode, kind handleKind, flags uint32, by ids) *handle {
	return hs.newHandleOfLocked(k, k.in, kind, flags, by)
}

// newHandleOfLocked is newHandleLocked for a handle on n, which k may not stand for.
func (hs *handles) newHandleOfLocked(k *kernelNode, n *inode, kind handleKind, flags uint32, by ids) *handle {
	h := &handle{handles: hs, k: k, n: n, kind: kind, flags: flags, fd: -1, ids: by}
	hs.callers.descriptors.Charge(by.uid, perHandle)
	hs.nextFH++
	h.id = hs.nextFH
	hs.open[h.id] = h
	k.opens++
	h.n.pins++
	if h.writes() {
		h.n.writers++
	}
	return h
}

func (hs *handles) handleOf(id uint64) *handle {
	hs.nodes.mu.Lock()
	defer hs.nodes.mu.Unlock()
	return hs.open[id]
}

// isWritten reports whether somebody has an inode open to write it.
func (hs *handles) isWritten(key inoKey) bool {
	hs.nodes.mu.Lock()
	defer hs.nodes.mu.Unlock()
	n := hs.nodes.inodes[key]
	return n != nil && n.writers > 0
}

// file returns the daemon's descriptor for h. Most handles never need one: the
// kernel reads and writes the backing file itself.
func (hs *handles) file(h *handle) (int, unix.Errno) {
	h.mu.Lock()
	defer h.mu.Unlock()
	if h.fd >= 0 {
		return h.fd, 0
	}
	flags := h.flags & (unix.O_ACCMODE | unix.O_APPEND | unix.O_SYNC | unix.O_DSYNC)
	if flags&unix.O_ACCMODE == unix.O_WRONLY {
		flags = flags&^unix.O_ACCMODE | unix.O_RDWR // read-modify-write of partial pages
	}
	fd, err := hs.reopen(hs.nodes.fdOf(h.n), int(flags))
	if err != nil && flags&unix.O_ACCMODE == unix.O_RDWR && h.flags&unix.O_ACCMODE == unix.O_WRONLY {
		fd, err = hs.reopen(hs.nodes.fdOf(h.n), int(flags&^unix.O_ACCMODE|unix.O_WRONLY))
	}
	if err != nil {
		return -1, errnoOf(err)
	}
	h.fd = fd
	return fd, 0
}

// ownerMayOpen are the bits of a mode with which the file's owner may open it in any way.
const ownerMayOpen = unix.S_IRUSR | unix.S_IWUSR

// openBeforeChmod opens the daemon's descriptors for what is open of n, whose mode is about to
// change: an ordinary user's daemon may not be able to open the file afterwards, and those who have
// it open may go on.
func (hs *handles) openBeforeChmod(n *inode) {
	if hs.disk.privileged || !n.isRegular() {
		return
	}
	var opened []*handle
	hs.nodes.mu.Lock()
	for _, h := range hs.open {
		if h.n == n && (h.kind == readHandle || h.kind == plainHandle) {
			opened = append(opened, h)
		}
	}
	hs.nodes.mu.Unlock()
	for _, h := range opened {
		_, _ = hs.file(h) // whoever reads is told
	}
}

// reopen opens the inode behind an O_PATH descriptor.
func (hs *handles) reopen(fd, flags int) (int, error) {
	return unix.Openat(hs.disk.procfd, procName(fd), flags|unix.O_CLOEXEC, 0)
}

// reopenUnnoticed opens the file behind fd to read it without the access time
// telling, where that is allowed.
func (hs *handles) reopenUnnoticed(fd int) (int, error) {
	again, err := hs.reopen(fd, unix.O_RDONLY|unix.O_NOATIME)
	if err == unix.EPERM {
		again, err = hs.reopen(fd, unix.O_RDONLY)
	}
	return again, err
}
