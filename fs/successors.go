package fs

import (
	"golang.org/x/sys/unix"

	"latchfs/fs/changes"
	"latchfs/fs/versions"
	"latchfs/journal/commit"
	"latchfs/lockmgr"
	"latchfs/lockmgr/policy"
)

// succeeds prepares the session's commit.
func (rc *recorder) succeeds(s *session, dir *inode, name string) *versions.Step {
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

// settingsAt are the settings by which the session's commit under a path goes. A transaction
// may have given it another name than that by which it began.
func (rc *recorder) settingsAt(s *session, path string) policy.Settings {
	if s.txn.Load() == nil {
		return s.settings
	}
	return rc.rules.settings(path)
}

// remove is unlink(2) of a name, and what has changed by it; where the versions of the
// name are recorded the file goes into the history.
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

func (rc *recorder) isKept(n *inode) bool {
	rc.nodes.mu.Lock()
	defer rc.nodes.mu.Unlock()
	return n.kept
}

// settle makes files durable that a lazy commit has published under the name
// that they are about to lose: under another one nobody could put the version
// before back. A file that had none may go on unsettled.
func (r *renaming) settle() unix.Errno {
	if r.toSt == nil && r.flags&unix.RENAME_EXCHANGE == 0 && r.anew {
		dir := r.to.dir
		if r.moving = r.disk.store.MoveLazy(r.fromSt, r.nodes.fdOf(dir), r.nodes.nodePath(dir), r.to.name); r.moving != nil {
			return 0
		}
	}
	stats := []*unix.Stat_t{r.fromSt}
	if r.flags&unix.RENAME_EXCHANGE != 0 {
		stats = append(stats, r.toSt)
	}
	if r.waitsForDisk() {
		// Who finds the new version after a crash finds what was made before it beside it.
		if err := r.disk.store.SettleBefore(r.nodes.fdOf(r.to.dir), r.nodes.nodePath(r.to.dir)); err != nil {
			return errnoOf(err)
		}
	}
	for _, st := range stats {
		if err := r.disk.store.SettleLazy(st); err != nil {
			return errnoOf(err)
		}
	}
	return 0
}

// renameFile renames what is no directory. A file that loses its name to it goes
// into the history.
func (r *renaming) renameFile(l *lockmgr.Lock) unix.Errno {
	r.anew = r.names.isMade(r.fromSt)
	if e := r.settle(); e != 0 {
		return e
	}
	r.nodes.paths.RLock()
	defer r.nodes.paths.RUnlock()
	to, from := r.changes(l)
	if r.disk.versions != nil && !r.sameFile() {
		from.Step = r.recorder.step(r.from.dir, r.from.name, from.Path, r.rules.versionSettings(from.Path), r.fromSt)
		to.Step = r.recorder.step(r.to.dir, r.to.name, to.Path, r.rules.versionSettings(to.Path), r.toSt)
	}
	var err error
	if r.flags&unix.RENAME_EXCHANGE == 0 && to.Step.Keep().ID != "" && r.toSt.Nlink == 1 {
		to.Kept, err = r.disk.store.RenameOver(commit.RenameOptions{
			FromDir: r.nodes.fdOf(r.from.dir), From: r.from.name, ToDir: r.nodes.fdOf(r.to.dir), To: r.to.name, Keep: to.Step.Keep(),
			As: r.callers.taker(r.c, r.from.dir, r.to.dir),
		})
	} else {
		err = r.recorder.retrySmall(r.move)
	}
	if r.moving != nil {
		r.moving.Done(err == nil)
	}
	if err != nil {
		return errnoOf(err)
	}
	for _, ch := range r.made {
		ch.Enter()
	}
	return 0
}

// changes are what the rename makes of its names.
func (r *renaming) changes(l *lockmgr.Lock) (to, from *change) {
	to, from = r.recorder.changesBy(r.c, opRename, r.to, l.Token()), r.recorder.changesBy(r.c, opRename, r.from, l.Token())
	to.Other, from.Other = from, to
	to.Was, to.Is, from.Was = r.toSt, r.fromSt, r.fromSt
	to.Merge = r.merging
	if r.flags&unix.RENAME_EXCHANGE != 0 {
		from.Is, from.Silent, to.Silent = r.toSt, true, true
	}
	if !r.sameFile() {
		r.made = []*change{to, from}
	}
	return to, from
}

// fileChanges are the changes of the names of a file that is about to change places with a
// directory, none if there is no such file. The directory's name is, to them, a free one:
// what is recorded of directories goes by what is below them. nodes.paths is held.
func (r *renaming) fileChanges(l *lockmgr.Lock) []*change {
	file, now, before := r.fromSt, r.to, r.from
	if isDirectory(file) {
		file, now, before = r.toSt, r.from, r.to
	}
	if r.flags&unix.RENAME_EXCHANGE == 0 || !changes.IsFile(file) {
		return nil
	}
	comes, goes := r.recorder.changesBy(r.c, opRename, now, l.Token()), r.recorder.changesBy(r.c, opRename, before, l.Token())
	comes.Is, comes.Other, goes.Was, goes.Other = file, goes, file, comes
	goes.Step = r.recorder.step(before.dir, before.name, goes.Path, r.rules.versionSettings(goes.Path), file)
	comes.Step = r.recorder.step(now.dir, now.name, comes.Path, r.rules.versionSettings(comes.Path), nil)
	return []*change{comes, goes}
}
