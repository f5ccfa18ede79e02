package fs

import (
	"context"
	"time"

	"latchfs/journal/audit"
)

// Stop ends everything that runs in the background.
func (f *FS) Stop() {
	f.refuseAll()
	f.judging.judge.Stop()
	f.life.doneOnce.Do(func() { close(f.life.done) })
}

// refuseAll turns away new sessions and everybody who waits for one.
func (f *FS) refuseAll() {
	f.life.beginStop()
	f.life.timeUpOnce.Do(func() { close(f.life.timeUp) })
}

// Drain holds new sessions back, lets the running ones finish until ctx ends or the mount
// is gone, and refuses those that wait by then.
func (f *FS) Drain(ctx context.Context, gone <-chan struct{}) {
	f.life.beginStop()
	t := time.NewTicker(20 * time.Millisecond)
	defer t.Stop()
wait:
	for !f.life.isDrained() {
		select {
		case <-ctx.Done():
			break wait
		case <-gone:
			break wait
		case <-t.C:
		}
	}
	f.refuseAll()
	if n := f.life.running(); n > 0 {
		f.disk.log.Warnf("%d sessions still open are rolled back", n)
	}
}

// Abandon rolls back what was not closed.
func (f *FS) Abandon() {
	f.judging.judge.Stop()
	for _, t := range f.callers.running.All() {
		t.Rollback("latchfs was stopped")
	}
	f.nodes.mu.Lock()
	all := make([]*session, 0, len(f.nodes.sessions))
	for s := range f.nodes.sessions {
		all = append(all, s)
	}
	f.nodes.mu.Unlock()
	for _, s := range all {
		f.endings.abandon(s)
	}
}

// Close gives back what Open has opened, and records a clean stop; only once,
// for an unmount may come with a shutdown. Whoever comes second waits.
func (f *FS) Close() { f.life.cleanOnce.Do(f.cleanup) }

func (f *FS) cleanup() {
	f.Stop()
	if f.callers.proc != nil {
		f.callers.proc.UnfollowForks()
	}
	f.disk.mounts.Close()
	if f.disk.store != nil {
		f.handles.appenders.Finish()
		if err := f.disk.store.Close(); err != nil {
			f.disk.log.Errorf("what was appended last may not be on disk: %v", err)
		}
	}
	if f.rules.knowledge != nil {
		_ = f.losses.remembers.Close() // it tells of an error itself
		f.losses.lessons.Save()
	}
	f.recorder.bases.Close()
	f.recorder.closeHistory()
	if f.disk.journal != nil {
		if f.life.begun.Load() {
			f.reports.event(audit.Event{Time: time.Now(), Event: "unmount"})
		}
		if err := f.disk.journal.Close(); err != nil {
			f.disk.log.Errorf("closing the journal: %v", err)
		}
	}
	if f.reports.trail != nil {
		if err := f.reports.trail.Close(); err != nil {
			f.disk.log.Errorf("closing the audit trail: %v", err)
		}
	}
}
