package fs

import (
	"strconv"
	"time"

	"github.com/hanwen/go-fuse/v2/fuse"
	"golang.org/x/sys/unix"

	"latchfs/journal/history"
)

const rootID = fuse.FUSE_ROOT_ID

// inoKey identifies a backing inode. The number cannot be reused while a node
// with it lives, because the node's descriptor pins the inode.
type inoKey struct{ dev, ino uint64 }

// dkey is a name as the kernel asks for it: a directory's node id and the name. What is
// kept with a name is in its dentry.
type dkey struct {
	dir  uint64
	name string
}

// node is what a kernel inode stands for: one backing inode, for life. Its id
// is never reused, so the kernel cannot confuse it with a later inode that got
// the same number from the backing filesystem.
type node struct {
	id   uint64
	kind uint32 // the S_IFMT bits

	// Guarded by FS.mu.
	fd      int // O_PATH on the backing inode; -1 once it was given to another node
	key     inoKey
	nlookup uint64        // the kernel's references
	holds   int           // requests on it that run
	was     []*node       // what it stood for when they began; pinned
	pins    int           // ours: children, handles, sessions
	parent  *node         // the directory of dentry; pinned
	dentry  *dentry       // the name last seen, with a reference; nil: it never had one
	others  []*dentry     // of a regular file: earlier ones, which may be its names still
	sess    *session      // the session whose shadow this node is
	shadow  *session      // the session that is writing the next version of it
	orphan  bool          // a shadow that was never published: its session is over
	taken   bool          // it was the committed file's node before it became a shadow\'s
	opens   int           // open handles
	writers int           // those of them that can write
	kept    bool          // its inode is in the history and has no other name
	idle    chan struct{} // closed when the last handle goes, if somebody waits
	awaited int           // directories: callers that will park in its GETATTR
	inside  int           // directories: sessions on names in it
	removed bool          // its name was unlinked, and nothing took its place
	saved   bool          // a newer version took its place under its name
	live    bool          // went live: see session.autoLive, carryLive
	carried bool          // by descriptors of a live name that it had, and only as long as there are some
	// liveWriters is how many of its open handles can write and were opened live.
	liveWriters int
	grower      *session      // appeared while this one writes it: see session.appear
	unsealed    bool          // it was changed in place after its commit: see session.writtenLate
	shownAs     inoKey        // the inode number to show, if not its own
	numbers     []inoKey      // as what it was shown to the kernel: the last few
	lined       []*appender   // those that hold an unfinished line back
	fresh       bool          // created for records, and its name is not on disk
	posix       bool          // somebody took a POSIX lock: closes must be flushed
	seen        history.State // of the file, when it was last compared with the history
	renamed     *recentRename // nil: not lately
	told        told          // who has last opened it for reading, and learned nothing

	io ioState
}

func (n *node) isDir() bool     { return n.kind == unix.S_IFDIR }
func (n *node) isRegular() bool { return n.kind == unix.S_IFREG }

// procPath names the node's inode through /proc, relative to FS.procfd.
func procName(fd int) string { return strconv.Itoa(fd) }

// nodeOf returns the node that the kernel means by id, nil for one unknown.
func (f *FS) nodeOf(id uint64) *node {
	f.mu.Lock()
	n := f.nodes[id]
	f.mu.Unlock()
	return n
}

// fdOf returns the node's descriptor.
func (f *FS) fdOf(n *node) int {
	f.mu.Lock()
	defer f.mu.Unlock()
	return n.fd
}

// newNodeLocked enters a node for the inode that fd (O_PATH, now owned by the
// node) refers to. f.mu is held.
func (f *FS) newNodeLocked(fd int, key inoKey, kind uint32) *node {
	f.nextID++
	n := &node{id: f.nextID, fd: fd, key: key, kind: kind}
	f.nodes[n.id] = n
	if fd >= 0 {
		f.byIno[key] = n
	}
	return n
}

func (f *FS) pin(n *node) {
	f.mu.Lock()
	n.pins++
	f.mu.Unlock()
}

func (f *FS) unpin(n *node) {
	f.mu.Lock()
	f.unpinLocked(n)
	f.mu.Unlock()
}

func (f *FS) unpinLocked(n *node) {
	n.pins--
	f.reapLocked(n)
}

// reapLocked frees n once neither the kernel nor we need it. f.mu is held.
func (f *FS) reapLocked(n *node) {
	for n != nil && n.nlookup == 0 && n.pins == 0 && n.id != rootID {
		if f.nodes[n.id] != n {
			return
		}
		delete(f.nodes, n.id)
		if f.byIno[n.key] == n {
			delete(f.byIno, n.key)
		}
		f.unretireLocked(n)
		if n.fd >= 0 {
			unix.Close(n.fd)
			n.fd = -1
		}
		f.dropBacking(n)
		parent := n.parent
		n.parent = nil
		f.dropNamesLocked(n)
		if parent == nil {
			return
		}
		parent.pins--
		n = parent
	}
}

// Forget implements fuse.RawFileSystem.
func (f *FS) Forget(id, nlookup uint64) {
	if isVirtual(id) {
		f.virt.forget(id, nlookup)
		return
	}
	f.mu.Lock()
	defer f.mu.Unlock()
	n := f.nodes[id]
	if n == nil {
		return
	}
	n.nlookup -= min(nlookup, n.nlookup)
	f.reapLocked(n)
}

// child finds the node for name in parent and takes one kernel reference on
// it. st is filled with the inode's attributes.
func (f *FS) child(parent *node, name string, st *unix.Stat_t) (*node, unix.Errno) {
	for {
		renamed := f.renamed.Load()
		n, e := f.find(parent, name, st)
		if e != 0 || f.nameFound(n, parent, name, renamed) {
			return n, e
		}
		f.mu.Lock()
		n.nlookup--
		f.reapLocked(n)
		f.mu.Unlock()
	}
}

// nameFound records the name of what was found under it when so many names had
// changed hands, unless another may have since: the kernel asks for names while it
// renames them, and what we record is what the next open is taken to mean.
func (f *FS) nameFound(n, parent *node, name string, renamed uint64) bool {
	if n.isDir() {
		return f.nameDir(n, parent, name)
	}
	f.mu.Lock()
	defer f.mu.Unlock()
	if f.renamed.Load() != renamed {
		return false
	}
	f.setNameLocked(n, parent, name)
	return true
}

// nameDir is nameFound for directories, on whose names the paths of all that is below
// depend, which the locks are of: no directory is renamed while they are looked at.
func (f *FS) nameDir(n, parent *node, name string) bool {
	f.mu.Lock()
	dir, is := n.namedLocked()
	named := dir == parent && is == name
	f.mu.Unlock()
	if named {
		return true
	}
	f.ns.RLock()
	defer f.ns.RUnlock()
	var st unix.Stat_t
	if unix.Fstatat(f.fdOf(parent), name, &st, unix.AT_SYMLINK_NOFOLLOW) != nil {
		return false
	}
	f.mu.Lock()
	defer f.mu.Unlock()
	if n.key != (inoKey{uint64(st.Dev), st.Ino}) {
		return false
	}
	// Directories may have been moved around the mount, so that what we remember of
	// one above is that it is below: it is somewhere until it is next looked up.
	for d := parent; d != nil; d = d.parent {
		if d.parent == n {
			f.strandLocked(d)
		}
	}
	f.setNameLocked(n, parent, name)
	return true
}

// find is child but for the name, which is not recorded.
func (f *FS) find(parent *node, name string, st *unix.Stat_t) (*node, unix.Errno) {
	dirfd := f.fdOf(parent)
	saves := f.saves.Load()
	if err := unix.Fstatat(dirfd, name, st, unix.AT_SYMLINK_NOFOLLOW); err != nil {
		return nil, errnoOf(err)
	}
	key := inoKey{uint64(st.Dev), st.Ino}
	if key == f.stateKey {
		return nil, unix.ENOENT // another spelling, where the directory ignores case
	}
	f.mu.Lock()
	if n := f.byIno[key]; n != nil {
		n.nlookup++
		f.mu.Unlock()
		return n, 0
	}
	many := len(f.nodes) >= f.maxNodes/2
	f.mu.Unlock()
	if many {
		f.trim.kick()
	}
	fd, err := unix.Openat(dirfd, name, unix.O_PATH|unix.O_NOFOLLOW|unix.O_CLOEXEC, 0)
	for try := 0; err == unix.EMFILE; try++ {
		if try == trimRetries {
			return nil, unix.ENFILE
		}
		f.trim.kick()
		time.Sleep(trimPause)
		fd, err = unix.Openat(dirfd, name, unix.O_PATH|unix.O_NOFOLLOW|unix.O_CLOEXEC, 0)
	}
	if err != nil {
		return nil, errnoOf(err)
	}
	n, e := f.adopt(fd, st)
	if e == 0 && f.saves.Load() != saves && n.isRegular() {
		// A save took the inode's place after our look, and before it had a node.
		f.noteKept(n)
		if f.unnamed(n) {
			f.mu.Lock()
			n.setSavedLocked(true)
			f.mu.Unlock()
		}
	}
	return n, e
}

// adopt makes fd (O_PATH) the descriptor of a node, unless one exists for its
// inode already, and takes one kernel reference.
func (f *FS) adopt(fd int, st *unix.Stat_t) (*node, unix.Errno) {
	if err := unix.Fstat(fd, st); err != nil {
		unix.Close(fd)
		return nil, errnoOf(err)
	}
	key := inoKey{uint64(st.Dev), st.Ino}
	f.mu.Lock()
	defer f.mu.Unlock()
	n := f.byIno[key]
	if n != nil {
		unix.Close(fd)
	} else {
		n = f.newNodeLocked(fd, key, st.Mode&unix.S_IFMT)
		n.saved = f.replacing[key]
	}
	n.nlookup++
	return n, 0
}
