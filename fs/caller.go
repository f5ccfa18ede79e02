package fs

import (
	"latchfs/fs/account"
	"latchfs/fs/calling"
	"latchfs/fs/ctl"
	"latchfs/fs/suid"
	"latchfs/fs/transaction"
	"latchfs/lockmgr"

	"golang.org/x/sys/unix"
)

// callers finds out which process makes a request, and in which transaction; and what its
// user costs us. What is known of a process is package calling's.
type callers struct {
	room        *calling.Room
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

// caller is who sent a request.
type caller = calling.Caller

// openCallers is told who tells of processes.
func (f *FS) openCallers(processes Procs) {
	f.callers.proc = processes
	f.callers.room = calling.New(calling.Config{
		Procs: processes, Engine: callersEngine{f.callers}, Running: &f.callers.running,
		Serial: func() uint64 { return f.disk.serial.Add(1) }, Privileged: f.disk.privileged,
	})
}

// callersEngine is the filesystem as package calling needs it.
type callersEngine struct{ *callers }

var _ calling.Engine = callersEngine{}

// KnownOwner implements calling.Engine: by what the running sessions know of a process.
func (e callersEngine) KnownOwner(pid int32) lockmgr.Owner {
	e.nodes.mu.Lock()
	defer e.nodes.mu.Unlock()
	for s := range e.nodes.sessions {
		if o := s.who.Load().Owner(); o.PID == pid {
			return o
		}
	}
	return lockmgr.Owner{PID: pid}
}

// Label implements calling.Engine.
func (e callersEngine) Label(c *caller) string { return e.ctl.Actors.Of(c) }

// HasGuards implements calling.Engine.
func (e callersEngine) HasGuards() bool { return e.ctl.Claims.Count() > 0 }

// Guard implements calling.Engine.
func (e callersEngine) Guard(id string) (g calling.Guard, ok bool) {
	cl := e.ctl.Claims.ByID(id)
	if cl == nil {
		return g, false
	}
	return calling.Guard{UID: cl.By.UID(), Owner: e.ctl.Claims.LockOf(cl).Owner(), Before: cl.Joined()}, true
}

// Joined implements calling.Engine.
func (e callersEngine) Joined(id string, o lockmgr.Owner) {
	if cl := e.ctl.Claims.ByID(id); cl != nil {
		e.ctl.Claims.Note(cl, o)
	}
}

// sender is from whom a request comes.
func (h *Request) sender() calling.Sender { return calling.Sender{TID: h.TID, UID: h.UID, GID: h.GID} }

// callerOf identifies the sender of a request.
func (cs *callers) callerOf(h *Request) *caller { return cs.room.Caller(h.sender()) }

// openerOf is callerOf for an open to write or to create, which execve(2) never sends.
func (cs *callers) openerOf(h *Request) *caller { return cs.room.Opener(h.sender()) }

// closerOf is callerOf for the sender of a FLUSH, with how its process is ending.
func (cs *callers) closerOf(h *Request) *closing {
	c, sig, exiting := cs.room.Closer(h.sender())
	return &closing{c: c, sig: sig, exiting: exiting}
}

// closing is who closes a descriptor.
type closing struct {
	c       *caller
	sig     int  // that kills it, 0 if none does
	exiting bool // it is on its way out
}

func idsOf(c *caller) ids { return ids{c.UID(), c.GID()} }

// mayBeWriter reports whether a caller of whom nothing is known may be the writer of
// a session, of whom nothing is known either.
func mayBeWriter(c *caller, s *session) bool {
	return c.Foreign() && s.who.Load().Owner().PID == 0 && (c.UID() == 0 || c.UID() == s.uid)
}

// shownActor is the label under which the holder of a lock wants to be known: what it said
// itself, or what it is called; "" if neither.
func (lb *label) shownActor() string {
	if lb.actor != "" {
		return lb.actor
	}
	return lb.c.Actor()
}

// membership says which groups are those of who has sent a request, without making it a
// caller.
func (cs *callers) membership(h *Request) suid.Membership { return cs.room.Membership(h.sender()) }

// hasLoneSetgid reports whether a file has the setgid bit, and no right to execute for
// its group.
func (cs *callers) hasLoneSetgid(n *inode) bool {
	var st unix.Stat_t
	return unix.Fstat(cs.nodes.fdOf(n), &st) == nil && suid.IsLoneSetgid(st.Mode)
}

// txnOf is the transaction that the caller is part of.
func (cs *callers) txnOf(c *caller) *txn {
	if t := c.Txn(); t != nil {
		return t.Engine().(txnEngine).t
	}
	return nil
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
