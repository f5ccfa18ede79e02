package fs

import (
	"cmp"
	"context"
	"sync/atomic"
	"time"

	"golang.org/x/sys/unix"

	"latchfs/journal"
	"latchfs/journal/audit"
	"latchfs/journal/commit"
)

// recovery finishes what a crash has left half done, when its name is used or the sweep
// comes by.
type recovery struct {
	*ground
	txns *txns

	lately atomic.Pointer[time.Time] // when it was last tried to finish what was half done
}

// reportRecovery tells what the start found and did.
func (re *recovery) reportRecovery(r commit.Report) {
	for _, path := range r.Barred {
		re.disk.log.Warnf("recovery: %q could not be opened: if a crash has left a record unfinished at its end, that stands", path)
	}
	n := len(r.Undone) + len(r.Redone) + len(r.Cut) + len(r.Reverted) + len(r.Removed) + len(r.Salvaged) + len(r.Synced)
	if n == 0 {
		return
	}
	re.disk.log.Infof("recovery: %d replacements undone, %d commits in place finished, %d unfinished records cut off, %d orphaned shadows removed, %d kept aside, %d synced by their writers",
		len(r.Undone), len(r.Redone), len(r.Cut), len(r.Removed), len(r.Salvaged), len(r.Synced))
	for _, k := range r.Synced {
		re.reports.event(syncedEvent(k))
	}
	for _, c := range r.Changed {
		re.reports.event(changedEvent(c))
	}
	for _, v := range r.Reverted {
		re.reports.event(audit.Event{Time: time.Now(), Event: "recovery", Path: v.Path, Detail: map[string]any{
			"operation": opOpen, "removed": v.Gone, "kept": v.Kept,
			"reason": "the new version was not whole after a crash; the one before has its place",
		}})
	}
	for _, c := range r.Cut {
		re.reports.event(audit.Event{Time: time.Now(), Event: "recovery", Path: c.Path, Detail: map[string]any{
			"operation": opAppend, "from": c.From, "to": c.To, "kept": c.Kept,
			"reason": "the file ended in an unfinished record",
		}})
	}
	re.reports.event(audit.Event{Time: time.Now(), Event: "recovery", Detail: map[string]any{
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
// the disk has stopped, and to take back what it has kept from going, before anything is opened or changed. It reports whether there
// were any.
func (re *recovery) finishHalfDone() bool {
	if re.disk.store == nil || !re.disk.store.HalfDone() {
		return false
	}
	re.finishesNow()
	defer re.finishesNow()
	r, err := re.disk.store.Recover()
	if err != nil {
		re.disk.log.Warnf("what an error of the disk has stopped cannot be finished yet: %v", err)
	}
	re.disk.versions.Recovered(r)
	re.reportRecovery(r)
	re.showLate(r)
	return true
}

func (re *recovery) finishesNow() {
	now := time.Now()
	re.lately.Store(&now)
}

// slowWalk is how long a walk may take from a name to the open of what it led to.
const slowWalk = 10 * time.Second

// finishedLately reports whether somebody who arrives now may have found a name before it got
// what it should have had by then.
func (re *recovery) finishedLately() bool {
	at := re.lately.Load()
	return at != nil && time.Since(*at) < slowWalk
}

// showLate makes the kernel forget what it knows of names and files that have only now
// become what they were to be.
func (re *recovery) showLate(r commit.Report) {
	for _, in := range r.Redone {
		var st unix.Stat_t
		if unix.Fstatat(re.disk.rootfd, cmp.Or(in.Dir, "."), &st, unix.AT_SYMLINK_NOFOLLOW) != nil {
			continue
		}
		if dir := re.nodes.inodeFor(&st); dir != nil {
			re.names.dropName(dir, in.Name)
		}
		if in.Kind != journal.KindInPlace {
			continue
		}
		if n := re.nodes.inodeFor(&unix.Stat_t{Dev: in.TargetDev, Ino: in.TargetIno}); n != nil {
			go re.kernel.notifyInode(n, 0, -1) // the request at hand may hold its lock
		}
	}
}

// isDue refuses to open a file whose name a transaction, which was told that it is
// committed, has yet to give something else.
func (re *recovery) isDue(in *OpenRequest, n *inode) unix.Errno {
	if re.disk.store == nil || !re.disk.store.HalfDone() {
		return 0
	}
	dir, name := re.nodes.nameOf(n)
	if dir == nil {
		return 0
	}
	return re.txns.awaitsTxn(re.callers.callerOf(&in.Request), opOpen, []place{{dir, name, n}})
}

// childOrDue is child for a name that a transaction may have yet to make: as if it had it by
// now, or EIO if the disk fails still.
func (re *recovery) childOrDue(dir *inode, name string, st *unix.Stat_t) (*kernelNode, unix.Errno) {
	if re.disk.store == nil || !re.disk.store.HalfDone() || !re.disk.store.AwaitsTxn(re.nodes.path(dir, name)) {
		return re.names.child(dir, name, st)
	}
	re.finishHalfDone()
	k, e := re.names.child(dir, name, st)
	if e == unix.ENOENT && re.disk.store.AwaitsTxn(re.nodes.path(dir, name)) {
		e = unix.EIO
	}
	return k, e
}

// sweepOrphans removes shadows whose journal record a power cut has taken.
func (re *recovery) sweepOrphans() {
	ctx, cancel := context.WithCancel(context.Background())
	defer cancel()
	go func() {
		select {
		case <-re.life.done:
			cancel()
		case <-ctx.Done():
		}
	}()
	r, err := re.disk.store.Sweep(ctx)
	if err != nil && ctx.Err() == nil {
		re.disk.log.Warnf("sweeping orphaned shadows: %v", err)
		return
	}
	re.reportRecovery(r)
}

// keptLate tells what a recovery has kept while the mount runs, in the history or aside.
func (re *recovery) keptLate(r commit.Report) {
	re.disk.versions.Recovered(r)
	if len(r.Salvaged) > 0 {
		re.reportRecovery(r)
	}
}
