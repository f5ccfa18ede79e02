package fs

import (
	"slices"
	"time"

	"golang.org/x/sys/unix"

	"latchfs/fs/refusals"
	"latchfs/journal/audit"
	"latchfs/lockmgr"
	"latchfs/lockmgr/knowledge"
	"latchfs/lockmgr/policy"
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
	return x.answer()
}

// mayMake is mayReplace for a name that no file has. A file that the caller, or its
// script, has removed a moment ago is replaced by what it makes now.
func (f *FS) mayMake(c *caller, op string, p place, writers ...lockmgr.Owner) unix.Errno {
	if f.txnOf(c) != nil {
		return 0 // in a transaction the name may be taken all the same
	}
	x, e := f.wouldLose(c, op, p, nil, writers...)
	if x == nil {
		return e
	}
	return f.answerOr(x, p)
}

// answerOr is the answer to a change that takes the place of a file removed a moment
// ago. Where it is refused the file gets its name back: that the old version stays is
// promised. Where that cannot be, a refusal would leave nothing at all under the name,
// and the change is made, loudly.
func (f *FS) answerOr(x *lostUpdate, p place) unix.Errno {
	if x.set.LostUpdate != policy.WarnLost && !x.insists() && !f.putBack(x, p) {
		x.obey("what it replaces was removed before, and cannot be put back")
		return 0
	}
	return x.answer()
}

// wouldLose is mayReplace for callers who may know better: what would be lost, nil if
// there is nothing to object to but perhaps an errno. st is nil if there is no file.
func (f *FS) wouldLose(c *caller, op string, p place, st *unix.Stat_t, writers ...lockmgr.Owner) (*lostUpdate, unix.Errno) {
	return f.wouldLoseWhat(c, op, p, st, knowledge.Readers, writers...)
}

// wouldLoseWhat is wouldLose where it is said whose knowledge decides.
func (f *FS) wouldLoseWhat(c *caller, op string, p place, st *unix.Stat_t, counts knowledge.Counts, writers ...lockmgr.Owner) (*lostUpdate, unix.Errno) {
	path := f.path(p.dir, p.name)
	set := f.settings(path)
	switch {
	case !f.tracks(&set), st != nil && st.Mode&unix.S_IFMT != unix.S_IFREG:
		return nil, 0
	case st == nil && !f.knowledge.Tracks(knowledge.Key(path)):
		return nil, 0 // nothing that anybody knows has had the name
	}
	if c.foreign() && set.Strangers == policy.RefuseStrangers && st != nil {
		return nil, f.refuseStranger(c, op, path)
	}
	who, ok := c.learners(&set)
	if !ok {
		return nil, 0
	}
	var stamp knowledge.Stamp
	linked := false
	if st != nil {
		f.noteGrownAt(path, st)
		stamp, linked = stampOfFile(st), st.Nlink > 1
	}
	chain := chainOf(who, writers)
	b := f.basisOf(path, stamp, linked, chain, &set, counts)
	for b.Stale && f.onlyLocked(path, &b) {
		b = f.basisOf(path, stamp, linked, chain, &set, counts)
	}
	if !b.Stale {
		return nil, 0
	}
	x := &lostUpdate{f: f, path: path, op: op, set: &set, b: b, owner: c.owner, self: who.Self, uid: c.uid, by: c.author(op)}
	x.program, x.lineage = x.by.Program, c.ancestors()
	return x, 0
}

// onlyLocked reports whether a look at a version was none: the file was opened to be
// locked (flock FILE COMMAND), and nothing was read through that descriptor so far.
// Then it is forgotten.
func (f *FS) onlyLocked(path string, b *knowledge.Basis) bool {
	h, sight := f.givenBy(b)
	if h == nil || !h.isLocked() || !f.proc.AtStart(sight.Who.Self.PID, f.procFile(h.n)) {
		return false
	}
	f.knowledge.Withdraw(sight.Under(knowledge.Key(path)))
	h.sight.Store(nil)
	return true
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

// givenBy is the open handle by which somebody has learned what he knows, if it is
// still open.
func (f *FS) givenBy(b *knowledge.Basis) (*handle, *knowledge.Sight) {
	f.mu.Lock()
	defer f.mu.Unlock()
	for _, h := range f.handles {
		if sight := h.sight.Load(); sight != nil && sight.Gave(b) {
			return h, sight
		}
	}
	return nil, nil
}

func (h *handle) isLocked() bool {
	h.mu.Lock()
	defer h.mu.Unlock()
	return len(h.locks) > 0
}

// chainOf lists whose knowledge counts, the nearest first. What a file was made from
// its writer knows better than who renames it.
func chainOf(who knowledge.Who, writers []lockmgr.Owner) []lockmgr.Owner {
	chain := make([]lockmgr.Owner, 0, 8)
	add := func(list ...lockmgr.Owner) {
		for _, o := range list {
			if o != (lockmgr.Owner{}) && !slices.Contains(chain, o) {
				chain = append(chain, o)
			}
		}
	}
	if len(writers) > 0 {
		add(writers[0])
	}
	add(who.Self)
	if len(writers) > 0 {
		add(writers[1:]...)
	}
	add(who.Relatives...)
	add(who.Shell) // who knows nothing, but see knowledge.Basis.Ours
	return chain
}

// basis is what those on the chain know of the file stamp that path holds, under
// this name or, where it has several, another.
func (f *FS) basis(path string, stamp knowledge.Stamp, linked bool, chain []lockmgr.Owner, set *policy.Settings) knowledge.Basis {
	return f.basisOf(path, stamp, linked, chain, set, knowledge.Readers)
}

// basisOf is basis where it is said whose knowledge decides.
func (f *FS) basisOf(path string, stamp knowledge.Stamp, linked bool, chain []lockmgr.Owner, set *policy.Settings, counts knowledge.Counts) knowledge.Basis {
	now := time.Now()
	f.catchUp(now, path, stamp)
	b := f.knowledge.Check(now, knowledge.Key(path), stamp, chain, set.Fade, counts)
	if linked || f.knowledge.Tracks(linkKey(stamp)) {
		b = b.Nearer(f.knowledge.Check(now, linkKey(stamp), stamp, chain, set.Fade, counts), chain)
	}
	return b
}

// catchUp lets a path have the version stamp by whoever has made that under another name
// of the file.
func (f *FS) catchUp(now time.Time, path string, stamp knowledge.Stamp) {
	key := knowledge.Key(path)
	if number, is := f.knowledge.Current(key); number == 0 || is == stamp {
		return
	}
	if owners, by := f.knowledge.WrittenBy(linkKey(stamp), stamp); len(owners) > 0 {
		f.knowledge.Changed(now, key, stamp, knowledge.Who{Self: owners[0], Relatives: owners[1:]}, by)
	}
}

// unseenBase is the basis of a session that was opened for writing alone and not
// truncated, whose writer says only by what it writes that it replaces something;
// false if there is nothing to object to.
func (s *session) unseenBase() (*lostUpdate, bool) {
	f := s.f
	if !s.unread || s.adds || s.state.isNobodys() || s.baseVersion == nil || !f.tracks(&s.settings) {
		return nil, false
	}
	who, path := s.learners(), s.path()
	b := f.basis(path, stampOfVersion(s.baseVersion), s.inPlace, chainOf(who, nil), &s.settings)
	if !b.Stale {
		return nil, false
	}
	x := &lostUpdate{f: f, path: path, op: s.operation(), set: &s.settings, b: b, owner: s.who.Load().owner, self: who.Self, uid: s.uid, program: s.program()}
	_, x.by = s.madeBy()
	return x, true
}

// mayJoinAndCut is the check behind an open with O_TRUNC that joins the session; what
// that has changed already is the family's own. s.mu is held.
func (s *session) mayJoinAndCut(c *caller) unix.Errno {
	f := s.f
	if f.knowledge == nil || s.wrote || s.truncated || s.baseVersion == nil {
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
	if s.adds { // who cuts does not only add
		s.adds, s.unread = false, true
	}
	x, stale := s.unseenBase()
	if stale && size == 0 && s.merge == nil {
		s.merge = s.mergesCut(x)
	}
	merges := s.merge != nil
	s.mu.Unlock()
	if !stale || merges {
		return 0
	}
	return x.answer()
}

// refuseStranger refuses to let somebody replace a file of whom nobody can tell
// whether he has read it.
func (f *FS) refuseStranger(c *caller, op, path string) unix.Errno {
	const reason = "The process is in another pid namespace, so that nobody can tell which version it has read"
	f.event(audit.Event{Time: time.Now(), Event: "conflict", Path: path, Detail: map[string]any{
		"operation": op, "uid": c.uid, "reason": reason, "errno": unix.ErrnoName(unix.EBUSY),
	}})
	f.explain(refusals.Refusal{Path: path, Op: op, Errno: unix.EBUSY, Reason: reason, Owner: c.owner, UID: c.uid,
		Hint: "The policy says so (strangers): write another file, or have the policy changed."})
	return unix.EBUSY
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
