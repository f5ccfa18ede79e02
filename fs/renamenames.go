package fs

import (
	"golang.org/x/sys/unix"

	"latchfs/lockmgr"
)

// This file gives inodes, sessions and locks the names that they have after a rename.

// namesFollow gives inodes, sessions and locks the names that they have after the rename.
func (r *renaming) namesFollow(own, replaced *session) {
	switch {
	case r.flags&unix.RENAME_EXCHANGE == 0:
		if replaced != nil && replaced != own {
			r.moves.detach(replaced, false)
		}
		r.moved(own)
		return
	case !r.isDir():
		r.exchangeLocks(own, replaced)
	default:
		r.setNames()
	}
	r.moveSessions()
}

// exchangeLocks records the names of two files that have changed places, whose locks go
// with them.
func (r *renaming) exchangeLocks(own, replaced *session) {
	la, lb := own.heldLock(), replaced.heldLock()
	r.nodes.ns.RLock()
	defer r.nodes.ns.RUnlock()
	r.locks.advisoryKeys.Lock()
	defer r.locks.advisoryKeys.Unlock()
	r.setNames()
	a, b := lockmgr.Key(r.nodes.path(r.from.dir, r.from.name)), lockmgr.Key(r.nodes.path(r.to.dir, r.to.name))
	r.rules.table.RenameFiles(fileRename(a, b, la), fileRename(b, a, lb))
}

// setNames records the names that the inodes have now.
func (r *renaming) setNames() {
	now := r.astray.newRename()
	r.nodes.mu.Lock()
	defer r.nodes.mu.Unlock()
	r.setNamesLocked(now)
}

// setNamesLocked is setNames. nodes.mu is held.
func (r *renaming) setNamesLocked(now recentRename) {
	r.names.renamed.Add(1)
	from, to := r.names.formerLocked(r.from.key()), r.names.formerLocked(r.to.key())
	if r.from.inode != nil {
		r.nodes.setNameLocked(r.from.inode, r.to.dir, r.to.name)
		r.astray.noteRenamedLocked(r.from.inode, r.from.key(), now)
	}
	if r.to.inode != nil && r.flags&unix.RENAME_EXCHANGE != 0 {
		r.nodes.setNameLocked(r.to.inode, r.from.dir, r.from.name)
		r.astray.noteRenamedLocked(r.to.inode, r.to.key(), now)
	}
	// Nobody may have looked at the file that moves, as at a copy that has just taken the place
	// of an earlier one: what had the name before goes with it all the same.
	if r.fromSt != nil || r.from.inode != nil {
		r.names.followLocked(from, r.to.dir, r.to.name)
	}
	if r.flags&unix.RENAME_EXCHANGE != 0 {
		r.names.followLocked(to, r.from.dir, r.from.name)
	}
}

// moveDentriesLocked gives a directory's dentry the new name, and with it all that is kept
// with the names below. nodes.mu is held.
func (r *renaming) moveDentriesLocked() {
	r.nodes.dentries.Rename(r.from.dir.dentry, r.from.name, r.to.dir.dentry, r.to.name, r.flags&unix.RENAME_EXCHANGE != 0)
}

// moveSessions lets the caller's own sessions go with their files, which have changed
// places; the locks have been re-keyed.
func (r *renaming) moveSessions() {
	first, second := r.ownSession(r.from), r.ownSession(r.to)
	if r.isDir() {
		first, second = second, first // their dentries have changed places
	}
	if first != nil {
		r.moves.moveTo(first, r.to.dir, r.to.name)
		r.moves.takeShadowAlong(first)
		r.moves.rebase(first)
	}
	if second != nil {
		r.moves.moveTo(second, r.from.dir, r.from.name)
		r.moves.takeShadowAlong(second)
		r.moves.rebase(second)
	}
}

// moved records the new name of the inode, and of the session on it.
func (r *renaming) moved(own *session) {
	r.moveLocks(own)
	if own != nil {
		r.moves.takeShadowAlong(own)
		r.moves.relock(own, r.c, place{r.to.dir, r.to.name, r.from.inode})
		r.nodes.announceMove()
	}
	r.moves.rebaseOn(r.from.inode, own)
	r.names.lostName(r.to.inode, r.to.key())
	r.moves.rebaseOn(r.to.inode, nil) // it may have other names, and be written by one of them
}

// moveLocks gives the inode its new name, and the session on it if that is the caller's
// own. Who has the file open and locked, or waits for that, goes with it.
func (r *renaming) moveLocks(own *session) {
	l := own.heldLock()
	r.nodes.ns.RLock() // no directory above gets another name meanwhile
	defer r.nodes.ns.RUnlock()
	r.locks.advisoryKeys.Lock()
	defer r.locks.advisoryKeys.Unlock()
	r.setNames()
	from := r.nodes.path(r.from.dir, r.from.name)
	if own == nil {
		r.names.rekeyLink(lockmgr.Key(from), lockmgr.Key(r.nodes.path(r.to.dir, r.to.name)))
		return
	}
	r.moves.moveWithLock(own, l, from, r.to.dir, r.to.name)
}
