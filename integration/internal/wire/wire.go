// Package wire is the line protocol between the integration tests and the
// helper process that acts for them on a mount: one JSON request a line, one
// JSON result a line, strictly in turn. A request is one system call as far as
// possible, so that a test can say exactly what the "other program" does and
// see what the kernel answered.
package wire

// Request asks the helper for one operation. Which fields matter depends on Op;
// the names follow the system call's arguments.
type Request struct {
	Op    string
	Path  string `json:",omitempty"` // first path
	To    string `json:",omitempty"` // second path: rename, link, symlink target, socket
	FD    int    `json:",omitempty"` // descriptor in the helper
	FD2   int    `json:",omitempty"` // second descriptor, where a call takes two
	Flags int    `json:",omitempty"` // open, renameat2, fallocate, mmap protection
	Mode  uint32 `json:",omitempty"` // creation or permission bits
	Kind  int    `json:",omitempty"` // flock operation, fcntl lock type, whence
	UID   int    `json:",omitempty"`
	GID   int    `json:",omitempty"`
	Off   int64  `json:",omitempty"` // offset or start of a range
	Len   int64  `json:",omitempty"` // length of a range; 0 is "to the end" for fcntl
	Data  []byte `json:",omitempty"`
}

// Result is the answer to one request.
type Result struct {
	Errno  int      `json:",omitempty"` // errno of the call; 0 is success
	N      int64    `json:",omitempty"` // descriptor, count or offset
	Data   []byte   `json:",omitempty"` // bytes read, link target, attribute value
	Names  []string `json:",omitempty"` // directory listing, attribute names
	Stat   *Stat    `json:",omitempty"` // of stat, lstat and fstat
	Lock   *Lock    `json:",omitempty"` // of getlk and ofd-getlk
	Micros int64    `json:",omitempty"` // how long the system call took
}

// Stat is what the tests look at of struct stat.
type Stat struct {
	Dev, Ino       uint64
	Mode           uint32
	Nlink          uint64
	UID, GID       uint32
	Size           int64
	MtimeNs, CtmNs int64
}

// Lock is struct flock as F_GETLK fills it in.
type Lock struct {
	Type       int16
	Start, Len int64
	PID        int32
}
