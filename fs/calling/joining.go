package calling

import (
	"slices"

	"latchfs/fs/control"
	"latchfs/fs/transaction"
	"latchfs/lockmgr"
)

// JoinGuard makes the caller a descendant of the holder of the lock that its environment
// names, for one that does not descend from the holder: started by a job server, or in a
// container. It reports whether that is news. Other goroutines must not ask the caller
// anything meanwhile.
func (c *Caller) JoinGuard() bool {
	if !c.room.c.Engine.HasGuards() || c.Foreign() || c.joined {
		return false
	}
	c.joined = true
	id := c.TxnLabel()
	if id == "" {
		return false
	}
	g, ok := c.room.c.Engine.Guard(id)
	if !ok || c.uid != g.UID {
		return false // a setuid program has its environment from somebody else
	}
	c.room.c.Engine.Joined(id, c.owner)
	o := g.Owner
	up := c.Ancestors()
	isKnown := func(o lockmgr.Owner) bool {
		return o == c.owner || slices.ContainsFunc(up, func(a lockmgr.Ancestor) bool { return a.Owner == o })
	}
	if isKnown(o) { // a guard that joined another lock has replaced the variable
		if g.Before == nil || isKnown(g.Before.Owner) {
			return false
		}
		o = g.Before.Owner
	}
	c.guard = &lockmgr.Ancestor{Owner: o, Child: c.room.c.Procs.Now()}
	c.lineage = append(slices.Clone(up), *c.guard)
	return true
}

// Guard is the holder of the lock that JoinGuard has joined, nil if it has joined none.
func (c *Caller) Guard() *lockmgr.Ancestor { return c.guard }

// TxnLabel is the label of a lock, or of a transaction, that the environment of the process
// names, "" if it names none.
func (c *Caller) TxnLabel() string {
	return c.room.c.Procs.EnvOf(c.owner, []string{control.SessionEnv})
}

// Txn is the transaction of which the caller is a member, nil if there is none: as a
// descendant of the process that began it, or by its environment.
func (c *Caller) Txn() *transaction.Txn {
	if !c.room.c.Running.Any() || c.Foreign() {
		return nil
	}
	c.txnOnce.Do(func() {
		c.JoinGuard()
		c.txn = c.room.c.Running.Of(c)
	})
	return c.txn
}
