package calling

import (
	"slices"

	"latchfs/lockmgr"
	"latchfs/lockmgr/proc"
)

// Identity is who holds a session: a process and the moment from which its children share
// what it has. It does not change; its zero value is nobody.
type Identity struct {
	owner lockmgr.Owner
	since lockmgr.Birth
	from  *Identity // see From
}

// NewIdentity is a process with those of its descendants that are born after since, or
// descend from one that is.
func NewIdentity(o lockmgr.Owner, since lockmgr.Birth) *Identity {
	return &Identity{owner: o, since: since}
}

// Owner is the process.
func (id *Identity) Owner() lockmgr.Owner { return id.owner }

// Since is the moment from which children of the process share what it has.
func (id *Identity) Since() lockmgr.Birth { return id.since }

// From is the ancestor of the process that has left the session to it, and shares it still;
// nil if none has.
func (id *Identity) From() *Identity { return id.from }

// Lineage says from whom processes descend, and what time it is.
type Lineage interface {
	Lineage(pid int32) []lockmgr.Ancestor
	Now() lockmgr.Birth
}

// PassedTo is who holds a session from now on that id held, and of which another process
// has the descriptors. Where that descends from id, id and its other descendants share the
// session still: a script that starts a daemon closes the descriptor that the daemon has
// inherited, and goes on to use the file. So do they where nobody can tell from whom it
// descends: it is in execve(2), which closes its descriptor in a moment, or has just ended.
func (id *Identity) PassedTo(o lockmgr.Owner, procs Lineage) *Identity {
	for was := id; was != nil; was = was.from {
		if was.owner == o {
			return was // it has a descriptor again
		}
	}
	up := procs.Lineage(o.PID)
	isHeir := func(a lockmgr.Ancestor) bool { return a.Owner == id.owner && a.Child.After(id.since) }
	for len(up) > 0 && id != nil && !slices.ContainsFunc(up, isHeir) {
		id = id.from
	}
	return &Identity{owner: o, since: procs.Now(), from: id}
}

// BelongsTo reports whether the caller is the process of id, or a descendant that shares
// what it has; if id is nil, it is not. It belongs, too, to a process to which one of those
// has left the session: what it has written and closed is its own still.
func (c *Caller) BelongsTo(id *Identity) bool {
	if id == nil {
		return false
	}
	if t := c.Txn(); t != nil && id.from == nil && id.owner == t.Owner() && id.since == t.Since() {
		return true // whoever its ancestors are
	}
	return c.DescendsFrom(id.owner, id.since) || c.BelongsTo(id.from)
}

// DescendsFrom reports whether the caller is the process o, or descends from a child of it
// that was born after since.
func (c *Caller) DescendsFrom(o lockmgr.Owner, since lockmgr.Birth) bool {
	if c.owner == o {
		return true
	}
	if c.Foreign() || o.PID == 0 {
		return false
	}
	for _, a := range c.Ancestors() {
		if a.Owner == o {
			return a.Child.After(since)
		}
	}
	return false
}

// Ancestors are the caller's ancestors, nearest first; the holder of a lock that it has
// joined is the last.
func (c *Caller) Ancestors() []lockmgr.Ancestor {
	c.lineageOnce.Do(func() {
		if !c.Foreign() {
			c.lineage = c.room.c.Procs.Lineage(c.owner.PID)
		}
	})
	return c.lineage
}

// Family are the relatives of the caller's process.
func (c *Caller) Family() proc.Family { return c.room.c.Procs.Family(c.owner) }
