package fs

import (
	"golang.org/x/sys/unix"

	"latchfs/journal/commit"
	"latchfs/journal/history"
	"latchfs/lockmgr"
	"latchfs/lockmgr/policy"
)

// succeeds prepares the session's commit.
func (s *session) succeeds(dir *inode, name string) *succession {
	f := s.f
	f.paths.RLock()
	defer f.paths.RUnlock()
	path := f.path(dir, name)
	if !f.keepsHistory(s.settingsAt(path)) {
		return nil
	}
	sn := f.succeedNow(dir, name, path)
	if sn != nil && s.inPlace {
		sn.keep.Copy = true // the inode keeps its names
	}
	return sn
}

// settingsAt are the settings by which the session's commit under a path goes. A transaction
// may have given it another name than that by which it began.
func (s *session) settingsAt(path string) policy.Settings {
	if s.txn.Load() == nil {
		return s.settings
	}
	return s.f.settings(path)
}

// succeedNow prepares a change of whatever name in dir holds.
func (f *FS) succeedNow(dir *inode, name, path string) *succession {
	var st unix.Stat_t
	if unix.Fstatat(f.fdOf(dir), name, &st, unix.AT_SYMLINK_NOFOLLOW) != nil {
		return f.succeed(dir, name, path, f.settings(path), nil)
	}
	return f.succeed(dir, name, path, f.settings(path), &st)
}

// keepAlone keeps the file only if it has no other names: it may be written under
// them.
func (sn *succession) keepAlone(dir *inode, name string) {
	var st unix.Stat_t
	if sn != nil && unix.Fstatat(sn.f.fdOf(dir), name, &st, unix.AT_SYMLINK_NOFOLLOW) == nil && st.Nlink > 1 {
		sn.keep = commit.Keep{}
	}
}

// keptLate is keepLate, and reports what was kept aside.
func (f *FS) keptLate(r commit.Report) {
	f.keepLate(r)
	if len(r.Salvaged) > 0 {
		f.reportRecovery(r)
	}
}

// keepLate tells the history what a recovery has put there while the mount runs.
func (f *FS) keepLate(r commit.Report) {
	for _, in := range r.Kept {
		f.history.Keep(join(in.Dir, in.Name), history.Ref{Content: in.Keep}, maxKept)
	}
}

// maxKept stands for the policy where that is asked the next time.
const maxKept = 1 << 30

// remove is unlink(2) of a name, and what has changed by it; where the versions of the
// name are recorded the file goes into the history.
func (f *FS) remove(c *caller, l *lockmgr.Lock, p place) (*change, error) {
	f.paths.RLock()
	defer f.paths.RUnlock()
	ch := c.changes(opUnlink, p, l.Token())
	dirfd, set, take := f.fdOf(p.dir), f.versionSettings(ch.path), f.taker(c, p.dir)
	var st unix.Stat_t
	if unix.Fstatat(dirfd, p.name, &st, unix.AT_SYMLINK_NOFOLLOW) == nil {
		ch.was, ch.target = &st, linkTarget(dirfd, p.name, &st)
	}
	ch.version = isFile(ch.was) && set.Mode == policy.Atomic
	if !f.keepsHistory(set) || !isFile(ch.was) {
		return ch, take(func() error { return unix.Unlinkat(dirfd, p.name, 0) })
	}
	ch.next = f.succeed(p.dir, p.name, ch.path, set, &st)
	if st.Nlink > 1 {
		ch.next.keep = commit.Keep{} // it has other names, and may be written under them
	}
	f.saves.Add(1)
	var err error
	if ch.kept, err = f.store.Remove(take, dirfd, p.name, ch.next.keep); err == nil {
		ch.enter()
	}
	return ch, err
}

func (f *FS) isKept(n *inode) bool {
	f.mu.Lock()
	defer f.mu.Unlock()
	return n.kept
}

// settle makes files durable that a lazy commit has published under the name
// that they are about to lose: under another one nobody could put the version
// before back. A file that had none may go on unsettled.
func (r *renaming) settle() unix.Errno {
	if r.toSt == nil && r.flags&unix.RENAME_EXCHANGE == 0 && r.anew {
		dir := r.to.dir
		if r.moving = r.f.store.MoveLazy(r.fromSt, r.f.fdOf(dir), r.f.nodePath(dir), r.to.name); r.moving != nil {
			return 0
		}
	}
	stats := []*unix.Stat_t{r.fromSt}
	if r.flags&unix.RENAME_EXCHANGE != 0 {
		stats = append(stats, r.toSt)
	}
	if r.waitsForDisk() {
		// Who finds the new version after a crash finds what was made before it beside it.
		if err := r.f.store.SettleBefore(r.f.fdOf(r.to.dir), r.f.nodePath(r.to.dir)); err != nil {
			return errnoOf(err)
		}
	}
	for _, st := range stats {
		if err := r.f.store.SettleLazy(st); err != nil {
			return errnoOf(err)
		}
	}
	return 0
}

// renameFile renames what is no directory. A file that loses its name to it goes
// into the history.
func (r *renaming) renameFile(l *lockmgr.Lock) unix.Errno {
	f := r.f
	r.anew = f.isMade(r.fromSt)
	if e := r.settle(); e != 0 {
		return e
	}
	f.paths.RLock()
	defer f.paths.RUnlock()
	to, from := r.changes(l)
	if f.history != nil && !r.sameFile() {
		from.next = f.succeed(r.from.dir, r.from.name, from.path, f.versionSettings(from.path), r.fromSt)
		to.next = f.succeed(r.to.dir, r.to.name, to.path, f.versionSettings(to.path), r.toSt)
	}
	var err error
	if r.flags&unix.RENAME_EXCHANGE == 0 && to.next.kept().ID != "" && r.toSt.Nlink == 1 {
		to.kept, err = f.store.RenameOver(commit.RenameOptions{
			FromDir: f.fdOf(r.from.dir), From: r.from.name, ToDir: f.fdOf(r.to.dir), To: r.to.name, Keep: to.next.keep,
			As: f.taker(r.c, r.from.dir, r.to.dir),
		})
	} else {
		err = r.move()
	}
	if r.moving != nil {
		r.moving.Done(err == nil)
	}
	if err != nil {
		return errnoOf(err)
	}
	for _, ch := range r.made {
		ch.enter()
	}
	return 0
}

// changes are what the rename makes of its names.
func (r *renaming) changes(l *lockmgr.Lock) (to, from *change) {
	to, from = r.c.changes(opRename, r.to, l.Token()), r.c.changes(opRename, r.from, l.Token())
	to.other, from.other = from, to
	to.was, to.is, from.was = r.toSt, r.fromSt, r.fromSt
	to.merge = r.merging
	if r.flags&unix.RENAME_EXCHANGE != 0 {
		from.is, from.silent, to.silent = r.toSt, true, true
	}
	if !r.sameFile() {
		r.made = []*change{to, from}
	}
	return to, from
}

// fileChanges are the changes of the names of a file that is about to change places with a
// directory, none if there is no such file. The directory's name is, to them, a free one:
// what is recorded of directories goes by what is below them. FS.paths is held.
func (r *renaming) fileChanges(l *lockmgr.Lock) []*change {
	f, file, now, before := r.f, r.fromSt, r.to, r.from
	if isDirectory(file) {
		file, now, before = r.toSt, r.from, r.to
	}
	if r.flags&unix.RENAME_EXCHANGE == 0 || !isFile(file) {
		return nil
	}
	comes, goes := r.c.changes(opRename, now, l.Token()), r.c.changes(opRename, before, l.Token())
	comes.is, comes.other, goes.was, goes.other = file, goes, file, comes
	goes.next = f.succeed(before.dir, before.name, goes.path, f.versionSettings(goes.path), file)
	comes.next = f.succeed(now.dir, now.name, comes.path, f.versionSettings(comes.path), nil)
	return []*change{comes, goes}
}

// rightsAt is who may read the file that has a name now.
func (f *FS) rightsAt(dir *inode, name string) history.Rights {
	fd, err := unix.Openat(f.fdOf(dir), name, unix.O_PATH|unix.O_NOFOLLOW|unix.O_CLOEXEC, 0)
	if err != nil {
		return history.Rights{ACL: true}
	}
	defer unix.Close(fd)
	var st unix.Stat_t
	if err := unix.Fstat(fd, &st); err != nil {
		return history.Rights{ACL: true}
	}
	return rightsOf(&st, fd)
}
