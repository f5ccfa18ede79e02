package report

import (
	"strconv"
	"time"

	"latchfs/fs/printable"
)

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
	// Mountpoint is where the mount is, for command lines.
	Mountpoint string
	// Key is the lock table's key, which differs from Path where several
	// names share one lock.
	Key   string
	State State
	// Mode is "shared", "update" or "exclusive".
	Mode string
	// Class is "session", "flock" or "posix".
	Class string
	Asker

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

// Asker is who holds a lock, or waits for it.
type Asker struct {
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
}

// ID is the name or the path under which a record is one lock.
func (r *Record) ID() string {
	if r.Name != "" {
		return r.Name
	}
	return r.Path
}

// SameLock reports whether both records are of one lock.
func (r *Record) SameLock(other *Record) bool {
	return r.Name == other.Name && r.Path == other.Path
}

// lockName is the lock_name of a record: a name, or a path with "." for the
// root.
func (r *Record) lockName() string {
	if id := r.ID(); id != "" {
		return id
	}
	return "."
}

// shown names in text what is locked: "a/b", "a/**", "name:deploy".
func (r *Record) shown() string {
	switch {
	case r.Name != "":
		return "name:" + printable.Line(r.Name)
	case r.Tree:
		return displayPath(r.Path) + "/**"
	default:
		return displayPath(r.Path)
	}
}

// ahead is how many are in a waiter's way.
func (r *Record) ahead() int { return max(r.Ahead, len(r.WaitsFor)) }

// Who names the owner of a record as the tables do: "python3[4711]", with
// "[?]" for a process in another pid namespace.
func (r *Record) Who() string {
	program := r.Program
	if program == "" {
		program = "?"
	}
	pid := "?"
	if r.Owner.PID != 0 {
		pid = strconv.Itoa(int(r.Owner.PID))
	}
	return printable.Line(program) + "[" + pid + "]"
}

// actor is the label the owner goes by (see Record.Actor).
func (r *Record) actor() string {
	if r.Actor != "" {
		return r.Actor
	}
	return r.Program
}

// whoAs is Who with the actor's label, where that says more.
func (r *Record) whoAs() string {
	if r.Actor == "" || r.Actor == r.Program {
		return r.Who()
	}
	return r.Who() + " as " + printable.Line(r.Actor)
}

// Heartbeat is the last sign of life of a holder.
func (r *Record) Heartbeat() time.Time {
	if r.LastSeen.After(r.Since) {
		return r.LastSeen
	}
	return r.Since
}

// staleSince is when a stale record's heartbeat expired.
func (r *Record) staleSince() time.Time {
	if r.StaleSince.IsZero() {
		return r.Heartbeat().Add(r.TTL)
	}
	return r.StaleSince
}

// staleReason explains at now why a record is stale, in the words of SEED W5;
// "" when it is not.
func (r *Record) staleReason(now time.Time) string {
	switch {
	case !r.Stale:
		return ""
	case r.StaleReason != "":
		return r.StaleReason
	}
	silent := now.Sub(r.Heartbeat())
	return "last heartbeat is " + strconv.FormatFloat(silent.Seconds(), 'f', 1, 64) +
		"s old (>" + strconv.FormatFloat(r.TTL.Seconds(), 'f', -1, 64) + "s)"
}
