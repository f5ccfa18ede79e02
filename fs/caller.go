package fs

import (
	"errors"
	"slices"
	"strings"
	"sync"

	"latchfs/fs/access"
	"latchfs/fs/account"
	"latchfs/fs/control"
	"latchfs/fs/ctl"
	"latchfs/fs/suid"
	"latchfs/fs/transaction"
	"latchfs/lockmgr"
	"latchfs/lockmgr/proc"

	"golang.org/x/sys/unix"
)

// callers finds out which process makes a request, and in which transaction; what it may do
// with a file; and what its user costs us.
type callers struct {
	proc        Procs               // tells of processes
	ctl         *ctl.Server         // answers the control file, and has the locks taken through it
	book        *account.Book       // of what users make us keep
	descriptors *account.Book       // of those that users cost us
	looks       *account.Rate       // at descriptors, for each user
	turns       *account.Turns      // of requests
	views       *account.Turns      // of requests that look into .locks
	running     transaction.Running // the transactions of which callers may be a part

	disk  *disk
	nodes *nodes
}

// caller is who sent a request: the thread, its process, and lazily the
// process's ancestors.
type caller struct {
	callers *callers
	tid     int32
	uid     uint32
	gid     uint32
	start   uint64 // the thread's start, which tells a reused id from the old one
	owner   lockmgr.Owner
	comm    string // the name of its program, if the look at it has shown that

	once    sync.Once
	lineage []lockmgr.Ancestor

	descOnce sync.Once
	desc     proc.Description

	txnOnce sync.Once
	txn     *txn // see txnOf

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

func (c *caller) ids() ids { return ids{c.uid, c.gid} }

// Thread implements rewalk.Thread.
func (c *caller) Thread() (tid int32, start uint64) { return c.tid, c.start }

// Syscall is the system call that sent the request, if it can be seen.
func (c *caller) Syscall() (proc.Call, bool) {
	c.callOnce.Do(func() {
		if c.tid != 0 {
			c.call, c.callKnown = c.callers.proc.Syscall(uint32(c.tid))
		}
	})
	return c.call, c.callKnown
}

// callerOf identifies the sender of a request. A caller in a pid namespace
// that we cannot see, or one that is gone already, is an owner of its own.
func (cs *callers) callerOf(h *Request) *caller {
	th, err := cs.proc.Thread(h.TID)
	return cs.callerFrom(h, &th, err)
}

// callerFrom is the caller that a look has shown.
func (cs *callers) callerFrom(h *Request, th *proc.Thread, err error) *caller {
	c := &caller{callers: cs, tid: int32(h.TID), uid: h.UID, gid: h.GID}
	if errors.Is(err, proc.ErrBusy) {
		// Inside execve, which closes our descriptor on the way.
		c.owner = cs.knownOwner(th.TGID)
		return c
	}
	if err != nil {
		c.tid = 0
		c.owner = lockmgr.Owner{Start: cs.disk.serial.Add(1)}
		return c
	}
	c.start, c.owner, c.comm = th.Start, th.Owner, th.Comm
	return c
}

// openerOf is callerOf for an open to write or to create, which execve(2) never sends.
func (cs *callers) openerOf(h *Request) *caller {
	th, err := cs.proc.Opener(h.TID)
	return cs.callerFrom(h, &th, err)
}

// closerOf is callerOf for the sender of a FLUSH, with how its process is ending.
func (cs *callers) closerOf(h *Request) *closing {
	th, sig, exiting, err := cs.proc.Closer(h.TID)
	return &closing{c: cs.callerFrom(h, &th, err), sig: sig, exiting: exiting}
}

// closing is who closes a descriptor.
type closing struct {
	c       *caller
	sig     int  // that kills it, 0 if none does
	exiting bool // it is on its way out
}

// knownOwner identifies a process by what the running sessions know of it.
func (cs *callers) knownOwner(pid int32) lockmgr.Owner {
	cs.nodes.mu.Lock()
	defer cs.nodes.mu.Unlock()
	for s := range cs.nodes.sessions {
		if o := s.who.Load().owner; o.PID == pid {
			return o
		}
	}
	return lockmgr.Owner{PID: pid}
}

// foreign reports whether nothing is known about the caller.
func (c *caller) foreign() bool { return c.owner.PID == 0 }

// mayBeWriter reports whether a caller of whom nothing is known may be the writer of
// a session, of whom nothing is known either.
func (c *caller) mayBeWriter(s *session) bool {
	return c.foreign() && s.who.Load().owner.PID == 0 && (c.uid == 0 || c.uid == s.uid)
}

// ancestors are the caller's ancestors, nearest first.
func (c *caller) ancestors() []lockmgr.Ancestor {
	c.once.Do(func() {
		if !c.foreign() {
			c.lineage = c.callers.proc.Lineage(c.owner.PID)
		}
	})
	return c.lineage
}

// kinOf reports whether the caller is the process id.owner or an heir of it:
// a descendant started after id.since. So is the process that has left the session to a
// descendant, with its other heirs: what it has written and closed is its own still.
func (c *caller) kinOf(id *identity) bool {
	if id == nil {
		return false
	}
	if t := c.callers.txnOf(c); t != nil && *id == t.identity() {
		return true // whoever its ancestors are
	}
	return c.descendsFrom(id) || c.kinOf(id.from)
}

func (c *caller) descendsFrom(id *identity) bool {
	if c.owner == id.owner {
		return true
	}
	if c.foreign() || id.owner.PID == 0 {
		return false
	}
	for _, a := range c.ancestors() {
		if a.Owner == id.owner {
			return a.Child.After(id.since)
		}
	}
	return false
}

// describe is what people want to know about the caller's process.
func (c *caller) describe() *proc.Description {
	c.descOnce.Do(func() {
		if !c.foreign() {
			c.desc = c.callers.proc.Describe(c.owner.PID)
		}
	})
	return &c.desc
}

// actorOf is the label under which the holder of a lock wants to be known: what it
// said itself, the label that it was given while it ran, or a variable of its
// environment; "" if none.
func (cs *callers) actorOf(lb *label) string {
	if lb.actor != "" {
		return lb.actor
	}
	c := lb.c
	c.actorOnce.Do(func() {
		if !c.foreign() {
			c.actor = shortLabel(cs.ctl.Actors.Of(c))
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

// inGroup reports whether a group is one of the caller's.
func (c *caller) inGroup(gid uint32) bool {
	return c.gid == gid || slices.Contains(c.supplementary(), gid)
}

// supplementary are the caller's groups beside gid, as they were when they were first
// asked for.
func (c *caller) supplementary() []uint32 {
	c.groupsOnce.Do(func() {
		if c.tid != 0 {
			c.groups, c.groupsKnown = c.callers.proc.Groups(uint32(c.tid))
		}
	})
	return c.groups
}

// user is the caller as somebody who has rights. Root needs no groups.
func (c *caller) user() *access.User {
	if c.uid == 0 {
		return &access.User{}
	}
	return &access.User{UID: c.uid, GIDs: append([]uint32{c.gid}, c.supplementary()...), All: c.groupsKnown}
}

// haveGroups gives the caller these supplementary groups instead of its own.
func (c *caller) haveGroups(groups []uint32, known bool) {
	c.groupsOnce.Do(func() { c.groups, c.groupsKnown = groups, known })
}

// program is the short name of the caller's process.
func (c *caller) program() string {
	if c.foreign() {
		return ""
	}
	if c.comm != "" {
		return c.comm
	}
	return c.callers.proc.Program(c.owner.PID)
}

// remember keeps what the audit trail says of the caller, which may have ended by then.
func (c *caller) remember() {
	c.comm = c.program()
	c.callers.actorOf(&label{c: c})
}

// identity is who holds a session: a process and the moment from which its
// children are heirs.
type identity struct {
	owner lockmgr.Owner
	since lockmgr.Birth
	from  *identity // the ancestor that has left the session to owner; nil: none has
}

// sender is the membership of who has sent a request. Its supplementary groups are
// looked up when they matter.
func (cs *callers) sender(h *Request) suid.Membership {
	uid, gid, tid := h.UID, h.GID, h.TID
	return func(g uint32) bool {
		if g == gid || uid == 0 || tid == 0 {
			return g == gid
		}
		groups, _ := cs.proc.Groups(tid)
		return slices.Contains(groups, g)
	}
}

// hasLoneSetgid reports whether a file has the setgid bit, and no right to execute for
// its group.
func (cs *callers) hasLoneSetgid(n *inode) bool {
	var st unix.Stat_t
	return unix.Fstat(cs.nodes.fdOf(n), &st) == nil && suid.IsLoneSetgid(st.Mode)
}

// txnOf is the transaction that the caller is part of: as an heir of who began it,
// or by its environment.
func (cs *callers) txnOf(c *caller) *txn {
	if !cs.running.Any() || c.foreign() {
		return nil
	}
	c.txnOnce.Do(func() {
		cs.joinGuard(c)
		if t := cs.running.Of(c); t != nil {
			c.txn = t.Engine().(txnEngine).t
		}
	})
	return c.txn
}

// txnFor is txnOf for a request, with its caller. Without any transaction it costs
// nothing.
func (cs *callers) txnFor(h *Request) (*txn, *caller) {
	if !cs.running.Any() {
		return nil, nil
	}
	c := cs.callerOf(h)
	return cs.txnOf(c), c
}

// joinGuard makes the caller an heir of the lock that its environment names
// (LATCHFS_SESSION), for one that is no descendant of the holder: started by a
// job server, or in a container. It reports whether that is news.
func (cs *callers) joinGuard(c *caller) bool {
	if cs.ctl.Claims.Count() == 0 || c.foreign() || c.joined {
		return false
	}
	c.joined = true
	id := cs.proc.EnvOf(c.owner, []string{control.SessionEnv})
	if id == "" {
		return false
	}
	cl := cs.ctl.Claims.ByID(id)
	if cl == nil || c.uid != cl.By.UID() {
		return false // a setuid program has its environment from somebody else
	}
	cs.ctl.Claims.Note(cl, c.owner)
	o := cs.ctl.Claims.LockOf(cl).Owner()
	up := c.ancestors()
	isKnown := func(o lockmgr.Owner) bool {
		return o == c.owner || slices.ContainsFunc(up, func(a lockmgr.Ancestor) bool { return a.Owner == o })
	}
	if isKnown(o) { // a guard that joined another lock has replaced the variable
		before := cl.Joined()
		if before == nil || isKnown(before.Owner) {
			return false
		}
		o = before.Owner
	}
	c.guard = &lockmgr.Ancestor{Owner: o, Child: cs.proc.Now()}
	c.lineage = append(slices.Clone(up), *c.guard)
	return true
}
