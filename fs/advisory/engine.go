package advisory

import (
	"golang.org/x/sys/unix"

	"latchfs/lockmgr"
)

// A File is an open file description, as the filesystem knows it.
type File interface {
	// ID is its number, which no other open file ever has.
	ID() uint64
	// Inode is what the room keeps with the inode that is open.
	Inode() *Inode
	// InodeKey is the inode's key.
	InodeKey() lockmgr.Key
	// Standing tells how the inode stands to its name, all of it at one moment.
	Standing() Standing
	// LiveKey is the key of the inode with which the users of a live file mean the one that
	// has a path; false of a file that is not live. The path is that of Standing.
	LiveKey(path string) (k lockmgr.Key, live bool)
	// IsWritable reports whether it was opened for writing.
	IsWritable() bool
	// IsTold reports whether the kernel tells of each close of its descriptors.
	IsTold() bool
	// Opens counts the descriptors of the inode that a process has; an error says that
	// nobody can tell.
	Opens(pid int32) (n int, err error)
}

// Standing is how an inode stands to its name.
type Standing struct {
	Path      string // of its name; "" if it never had one
	InSession bool   // a session writes it, for that name
	Unnamed   bool   // it has no name, or its name was taken away, but not by a newer version
	Regular   bool   // it is a regular file
	Linked    bool   // it has other names
	Overtaken bool   // another file took its name by a rename
}

// Caller is the thread that asks for a lock.
type Caller interface {
	UID() uint32
	// Owner is its process.
	Owner() lockmgr.Owner
	// Ancestors are the owner's, nearest first.
	Ancestors() []lockmgr.Ancestor
	// Foreign reports whether the process is in a pid namespace that cannot be seen.
	Foreign() bool
}

// Engine is the filesystem.
type Engine interface {
	// MayWrite reports whether a caller may write the inode that is open.
	MayWrite(c Caller, f File) bool
	// MayClaim reports whether a caller may keep others out of a path, where there need
	// not be a file yet.
	MayClaim(c Caller, path string) bool
	// KeyAt is the key of the inode at a path, false where a lock is the path's.
	KeyAt(path string) (k lockmgr.Key, ok bool)

	// LocksBytes is told that a program is about to lock a range of bytes: the file may be
	// a database, and go live. An errno refuses the lock.
	LocksBytes(f File) unix.Errno
	// Acquire takes a lock under the key that Room.Key says, and waits for it unless the
	// request says not to. An errno is what the program gets.
	Acquire(a *Ask) (*lockmgr.Lock, unix.Errno)
	// Test is the holder who keeps a lock from being granted under a key, nil if nobody does.
	Test(a *Ask, k lockmgr.Key) *lockmgr.Holder
}

// Procs watches processes.
type Procs interface {
	// Watch closes dead when a process has ended. See proc.Reader.Watch.
	Watch(o lockmgr.Owner) (dead <-chan struct{}, stop func(), err error)
}
