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

// This file is who is asked before records are appended, and who is told of them.

// JudgesLines implements records.Judge.
func (is appended) JudgesLines() bool { return is.f.judging.judge.JudgesLines(is.Path()) }

// JudgeLines implements records.Judge. See judge.ByLines for what is judged at all.
func (is appended) JudgeLines(fd int, b []byte) unix.Errno {
	err := is.f.judging.judge.Lines(append(is.f.names.otherPaths(is.h.n), is.Path()), fd, b)
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
	if err := is.f.judging.judge.Cut(path, fd, size); err != nil {
		return is.f.judging.refuseContent(is.c, &judge.Refusal{Op: opTruncate, Path: path, Err: err})
	}
	return 0
}

// AsOpener implements records.Kernel.
func (is appended) AsOpener(do func() error) error { return is.f.disk.asUser(is.h.uid, is.h.gid, do) }

// inodeOf is the inode that the kernel knows of a file; nil if it knows none.
func (is appended) inodeOf(of records.ID) *inode {
	is.f.nodes.mu.Lock()
	defer is.f.nodes.mu.Unlock()
	return is.f.nodes.inodes[keyOf(of)]
}

// KillSuid implements records.Kernel.
func (is appended) KillSuid(of records.ID, fd int, uid, gid uint32) unix.Errno {
	n := is.inodeOf(of)
	if n == nil {
		n = is.h.n
	}
	return errnoOf(is.f.handles.killSuidOf(n, fd, func(g uint32) bool { return g == gid || uid == is.c.uid && is.c.inGroup(g) }))
}

// ShowEnd implements records.Kernel. Whoever asks next sees the record, as its writer expects.
func (is appended) ShowEnd(of records.ID, fd int, late bool) {
	f := is.f
	f.nodes.mu.Lock()
	n := f.nodes.inodes[keyOf(of)]
	told := n == is.h.n && !late && len(n.nodes) == 1
	f.nodes.mu.Unlock()
	if n == nil || told || f.life.isOver() {
		return
	}
	f.kernel.forgetAttrs(n)
	var st unix.Stat_t
	if unix.Fstat(fd, &st) == nil {
		go f.kernel.notifyInode(n, max(0, st.Size-appends.MaxPending-appends.MaxLine), 0) // somebody may hold a page and wait for us
	}
}

// ShowAll implements records.Kernel.
func (is appended) ShowAll(of records.ID) {
	if n := is.inodeOf(of); n != nil && !is.f.life.isOver() {
		go is.f.kernel.notifyInode(n, 0, -1) // somebody may hold a page and wait for us
	}
}

// HoldsLine implements records.Kernel. The kernel may have kept the attributes of a file that
// has replaced the appender's own.
func (is appended) HoldsLine() {
	f, n := is.f, is.h.n
	f.nodes.mu.Lock()
	saved := n.saved
	f.nodes.mu.Unlock()
	if saved {
		f.appending.forgetFollowed(n)
	}
}

// Grows implements records.Listener: see package versions.
func (is appended) Grows(of records.ID, fd, added int) bool {
	f, p := is.f, is.place()
	if f.disk.versions == nil {
		return false
	}
	f.nodes.unseal(keyOf(of))
	var st unix.Stat_t
	if p.dir == nil || unix.Fstat(fd, &st) != nil || st.Nlink == 0 {
		return false
	}
	path := f.nodes.path(p.dir, p.name)
	if f.disk.versions.IsFirst(path, &st, added) {
		if set := f.rules.settings(path); f.disk.versions.Keeps(&set) {
			by := byCaller{is.c}.Process()
			f.disk.versions.AddFile(history.Version{
				Path: path, Event: history.Commit, Operation: opAppend, Program: by.Program, PID: by.PID, UID: by.UID, Actor: by.Actor,
			}, &st, fd)
		}
	}
	f.disk.versions.Grow(commit.Inode(of), path, &st)
	return true
}

// Rests implements records.Listener.
func (is appended) Rests(of records.ID, fd int) {
	rests := is.f.disk.versions.Rest(commit.Inode(of))
	if p := is.place(); rests && fd >= 0 && p.dir != nil {
		is.f.disk.versions.Changed(is.f.nodes.path(p.dir, p.name), fd, false)
	}
}

// Maps implements records.Listener: with passthrough nothing comes to us of what is stored
// through a mapping, and the history is told that the file may change.
func (is appended) Maps() bool {
	f, n, p := is.f, is.h.n, is.place()
	var st unix.Stat_t
	if f.disk.versions == nil || p.dir == nil || f.names.stat(n, &st) != 0 {
		return false
	}
	f.nodes.unseal(n.key)
	f.disk.versions.Grow(commit.Inode(n.key.ofFile()), f.nodes.path(p.dir, p.name), &st)
	return true
}

// MapsNoMore implements records.Listener.
func (is appended) MapsNoMore() {
	if is.f.disk.versions.Rest(commit.Inode(is.h.n.key.ofFile())) {
		is.f.recorder.changed(is.h.n, false)
	}
}

// Committed implements records.Listener: the audit trail has one event for each close, not for
// each line of a log.
func (is appended) Committed(records, size int) {
	is.f.reports.event(audit.Event{
		Time: time.Now(), Event: "commit", Path: is.Path(), PID: is.c.owner.PID, Actor: is.f.callers.actorOf(&label{c: is.c}),
		Detail: map[string]any{"operation": opAppend, "records": records, "bytes": size, "program": is.c.program(), "uid": is.c.uid},
	})
}

// Keep implements records.Listener.
func (is appended) Keep(b []byte, e unix.Errno, reason string) { is.keep(b, e, reason, nil) }

// keep puts bytes that could not be appended under rejected/; why may be a validator's
// refusal.
func (is appended) keep(b []byte, e unix.Errno, reason string, why error) {
	f, c, path := is.f, is.c, is.Path()
	id, err := is.reject(b, path, reason, why)
	if err != nil {
		f.disk.log.Errorf("%d bytes for the end of %q are lost: %v", len(b), path, err)
	}
	detail := map[string]any{"operation": opAppend, "uid": c.uid, "errno": unix.ErrnoName(e), "reason": reason, "kept": id}
	judge.Note(detail, why)
	f.reports.event(audit.Event{Time: time.Now(), Event: "rollback", Path: path, PID: c.owner.PID, Detail: detail})
	x := refusals.Refusal{Path: path, Op: opAppend, Errno: e, Reason: reason, Kept: id, Verdict: judge.VerdictOf(why), Owner: c.owner, UID: c.uid}
	if e == unix.EINTR && id != "" {
		x.Hint = "To append it after all: latchfs rejected restore " + id
	}
	f.reports.explain(x)
}

// reject puts them there, and returns under which name.
func (is appended) reject(b []byte, path, reason string, why error) (id string, err error) {
	f, n := is.f, is.h.n
	var st unix.Stat_t
	o := commit.ShadowOptions{Dir: int(f.disk.state.Fd()), Name: "append", Base: -1, Mode: 0o600, UID: -1, GID: -1}
	if unix.Fstat(f.nodes.fdOf(n), &st) == nil && f.disk.privileged {
		o.UID, o.GID = int(st.Uid), int(st.Gid)
	}
	sh, err := f.disk.store.NewShadow(o)
	if err != nil {
		return "", err
	}
	defer f.disk.discard(sh)
	if _, err := unix.Write(sh.FD(), b); err != nil {
		return "", err
	}
	meta := map[string]any{"path": path, "operation": opAppend, "reason": reason, "pid": is.c.owner.PID}
	judge.Note(meta, why)
	f.locks.noteReach(meta, is.place().dir, f.nodes.fdOf(n))
	return sh.Reject(meta)
}

// NotDurable implements records.Listener.
func (is appended) NotDurable(err error) {
	is.Errorf("%q: %v: %v", is.Path(), commit.ErrNotDurable, err)
}

// Errorf implements records.Listener.
func (is appended) Errorf(format string, args ...any) { is.f.disk.log.Errorf(format, args...) }

// Warnf implements records.Listener.
func (is appended) Warnf(format string, args ...any) { is.f.disk.log.Warnf(format, args...) }

// appendedOps are what the kinds of changes are called.
var appendedOps = [...]string{records.Appended: opAppend, records.Stored: opOpen, records.Truncated: opTruncate}

// Change implements records.Listener. The history and the audit trail hear of records in another
// way: when the appender is closed. Where nobody else asks for them nobody is told.
func (is appended) Change(what records.What, was *unix.Stat_t) records.Change {
	f, p := is.f, is.place()
	if p.dir == nil {
		return nil
	}
	ch := is.c.changes(appendedOps[what], p, 0)
	ch.Was, ch.InPlace, ch.Silent, ch.Adds = was, true, true, what == records.Appended
	file := fileAt(ch.Path, ch.Was)
	if known := f.rules.knowledge != nil && f.losses.updates.IsFollowed(&file); ch.Adds && !known && !f.locks.readClaims.Enabled {
		return nil
	}
	return appendedChange{f, ch}
}

// appendedChange is a change of the file.
type appendedChange struct {
	f  *FS
	ch *change
}

// Keep implements records.Change.
func (x appendedChange) Keep(token uint64, fd int) {
	f, ch, at := x.f, x.ch, x.ch.Name.(changedName)
	ch.Token, ch.Silent = token, false
	f.nodes.paths.RLock()
	defer f.nodes.paths.RUnlock()
	path := at.Path()
	ch.Step = f.recorder.step(at.dir, at.name, path, f.rules.settings(path), ch.Was)
	ch.Step.InPlace(ch.Was)
	if id := ch.Step.Keep().ID; id != "" {
		ch.Kept = f.disk.store.KeepCopy(fd, id) == nil
	}
}

// Drop implements records.Change.
func (x appendedChange) Drop() {
	if !x.ch.Kept {
		return
	}
	if err := x.f.disk.store.DropCopy(x.ch.Step.Keep().ID); err != nil {
		x.f.disk.log.Warnf("a copy of %q is in the history twice: %v", x.ch.Path, err)
	}
}

// Tell implements records.Change.
func (x appendedChange) Tell(is *unix.Stat_t) {
	x.ch.Is = is
	x.f.recorder.changes.Tell(x.ch)
}
