package fs

import (
	"cmp"
	"errors"
	"fmt"
	"time"

	"golang.org/x/sys/unix"

	"latchfs/fs/judge"
	"latchfs/fs/printable"
	"latchfs/fs/refusals"
	"latchfs/fs/sessionstate"
	"latchfs/journal/audit"
	"latchfs/journal/commit"
	"latchfs/journal/oldtimes"
)

// commits carries the end of a session out: what was written gets the name of the file, or is
// kept aside. It also makes a file live whose session goes on.
type commits struct {
	commitTimes oldtimes.Table[inoKey] // what new files show; guarded by nodes.mu

	*ground
	claimFiles *claimFiles
	judging    *judging
	live       *live
	locks      *locks
	losses     *losses
	recorder   *recorder
	recovery   *recovery
}

// endLocked ends the session: commit, or roll back and say why. s.mu is held.
func (cm *commits) endLocked(s *session) unix.Errno {
	if s.state.Is(sessionstate.Detached) {
		return cm.endAs(s, sessionstate.Dropped, 0)
	}
	s.become(sessionstate.Ending)
	defer s.beginWork()()
	dirty, err := s.content.Dirty()
	if dirty {
		cm.renameWriter(s)
	}
	var e unix.Errno
	switch {
	case !s.closed && s.content.IsUntouched():
		// The open that began the session never came to anything: its caller was killed on the
		// way, or the system call failed later.
		cm.disk.discard(s.shadow)
	case err != nil:
		e = cm.rejectLocked(s, errnoOf(err), "the shadow cannot be read: "+err.Error())
	case !dirty && !s.isNew.Load():
		e = cm.applyMetaLocked(s)
	case s.copied && !dirty:
		cm.disk.discard(s.shadow)
	default:
		e = cm.decideLocked(s)
	}
	return cm.endWith(s, e)
}

// closeLocked gives the session's name and inode back. s.mu is held.
func (cm *commits) closeLocked(s *session) {
	if s.appears != nil {
		s.appears.Stop()
		s.appears = nil
	}
	old, unfilled := s.content.TakeOld()
	changedNothing := s.state.Is(sessionstate.Detached) && s.isCleanLocked()
	cm.nodes.mu.Lock()
	switch {
	case s.inode.sess != s:
	case s.state.Is(sessionstate.Detached):
		s.leaveInodeLocked(changedNothing)
	default:
		s.inode.sess = nil
		s.inode.copied = s.inPlace && s.saved.IsPublished()
		s.inode.orphan = s.inPlace || !s.saved.IsPublished()
		if !s.inode.orphan {
			for _, k := range s.inode.nodes {
				cm.kernel.dropFormerLocked(k)
			}
		}
	}
	if unfilled {
		s.inode.standsFor = old
	}
	dir, base, name := s.parent, s.base, s.dentry.Name()
	orphan := s.inode.orphan
	dir.pins++ // the kernel may have forgotten it, if a transaction has outlived the close
	defer cm.nodes.unpin(dir)
	delete(cm.nodes.replacing, s.baseKey)
	s.leaveLocked()
	handles := len(s.handles)
	if handles == 0 {
		cm.finishLocked(s)
	}
	cm.nodes.mu.Unlock()
	// What the kernel remembers of the directory's times and of the links of
	// the version that was replaced is out of date now.
	cm.markerMoved(name)
	cm.kernel.forgetAttrs(dir)
	if !s.isAsShown() {
		cm.kernel.forgetAttrs(s.inode)
	}
	if orphan {
		cm.names.giveBack(s.inode)
		if s.isNew.Load() {
			cm.names.dropName(dir, name) // or the kernel remembers it, and what was refused stays on the disk
		}
	}
	if base != nil {
		cm.kernel.forgetAttrs(base)
	}
}

// checkLocked looks whether what was written is whole and may be published, as far as no other
// content has to be looked at: the errno and the reason if not. The lock comes first, for what
// follows counts only under it. s.mu is held.
func (cm *commits) checkLocked(s *session) (unix.Errno, string) {
	switch {
	case !cm.locks.renewForCommit(s):
		return unix.ESTALE, s.theft()
	case s.isUnfinishedLocked():
		s.toll.KeepOut(s.stampLocked())
		return unix.EINTR, fmt.Sprintf("%v before it closed %s", s.toll.Worst(), s.path())
	}
	if e := s.content.Failed(); e != 0 {
		return e, "a write failed: " + e.Error()
	}
	if e := s.fillLocked(); e != 0 {
		return e, "the old content cannot be read: " + e.Error()
	}
	if s.passed && cm.disk.isFull(s.uid) {
		return unix.ENOSPC, "the filesystem is full, and a write may have failed unseen"
	}
	if cm.cutByLimit(s) {
		return unix.EFBIG, "the file is as long as its writer's files may be, so that a write may have been cut"
	}
	if err := s.fixMode(); err != nil {
		return errnoOf(err), err.Error()
	}
	if x := cm.losses.unseenBase(s); x != nil && !s.writing.Merges() && !x.AnswerUnread() {
		s.writing.Refuse(x)
		return unix.EBUSY, x.Whole()
	}
	return 0, ""
}

// decideLocked publishes what was written, or keeps it aside if that is refused. s.mu is held.
func (cm *commits) decideLocked(s *session) unix.Errno {
	if e := cm.acceptLocked(s); e != 0 {
		return e
	}
	_, e := cm.putLocked(s, s.shadow)
	return e
}

// cutByLimit reports whether the shadow is exactly as long as a writer's limit
// allows (RLIMIT_FSIZE, setrlimit(2)): the kernel cuts a write there before it
// comes to us, and a program that ignores SIGXFSZ lives on.
func (cm *commits) cutByLimit(s *session) bool {
	var st unix.Stat_t
	if unix.Fstat(s.shadow.FD(), &st) != nil || st.Size == 0 {
		return false
	}
	for _, o := range s.holders.Seen() {
		if limit, limited := cm.callers.proc.FileLimit(o.PID); limited && limit == uint64(st.Size) {
			return true
		}
	}
	return false
}

// publishFailed rolls back after a refused or failed publication. A commit in place that is half
// done cannot be taken back: it is finished, now or by the next open.
func (cm *commits) publishFailed(s *session, err error) unix.Errno {
	if errors.Is(err, commit.ErrRedoPending) {
		// The file is half written, and the record of how to finish it stands.
		if r, again := cm.disk.store.Recover(); again == nil {
			cm.recovery.keptLate(r)
			cm.reports.sessionEvent(s, "recovery", func(ev *audit.Event) { ev.Detail["reason"] = err.Error() })
			return 0
		}
		cm.disk.log.Errorf("%q is half written and could not be finished; the next open or start will: %v", s.path(), err)
		return unix.EIO
	}
	var conflict *commit.ConflictError
	if errors.As(err, &conflict) {
		cm.reports.sessionEvent(s, "bypass", func(ev *audit.Event) { ev.Detail["reason"] = err.Error() })
		return cm.rejectLocked(s, unix.EBUSY, fmt.Sprintf("%s was changed outside the mount while %s[%d] wrote it, and was left as it is",
			printable.Line(s.path()), printable.Line(s.program()), s.who.Load().Owner().PID))
	}
	return cm.rejectLocked(s, errnoOf(err), "commit failed: "+err.Error())
}

// rejectLocked rolls the session back and keeps its bytes. It returns e. s.mu is held.
func (cm *commits) rejectLocked(s *session, e unix.Errno, reason string) unix.Errno {
	return cm.rejectFor(s, e, reason, nil)
}

// rejectFor is rejectLocked for what may be a validator's refusal.
func (cm *commits) rejectFor(s *session, e unix.Errno, reason string, why error) unix.Errno {
	path := s.path()
	cm.unmergeLocked(s)
	size := s.stampLocked().Size
	meta := map[string]any{
		"path": path, "session": s.id, "program": s.program(), "pid": s.who.Load().Owner().PID,
		"uid": s.uid, "errno": unix.ErrnoName(e), "reason": reason, "time": time.Now().UTC().Format(time.RFC3339Nano),
		"operation": s.operation(), "base": keptBase(s.baseVersion),
	}
	lost := s.writing.Refused()
	if lost != nil {
		meta["reason"] = lost.Public()
	}
	judge.Note(meta, why)
	dir, _ := s.where()
	cm.callers.noteReach(meta, dir, s.shadow.FD())
	id, err := s.shadow.Reject(meta)
	if err != nil {
		cm.disk.log.Warnf("cannot keep the refused bytes of %q: %v", path, err)
	}
	cm.disk.discard(s.shadow)
	cm.losses.putBackReplaced(s, path, why)
	cm.reports.sessionEvent(s, "rollback", func(ev *audit.Event) {
		ev.Detail["reason"] = reason
		ev.Detail["errno"] = unix.ErrnoName(e)
		judge.Note(ev.Detail, why)
		if id != "" {
			ev.Detail["kept"] = id
		}
	})
	x := refusals.Refusal{
		Path: path, Op: s.operation(), Errno: e, Reason: reason, Kept: id, Verdict: judge.VerdictOf(why),
		Owner: s.who.Load().Owner(), UID: s.uid, Hint: cmp.Or(hintOf(why, id), lost.AdviceOn(id)),
	}
	if s.toll.IsKeptOut() {
		cm.concernDeadLocked(s, &x, size)
	}
	cm.reports.explain(x)
	return e
}

// applyMetaLocked carries the metadata changes of a session that wrote nothing
// over to the file: the version stays.
func (cm *commits) applyMetaLocked(s *session) unix.Errno {
	if !s.content.HasMeta() || s.isNew.Load() {
		return 0
	}
	if !cm.locks.renewForCommit(s) {
		cm.locks.explainTheft(s, s.operation(), unix.ESTALE)
		return unix.ESTALE
	}
	dir, name := s.where()
	fd, err := unix.Openat(cm.nodes.fdOf(dir), name, unix.O_PATH|unix.O_NOFOLLOW|unix.O_CLOEXEC, 0)
	if err != nil {
		return errnoOf(err)
	}
	defer unix.Close(fd)
	var st unix.Stat_t
	if err := unix.Fstat(fd, &st); err != nil {
		return errnoOf(err)
	}
	if s.baseVersion.Ino != st.Ino || s.baseVersion.Dev != uint64(st.Dev) {
		return unix.EBUSY
	}
	before := st
	if err := s.content.ApplyMeta(fd); err != nil {
		return errnoOf(err)
	}
	if err := s.shadow.Carried(); err != nil {
		return errnoOf(err)
	}
	if err := unix.Fstat(fd, &st); err != nil {
		return errnoOf(err)
	}
	cm.recorder.restamped(s.path(), &before, &st)
	s.baseVersion = versionPtr(&st)
	if s.base != nil {
		cm.kernel.forgetAttrs(s.base)
	}
	return 0
}

// finishLocked forgets the session altogether. nodes.mu is held.
func (cm *commits) finishLocked(s *session) {
	if _, ok := cm.nodes.sessions[s]; !ok {
		return
	}
	delete(cm.nodes.sessions, s)
	cm.callers.descriptors.Give(s.uid, perSession)
	s.leaveLocked()
	if s.base != nil {
		cm.nodes.unpinLocked(s.base)
	}
	cm.nodes.unpinLocked(s.inode)
	cm.nodes.unpinLocked(s.parent) // until now, for what comes after the commit asks where it was
}
