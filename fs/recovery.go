package fs

import (
	"cmp"
	"context"
	"time"

	"golang.org/x/sys/unix"

	"latchfs/fs/sessionstate"
	"latchfs/journal"
	"latchfs/journal/audit"
	"latchfs/journal/commit"
)

// reportRecovery tells what the start found and did.
func (f *FS) reportRecovery(r commit.Report) {
	for _, path := range r.Barred {
		f.log.Warnf("recovery: %q could not be opened: if a crash has left a record unfinished at its end, that stands", path)
	}
	n := len(r.Undone) + len(r.Redone) + len(r.Cut) + len(r.Reverted) + len(r.Removed) + len(r.Salvaged) + len(r.Synced)
	if n == 0 {
		return
	}
	f.log.Infof("recovery: %d replacements undone, %d commits in place finished, %d unfinished records cut off, %d orphaned shadows removed, %d kept aside, %d synced by their writers",
		len(r.Undone), len(r.Redone), len(r.Cut), len(r.Removed), len(r.Salvaged), len(r.Synced))
	for _, k := range r.Synced {
		f.event(syncedEvent(k))
	}
	for _, c := range r.Changed {
		f.event(changedEvent(c))
	}
	for _, v := range r.Reverted {
		f.event(audit.Event{Time: time.Now(), Event: "recovery", Path: v.Path, Detail: map[string]any{
			"operation": opOpen, "removed": v.Gone, "kept": v.Kept,
			"reason": "the new version was not whole after a crash; the one before has its place",
		}})
	}
	for _, c := range r.Cut {
		f.event(audit.Event{Time: time.Now(), Event: "recovery", Path: c.Path, Detail: map[string]any{
			"operation": opAppend, "from": c.From, "to": c.To, "kept": c.Kept,
			"reason": "the file ended in an unfinished record",
		}})
	}
	f.event(audit.Event{Time: time.Now(), Event: "recovery", Detail: map[string]any{
		"undone": len(r.Undone), "redone": len(r.Redone), "cut": len(r.Cut), "removed": r.Removed, "salvaged": r.Salvaged,
		"changed": len(r.Changed), "synced": len(r.Synced),
	}})
}

// syncedEvent tells what has become of bytes that their writer had synced before it was
// cut off.
func syncedEvent(k commit.Synced) audit.Event {
	ev := audit.Event{Time: time.Now(), Event: "recovery", Path: k.Path, Token: k.In.Token, Detail: map[string]any{
		"operation": opOpen, "reason": "latchfs ended before the file was closed; it appears as its writer had synced it",
	}}
	if k.Kept != "" {
		ev.Detail["kept"] = k.Kept
		ev.Detail["reason"] = "latchfs ended before the file was closed; what its writer had synced is kept aside"
	}
	return ev
}

// changedEvent tells what has become of what somebody has written to a file outside the
// mount, after a crash in the middle of its commit in place.
func changedEvent(c commit.Changed) audit.Event {
	ev := audit.Event{Time: time.Now(), Event: "recovery", Path: c.Path, Token: c.In.Token, Detail: map[string]any{
		"operation": opOpen, "kept": c.Kept,
		"reason": "the file was neither the old version nor the new one after a crash; its commit is finished, and what it held is kept aside",
	}}
	if c.Stands {
		ev.Detail["reason"] = "the file was changed outside the mount after a crash, and was left as it is; what its commit was to write is kept aside"
	}
	return ev
}

// finishHalfDone tries again to finish commits in place and transactions that an error of
// the disk has stopped, before anything is opened or changed. It reports whether there
// were any.
func (f *FS) finishHalfDone() bool {
	if f.store == nil || !f.store.HalfDone() {
		return false
	}
	r, err := f.store.Recover()
	if err != nil {
		f.log.Warnf("what an error of the disk has stopped cannot be finished yet: %v", err)
	}
	f.versions.Recovered(r)
	f.reportRecovery(r)
	f.showLate(r)
	return true
}

// showLate makes the kernel forget what it knows of names and files that have only now
// become what they were to be.
func (f *FS) showLate(r commit.Report) {
	for _, in := range r.Redone {
		var st unix.Stat_t
		if unix.Fstatat(f.rootfd, cmp.Or(in.Dir, "."), &st, unix.AT_SYMLINK_NOFOLLOW) != nil {
			continue
		}
		if dir := f.inodeFor(&st); dir != nil {
			f.dropName(dir, in.Name)
		}
		if in.Kind != journal.KindInPlace {
			continue
		}
		if n := f.inodeFor(&unix.Stat_t{Dev: in.TargetDev, Ino: in.TargetIno}); n != nil {
			go f.notifyInode(n, 0, -1) // the request at hand may hold its lock
		}
	}
}

// isDue refuses to open a file whose name a transaction, which was told that it is
// committed, has yet to give something else.
func (f *FS) isDue(in *OpenRequest, n *inode) unix.Errno {
	if f.store == nil || !f.store.HalfDone() {
		return 0
	}
	dir, name := f.nameOf(n)
	if dir == nil {
		return 0
	}
	return f.awaitsTxn(f.callerOf(&in.Request), opOpen, []place{{dir, name, n}})
}

// childOrDue is child for a name that a transaction may have yet to make: as if it had it by
// now, or EIO if the disk fails still.
func (f *FS) childOrDue(dir *inode, name string, st *unix.Stat_t) (*kernelNode, unix.Errno) {
	k, e := f.child(dir, name, st)
	if e != unix.ENOENT || f.store == nil || !f.store.HalfDone() || !f.store.AwaitsTxn(f.path(dir, name)) {
		return k, e
	}
	f.finishHalfDone()
	k, e = f.child(dir, name, st)
	if e == unix.ENOENT && f.store.AwaitsTxn(f.path(dir, name)) {
		e = unix.EIO
	}
	return k, e
}

// awaitsTxn refuses to change names to which a transaction has yet to give what it has
// made of them: that would come later, and replace the change.
func (f *FS) awaitsTxn(c *caller, op string, places []place) unix.Errno {
	if f.store == nil || !f.store.HalfDone() {
		return 0
	}
	for _, p := range places {
		path := f.path(p.dir, p.name)
		if !f.store.AwaitsTxn(path) {
			continue
		}
		return f.refuseWith(c, op, path, unix.EIO,
			"A transaction has changed the file, and an error of the disk has kept the change from being made",
			"latchfs tries again at each open; its log has the error.")
	}
	return 0
}

// sweepOrphans removes shadows whose journal record a power cut has taken.
func (f *FS) sweepOrphans() {
	ctx, cancel := context.WithCancel(context.Background())
	defer cancel()
	go func() {
		select {
		case <-f.done:
			cancel()
		case <-ctx.Done():
		}
	}()
	r, err := f.store.Sweep(ctx)
	if err != nil && ctx.Err() == nil {
		f.log.Warnf("sweeping orphaned shadows: %v", err)
		return
	}
	f.reportRecovery(r)
}

// abandon rolls a session back that the end of the mount has cut off. A new file that its
// writer has synced appears, as it would after a crash.
func (s *session) abandon() {
	s.mu.Lock()
	defer s.mu.Unlock()
	if !s.state.Is(sessionstate.Writing) {
		return
	}
	s.become(sessionstate.Ending)
	switch dirty, err := s.content.Dirty(); {
	case s.shadow.Secured() && s.mayAppearLocked():
		s.state.Answer(s.decideLocked())
	case err != nil || dirty:
		s.state.Answer(s.rejectLocked(unix.ESHUTDOWN, "latchfs was stopped before the file was closed"))
	}
	s.f.discard(s.shadow)
	if s.saved.IsPublished() {
		s.become(sessionstate.Committed)
	} else {
		s.become(sessionstate.RolledBack)
	}
	s.f.table.Release(s.lock)
}
