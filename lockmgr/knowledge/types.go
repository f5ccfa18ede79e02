package knowledge

import (
	"time"

	"latchfs/lockmgr"
)

// Key is a name under which versions are counted. It is opaque.
type Key string

// Stamp tells a version from every other version of the same key. The zero Stamp
// stands for no file.
type Stamp struct {
	Dev   uint64 `json:"dev,omitempty"`
	Ino   uint64 `json:"ino,omitempty"`
	Size  int64  `json:"size,omitempty"`
	Mtime int64  `json:"mtime,omitempty"` // in nanoseconds since 1970
}

// Who is a process with those who learn what it learns: its relatives, the nearest
// first.
type Who struct {
	Self      lockmgr.Owner
	Relatives []lockmgr.Owner
	// Shell is the interactive shell at whose prompt the process was started, and
	// zero below a script. It learns nothing; it only tells that two commands were
	// typed at one prompt (Basis.Ours).
	Shell lockmgr.Owner
}

// chain lists the process and its relatives, nearest first.
func (w Who) chain() []lockmgr.Owner {
	return append([]lockmgr.Owner{w.Self}, w.Relatives...)
}

// family is whose work something is: the chain, and the shell.
func (w Who) family() []lockmgr.Owner {
	if w.Shell == (lockmgr.Owner{}) {
		return w.chain()
	}
	return append(w.chain(), w.Shell)
}

// Author is who made a version, for people to read.
type Author struct {
	PID       int32     `json:"pid,omitempty"` // 0: unknown
	Program   string    `json:"program,omitempty"`
	Actor     string    `json:"actor,omitempty"`
	Operation string    `json:"operation,omitempty"`
	Time      time.Time `json:"time"`
}

// Change is one version and who made it.
type Change struct {
	Number uint64
	Stamp  Stamp
	Author Author
	owners []lockmgr.Owner // whose work it is: see Who.family
}

// Basis is what somebody knows of a key that he is about to replace.
type Basis struct {
	// Known is whether anybody on the chain knows a version that still counts.
	Known bool
	// Stale is whether that is another than the current one.
	Stale bool
	// Absent is whether there was no file when By looked.
	Absent bool
	// Version and Current are the numbers of the known version and the current.
	Version, Current uint64
	// Stamp tells the known version; the zero Stamp if it is too long ago to tell.
	Stamp Stamp
	// By is the process whose knowledge it is, At when it got it.
	By lockmgr.Owner
	At time.Time
	// Since are the versions after the known one, the oldest first, as far as they
	// are remembered.
	Since []Change
	// Ours is whether every one of them was made by somebody on the chain, or by
	// a relative of his.
	Ours bool

	looked bool // By has looked, and has not only written
}

// Later returns the one of two bases, of two keys of one file, that counts: what
// was learned last.
func (b Basis) Later(o Basis) Basis {
	if !b.Known || o.Known && o.At.After(b.At) {
		return o
	}
	return b
}
