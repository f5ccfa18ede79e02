package fs

import (
	"golang.org/x/sys/unix"

	"latchfs/fs/judge"
	"latchfs/lockmgr"
	"latchfs/lockmgr/policy"
)

// Link gives an inode a further name: link(2).
func (et *entries) Link(cancel <-chan struct{}, in *LinkRequest, name string, out *Entry) unix.Errno {
	if isVirtual(in.Target) {
		return unix.EPERM
	}
	dir, e := et.opens.target(in.Node, name)
	if e != 0 {
		return e
	}
	k := et.kernel.nodeOf(in.Target)
	if k == nil {
		return unix.ESTALE
	}
	n := et.kernel.behind(k)
	if e := et.names.mayNameAlso(&in.Request, n, place{dir: dir, name: name}); e != 0 {
		return e
	}
	if et.opens.isCreating(dir, name) {
		return unix.EEXIST
	}
	if t, _ := et.callers.txnFor(&in.Request); t != nil && t.stages(dir, name) {
		return unix.EPERM // link(2): no hard links here; programs copy or rename then
	}
	places := []place{{dir, name, nil}}
	astray := et.attrs.strangerAt(&in.Request, k) // the caller is to wait for the session that has taken the node over
	if parent, old := et.nodes.nameOf(n); parent != nil && n.isRegular() && (astray || !et.nodes.unnamed(n)) {
		places = append(places, place{parent, old, n})
	}
	c, path := et.callers.callerOf(&in.Request), et.nodes.path(dir, name)
	w := et.astray.walks.Get(c)
	repeated := w != nil && w.Op != opWait || et.astray.walks.IsLate(c)
	lb, l, e := et.lockJudged(c, opLink, func() []judge.Candidate { return et.judging.linked(n, path) }, places...)
	if e != 0 {
		return e
	}
	defer et.rules.table.Release(l)
	if e := et.mayLink(c, &in.Request, k, n, repeated); e != 0 {
		return e
	}
	if e := et.losses.mayMake(c, opLink, place{dir, name, nil}, true); e != 0 {
		return e
	}
	if e := et.judging.judgeLink(c, cancel, lb, n, path); e != 0 {
		return e
	}
	if e := et.claimFiles.mayFileName(c, opLink, place{dir, name, nil}, openContent{et.handles, et.nodes.fdOf(n)}); e != 0 {
		return e
	}
	n, e = et.moves.commitForLink(c, n, path)
	if e != 0 {
		return e
	}
	if e := et.recorder.settleLazy(n); e != 0 {
		return e
	}
	if e := et.syncUnnamed(n, path); e != 0 {
		return e
	}
	if err := et.disk.makeAs(c, func() error { return et.linkat(et.nodes.fdOf(n), et.nodes.fdOf(dir), name) }); err != nil {
		return errnoOf(err)
	}
	et.moves.holdAllNames(c, n)
	return et.enterLink(c, n, place{dir, name, n}, l.Token(), out)
}

// enterLink answers with the name that n has just got, which p is.
func (et *entries) enterLink(c *caller, n *inode, p place, token uint64, out *Entry) unix.Errno {
	et.moves.rebaseOn(n, nil)
	var st unix.Stat_t
	if e := et.names.stat(n, &st); e != 0 {
		return e
	}
	et.names.namesSoonOnDisk(p.dir, p.name)
	et.shareKnowledge(n, &st)
	et.nodes.mu.Lock()
	isFirst := n.dentry == nil
	et.nodes.mu.Unlock()
	ch := et.recorder.changesBy(c, opLink, p, token)
	ch.Is, ch.NewInode = &st, isFirst && st.Nlink == 1
	et.recorder.changes.Tell(ch)
	if dir, name := et.nodes.nameOf(n); dir != nil && st.Nlink == 2 {
		et.names.rekeyLink(lockmgr.Key(et.nodes.path(dir, name)), et.rules.inodeKey(n))
	}
	et.nodes.mu.Lock()
	k, isWritten := et.kernel.lookedUpLocked(n), n.shadow != nil
	et.nodes.setNameLocked(n, p.dir, p.name)
	et.nodes.mu.Unlock()
	if isFirst {
		et.live.carryFirst(n, et.nodes.path(p.dir, p.name))
	}
	et.attrs.fillEntry(out, k, &st, isWritten) // who writes it is led to what it writes
	return 0
}

// syncUnnamed puts a file on the disk that is about to get its first name (O_TMPFILE), as
// the close of a new file does: a power cut leaves it whole, or without the name.
func (et *entries) syncUnnamed(n *inode, path string) unix.Errno {
	if et.disk.store == nil || !n.isRegular() || et.rules.settings(path).Mode != policy.Atomic || !et.nodes.unnamed(n) {
		return 0
	}
	fd, err := et.handles.reopen(et.nodes.fdOf(n), unix.O_RDONLY)
	if err != nil {
		fd, err = et.handles.reopen(et.nodes.fdOf(n), unix.O_WRONLY)
	}
	if err != nil {
		return 0 // its owner may neither read nor write it, and neither may we
	}
	defer unix.Close(fd)
	return errnoOf(et.disk.store.Sync(fd, false))
}

// mayLink decides whether n is what the caller wants to give a further name. If the file
// was replaced since the caller has found it, or its node has become a stranger's shadow,
// a second walk finds the file.
func (et *entries) mayLink(c *caller, h *Request, k *kernelNode, n *inode, repeated bool) unix.Errno {
	again := c.TID() != 0 && !repeated
	switch {
	case et.attrs.strangerAt(h, k), et.names.leftBehind(n):
		if !again {
			return unix.EBUSY
		}
	case et.nodes.unnamed(n) && et.nodes.isKept(n), et.names.isSuperseded(n), et.names.isOrphan(n):
		if !again {
			return unix.ENOENT // linkat(2), of a file that has lost its last name, or of a shadow that has none
		}
	default:
		return 0
	}
	return et.astray.staleAt(c, n)
}

func (et *entries) linkat(fd, dirfd int, name string) error {
	err := unix.Linkat(fd, "", dirfd, name, unix.AT_EMPTY_PATH)
	if err == unix.ENOENT || err == unix.EPERM {
		err = unix.Linkat(et.disk.procfd, procName(fd), dirfd, name, unix.AT_SYMLINK_FOLLOW)
	}
	return err
}
