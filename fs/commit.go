package fs

import (
	"cmp"
	"errors"
	"fmt"
	"time"

	"golang.org/x/sys/unix"

	"latchfs/fs/judge"
	"latchfs/fs/lockwait"
	"latchfs/fs/printable"
	"latchfs/fs/refusals"
	"latchfs/fs/sessionstate"
	"latchfs/journal/audit"
	"latchfs/journal/commit"
)

// lateGrace is how long RELEASE may take after a commit before somebody must
// be holding the descriptor whom the holder set missed.
const lateGrace = lockwait.Grace

// mapPoll is how often the mappings of a shadow without descriptors are looked
// at: no request tells when the last one goes.
const mapPoll = 20 * time.Millisecond

// errNodeShared refuses a write-open through a descriptor of a file that
// others have open.
var errNodeShared = errors.New("the file is open, and was opened anew through a descriptor (/dev/stdin, /proc/self/fd)")

// endLocked ends the session: commit, or roll back and say why. s.mu is held.
func (s *session) endLocked() unix.Errno {
	if s.state.Is(sessionstate.Detached) {
		return s.endAs(sessionstate.Dropped, 0)
	}
	s.become(sessionstate.Ending)
	defer s.beginWork()()
	dirty, err := s.content.Dirty()
	if dirty {
		s.renameWriter()
	}
	var e unix.Errno
	switch {
	case !s.closed && s.content.IsUntouched():
		// The open that began the session never came to anything: its caller was killed on the
		// way, or the system call failed later.
		s.f.discard(s.shadow)
	case err != nil:
		e = s.rejectLocked(errnoOf(err), "the shadow cannot be read: "+err.Error())
	case !dirty && !s.isNew.Load():
		e = s.applyMetaLocked()
	case s.copied && !dirty:
		s.f.discard(s.shadow)
	default:
		e = s.decideLocked()
	}
	return s.endWith(e)
}

// closeLocked gives the name and the inode back.
func (s *session) closeLocked() {
	f := s.f
	if s.appears != nil {
		s.appears.Stop()
		s.appears = nil
	}
	s.content.CloseOld()
	changedNothing := s.state.Is(sessionstate.Detached) && s.isCleanLocked()
	f.mu.Lock()
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
				f.dropFormerLocked(k)
			}
		}
	}
	dir, base, name := s.parent, s.base, s.dentry.Name()
	orphan := s.inode.orphan
	delete(f.replacing, s.baseKey)
	s.leaveLocked()
	handles := len(s.handles)
	if handles == 0 {
		s.finishLocked()
	}
	f.mu.Unlock()
	// What the kernel remembers of the directory's times and of the links of
	// the version that was replaced is out of date now.
	f.markerMoved(name)
	f.forgetAttrs(dir)
	if !s.isAsShown() {
		f.forgetAttrs(s.inode)
	}
	if orphan {
		f.giveBack(s.inode)
		if s.isNew.Load() {
			f.dropName(dir, name) // or the kernel remembers it, and what was refused stays on the disk
		}
	}
	if base != nil {
		f.forgetAttrs(base)
	}
}

// isAsShown reports whether the attributes of the shadow are still those that the kernel was
// told while the session wrote it: a new file that was published stands for no other one,
// had a link already, and keeps its change time (see keepTime). s.mu is held.
func (s *session) isAsShown() bool {
	return s.baseVersion == nil && s.saved.IsPublished() && s.shown.Links() == 1
}

// checkLocked runs the checks of DESIGN §4.2 in their order, and says why not.
func (s *session) checkLocked() (unix.Errno, string) {
	switch {
	case !s.keepsLock():
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
	if s.passed && s.f.isFull(s.uid) {
		return unix.ENOSPC, "the filesystem is full, and a write may have failed unseen"
	}
	if s.cutByLimit() {
		return unix.EFBIG, "the file is as long as its writer's files may be, so that a write may have been cut"
	}
	if err := s.fixMode(); err != nil {
		return errnoOf(err), err.Error()
	}
	if x := s.unseenBase(); x != nil && !s.writing.Merges() && !x.AnswerUnread() {
		s.writing.Refuse(x)
		return unix.EBUSY, x.Whole()
	}
	return 0, ""
}

// decideLocked publishes what may be published.
func (s *session) decideLocked() unix.Errno {
	if e := s.acceptLocked(); e != 0 {
		return e
	}
	_, e := s.putLocked(s.shadow)
	return e
}

// acceptLocked decides whether what was written may be published, merged with the base where
// its writer does not know that.
func (s *session) acceptLocked() unix.Errno {
	if e, reason := s.checkLocked(); e != 0 {
		return s.rejectLocked(e, reason)
	}
	if e := s.mergeLocked(); e != 0 {
		return e
	}
	if e := s.judgeLocked(); e != 0 {
		return e
	}
	return s.mayFileLocked()
}

// cutByLimit reports whether the shadow is exactly as long as a writer's limit
// allows (RLIMIT_FSIZE, setrlimit(2)): the kernel cuts a write there before it
// comes to us, and who ignores SIGXFSZ lives on.
func (s *session) cutByLimit() bool {
	var st unix.Stat_t
	if unix.Fstat(s.shadow.FD(), &st) != nil || st.Size == 0 {
		return false
	}
	for _, o := range s.holders.Seen() {
		if limit, limited := s.f.proc.FileLimit(o.PID); limited && limit == uint64(st.Size) {
			return true
		}
	}
	return false
}

// settleLazy makes a lazily published file durable that is about to get another
// name, or to be written in place.
func (f *FS) settleLazy(n *inode) unix.Errno {
	var st unix.Stat_t
	if f.store == nil {
		return 0
	}
	err := unix.Fstat(f.fdOf(n), &st)
	if err == nil {
		err = f.store.SettleLazy(&st)
	}
	return errnoOf(err)
}

// publishFailed rolls back after a refused or failed publication.
func (s *session) publishFailed(err error) unix.Errno {
	if errors.Is(err, commit.ErrRedoPending) {
		// The file is half written, and the record of how to finish it stands.
		if r, again := s.f.store.Recover(); again == nil {
			s.f.keptLate(r)
			s.record("recovery", func(ev *audit.Event) { ev.Detail["reason"] = err.Error() })
			return 0
		}
		s.f.log.Errorf("%q is half written and could not be finished; the next open or start will: %v", s.path(), err)
		return unix.EIO
	}
	var conflict *commit.ConflictError
	if errors.As(err, &conflict) {
		s.record("bypass", func(ev *audit.Event) { ev.Detail["reason"] = err.Error() })
		return s.rejectLocked(unix.EBUSY, fmt.Sprintf("%s was changed outside the mount while %s[%d] wrote it, and was left as it is",
			printable.Line(s.path()), printable.Line(s.program()), s.who.Load().owner.PID))
	}
	return s.rejectLocked(errnoOf(err), "commit failed: "+err.Error())
}

// rejectLocked rolls the session back and keeps its bytes.
func (s *session) rejectLocked(e unix.Errno, reason string) unix.Errno {
	return s.rejectFor(e, reason, nil)
}

// rejectFor is rejectLocked for what may be a validator's refusal.
func (s *session) rejectFor(e unix.Errno, reason string, why error) unix.Errno {
	path := s.path()
	s.unmergeLocked()
	size := s.stampLocked().Size
	meta := map[string]any{
		"path": path, "session": s.id, "program": s.program(), "pid": s.who.Load().owner.PID,
		"uid": s.uid, "errno": unix.ErrnoName(e), "reason": reason, "time": time.Now().UTC().Format(time.RFC3339Nano),
		"operation": s.operation(), "base": keptBase(s.baseVersion),
	}
	lost := s.writing.Refused()
	if lost != nil {
		meta["reason"] = lost.Public()
	}
	judge.Note(meta, why)
	dir, _ := s.where()
	s.f.noteReach(meta, dir, s.shadow.FD())
	id, err := s.shadow.Reject(meta)
	if err != nil {
		s.f.log.Warnf("cannot keep the refused bytes of %q: %v", path, err)
	}
	s.f.discard(s.shadow)
	s.putBackReplaced(path, why)
	s.record("rollback", func(ev *audit.Event) {
		ev.Detail["reason"] = reason
		ev.Detail["errno"] = unix.ErrnoName(e)
		judge.Note(ev.Detail, why)
		if id != "" {
			ev.Detail["kept"] = id
		}
	})
	x := refusals.Refusal{
		Path: path, Op: s.operation(), Errno: e, Reason: reason, Kept: id, Verdict: judge.VerdictOf(why),
		Owner: s.who.Load().owner, UID: s.uid, Hint: cmp.Or(hintOf(why, id), lost.AdviceOn(id)),
	}
	if s.toll.IsKeptOut() {
		s.concernDeadLocked(&x, size)
	}
	s.f.explain(x)
	return e
}

// applyMetaLocked carries the metadata changes of a session that wrote nothing
// over to the file: the version stays.
func (s *session) applyMetaLocked() unix.Errno {
	if !s.content.HasMeta() || s.isNew.Load() {
		return 0
	}
	if !s.keepsLock() {
		return unix.ESTALE
	}
	f := s.f
	dir, name := s.where()
	fd, err := unix.Openat(f.fdOf(dir), name, unix.O_PATH|unix.O_NOFOLLOW|unix.O_CLOEXEC, 0)
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
	if err := unix.Fstat(fd, &st); err != nil {
		return errnoOf(err)
	}
	f.restamped(s.path(), &before, &st)
	s.baseVersion = versionPtr(&st)
	if s.base != nil {
		f.forgetAttrs(s.base)
	}
	return 0
}
