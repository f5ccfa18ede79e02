package fs

import (
	"golang.org/x/sys/unix"

	"latchfs/fs/lostupdate"
	"latchfs/journal/commit"
	"latchfs/lockmgr"
)

// renaming is one RENAME request being carried out.
type renaming struct {
	*entries
	c            *caller
	lb           *label // of the lock
	cancel       <-chan struct{}
	from, to     place
	fromSt, toSt *unix.Stat_t // nil: no committed inode has the name
	flags        uint32
	moving       *commit.LazyMove  // what is renamed stays unsettled
	anew         bool              // what is renamed was made a moment ago, and the disk may not know it yet
	made         []*change         // what it makes of the names of files
	ofFile       []*change         // what the exchange of a directory makes of the names of a file
	merging      *lostupdate.Merge // what is renamed was merged with what it replaces; nil: it was not
}

// Rename is rename(2) and renameat2(2). It is the commit point of every tool
// that writes a temporary file and renames it.
func (et *entries) Rename(cancel <-chan struct{}, in *RenameRequest, oldName, newName string) unix.Errno {
	from, e := et.opens.target(in.Node, oldName)
	if e != 0 {
		return e
	}
	to, e := et.opens.target(in.NewDir, newName)
	if e != 0 {
		return e
	}
	if in.Flags&unix.RENAME_WHITEOUT != 0 {
		return unix.EINVAL
	}
	if e := et.names.keepsName(&in.Request, from, oldName); e != 0 {
		return e
	}
	takes := et.reports.isReadOnly(&in.Request, opRename, to, newName)
	if takes == 0 && in.Flags&unix.RENAME_EXCHANGE != 0 {
		takes = et.names.keepsName(&in.Request, to, newName)
	}
	if takes != 0 {
		return takes
	}
	if t, c := et.callers.txnFor(&in.Request); t != nil && (t.stages(from, oldName) || t.stages(to, newName)) {
		return t.rename(c, place{dir: from, name: oldName}, place{dir: to, name: newName}, in.Flags)
	}
	r := &renaming{entries: et, c: et.callers.callerOf(&in.Request), cancel: cancel, flags: in.Flags, from: place{dir: from, name: oldName}, to: place{dir: to, name: newName}}
	if e := r.look(); e != 0 {
		return e
	}
	if in.Flags&unix.RENAME_EXCHANGE == 0 && r.to.inode != nil && r.to.inode.isDir() && len(et.endings.sessionsIn(r.to.inode)) > 0 {
		return unix.ENOTEMPTY // somebody is creating or rewriting a file in it
	}
	if in.Flags&unix.RENAME_NOREPLACE != 0 && (r.toSt != nil || et.opens.isCreating(to, newName)) {
		return unix.EEXIST // no conflict: mv asks this first
	}
	et.appending.finishLinesAt(&in.Request, r.to)
	lb, l, e := et.lockJudged(r.c, opRename, arrival{r}.toJudge(), r.from, r.to)
	if e != 0 {
		return e
	}
	defer et.rules.table.Release(l)
	r.lb = lb
	for {
		if e := r.attempt(l); e != errEnded {
			return e
		}
	}
}

// attempt looks at the names and runs the rename, while no session of the caller's own on them
// ends without anybody waiting for that: it would commit under a name that its file has no more,
// or has not yet.
func (r *renaming) attempt(l *lockmgr.Lock) unix.Errno {
	defer r.moves.keepFromEnding(r.ownSession(r.from), r.ownSession(r.to))()
	if e := r.look(); e != 0 {
		return e
	}
	return r.run(l)
}

// errEnded says that the caller's own session, which another thread was closing,
// has ended: its file is committed now and renamed like any other.
const errEnded = unix.EINPROGRESS

// look finds out what has the two names.
func (r *renaming) look() unix.Errno {
	r.fromSt, r.toSt = nil, nil
	r.from.inode, r.to.inode = nil, nil
	var a, b unix.Stat_t
	n, own, e := r.entries.holds(r.from.dir, r.from.name, &a)
	switch {
	case e == 0:
		r.from.inode, r.fromSt = n, &a
	case e != unix.ENOENT || own == nil:
		return e
	}
	n, e = r.entries.known(r.to.dir, r.to.name, &b)
	switch {
	case e == 0:
		r.to.inode, r.toSt = n, &b
	case e != unix.ENOENT:
		return e
	}
	return 0
}

// run asks whether the rename may be, and does it.
func (r *renaming) run(l *lockmgr.Lock) unix.Errno {
	if r.sameFile() {
		return 0 // as rename(2) says
	}
	if r.flags&unix.RENAME_EXCHANGE != 0 {
		if e := r.commitForExchange(); e != 0 {
			return e
		}
		if r.fromSt == nil || r.toSt == nil {
			return unix.ENOENT // gone since the kernel looked: removed past the mount, or dropped with a killed writer
		}
	}
	a := arrival{r}
	if e := a.judge(a.candidates()); e != 0 {
		return e
	}
	e := r.mayReplace()
	if e == 0 {
		e = a.mayFile()
	}
	if e != 0 {
		r.unmerge()
		return e
	}
	defer r.expectMove()()
	own, replaced := r.ownSession(r.from), r.ownSession(r.to)
	if r.fromSt == nil && own == nil {
		return r.entries.publishedSince(r.from)
	}
	if replaced != own && r.flags&unix.RENAME_EXCHANGE == 0 {
		if replaced, e = r.moves.withoutName(replaced, r.c, opRename, r.to); e != 0 {
			r.unmerge()
			return e
		}
	}
	r.commits.live.awaitWriters(r.from, r.fromSt)
	replacing := r.markReplaced()
	e = r.replace(l, own)
	replacing(e == 0)
	if e != 0 {
		r.unmerge()
		return e
	}
	r.namesFollow(own, replaced)
	if r.fromSt == nil {
		r.made[0].Silent = true // there was nothing under the former name
	}
	r.recorder.changes.Tell(r.made...)
	switch {
	case r.fromSt == nil:
		r.commits.followLive([]*change{r.made[0].Other})
	case r.isDir():
		for _, ch := range r.ofFile {
			ch.Know() // looks at processes, too
		}
		r.commits.carryMoved(r)
		r.movedDirs()
	}
	if r.flags&unix.RENAME_EXCHANGE != 0 {
		r.names.namesSoonOnDisk(r.from.dir, r.from.name)
		r.names.namesSoonOnDisk(r.to.dir, r.to.name)
		return 0
	}
	return r.makeDurable()
}

// isDir reports whether a directory moves.
func (r *renaming) isDir() bool { return isDirectory(r.fromSt) || isDirectory(r.toSt) }

// replace is the rename itself. made is what it makes of files.
func (r *renaming) replace(l *lockmgr.Lock, own *session) unix.Errno {
	r.made = nil
	switch {
	case r.fromSt == nil:
		// publishCopy tells of the new name.
		_, from := r.changes(l)
		r.made = []*change{from}
		return r.publishUnderNewName(own)
	case r.isDir():
		return errnoOf(r.disk.retrySmall(func() error { return r.renameDir(l) }))
	}
	keepBase := r.judging.holdBase(r.to, r.toSt)
	e := r.renameFile(l)
	keepBase(e == 0 && r.flags == 0)
	return e
}

// publishedSince reports whether a name that was free is so no longer: errEnded says
// that it has a file now, since the session that was on it has ended.
func (et *entries) publishedSince(p place) unix.Errno {
	var st unix.Stat_t
	if _, e := et.known(p.dir, p.name, &st); e != 0 {
		return e
	}
	return errEnded
}

// ownSession is the session that the caller's family has on a name.
func (r *renaming) ownSession(p place) *session {
	s := r.nodes.sessionAt(p.dir, p.name)
	if s != nil && r.c.BelongsTo(s.who.Load()) {
		return s
	}
	return nil
}

// publishUnderNewName is the rename of a file that its owner has not closed
// yet: what is written so far goes out under the new name at once.
func (r *renaming) publishUnderNewName(s *session) unix.Errno {
	if r.toSt != nil && r.toSt.Mode&unix.S_IFMT == unix.S_IFDIR {
		return unix.EISDIR
	}
	if r.toSt != nil {
		if e := r.callers.mayTake(r.c, r.to.dir, r.toSt); e != 0 {
			return e
		}
	}
	s.mu.Lock()
	defer s.mu.Unlock()
	if s.state.HasEnded() {
		return errEnded
	}
	return r.endings.publishCopy(s, r.to.dir, r.to.name, r.toSt, r.lb)
}

// renameDir moves a directory, and with it what is known by the paths below: locks,
// versions that were read, which files are live. Who asks by the new names finds it.
// Whoever makes room for it must not do so here, where everybody waits for the names.
func (r *renaming) renameDir(l *lockmgr.Lock) error {
	moveKnowledge := r.movesKnowledge() // looks at processes, for which nobody must wait
	if r.flags&unix.RENAME_EXCHANGE == 0 && isDirectory(r.toSt) {
		r.entries.removeOrphans(r.nodes.fdOf(r.to.dir), r.to.name) // a directory is replaced only if it is empty
	}
	r.nodes.ns.Lock()
	defer r.nodes.ns.Unlock()
	r.nodes.paths.Lock()
	defer r.nodes.paths.Unlock()
	from, to := r.nodes.path(r.from.dir, r.from.name), r.nodes.path(r.to.dir, r.to.name)
	r.ofFile = r.fileChanges(l)
	if err := r.move(); err != nil {
		return err
	}
	// Whoever asks for a lock next makes its keys of the new names: before the lock table and
	// not after ns is given back, when others would ask under both.
	now := r.astray.newRename()
	r.nodes.mu.Lock()
	r.moveDentriesLocked()
	r.setNamesLocked(now)
	r.nodes.mu.Unlock()
	r.locks.follow(relocation{from, to, r.flags&unix.RENAME_EXCHANGE != 0}, moveKnowledge)
	for _, ch := range r.ofFile {
		ch.Enter()
	}
	return nil
}

// move is the rename itself.
func (r *renaming) move() error {
	return r.callers.taker(r.c, r.from.dir, r.to.dir)(func() error {
		return unix.Renameat2(r.nodes.fdOf(r.from.dir), r.from.name, r.nodes.fdOf(r.to.dir), r.to.name, uint(r.flags))
	})
}

// commitForExchange makes a file that its owner has created and not closed yet
// visible, for only names that exist can be exchanged.
func (r *renaming) commitForExchange() unix.Errno {
	for _, p := range []place{r.from, r.to} {
		s := r.ownSession(p)
		if s == nil {
			continue
		}
		if e := (arrival{r}).judgeUnnamed(s, p); e != 0 {
			return e
		}
		s.mu.Lock()
		e := unix.Errno(0)
		if s.isNew.Load() && !s.state.HasEnded() {
			e = r.endings.publishCopy(s, p.dir, p.name, nil, r.lb)
		}
		s.mu.Unlock()
		if e != 0 {
			return e
		}
	}
	return r.look()
}
