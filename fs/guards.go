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

// fenced refuses a request for keys by an heir of a claim on them that was stolen.
func (f *FS) fenced(c *caller, keys []lockmgr.Key) error {
	stolen := f.ctl.Claims.Stolen(keys)
	if len(stolen) == 0 {
		return nil
	}
	f.joinGuard(c) // who has joined a lock is an heir whether or not it meets anybody
	for i := range stolen {
		h := &stolen[i]
		if c.kinOf(&identity{owner: h.Owner, since: h.Since}) {
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
	if f.ctl.Claims.Count() == 0 {
		return false
	}
	for _, h := range f.table.Holders(f.appendNames(nil, f.path(p.dir, p.name)), nil) {
		lb, _ := h.Label.(*label)
		if lb != nil && lb.claim != nil && h.Mode != lockmgr.Shared && !c.kinOf(&identity{owner: h.Owner, since: h.Since}) {
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
	if f.ctl.Claims.Count() == 0 || c.foreign() || c.joined {
		return false
	}
	c.joined = true
	id := f.proc.EnvOf(c.owner, []string{control.SessionEnv})
	if id == "" {
		return false
	}
	cl := f.ctl.Claims.ByID(id)
	if cl == nil || c.uid != cl.By.UID() {
		return false // a setuid program has its environment from somebody else
	}
	f.ctl.Claims.Note(cl, c.owner)
	o := f.ctl.Claims.LockOf(cl).Owner()
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
	c.guard = &lockmgr.Ancestor{Owner: o, Child: f.proc.Now()}
	c.lineage = append(slices.Clone(up), *c.guard)
	return true
}
