package fs

import (
	"slices"

	"golang.org/x/sys/unix"

	"latchfs/fs/changes"
	"latchfs/fs/lostupdate"
	"latchfs/fs/merging"
	"latchfs/fs/versions"
	"latchfs/journal/audit"
	"latchfs/journal/commit"
	"latchfs/journal/history"
	"latchfs/lockmgr/knowledge"
	"latchfs/lockmgr/policy"
)

// recorder tells of each change of what a name holds: it tells the history, the knowledge of
// readers, the read claims and the audit trail.
type recorder struct {
	changes *changes.Teller // tells of changes of names
	bases   merging.Bases   // what replaced versions held, to merge with

	*ground
	losses *losses
}

// This file joins the operations on names with package changes, which tells what they have
// made of the names.

// change is what one operation has made of one name.
type change = changes.Change

// openChanges makes what tells of changes. What is known of versions is there.
func (f *FS) openChanges() {
	c := changes.Config{Engine: changesEngine{f}, Serial: func() uint64 { return f.disk.serial.Add(1) }}
	if f.rules.knowledge != nil {
		c.Known = f.losses.updates
	}
	f.recorder.changes = changes.New(c)
}

// changedName is a name as package changes needs it.
type changedName struct {
	nodes *nodes
	dir   *inode
	name  string
	s     *session // whose shadow it is about to hold, with the rights of that; nil: nobody's
}

// Path implements changes.Name.
func (n changedName) Path() string { return n.nodes.path(n.dir, n.name) }

// Rights implements changes.Name.
func (n changedName) Rights() (r history.Rights) {
	if n.s == nil {
		return versions.RightsAt(n.nodes.fdOf(n.dir), n.name)
	}
	var st unix.Stat_t
	if fd := n.s.shadow.FD(); unix.Fstat(fd, &st) == nil {
		r = versions.RightsOf(&st, fd)
	}
	return r
}

// byCaller is a caller as the maker of a change.
type byCaller struct {
	*recorder
	c *caller
}

// Process implements changes.Maker.
func (by byCaller) Process() changes.Process {
	c := by.c
	return changes.Process{PID: c.Owner().PID, UID: c.UID(), Program: c.Program(), Actor: c.Actor()}
}

// Session implements changes.Maker.
func (by byCaller) Session() string { return "" }

// Settings implements changes.Maker. A file that is live by its descriptors alone has a version
// under its name, and so has what takes the name.
func (by byCaller) Settings(path string) policy.Settings {
	if set := by.rules.policy.For(path); by.nodes.liveBy(path) == liveByHandle && !by.rules.inDatabase(path, &set) {
		return set
	}
	return by.rules.settings(path)
}

// Learners implements changes.Maker.
func (by byCaller) Learners(set *policy.Settings) knowledge.Who {
	who, _ := by.losses.learnersOf(by.c, set)
	return who
}

// Note implements changes.Maker.
func (by byCaller) Note(*audit.Event) {}

// byWriter is a session's writer as the maker of a change.
type byWriter struct {
	*recorder
	s *session
}

// Process implements changes.Maker.
func (by byWriter) Process() changes.Process {
	s := by.s
	p := changes.Process{PID: s.who.Load().Owner().PID, UID: s.uid, Program: s.program()}
	if lb, ok := s.lock.Request().Label.(*label); ok {
		p.Actor = lb.shownActor()
	}
	return p
}

// Session implements changes.Maker.
func (by byWriter) Session() string { return by.s.id }

// Settings implements changes.Maker.
func (by byWriter) Settings(path string) policy.Settings {
	return by.settingsAt(by.s, path)
}

// Learners implements changes.Maker.
func (by byWriter) Learners(*policy.Settings) knowledge.Who { return by.losses.learners(by.s) }

// Note implements changes.Maker.
func (by byWriter) Note(ev *audit.Event) { by.s.toll.Detail(ev.Detail) }

// changesBy is a change that the caller makes of a name.
func (rc *recorder) changesBy(c *caller, op string, p place, token uint64) *change {
	return rc.changes.Change(byCaller{rc, c}, op, changedName{nodes: rc.nodes, dir: p.dir, name: p.name}, token)
}

// changesOf is a change that the session's writer makes of a name.
func (rc *recorder) changesOf(s *session, op string, dir *inode, name string) *change {
	ch := rc.changes.Change(byWriter{rc, s}, op, changedName{nodes: rc.nodes, dir: dir, name: name, s: s}, s.lock.Token())
	ch.InPlace, ch.NewInode, ch.Adds, ch.Merge = s.inPlace, !s.inPlace, s.writing.Adds(), s.writing.Joined()
	return ch
}

// learnOfWrite notes for adaptive paths who has made a new version.
func (rc *recorder) learnOfWrite(path string, who knowledge.Who) {
	if rc.losses.lessons == nil {
		return
	}
	if set := rc.rules.settings(path); set.LostUpdate == policy.Adaptive {
		rc.losses.lessons.Wrote(path, who, set.Fade)
	}
}

// published is for the store to call when the shadow sh is what the name holds.
func published(ch *change, sh *commit.Shadow) func(commit.Version) {
	return func(v commit.Version) { ch.Published(statOf(&v), sh.Kept()) }
}

// changesEngine is the filesystem as package changes needs it.
type changesEngine struct{ f *FS }

var _ changes.Engine = changesEngine{}

// HoldPaths implements changes.Engine.
func (en changesEngine) HoldPaths() { en.f.nodes.paths.RLock() }

// ReleasePaths implements changes.Engine.
func (en changesEngine) ReleasePaths() { en.f.nodes.paths.RUnlock() }

// Event implements changes.Engine.
func (en changesEngine) Event(ev audit.Event) { en.f.reports.event(ev) }

// IsAtomic implements changes.Engine.
func (en changesEngine) IsAtomic(path string) bool {
	return en.f.rules.settings(path).Mode == policy.Atomic
}

// KeepBase implements changes.Engine.
func (en changesEngine) KeepBase(path string, w *lostupdate.Written) {
	en.f.recorder.bases.PutBytes(knowledge.Key(path), w.Number, w.Content, w.Stamp)
}

// IsAppended implements changes.Engine.
func (en changesEngine) IsAppended(ch *change) bool {
	f, at := en.f, ch.Name.(changedName)
	f.nodes.mu.Lock()
	defer f.nodes.mu.Unlock()
	if f.handles.appenders.Len() == 0 {
		return false
	}
	n := f.nodes.inodes[inoKey{uint64(ch.Was.Dev), ch.Was.Ino}]
	return n != nil && n.writers > 0 ||
		slices.ContainsFunc(f.nodes.nameLocked(at.dir, at.name).former, func(o *inode) bool { return o.writers > 0 })
}

// LeavesLive implements changes.Engine.
func (en changesEngine) LeavesLive(ch *change) {
	if by, ok := ch.By.(byCaller); ok {
		en.f.live.leaveCarried(by.c, ch.Op, ch.Path)
	}
}

// FollowLive implements changes.Engine.
func (en changesEngine) FollowLive(list []*change) { en.f.commits.followLive(list) }

// EndClaims implements changes.Engine. A name that holds nothing now keeps its claims for as
// long as it may take to make it again.
func (en changesEngine) EndClaims(ch *change) {
	f := en.f
	if !f.locks.readClaims.Enabled {
		return
	}
	if ch.Is == nil {
		f.locks.readClaims.Removed(ch.Path)
		return
	}
	switch by := ch.By.(type) {
	case byWriter:
		f.recorder.learnOfWrite(ch.Path, en.f.losses.learners(by.s))
		f.locks.readClaims.Written(ch.Path, en.f.locks.inodeKeys(by.s)...)
	case byCaller:
		f.recorder.learnOfWrite(ch.Path, f.locks.losses.family(by.c))
		f.locks.readClaims.Written(ch.Path)
	}
}

// restamped tells those who tell a version by its stamp that the one which path holds is
// another file now, or has other times, and is the same version still. Under the other names of the
// file it is that, too.
func (rc *recorder) restamped(path string, before, after *unix.Stat_t) {
	rc.restampedAs(path, before, after)
	if n := rc.nodes.inodeFor(after); n != nil && after.Nlink > 1 {
		for _, other := range append(rc.names.otherPaths(n), rc.nodes.nodePath(n)) {
			if other != path {
				rc.restampedAs(other, before, after)
			}
		}
	}
}

func (rc *recorder) restampedAs(path string, before, after *unix.Stat_t) {
	rc.disk.versions.Restamped(path, before, after)
	if rc.rules.knowledge == nil {
		return
	}
	rc.losses.updates.Restamped(path, stampOfFile(before), stampOfFile(after))
}
