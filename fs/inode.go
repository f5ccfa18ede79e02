package fs

import (
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
	fd      int           // O_PATH on the backing inode
	nodes   []*kernelNode // by which the kernel knows it
	pins    int           // ours: children, handles, sessions
	parent  *inode        // the directory of dentry; pinned
	dentry  *dentry       // the name last seen, with a reference; nil: it never had one
	others  otherDentries // of a regular file: earlier ones, which may be its names still
	sess    *session      // the session whose shadow it is
	shadow  *session      // the session that is writing the next version of it
	writers int           // open handles that can write
	awaited int           // directories: callers that will park in its GETATTR
	inside  int           // directories: sessions on names in it
	grower  *session      // appeared while this one writes it: see endings.appear
	// standsFor is a descriptor of the file whose content this one stands for, 0 of others: it
	// is a shadow that was never filled, and its session is over.
	standsFor int
	seal      seal            // see session.writtenLate
	shownAs   inoKey          // the inode number to show, if not its own
	seen      history.State   // of the file, when it was last compared with the history
	synced    content.Stamp   // of a published shadow that its program had synced as it was published
	renamed   *recentRename   // nil: not lately
	told      lostupdate.Look // who has last opened it for reading, and learned nothing
	inodeFate
	inodeLive
	inodeAppends

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
	// overtaken: that version is another file, which rename(2) put in its place.
	overtaken bool
}

// inodeLive says whether reads and writes of a file pass straight through. nodes.mu guards it.
type inodeLive struct {
	live    bool // went live: see commits.autoLive, live.carryLive
	carried bool // by descriptors of a live name that it had, and only as long as there are some
	// liveWriters is how many of its open handles can write and were opened live.
	liveWriters int
}

// inodeAppends is what is to be known of the records that programs append to a file. nodes.mu
// guards it.
type inodeAppends struct {
	fresh   bool // created for records, and its name is not on disk
	records int  // open handles that append records
	lagged  bool // what was appended to it came later than the write, or by another node
}

func (n *inode) isDir() bool { return n.kind == unix.S_IFDIR }

// isRoot reports whether n is the data directory.
func (n *inode) isRoot() bool { return n.dentry != nil && n.dentry.Parent() == nil }

func (n *inode) isRegular() bool { return n.kind == unix.S_IFREG }
