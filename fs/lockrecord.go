package fs

import (
	"cmp"
	"slices"

	"latchfs/fs/ctl"
	"latchfs/fs/lockkey"
	"latchfs/fs/report"
	"latchfs/lockmgr"
)

// record describes a lock, as it is shown under a key, for people.
func (lk *locks) record(h *lockmgr.Holder, key string) report.Record {
	r := report.Record{
		Mountpoint: lk.disk.opts.Mountpoint,
		Path:       key, Key: lockkey.Shared(h, key), State: report.Held, Mode: h.Mode.String(), Class: h.Class.String(),
		Asker: report.Asker{Owner: report.Process{PID: h.Owner.PID, Start: h.Owner.Start}, Host: lk.view.source.host},
		Token: h.Token, Since: h.Now, TTL: h.TTL, Stale: h.Stale,
		Tree: slices.Contains(h.Trees, lockmgr.Key(key)),
	}
	if h.TTL > 0 {
		r.LastSeen = h.Beat
	}
	if name, ok := lockkey.NameOf(lockmgr.Key(key)); ok {
		r.Name, r.Path = name, ""
	}
	if lb, ok := h.Label.(*label); ok {
		d := lb.c.Describe()
		if lb.c.Owner() != h.Owner { // it was handed on, or asked for by another process: flock(1) for its shell
			if now := lk.callers.proc.Describe(h.Owner.PID); now.Program != "" {
				d = &now
			}
		}
		r.Operation, r.UID = lb.op, lb.c.UID()
		r.Program, r.Cmdline, r.Cwd = d.Program, d.Cmdline, d.Cwd
		r.Session, r.Actor = lb.id(), lb.shownActor()
		if lb.claim != nil {
			if p := lk.claimFiles.filed.FileOf(lb.claim); p != nil {
				r.ClaimFile = lk.claimFiles.pathOf(p)
			}
		}
		if at := lb.deadline.Load(); at != nil {
			r.Deadline = *at
		}
		switch {
		case r.Name != "":
		case !lockkey.IsPath(lockmgr.Key(key)):
			r.Path = lb.where()
		case len(h.Keys) > 1 && !slices.Contains(h.Keys, lockmgr.Key(lb.where())):
		case lb.where() != key && lb.claim == nil:
			r.File = lb.where()
		}
		if lb.claim != nil {
			lk.describeFiled(&r, lb.claim)
		}
	} else if h.Owner.PID != 0 {
		d := lk.callers.proc.Describe(h.Owner.PID)
		r.Program, r.Cmdline, r.Cwd, r.UID = d.Program, d.Cmdline, d.Cwd, d.UID
	}
	return r
}

// describeFiled puts into a record what the file of a claim says of it: who has it, and
// since when, in the words of whoever wrote the file. Other claims have no file.
func (lk *locks) describeFiled(r *report.Record, cl *ctl.Claim) {
	said, ok := lk.claimFiles.filed.Said(cl, r.Stale)
	if !ok {
		return
	}
	r.Session, r.Host = said.Holder, cmp.Or(said.Host, r.Host)
	r.Actor = cmp.Or(said.Actor, r.Actor)
	if !said.Since.IsZero() {
		r.Since = said.Since
	}
	if !said.Beat.IsZero() {
		r.LastSeen = said.Beat
	}
	r.StaleReason, r.StaleSince = said.Reason, said.StaleSince
}
