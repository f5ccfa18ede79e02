package fs

import (
	"slices"
	"time"

	"golang.org/x/sys/unix"

	"latchfs/fs/lostupdate"
	"latchfs/fs/versions"
	"latchfs/journal/audit"
	"latchfs/journal/commit"
	"latchfs/journal/history"
	"latchfs/lockmgr/knowledge"
	"latchfs/lockmgr/policy"
)

// This file tells what a name holds now, who has made it so, and by which operation. A
// save, a rename, an exchange, a link, a creation and a removal each make one change of
// every name that they touch, and tell gives it to all recorders, in this order:
//
//  1. The history enters the version. It is the only recorder that outlives a crash, so
//     it hears of a commit before that is durable, and of a rename or a removal in the
//     same moment in which no directory above can get another name (FS.paths). Where a
//     change can be told only later, enter is called there and then.
//  2. The knowledge of versions notes whose the version is, and who knows it: before
//     anybody whom the following steps let in looks at the file.
//  3. The live names: a file that is live stays so under its new name, and its old name
//     is an ordinary one. A name is live or not before a waiter asks which it is.
//  4. The claims of reads on the name end, for which the lessons about programs hear
//     first who has written: what comes of a claim depends on it.
//  5. A claim file claims what it says now.
//  6. The audit trail comes last, for it says what the others have done with it.
//
// Who makes the change holds the lock of the name until all have heard. The inodes have
// the names that they have after it.

// change is what one operation has made of one name.
type change struct {
	f     *FS
	c     *caller  // has made it; nil: the writer of a session has
	s     *session // which is this one
	op    string
	dir   *inode
	name  string
	path  string            // of the name, as it is when a recorder hears of it
	other *change           // of the other name of a rename
	was   *unix.Stat_t      // what the name held; nil: nothing
	is    *unix.Stat_t      // what it holds
	next  *versions.Step    // what the history keeps of the name; nil: nothing
	kept  bool              // what the name held is in the history
	merge *lostupdate.Merge // what the version was joined with; nil: nothing
	token uint64            // of the lock
	txn   string            // the transaction that it belongs to

	err error // why it is not known to be durable
	// target is where the symbolic link led that the name held.
	target string

	inPlace  bool // the file is the one that it was, with other content
	newInode bool // the file has just been made
	adds     bool // its content is what it was and what was added to it
	version  bool // what the name held was a version
	silent   bool // the audit trail does not hear of it, or in another way
	told     bool // the history has heard of it
}

// changes is a change that the caller makes of a name.
func (c *caller) changes(op string, p place, token uint64) *change {
	return &change{f: c.f, c: c, op: op, dir: p.dir, name: p.name, path: c.f.path(p.dir, p.name), token: token}
}

// changes is a change that the session's writer makes of a name.
func (s *session) changes(op string, dir *inode, name string) *change {
	return &change{
		f: s.f, s: s, op: op, dir: dir, name: name, path: s.f.path(dir, name), token: s.lock.Token(),
		inPlace: s.inPlace, newInode: !s.inPlace, adds: s.adds, merge: s.merged(),
	}
}

// published is for the store to call when the shadow sh is what the name holds.
func (ch *change) published(sh *commit.Shadow) func(commit.Version) {
	return func(v commit.Version) {
		ch.f.paths.RLock()
		defer ch.f.paths.RUnlock()
		ch.path = ch.f.path(ch.dir, ch.name)
		ch.is, ch.kept = statOf(&v), sh.Kept()
		ch.enter()
	}
}

// tell tells the recorders of changes that one operation has made.
func (f *FS) tell(list ...*change) {
	f.paths.RLock()
	defer f.paths.RUnlock()
	for _, ch := range list {
		ch.path = f.path(ch.dir, ch.name)
	}
	each := func(hear func(*change)) {
		for _, ch := range list {
			hear(ch)
		}
	}
	each((*change).enter)
	each((*change).know)
	f.followLive(list)
	each((*change).endClaims)
	each((*change).fileClaim)
	each((*change).report)
}

// stampAt is the stamp of the file st; nil is none.
func stampAt(st *unix.Stat_t) knowledge.Stamp {
	if st == nil {
		return knowledge.Stamp{}
	}
	return stampOfFile(st)
}

// isFile reports whether st is a regular file; nil is none.
func isFile(st *unix.Stat_t) bool { return st != nil && st.Mode&unix.S_IFMT == unix.S_IFREG }

// enter tells the history, unless it has heard. FS.paths is held, and path is what the
// name has now.
func (ch *change) enter() {
	if ch.told || ch.next == nil {
		return
	}
	ch.told = true
	ch.next.Enter(ch.path, ch.entry(), ch.kept)
}

// entry is the change as the history enters it.
func (ch *change) entry() history.Version {
	if ch.s != nil {
		v := ch.s.made(ch.is)
		v.Operation = ch.op
		return v
	}
	o := ch.other
	switch {
	case ch.is == nil && o != nil:
		v := ch.c.did(history.RenameAway, ch.op, ch.token)
		v.To = o.path
		return v
	case !isFile(ch.is):
		return ch.c.did(history.Delete, ch.op, ch.token)
	}
	v := ch.c.did(history.Commit, ch.op, ch.token)
	if o != nil {
		v.From = o.path
	}
	if o != nil {
		v.Content = o.next.Content()
	}
	v.State, v.Rights = history.StateOf(ch.is), versions.RightsAt(ch.f.fdOf(ch.dir), ch.name)
	return v
}

// know tells the knowledge of versions.
func (ch *change) know() {
	f := ch.f
	if f.knowledge == nil || ch.is == nil && ch.was == nil && ch.other != nil {
		return // nobody has seen what a session had created and renamed
	}
	if ch.was != nil {
		f.updates.CatchUp(ch.path, stampAt(ch.was))
	}
	if ch.was != nil && !ch.inPlace {
		f.updates.Leaves(ch.path, stampAt(ch.was))
	}
	if ch.newInode {
		f.updates.Created(stampAt(ch.is))
	}
	if set := ch.settings(); f.updates.Applies(&set) {
		ch.knowVersion(&set)
	}
	if ch.is == nil {
		f.leaveCarried(ch.c, ch.op, ch.path)
	}
}

// knowVersion notes whose the version is.
func (ch *change) knowVersion(set *policy.Settings) {
	f, stamp := ch.f, stampAt(ch.is)
	who, by := ch.maker(set)
	if ch.merge == nil {
		f.updates.Made(&lostupdate.Made{
			Path: ch.path, Is: stamp, Adds: ch.adds && ch.was != nil, Was: stampAt(ch.was), InPlace: ch.inPlace, Session: ch.s != nil,
		}, who, by)
		return
	}
	w := f.updates.MadeMerged(ch.path, stamp, ch.merge, who, by, func() uint64 { return f.serial.Add(1) })
	if w != nil {
		f.bases.PutBytes(knowledge.Key(ch.path), w.Number, w.Content, w.Stamp)
	}
	ch.merge.Drop()
	ch.reportMerge(by)
}

// settings are those that decide who is told of what.
func (ch *change) settings() policy.Settings {
	if ch.s != nil {
		return ch.s.settingsAt(ch.path)
	}
	return ch.f.settings(ch.path)
}

// maker is who has made the change, with those who learn what it makes.
func (ch *change) maker(set *policy.Settings) (knowledge.Who, knowledge.Author) {
	if ch.s != nil {
		who, by := ch.s.madeBy()
		by.Operation = ch.op
		return who, by
	}
	who, _ := ch.c.learners(set)
	return who, ch.c.author(ch.op)
}

// followLive lets the live names go where their files have gone: all at once, for two
// files may have changed places.
func (f *FS) followLive(list []*change) {
	list = slices.DeleteFunc(slices.Clone(list), func(ch *change) bool { return ch.s != nil || ch.inPlace })
	f.mu.Lock()
	by := make([]liveBy, len(list))
	for i, ch := range list {
		if ch.is != nil && ch.other != nil {
			by[i] = f.nameLocked(ch.other.dir, ch.other.name).live
		}
	}
	for i, ch := range list {
		f.setLiveNameLocked(ch.dir, ch.name, by[i])
	}
	f.mu.Unlock()
	for _, ch := range list {
		f.forgetLive(ch.path)
	}
	for _, ch := range list {
		f.markerMoved(ch.name)
		if ch.is != nil && ch.other != nil {
			f.carryLive(f.inodeFor(ch.is), ch.path)
		}
	}
}

// endClaims ends the claims of reads on the name; one that holds nothing now keeps them
// for as long as it may take to make it again.
func (ch *change) endClaims() {
	f := ch.f
	switch {
	case !f.readClaims.Enabled:
	case ch.is == nil:
		f.readClaims.Removed(ch.path)
	case ch.s != nil:
		f.learnOfWrite(ch.path, ch.s.learners())
		f.readClaims.Written(ch.path, ch.s.inodeKeys()...)
	default:
		f.learnOfWrite(ch.path, ch.c.family())
		f.readClaims.Written(ch.path)
	}
}

// report tells the audit trail.
func (ch *change) report() {
	f := ch.f
	switch renamed := ch.other != nil; {
	case ch.silent:
	case ch.s != nil:
		ch.reportCommit()
	case ch.is == nil && !renamed && ch.version:
		ev := ch.event("delete")
		if ch.txn != "" {
			ev.Detail["transaction"] = ch.txn
		}
		f.event(ev)
	case ch.is == nil && !renamed && ch.was != nil:
		f.noteGone(ch.c, ch.path, ch.was, ch.target, ch.txn)
	case isFile(ch.is) && renamed && f.settings(ch.path).Mode == policy.Atomic:
		ev := ch.event("commit")
		ev.Detail["operation"], ev.Detail["from"], ev.Detail["bytes"] = ch.op, ch.other.path, ch.is.Size
		f.event(ev)
	}
}

// reportCommit tells it of what a session has published.
func (ch *change) reportCommit() {
	ch.s.record("commit", func(ev *audit.Event) {
		ev.Path = ch.path
		ev.Detail["bytes"], ev.Detail["operation"] = ch.is.Size, ch.op
		ch.s.noteDeath(ev)
		if ch.txn != "" {
			ev.Detail["transaction"] = ch.txn
		}
		if ch.err != nil {
			ev.Detail["not_durable"] = ch.err.Error()
		}
	})
}

// reportMerge tells it what was joined.
func (ch *change) reportMerge(by knowledge.Author) {
	ev := audit.Event{PID: by.PID, Actor: by.Actor, Detail: map[string]any{"operation": ch.op, "program": by.Program}}
	if ch.s != nil {
		ev.Session, ev.Token = ch.s.id, ch.token
	} else {
		ev.Detail["from"] = ch.other.path
	}
	ev.Event, ev.Time, ev.Path = "merge", time.Now(), ch.merge.Loss.Path
	ch.merge.Note(ev.Detail)
	ch.f.event(ev)
}

// event is an entry of the audit trail about the change.
func (ch *change) event(what string) audit.Event {
	return audit.Event{
		Time: time.Now(), Event: what, Path: ch.path, PID: ch.c.owner.PID, Token: ch.token, Actor: ch.f.actorOf(&label{c: ch.c}),
		Detail: map[string]any{"program": ch.c.program(), "uid": ch.c.uid},
	}
}

// restamped tells those who tell a version by its stamp that the one which path holds is
// another file now, or has other times, and is the same version still.
func (f *FS) restamped(path string, before, after *unix.Stat_t) {
	f.versions.Restamped(path, before, after)
	if f.knowledge == nil {
		return
	}
	f.updates.Restamped(path, stampOfFile(before), stampOfFile(after), after.Nlink > 1)
}
