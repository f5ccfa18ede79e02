package locksdir

import (
	"io"
	"slices"
	"time"
)

// Process is a process that cannot be mistaken for a later one of the same
// number: its id and its start time in clock ticks since boot. PID 0 stands
// for a process in a pid namespace that the daemon cannot see.
type Process struct {
	PID   int32
	Start uint64
}

// Viewer is who looks at the tree.
type Viewer struct {
	// UID is the user the viewer acts as (its fsuid).
	UID uint32
	// GIDs are groups of the viewer: all of them if AllGroups says so. See May.
	GIDs      []uint32
	AllGroups bool
	// PID is the viewer's process, 0 when it is in a foreign pid namespace.
	PID int32
	// Privileged viewers (root and the mount's owner) see every command line
	// and working directory, and all kept bytes.
	Privileged bool
	// Lineage is the viewer's process and its ancestors, nearest first. What
	// one of them holds is marked as the viewer's own (SEED W8, we_hold_it).
	// It may be left empty: then PID alone decides.
	Lineage []Process
}

// sees reports whether the viewer may read uid's command lines and directories.
func (v Viewer) sees(uid uint32) bool { return v.Privileged || v.UID == uid }

// The rights of access(2), for May.
const (
	RightRead   = 4
	RightSearch = 1
)

// May reports whether the viewer has the right want to a file of this owner,
// group and mode. Where not all of a viewer's groups are known, what a file denies
// its group it denies to the rest here. ACLs are not asked.
func (v Viewer) May(want, uid, gid, mode uint32) bool {
	switch {
	case v.Privileged:
		return true
	case v.UID == uid:
		mode >>= 6
	case slices.Contains(v.GIDs, gid):
		mode >>= 3
	case !v.AllGroups:
		mode &= mode >> 3
	}
	return mode&want == want
}

// Holds reports whether r belongs to the viewer or to one of its ancestors.
func (v Viewer) Holds(r *Record) bool {
	if r.Owner.PID == 0 {
		return false
	}
	for _, p := range v.Lineage {
		if p == r.Owner {
			return true
		}
	}
	return len(v.Lineage) == 0 && v.PID == r.Owner.PID
}

// State says whether a record's lock is held or waited for.
type State string

// The two states of a record.
const (
	Held    State = "held"
	Waiting State = "waiting"
)

// Record describes one lock, held or waited for. A lock on several names is
// one record for each name.
type Record struct {
	// Path is the locked name relative to the root of the mount, raw bytes as
	// the kernel gave them, without a leading slash; "" is the root itself, and
	// the path of a lock that has a Name.
	Path string
	// Name is the name of a lock without a file (SEED T2), "" for any other.
	Name string
	// Tree: the lock covers the directory Path and everything below it.
	Tree bool
	// File is the file that the lock was taken for, where the policy gives it a
	// lock of another name; "" where Path is that file.
	File string
	// ClaimFile is the lock file that its holder has written, where it is one that the
	// policy declares; "" for any other lock.
	ClaimFile string
	// Key is the lock table's key, which differs from Path where several
	// names share one lock.
	Key   string
	State State
	// Mode is "shared", "update" or "exclusive".
	Mode string
	// Class is "session", "flock" or "posix".
	Class string
	Owner Process
	// Host is the machine that the owner runs on.
	Host string
	// Program is the owner's short name (comm). Everybody may see it.
	Program string
	// Cmdline and Cwd show only to privileged viewers and to the same user.
	Cmdline []string
	Cwd     string
	UID     uint32
	// Actor is the label under which the owner wants to be known; when it is
	// empty the program stands in.
	Actor string
	// Session is the id of the session that the lock belongs to, "" if none.
	Session string
	// Operation is what the lock is held or wanted for: "open", "rename",
	// "flock", ...
	Operation string
	// Token is the fencing token, 0 while waiting.
	Token uint64
	// Since is when the lock was granted, or when the wait began.
	Since time.Time
	// LastSeen is the last sign of life of the holder (its heartbeat); zero
	// when none was recorded after Since.
	LastSeen time.Time
	// TTL is how long after LastSeen the lock becomes stale; 0 without a
	// lease: the lock ends with its last descriptor and no earlier.
	TTL time.Duration
	// Deadline is when a waiter gives up; zero: never.
	Deadline time.Time
	// WaitsFor names, for a waiter, the first few of those in its way:
	// "python3[4711]".
	WaitsFor []string
	// Ahead is how many are in a waiter's way altogether; 0: those in WaitsFor
	// are all.
	Ahead int
	// Waiters is how many requests wait for this held lock.
	Waiters int
	// Stale: the heartbeat has expired, the lock can be stolen.
	Stale bool
	// StaleSince is when it expired; zero: TTL after the last sign of life.
	StaleSince time.Time
	// StaleReason is why; "": for how long there was no sign of life.
	StaleReason string
}

// Refusal is one operation that was answered with an error because of a lock,
// a deadlock or a commit that could not be made.
type Refusal struct {
	Time time.Time
	// Path and Name are what was refused, as in Record.
	Path string
	Name string
	// Operation is what was asked: "open", "rename", "close", ...
	Operation string
	// Errno is the name of what the program was answered: "EBUSY", ...
	Errno string
	// Wait is how long the request had waited; 0 when it did not wait.
	Wait time.Duration
	// Reason is the cause in one sentence; may be empty where Errno and Holder
	// say it all.
	Reason string
	// Content is the line on account of which a validator refused, and Output what
	// it said besides: for those alone who may see them.
	Content string
	Output  []string
	// Place is where in the content the cause is, in words, for the same readers.
	Place string
	// Holder is who was in the way; nil when nobody was.
	Holder *Record
	// Suggestion is what to do; when it is empty, Advice finds something.
	Suggestion string
	// PID is the process that was refused.
	PID int32
	// Kept is the id under which refused bytes were kept, "" if there were none.
	Kept string
}

// EventLog is the audit trail: one JSON object a line, growing at its end.
type EventLog interface {
	io.ReaderAt
	// Size is the number of bytes that can be read now.
	Size() int64
}

// Source is what the tree shows. Its methods may be called at any time from
// several goroutines, and never while they hold a lock that a caller of the
// Tree holds too.
type Source interface {
	// Generation rises whenever Held or Waiting would answer differently, also
	// when a lock becomes stale; a heartbeat alone need not raise it. It must be
	// cheap.
	Generation() uint64
	// Held lists the held locks, in any order; the caller keeps the slice.
	Held() []Record
	// Waiting lists the waiting requests, those for one lock in queue order;
	// the caller keeps the slice.
	Waiting() []Record
	// Why lists what was refused to the viewer's lineage, in any order; the
	// caller keeps the slice.
	Why(Viewer) []Refusal
	// Events is the audit trail.
	Events() EventLog
	// Policy is the policy in force, as TOML.
	Policy() []byte
	// Sight is what the viewer may know of; nil for one who may know of everything.
	Sight(Viewer) Sight
	// Programs says, for people, which programs have been learned to write back what
	// they read. Of others' programs the viewer sees the name alone.
	Programs(v Viewer) []byte
	// Rejected lists the kept bytes that the viewer may know of, sorted by ID;
	// the caller keeps the slice. The Tree shows of them what the viewer May
	// read.
	Rejected(Viewer) []Rejected
	// FindRejected is the one of Rejected that has this ID, which may be any
	// string. It must not cost more when there are many.
	FindRejected(id string, v Viewer) (Rejected, bool)
	Versions
	// Release ends the lock of the group, the records of all who hold it as
	// they were shown, on behalf of the viewer: its own, or a stale one. The
	// lock may have changed hands since; the tokens tell. Its error reaches the
	// caller of Tree.Remove unchanged.
	Release(group []Record, v Viewer) error
	// Stopping reports whether the mount is shutting down, and lets only those
	// write who do already. Generation rises when that begins.
	Stopping() bool
	// Started is when the mount began to serve.
	Started() time.Time
	// Now is the clock; its location is that of the times shown to people.
	Now() time.Time
}

// Entry describes one file or directory of the tree.
type Entry struct {
	// Name is the last component of the path, raw bytes; "" for the root.
	Name string
	Dir  bool
	// Mode holds the permission bits alone, without the file type.
	Mode uint32
	// UID owns the entry: a lock belongs to its holder's user, so that `ls -l`
	// shows whose it is; the rest belongs to 0.
	UID uint32
	// GID is the entry's group; 0 except in rejected/.
	GID uint32
	// Size in bytes; 0 for directories.
	Size  int64
	Mtime time.Time
}

// Content is an open file. It is a snapshot taken when it was opened, except
// for events.jsonl, which goes on growing. ReadAt follows io.ReaderAt.
type Content interface {
	io.ReaderAt
	io.Closer
	// Size is exact for the snapshot. While a file is open, attributes asked
	// for it are best answered with this size rather than with a new Stat,
	// whose rendering may be a newer one.
	Size() int64
}
