package fs

import (
	"slices"
	"time"

	"golang.org/x/sys/unix"

	"latchfs/fs/control"
	"latchfs/fs/denied"
	"latchfs/lockmgr"
)

// This file is about what a lock that was taken without opening means to those
// who open files: its heirs, and everybody else.

// fence keeps the heirs of a stolen claim from what it was on: they believe that
// it is still theirs. It lasts until the claim is given back.
func (cs *controls) fence(no uint64, h *lockmgr.Holder) {
	cs.mu.Lock()
	defer cs.mu.Unlock()
	if cl := cs.claims[no]; cl != nil && cs.stolen[no] == nil {
		if t := cl.txn.Load(); t != nil {
			go t.rollback("its lock was stolen")
		}
		cs.stolen[no] = cs.fenceLocked(cl, h)
		cs.fences.Add(1)
	}
}

// fenced refuses a request for keys by an heir of a claim on them that was stolen.
func (f *FS) fenced(c *caller, keys []lockmgr.Key) error {
	cs := f.controls
	if cs.fences.Load() == 0 {
		return nil
	}
	f.joinGuard(c) // who has joined a lock is an heir whether or not it meets anybody
	f.txnOf(c)     // what kinOf asks takes the mutex
	cs.mu.Lock()
	defer cs.mu.Unlock()
	for _, h := range cs.stolen {
		if c.kinOf(&identity{h.Owner, h.Since}) && h.Covers(keys) {
			lb, _ := h.Label.(*label)
			if lb == nil {
				return denied.ErrFenced
			}
			return &denied.Fenced{Lock: lb.id()}
		}
	}
	return nil
}

// guarded reports whether somebody else has locked, without opening, a name or a
// directory above it.
func (f *FS) guarded(c *caller, p place) bool {
	if f.controls.n.Load() == 0 {
		return false
	}
	for _, h := range f.table.Holders(f.appendNames(nil, f.path(p.dir, p.name)), nil) {
		lb, _ := h.Label.(*label)
		if lb != nil && lb.control != 0 && h.Mode != lockmgr.Shared && !c.kinOf(&identity{h.Owner, h.Since}) {
			return true
		}
	}
	return false
}

// guardDemand waits for those who have locked a name without opening it, and for
// nothing else that uses a live file.
func (f *FS) guardDemand(c *caller, p place, wait time.Duration) *demand {
	d := f.fileDemand(c, opOpen, wait, p)
	d.mode, d.ttl = lockmgr.Shared, 0
	return d
}

// passGuard lets a writer of a live file wait until nobody else has locked it.
// Writers that had it open by then go on (requirements B2 and B5).
func (f *FS) passGuard(c *caller, p place, wait time.Duration, cancel <-chan struct{}) unix.Errno {
	if !f.guarded(c, p) {
		return 0
	}
	l, e := f.lock(f.guardDemand(c, p, wait), cancel)
	if e == 0 {
		f.table.Release(l)
	}
	return e
}

// joinGuard makes the caller an heir of the lock that its environment names
// (LATCHFS_SESSION), for one that is no descendant of the holder: started by a
// job server, or in a container. It reports whether that is news.
func (f *FS) joinGuard(c *caller) bool {
	if f.controls.n.Load() == 0 || c.foreign() || c.joined {
		return false
	}
	c.joined = true
	id := f.proc.EnvOf(c.owner, []string{control.SessionEnv})
	if id == "" {
		return false
	}
	cl := f.controls.byID(id)
	if cl == nil || c.uid != cl.label.c.uid {
		return false // a setuid program has its environment from somebody else
	}
	f.controls.note(cl, c.owner)
	o := f.controls.lockOf(cl).Owner()
	up := c.ancestors()
	isKnown := func(o lockmgr.Owner) bool {
		return o == c.owner || slices.ContainsFunc(up, func(a lockmgr.Ancestor) bool { return a.Owner == o })
	}
	if isKnown(o) { // a guard that joined another lock has replaced the variable
		if cl.joined == nil || isKnown(cl.joined.Owner) {
			return false
		}
		o = cl.joined.Owner
	}
	c.guard = &lockmgr.Ancestor{Owner: o, Child: f.proc.Now()}
	c.lineage = append(slices.Clone(up), *c.guard)
	return true
}
