package fs

import (
	"time"

	"github.com/hanwen/go-fuse/v2/fuse"
	"golang.org/x/sys/unix"

	"latchfs/lockmgr"
)

// A create that meets another owner's uncommitted file must wait, but not in
// CREATE, which is sent under the directory's lock. It is answered ESTALE; the
// second walk finds a placeholder node, and the wait happens in the OPEN of
// that node, which then becomes the session's own.

// putStand leads the caller's second walk to a placeholder for name, queueing
// for the lock at once so that it keeps its place.
func (f *FS) putStand(c *caller, d *demand, l *lockmgr.Lock, dir *node, name string, mode uint32) unix.Errno {
	f.mu.Lock()
	n := f.newNodeLocked(-1, inoKey{}, unix.S_IFREG)
	n.hold = true
	n.pins++ // the walk's
	f.setNameLocked(n, dir, name)
	k := dkey{dir.id, name}
	ns := f.nameStateLocked(k)
	if ns.stands == nil {
		ns.stands = map[int32]*node{}
	}
	ns.stands[c.tid] = n
	f.stands[n] = standInfo{key: k, tid: c.tid, mode: mode}
	f.mu.Unlock()
	f.walks.put(&walk{tid: c.tid, start: c.start, op: opOpen, at: [2]dkey{k}, d: d, lock: l, stand: n})
	return unix.ESTALE
}

// standInfo is what a placeholder was made for.
type standInfo struct {
	key  dkey
	tid  int32
	mode uint32
}

// dropStand takes the placeholder out of its name's state.
func (f *FS) dropStand(n *node) {
	f.mu.Lock()
	defer f.mu.Unlock()
	f.dropStandLocked(n)
}

func (f *FS) dropStandLocked(n *node) {
	info, ok := f.stands[n]
	if !ok {
		return
	}
	delete(f.stands, n)
	if ns := f.names[info.key]; ns != nil && ns.stands[info.tid] == n {
		delete(ns.stands, info.tid)
		f.gcNameLocked(info.key)
	}
	f.unpinLocked(n)
}

// openStand waits for the name's lock and begins the session on the
// placeholder itself, so that the caller needs no third walk.
func (f *FS) openStand(cancel <-chan struct{}, c *caller, in *fuse.OpenIn, n *node, out *fuse.OpenOut) fuse.Status {
	w := f.walks.get(c)
	if w == nil || w.stand != n || !f.walks.remove(w) {
		return fuse.ENOENT
	}
	f.mu.Lock()
	info := f.stands[n]
	dir, name := n.parent, n.name
	f.mu.Unlock()
	defer f.dropStand(n)
	if e := f.await(w.lock, w.d, cancel); e != 0 {
		return status(e)
	}
	o := beginOptions{
		settings: f.settings(f.path(dir, name)), trunc: in.Flags&unix.O_TRUNC != 0,
		killSuid: in.Mode&fuse.OPEN_KILL_SUIDGID != 0, mode: info.mode, on: n,
	}
	var st unix.Stat_t
	base := &st
	if err := unix.Fstatat(f.fdOf(dir), name, &st, unix.AT_SYMLINK_NOFOLLOW); err == unix.ENOENT {
		base = nil
	} else if err != nil || st.Mode&unix.S_IFMT != unix.S_IFREG {
		f.table.Release(w.lock)
		return status(unix.EBUSY)
	}
	if base != nil && !f.mayWrite(c, base) {
		f.table.Release(w.lock)
		return fuse.EACCES
	}
	s, e := f.begin(c, w.lock, dir, name, base, o)
	if e != 0 {
		f.table.Release(w.lock)
		return status(e)
	}
	h, e := s.attach(c, in.Flags, out)
	if e != 0 {
		s.endIfIdle(nil)
		return status(e)
	}
	out.Fh = h.id
	return fuse.OK
}

// placeholderAttr are the attributes of a file that nobody has committed yet.
// Its permissions are open: the caller creates it, and is checked as one.
func (f *FS) placeholderAttr(st *unix.Stat_t) {
	*st = unix.Stat_t{Mode: unix.S_IFREG | 0o666, Nlink: 1, Ino: 1}
	now := unix.NsecToTimespec(time.Now().UnixNano())
	st.Atim, st.Mtim, st.Ctim = now, now, now
}

// mayWrite reports whether the caller may write a file that was committed
// while it waited in front of the placeholder, where the kernel could not
// check. Supplementary groups and ACLs are not looked at: when in doubt, no.
func (f *FS) mayWrite(c *caller, st *unix.Stat_t) bool {
	switch {
	case c.uid == 0:
		return true
	case c.uid == st.Uid:
		return st.Mode&0o200 != 0
	case c.gid == st.Gid:
		return st.Mode&0o020 != 0
	default:
		return st.Mode&0o002 != 0
	}
}
