package fs

import (
	"context"
	"os/exec"
	"time"

	"golang.org/x/sys/unix"

	"latchfs/journal/audit"
)

// stop ends everything that runs in the background.
func (f *FS) stop() {
	f.refuseAll()
	f.noMore()
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

// Shutdown holds new sessions back, lets the running ones finish until ctx ends,
// refuses those that wait by then, and unmounts. Sessions that are still open are
// rolled back: nothing is committed that was not closed.
func (m *Mount) Shutdown(ctx context.Context) error {
	f := m.f
	defer m.stopOnce.Do(func() { close(m.stopped) })
	f.beginStop()
	t := time.NewTicker(20 * time.Millisecond)
	defer t.Stop()
wait:
	for !f.isDrained() {
		select {
		case <-ctx.Done():
			break wait
		case <-m.gone:
			break wait
		case <-t.C:
		}
	}
	f.refuseAll()
	if n := f.running(); n > 0 {
		f.log.Warnf("%d sessions still open are rolled back", n)
	}
	err := f.unmount(m)
	f.abandonSessions()
	if err != nil {
		return err
	}
	select {
	case <-m.gone:
	case <-time.After(unmountGrace):
		// A mount namespace made meanwhile, a container's for instance, has a
		// copy of the mount.
		// Programs have files open, or a mount namespace made meanwhile, a
		// container's for instance, has a copy of the mount. The end of the
		// process cuts them off.
		f.log.Warnf("%s is still used by other programs; they are cut off", f.opts.Mountpoint)
	}
	f.cleanup()
	return nil
}

// unmountGrace is how long the kernel may take to let go after an unmount.
const unmountGrace = 2 * time.Second

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

// unmount takes the mount away, lazily if somebody still uses it.
func (f *FS) unmount(m *Mount) error {
	select {
	case <-m.gone:
		return nil
	default:
	}
	err := unix.Unmount(f.opts.Mountpoint, 0)
	if err == unix.EPERM {
		err = exec.Command("fusermount3", "-u", "--", f.opts.Mountpoint).Run()
	}
	if err == nil {
		return nil
	}
	f.log.Infof("%s is busy: detaching it", f.opts.Mountpoint)
	return Detach(f.opts.Mountpoint)
}

// abandonSessions rolls back what was not closed.
func (f *FS) abandonSessions() {
	f.noMore()
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

// cleanup gives back what Start has opened, and records a clean stop; only once,
// for an unmount may come with a shutdown. Whoever comes second waits.
func (f *FS) cleanup() { f.cleanOnce.Do(f.cleanupOnce) }

func (f *FS) cleanupOnce() {
	f.stop()
	if f.proc != nil {
		f.proc.UnfollowForks()
	}
	f.mounts.close()
	if f.store != nil {
		f.finishAppenders()
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
