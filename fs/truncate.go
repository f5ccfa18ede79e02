package fs

import (
	"golang.org/x/sys/unix"

	"latchfs/lockmgr"
	"latchfs/lockmgr/policy"
)

// truncatePath is truncate(2): a session of one operation. The kernel is led
// to the shadow, so that readers of the old version never see its size change.
func (ats *attrs) truncatePath(in *SetAttrRequest, k *kernelNode, p place, set policy.Settings) unix.Errno {
	c, n := ats.callers.callerOf(&in.Request), p.inode
	at := [2]dkey{p.key()}
	d := ats.locks.fileDemand(c, opTruncate, set.Wait, p)
	d.label = labelOf(c, opTruncate, d.path)
	if w := ats.astray.walks.Get(c); w != nil && w.Op == opTruncate && w.At == at && w.sess != nil && !w.Looked() && ats.astray.walks.Remove(w) {
		if ats.nodes.unnamed(n) {
			ats.endings.dropWalk(w)
			size, _ := in.size()
			return ats.setattrPlain(in, n, size, true)
		}
		// No name was walked: the file's own node has to do.
		return ats.truncateHere(c, in, k, d, w.sess)
	}
	// The second walk may have come to another file: the two have changed places meanwhile.
	ledBefore := ats.astray.walks.Repeated(c)
	if s := ats.nodes.sessionOn(n, p.dir, p.name); s != nil && c.BelongsTo(s.who.Load()) && c.TID() != 0 && s.join() {
		if ledBefore {
			return ats.truncateHere(c, in, k, d, s)
		}
		ats.astray.walks.Put(c, &walk{promise: promise{Op: opTruncate, At: at}, sess: s})
		return unix.ESTALE
	}
	var l *lockmgr.Lock
	granted := func(w *walk) unix.Errno { return ats.leadTruncate(c, w, d, at, p.dir, p.name, set) }
	l, e := ats.parking.admit(c, opTruncate, d, at, []*inode{p.dir}, granted)
	if e != 0 {
		return e
	}
	w := &walk{promise: promise{Op: opTruncate, At: at}, lock: l}
	if e := ats.leadTruncate(c, w, d, at, p.dir, p.name, set); e != 0 {
		ats.rules.table.Release(l)
		return e
	}
	if c.TID() == 0 || ledBefore {
		return ats.truncateHere(c, in, k, d, w.sess)
	}
	ats.astray.walks.Put(c, w)
	return unix.ESTALE
}

// truncateHere truncates at the file's own node, for a caller who cannot be led
// to another.
func (ats *attrs) truncateHere(c *caller, in *SetAttrRequest, k *kernelNode, d *demand, s *session) (e unix.Errno) {
	defer func() {
		if end := ats.endings.walkerGone(s); e == 0 {
			e = end // what is said of the empty file
		}
	}()
	if !ats.sessions.mayTakeOver(c, d.places[0].inode, s, unix.O_WRONLY) {
		return unix.EACCES
	}
	if !ats.sessions.takeOver(k, s) {
		return ats.locks.refuse(d, errNodeShared)
	}
	ats.names.dropName(s.where())
	size, _ := in.size()
	return ats.sessions.truncate(s, int64(size), in.Set&SetKillSuid != 0)
}

// leadTruncate begins the session of a truncate whose lock is granted and
// makes it the target of the walk.
func (ats *attrs) leadTruncate(c *caller, w *walk, d *demand, at [2]dkey, dir *inode, name string, set policy.Settings) unix.Errno {
	var st unix.Stat_t
	if err := unix.Fstatat(ats.nodes.fdOf(dir), name, &st, unix.AT_SYMLINK_NOFOLLOW); err != nil {
		return errnoOf(err) // removed while we waited
	}
	if st.Mode&unix.S_IFMT != unix.S_IFREG {
		return unix.EBUSY
	}
	if d.places[0].inode.key != (inoKey{uint64(st.Dev), st.Ino}) {
		// The kernel has checked another file.
		if e := ats.callers.mayOpenName(c, dir, name, &st, unix.O_WRONLY); e != 0 {
			return e
		}
	}
	s, e := ats.sessions.beginOrJoin(c, w.lock, place{dir, name, nil}, &st, beginOptions{settings: set, cuts: true, flags: unix.O_WRONLY})
	if e != 0 {
		return e
	}
	ats.parking.leadTo(w, s)
	return 0
}
