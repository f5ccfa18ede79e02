package fs

import (
	"golang.org/x/sys/unix"

	"latchfs/fs/judge"
	"latchfs/lockmgr"
	"latchfs/lockmgr/policy"
)

// Link gives an inode a further name: link(2).
func (f *FS) Link(cancel <-chan struct{}, in *LinkRequest, name string, out *Entry) unix.Errno {
	if isVirtual(in.Target) {
		return unix.EPERM
	}
	dir, e := f.target(in.Node, name)
	if e != 0 {
		return e
	}
	k := f.nodeOf(in.Target)
	if k == nil {
		return unix.ESTALE
	}
	n := f.behind(k)
	if e := f.mayNameAlso(&in.Request, n, place{dir: dir, name: name}); e != 0 {
		return e
	}
	if f.isCreating(dir, name) {
		return unix.EEXIST
	}
	if t, _ := f.txnFor(&in.Request); t != nil && t.stages(dir, name) {
		return unix.EPERM // link(2): no hard links here; programs copy or rename then
	}
	places := []place{{dir, name, nil}}
	astray := f.strangerAt(&in.Request, k) // the caller is to wait for the session that has taken the node over
	if parent, old := f.nameOf(n); parent != nil && n.isRegular() && (astray || !f.unnamed(n)) {
		places = append(places, place{parent, old, n})
	}
	c, path := f.callerOf(&in.Request), f.path(dir, name)
	w := f.walks.Get(c)
	repeated := w != nil && w.Op != opWait
	lb, l, e := f.lockJudged(c, opLink, func() []judge.Candidate { return f.linked(n, path) }, places...)
	if e != 0 {
		return e
	}
	defer f.table.Release(l)
	if e := f.mayLink(c, &in.Request, k, n, repeated); e != 0 {
		return e
	}
	if e := f.mayMake(c, opLink, place{dir, name, nil}); e != 0 {
		return e
	}
	if e := f.judgeLink(c, cancel, lb, n, path); e != 0 {
		return e
	}
	if e := f.mayFileName(c, opLink, place{dir, name, nil}, openContent{f, f.fdOf(n)}); e != 0 {
		return e
	}
	n, e = f.commitForLink(c, n, path)
	if e != 0 {
		return e
	}
	if e := f.settleLazy(n); e != 0 {
		return e
	}
	if e := f.syncUnnamed(n, path); e != 0 {
		return e
	}
	if err := f.makeAs(c, func() error { return f.linkat(f.fdOf(n), f.fdOf(dir), name) }); err != nil {
		return errnoOf(err)
	}
	f.holdAllNames(c, n)
	return f.enterLink(c, n, place{dir, name, n}, l.Token(), out)
}

// enterLink answers with the name that n has just got, which p is.
func (f *FS) enterLink(c *caller, n *inode, p place, token uint64, out *Entry) unix.Errno {
	f.rebaseOn(n, nil)
	var st unix.Stat_t
	if e := f.stat(n, &st); e != 0 {
		return e
	}
	f.namesSoonOnDisk(p.dir, p.name)
	f.shareKnowledge(n, &st)
	ch := c.changes(opLink, p, token)
	ch.Is = &st
	f.changes.Tell(ch)
	if dir, name := f.nameOf(n); dir != nil && st.Nlink == 2 {
		f.rekeyLink(lockmgr.Key(f.path(dir, name)), f.inodeKey(n))
	}
	f.mu.Lock()
	k, isFirst, isWritten := f.lookedUpLocked(n), n.dentry == nil, n.shadow != nil
	f.setNameLocked(n, p.dir, p.name)
	f.mu.Unlock()
	if isFirst {
		f.carryFirst(n, f.path(p.dir, p.name))
	}
	f.fillEntry(out, k, &st, isWritten) // who writes it is led to what it writes
	return 0
}

// syncUnnamed puts a file on the disk that is about to get its first name (O_TMPFILE), as
// the close of a new file does: a power cut leaves it whole, or without the name.
func (f *FS) syncUnnamed(n *inode, path string) unix.Errno {
	if f.store == nil || !n.isRegular() || f.settings(path).Mode != policy.Atomic || !f.unnamed(n) {
		return 0
	}
	fd, err := f.reopen(f.fdOf(n), unix.O_RDONLY)
	if err != nil {
		fd, err = f.reopen(f.fdOf(n), unix.O_WRONLY)
	}
	if err != nil {
		return 0 // its owner may neither read nor write it, and neither may we
	}
	defer unix.Close(fd)
	return errnoOf(f.store.Sync(fd, false))
}

// mayLink decides whether n is what the caller wants to give a further name. If the file
// was replaced since the caller has found it, or its node has become a stranger's shadow,
// a second walk finds the file.
func (f *FS) mayLink(c *caller, h *Request, k *kernelNode, n *inode, repeated bool) unix.Errno {
	again := c.tid != 0 && !repeated
	switch {
	case f.strangerAt(h, k), f.leftBehind(n):
		if !again {
			return unix.EBUSY
		}
	case f.unnamed(n) && f.isKept(n), f.isSuperseded(n):
		if !again {
			return unix.ENOENT // linkat(2), of a file that has lost its last name
		}
	default:
		return 0
	}
	return f.staleAt(c, n)
}

func (f *FS) linkat(fd, dirfd int, name string) error {
	err := unix.Linkat(fd, "", dirfd, name, unix.AT_EMPTY_PATH)
	if err == unix.ENOENT || err == unix.EPERM {
		err = unix.Linkat(f.procfd, procName(fd), dirfd, name, unix.AT_SYMLINK_FOLLOW)
	}
	return err
}
