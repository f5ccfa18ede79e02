package changes

import (
	"golang.org/x/sys/unix"

	"latchfs/fs/lostupdate"
	"latchfs/fs/versions"
	"latchfs/journal/history"
	"latchfs/lockmgr/knowledge"
	"latchfs/lockmgr/policy"
)

// Change is what one operation has made of one name. Whoever makes it fills in what it is
// before it is told.
type Change struct {
	t     *Teller
	By    Maker
	Op    string
	Name  Name
	Path  string            // of the name, as it is when a recorder hears of it
	Other *Change           // of the other name of a rename
	Was   *unix.Stat_t      // what the name held; nil: nothing
	Is    *unix.Stat_t      // what it holds
	Step  *versions.Step    // what the history keeps of the name; nil: nothing
	Kept  bool              // what the name held is in the history
	Merge *lostupdate.Merge // what the version was joined with; nil: nothing
	Token uint64            // of the lock
	Txn   string            // the transaction that it belongs to

	Err error // why it is not known to be durable
	// Target is where the symbolic link led that the name held.
	Target string

	InPlace  bool // the file is the one that it was, with other content
	NewInode bool // the file has just been made
	Adds     bool // its content is what it was and what was added to it
	Version  bool // what the name held was a version
	Silent   bool // the audit trail does not hear of it, or in another way
	told     bool // the history has heard of it
}

// Published tells the history alone, of a change that makes the name hold the file st: kept
// tells whether the file before is in the history.
func (ch *Change) Published(st *unix.Stat_t, kept bool) {
	ch.t.c.Engine.HoldPaths()
	defer ch.t.c.Engine.ReleasePaths()
	ch.Path = ch.Name.Path()
	ch.Is, ch.Kept = st, kept
	ch.Enter()
}

// Enter tells the history, unless it has heard. The paths are held, and Path is what the
// name has now.
func (ch *Change) Enter() {
	if ch.told || ch.Step == nil {
		return
	}
	ch.told = true
	ch.Step.Enter(ch.Path, ch.entry(), ch.Kept)
}

// entry is the change as the history enters it.
func (ch *Change) entry() history.Version {
	o := ch.Other
	if ch.By.Session() == "" {
		switch {
		case ch.Is == nil && o != nil:
			v := ch.version(history.RenameAway)
			v.To = o.Path
			return v
		case !IsFile(ch.Is):
			return ch.version(history.Delete)
		}
	}
	v := ch.version(history.Commit)
	if o != nil {
		v.From, v.Content = o.Path, o.Step.Content()
	}
	v.State, v.Rights = history.StateOf(ch.Is), ch.Name.Rights()
	return v
}

// version describes whoever has made the change.
func (ch *Change) version(event history.Event) history.Version {
	p := ch.By.Process()
	return history.Version{
		Event: event, Operation: ch.Op, Session: ch.By.Session(), Program: p.Program, Actor: p.Actor,
		PID: p.PID, UID: p.UID, Token: ch.Token,
	}
}

// Know tells the knowledge of versions.
func (ch *Change) Know() {
	known := ch.t.c.Known
	if known == nil || ch.Is == nil && ch.Was == nil && ch.Other != nil {
		return // nobody has seen what a session had created and renamed
	}
	if ch.Was != nil {
		known.CatchUp(ch.Path, stampAt(ch.Was))
	}
	if ch.Was != nil && !ch.InPlace {
		known.Leaves(ch.Path, stampAt(ch.Was))
	}
	if ch.NewInode {
		known.Created(stampAt(ch.Is))
	}
	if set := ch.By.Settings(ch.Path); known.Applies(&set) {
		ch.knowVersion(&set)
	}
	if ch.Is == nil {
		ch.t.c.Engine.LeavesLive(ch)
	}
}

// knowVersion notes whose the version is.
func (ch *Change) knowVersion(set *policy.Settings) {
	c, stamp := &ch.t.c, stampAt(ch.Is)
	who, p := ch.By.Learners(set), ch.By.Process()
	by := knowledge.Author{PID: p.PID, Program: p.Program, Actor: p.Actor, UID: p.UID, Operation: ch.Op}
	if (ch.InPlace || who.IsNobody()) && !ch.Adds && ch.Was != nil && c.Engine.IsAppended(ch) {
		c.Known.Follow(ch.Path, stampAt(ch.Was)) // whoever has it open to append may cut it
	}
	if ch.Merge == nil {
		c.Known.Made(&lostupdate.Made{
			Path: ch.Path, Is: stamp, Adds: ch.Adds && ch.Was != nil, Was: stampAt(ch.Was), InPlace: ch.InPlace,
			Session: ch.By.Session() != "",
		}, who, by)
		return
	}
	if w := c.Known.MadeMerged(ch.Path, stamp, ch.Merge, who, by, c.Serial); w != nil {
		c.Engine.KeepBase(ch.Path, w)
	}
	ch.Merge.Drop()
	ch.reportMerge(&p)
}
