package fs

import (
	"strconv"

	"golang.org/x/sys/unix"

	"latchfs/fs/advisory"
	"latchfs/fs/content"
	"latchfs/fs/lostupdate"
	"latchfs/journal/history"
)

// inoKey identifies a backing inode. The number cannot be reused while we know the inode,
// because our descriptor pins it.
type inoKey struct{ dev, ino uint64 }

// dkey is a name: a directory and a name in it. What is kept with a name is in its dentry.
type dkey struct {
	dir  *inode
	name string
}

// knownDir is the directory, nil if it was forgotten since. nodes.mu is held.
func (k dkey) knownDir() *inode {
	if k.dir == nil || k.dir.dentry == nil {
		return nil
	}
	return k.dir
}

// inode is one backing inode, for as long as the kernel or we need it. The kernel knows it
// by a node, or by several: see kernelNode.
type inode struct {
	kind uint32 // the S_IFMT bits
	key  inoKey

	// Guarded by nodes.mu.
	fd       int             // O_PATH on the backing inode
	nodes    []*kernelNode   // by which the kernel knows it
	pins     int             // ours: children, handles, sessions
	parent   *inode          // the directory of dentry; pinned
	dentry   *dentry         // the name last seen, with a reference; nil: it never had one
	others   otherDentries   // of a regular file: earlier ones, which may be its names still
	sess     *session        // the session whose shadow it is
	shadow   *session        // the session that is writing the next version of it
	writers  int             // open handles that can write
	awaited  int             // directories: callers that will park in its GETATTR
	inside   int             // directories: sessions on names in it
	grower   *session        // appeared while this one writes it: see endings.appear
	unsealed bool            // it was changed in place after its commit: see session.writtenLate
	shownAs  inoKey          // the inode number to show, if not its own
	fresh    bool            // created for records, and its name is not on disk
	seen     history.State   // of the file, when it was last compared with the history
	synced   content.Stamp   // of a published shadow that its program had synced as it was published
	renamed  *recentRename   // nil: not lately
	told     lostupdate.Look // who has last opened it for reading, and learned nothing
	inodeFate
	inodeLive

	advisory advisory.Inode // guards itself
}

// inodeFate is what has become of a file or a shadow, and of its name. nodes.mu guards it.
type inodeFate struct {
	orphan  bool // a shadow that was never published: its session is over
	copied  bool // a shadow that was written into the file: its session is over
	kept    bool // it is in the history and has no other name
	removed bool // its name was unlinked, and nothing took its place
	saved   bool // a newer version took its place under its name
	written bool // a session wrote the version that has taken its name
}

// inodeLive says whether reads and writes of a file pass straight through. nodes.mu guards it.
type inodeLive struct {
	live    bool // went live: see commits.autoLive, live.carryLive
	carried bool // by descriptors of a live name that it had, and only as long as there are some
	// liveWriters is how many of its open handles can write and were opened live.
	liveWriters int
}

func (n *inode) isDir() bool { return n.kind == unix.S_IFDIR }

// isRoot reports whether n is the data directory.
func (n *inode) isRoot() bool { return n.dentry != nil && n.dentry.Parent() == nil }

func (n *inode) isRegular() bool { return n.kind == unix.S_IFREG }

// procName names what a descriptor of ours refers to, relative to disk.procfd.
func procName(fd int) string { return strconv.Itoa(fd) }

// child finds what has a name in parent, and takes one reference of the kernel's on its
// node. st is filled with the inode's attributes.
func (nm *names) child(parent *inode, name string, st *unix.Stat_t) (*kernelNode, unix.Errno) {
	for {
		renamed := nm.renamed.Load()
		k, e := nm.find(parent, name, st)
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

// find is child but for the name, which is not recorded.
func (nm *names) find(parent *inode, name string, st *unix.Stat_t) (*kernelNode, unix.Errno) {
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
	fd, err := nm.nodes.trim.OpenAt(dirfd, name, unix.O_PATH|unix.O_NOFOLLOW)
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
