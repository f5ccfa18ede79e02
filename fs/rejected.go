package fs

import (
	"time"

	"latchfs/fs/disclosure"
	"latchfs/fs/locksdir"
	"latchfs/fs/rejected"
	"latchfs/fs/report"
	"latchfs/journal/audit"
	"latchfs/journal/commit"
)

// openRejected makes what shows the store of refused bytes.
func (f *FS) openRejected() *rejected.Store {
	return rejected.New(func() (int, bool) {
		if f.disk.state == nil {
			return -1, false
		}
		return int(f.disk.state.Fd()), true
	})
}

// pruneRejected keeps the store of refused bytes within the policy's bounds, until the mount
// is gone. Each round that removes something is one event.
func (rc *recorder) pruneRejected() {
	bounds := rc.rules.policy.RejectedBounds()
	p := rejected.Pruner{
		Entries: rc.disk.store, MaxBytes: bounds.MaxBytes, MaxAge: bounds.MaxAge,
		Failed: func(err error) { rc.disk.log.Warnf("removing old refused bytes: %v", err) },
		Removed: func(p *commit.Pruned, detail map[string]any) {
			rc.disk.log.Infof("%d entries removed from the refused bytes, %d bytes", len(p.IDs), p.Bytes)
			rc.reports.event(audit.Event{Time: time.Now(), Event: "rejected_removed", Detail: detail})
		},
	}
	p.Run(rc.life.done)
}

// Rejected implements locksdir.Source.
func (s *source) Rejected(v report.Viewer) []locksdir.Rejected {
	list, err := s.rejects.List(disclosure.Rejected(s.f.disk.root().LookOf(v)))
	if err != nil {
		s.f.disk.log.Warnf("reading the kept bytes: %v", err)
	}
	return list
}

// FindRejected implements locksdir.Source.
func (s *source) FindRejected(id string, v report.Viewer) (locksdir.Rejected, bool) {
	return s.rejects.Find(id, disclosure.Rejected(s.f.disk.root().LookOf(v)))
}

// forgetRejected removes the kept bytes that were meant for the file at path, as far as
// they are the requester's.
func (rc *recorder) forgetRejected(path string, mine func(uid uint32) bool) (entries int, bytes int64, err error) {
	ids, bytes, err := rc.view.source.rejects.Of(path, mine)
	if err != nil || len(ids) == 0 {
		return 0, 0, err
	}
	return len(ids), bytes, rc.disk.store.ForgetRejected(ids)
}

// keptBase is the version that a refused write was based on, for meta.json; nil if
// the file was new.
func keptBase(v *commit.Version) any {
	if v == nil {
		return nil
	}
	return map[string]any{"size": v.Size, "mtime": time.Unix(v.Mtime.Unix()).UTC().Format(time.RFC3339Nano)}
}
