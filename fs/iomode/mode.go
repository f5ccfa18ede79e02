package iomode

import "golang.org/x/sys/unix"

// Mode is how the kernel does the I/O of one open.
type Mode uint8

// The modes; see the package comment. None is that of what is not open.
const (
	None        Mode = iota
	Passthrough      // straight to the backing file
	Mixed            // the node is passed through, but this open's I/O comes to the daemon
	Cached           // through the page cache
	Direct           // to the daemon, uncached
	Watched          // to the daemon, and so do the reads of its mappings' pages
)

var modeNames = [...]string{"none", "passthrough", "mixed", "cached", "direct", "watched"}

// String is the name of the mode.
func (m Mode) String() string { return modeNames[m] }

// IsDirect reports whether each read and write is a request (FOPEN_DIRECT_IO).
func (m Mode) IsDirect() bool { return m == Mixed || m == Direct || m == Watched }

// PassesThrough reports whether the answer names a backing file (FOPEN_PASSTHROUGH).
func (m Mode) PassesThrough() bool { return m == Passthrough || m == Mixed }

// isCached reports whether the kernel may have pages of the node for the open.
func (m Mode) isCached() bool { return m == Cached || m == Watched }

// Wanted is what is wanted for an open.
type Wanted struct {
	// Mode is how its I/O is done if nothing speaks against it:
	//
	//   - Passthrough, as a rule;
	//   - Watched, where what is read may come from another file than the node's, or is to be
	//     noticed, as long as the shadow of a session is not filled;
	//   - Direct, where what is written goes elsewhere, or may need what is reserved for root.
	Mode       Mode
	Writes     bool // it may change the file
	Unbuffered bool // it has O_DIRECT of open(2)
	Root       bool // it is root's
	Grows      bool // what it reads may end before the kernel thinks so: it is to keep no pages
}

// Answer is the answer to an open.
type Answer struct {
	Mode      Mode
	KeepCache bool  // of Cached: the pages that the kernel has are the file's
	Backing   int32 // what Register gave, where the mode passes through
}

// Stamp tells versions of a file apart. The zero Stamp is no file's.
type Stamp struct {
	size         int64
	mtime, ctime unix.Timespec
}

// StampOf is the stamp of a file that has the status st.
func StampOf(st *unix.Stat_t) Stamp { return Stamp{st.Size, st.Mtim, st.Ctim} }

// Kernel has the backing files.
type Kernel interface {
	// Unregister ends the registration of a backing file that no open to come will use.
	// The kernel keeps it for those that use it.
	Unregister(id int32)
}

// File is the file that a node stands for at an open. It is asked with the node's mutex held,
// and only what matters for the answer.
type File interface {
	Kernel
	// Register registers the file as a backing file, to be written with root's rights or
	// with nobody's. It is false where there is no passthrough.
	Register(roots bool) (id int32, ok bool)
	// Stamp is the file's stamp now; false if that cannot be told.
	Stamp() (Stamp, bool)
	// HasLoneSetgid reports whether the file has the setgid bit and no right to execute for
	// its group: whether a write leaves that depends on the writer's groups.
	HasLoneSetgid() bool
	// IsShortOfSpace reports whether what is written may soon need the space that is
	// reserved for root.
	IsShortOfSpace() bool
}
