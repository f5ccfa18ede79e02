package fs

import (
	"cmp"
	"fmt"
	"os"
	"slices"
	"time"

	"golang.org/x/sys/unix"

	"latchfs/fs/ctl"
	"latchfs/fs/disclosure"
	"latchfs/fs/lockkey"
	"latchfs/fs/locksdir"
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
	gen := s.f.table.Version() + s.f.ownWaits.Load()
	if s.f.isClosing() {
		gen += 1 << 62 // what is shown says so
	}
	return gen
}

// Stopping implements locksdir.Source.
func (s *source) Stopping() bool { return s.f.isClosing() }

// Held implements locksdir.Source.
func (s *source) Held() []report.Record {
	snap := s.f.table.Snapshot()
	waiters := map[lockmgr.Key]int{}
	for i := range snap.Waiting {
		for _, k := range snap.Waiting[i].Keys {
			waiters[k]++
		}
	}
	out := make([]report.Record, 0, len(snap.Held))
	for i := range snap.Held {
		h := &snap.Held[i]
		for _, k := range h.Keys {
			if lockkey.IsShown(h, k) {
				r := s.f.record(h, string(k))
				r.Waiters = waiters[k]
				out = append(out, r)
			}
		}
	}
	return out
}

// maxBehind is how many of those in a waiter's way are named.
const maxBehind = 8

// Waiting implements locksdir.Source.
func (s *source) Waiting() []report.Record {
	snap := s.f.table.Snapshot()
	out := s.waitingForOwn()
	place := map[lockmgr.Key]int{}
	for i := range snap.Waiting {
		h := &snap.Waiting[i]
		var behind []string
		conflicts := s.f.table.FirstConflicts(h.Lock, maxBehind)
		for j := range conflicts {
			r := s.f.record(&conflicts[j], "")
			behind = append(behind, fmt.Sprintf("%s[%d]", r.Program, r.Owner.PID))
		}
		ahead := len(behind)
		for _, k := range h.Keys {
			if ahead == maxBehind {
				ahead = max(ahead, place[k]+1)
			}
			place[k]++
		}
		for _, k := range h.Keys {
			if lockkey.IsShown(h, k) {
				r := s.f.record(h, string(k))
				r.State, r.WaitsFor, r.Ahead = report.Waiting, behind, ahead
				out = append(out, r)
			}
		}
	}
	return out
}

// record describes a lock, as it is shown under a key, for people.
func (f *FS) record(h *lockmgr.Holder, key string) report.Record {
	r := report.Record{
		Path: key, Key: lockkey.Shared(h, key), State: report.Held, Mode: h.Mode.String(), Class: h.Class.String(),
		Owner: report.Process{PID: h.Owner.PID, Start: h.Owner.Start}, Host: f.source.host,
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
		if (lb.read != nil || lb.claim != nil) && lb.c.owner != h.Owner { // a relative has it now
			if now := f.proc.Describe(h.Owner.PID); now.Program != "" {
				d = &now
			}
		}
		r.Operation, r.UID = lb.op, lb.c.uid
		r.Program, r.Cmdline, r.Cwd = d.Program, d.Cmdline, d.Cwd
		r.Session, r.Actor = lb.id(), f.actorOf(lb)
		if lb.claim != nil {
			r.ClaimFile = f.claimFileOf(lb.claim)
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
			f.describeFiled(&r, lb.claim)
		}
	} else if h.Owner.PID != 0 {
		d := f.proc.Describe(h.Owner.PID)
		r.Program, r.Cmdline, r.Cwd, r.UID = d.Program, d.Cmdline, d.Cwd, d.UID
	}
	return r
}

// describeFiled puts into a record what the file of a claim says of it: who has it, and
// since when, in the words of whoever wrote the file. Other claims have no file.
func (f *FS) describeFiled(r *report.Record, cl *ctl.Claim) {
	said, ok := f.filed.Said(cl, r.Stale)
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
	return s.f.root().LookOf(v)
}

// Why implements locksdir.Source.
func (s *source) Why(v report.Viewer) []report.Refusal {
	return s.f.refused.For(v, s.Sight(v), s.f.root().Exists)
}

type noEvents struct{}

func (noEvents) ReadAt([]byte, int64) (int, error) { return 0, os.ErrClosed }
func (noEvents) Size() int64                       { return 0 }

// Events implements locksdir.Source.
func (s *source) Events() locksdir.EventLog {
	if s.f.trail == nil {
		return noEvents{}
	}
	return s.f.trail.View()
}

// Policy implements locksdir.Source.
func (s *source) Policy() []byte { return s.f.policy.TOML() }

// Release implements locksdir.Source: the viewer's own locks are released, stale
// ones are stolen, and active ones are left alone. All of a group or none.
func (s *source) Release(group []report.Record, v report.Viewer) error {
	f := s.f
	t := lockkey.Target{Paths: []string{group[0].Path}}
	if group[0].Name != "" {
		t = lockkey.Target{Names: []string{group[0].Name}}
	}
	tokens := map[uint64]bool{}
	for _, r := range group {
		tokens[r.Token] = true
	}
	var todo []lockmgr.Holder
	for _, h := range f.table.Holders(f.keysOfTarget(&t)) {
		lb, _ := h.Label.(*label)
		switch {
		case !tokens[h.Token]: // it has changed hands since it was shown
		case (v.Privileged || lb != nil && lb.c.uid == v.UID) &&
			v.Holds(&report.Record{Owner: report.Process{PID: h.Owner.PID, Start: h.Owner.Start}}) && (h.Class != lockmgr.Session || lb != nil && (lb.claim != nil || lb.read != nil)):
		case (h.Stale || lb != nil && lb.claim != nil && f.filed.IsOrphaned(lb.claim)) && (v.Privileged || lb != nil && lb.c.uid == v.UID):
		case h.Stale:
			return unix.EPERM
		default:
			return unix.EBUSY
		}
		todo = append(todo, h)
	}
	if len(todo) == 0 {
		return unix.ENOENT
	}
	for i := range todo {
		f.takeAway(&todo[i])
	}
	f.settleThefts(nil)
	return nil
}

// takeAway releases a lock on behalf of its owner, or steals it if it is stale.
func (f *FS) takeAway(h *lockmgr.Holder) {
	lb, _ := h.Label.(*label)
	switch {
	case h.Stale && f.table.Steal(h.Lock) == nil:
	case h.Class != lockmgr.Session && len(h.Keys) > 0:
		f.table.ReleaseClient(h.Keys[0], h.Class, h.Client)
	case lb != nil && lb.read != nil:
		f.readClaims.Drop(lb.read)
	case lb != nil && lb.claim != nil && f.filed.Release(lb.claim):
	case lb != nil && lb.claim != nil:
		f.ctl.Claims.Drop(lb.claim)
	}
}

// Started implements locksdir.Source.
func (s *source) Started() time.Time { return s.started }

// Now implements locksdir.Source.
func (s *source) Now() time.Time { return time.Now() }
