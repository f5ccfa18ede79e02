package fs

import (
	"errors"
	"fmt"
	"slices"
	"time"

	"golang.org/x/sys/unix"

	"latchfs/fs/denied"
	"latchfs/lockmgr"
	"latchfs/lockmgr/proc"
)

// takeOver serves a session on the committed file's own node, for a caller
// who cannot be led to another: one without a thread id that we know, one that
// opens through a descriptor, or a file that is itself a mount point. That is
// possible as long as nobody else has the node open. The session already
// counts the caller as a walker.
func (o *opening) takeOver(s *session) unix.Errno {
	e, gone := o.takeOverUnlessGone(s)
	o.endings.walkerGone(s)
	if gone {
		o.repeated = true
		return o.begin()
	}
	return e
}

// takeOverUnlessGone is takeOver, but for what follows. gone says that the session has lost its
// name before the caller could open it, to a thief above all: there is nothing to wait for then,
// and the open begins anew.
func (o *opening) takeOverUnlessGone(s *session) (e unix.Errno, gone bool) {
	if !o.sessions.mayTakeOver(o.c, o.n, s, o.in.Flags) {
		return unix.EACCES, false
	}
	var err error
	switch {
	case o.sessions.takeOver(o.k, s):
		o.names.dropName(s.where())
	case s.hasLostName():
		return 0, true
	case !o.isOwn():
		err = o.takeOverSoon(s)
	case o.onlyWrites():
		return o.attachBeside(s), false
	default:
		err = errNodeShared // it would wait for its own end
	}
	switch {
	case err == errSessionLeft:
		return 0, true
	case err != nil:
		return o.locks.refuse(&demand{c: o.c, op: opOpen, path: s.path()}, err), false
	}
	return o.attach(s), false
}

// errSessionLeft ends the wait for a node whose session is over.
var errSessionLeft = errors.New("the session has lost its name")

// errNodeShared refuses an open for writing through a descriptor, or a bind mount, of a file
// that others have open.
var errNodeShared = errors.New("the file is open, and was opened anew through a descriptor (/dev/stdin, /proc/self/fd) or a bind mount of the file alone")

// errSharedNow is errNodeShared for an open that may not wait.
var errSharedNow = fmt.Errorf("%w: %w", lockmgr.ErrWouldBlock, errNodeShared)

// isOwn reports whether the caller has the node open itself.
func (o *opening) isOwn() bool {
	if o.c.TID() == 0 {
		return false
	}
	w, r, err := o.callers.proc.Opens(o.c.Owner().PID, o.handles.procFileAt(o.k, o.n))
	return err == nil && w+r > 0
}

// onlyWrites reports whether the open may be served beside others of its node: what it writes
// comes to us, and goes to the shadow. One that also reads could be mapped, which the kernel
// does without asking, and to the file that the others have open; and where one appends, the
// kernel takes the file's size for it.
func (o *opening) onlyWrites() bool {
	return o.in.Flags&(unix.O_ACCMODE|unix.O_APPEND) == unix.O_WRONLY
}

// attachBeside serves the session to its writer at the node of the committed file, which the
// writer has open itself: a script that writes to /dev/stderr, when that is the file. Its other
// descriptors keep the file, and so do those of others, to whom the file may look empty for a
// moment; whoever looks its name up gets another node.
func (o *opening) attachBeside(s *session) unix.Errno {
	o.names.setAside(o.k)
	if dir, name := s.where(); !o.nodes.isMountpoint(dir, name) {
		o.kernel.forgetName(dir, name) // OPEN is sent without the directory's lock
	}
	h, e := o.sessions.attachBeside(s, o.c, o.k, o.in.Flags, o.out)
	if e != 0 {
		return e
	}
	o.out.Handle = h.id
	// The kernel takes what is cut and written through this node for the others' file.
	go o.kernel.srv.InodeNotify(o.k.id, -1, 0)
	return 0
}

func (o *opening) attach(s *session) unix.Errno {
	h, e := o.sessions.attach(s, o.c, o.k, o.in.Flags, o.out)
	if e != 0 {
		return e
	}
	o.out.Handle = h.id
	return 0
}

// isBase reports whether n is the file that the session replaces, and not an
// earlier version on which the caller arrived: the kernel has checked the
// permissions of n.
func (ss *sessions) isBase(n *inode, s *session) bool {
	ss.nodes.mu.Lock()
	defer ss.nodes.mu.Unlock()
	return n.key == s.baseKey
}

// mayTakeOver checks the permissions of the file that the session replaces, which
// its shadow has, too, where the kernel could not.
func (ss *sessions) mayTakeOver(c *caller, n *inode, s *session, flags uint32) bool {
	return ss.isBase(n, s) || c.MayOpen(ss.nodes.fdOf(s.inode), flags)
}

// taken answers the open of a node that has become the session's: nobody
// else had it open, so the caller need not be led to another. Everybody else
// must find the committed file under the name before the caller writes.
func (o *opening) taken(s *session) unix.Errno {
	defer o.endings.walkerGone(s)
	dir, name := s.where()
	o.kernel.forgetName(dir, name) // OPEN is sent without the directory's lock
	return o.attach(s)
}

// takeOverSoon waits until nobody else has the node open any more. From now on
// everybody who looks the name up gets another node for the committed inode, so
// that only those are waited for who have it open already. A program that may not wait and
// tries again by the name (Samba does, each second) is not kept out by them any more.
func (o *opening) takeOverSoon(s *session) error {
	k := o.k
	o.names.setAside(k)
	if o.in.Flags&unix.O_NONBLOCK != 0 {
		return errSharedNow
	}
	timeout := time.NewTimer(s.settings.Wait)
	defer timeout.Stop()
	defer o.parking.showNodeWait(&nodeWait{c: o.c, path: s.path(), mode: s.heldLock().Request().Mode, since: time.Now(), until: time.Now().Add(s.settings.Wait)})()
	again := time.NewTicker(retakePoll)
	defer again.Stop()
	cancel, signalled := o.cancel, false
	for {
		o.nodes.mu.Lock()
		if k.idle == nil {
			k.idle = make(chan struct{})
		}
		idle := k.idle
		o.nodes.mu.Unlock()
		if o.sessions.takeOver(k, s) {
			o.names.dropName(s.where())
			return nil
		}
		select {
		case <-idle:
		case <-s.left:
			return errSessionLeft
		case <-again.C:
			// A process of the owner was led to the shadow's own node meanwhile. The kernel
			// knows that until it forgets the name.
			o.names.dropName(s.where())
			if o.pending(signalled).Ends(false, true) { // the kernel announces the first signal alone
				return denied.ErrInterrupted
			}
		case <-timeout.C:
			return errNodeShared
		case <-cancel:
			cancel, signalled = nil, true
			if o.pending(signalled).Ends(true, true) {
				return denied.ErrInterrupted
			}
		case <-o.life.timeUp:
			return denied.ErrShutdown
		}
	}
}

// pending is what the signals mean that the caller has pending, once one was announced.
func (o *opening) pending(signalled bool) proc.Pending {
	if !signalled {
		return proc.NoReason
	}
	return o.callers.proc.Pending(o.c.TID())
}

// isFollowed reports whether k stands for a version that a session has replaced: to programs
// that is the file itself, written, and whoever opens a descriptor of it anew means what has
// its name.
func (ss *sessions) isFollowed(k *kernelNode) bool {
	ss.nodes.mu.Lock()
	defer ss.nodes.mu.Unlock()
	return k.in.saved && k.in.written && !k.in.removed
}

// retakePoll is how often a node is tried again that cannot be taken over for
// what no event ends: what the kernel remembers of the shadow's own node.
const retakePoll = 20 * time.Millisecond

// takeOver makes k the node of the session's shadow. The committed inode gets another
// node the next time that somebody looks its name up.
func (ss *sessions) takeOver(k *kernelNode, s *session) bool {
	// Whoever opens it from now on must not get the committed inode's backing
	// file: that is dropped before anybody sees the change.
	k.io.Pause()
	defer k.io.Resume()
	ss.nodes.mu.Lock()
	defer ss.nodes.mu.Unlock()
	base, shadow := k.in, s.inode
	if base == shadow {
		return true
	}
	if base.sess != nil || k.opens > 0 || s.over || ss.awaitedLocked(base) || len(shadow.nodes) > 0 {
		return false
	}
	if k.holds > 0 {
		k.was = append(k.was, base)
		base.pins++
	}
	if k.former == nil {
		k.former = base
		base.pins++
	}
	ss.kernel.partLocked(k)
	k.in, shadow.nodes = shadow, []*kernelNode{k}
	k.aside = false
	shadow.renamed = base.renamed // who is on the way to k may have come by a name that it has lost
	// The pages of the committed version go when the open is answered without
	// FOPEN_KEEP_CACHE.
	k.io.Forget(ss.kernel)
	return true
}

// awaitedLocked reports whether somebody who was told to walk again may be on
// its way to n, by its name or by one that it has lost lately: it could not be told so twice.
// nodes.mu is held.
func (ss *sessions) awaitedLocked(n *inode) bool {
	if n.parent == nil {
		return false
	}
	if n.renamed != nil && slices.ContainsFunc(n.renamed.lost, ss.expectedLocked) {
		return true
	}
	return ss.expectedLocked(dkey{n.parent, n.dentry.Name()})
}

// expectedLocked reports whether somebody who was told to walk again may come by a name.
// nodes.mu is held.
func (ss *sessions) expectedLocked(name dkey) bool {
	dir := name.knownDir()
	if dir == nil {
		return false
	}
	d := ss.nodes.dentries.Find(dir.dentry, name.name)
	return d != nil && d.State.stale > 0 || ss.astray.strayed.Expects(name)
}
