package fs

import (
	"cmp"
	"os"
	"slices"
	"time"

	"latchfs/fs/ctl"
	"latchfs/fs/disclosure"
	"latchfs/fs/lockkey"
	"latchfs/fs/locksdir"
	"latchfs/fs/lockview"
	"latchfs/fs/readclaim"
	"latchfs/fs/rejected"
	"latchfs/fs/report"
	"latchfs/lockmgr"
)

// source shows the lock table, the history and the audit trail to package locksdir.
type source struct {
	disclosure.Versions // of the history, once that is open

	f       *FS
	host    string
	started time.Time
	rejects *rejected.Store
}

func newSource(f *FS) *source {
	host, _ := os.Hostname()
	return &source{f: f, host: host, started: time.Now(), rejects: f.openRejected()}
}

// Generation implements locksdir.Source.
func (s *source) Generation() uint64 {
	gen := s.f.rules.table.Version() + s.f.parking.ownWaits.Load()
	if s.f.life.isClosing() {
		gen += 1 << 62 // what is shown says so
	}
	return gen
}

// Stopping implements locksdir.Source.
func (s *source) Stopping() bool { return s.f.life.isClosing() }

// locks is the view of the lock table.
func (s *source) locks() lockview.View {
	return lockview.View{Table: s.f.rules.table, Engine: viewEngine{ctlEngine{s.f}}}
}

// Held implements locksdir.Source.
func (s *source) Held() []report.Record { return s.locks().Held() }

// Waiting implements locksdir.Source.
func (s *source) Waiting() []report.Record { return append(s.waitingForOwn(), s.locks().Waiting()...) }

// Release implements locksdir.Source.
func (s *source) Release(group []report.Record, v report.Viewer) error {
	return s.locks().Release(group, v)
}

// viewEngine is what package lockview asks for, much of which package ctl asks for, too.
type viewEngine struct{ ctlEngine }

// Drop implements lockview.Engine.
func (e viewEngine) Drop(cl *ctl.Claim) {
	if !e.f.claims.filed.Release(cl) {
		e.f.callers.ctl.Claims.Drop(cl)
	}
}

// DropRead implements lockview.Engine.
func (e viewEngine) DropRead(cl *readclaim.Claim) { e.f.locks.readClaims.Drop(cl) }

// record describes a lock, as it is shown under a key, for people.
func (lk *locks) record(h *lockmgr.Holder, key string) report.Record {
	r := report.Record{
		Path: key, Key: lockkey.Shared(h, key), State: report.Held, Mode: h.Mode.String(), Class: h.Class.String(),
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
		d := lb.c.describe()
		if lb.c.owner != h.Owner { // a relative has it now, or has asked for it: flock(1) for its shell
			if now := lk.callers.proc.Describe(h.Owner.PID); now.Program != "" {
				d = &now
			}
		}
		r.Operation, r.UID = lb.op, lb.c.uid
		r.Program, r.Cmdline, r.Cwd = d.Program, d.Cmdline, d.Cwd
		r.Session, r.Actor = lb.id(), lk.callers.actorOf(lb)
		if lb.claim != nil {
			if p := lk.claims.filed.FileOf(lb.claim); p != nil {
				r.ClaimFile = lk.claims.pathOf(p)
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
	said, ok := lk.claims.filed.Said(cl, r.Stale)
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

// Sight implements locksdir.Source.
func (s *source) Sight(v report.Viewer) report.Sight {
	if v.Privileged {
		return nil
	}
	return s.f.disk.root().LookOf(v)
}

// Why implements locksdir.Source.
func (s *source) Why(v report.Viewer) []report.Refusal {
	return s.f.reports.refused.For(v, s.Sight(v), s.f.disk.root().Exists)
}

type noEvents struct{}

func (noEvents) ReadAt([]byte, int64) (int, error) { return 0, os.ErrClosed }
func (noEvents) Size() int64                       { return 0 }

// Events implements locksdir.Source.
func (s *source) Events() locksdir.EventLog {
	if s.f.reports.trail == nil {
		return noEvents{}
	}
	return s.f.reports.trail.View()
}

// Policy implements locksdir.Source.
func (s *source) Policy() []byte { return s.f.rules.policy.TOML() }

// Started implements locksdir.Source.
func (s *source) Started() time.Time { return s.started }

// Now implements locksdir.Source.
func (s *source) Now() time.Time { return time.Now() }
