package fs

import (
	"sync"
	"sync/atomic"

	"latchfs/fs/dcache"
	"latchfs/fs/trim"

	"golang.org/x/sys/unix"
)

// nodes has the inodes and the names that the kernel or we know, and the mutex of all that
// hangs on them, sessions and handles included.
type nodes struct {
	trim      *trim.Trimmer // keeps descriptors free
	maxInodes int
	saves     atomic.Uint64 // how many saves have begun to replace a file
	// ns guards the paths of which lock keys are made: a rename of a directory holds it
	// for writing, and whoever makes keys for reading.
	ns sync.RWMutex
	// paths guards what is known of paths: a rename of a directory holds it for
	// writing, and whoever compares or enters a version for reading.
	paths       sync.RWMutex
	mu          sync.Mutex // guards the fields up to disk
	kernelNodes map[uint64]*kernelNode
	inodes      map[inoKey]*inode
	dentries    *dcache.Tree[nameState]
	sessions    map[*session]struct{}
	replacing   map[inoKey]bool // inodes that a save is taking the place of
	moves       chan struct{}   // closed when the next session moves

	disk *disk
}

// openList opens a directory to list it. That is not ".", for which it would have to be
// searched, too.
func (ns *nodes) openList(dir *inode) (fd int, err error) {
	return ns.trim.OpenAt(ns.disk.procfd, procName(ns.fdOf(dir)), unix.O_RDONLY|unix.O_DIRECTORY)
}

// fdOf returns the inode's descriptor.
func (ns *nodes) fdOf(n *inode) int {
	ns.mu.Lock()
	defer ns.mu.Unlock()
	return n.fd
}

// newInodeLocked enters the inode that fd (O_PATH, from now on the inode's) refers to. nodes.mu
// is held.
func (ns *nodes) newInodeLocked(fd int, key inoKey, kind uint32) *inode {
	n := &inode{fd: fd, key: key, kind: kind}
	ns.inodes[key] = n
	if len(ns.inodes) >= ns.crowd() {
		ns.trim.Kick()
	}
	return n
}

func (ns *nodes) pin(n *inode) {
	ns.mu.Lock()
	n.pins++
	ns.mu.Unlock()
}

func (ns *nodes) unpin(n *inode) {
	ns.mu.Lock()
	ns.unpinLocked(n)
	ns.mu.Unlock()
}

func (ns *nodes) unpinLocked(n *inode) {
	n.pins--
	ns.reapLocked(n)
}

// reapLocked frees n once neither the kernel nor we need it. nodes.mu is held.
func (ns *nodes) reapLocked(n *inode) {
	for n != nil && len(n.nodes) == 0 && n.pins == 0 && ns.inodes[n.key] == n {
		delete(ns.inodes, n.key)
		if n.fd >= 0 {
			unix.Close(n.fd)
			n.fd = -1
		}
		n.standForItselfLocked()
		parent := n.parent
		n.parent = nil
		ns.dropNamesLocked(n)
		if parent == nil {
			return
		}
		parent.pins--
		n = parent
	}
}

// seal says how it is judged whether an inode was written after it was published.
type seal uint8

const (
	sealed   seal = iota // by what it was then
	unsealed             // not at all: it was changed in place since
	setApart             // by what it was when a copy took its place: whatever is written now is nobody's
)

// unseal stops judging by its size and times whether a published inode was written after
// its commit: they were set, or somebody is adding to the file.
func (ns *nodes) unseal(key inoKey) {
	ns.mu.Lock()
	defer ns.mu.Unlock()
	if n := ns.inodes[key]; n != nil && n.seal != setApart {
		n.seal = unsealed
	}
}

// unnamed reports whether the inode has lost its last name.
func (ns *nodes) unnamed(n *inode) bool {
	ns.mu.Lock()
	fd, kept := n.fd, n.kept
	ns.mu.Unlock()
	var st unix.Stat_t
	return unix.Fstat(fd, &st) == nil && (st.Nlink == 0 || kept && st.Nlink == 1)
}

func (ns *nodes) isKept(n *inode) bool {
	ns.mu.Lock()
	defer ns.mu.Unlock()
	return n.kept
}

// named returns the inode to which n's name leads, if to any.
func (ns *nodes) named(n *inode) (inoKey, bool) {
	parent, name := ns.nameOf(n)
	var st unix.Stat_t
	if parent == nil || unix.Fstatat(ns.fdOf(parent), name, &st, unix.AT_SYMLINK_NOFOLLOW) != nil {
		return inoKey{}, false
	}
	return inoKey{uint64(st.Dev), st.Ino}, true
}

// isReplaced reports whether n's name leads to another inode by now.
func (ns *nodes) isReplaced(n *inode) bool {
	key, ok := ns.named(n)
	return ok && key != n.key
}

// inodeFor is an inode that has the status st, if we know it.
func (ns *nodes) inodeFor(st *unix.Stat_t) *inode {
	ns.mu.Lock()
	defer ns.mu.Unlock()
	return ns.inodes[inoKey{uint64(st.Dev), st.Ino}]
}

// isMountpoint reports whether something is mounted on name in the mount, for
// instance the file itself as a bind mount. Such a name must keep its inode.
func (ns *nodes) isMountpoint(dir *inode, name string) bool {
	return ns.disk.mounts.Covers(ns.path(dir, name))
}

func (ns *nodes) announceMove() {
	ns.mu.Lock()
	defer ns.mu.Unlock()
	close(ns.moves)
	ns.moves = make(chan struct{})
}

// dupStandsFor is a new descriptor of the file whose content n stands for: a shadow that was
// never filled, and whose session is over. It is -1 of any other inode.
func (ns *nodes) dupStandsFor(n *inode) (fd int, err error) {
	ns.mu.Lock()
	defer ns.mu.Unlock()
	if n.standsFor == 0 {
		return -1, nil
	}
	return unix.FcntlInt(uintptr(n.standsFor), unix.F_DUPFD_CLOEXEC, 0)
}

// standsForItself notes that n is written: a descriptor outlived its session in the hands of a
// process that nobody knew of. What is read from now on is what the shadow has.
func (ns *nodes) standsForItself(n *inode) {
	ns.mu.Lock()
	defer ns.mu.Unlock()
	n.standForItselfLocked()
}

// standForItselfLocked closes the file whose content n stands for, if there is one. nodes.mu is
// held.
func (n *inode) standForItselfLocked() {
	if n.standsFor != 0 {
		unix.Close(n.standsFor)
		n.standsFor = 0
	}
}
