package fs

import (
	"time"

	"golang.org/x/sys/unix"
)

// The kernel's requests and the answers to them, in the words of this package: whoever
// serves a mount (package face) puts the kernel's own into these.

// Request says who asks, and of which node. Every request has one.
type Request struct {
	Node uint64 // as Entry.Node names it; rootID is the root
	// TID is the thread that makes the system call, as this process sees it. It is 0 for
	// one in a PID namespace that is not below ours, and for what the kernel does of its
	// own accord.
	TID      uint32
	UID, GID uint32 // fsuid and fsgid, see credentials(7)
}

// OpenRequest asks for an open file or directory: open(2).
type OpenRequest struct {
	Request
	Flags    uint32 // of open(2), as Linux has them
	KillSuid bool   // a truncation drops the set-user-ID and set-group-ID bits
}

// CreateRequest asks for a file that is new, as far as the kernel knows: open(2), O_CREAT.
type CreateRequest struct {
	OpenRequest
	Mode, Umask uint32 // the mode is that of the call, before umask(2)
}

// MakeRequest asks for a new directory, device, pipe or file: mkdir(2), mknod(2).
type MakeRequest struct {
	Request
	Mode, Umask uint32
	Rdev        uint32
}

// LinkRequest asks for a further name in the directory Node: link(2).
type LinkRequest struct {
	Request
	Target uint64 // the node that gets the name
}

// RenameRequest asks to rename from the directory Node: renameat2(2).
type RenameRequest struct {
	Request
	NewDir uint64 // the node of the other directory, or of the same
	Flags  uint32 // RENAME_*
}

// AttrRequest asks for what stat(2) says.
type AttrRequest struct {
	Request
	Handle    uint64
	HasHandle bool // as for fstat(2); else Handle says nothing
}

// StatxRequest asks for what statx(2) says.
type StatxRequest struct {
	Request
	Mask uint32 // STATX_*
}

// Set says which attributes a SetAttrRequest is about.
type Set uint32

// What may be set. A time that is "now" is the daemon's, and says nothing of the other.
const (
	SetMode Set = 1 << iota
	SetUID
	SetGID
	SetSize
	SetAtime
	SetMtime
	SetAtimeNow
	SetMtimeNow
	SetHandle   // the request comes by an open file
	SetKillSuid // a truncation drops the set-user-ID and set-group-ID bits
	SetOther    // what is the kernel's own business
)

// SetAttrRequest asks to change attributes: chmod(2), chown(2), truncate(2), utimensat(2),
// and those that go by a descriptor. One that sets nothing at all asks to drop the
// set-user-ID and set-group-ID bits.
type SetAttrRequest struct {
	Request
	Set          Set
	Handle, Size uint64
	Mode         uint32 // 07777 of it
	Owner, Group uint32
	Atime, Mtime unix.Timespec
}

// size is the size that is asked for, if one is.
func (in *SetAttrRequest) size() (uint64, bool) { return in.Size, in.Set&SetSize != 0 }

// SetXAttrRequest asks to set an extended attribute: setxattr(2).
type SetXAttrRequest struct {
	Request
	Flags    uint32 // XATTR_CREATE, XATTR_REPLACE
	KillSgid bool   // an access ACL drops the set-group-ID bit
}

// ReadRequest asks for bytes of a file, or entries of a directory.
type ReadRequest struct {
	Request
	Handle, Offset uint64
	Size           uint32
	Flags          uint32 // of the open file
}

// WriteRequest asks to write bytes.
type WriteRequest struct {
	Request
	Handle, Offset uint64
	Flags          uint32 // of the open file
	Cached         bool   // pages of a mapping: the kernel writes them, for whomever
	KillSuid       bool   // it drops the set-user-ID and set-group-ID bits
}

// FlushRequest comes at every close(2) of every descriptor.
type FlushRequest struct {
	Request
	Handle    uint64
	LockOwner uint64 // whose fcntl(2) locks end
}

// ReleaseRequest comes after the last of these, for each open file or directory.
type ReleaseRequest struct {
	Request
	Handle uint64
}

// FsyncRequest asks to write an open file or directory to the disk: fsync(2).
type FsyncRequest struct {
	Request
	Handle   uint64
	DataOnly bool // fdatasync(2)
}

// SeekRequest asks for the next data or hole of a file: lseek(2).
type SeekRequest struct {
	Request
	Handle, Offset uint64
	Whence         uint32 // SEEK_DATA, SEEK_HOLE
}

// AllocRequest asks for room in a file: fallocate(2).
type AllocRequest struct {
	Request
	Handle, Offset, Length uint64
	Mode                   uint32
}

// CopyRequest asks to copy from one file to another: copy_file_range(2).
type CopyRequest struct {
	Request
	Handle, Offset uint64 // from where
	To             uint64 // the node to which
	ToHandle       uint64
	ToOffset       uint64
	Length         uint64
	Flags          uint64
}

// LockRequest asks for, or about, a lock of flock(2) or fcntl(2).
type LockRequest struct {
	Request
	Handle uint64
	Owner  uint64 // the kernel's number for who has the lock
	Flock  bool
	Lock   FileLock
}

// FileLock is a lock as fcntl(2) describes it.
type FileLock struct {
	Start, End uint64 // the first byte and the last
	Type       uint32 // F_RDLCK, F_WRLCK, F_UNLCK
	PID        uint32
}

// Attr is what stat(2) says of a node.
type Attr struct {
	Ino, Size, Blocks   uint64
	Atime, Mtime, Ctime unix.Timespec
	Mode, Nlink         uint32
	UID, GID            uint32
	Rdev, Blksize       uint32
}

// AttrReply answers with attributes.
type AttrReply struct {
	Attr
	TTL time.Duration // how long the kernel may believe them
}

// StatxReply is AttrReply for statx(2).
type StatxReply struct {
	unix.Statx_t
	TTL time.Duration
}

// Entry says what a name leads to. It costs a reference, which Forget gives back.
type Entry struct {
	Node    uint64 // 0: to nothing, and the kernel may believe that
	Attr    Attr
	NameTTL time.Duration // how long the kernel may believe the name
	AttrTTL time.Duration // and the attributes
}

// Opened is an open file or directory, and how the kernel is to do I/O on it.
type Opened struct {
	Handle      uint64
	Direct      bool  // each read and write is a request: no pages are cached
	KeepCache   bool  // the pages that are cached are good
	NoFlush     bool  // a close needs no FlushRequest
	Stream      bool  // it has no offsets
	Passthrough bool  // the kernel reads and writes the backing file itself
	Backing     int32 // that file, as Kernel.RegisterBacking names it
}

// Created is a file that was made and opened.
type Created struct {
	Entry
	Opened
}

// Listed is an entry of a directory.
type Listed struct {
	Name string
	Ino  uint64
	Mode uint32 // its S_IFMT bits
	Next uint64 // the offset behind it
}

// Listing takes the entries of a directory, as many as there is room for.
type Listing interface {
	// Add adds an entry, and reports whether there was room for it.
	Add(d Listed) bool
	// Describe says what the entry added last leads to.
	Describe(e *Entry)
}

// Data is what was read: bytes, or a part of a file from which the kernel takes them.
type Data struct {
	Bytes []byte
	// If Size is not 0, the bytes are those of a file that stays open until the request
	// is answered.
	FD   int
	Off  int64
	Size int
}
