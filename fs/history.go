package fs

import (
	"fmt"
	"time"

	"golang.org/x/sys/unix"

	"latchfs/fs/changes"
	"latchfs/fs/disclosure"
	"latchfs/fs/versions"
	"latchfs/journal/audit"
	"latchfs/journal/commit"
	"latchfs/journal/history"
	"latchfs/lockmgr"
	"latchfs/lockmgr/policy"
)

// This file joins the changes of names with package versions, which decides which versions the
// history gets of them.

// openHistory opens the store of earlier versions, and settles those that a crash has left
// without a record of the version that replaced them.
func (f *FS) openHistory() error {
	b := f.rules.policy.HistoryBounds()
	s, err := history.Open(f.disk.state, history.Options{MaxBytes: b.MaxBytes, MaxAge: b.MaxAge, Logf: f.disk.log.Warnf, Removing: f.disk.store.SettleKept})
	if err != nil {
		return fmt.Errorf("history of %s: %w", f.disk.opts.Dir, err)
	}
	f.disk.versions = versions.New(versions.Config{
		History: s, Contents: f.disk.store, Root: f.disk.root(), Engine: versionsEngine{f}, Since: f.view.source.started, Grace: lateGrace,
	})
	f.view.source.Versions = disclosure.Versions{Root: f.disk.root(), Store: s}
	f.disk.versions.SettleDangling()
	return nil
}

// versionsEngine is the filesystem as package versions needs it.
type versionsEngine struct{ f *FS }

var _ versions.Engine = versionsEngine{}

// HasWriters implements versions.Engine.
func (en versionsEngine) HasWriters(in commit.Inode) bool {
	return en.f.handles.isWritten(inoKey{in.Dev, in.Ino})
}

// OnlyKept implements versions.Engine: the inode is shown without links from now on.
func (en versionsEngine) OnlyKept(in commit.Inode) {
	en.f.nodes.mu.Lock()
	defer en.f.nodes.mu.Unlock()
	if n := en.f.nodes.inodes[inoKey{in.Dev, in.Ino}]; n != nil {
		n.kept = true
	}
}

// Bypassed implements versions.Engine.
func (en versionsEngine) Bypassed(path string, size int64) {
	en.f.reports.event(audit.Event{Time: time.Now(), Event: "bypass", Path: path, Detail: map[string]any{
		"reason": "the file was changed outside the mount", "bytes": size,
	}})
}

// step prepares the history for a change of the name in dir. st is the file that has the name,
// nil if none has. The caller enters the change when it has happened.
func (rc *recorder) step(dir *inode, name, path string, set policy.Settings, st *unix.Stat_t) *versions.Step {
	return rc.disk.versions.Step(rc.callers.versionName(dir, name, path), &set, st)
}

// stepNow is step for whatever the name holds now.
func (rc *recorder) stepNow(dir *inode, name, path string) *versions.Step {
	set := rc.rules.settings(path)
	return rc.disk.versions.StepNow(rc.callers.versionName(dir, name, path), &set)
}

// commitStep is step for the session's commit; nil if no versions are kept under the name.
func (rc *recorder) commitStep(s *session, dir *inode, name string) *versions.Step {
	rc.nodes.paths.RLock()
	defer rc.nodes.paths.RUnlock()
	path := rc.nodes.path(dir, name)
	set := rc.settingsAt(s, path)
	if !rc.disk.versions.Keeps(&set) {
		return nil
	}
	step := rc.stepNow(dir, name, path)
	if s.inPlace {
		step.KeepCopy()
	}
	return step
}

// settingsAt are the settings that hold for the session's commit under a path. In a transaction
// the session may have got another name since it began.
func (rc *recorder) settingsAt(s *session, path string) policy.Settings {
	if s.txn.Load() == nil {
		return s.settings
	}
	return rc.rules.settings(path)
}

// unshare leaves the inode of an earlier version to the program that opens it for writing;
// the history keeps a copy in its place. Of any other inode it does nothing.
func (rc *recorder) unshare(n *inode) error {
	rc.nodes.mu.Lock()
	kept, ino := n.kept, n.key.ino
	rc.nodes.mu.Unlock()
	if !kept {
		return nil
	}
	if was, err := rc.disk.versions.Unshare(ino); !was || err != nil {
		return err
	}
	rc.nodes.mu.Lock()
	defer rc.nodes.mu.Unlock()
	n.kept = false
	return nil
}

// changed tells the history that the daemon has changed the file which n's name leads to without
// a new version. A file that is loose goes on changing.
func (rc *recorder) changed(n *inode, loose bool) {
	if dir, name := rc.nodes.nameOf(n); dir != nil {
		rc.disk.versions.Changed(rc.nodes.path(dir, name), rc.nodes.fdOf(n), loose)
	}
}

func (rc *recorder) closeHistory() {
	if err := rc.disk.versions.Close(); err != nil {
		rc.disk.log.Errorf("closing the history: %v", err)
	}
}

// noteGrown tells the history, and the knowledge of who has read what, how far the file has
// grown; grows says that it will go on growing.
func (rc *recorder) noteGrown(s *session, grows bool) {
	n := s.inode
	dir, name := rc.nodes.nameOf(n)
	var st unix.Stat_t
	if dir == nil || unix.Fstatat(rc.nodes.fdOf(dir), name, &st, unix.AT_SYMLINK_NOFOLLOW) != nil ||
		n.key != (inoKey{uint64(st.Dev), st.Ino}) {
		return // removed, or replaced
	}
	rc.changed(n, grows)
	for _, path := range append(rc.names.otherPaths(n), rc.nodes.path(dir, name)) {
		rc.losses.wroteVersion(s, path, &st)
	}
}

// noteWrittenOn is called at the close of a descriptor of a file that was committed while it was
// open, so that it could get a further name. What was written since then counts as the work of
// the session's writer. A file that is live has no versions.
func (rc *recorder) noteWrittenOn(s *session) {
	rc.nodes.mu.Lock()
	live := s.inode.live
	rc.nodes.mu.Unlock()
	if !live {
		rc.noteGrown(s, false)
	}
}

// remove does unlink(2) of a name, and returns what that has changed. Where the versions of
// the name are recorded, the file goes into the history.
func (rc *recorder) remove(c *caller, l *lockmgr.Lock, p place) (*change, error) {
	rc.nodes.paths.RLock()
	defer rc.nodes.paths.RUnlock()
	ch := rc.changesBy(c, opUnlink, p, l.Token())
	dirfd, set, take := rc.nodes.fdOf(p.dir), rc.rules.versionSettings(ch.Path), rc.callers.taker(c, p.dir)
	var st unix.Stat_t
	if unix.Fstatat(dirfd, p.name, &st, unix.AT_SYMLINK_NOFOLLOW) == nil {
		ch.Was, ch.Target = &st, changes.TargetOf(dirfd, p.name, &st)
	}
	ch.Version = changes.IsFile(ch.Was) && set.Mode == policy.Atomic
	if !rc.disk.versions.Keeps(&set) || !changes.IsFile(ch.Was) {
		return ch, take(func() error { return unix.Unlinkat(dirfd, p.name, 0) })
	}
	ch.Step = rc.step(p.dir, p.name, ch.Path, set, &st)
	ch.Step.KeepAlone(&st)
	rc.nodes.saves.Add(1)
	var err error
	if ch.Kept, err = rc.disk.store.Remove(take, dirfd, p.name, ch.Step.Keep()); err == nil {
		ch.Enter()
	}
	return ch, err
}
