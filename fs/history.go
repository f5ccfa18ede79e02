package fs

import (
	"fmt"
	"time"

	"golang.org/x/sys/unix"

	"latchfs/fs/disclosure"
	"latchfs/fs/versions"
	"latchfs/journal/audit"
	"latchfs/journal/commit"
	"latchfs/journal/history"
	"latchfs/lockmgr/policy"
)

// This file joins the changes of names with the versions that the history gets of them:
// package versions.

// openHistory opens the store of earlier versions, and finds out about those
// whose successor's record a crash has taken.
func (f *FS) openHistory() error {
	b := f.policy.HistoryBounds()
	s, err := history.Open(f.state, history.Options{MaxBytes: b.MaxBytes, MaxAge: b.MaxAge, Logf: f.log.Warnf, Removing: f.store.SettleKept})
	if err != nil {
		return fmt.Errorf("history of %s: %w", f.opts.Dir, err)
	}
	f.versions = versions.New(versions.Config{
		History: s, Contents: f.store, Root: f.root(), Engine: versionsEngine{f}, Since: f.source.started, Grace: lateGrace,
	})
	f.source.Versions = disclosure.Versions{Root: f.root(), Store: s}
	f.versions.SettleDangling()
	return nil
}

// versionsEngine is the filesystem as package versions needs it.
type versionsEngine struct{ f *FS }

var _ versions.Engine = versionsEngine{}

// HasWriters implements versions.Engine.
func (en versionsEngine) HasWriters(in commit.Inode) bool {
	en.f.mu.Lock()
	defer en.f.mu.Unlock()
	n := en.f.inodes[inoKey{in.Dev, in.Ino}]
	return n != nil && n.writers > 0
}

// OnlyKept implements versions.Engine: to everybody else the inode has no name.
func (en versionsEngine) OnlyKept(in commit.Inode) {
	en.f.mu.Lock()
	defer en.f.mu.Unlock()
	if n := en.f.inodes[inoKey{in.Dev, in.Ino}]; n != nil {
		n.kept = true
	}
}

// Bypassed implements versions.Engine.
func (en versionsEngine) Bypassed(path string, size int64) {
	en.f.event(audit.Event{Time: time.Now(), Event: "bypass", Path: path, Detail: map[string]any{
		"reason": "the file was changed around the mount", "bytes": size,
	}})
}

// versionName is a name as package versions needs it.
func (f *FS) versionName(dir *inode, name, path string) versions.Name {
	return versions.Name{Path: path, Dir: f.fdOf(dir), Base: name, Reach: func() history.Reach { return f.reachOf(dir) }}
}

// step prepares a change of what name in dir holds, which is the file st; nil is nothing.
func (f *FS) step(dir *inode, name, path string, set policy.Settings, st *unix.Stat_t) *versions.Step {
	return f.versions.Step(f.versionName(dir, name, path), &set, st)
}

// stepNow prepares a change of whatever name in dir holds.
func (f *FS) stepNow(dir *inode, name, path string) *versions.Step {
	set := f.settings(path)
	return f.versions.StepNow(f.versionName(dir, name, path), &set)
}

// retryWithRoom runs a change again that found no room, as long as some can be
// made.
func (f *FS) retryWithRoom(do func() error) error {
	for {
		err := do()
		if !isNoRoom(err) || !f.store.GiveRoom(err) {
			return err
		}
	}
}

// smallTries is how often versions are given up, about a MiB at a time, for a change that takes
// next to nothing.
const smallTries = 8

// retrySmall is retryWithRoom for a change that takes next to nothing: of names, or of
// attributes. Filesystems refuse some of those as if they were full (an attribute that is
// longer than a block, a directory that cannot grow), and a quota may be one that no version
// counts against: neither is to cost the whole history.
func (f *FS) retrySmall(do func() error) error {
	for range smallTries {
		err := do()
		switch {
		case !isNoRoom(err), errnoOf(err) == unix.ENOSPC && !f.isNearlyFull():
			return err
		case !f.store.GiveRoom(err):
			return err
		}
	}
	return do()
}

// makeAs runs a change that takes next to nothing on behalf of the caller.
func (f *FS) makeAs(c *caller, do func() error) error {
	return f.retrySmall(func() error { return f.as(c, do) })
}

// isNoRoom reports whether err says that the disk is full, or a quota.
func isNoRoom(err error) bool {
	e := errnoOf(err)
	return e == unix.ENOSPC || e == unix.EDQUOT
}

// noteKept notes that the history has the only name of an inode that came to be known while
// it lost its name.
func (f *FS) noteKept(n *inode) {
	if !f.versions.IsContent(n.key.ino) {
		return
	}
	f.mu.Lock()
	defer f.mu.Unlock()
	n.kept = n.kept || n.key.dev == f.dev
}

// unshare gives an earlier version, which somebody opens to write it, to its
// opener: the history keeps a copy.
func (f *FS) unshare(n *inode) error {
	f.mu.Lock()
	kept, ino := n.kept, n.key.ino
	f.mu.Unlock()
	if !kept {
		return nil
	}
	if was, err := f.versions.Unshare(ino); !was || err != nil {
		return err
	}
	f.mu.Lock()
	defer f.mu.Unlock()
	n.kept = false
	return nil
}

// changed tells the history that the file which n's name leads to was changed by
// us without a new version. While it is loose it goes on changing.
func (f *FS) changed(n *inode, loose bool) {
	if dir, name := f.nameOf(n); dir != nil {
		f.versions.Changed(f.path(dir, name), f.fdOf(n), loose)
	}
}

func (f *FS) closeHistory() {
	if err := f.versions.Close(); err != nil {
		f.log.Errorf("closing the history: %v", err)
	}
}
