package fs

import (
	"errors"
	"math"
	"slices"

	"github.com/hanwen/go-fuse/v2/fuse"
	"golang.org/x/sys/unix"

	"latchfs/fs/access"
	"latchfs/fs/lockkey"
	"latchfs/fs/reach"
	"latchfs/lockmgr"
	"latchfs/lockmgr/policy"
	"latchfs/lockmgr/policy/lockfile"
)

// flock(2), fcntl(2) and open file description locks live in the same table as
// the sessions: a file locked with LOCK_EX keeps other owners' sessions out,
// and a session keeps others' flock waiting. On live files, which have no
// sessions, the locks belong to the inode as they do on a plain directory; on
// all others to the name, so that a file replaced under its lock stays locked.

// clientKey is the lock table's name for client locks on an inode. A flock is on
// what the policy makes the file share; ranges of bytes are of the file alone.
func (f *FS) clientKey(n *inode, class lockmgr.Class) lockmgr.Key {
	is := f.standing(n)
	if class == lockmgr.Flock {
		if k, ok := f.standsForKey(&is); ok {
			return k
		}
	}
	if is.sess != nil {
		return f.clientName(is.sess.path(), class)
	}
	if is.parent == nil || !n.isRegular() || is.unlinked {
		return f.inodeKey(n)
	}
	path := f.path(is.parent, is.name)
	if f.isLivePath(path) {
		// Who opened the file before it went live has another inode, and means this one.
		if k, ok := f.named(n); ok {
			return k.lockKey()
		}
	}
	if f.settings(path).Mode == policy.Live || f.isAutoLive(n) {
		return f.inodeKey(n)
	}
	if is.linked {
		return f.inodeKey(n)
	}
	return f.clientName(path, class)
}

// standing is how an inode stands to its name.
type standing struct {
	parent   *inode
	name     string
	sess     *session
	replaced bool // a newer version has the name, or will in a moment
	unlinked bool // the name was taken from it by anything else
	linked   bool // it has other names, of which none is the history's
}

// standing looks at all of it together, for a save may begin or end between two looks.
func (f *FS) standing(n *inode) standing {
	for {
		f.mu.Lock()
		is := n.standingLocked()
		f.mu.Unlock()
		unlinked, linked := false, false
		if n.isRegular() && !is.replaced {
			unlinked = f.unnamed(n)
			_, linked = f.linkKey(n)
		}
		f.mu.Lock()
		same := n.standingLocked() == is
		f.mu.Unlock()
		if same {
			is.unlinked, is.linked = unlinked, linked
			return is
		}
	}
}

func (n *inode) standingLocked() standing {
	// An appender may have come to a shadow that was never published.
	parent, name := n.namedLocked()
	return standing{parent: parent, name: name, sess: n.sess, replaced: n.saved || n.orphan}
}

func (f *FS) clientName(path string, class lockmgr.Class) lockmgr.Key {
	if class == lockmgr.Flock {
		return lockmgr.Key(f.policy.LockName(path))
	}
	return lockmgr.Key(path)
}

func (f *FS) lockDemand(in *fuse.LkIn, h *handle) *demand {
	d := &demand{
		c: f.callerOf(&in.InHeader), handle: h,
		mode: lockmgr.Shared, class: lockmgr.Posix, op: opFcntl, client: in.Owner, wait: -1,
		span: lockmgr.Range{Start: in.Lk.Start, End: min(in.Lk.End, math.MaxInt64)},
	}
	d.path = f.nodePath(h.n)
	d.ttl = f.settings(d.path).TTL
	if in.Lk.Typ == unix.F_WRLCK {
		d.mode = lockmgr.Exclusive
	}
	if in.LkFlags&fuse.LK_FLOCK != 0 {
		// The kernel gives its number for the open file to another one before RELEASE.
		d.class, d.op, d.span, d.client = lockmgr.Flock, opFlock, lockmgr.Whole, h.id
		f.noteLockAsked(h)
		f.attribute(d, h)
	}
	d.weak = !f.mayKeepOut(d.c, h) || d.class == lockmgr.Flock && !f.mayStandFor(d.c, h)
	return d
}

// mayStandFor reports whether a flock through h that stands for another file binds more than
// other lockers: the caller may lock that one.
func (f *FS) mayStandFor(c *caller, h *handle) bool {
	if c.uid == 0 || !f.policy.HasClaimFiles() {
		return true
	}
	is := f.standing(h.n)
	path, ok := f.standsFor(&is)
	if !ok {
		return true
	}
	return f.root().MayClaim(c.user(), &lockkey.Target{Paths: []string{path}}) == nil
}

// mayKeepOut reports whether a lock through h binds more than other lockers: the
// caller may write the file, or was given a descriptor to write it.
func (f *FS) mayKeepOut(c *caller, h *handle) bool {
	if c.uid == 0 || h.flags&unix.O_ACCMODE != unix.O_RDONLY {
		return true
	}
	return reach.May(c.user(), f.fdOf(h.n), access.Write)
}

// standsForKey is the key of a flock that stands for another file (requirement C4), whether
// or not that exists; false of one that stands for itself.
func (f *FS) standsForKey(is *standing) (lockmgr.Key, bool) {
	path, ok := f.standsFor(is)
	if !ok {
		return "", false
	}
	keys, _ := f.keysOfTarget(&lockkey.Target{Paths: []string{path}})
	for _, k := range keys {
		if lockkey.IsInode(k) {
			return k, true
		}
	}
	return f.clientName(path, lockmgr.Flock), true
}

// standsFor is the path of that file.
func (f *FS) standsFor(is *standing) (target string, ok bool) {
	var path string
	switch {
	case !f.policy.HasClaimFiles():
		return "", false
	case is.sess != nil:
		path = is.sess.path()
	case is.parent == nil || is.unlinked:
		return "", false
	default:
		path = f.path(is.parent, is.name)
	}
	rule := f.policy.ClaimFile(path)
	if rule == nil || rule.Format != lockfile.Flock {
		return "", false
	}
	t, err := rule.Target(path)
	return t.Path, err == nil
}

// attribute gives a flock to whom it belongs. It is a lock of the open file
// description, so where flock(1) was handed a descriptor (exec 3<f; flock 3),
// it is the shell's: the eldest of the caller's forebears in a row who have the
// file open.
func (f *FS) attribute(d *demand, h *handle) {
	if d.c.foreign() {
		return
	}
	file := f.procFile(h.n)
	lineage := d.c.ancestors()
	for i, a := range lineage {
		w, r, err := f.proc.Opens(a.Owner.PID, file)
		if err != nil || w+r == 0 {
			return
		}
		d.owner, d.lineage = &a.Owner, lineage[i+1:]
	}
}

// GetLk implements fuse.RawFileSystem (F_GETLK).
func (f *FS) GetLk(_ <-chan struct{}, in *fuse.LkIn, out *fuse.LkOut) fuse.Status {
	h := f.handleOf(in.Fh)
	if h == nil || isVirtual(in.NodeId) {
		return fuse.EBADF
	}
	out.Lk = in.Lk
	d := f.lockDemand(in, h)
	r := f.request(d, true)
	r.Keys = []lockmgr.Key{f.clientKey(h.n, d.class)}
	holder := f.table.Test(r)
	if holder == nil {
		out.Lk.Typ = unix.F_UNLCK
		return fuse.OK
	}
	out.Lk.Typ = unix.F_WRLCK
	if holder.Mode == lockmgr.Shared {
		out.Lk.Typ = unix.F_RDLCK
	}
	out.Lk.Start, out.Lk.End = 0, math.MaxInt64
	if holder.Class == lockmgr.Posix {
		out.Lk.Start, out.Lk.End = holder.Range.Start, holder.Range.End
	}
	out.Lk.Pid = uint32(holder.Owner.PID)
	return fuse.OK
}

// SetLk implements fuse.RawFileSystem (F_SETLK, LOCK_NB, and every unlock).
func (f *FS) SetLk(_ <-chan struct{}, in *fuse.LkIn) fuse.Status {
	return status(f.setlk(nil, in, true))
}

// SetLkw implements fuse.RawFileSystem (F_SETLKW, flock). It waits as long as
// the program asked to: until a signal.
func (f *FS) SetLkw(cancel <-chan struct{}, in *fuse.LkIn) fuse.Status {
	return status(f.setlk(cancel, in, false))
}

func (f *FS) setlk(cancel <-chan struct{}, in *fuse.LkIn, noWait bool) unix.Errno {
	h := f.handleOf(in.Fh)
	if h == nil {
		return unix.EBADF
	}
	d := f.lockDemand(in, h)
	if in.Lk.Typ == unix.F_UNLCK {
		for _, k := range h.lockKeys(f.clientKey(h.n, d.class), client{d.class, d.client}) {
			f.table.Unlock(k, d.class, d.client, d.span)
		}
		return 0
	}
	if d.class == lockmgr.Posix {
		f.mu.Lock()
		h.n.posix = true
		f.mu.Unlock()
		if e := f.liveByLock(h); e != 0 {
			return e
		}
	}
	f.noteClient(h, client{d.class, d.client}) // before the grant: see unlockHandle
	l, e := f.lockClient(h, d, cancel, noWait)
	if e != 0 {
		return e
	}
	h.rememberLock(l)
	f.readClaims.Locked(l.Owner(), d.path)
	if d.class == lockmgr.Posix {
		f.unlockAtEnd(h, in.Owner, d.c.owner)
	}
	return 0
}

// lockClient takes a program's own lock, under the key that the file has when it is
// granted: names may have changed hands while it was asked for, or waited for.
func (f *FS) lockClient(h *handle, d *demand, cancel <-chan struct{}, noWait bool) (*lockmgr.Lock, unix.Errno) {
	for {
		l, err := f.acquireOrClosed(d, noWait)
		if errors.Is(err, lockmgr.ErrWouldBlock) {
			return nil, unix.EAGAIN // the program asked; it is no refusal
		}
		if err != nil {
			return nil, f.refuse(d, err)
		}
		if l.Token() == 0 { // a granted one may have become part of another thread's lock by now
			var e unix.Errno
			if l, e = f.await(l, d, cancel); e != 0 {
				return nil, e
			}
		}
		have := l.Keys()
		if len(have) == 0 || slices.Contains(have, f.clientKey(h.n, d.class)) {
			return l, 0
		}
		f.table.Unlock(have[0], d.class, d.client, d.span)
	}
}

// unlockAtEnd drops a process's POSIX locks at its end where no FLUSH will tell
// of that: somebody who inherited the descriptor may keep it open.
func (f *FS) unlockAtEnd(h *handle, client uint64, owner lockmgr.Owner) {
	h.mu.Lock()
	known := !h.noFlush || h.ends[client]
	if !known {
		if h.ends == nil {
			h.ends = map[uint64]bool{}
		}
		h.ends[client] = true
	}
	h.mu.Unlock()
	if known {
		return
	}
	dead, stop, err := f.proc.Watch(owner)
	if err != nil {
		f.log.Debugf("the end of process %d cannot be watched: %v", owner.PID, err)
		return
	}
	go func() {
		defer stop()
		select {
		case <-dead:
			f.unlockPosix(h.n, client)
			h.mu.Lock()
			delete(h.ends, client)
			h.mu.Unlock()
		case <-f.done:
		}
	}()
}

// liveByLock makes a file live whose writer takes byte-range locks: that is
// how a database under a name nobody foresaw shows itself (DESIGN §4.5).
func (f *FS) liveByLock(h *handle) unix.Errno {
	s := h.sess
	if s == nil || h.kind != shadowHandle || h.flags&unix.O_ACCMODE != unix.O_RDWR {
		return 0
	}
	return s.autoLive("a byte-range lock on a read-write descriptor")
}

// isAutoLive reports whether the file went live by what its users do with it.
func (f *FS) isAutoLive(n *inode) bool {
	f.mu.Lock()
	defer f.mu.Unlock()
	return n.live
}
