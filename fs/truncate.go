package fs

import (
	"golang.org/x/sys/unix"

	"latchfs/lockmgr"
	"latchfs/lockmgr/policy"
)

// truncatePath is truncate(2): a session of one operation. The kernel is led
// to the shadow, so that readers of the old version never see its size change.
func (f *FS) truncatePath(in *SetAttrRequest, k *kernelNode, p place, set policy.Settings) unix.Errno {
	c, n := f.callerOf(&in.Request), p.inode
	at := [2]dkey{p.key()}
	d := f.fileDemand(c, opTruncate, set.Wait, p)
	d.label = c.label(opTruncate, d.path)
	if w := f.walks.Get(c); w != nil && w.Op == opTruncate && w.At == at && w.sess != nil && !w.Looked() && f.walks.Remove(w) {
		if f.unnamed(n) {
			f.dropWalk(w)
			size, _ := in.size()
			return f.setattrPlain(in, n, size, true)
		}
		// No name was walked: the file's own node has to do.
		return f.truncateHere(c, in, k, d, w.sess)
	}
	// The second walk may have come to another file: the two have changed places meanwhile.
	ledBefore := f.walks.Repeated(c)
	if s := f.sessionOn(n, p.dir, p.name); s != nil && c.kinOf(s.who.Load()) && c.tid != 0 && s.join() {
		if ledBefore {
			return f.truncateHere(c, in, k, d, s)
		}
		f.walks.Put(c, &walk{promise: promise{Op: opTruncate, At: at}, sess: s})
		return unix.ESTALE
	}
	var l *lockmgr.Lock
	granted := func(w *walk) unix.Errno { return f.leadTruncate(c, w, d, at, p.dir, p.name, set) }
	l, e := f.admit(c, opTruncate, d, at, []*inode{p.dir}, granted)
	if e != 0 {
		return e
	}
	w := &walk{promise: promise{Op: opTruncate, At: at}, lock: l}
	if e := f.leadTruncate(c, w, d, at, p.dir, p.name, set); e != 0 {
		f.table.Release(l)
		return e
	}
	if c.tid == 0 || ledBefore {
		return f.truncateHere(c, in, k, d, w.sess)
	}
	f.walks.Put(c, w)
	return unix.ESTALE
}

// truncateHere truncates at the file's own node, for a caller who cannot be led
// to another.
func (f *FS) truncateHere(c *caller, in *SetAttrRequest, k *kernelNode, d *demand, s *session) unix.Errno {
	defer s.walkerGone()
	if !f.mayTakeOver(c, d.places[0].inode, s, unix.O_WRONLY) {
		return unix.EACCES
	}
	if !f.takeOver(k, s) {
		return f.refuse(d, errNodeShared)
	}
	f.dropName(s.where())
	size, _ := in.size()
	return s.truncate(int64(size), in.Set&SetKillSuid != 0)
}

// leadTruncate begins the session of a truncate whose lock is granted and
// makes it the target of the walk.
func (f *FS) leadTruncate(c *caller, w *walk, d *demand, at [2]dkey, dir *inode, name string, set policy.Settings) unix.Errno {
	var st unix.Stat_t
	if err := unix.Fstatat(f.fdOf(dir), name, &st, unix.AT_SYMLINK_NOFOLLOW); err != nil {
		return errnoOf(err) // removed while we waited
	}
	if st.Mode&unix.S_IFMT != unix.S_IFREG {
		return unix.EBUSY
	}
	if d.places[0].inode.key != (inoKey{uint64(st.Dev), st.Ino}) {
		// The kernel has checked another file.
		if e := f.mayOpenName(c, dir, name, &st, unix.O_WRONLY); e != 0 {
			return e
		}
	}
	s, e := f.beginOrJoin(c, w.lock, place{dir, name, nil}, &st, beginOptions{settings: set, cuts: true, flags: unix.O_WRONLY})
	if e != 0 {
		return e
	}
	f.leadTo(w, s)
	return 0
}
