package fs

import (
	"errors"
	"slices"
	"time"

	"golang.org/x/sys/unix"

	"latchfs/fs/calling"
	"latchfs/fs/control"
	"latchfs/fs/denied"
	"latchfs/fs/lockkey"
	"latchfs/fs/refusals"
	"latchfs/lockmgr"
)

// This file is about what a lock that was taken without opening means to those
// who open files: its heirs, and everybody else.

// fenced refuses a request for keys by an heir of a claim on them that was stolen.
func (lk *locks) fenced(c *caller, keys []lockmgr.Key) error {
	stolen := lk.callers.ctl.Claims.Stolen(keys)
	if len(stolen) == 0 {
		return nil
	}
	c.JoinGuard() // who has joined a lock is an heir whether or not it meets anybody
	for i := range stolen {
		h := &stolen[i]
		if c.BelongsTo(calling.NewIdentity(h.Owner, h.Since)) {
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
func (lk *locks) guarded(c *caller, p place) bool {
	if lk.callers.ctl.Claims.Count() == 0 {
		return false
	}
	for _, h := range lk.rules.table.Holders(lk.rules.appendNames(nil, lk.nodes.path(p.dir, p.name)), nil) {
		lb, _ := h.Label.(*label)
		if lb != nil && lb.claim != nil && h.Mode != lockmgr.Shared && !c.BelongsTo(calling.NewIdentity(h.Owner, h.Since)) {
			return true
		}
	}
	return false
}

// guardDemand waits for those who have locked a name without opening it, and for
// nothing else that uses a live file.
func (lk *locks) guardDemand(c *caller, p place, wait time.Duration) *demand {
	d := lk.fileDemand(c, opOpen, wait, p)
	d.mode, d.ttl = lockmgr.Shared, 0
	return d
}

// passGuard lets a writer of a live file wait until nobody else has locked it.
// Writers that had it open by then go on (requirements B2 and B5).
func (lk *locks) passGuard(c *caller, p place, wait time.Duration, cancel <-chan struct{}) unix.Errno {
	if !lk.guarded(c, p) {
		return 0
	}
	l, e := lk.lock(lk.guardDemand(c, p, wait), cancel)
	if e == 0 {
		lk.rules.table.Release(l)
	}
	return e
}

// meetReadClaims is for a demand that may meet the claims of reads, or ends the marks of a
// process that has read without writing.
func (lk *locks) meetReadClaims(d *demand) {
	claims, marks := lk.readClaims.Any()
	if marks = marks && d.mode == lockmgr.Exclusive; !claims && !marks {
		return
	}
	var paths []string
	for _, p := range d.places {
		paths = append(paths, lk.nodes.path(p.dir, p.name))
	}
	lk.readClaims.AwaitHeirs(d.c.Owner(), paths)
	if marks {
		of := []lockmgr.Owner{d.c.Owner()}
		for _, a := range d.c.Ancestors() {
			of = append(of, a.Owner)
		}
		lk.readClaims.Unmark(of, paths)
	}
}

// inodeKeys are the keys of the session's lock that stand for an inode with several
// names: of any of them a claim may be.
func (lk *locks) inodeKeys(s *session) []lockmgr.Key {
	if !s.inPlace {
		return nil
	}
	return slices.DeleteFunc(s.lock.Keys(), func(k lockmgr.Key) bool { return !lockkey.IsInode(k) })
}

// refuse turns a failed lock request into an errno, and records it for
// .locks/why and the audit trail. An interrupted wait is no refusal.
func (lk *locks) refuse(d *demand, err error) unix.Errno {
	e := lockErrno(err)
	if e == unix.EINTR || e == unix.ENAMETOOLONG {
		return e
	}
	x := refusals.Refusal{Path: d.path, Op: d.op, Errno: e, Reason: denied.Reason(err), Owner: d.c.Owner(), UID: d.c.UID(), Lineage: d.c.Ancestors()}
	if errors.Is(err, denied.ErrTimeout) {
		x.Wait = d.wait
	}
	var stolen *denied.Fenced
	switch {
	case errors.As(err, &stolen):
		x.Hint = stolen.Hint()
	case errors.Is(err, errNodeShared):
		x.Hint = "Open it by its name in its directory, or close the other descriptor first; give a container the directory, not the file alone."
	}
	if hs := denied.Holders(err); len(hs) > 0 {
		x.Path = lk.contended(d, &hs[0])
		r := lk.record(&hs[0], x.Path)
		x.Holder, x.Reason = &r, denied.BesidesHolder(err)
		if lb, ok := hs[0].Label.(*label); ok && lb.claim != nil && r.ClaimFile == "" && !d.c.Foreign() {
			x.Hint = "If this process works for the holder, start it with " + control.SessionEnv + "=" + lb.id() + "."
		}
	}
	lk.reports.explain(x)
	lk.reports.refusalEvent(&x, &label{c: d.c}, d.c, denied.Reason(err))
	return e
}

// contended is the one of several names that the holder has.
func (lk *locks) contended(d *demand, h *lockmgr.Holder) string {
	for _, p := range d.places {
		for _, k := range h.Keys {
			if string(k) == lk.nodes.path(p.dir, p.name) {
				return string(k)
			}
		}
	}
	return d.path
}
