package locksfs

import (
	"errors"
	iofs "io/fs"
	"time"

	"golang.org/x/sys/unix"

	"latchfs/fs/account"
	"latchfs/fs/locksdir"
	"latchfs/fs/report"
	"latchfs/fs/sys"
	"latchfs/fs/vnodes"
	"latchfs/lockmgr"
)

// Control is the file in the root through which locks are taken without opening what is
// locked. Package control has its language.
const Control = "control"

// controlMode lets anybody ask for a lock.
const controlMode = 0o666

// trimEvery is how often renderings that nobody looks at any more are dropped.
const trimEvery = 5 * time.Second

// By is who makes a request.
type By interface {
	// UID and GID are what the request says.
	UID() uint32
	GID() uint32
	// Owner is the process, and Viewer what it may see. Both are found out when they are
	// asked for.
	Owner() lockmgr.Owner
	Viewer() report.Viewer
}

// Tree is what is there, beside the control file: *locksdir.Tree says what each method
// answers.
type Tree interface {
	Stat(path string, v report.Viewer) (locksdir.Entry, error)
	StatOpen(path string, c locksdir.Content) locksdir.Entry
	List(path string, v report.Viewer) ([]locksdir.Entry, error)
	Open(path string, v report.Viewer) (locksdir.Content, error)
	Remove(path string, v report.Viewer) error
	Trim()
}

// Talk is a conversation on the control file.
type Talk interface {
	// IsOpeners reports whether these are the credentials that it was begun with.
	IsOpeners(uid, gid uint32) bool
	// Write takes requests, and returns how many bytes of them it has taken.
	Write(by By, data [][]byte) (int, unix.Errno)
	// Read waits for the next reply, unless it must not, until cancel is closed.
	Read(by By, nonblock bool, cancel <-chan struct{}, buf []byte) (int, unix.Errno)
	// Flush is told that somebody closes a descriptor, Close that the last one is closed.
	Flush(by By)
	Close()
}

// Config is what an FS works with.
type Config struct {
	Root    uint64 // the node of the root; all others are above
	Tree    Tree
	Book    *account.Book // of what users make the daemon keep
	Started time.Time     // when the mount began to serve
	// Converse begins a conversation on the control file, whose node this is.
	Converse func(node uint64, by By) (Talk, unix.Errno)
}

// FS has the nodes and the handles.
type FS struct {
	c   Config
	ids *vnodes.Table[*handle]
}

// handle is what is open.
type handle struct {
	node    uint64
	uid     uint32 // whoever has opened it, and is charged
	opener  lockmgr.Owner
	content locksdir.Content
	list    []locksdir.Entry
	talk    Talk
	charged int64
}

// New makes an FS whose kernel knows nothing but the root.
func New(c Config) *FS {
	return &FS{c: c, ids: vnodes.New[*handle](c.Root)}
}

// Trim drops what was rendered and is too old to be shown again, until done is closed.
func (f *FS) Trim(done <-chan struct{}) {
	t := time.NewTicker(trimEvery)
	defer t.Stop()
	for {
		select {
		case <-done:
			return
		case <-t.C:
			f.c.Tree.Trim()
		}
	}
}

// errnoOf is what the kernel is told of an error of the tree.
func errnoOf(err error) unix.Errno {
	if errors.Is(err, iofs.ErrNotExist) {
		return unix.ENOENT
	}
	return sys.Errno(err)
}
