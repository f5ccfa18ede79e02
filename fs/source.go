package fs

import (
	"io"
	"os"
	"time"

	"latchfs/fs/ctl"
	"latchfs/fs/disclosure"
	"latchfs/fs/locksdir"
	"latchfs/fs/lockview"
	"latchfs/fs/readclaim"
	"latchfs/fs/rejected"
	"latchfs/fs/report"
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
	gen := s.f.rules.table.Version() + s.f.parking.otherWaits.Load()
	if s.f.life.isStopping() {
		gen += 1 << 62 // what is shown says so
	}
	return gen
}

// Stopping implements locksdir.Source.
func (s *source) Stopping() bool { return s.f.life.isStopping() }

// locks is the view of the lock table.
func (s *source) locks() lockview.View {
	return lockview.View{Table: s.f.rules.table, Engine: lockviewEngine{ctlEngine{s.f}}}
}

// Held implements locksdir.Source.
func (s *source) Held() []report.Record { return s.locks().Held() }

// Waiting implements locksdir.Source.
func (s *source) Waiting() []report.Record {
	return append(s.waitingForOthers(), s.locks().Waiting()...)
}

// Release implements locksdir.Source.
func (s *source) Release(group []report.Record, v report.Viewer) error {
	return s.locks().Release(group, v)
}

// lockviewEngine is what package lockview asks for, much of which package ctl asks for, too.
type lockviewEngine struct{ ctlEngine }

// Drop implements lockview.Engine.
func (e lockviewEngine) Drop(cl *ctl.Claim) {
	if !e.f.claimFiles.filed.Release(cl) {
		e.f.callers.ctl.Claims.Drop(cl)
	}
}

// DropRead implements lockview.Engine.
func (e lockviewEngine) DropRead(cl *readclaim.Claim) { e.f.locks.readClaims.Drop(cl) }

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

func (noEvents) ReadAt([]byte, int64) (int, error) { return 0, io.EOF }
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
