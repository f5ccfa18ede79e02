package fs

import (
	"time"

	"golang.org/x/sys/unix"

	"latchfs/fs/appends"
	"latchfs/fs/judge"
	"latchfs/fs/records"
	"latchfs/fs/refusals"
	"latchfs/journal/audit"
	"latchfs/journal/commit"
	"latchfs/journal/history"
)

// This file answers what an appender asks before it appends records, and passes on what it
// tells of them.

// JudgesLines implements records.Judge.
func (is appended) JudgesLines() bool { return is.judging.judge.JudgesLines(is.Path()) }

// JudgeLines implements records.Judge. See judge.ByLines for what is judged at all.
func (is appended) JudgeLines(fd int, b []byte) unix.Errno {
	err := is.judging.judge.Lines(append(is.names.otherPaths(is.h.n), is.Path()), fd, b)
	if err == nil {
		return 0
	}
	e := judge.Errno(err)
	is.keep(b, e, judge.Reason(err), err)
	return e
}

// JudgeCut implements records.Judge.
func (is appended) JudgeCut(fd int, size int64) unix.Errno {
	path := is.Path()
	if err := is.judging.judge.Cut(path, fd, size); err != nil {
		return is.judging.refuseContent(is.c, &judge.Refusal{Op: opTruncate, Path: path, Err: err})
	}
	return 0
}

// AsOpener implements records.Kernel.
func (is appended) AsOpener(do func() error) error { return is.disk.asUser(is.h.uid, is.h.gid, do) }

// inodeOf is the inode that the kernel knows of a file; nil if it knows none.
func (is appended) inodeOf(of records.ID) *inode {
	is.nodes.mu.Lock()
	defer is.nodes.mu.Unlock()
	return is.nodes.inodes[keyOf(of)]
}

// KillSuid implements records.Kernel.
func (is appended) KillSuid(of records.ID, fd int, uid, gid uint32) unix.Errno {
	n := is.inodeOf(of)
	if n == nil {
		n = is.h.n
	}
	return errnoOf(is.handles.killSuidOf(n, fd, func(g uint32) bool { return g == gid || uid == is.c.UID() && is.c.InGroup(g) }))
}

// ShowEnd implements records.Kernel. The next program that asks for the attributes sees the
// record, as its writer expects. The kernel knows the new size already at the node through
// which the record was written.
func (is appended) ShowEnd(of records.ID, fd int, on appends.Occasion) {
	is.nodes.mu.Lock()
	n := is.nodes.inodes[keyOf(of)]
	if n != nil && (on != appends.Written || n != is.h.n) {
		n.lagged = true
	}
	told := n == is.h.n && on != appends.Late && len(n.nodes) == 1
	is.nodes.mu.Unlock()
	if n == nil || told || is.life.isOver() {
		return
	}
	is.kernel.forgetAttrs(n)
	var st unix.Stat_t
	if unix.Fstat(fd, &st) == nil {
		go is.kernel.notifyInode(n, max(0, st.Size-appends.MaxPending-appends.MaxLine), 0) // somebody may hold a page and wait for us
	}
}

// ShowAll implements records.Kernel.
func (is appended) ShowAll(of records.ID) {
	if n := is.inodeOf(of); n != nil && !is.life.isOver() {
		go is.kernel.notifyInode(n, 0, -1) // somebody may hold a page and wait for us
	}
}

// HoldsLine implements records.Kernel. The kernel may have kept the attributes of a file that
// has replaced the appender's own.
func (is appended) HoldsLine() {
	n := is.h.n
	is.nodes.mu.Lock()
	saved := n.saved
	is.nodes.mu.Unlock()
	if saved {
		is.appending.forgetFollowed(n)
	}
}

// Grows implements records.Listener: see package versions.
func (is appended) Grows(of records.ID, fd, added int) bool {
	p := is.place()
	if is.disk.versions == nil {
		return false
	}
	is.nodes.unseal(keyOf(of))
	var st unix.Stat_t
	if p.dir == nil || unix.Fstat(fd, &st) != nil || st.Nlink == 0 {
		return false
	}
	path := is.nodes.path(p.dir, p.name)
	if is.disk.versions.IsFirst(path, &st, added) {
		if set := is.rules.settings(path); is.disk.versions.Keeps(&set) {
			by := byCaller{is.recorder, is.c}.Process()
			is.disk.versions.AddFile(history.Version{
				Path: path, Event: history.Commit, Operation: opAppend, Program: by.Program, PID: by.PID, UID: by.UID, Actor: by.Actor,
			}, &st, fd)
		}
	}
	is.disk.versions.Grow(commit.Inode(of), path, &st)
	return true
}

// Rests implements records.Listener.
func (is appended) Rests(of records.ID, fd int) {
	rests := is.disk.versions.Rest(commit.Inode(of))
	if p := is.place(); rests && fd >= 0 && p.dir != nil {
		is.disk.versions.Rested(is.nodes.path(p.dir, p.name), fd)
	}
}

// Maps implements records.Listener: with passthrough nothing comes to us of what is stored
// through a mapping, and the history is told that the file may change.
func (is appended) Maps() bool {
	n, p := is.h.n, is.place()
	var st unix.Stat_t
	if is.disk.versions == nil || p.dir == nil || is.names.stat(n, &st) != 0 {
		return false
	}
	is.nodes.unseal(n.key)
	is.disk.versions.Grow(commit.Inode(n.key.ofFile()), is.nodes.path(p.dir, p.name), &st)
	return true
}

// MapsNoMore implements records.Listener.
func (is appended) MapsNoMore() {
	if is.disk.versions.Rest(commit.Inode(is.h.n.key.ofFile())) {
		is.recorder.changed(is.h.n, false)
	}
}

// Committed implements records.Listener: the audit trail has one event for each close, not for
// each line of a log.
func (is appended) Committed(records, size int) {
	is.reports.event(audit.Event{
		Time: time.Now(), Event: "commit", Path: is.Path(), PID: is.c.Owner().PID, Actor: is.c.Actor(),
		Detail: map[string]any{"operation": opAppend, "records": records, "bytes": size, "program": is.c.Program(), "uid": is.c.UID()},
	})
}

// Keep implements records.Listener.
func (is appended) Keep(b []byte, e unix.Errno, reason string) { is.keep(b, e, reason, nil) }

// keep puts bytes that could not be appended under rejected/; why may be a validator's
// refusal.
func (is appended) keep(b []byte, e unix.Errno, reason string, why error) {
	c, path := is.c, is.Path()
	id, err := is.reject(b, path, e, reason, why)
	if err != nil {
		is.disk.log.Errorf("%d bytes for the end of %q are lost: %v", len(b), path, err)
	}
	detail := map[string]any{"operation": opAppend, "program": c.Program(), "uid": c.UID(), "errno": unix.ErrnoName(e), "reason": reason, "kept": id}
	judge.Note(detail, why)
	is.reports.event(audit.Event{Time: time.Now(), Event: "rollback", Path: path, PID: c.Owner().PID, Detail: detail})
	x := refusals.Refusal{Path: path, Op: opAppend, Errno: e, Reason: reason, Kept: id, Verdict: judge.VerdictOf(why), Owner: c.Owner(), UID: c.UID()}
	if e == unix.EINTR && id != "" {
		x.Hint = "To append it after all: latchfs rejected restore " + id
	}
	is.reports.explain(x)
}

// reject puts the bytes under rejected/, and returns the name of the entry.
func (is appended) reject(b []byte, path string, e unix.Errno, reason string, why error) (id string, err error) {
	n := is.h.n
	var st unix.Stat_t
	o := commit.ShadowOptions{Dir: int(is.disk.state.Fd()), Name: "append", Base: -1, Mode: 0o600, UID: -1, GID: -1}
	if unix.Fstat(is.nodes.fdOf(n), &st) == nil && is.disk.privileged {
		o.UID, o.GID = int(st.Uid), int(st.Gid)
	}
	sh, err := is.disk.store.NewShadow(o)
	if err != nil {
		return "", err
	}
	defer is.disk.discard(sh)
	if _, err := unix.Write(sh.FD(), b); err != nil {
		return "", err
	}
	meta := map[string]any{
		"path": path, "operation": opAppend, "reason": reason, "errno": unix.ErrnoName(e),
		"program": is.c.Program(), "pid": is.c.Owner().PID, "uid": is.c.UID(),
	}
	judge.Note(meta, why)
	is.callers.noteReach(meta, is.place().dir, is.nodes.fdOf(n))
	return sh.Reject(meta)
}

// NotDurable implements records.Listener.
func (is appended) NotDurable(err error) {
	is.Errorf("%q: %v: %v", is.Path(), commit.ErrNotDurable, err)
}

// Errorf implements records.Listener.
func (is appended) Errorf(format string, args ...any) { is.disk.log.Errorf(format, args...) }

// Warnf implements records.Listener.
func (is appended) Warnf(format string, args ...any) { is.disk.log.Warnf(format, args...) }

// appendedOps are what the kinds of changes are called.
var appendedOps = [...]string{records.Appended: opAppend, records.Stored: opOpen, records.Truncated: opTruncate}

// Change implements records.Listener. The history and the audit trail hear of appended records
// in another way: when the appender is closed. The change is nil where nothing else needs it:
// no version of the file is known to a program, and no read claims files.
func (is appended) Change(what records.What, was *unix.Stat_t) records.Change {
	p := is.place()
	if p.dir == nil {
		return nil
	}
	ch := is.recorder.changesBy(is.c, appendedOps[what], p, 0)
	ch.Was, ch.InPlace, ch.Silent, ch.Adds = was, true, true, what == records.Appended
	file := fileAt(ch.Path, ch.Was)
	if known := is.rules.knowledge != nil && is.losses.updates.IsFollowed(&file); ch.Adds && !known && !is.locks.readClaims.Enabled {
		return nil
	}
	return appendedChange{is.appending, ch}
}

// appendedChange is a change of the file.
type appendedChange struct {
	*appending
	ch *change
}

// Keep implements records.Change.
func (x appendedChange) Keep(token uint64, fd int) {
	ch, at := x.ch, x.ch.Name.(changedName)
	ch.Token, ch.Silent = token, false
	x.nodes.paths.RLock()
	defer x.nodes.paths.RUnlock()
	path := at.Path()
	ch.Step = x.recorder.step(at.dir, at.name, path, x.rules.settings(path), ch.Was)
	ch.Step.InPlace(ch.Was)
	if id := ch.Step.Keep().ID; id != "" {
		ch.Kept = x.disk.store.KeepCopy(fd, id) == nil
	}
}

// Drop implements records.Change.
func (x appendedChange) Drop() {
	if !x.ch.Kept {
		return
	}
	if err := x.disk.store.DropCopy(x.ch.Step.Keep().ID); err != nil {
		x.disk.log.Warnf("a copy of %q is in the history twice: %v", x.ch.Path, err)
	}
}

// Tell implements records.Change.
func (x appendedChange) Tell(is *unix.Stat_t) {
	x.ch.Is = is
	x.recorder.changes.Tell(x.ch)
}
