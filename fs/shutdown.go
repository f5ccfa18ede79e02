package fs

import (
	"context"
	"time"

	"latchfs/journal/audit"
)

// Stop ends everything that runs in the background.
func (f *FS) Stop() {
	f.refuseAll()
	f.judge.Stop()
	f.doneOnce.Do(func() { close(f.done) })
}

// isOver reports whether the mount is gone, and the kernel's ear with it.
func (f *FS) isOver() bool {
	select {
	case <-f.done:
		return true
	default:
		return false
	}
}

// refuseAll turns away new sessions and everybody who waits for one.
func (f *FS) refuseAll() {
	f.beginStop()
	f.closeOnce.Do(func() { close(f.closing) })
}

// Drain holds new sessions back, lets the running ones finish until ctx ends or the mount
// is gone, and refuses those that wait by then.
func (f *FS) Drain(ctx context.Context, gone <-chan struct{}) {
	f.beginStop()
	t := time.NewTicker(20 * time.Millisecond)
	defer t.Stop()
wait:
	for !f.isDrained() {
		select {
		case <-ctx.Done():
			break wait
		case <-gone:
			break wait
		case <-t.C:
		}
	}
	f.refuseAll()
	if n := f.running(); n > 0 {
		f.log.Warnf("%d sessions still open are rolled back", n)
	}
}

func (f *FS) running() int {
	f.mu.Lock()
	defer f.mu.Unlock()
	n := 0
	for s := range f.sessions {
		if !s.over {
			n++
		}
	}
	return n
}

// Abandon rolls back what was not closed.
func (f *FS) Abandon() {
	f.judge.Stop()
	for _, t := range f.txns.All() {
		t.Rollback("latchfs was stopped")
	}
	f.mu.Lock()
	all := make([]*session, 0, len(f.sessions))
	for s := range f.sessions {
		all = append(all, s)
	}
	f.mu.Unlock()
	for _, s := range all {
		s.abandon()
	}
}

// Close gives back what Open has opened, and records a clean stop; only once,
// for an unmount may come with a shutdown. Whoever comes second waits.
func (f *FS) Close() { f.cleanOnce.Do(f.cleanup) }

func (f *FS) cleanup() {
	f.Stop()
	if f.proc != nil {
		f.proc.UnfollowForks()
	}
	f.mounts.Close()
	if f.store != nil {
		f.appenders.Finish()
		if err := f.store.Close(); err != nil {
			f.log.Errorf("what was appended last may not be on disk: %v", err)
		}
	}
	if f.knowledge != nil {
		_ = f.remembers.Close() // it tells of an error itself
		f.lessons.Save()
	}
	f.bases.Close()
	f.closeHistory()
	if f.journal != nil {
		f.event(audit.Event{Time: time.Now(), Event: "unmount"})
		if err := f.journal.Close(); err != nil {
			f.log.Errorf("closing the journal: %v", err)
		}
	}
	if f.trail != nil {
		if err := f.trail.Close(); err != nil {
			f.log.Errorf("closing the audit trail: %v", err)
		}
	}
}
