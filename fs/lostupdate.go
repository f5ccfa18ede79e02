package fs

import (
	"time"

	"golang.org/x/sys/unix"

	"latchfs/fs/lostupdate"
	"latchfs/fs/refusals"
	"latchfs/journal/audit"
	"latchfs/journal/history"
	"latchfs/lockmgr"
	"latchfs/lockmgr/knowledge"
	"latchfs/lockmgr/policy"
)

// lostupdateEngine is the filesystem as package lostupdate needs it.
type lostupdateEngine struct{ f *FS }

var _ lostupdate.Engine = lostupdateEngine{}

// openUpdates makes what decides about lost updates. What is known of versions, and the
// processes, are there.
func (f *FS) openUpdates() {
	f.losses.updates = lostupdate.New(lostupdate.Config{Known: f.rules.knowledge, Procs: f.callers.proc, Engine: lostupdateEngine{f}, Mountpoint: f.disk.opts.Mountpoint})
	f.openBases()
}

// Number implements lostupdate.Engine.
func (en lostupdateEngine) Number(path string, stamp knowledge.Stamp) (number uint64, counts bool) {
	return en.f.disk.versions.Number(path, history.State{Ino: stamp.Ino, Size: stamp.Size, Mtime: stamp.Mtime})
}

// KeepsHistory implements lostupdate.Engine.
func (en lostupdateEngine) KeepsHistory(set *policy.Settings) bool {
	return en.f.disk.versions.Keeps(set)
}

// SeesEverything implements lostupdate.Engine.
func (en lostupdateEngine) SeesEverything(uid uint32) bool { return seesEverything(uid) }

// OnlyLocked implements lostupdate.Engine: the file was opened to be locked (flock FILE
// COMMAND), and nothing was read through that descriptor so far.
func (en lostupdateEngine) OnlyLocked(path string, b *knowledge.Basis) *knowledge.Sight {
	f := en.f
	h, sight := f.losses.givenBy(b)
	if h == nil || !f.locks.advisory.IsLocked(h) || !f.callers.proc.AtStart(sight.Who.Self.PID, h.procFile()) {
		return nil
	}
	h.sight.Store(nil)
	return sight.Under(knowledge.Key(path))
}

// Obeyed implements lostupdate.Engine.
func (en lostupdateEngine) Obeyed(x *lostupdate.Loss, why string) {
	d := x.Detail()
	d["obeyed"] = why
	en.event("lost_update", x, d)
	en.f.disk.log.Warnf("%s of %q by pid %d replaces a version that it has not read (%s): %s", x.Op, x.Path, x.Owner.PID, why, x.Reason())
}

// Conflict implements lostupdate.Engine.
func (en lostupdateEngine) Conflict(x *lostupdate.Loss) {
	d := x.Detail()
	d["errno"] = unix.ErrnoName(unix.EBUSY)
	en.event("conflict", x, d)
}

// event writes to the audit trail what has become of a change.
func (en lostupdateEngine) event(event string, x *lostupdate.Loss, d map[string]any) {
	en.f.reports.event(audit.Event{Time: time.Now(), Event: event, Path: x.Path, PID: x.Owner.PID, Actor: x.By.Actor, Detail: d})
}

// Explain implements lostupdate.Engine.
func (en lostupdateEngine) Explain(x *lostupdate.Loss) {
	r := refusals.Refusal{
		Path: x.Path, Op: x.Op, Errno: unix.EBUSY, Reason: x.Whole(), Hint: x.Advice(),
		Owner: x.Owner, UID: x.By.UID, Of: x,
	}
	r.Lineage = x.Lineage // as far as it was asked for
	if x.Source != nil && x.Source.Over == "" {
		r.Temporary, r.WithoutIt = x.Source.Path, x.AdviceWithoutSource()
	}
	en.f.reports.explain(r)
}

// givenBy is the open handle by which a process has learned what it knows, if it is
// still open.
func (lo *losses) givenBy(b *knowledge.Basis) (*handle, *knowledge.Sight) {
	lo.nodes.mu.Lock()
	defer lo.nodes.mu.Unlock()
	for _, h := range lo.handles.open {
		if sight := h.sight.Load(); sight != nil && sight.Gave(b) {
			return h, sight
		}
	}
	return nil, nil
}

// makerOf is the caller as the process that makes a change.
func makerOf(c *caller, op string, who knowledge.Who) func() lostupdate.Maker {
	return func() lostupdate.Maker {
		return lostupdate.Maker{Owner: c.Owner(), Self: who.Self, By: authorOf(c, op), Lineage: c.Ancestors()}
	}
}

// makes is the session's writer as the process that makes a change.
func (lo *losses) makes(s *session, who knowledge.Who) func() lostupdate.Maker {
	return func() lostupdate.Maker {
		_, by := lo.madeBy(s)
		return lostupdate.Maker{Owner: s.who.Load().Owner(), Self: who.Self, By: by}
	}
}

// replaces is a change of the base by the session, for which those on the chain decide.
func (lo *losses) replaces(s *session, op string, chain []lockmgr.Owner) lostupdate.Change {
	return lostupdate.Change{File: lo.baseFile(s), Op: op, Set: &s.settings, Chain: chain}
}

// baseFile is the base as what the session's path holds.
func (lo *losses) baseFile(s *session) lostupdate.File {
	return lostupdate.File{Path: s.path(), Stamp: stampOfVersion(s.baseVersion), Linked: s.inPlace}
}

// learnersOf is the caller with those who learn what it learns; see lostupdate.Judge.
func (lo *losses) learnersOf(c *caller, set *policy.Settings) (knowledge.Who, bool) {
	return lo.updates.Learners(c.Owner(), set)
}
