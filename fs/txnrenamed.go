package fs

import "latchfs/lockmgr"

// This file lets who has a file open go with it that a member of a transaction renames. What
// is published under the new name is a copy, so the file itself is to its users what a file
// is that a save has replaced: what they append comes to the copy, and what they lock is its
// name.

// markRenamed notes which files are about to be published under other names. undo is for a
// commit that fails.
func (t *txn) markRenamed() (undo func()) {
	f := t.f
	var marked []*stagedName
	for _, sn := range t.list() {
		if sn.heir == nil || sn.heir.txn.Load() != t {
			continue // removed since, or replaced
		}
		sn.to.dir, sn.to.name = sn.heir.where()
		f.mu.Lock()
		sn.to.dir.pins++
		f.mu.Unlock()
		sn.renamed = f.markReplaced(inoKey{sn.base.Dev, sn.base.Ino}, nil)
		marked = append(marked, sn)
	}
	return func() {
		for _, sn := range marked {
			sn.renamed(false)
			f.unpin(sn.to.dir)
			sn.renamed, sn.to = nil, place{}
		}
	}
}

// followHeirs gives the files the names that their copies have got, all at once: they may
// have changed places. FS.ns is held.
func (t *txn) followHeirs() {
	f := t.f
	var renamed []*stagedName
	for _, sn := range t.list() {
		if sn.renamed != nil {
			renamed = append(renamed, sn)
		}
	}
	if len(renamed) == 0 {
		return
	}
	now := f.newRename()
	f.clientKeys.Lock()
	defer f.clientKeys.Unlock()
	files := make([][]*inode, len(renamed))
	f.mu.Lock()
	for i, sn := range renamed {
		files[i] = f.formerLocked(sn.key())
	}
	for i, sn := range renamed {
		f.followLocked(files[i], sn.to.dir, sn.to.name)
		for _, n := range files[i] {
			if n.keyLocked() != sn.key() {
				f.noteRenamedLocked(n, sn.key(), now)
			}
		}
	}
	f.mu.Unlock()
	f.rekeyHeirs(renamed)
	for i, sn := range renamed {
		sn.renamed(true)
		for _, n := range files[i] {
			f.forgetAttrs(n)
		}
		f.unpin(sn.to.dir)
	}
}

// rekeyHeirs lets the clients' locks on the files follow, but where the policy makes names
// share locks. FS.clientKeys is held.
func (f *FS) rekeyHeirs(renamed []*stagedName) {
	if f.policy.MapsNames() {
		return
	}
	list := make([]lockmgr.Rename, len(renamed))
	for i, sn := range renamed {
		list[i] = lockmgr.Rename{
			From: lockmgr.Key(f.path(sn.dir, sn.name)), To: lockmgr.Key(f.path(sn.to.dir, sn.to.name)),
		}
	}
	f.table.RekeyFiles(list...)
}

// key is the name as the kernel asks for it.
func (sn *stagedName) key() dkey { return dkey{sn.dir, sn.name} }
