package fs

import (
	"cmp"
	"fmt"
	"slices"
	"strconv"
	"time"

	"golang.org/x/sys/unix"

	"latchfs/journal"
	"latchfs/journal/history"
	"latchfs/lockmgr"
	"latchfs/lockmgr/knowledge"
	"latchfs/lockmgr/policy"
)

// mayReplace decides whether the caller may replace the file st that has the name
// p, or take its name away: it, or a relative, has to know that version if it knows
// any (DESIGN §6). Of a file that takes its place its writers say what it was made
// from. The name's lock is held, so that the answer stays true.
func (f *FS) mayReplace(c *caller, op string, p place, st *unix.Stat_t, writers ...lockmgr.Owner) unix.Errno {
	x, e := f.wouldLose(c, op, p, st, writers...)
	if x == nil {
		return e
	}
	return x.answer()
}

// wouldLose is mayReplace for callers who may know better: what would be lost, nil if
// there is nothing to object to but perhaps an errno.
func (f *FS) wouldLose(c *caller, op string, p place, st *unix.Stat_t, writers ...lockmgr.Owner) (*lostUpdate, unix.Errno) {
	path := f.path(p.dir, p.name)
	set := f.settings(path)
	if !f.tracks(&set) || st.Mode&unix.S_IFMT != unix.S_IFREG {
		return nil, 0
	}
	if c.foreign() && set.Strangers == policy.RefuseStrangers {
		return nil, f.refuseStranger(c, op, path)
	}
	who, ok := c.learners(&set)
	if !ok {
		return nil, 0
	}
	f.noteGrownAt(path, st)
	chain := chainOf(who, writers)
	b := f.basis(path, stampOfFile(st), st.Nlink > 1, chain, &set)
	for b.Stale && f.onlyLocked(path, &b) {
		b = f.basis(path, stampOfFile(st), st.Nlink > 1, chain, &set)
	}
	if !b.Stale {
		return nil, 0
	}
	x := &lostUpdate{f: f, path: path, op: op, set: &set, b: b, owner: c.owner, uid: c.uid, by: c.author(op)}
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
	now := time.Now()
	b := f.knowledge.Check(now, knowledge.Key(path), stamp, chain, set.Fade)
	if linked || f.knowledge.Tracks(linkKey(stamp)) {
		b = b.Later(f.knowledge.Check(now, linkKey(stamp), stamp, chain, set.Fade))
	}
	return b
}

// unseenBase is the basis of a session that was opened for writing alone and not
// truncated, whose writer says only by what it writes that it replaces something;
// false if there is nothing to object to.
func (s *session) unseenBase() (*lostUpdate, bool) {
	f := s.f
	if !s.unread || s.adds || s.detached || s.baseVersion == nil || !f.tracks(&s.settings) {
		return nil, false
	}
	who, path := s.learners(), s.path()
	b := f.basis(path, stampOfVersion(s.baseVersion), s.inPlace, chainOf(who, nil), &s.settings)
	if !b.Stale {
		return nil, false
	}
	return &lostUpdate{f: f, path: path, op: s.operation(), set: &s.settings, b: b, owner: s.who.Load().owner, uid: s.uid, program: s.program}, true
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

// lostUpdate is a change that is based on a version which has been replaced since.
type lostUpdate struct {
	f       *FS
	path    string
	op      string
	set     *policy.Settings
	b       knowledge.Basis
	owner   lockmgr.Owner
	uid     uint32
	program string
	by      knowledge.Author
	lineage []lockmgr.Ancestor
	hint    string // what to do about it; "": tryAgain
	apart   string // why it cannot be merged, where the policy says so
}

// answer does what the policy says: 0 lets it happen.
func (x *lostUpdate) answer() unix.Errno {
	if x.set.LostUpdate == policy.WarnLost {
		x.record("lost_update", 0)
		x.f.log.Warnf("%s of %q by pid %d: %s", x.op, x.path, x.owner.PID, x.reason())
		return 0
	}
	x.record("conflict", unix.EBUSY)
	x.f.knowledge.Refused(time.Now(), knowledge.Key(x.path), &x.b, x.set.Fade)
	x.f.explain(refusal{
		path: x.path, op: x.op, errno: unix.EBUSY, reason: x.whole(), hint: cmp.Or(x.hint, tryAgain),
		owner: x.owner, uid: x.uid, lineage: x.lineage,
	})
	return unix.EBUSY
}

// tryAgain is what to do about a lost update that was refused.
const tryAgain = "Nothing has changed. Run it again: it will read the new version, and its change will be accepted."

// makeAgain is what to do about a file that may not take another's place.
const makeAgain = "Nothing has changed, and the file that was to take its place is still there. Run again what made it, which will read the new version."

// reason says what is the matter, for people.
func (x *lostUpdate) reason() string {
	known := "an earlier version"
	if n := x.number(x.b.Stamp, x.b.Version); n != 0 {
		known = "version " + strconv.FormatUint(n, 10)
	}
	how := "read"
	if x.b.By != x.owner {
		how = "read by the related process " + strconv.Itoa(int(x.b.By.PID))
	}
	text := fmt.Sprintf("The change is based on %s, %s at %s, and the file is another version now", known, how, x.b.At.Format(time.TimeOnly))
	if n := len(x.b.Since); n > 0 {
		last := &x.b.Since[n-1]
		text += fmt.Sprintf(": version %d, by %s at %s", x.number(last.Stamp, last.Number), authorName(&last.Author), last.Author.Time.Format(time.TimeOnly))
		if since := x.b.Current - x.b.Version; x.b.Version != 0 && since > 1 {
			text += fmt.Sprintf(" (%d versions since)", since)
		}
	}
	return text
}

// whole is the reason, and why nothing was merged.
func (x *lostUpdate) whole() string {
	if x.apart == "" {
		return x.reason()
	}
	return x.reason() + ". It cannot be merged: " + x.apart
}

// authorName is who made a version, for people.
func authorName(a *knowledge.Author) string {
	switch {
	case a.PID == 0 && a.Program == "":
		return "somebody around the mount"
	case a.Actor != "":
		return fmt.Sprintf("%s (%s, process %d)", a.Actor, a.Program, a.PID)
	}
	return fmt.Sprintf("%s (process %d)", a.Program, a.PID)
}

// number is the version's number in the history, where it has one; otherwise the
// table's own.
func (x *lostUpdate) number(stamp knowledge.Stamp, own uint64) uint64 {
	if x.f.history == nil {
		return own
	}
	list := x.f.history.Of(x.path)
	for i := len(list) - 1; i >= 0; i-- {
		if list[i].State == (history.State{Ino: stamp.Ino, Size: stamp.Size, Mtime: stamp.Mtime}) {
			return list[i].Number
		}
	}
	if len(list) > 0 {
		return 0 // no longer there, and two ways of counting would confuse
	}
	return own
}

// record writes it to the audit trail.
func (x *lostUpdate) record(event string, e unix.Errno) {
	d := map[string]any{
		"operation": x.op, "program": x.program, "uid": x.uid, "reason": x.reason(),
		"base": x.number(x.b.Stamp, x.b.Version), "read_by": x.b.By.PID, "read_at": x.b.At.UTC().Format(time.RFC3339Nano),
	}
	if x.apart != "" {
		d["not_merged"] = x.apart
	}
	if e != 0 {
		d["errno"] = unix.ErrnoName(e)
	}
	if n := len(x.b.Since); n > 0 {
		last := &x.b.Since[n-1]
		d["current"] = x.number(last.Stamp, last.Number)
		d["changed_by"] = map[string]any{"pid": last.Author.PID, "program": last.Author.Program, "actor": last.Author.Actor}
	}
	x.f.event(journal.Event{Time: time.Now(), Event: event, Path: x.path, PID: x.owner.PID, Actor: x.by.Actor, Detail: d})
}

// refuseStranger refuses to let somebody replace a file of whom nobody can tell
// whether he has read it.
func (f *FS) refuseStranger(c *caller, op, path string) unix.Errno {
	const reason = "The process is in another pid namespace, so that nobody can tell which version it has read"
	f.event(journal.Event{Time: time.Now(), Event: "conflict", Path: path, Detail: map[string]any{
		"operation": op, "uid": c.uid, "reason": reason, "errno": unix.ErrnoName(unix.EBUSY),
	}})
	f.explain(refusal{path: path, op: op, errno: unix.EBUSY, reason: reason, owner: c.owner, uid: c.uid,
		hint: "The policy says so (strangers): write another file, or have the policy changed."})
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
