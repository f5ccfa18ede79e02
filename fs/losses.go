package fs

import (
	"time"

	"golang.org/x/sys/unix"

	"latchfs/fs/knowledgelog"
	"latchfs/fs/lessons"
	"latchfs/fs/lostupdate"
	"latchfs/fs/transaction"
	"latchfs/journal/audit"
	"latchfs/lockmgr"
	"latchfs/lockmgr/knowledge"
)

// losses knows who has read what, and says what a change would lose of somebody else's.
type losses struct {
	remembers *knowledgelog.Log // keeps what is known over a restart; nil when mounted read-only
	updates   *lostupdate.Judge // decides what changes would lose
	lessons   *lessons.Lessons  // of programs; nil when no path asks for it

	*ground
	txns *txns
}

// mayReplace decides whether the caller may replace the file st that has the name
// p, or take its name away: whoever decides for it must know that version, if it knows
// any (docs/lost-updates.md). Of a file that takes its place its writers say what it was made
// from. The name's lock is held, so that the answer stays true.
func (lo *losses) mayReplace(c *caller, op string, p place, st *unix.Stat_t, writers ...lockmgr.Owner) unix.Errno {
	x, e := lo.wouldLose(c, op, p, st, writers...)
	if x == nil {
		return e
	}
	return errnoFor(x.Answer())
}

// mayCutName is mayReplace for a truncate(2).
func (lo *losses) mayCutName(c *caller, p place) unix.Errno {
	var st unix.Stat_t
	if unix.Fstatat(lo.nodes.fdOf(p.dir), p.name, &st, unix.AT_SYMLINK_NOFOLLOW) != nil {
		return 0
	}
	return lo.mayReplace(c, opTruncate, p, &st)
}

// mayMake is mayReplace for a name that no file has. A file that the caller, or its
// script, has removed a moment ago is replaced by what it makes now.
// exclusive is lostupdate.Change.Exclusive.
func (lo *losses) mayMake(c *caller, op string, p place, exclusive bool) unix.Errno {
	if t := lo.callers.txnOf(c); t != nil {
		return lo.mayMakeIn(t, c, op, p)
	}
	x, e := lo.loss(c, lostupdate.Change{Op: op, Counts: knowledge.Readers, Exclusive: exclusive}, p, nil)
	if x == nil {
		return e
	}
	return lo.answerOr(x, p)
}

// mayMakeIn is mayMake in a transaction, where the name may be taken all the same. A file that
// the transaction is to remove is there until its commit, and is replaced then.
func (lo *losses) mayMakeIn(t *txn, c *caller, op string, p place) unix.Errno {
	sn := lo.txns.stagedAt(p.dir, p.name)
	var st unix.Stat_t
	if sn == nil || sn.t != t || !sn.did.IsGone() || sn.did == transaction.Moved ||
		unix.Fstatat(lo.nodes.fdOf(p.dir), p.name, &st, unix.AT_SYMLINK_NOFOLLOW) != nil {
		return 0
	}
	e := lo.mayReplace(c, op, p, &st)
	if e != 0 {
		t.keepRemoved(p)
	}
	return e
}

// answerOr is the answer to a change that takes the place of a file removed a moment ago.
func (lo *losses) answerOr(x *lostupdate.Loss, p place) unix.Errno {
	return errnoFor(x.AnswerRemoved(func() bool { return lo.putBack(x, p) }))
}

// wouldLose is mayReplace for callers who may know better: what would be lost, nil if
// there is nothing to object to but perhaps an errno. st is nil if there is no file.
func (lo *losses) wouldLose(c *caller, op string, p place, st *unix.Stat_t, writers ...lockmgr.Owner) (*lostupdate.Loss, unix.Errno) {
	return lo.wouldLoseWhat(c, op, p, st, knowledge.Readers, writers...)
}

// wouldLoseWhat is wouldLose where it is said whose knowledge decides.
func (lo *losses) wouldLoseWhat(c *caller, op string, p place, st *unix.Stat_t, counts knowledge.Counts, writers ...lockmgr.Owner) (*lostupdate.Loss, unix.Errno) {
	return lo.loss(c, lostupdate.Change{Op: op, Counts: counts}, p, st, writers...)
}

// loss is wouldLoseWhat for a change of which more is known.
func (lo *losses) loss(c *caller, ch lostupdate.Change, p place, st *unix.Stat_t, writers ...lockmgr.Owner) (*lostupdate.Loss, unix.Errno) {
	path := lo.nodes.path(p.dir, p.name)
	set := lo.rules.settings(path)
	switch {
	case !lo.updates.Applies(&set), st != nil && st.Mode&unix.S_IFMT != unix.S_IFREG:
		return nil, 0
	case st == nil && !lo.rules.knowledge.Tracks(knowledge.Key(path)):
		return nil, 0 // nothing that anybody knows has had the name
	}
	if st != nil && lostupdate.RefusesStranger(c.Foreign(), &set) {
		return nil, lo.refuseStranger(c, ch.Op, path)
	}
	who, ok := lo.learnersOf(c, &set)
	if !ok {
		return nil, 0
	}
	if st != nil {
		lo.noteGrownAt(path, st)
	}
	ch.File, ch.Set = fileAt(path, st), &set
	return lo.lossOf(c, ch, who, writers), 0
}

// lossOf is what a change of a file by the caller would lose; who are those that learn what
// the caller learns.
func (lo *losses) lossOf(c *caller, ch lostupdate.Change, who knowledge.Who, writers []lockmgr.Owner) *lostupdate.Loss {
	ch.Names, ch.Chain = ch.Op == opUnlink || ch.Op == opRename, lostupdate.Chain(who, writers)
	ch.Who, ch.Writers = who, writers
	return lo.updates.Loss(ch, makerOf(c, ch.Op, who))
}

// noteLockAsked notes that a flock is asked for through a descriptor. Who asks for it
// when there is a newer version already has not opened the file to lock it.
func (lo *losses) noteLockAsked(h *handle) {
	sight := h.sight.Load()
	if sight == nil {
		return
	}
	var st unix.Stat_t
	if _, now := lo.rules.knowledge.Current(knowledge.Key(lo.nodes.nodePath(h.n))); unix.Fstat(lo.nodes.fdOf(h.n), &st) != nil || now != stampOfFile(&st) {
		h.sight.Store(nil)
	}
}

// unseenBase is what a session would lose that was opened for writing alone and not
// truncated, whose writer says only by what it writes that it replaces something; nil
// if there is nothing to object to.
func (lo *losses) unseenBase(s *session) *lostupdate.Loss {
	if !s.writing.IsUnread() || s.state.IsNobodys() || s.baseVersion == nil || !lo.updates.Applies(&s.settings) {
		return nil
	}
	who := lo.learners(s)
	return lo.updates.LossOfWriter(lo.replaces(s, s.operation(), lostupdate.Chain(who, nil)), lo.makes(s, who))
}

// mayJoinAndCut is the check behind an open with O_TRUNC that joins the session; what
// that has changed already is the family's own. s.mu is held.
func (lo *losses) mayJoinAndCut(s *session, c *caller) unix.Errno {
	if lo.rules.knowledge == nil || s.content.IsChanged() || s.baseVersion == nil {
		return 0
	}
	var st unix.Stat_t
	dir, name := s.where()
	if unix.Fstatat(lo.nodes.fdOf(dir), name, &st, unix.AT_SYMLINK_NOFOLLOW) != nil {
		return 0
	}
	return lo.mayReplace(c, opOpen, place{dir, name, nil}, &st)
}

// refuseStranger refuses to let somebody replace a file of whom nobody can tell
// whether he has read it.
func (lo *losses) refuseStranger(c *caller, op, path string) unix.Errno {
	const reason = "The process is in another pid namespace, so that nobody can tell which version it has read"
	lo.reports.event(audit.Event{Time: time.Now(), Event: "conflict", Path: path, Detail: map[string]any{
		"operation": op, "uid": c.UID(), "reason": reason, "errno": unix.ErrnoName(unix.EBUSY),
	}})
	return lo.reports.refuseWith(c, op, path, unix.EBUSY, reason,
		"The policy says so (strangers): write another file, or have the policy changed.")
}

// ignoreNextRead keeps a caller that was refused a rename from learning anything by a look at
// what is there now: vim looks, removes it and writes its own.
func (lo *losses) ignoreNextRead(c *caller, p place) {
	path := lo.nodes.path(p.dir, p.name)
	set := lo.rules.settings(path)
	if who, ok := lo.learnersOf(c, &set); ok {
		lo.rules.knowledge.Deafen(time.Now(), knowledge.Key(path), who.Self)
	}
}

// wroteVersion notes that the session's writer has made st what path holds, if that
// is news.
func (lo *losses) wroteVersion(s *session, path string, st *unix.Stat_t) {
	if !lo.updates.Applies(&s.settings) {
		return
	}
	key, stamp := knowledge.Key(path), stampOfFile(st)
	if _, known := lo.rules.knowledge.Current(key); known != stamp {
		who, by := lo.madeBy(s)
		lo.rules.knowledge.Changed(time.Now(), key, stamp, who, by)
	}
}

// noteGrownAt notes that path holds st, before somebody is noted to have read or
// replaced that, if it is a file that grows: nothing else tells of its writes.
func (lo *losses) noteGrownAt(path string, st *unix.Stat_t) {
	if n := lo.nodes.inodeFor(st); n != nil {
		lo.nodes.mu.Lock()
		s := n.grower
		lo.nodes.mu.Unlock()
		if s != nil {
			lo.wroteVersion(s, path, st)
		}
	}
}

// family is the caller with its relatives.
func (lo *losses) family(c *caller) knowledge.Who {
	who, _ := lo.updates.LearnersOf(c.Owner())
	return who
}
