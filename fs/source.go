package fs

import (
	"fmt"
	"os"
	"strings"
	"time"

	"golang.org/x/sys/unix"

	"latchfs/fs/locksdir"
	"latchfs/lockmgr"
)

// source shows the lock table and the audit trail to package locksdir.
type source struct {
	f       *FS
	host    string
	started time.Time
	rejects rejects
}

func newSource(f *FS) *source {
	host, _ := os.Hostname()
	return &source{f: f, host: host, started: time.Now(), rejects: rejects{f: f}}
}

// Generation implements locksdir.Source. Without a counter in the lock table
// each look is a new generation.
func (s *source) Generation() uint64 { return s.f.looks.Add(1) }

// Held implements locksdir.Source.
func (s *source) Held() []locksdir.Record {
	snap := s.f.table.Snapshot()
	waiters := map[lockmgr.Key]int{}
	for i := range snap.Waiting {
		for _, k := range snap.Waiting[i].Keys {
			waiters[k]++
		}
	}
	out := make([]locksdir.Record, 0, len(snap.Held))
	for i := range snap.Held {
		h := &snap.Held[i]
		for _, k := range h.Keys {
			if isPathKey(k) || len(h.Keys) == 1 {
				r := s.f.record(h, string(k))
				r.Key, r.Waiters = string(k), waiters[k]
				out = append(out, r)
			}
		}
	}
	return out
}

// Waiting implements locksdir.Source.
func (s *source) Waiting() []locksdir.Record {
	snap := s.f.table.Snapshot()
	var out []locksdir.Record
	for i := range snap.Waiting {
		h := &snap.Waiting[i]
		var blockers []string
		for _, b := range s.f.table.Conflicts(h.Lock) {
			r := s.f.record(&b, "")
			blockers = append(blockers, fmt.Sprintf("%s[%d]", r.Program, r.Owner.PID))
		}
		for _, k := range h.Keys {
			if isPathKey(k) || len(h.Keys) == 1 {
				r := s.f.record(h, string(k))
				r.Key, r.State, r.WaitsFor = string(k), locksdir.Waiting, blockers
				out = append(out, r)
			}
		}
	}
	return out
}

// isPathKey tells a path from the key that the names of one inode share.
func isPathKey(k lockmgr.Key) bool { return !strings.HasPrefix(string(k), "//") }

// record describes a lock for people.
func (f *FS) record(h *lockmgr.Holder, path string) locksdir.Record {
	r := locksdir.Record{
		Path: path, State: locksdir.Held, Mode: h.Mode.String(), Class: h.Class.String(),
		Owner: locksdir.Process{PID: h.Owner.PID, Start: h.Owner.Start}, Host: f.source.host,
		Token: h.Token, Since: h.Now,
	}
	if lb, ok := h.Label.(*label); ok {
		d := lb.c.describe()
		r.Operation, r.UID = lb.op, lb.c.uid
		r.Program, r.Cmdline, r.Cwd = d.Program, d.Cmdline, d.Cwd
		if id := lb.session.Load(); id != nil {
			r.Session = *id
		}
		if at := lb.deadline.Load(); at != nil {
			r.Deadline = *at
		}
		if !isPathKey(lockmgr.Key(path)) {
			r.Path = lb.path
		}
	} else if h.Owner.PID != 0 {
		d := f.proc.Describe(h.Owner.PID)
		r.Program, r.Cmdline, r.Cwd, r.UID = d.Program, d.Cmdline, d.Cwd, d.UID
	}
	return r
}

// Why implements locksdir.Source.
func (s *source) Why(v locksdir.Viewer) []locksdir.Refusal {
	var out []locksdir.Refusal
	s.f.whys.each(func(x *refusal) {
		if !x.related(v) {
			return
		}
		out = append(out, locksdir.Refusal{
			Time: x.at, Path: x.path, Operation: x.op, Errno: unix.ErrnoName(x.errno), Wait: x.wait,
			Reason: x.reason, Holder: x.holder, PID: x.owner.PID, Kept: x.kept,
		})
	})
	return out
}

type noEvents struct{}

func (noEvents) ReadAt([]byte, int64) (int, error) { return 0, os.ErrClosed }
func (noEvents) Size() int64                       { return 0 }

// Events implements locksdir.Source.
func (s *source) Events() locksdir.EventLog {
	if s.f.journal == nil {
		return noEvents{}
	}
	return s.f.journal.Events()
}

// Policy implements locksdir.Source.
func (s *source) Policy() []byte { return s.f.policy.TOML() }

// Release implements locksdir.Source. A lock belongs to the open file and ends
// with it; only a stale one could be taken away.
func (s *source) Release(group []locksdir.Record, _ locksdir.Viewer) error {
	return fmt.Errorf("%q is locked by an open file and will be free when that is closed: %w", group[0].Path, unix.EBUSY)
}

// Started implements locksdir.Source.
func (s *source) Started() time.Time { return s.started }

// Now implements locksdir.Source.
func (s *source) Now() time.Time { return time.Now() }
