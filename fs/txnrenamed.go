package fs

import "latchfs/lockmgr"

// This file lets who has a file open go with it that a member of a transaction renames. What
// is published under the new name is a copy, so the file itself is to its users what a file
// is that a save has replaced: what they append comes to the copy, and what they lock is its
// name.

// markRenamed notes which files are about to be published under other names. undo is for a
// commit that fails.
func (t *txn) markRenamed() (undo func()) {
	var marked []*stagedName
	for _, sn := range t.list() {
		if sn.heir == nil || sn.heir.txn.Load() != t {
			continue // removed since, or replaced
		}
		sn.to.dir, sn.to.name = sn.heir.where()
		t.nodes.mu.Lock()
		sn.to.dir.pins++
		t.nodes.mu.Unlock()
		sn.renamed = t.names.markReplaced(inoKey{sn.base.Dev, sn.base.Ino}, nil)
		marked = append(marked, sn)
	}
	return func() {
		for _, sn := range marked {
			sn.renamed(false)
			t.nodes.unpin(sn.to.dir)
			sn.renamed, sn.to = nil, place{}
		}
	}
}

// followHeirs gives the files the names that their copies have got, all at once: they may
// have changed places. nodes.ns is held.
func (t *txn) followHeirs() {
	var renamed []*stagedName
	for _, sn := range t.list() {
		if sn.renamed != nil {
			renamed = append(renamed, sn)
		}
	}
	if len(renamed) == 0 {
		return
	}
	now := t.astray.newRename()
	t.locks.advisoryKeys.Lock()
	defer t.locks.advisoryKeys.Unlock()
	files := make([][]*inode, len(renamed))
	t.nodes.mu.Lock()
	for i, sn := range renamed {
		files[i] = t.names.formerLocked(sn.key())
	}
	for i, sn := range renamed {
		t.names.followLocked(files[i], sn.to.dir, sn.to.name)
		for _, n := range files[i] {
			if n.keyLocked() != sn.key() {
				t.astray.noteRenamedLocked(n, sn.key(), now)
			}
		}
	}
	t.nodes.mu.Unlock()
	t.txns.rekeyHeirs(renamed)
	for i, sn := range renamed {
		sn.renamed(true)
		for _, n := range files[i] {
			t.kernel.forgetAttrs(n)
		}
		t.nodes.unpin(sn.to.dir)
	}
}

// rekeyHeirs lets advisory locks on the files follow, but where the policy makes names
// share locks. locks.advisoryKeys is held.
func (tx *txns) rekeyHeirs(renamed []*stagedName) {
	if tx.rules.policy.MapsNames() {
		return
	}
	list := make([]lockmgr.FileRename, len(renamed))
	for i, sn := range renamed {
		list[i] = fileRename(lockmgr.Key(tx.nodes.path(sn.dir, sn.name)), lockmgr.Key(tx.nodes.path(sn.to.dir, sn.to.name)), nil)
	}
	tx.rules.table.RenameFiles(list...)
}

// key is the name as the kernel asks for it.
func (sn *stagedName) key() dkey { return dkey{sn.dir, sn.name} }
