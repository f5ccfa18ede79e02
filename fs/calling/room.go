package calling

import (
	"errors"
	"slices"

	"latchfs/fs/transaction"
	"latchfs/lockmgr"
	"latchfs/lockmgr/proc"
)

// Procs tells of processes; *proc.Reader says what each method answers.
type Procs interface {
	Thread(tid uint32) (proc.Thread, error)
	Opener(tid uint32) (proc.Thread, error)
	Closer(tid uint32) (th proc.Thread, sig int, exiting bool, err error)
	Syscall(tid uint32) (call proc.Call, ok bool)
	Groups(tid uint32) (groups []uint32, known bool)
	HasCap(tid uint32, capability int) bool

	Lineage(pid int32) []lockmgr.Ancestor
	Family(o lockmgr.Owner) proc.Family
	Describe(pid int32) proc.Description
	Program(pid int32) string
	EnvOf(o lockmgr.Owner, names []string) string
	Now() lockmgr.Birth
}

// Engine is the filesystem, which knows of processes what /proc does not show.
type Engine interface {
	// KnownOwner is the process with an id, as far as it is known already; the id alone
	// otherwise.
	KnownOwner(pid int32) lockmgr.Owner
	// Label is what a caller is called: by the label that its process was given while it
	// ran, or by a variable of its environment; "" if by neither.
	Label(c *Caller) string
	// HasGuards reports whether there is a lock at all that a process could join. It costs
	// nothing.
	HasGuards() bool
	// Guard is the lock that programs know by an id.
	Guard(id string) (g Guard, ok bool)
	// Joined is told that a process has joined that lock.
	Joined(id string, o lockmgr.Owner)
}

// Guard is a lock that processes join by their environment.
type Guard struct {
	UID    uint32            // of whoever has asked for the lock
	Owner  lockmgr.Owner     // the process that holds it
	Before *lockmgr.Ancestor // the holder of the lock that whoever asked had joined; nil: it had joined none
}

// Config is what a Room stands on.
type Config struct {
	Procs      Procs
	Engine     Engine
	Running    *transaction.Running // the transactions of which callers may be members
	Serial     func() uint64        // a number that it has not given before
	Privileged bool                 // the daemon is root's, and acts as others
}

// Room finds out who makes requests.
type Room struct{ c Config }

// New makes a Room.
func New(c Config) *Room { return &Room{c} }

// Sender is from whom a request comes, as the kernel says it.
type Sender struct {
	TID      uint32 // the thread; 0 if it cannot be seen from here
	UID, GID uint32 // fsuid and fsgid, see credentials(7)
}

// Caller identifies the sender of a request. One in a pid namespace that cannot be seen, or
// one that is gone already, is an owner of its own.
func (r *Room) Caller(s Sender) *Caller {
	th, err := r.c.Procs.Thread(s.TID)
	return r.seen(s, &th, err)
}

// Opener is Caller for an open to write or to create, which execve(2) never sends.
func (r *Room) Opener(s Sender) *Caller {
	th, err := r.c.Procs.Opener(s.TID)
	return r.seen(s, &th, err)
}

// Closer is Caller for a close, with how the process is ending: sig is the signal that
// kills it, 0 if none does; exiting says that it is on its way out.
func (r *Room) Closer(s Sender) (c *Caller, sig int, exiting bool) {
	th, sig, exiting, err := r.c.Procs.Closer(s.TID)
	return r.seen(s, &th, err), sig, exiting
}

// seen is the caller that a look at its thread has shown.
func (r *Room) seen(s Sender, th *proc.Thread, err error) *Caller {
	c := &Caller{room: r, tid: s.TID, uid: s.UID, gid: s.GID}
	if errors.Is(err, proc.ErrBusy) {
		// Inside execve, which closes our descriptor on the way; or we are short of descriptors.
		c.owner = r.c.Engine.KnownOwner(th.TGID)
		return c
	}
	if err != nil {
		c.tid = 0
		c.owner = r.stranger()
		return c
	}
	c.start, c.owner, c.comm = th.Start, th.Owner, th.Comm
	return c
}

// stranger is an owner that nobody else is.
func (r *Room) stranger() lockmgr.Owner { return lockmgr.Owner{Start: r.c.Serial()} }

// Itself stands for the filesystem where it does something of its own accord: for root, and
// for no process.
func (r *Room) Itself() *Caller { return &Caller{room: r, owner: r.stranger()} }

// User stands for a user of whom no process is known, and no group but this one.
func (r *Room) User(uid, gid uint32) *Caller {
	c := &Caller{room: r, uid: uid, gid: gid, owner: r.stranger()}
	c.HaveGroups([]uint32{gid}, false)
	return c
}

// Membership says which groups are the sender's. It does not look at the sender before it is
// asked, and never at root, who needs no groups.
func (r *Room) Membership(s Sender) func(gid uint32) bool {
	return func(g uint32) bool {
		if g == s.GID || s.UID == 0 || s.TID == 0 {
			return g == s.GID
		}
		groups, _ := r.c.Procs.Groups(s.TID)
		return slices.Contains(groups, g)
	}
}
