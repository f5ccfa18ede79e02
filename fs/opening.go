package fs

import (
	"time"

	"golang.org/x/sys/unix"

	"latchfs/fs/syscalls"
	"latchfs/lockmgr"
	"latchfs/lockmgr/policy"
)

// opening is one OPEN for writing being carried out.
type opening struct {
	*opens
	c      *caller
	in     *OpenRequest
	out    *Opened
	k      *kernelNode // at which the kernel arrived
	n      *inode      // for which it stood then
	set    policy.Settings
	cancel <-chan struct{}

	// repeated: the kernel has walked the path a second time already and will
	// not do so again, so that the caller cannot be led to another node.
	repeated bool
}

// begin starts a session on the committed file and gives the caller its shadow:
// at this very node if nobody else has that open, at another one by a second
// walk otherwise.
func (o *opening) begin() unix.Errno {
	c, n := o.c, o.n
	dir, name := o.nodes.nameOf(n)
	if dir == nil {
		if o.kernel.behind(o.k) != n {
			// It was the shadow of a session that has ended meanwhile with nothing to save.
			return o.start()
		}
		return o.opens.openPlain(o.in, o.k, n, false, o.out) // removed
	}
	at := [2]dkey{{dir, name}}
	o.repeated = o.astray.walks.Repeated(c) || o.repeated
	w := o.opens.takeOpenWalk(c, o.k, n, at)
	if w != nil {
		o.repeated = true
		switch {
		case o.isForGone(w, at):
			o.endings.dropWalk(w)
			return o.opens.openPlain(o.in, o.k, n, false, o.out)
		case w.sess != nil && !w.Looked() && w.At == at:
			// No name was walked: the open went through a descriptor, or the
			// file is a mount point of its own.
			return o.takeOver(w.sess)
		case w.sess != nil || w.At != at:
			o.endings.dropWalk(w)
			w = nil
		}
	}
	if o.life.isStopping() {
		if e := o.parking.holdBack(&demand{c: c, op: opOpen, path: o.nodes.path(dir, name), wait: o.wait()}, o.cancel); e != 0 {
			o.endings.dropWalk(w)
			return e
		}
	}
	s := o.nodes.sessionOn(n, dir, name)
	if s != nil {
		o.endings.endIfUnmapped(s)
	}
	if s != nil && c.BelongsTo(s.who.Load()) && s.join() {
		o.endings.dropWalk(w) // the lock was for a session of its own
		return o.lead(s, at)
	}
	s, e := o.session(place{dir, name, n}, w)
	switch {
	case e != 0:
		return e
	case s == nil:
		return o.again()
	case o.repeated:
		return o.takeOver(s)
	case !o.txns.inPlaceNow(s) && c.TID() != 0 && o.sessions.isBase(n, s) && o.sessions.takeOver(o.k, s):
		return o.taken(s)
	}
	return o.lead(s, [2]dkey{s.dkey()})
}

// again has the caller walk again, for the reason that session says; one that will not do so
// is at a file that has gone live.
func (o *opening) again() unix.Errno {
	if o.repeated {
		return o.start()
	}
	return unix.ESTALE
}

// isForGone reports whether the caller, which has walked again, has a descriptor of a file that
// has no name any more, and means that file. A caller that came by a name must not cut it:
// somebody may be reading it.
func (o *opening) isForGone(w *walk, at [2]dkey) bool {
	if w.Looked() || w.from != o.k || !o.nodes.unnamed(o.n) {
		return false
	}
	return w.sess == nil || w.At != at || !o.sessions.isFollowed(o.k)
}

// takeOpenWalk returns what the caller was promised when it opened n before;
// an inode with several names may have been reached by another one.
func (op *opens) takeOpenWalk(c *caller, k *kernelNode, n *inode, at [2]dkey) *walk {
	w := op.astray.walks.Get(c)
	if w == nil || w.Op == opWait {
		return nil
	}
	if w.Op == opOpen {
		op.nodes.mu.Lock()
		same := w.from == k || w.sess != nil && n.shadow == w.sess
		op.nodes.mu.Unlock()
		if same && op.astray.walks.Remove(w) {
			return w
		}
	}
	return op.astray.walks.Take(c, opOpen, at)
}

// lead answers ESTALE so that the caller's second walk finds the shadow, or takes the node over
// for a caller that does not walk again. The session already counts the caller as a walker.
func (o *opening) lead(s *session, at [2]dkey) unix.Errno {
	if o.c.TID() == 0 || o.repeated {
		// Unknown threads cannot be told apart in their second walk.
		return o.takeOver(s)
	}
	o.astray.walks.Put(o.c, &walk{promise: promise{Op: opOpen, At: at}, sess: s, from: o.k})
	return unix.ESTALE
}

// wait is how long the open may wait for a lock.
func (o *opening) wait() time.Duration {
	if o.in.Flags&unix.O_NONBLOCK != 0 {
		return 0
	}
	return o.set.Wait
}

// session waits for the lock and begins a session on the file that has the node's name p by
// then; w is the caller's earlier place in the queue, if any. A nil session without an errno
// means that the caller is to walk again: the name is gone, and its lock is reserved for what
// the caller makes of that, or the file has gone live.
func (o *opening) session(p place, w *walk) (*session, unix.Errno) {
	c := o.c
	d := o.locks.fileDemand(c, opOpen, o.wait(), p)
	d.label = labelOf(c, opOpen, d.path)
	l, e := o.parking.lockOrResume(d, [2]dkey{p.key()}, w, o.cancel)
	if e != 0 {
		return nil, e
	}
	var st unix.Stat_t
	err := unix.Fstatat(o.nodes.fdOf(p.dir), p.name, &st, unix.AT_SYMLINK_NOFOLLOW)
	if err == nil && st.Mode&unix.S_IFMT == unix.S_IFREG && o.n.key != (inoKey{uint64(st.Dev), st.Ino}) {
		// The kernel has checked another file.
		if e := o.callers.mayOpenName(c, p.dir, p.name, &st, o.in.Flags); e != 0 {
			err = e
		}
	}
	begins := beginOptions{settings: o.set, killSuid: o.in.KillSuid}.access(o.in.Flags)
	switch gone := err == unix.ENOENT || err == nil && st.Mode&unix.S_IFMT != unix.S_IFREG; {
	case gone && o.repeated:
		o.rules.table.Release(l)
		if call, known := c.Syscall(); known && syscalls.Creates(call) {
			return nil, unix.EBUSY // it would have to begin anew, with a create
		}
		return nil, unix.ENOENT
	case gone:
		return nil, o.opens.reserve(d, l, o.k)
	case err != nil:
		o.rules.table.Release(l)
		return nil, errnoOf(err)
	case o.rules.wentLive(&st) || o.rules.settings(d.path).Mode == policy.Live || o.contents.isNameUnreadable(p.dir, p.name):
		e := o.losses.mayUseLive(c, opOpen, p, &st, &begins)
		o.rules.table.Release(l)
		switch {
		case e != 0:
			return nil, e
		case o.repeated && o.n.key == (inoKey{uint64(st.Dev), st.Ino}):
			return nil, 0 // the kernel is there already
		case o.repeated:
			return nil, o.reports.refuseWith(c, opOpen, d.path, unix.EBUSY,
				"The file was replaced several times while the program was opening it", "Run the command again.")
		}
		o.astray.staleAt(c, o.n)
		return nil, 0
	}
	s, e := o.sessions.beginOrJoin(c, l, p, &st, begins)
	if e != 0 {
		o.rules.table.Release(l)
	}
	if e == unix.ESTALE {
		if o.repeated {
			return nil, unix.EBUSY
		}
		o.astray.staleAt(c, o.n)
		return nil, 0
	}
	return s, e
}

// reserve keeps the lock for the caller's second walk.
func (op *opens) reserve(d *demand, l *lockmgr.Lock, from *kernelNode) unix.Errno {
	c := d.c
	if c.TID() == 0 {
		op.rules.table.Release(l)
		return unix.ENOENT
	}
	op.astray.walks.Put(c, &walk{promise: promise{Op: opOpen, At: [2]dkey{d.places[0].key()}, Unparked: true}, d: d, lock: l, from: from})
	return 0
}

// shadow joins the session whose shadow the node is. If that has just ended, the open begins
// anew.
func (o *opening) shadow(s *session) unix.Errno {
	w := o.astray.walks.Get(o.c)
	led := w != nil && w.sess == s && o.astray.walks.Remove(w)
	if !led {
		o.endings.endIfUnmapped(s) // what comes is another version
	}
	h, e := o.sessions.attach(s, o.c, o.k, o.in.Flags, o.out)
	if led {
		o.repeated = true
		o.endings.walkerGone(s)
	}
	switch {
	case e == unix.ESTALE && o.rules.isAutoLive(o.n):
		return o.opens.openPlain(o.in, o.k, o.n, true, o.out)
	case e == unix.ESTALE && !s.isDetached():
		// The session has just ended: this open begins the next.
		return o.begin()
	case e != 0:
		return e
	}
	o.out.Handle = h.id
	return 0
}
