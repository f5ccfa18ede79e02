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
			replaced.detach(false)
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
	f := r.f
	la, lb := own.heldLock(), replaced.heldLock()
	f.ns.RLock()
	defer f.ns.RUnlock()
	f.clientKeys.Lock()
	defer f.clientKeys.Unlock()
	r.setNames()
	a, b := f.path(r.from.dir, r.from.name), f.path(r.to.dir, r.to.name)
	f.table.ExchangeFiles(la, lb, lockmgr.Key(a), lockmgr.Key(b))
}

// setNames records the names that the inodes have now.
func (r *renaming) setNames() {
	now := r.f.newRename()
	r.f.mu.Lock()
	defer r.f.mu.Unlock()
	r.setNamesLocked(now)
}

// setNamesLocked is setNames. FS.mu is held.
func (r *renaming) setNamesLocked(now recentRename) {
	f := r.f
	f.renamed.Add(1)
	from, to := f.formerLocked(r.from.key()), f.formerLocked(r.to.key())
	if r.from.inode != nil {
		f.setNameLocked(r.from.inode, r.to.dir, r.to.name)
		f.followLocked(from, r.to.dir, r.to.name)
		f.noteRenamedLocked(r.from.inode, r.from.key(), now)
	}
	if r.to.inode != nil && r.flags&unix.RENAME_EXCHANGE != 0 {
		f.setNameLocked(r.to.inode, r.from.dir, r.from.name)
		f.followLocked(to, r.from.dir, r.from.name)
		f.noteRenamedLocked(r.to.inode, r.to.key(), now)
	}
}

// moveDentriesLocked gives a directory's dentry the new name, and with it all that is kept
// with the names below. FS.mu is held.
func (r *renaming) moveDentriesLocked() {
	r.f.names.Rename(r.from.dir.dentry, r.from.name, r.to.dir.dentry, r.to.name, r.flags&unix.RENAME_EXCHANGE != 0)
}

// moveSessions lets the caller's own sessions go with their files, which have changed
// places; the locks have been re-keyed.
func (r *renaming) moveSessions() {
	first, second := r.ownSession(r.from), r.ownSession(r.to)
	if r.isDir() {
		first, second = second, first // their dentries have changed places
	}
	if first != nil {
		first.moveTo(r.to.dir, r.to.name)
		first.takeShadowAlong()
		first.rebase()
	}
	if second != nil {
		second.moveTo(r.from.dir, r.from.name)
		second.takeShadowAlong()
		second.rebase()
	}
}

// moved records the new name of the inode, and of the session on it.
func (r *renaming) moved(own *session) {
	f := r.f
	r.moveLocks(own)
	if own != nil {
		own.takeShadowAlong()
		own.relock(r.c, place{r.to.dir, r.to.name, r.from.inode})
		f.announceMove()
	}
	f.rebaseOn(r.from.inode, own)
	f.lostName(r.to.inode)
	f.rebaseOn(r.to.inode, nil) // it may have other names, and be written by one of them
}

// moveLocks gives the inode its new name, and the session on it if that is the caller's
// own. Who has the file open and locked, or waits for that, goes with it.
func (r *renaming) moveLocks(own *session) {
	f := r.f
	l := own.heldLock()
	f.ns.RLock() // no directory above gets another name meanwhile
	defer f.ns.RUnlock()
	f.clientKeys.Lock()
	defer f.clientKeys.Unlock()
	r.setNames()
	from := f.path(r.from.dir, r.from.name)
	if own == nil {
		f.rekeyLink(lockmgr.Key(from), lockmgr.Key(f.path(r.to.dir, r.to.name)))
		return
	}
	own.moveWithLock(l, from, r.to.dir, r.to.name)
}
