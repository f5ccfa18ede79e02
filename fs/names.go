package fs

import (
	"slices"
	"sync/atomic"

	"golang.org/x/sys/unix"
)

// names finds what a name leads to, and notes what has become of a file that lost one: it was
// replaced or removed, or goes by another of its names.
type names struct {
	renamed atomic.Uint64 // how many names have changed hands; changed with nodes.mu held

	astray  *astray
	callers *callers
	disk    *disk
	kernel  *kernel
	nodes   *nodes
	reports *reports
	rules   *rules
}

// stat reads the attributes of n, as the owner of the session sees them if it is a
// shadow.
func (nm *names) stat(n *inode, st *unix.Stat_t) unix.Errno {
	nm.nodes.mu.Lock()
	fd, s, shown, kept := n.fd, n.sess, n.shownAs, n.kept
	nm.nodes.mu.Unlock()
	if fd < 0 {
		return unix.ESTALE
	}
	if err := unix.Fstat(fd, st); err != nil {
		return errnoOf(err)
	}
	if kept && st.Nlink > 0 {
		st.Nlink-- // the history's is nobody's name
	}
	if s != nil {
		s.shown.Adjust(st)
	} else if shown.ino != 0 {
		st.Dev, st.Ino = shown.dev, shown.ino
	}
	return 0
}

// leftBehind reports whether n is a shadow whose session ended without
// publishing it while the caller was on its way by name: its next walk leads it
// to the file.
func (nm *names) leftBehind(n *inode) bool {
	nm.nodes.mu.Lock()
	defer nm.nodes.mu.Unlock()
	return n.orphan && n.sess == nil && !n.isOpenLocked()
}

// isOrphan reports whether n is the shadow of a session that is over and has not
// published it. Somebody may have it open.
func (nm *names) isOrphan(n *inode) bool {
	nm.nodes.mu.Lock()
	defer nm.nodes.mu.Unlock()
	return n.orphan && n.sess == nil
}

// noteKept notes that the history has the only name of an inode that came to be known while
// it lost its name.
func (nm *names) noteKept(n *inode) {
	if !nm.disk.versions.IsContent(n.key.ino) {
		return
	}
	nm.nodes.mu.Lock()
	defer nm.nodes.mu.Unlock()
	n.kept = n.kept || n.key.dev == nm.disk.dev
}

// setAside lets later lookups of the inode lead to another node.
func (nm *names) setAside(k *kernelNode) {
	nm.nodes.mu.Lock()
	k.aside = true
	parent, name := k.in.namedLocked()
	nm.nodes.mu.Unlock()
	if parent != nil {
		nm.dropName(parent, name)
	}
}

// leadsOn answers ESTALE to who has come by a name that leads elsewhere by now, since the
// kernel has not forgotten it yet; saved says that a save may have taken it. Who opens a
// descriptor arrives here again.
func (nm *names) leadsOn(in *OpenRequest, n *inode, saved bool) unix.Errno {
	replaced := saved && nm.nodes.isReplaced(n)
	// A session took over the file's node, and was rolled back.
	orphan := !replaced && nm.isOrphan(n)
	if !replaced && !orphan {
		return 0
	}
	c := nm.callers.callerOf(&in.Request)
	if nm.astray.walks.Repeated(c) || c.TID() == 0 && (replaced || !nm.leftBehind(n)) {
		return 0
	}
	return nm.astray.staleAt(c, n)
}

// isPublished reports whether n is what its name leads to: of a shadow, that its
// commit is still syncing.
func (nm *names) isPublished(n *inode) bool {
	key, ok := nm.nodes.named(n)
	return ok && key == n.key
}

// giveBack undoes takeOver when the session is over and has not published n, its shadow: it
// wrote into the file, or was rolled back. The kernel knows the node by the file's other
// names, too, and by descriptors opened with O_PATH. While somebody has it open it stays what
// it is, and is given back at the last close.
func (nm *names) giveBack(n *inode) {
	nm.nodes.mu.Lock()
	var nodes []*kernelNode
	if n.orphan && n.sess == nil {
		nodes = slices.Clone(n.nodes)
	}
	nm.nodes.mu.Unlock()
	for _, k := range nodes {
		if nm.giveBackNode(k, n) {
			nm.kernel.srv.InodeNotify(k.id, 0, -1) // of the shadow's attributes and pages nothing is to stay
		}
	}
}

func (nm *names) giveBackNode(k *kernelNode, n *inode) bool {
	k.io.Pause()
	defer k.io.Resume()
	nm.nodes.mu.Lock()
	defer nm.nodes.mu.Unlock()
	file := k.former
	if k.in != n || file == nil || k.opens > 0 || n.sess != nil {
		return false
	}
	nm.kernel.partLocked(k)
	k.in, k.former = file, nil
	k.aside = file.nodeLocked() != nil
	file.nodes = append(file.nodes, k)
	nm.nodes.unpinLocked(file)
	k.io.Forget(nm.kernel)
	return true
}

// dropName makes the kernel forget a name, unless something is mounted on it.
// That takes the directory's lock: where the request at hand holds the lock of
// an inode, as SETATTR does, a rename may hold the directory and wait for us,
// so nobody waits for it here.
func (nm *names) dropName(dir *inode, name string) {
	if nm.nodes.isMountpoint(dir, name) {
		return
	}
	nm.nodes.pin(dir)
	go func() {
		nm.kernel.forgetName(dir, name)
		nm.nodes.unpin(dir)
	}()
}

// child finds what has a name in parent, and takes one reference of the kernel's on its
// node. st is filled with the inode's attributes.
func (nm *names) child(parent *inode, name string, st *unix.Stat_t) (*kernelNode, unix.Errno) {
	return childBy(nm, nm.nodes.trim.OpenAt, parent, name, st)
}

// childBy is child with a way to open what is not known yet.
func childBy(nm *names, open opener, parent *inode, name string, st *unix.Stat_t) (*kernelNode, unix.Errno) {
	for {
		renamed := nm.renamed.Load()
		k, e := nm.find(open, parent, name, st)
		if e != 0 || nm.nameFound(nm.kernel.behind(k), parent, name, renamed) {
			return k, e
		}
		nm.kernel.forget(k, 1)
	}
}

// nameFound records the name of what was found under it when so many names had
// changed hands, unless another may have since: the kernel asks for names while it
// renames them, and what we record is what the next open is taken to mean.
func (nm *names) nameFound(n, parent *inode, name string, renamed uint64) bool {
	if n.isDir() {
		return nm.nameDir(n, parent, name)
	}
	nm.nodes.mu.Lock()
	defer nm.nodes.mu.Unlock()
	if nm.renamed.Load() != renamed {
		return false
	}
	nm.nodes.setNameLocked(n, parent, name)
	return true
}

// nameDir is nameFound for directories, on whose names the paths of all that is below
// depend, which the locks are of: no directory is renamed while they are looked at.
func (nm *names) nameDir(n, parent *inode, name string) bool {
	nm.nodes.mu.Lock()
	dir, is := n.namedLocked()
	named := dir == parent && is == name
	nm.nodes.mu.Unlock()
	if named {
		return true
	}
	nm.nodes.ns.RLock()
	defer nm.nodes.ns.RUnlock()
	var st unix.Stat_t
	if unix.Fstatat(nm.nodes.fdOf(parent), name, &st, unix.AT_SYMLINK_NOFOLLOW) != nil {
		return false
	}
	nm.nodes.mu.Lock()
	defer nm.nodes.mu.Unlock()
	if n.key != (inoKey{uint64(st.Dev), st.Ino}) {
		return false
	}
	// Directories may have been moved outside the mount, so that what we remember of
	// one above is that it is below: it is somewhere until it is next looked up.
	for d := parent; d != nil; d = d.parent {
		if d.parent == n {
			nm.nodes.strandLocked(d)
		}
	}
	nm.nodes.setNameLocked(n, parent, name)
	return true
}

// opener opens what has a name in a directory: see trim.Trimmer.
type opener func(dirfd int, name string, flags int) (fd int, err error)

// find is childBy but for the name, which is not recorded.
func (nm *names) find(open opener, parent *inode, name string, st *unix.Stat_t) (*kernelNode, unix.Errno) {
	dirfd := nm.nodes.fdOf(parent)
	saves := nm.nodes.saves.Load()
	if err := unix.Fstatat(dirfd, name, st, unix.AT_SYMLINK_NOFOLLOW); err != nil {
		return nil, errnoOf(err)
	}
	key := inoKey{uint64(st.Dev), st.Ino}
	if key == nm.disk.stateKey {
		return nil, unix.ENOENT // another spelling, where the directory ignores case
	}
	nm.nodes.mu.Lock()
	if n := nm.nodes.inodes[key]; n != nil {
		k := nm.kernel.lookedUpLocked(n)
		nm.nodes.mu.Unlock()
		return k, 0
	}
	nm.nodes.mu.Unlock()
	fd, err := open(dirfd, name, unix.O_PATH|unix.O_NOFOLLOW)
	if err != nil {
		return nil, errnoOf(err)
	}
	k, e := nm.kernel.adopt(fd, st)
	if e != 0 {
		return nil, e
	}
	if n := nm.kernel.behind(k); nm.nodes.saves.Load() != saves && n.isRegular() {
		// A save took the inode's place after our look, and before we knew the inode.
		nm.noteKept(n)
		if nm.nodes.unnamed(n) {
			nm.nodes.mu.Lock()
			n.setSavedLocked(true)
			nm.nodes.mu.Unlock()
		}
	}
	return k, 0
}
