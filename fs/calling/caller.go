package calling

import (
	"strings"
	"sync"

	"golang.org/x/sys/unix"

	"latchfs/fs/control"
	"latchfs/fs/transaction"
	"latchfs/lockmgr"
	"latchfs/lockmgr/proc"
)

// Caller is who sent a request: the thread, its process, and lazily what is known of that.
type Caller struct {
	room  *Room
	tid   uint32
	uid   uint32
	gid   uint32
	start uint64 // the thread's start, which tells a reused id from the old one
	owner lockmgr.Owner
	comm  string // the name of its program, if the look at it has shown that

	lineageOnce sync.Once
	lineage     []lockmgr.Ancestor

	descOnce sync.Once
	desc     proc.Description

	txnOnce sync.Once
	txn     *transaction.Txn // see Txn

	joined bool              // its environment was asked for a lock to join
	guard  *lockmgr.Ancestor // whose lock that is, the last of lineage

	actorOnce sync.Once
	actor     string

	groupsOnce sync.Once
	groups     []uint32
	// groupsKnown: groups could be read, and are all.
	groupsKnown bool

	callOnce  sync.Once
	call      proc.Call
	callKnown bool
}

// TID is the id of the thread, 0 if that cannot be seen: then it is not known which of two
// requests one thread has sent.
func (c *Caller) TID() uint32 { return c.tid }

// Thread is the thread, with its start, which tells a reused id from the old one. Both are 0
// if it cannot be seen.
func (c *Caller) Thread() (tid int32, start uint64) { return int32(c.tid), c.start }

// UID is the user as whom the caller uses files.
func (c *Caller) UID() uint32 { return c.uid }

// GID is the group as which the caller makes files.
func (c *Caller) GID() uint32 { return c.gid }

// Owner is the caller's process, to which belongs what the caller opens and locks.
func (c *Caller) Owner() lockmgr.Owner { return c.owner }

// Foreign reports whether nothing is known about the caller.
func (c *Caller) Foreign() bool { return c.owner.PID == 0 }

// IsDaemon reports whether the caller is this process.
func (c *Caller) IsDaemon() bool { return int(c.owner.PID) == unix.Getpid() }

// Syscall is the system call that sent the request, if it can be seen.
func (c *Caller) Syscall() (proc.Call, bool) {
	c.callOnce.Do(func() {
		if c.tid != 0 {
			c.call, c.callKnown = c.room.c.Procs.Syscall(c.tid)
		}
	})
	return c.call, c.callKnown
}

// Describe is what people want to know about the caller's process.
func (c *Caller) Describe() *proc.Description {
	c.descOnce.Do(func() {
		if !c.Foreign() {
			c.desc = c.room.c.Procs.Describe(c.owner.PID)
		}
	})
	return &c.desc
}

// Comm is the name of the caller's program, if the look at its thread has shown that; ""
// otherwise.
func (c *Caller) Comm() string { return c.comm }

// Program is the short name of the caller's process.
func (c *Caller) Program() string {
	if c.Foreign() {
		return ""
	}
	if c.comm != "" {
		return c.comm
	}
	return c.room.c.Procs.Program(c.owner.PID)
}

// Actor is the label under which the caller is known to people: what its process was
// called while it ran, or a variable of its environment; "" if neither.
func (c *Caller) Actor() string {
	c.actorOnce.Do(func() {
		if !c.Foreign() {
			c.actor = shortLabel(c.room.c.Engine.Label(c))
		}
	})
	return c.actor
}

// shortLabel cuts what a program says of itself to what a request may say.
func shortLabel(s string) string {
	if len(s) <= control.MaxLabel {
		return s
	}
	return strings.ToValidUTF8(s[:control.MaxLabel-len("…")], "") + "…"
}

// Remember keeps what the audit trail says of the caller, which may have ended by then.
func (c *Caller) Remember() {
	c.comm = c.Program()
	c.Actor()
}
