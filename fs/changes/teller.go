package changes

import (
	"golang.org/x/sys/unix"

	"latchfs/fs/lostupdate"
	"latchfs/journal/audit"
	"latchfs/journal/history"
	"latchfs/lockmgr/knowledge"
	"latchfs/lockmgr/policy"
)

// Config is what a Teller stands on.
type Config struct {
	Engine Engine
	Known  Known // nil: nothing is known of versions
	// Serial makes numbers that no version has.
	Serial func() uint64
}

// Engine is the filesystem, and those of its recorders that it alone can tell. The paths are
// held while they are told.
type Engine interface {
	// HoldPaths keeps all directories where they are, until ReleasePaths.
	HoldPaths()
	ReleasePaths()
	// IsAppended reports whether somebody may have the file open to append that the name held,
	// or an earlier version of it.
	IsAppended(ch *Change) bool
	// LeavesLive is told that a name holds nothing now, before FollowLive.
	LeavesLive(ch *Change)
	// FollowLive lets the live names go where their files have gone: all at once, for two
	// files may have changed places.
	FollowLive(list []*Change)
	// EndClaims ends the claims of reads on the name.
	EndClaims(ch *Change)
	// FileClaim lets a claim file claim what it says.
	FileClaim(ch *Change)
	// Event writes to the audit trail.
	Event(ev audit.Event)
	// IsAtomic reports whether the file at a path has versions.
	IsAtomic(path string) bool
	// KeepBase keeps what a version held that no file ever was.
	KeepBase(path string, w *lostupdate.Written)
}

// Known is what is known of versions; see lostupdate.Judge.
type Known interface {
	Applies(set *policy.Settings) bool
	CatchUp(path string, stamp knowledge.Stamp)
	Leaves(path string, stamp knowledge.Stamp)
	Created(stamp knowledge.Stamp)
	Follow(path string, stamp knowledge.Stamp)
	Made(m *lostupdate.Made, who knowledge.Who, by knowledge.Author)
	MadeMerged(path string, stamp knowledge.Stamp, g *lostupdate.Merge, who knowledge.Who, by knowledge.Author,
		serial func() uint64) *lostupdate.Written
}

// Process is a process that makes changes, as the recorders write it down.
type Process struct {
	PID            int32
	UID            uint32
	Program, Actor string
}

// Maker makes a change: whoever asks for an operation, or the writer of a session.
type Maker interface {
	// Process describes it. That may mean a look at the process.
	Process() Process
	// Session is the id of its session, "" of whoever asks for an operation.
	Session() string
	// Settings are those by which its change of a path is told.
	Settings(path string) policy.Settings
	// Learners are those who know the version that it makes.
	Learners(set *policy.Settings) knowledge.Who
	// Note adds to the event of its commit what else there is to say of it.
	Note(ev *audit.Event)
}

// Name is a name in the data.
type Name interface {
	// Path is where it is now.
	Path() string
	// Rights say who may read what it holds.
	Rights() history.Rights
}

// Teller tells the recorders of changes.
type Teller struct{ c Config }

// New makes a Teller.
func New(c Config) *Teller { return &Teller{c: c} }

// Change is a change that somebody makes of a name.
func (t *Teller) Change(by Maker, op string, name Name, token uint64) *Change {
	return &Change{t: t, By: by, Op: op, Name: name, Path: name.Path(), Token: token}
}

// Tell tells the recorders of changes that one operation has made.
func (t *Teller) Tell(list ...*Change) {
	t.c.Engine.HoldPaths()
	defer t.c.Engine.ReleasePaths()
	for _, ch := range list {
		ch.Path = ch.Name.Path()
	}
	each := func(hear func(*Change)) {
		for _, ch := range list {
			hear(ch)
		}
	}
	each((*Change).Enter)
	each((*Change).Know)
	t.c.Engine.FollowLive(list)
	each(t.c.Engine.EndClaims)
	each(t.c.Engine.FileClaim)
	each((*Change).report)
}

// IsFile reports whether st is a regular file; nil is none.
func IsFile(st *unix.Stat_t) bool { return st != nil && st.Mode&unix.S_IFMT == unix.S_IFREG }

// stampAt is the stamp of the file st; nil is none.
func stampAt(st *unix.Stat_t) knowledge.Stamp {
	if st == nil {
		return knowledge.Stamp{}
	}
	return knowledge.Stamp{Dev: uint64(st.Dev), Ino: st.Ino, Size: st.Size, Mtime: st.Mtim.Nano()}
}
