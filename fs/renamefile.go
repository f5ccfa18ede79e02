package fs

import (
	"golang.org/x/sys/unix"

	"latchfs/fs/changes"
	"latchfs/journal/commit"
	"latchfs/lockmgr"
)

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
		from.Step = r.recorder.step(r.from.dir, r.from.name, from.Path, r.rules.renamedSettings(from.Path), r.fromSt)
		to.Step = r.recorder.step(r.to.dir, r.to.name, to.Path, r.rules.renamedSettings(to.Path), r.toSt)
	}
	var err error
	if r.flags&unix.RENAME_EXCHANGE == 0 && to.Step.Keep().ID != "" && r.toSt.Nlink == 1 {
		to.Kept, err = r.disk.store.RenameOver(commit.RenameOptions{
			FromDir: r.nodes.fdOf(r.from.dir), From: r.from.name, ToDir: r.nodes.fdOf(r.to.dir), To: r.to.name, Keep: to.Step.Keep(),
			As: r.callers.taker(r.c, r.from.dir, r.to.dir),
		})
	} else {
		err = r.disk.retrySmall(r.move)
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
	if r.toSt != nil {
		to.Target = changes.TargetOf(r.nodes.fdOf(r.to.dir), r.to.name, r.toSt)
	}
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
