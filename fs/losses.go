package fs

import (
	"time"

	"golang.org/x/sys/unix"

	"latchfs/fs/lostupdate"
	"latchfs/fs/transaction"
	"latchfs/journal/audit"
	"latchfs/lockmgr"
	"latchfs/lockmgr/knowledge"
)

// mayReplace decides whether the caller may replace the file st that has the name
// p, or take its name away: whoever decides for it must know that version, if it knows
// any (DESIGN §6). Of a file that takes its place its writers say what it was made
// from. The name's lock is held, so that the answer stays true.
func (f *FS) mayReplace(c *caller, op string, p place, st *unix.Stat_t, writers ...lockmgr.Owner) unix.Errno {
	x, e := f.wouldLose(c, op, p, st, writers...)
	if x == nil {
		return e
	}
	return errnoFor(x.Answer())
}

// mayCutName is mayReplace for a truncate(2).
func (f *FS) mayCutName(c *caller, p place) unix.Errno {
	var st unix.Stat_t
	if unix.Fstatat(f.fdOf(p.dir), p.name, &st, unix.AT_SYMLINK_NOFOLLOW) != nil {
		return 0
	}
	return f.mayReplace(c, opTruncate, p, &st)
}

// mayMake is mayReplace for a name that no file has. A file that the caller, or its
// script, has removed a moment ago is replaced by what it makes now.
func (f *FS) mayMake(c *caller, op string, p place, writers ...lockmgr.Owner) unix.Errno {
	if t := f.txnOf(c); t != nil {
		return f.mayMakeIn(t, c, op, p, writers...)
	}
	x, e := f.wouldLose(c, op, p, nil, writers...)
	if x == nil {
		return e
	}
	return f.answerOr(x, p)
}

// mayMakeIn is mayMake in a transaction, where the name may be taken all the same. A file that
// the transaction is to remove is there until its commit, and is replaced then.
func (f *FS) mayMakeIn(t *txn, c *caller, op string, p place, writers ...lockmgr.Owner) unix.Errno {
	sn := f.stagedAt(p.dir, p.name)
	var st unix.Stat_t
	if sn == nil || sn.t != t || !sn.did.IsGone() || sn.did == transaction.Moved ||
		unix.Fstatat(f.fdOf(p.dir), p.name, &st, unix.AT_SYMLINK_NOFOLLOW) != nil {
		return 0
	}
	e := f.mayReplace(c, op, p, &st, writers...)
	if e != 0 {
		t.keepRemoved(p)
	}
	return e
}

// answerOr is the answer to a change that takes the place of a file removed a moment ago.
func (f *FS) answerOr(x *lostupdate.Loss, p place) unix.Errno {
	return errnoFor(x.AnswerRemoved(func() bool { return f.putBack(x, p) }))
}

// wouldLose is mayReplace for callers who may know better: what would be lost, nil if
// there is nothing to object to but perhaps an errno. st is nil if there is no file.
func (f *FS) wouldLose(c *caller, op string, p place, st *unix.Stat_t, writers ...lockmgr.Owner) (*lostupdate.Loss, unix.Errno) {
	return f.wouldLoseWhat(c, op, p, st, knowledge.Readers, writers...)
}

// wouldLoseWhat is wouldLose where it is said whose knowledge decides.
func (f *FS) wouldLoseWhat(c *caller, op string, p place, st *unix.Stat_t, counts knowledge.Counts, writers ...lockmgr.Owner) (*lostupdate.Loss, unix.Errno) {
	return f.loss(c, lostupdate.Change{Op: op, Counts: counts}, p, st, writers...)
}

// loss is wouldLoseWhat for a change of which more is known.
func (f *FS) loss(c *caller, ch lostupdate.Change, p place, st *unix.Stat_t, writers ...lockmgr.Owner) (*lostupdate.Loss, unix.Errno) {
	path := f.path(p.dir, p.name)
	set := f.settings(path)
	switch {
	case !f.updates.Applies(&set), st != nil && st.Mode&unix.S_IFMT != unix.S_IFREG:
		return nil, 0
	case st == nil && !f.knowledge.Tracks(knowledge.Key(path)):
		return nil, 0 // nothing that anybody knows has had the name
	}
	if st != nil && lostupdate.RefusesStranger(c.foreign(), &set) {
		return nil, f.refuseStranger(c, ch.Op, path)
	}
	who, ok := c.learners(&set)
	if !ok {
		return nil, 0
	}
	if st != nil {
		f.noteGrownAt(path, st)
	}
	ch.File, ch.Set = fileAt(path, st), &set
	return f.lossOf(c, ch, who, writers), 0
}

// lossOf is what a change of a file by the caller would lose; who are those that learn what
// the caller learns.
func (f *FS) lossOf(c *caller, ch lostupdate.Change, who knowledge.Who, writers []lockmgr.Owner) *lostupdate.Loss {
	ch.Names, ch.Chain = ch.Op == opUnlink || ch.Op == opRename, lostupdate.Chain(who, writers)
	ch.Who, ch.Writers = who, writers
	return f.updates.Loss(ch, c.makes(ch.Op, who))
}

// noteLockAsked notes that a flock is asked for through a descriptor. Who asks for it
// when there is a newer version already has not opened the file to lock it.
func (f *FS) noteLockAsked(h *handle) {
	sight := h.sight.Load()
	if sight == nil {
		return
	}
	var st unix.Stat_t
	if _, now := f.knowledge.Current(knowledge.Key(f.nodePath(h.n))); unix.Fstat(f.fdOf(h.n), &st) != nil || now != stampOfFile(&st) {
		h.sight.Store(nil)
	}
}

// unseenBase is what a session would lose that was opened for writing alone and not
// truncated, whose writer says only by what it writes that it replaces something; nil
// if there is nothing to object to.
func (s *session) unseenBase() *lostupdate.Loss {
	f := s.f
	if !s.writing.IsUnread() || s.state.IsNobodys() || s.baseVersion == nil || !f.updates.Applies(&s.settings) {
		return nil
	}
	who := s.learners()
	return f.updates.LossOfWriter(s.replaces(s.operation(), lostupdate.Chain(who, nil)), s.makes(who))
}

// mayJoinAndCut is the check behind an open with O_TRUNC that joins the session; what
// that has changed already is the family's own. s.mu is held.
func (s *session) mayJoinAndCut(c *caller) unix.Errno {
	f := s.f
	if f.knowledge == nil || s.content.IsChanged() || s.baseVersion == nil {
		return 0
	}
	var st unix.Stat_t
	dir, name := s.where()
	if unix.Fstatat(f.fdOf(dir), name, &st, unix.AT_SYMLINK_NOFOLLOW) != nil {
		return 0
	}
	return f.mayReplace(c, opOpen, place{dir, name, nil}, &st)
}

// mayCut decides whether the session may be truncated through a descriptor: the
// check that an open with O_TRUNC has behind it.
func (s *session) mayCut(size int64) unix.Errno {
	s.mu.Lock()
	s.writing.Cut()
	x := s.unseenBase()
	if x != nil && size == 0 && !s.writing.Merges() {
		s.writing.MergeWith(s.mergesCut(x))
	}
	merges := s.writing.Merges()
	s.mu.Unlock()
	if x == nil || merges {
		return 0
	}
	return errnoFor(x.Answer())
}

// refuseStranger refuses to let somebody replace a file of whom nobody can tell
// whether he has read it.
func (f *FS) refuseStranger(c *caller, op, path string) unix.Errno {
	const reason = "The process is in another pid namespace, so that nobody can tell which version it has read"
	f.event(audit.Event{Time: time.Now(), Event: "conflict", Path: path, Detail: map[string]any{
		"operation": op, "uid": c.uid, "reason": reason, "errno": unix.ErrnoName(unix.EBUSY),
	}})
	return f.refuseWith(c, op, path, unix.EBUSY, reason,
		"The policy says so (strangers): write another file, or have the policy changed.")
}

// deafen keeps somebody who was refused a rename away from learning anything by a
// look at what is there now: vim looks, removes it and writes its own.
func (f *FS) deafen(c *caller, p place) {
	path := f.path(p.dir, p.name)
	set := f.settings(path)
	if who, ok := c.learners(&set); ok {
		f.knowledge.Deafen(time.Now(), knowledge.Key(path), who.Self)
	}
}
