package fs

import (
	"slices"

	"golang.org/x/sys/unix"

	"latchfs/fs/syscalls"
	"latchfs/journal/commit"
)

// Lookup finds what a name in a directory leads to. That depends on who asks only while a
// session is on the name.
func (op *opens) Lookup(_ <-chan struct{}, h *Request, name string, out *Entry) unix.Errno {
	if isVirtual(h.Node) || h.Node == rootID && name == op.disk.opts.LocksDir {
		return op.view.virt.lookup(h, name, out)
	}
	if commit.Reserved(name) {
		return unix.ENOENT
	}
	parent := op.kernel.inodeOf(h.Node)
	if parent == nil {
		return unix.ESTALE
	}
	op.astray.walks.LookedUp(h.TID, dkey{parent, name})
	k, volatile, e := op.resolve(h, parent, name)
	if e != 0 {
		return e
	}
	var st unix.Stat_t
	if k != nil && op.dropIfUnpublished(k, &st) {
		k, volatile = nil, true
	}
	if k == nil {
		if k, e = op.recovery.childOrDue(parent, name, &st); e == unix.ENOENT {
			// Node 0 with a NameTTL is a negative entry.
			if op.astray.walks.Any() || op.astray.walks.AnyLate() {
				op.parking.missing(op.callers.callerOf(h), dkey{parent, name})
			}
			if !volatile && !op.isBusyName(parent, name) && !op.losses.mayComeBack(parent, name) {
				out.NameTTL = entryTTL
			}
			return 0
		}
		if other, v := op.otherName(h, k, volatile); e == 0 && other != k {
			k, volatile = other, v
			e = op.names.stat(op.kernel.behind(k), &st)
		} else if e == 0 {
			volatile = v
		}
	} else {
		e = op.names.stat(op.kernel.behind(k), &st)
	}
	if e != 0 {
		return e
	}
	op.glance(parent, name, op.kernel.behind(k), &st)
	op.attrs.fillEntry(out, k, &st, volatile || op.isBusyName(parent, name))
	return 0
}

// dropIfUnpublished gives back the reference on a node that was just found, if its session is
// over and has left the shadow without a name. It reports whether it did.
func (op *opens) dropIfUnpublished(k *kernelNode, st *unix.Stat_t) bool {
	if e := op.names.stat(op.kernel.behind(k), st); e != 0 || st.Nlink > 0 {
		return false
	}
	op.nodes.mu.Lock()
	defer op.nodes.mu.Unlock()
	if k.in.sess != nil {
		return false
	}
	op.kernel.forgetLocked(k, 1)
	return true
}

// resolve finds the node that a name in session leads the caller to, with one
// reference taken. No node means the committed file; volatile, that the answer
// is this caller's alone. ENOENT is for names that their creator has not
// committed yet.
func (op *opens) resolve(h *Request, parent *inode, name string) (k *kernelNode, volatile bool, e unix.Errno) {
	op.nodes.mu.Lock()
	is := op.nodes.nameLocked(parent, name)
	op.nodes.mu.Unlock()
	if ticks := releaseTicks; is.sess != nil && op.endings.awaitRelease(is.sess, &ticks) {
		op.nodes.mu.Lock()
		is = op.nodes.nameLocked(parent, name)
		op.nodes.mu.Unlock()
	}
	if !is.busy() {
		return nil, false, 0
	}
	s, staged := is.sess, is.staged

	c := op.callers.callerOf(h)
	if w := op.astray.walks.Get(c); w != nil && w.At[0] == (dkey{parent, name}) {
		if target := op.walkTarget(w); target != nil {
			return target, true, 0
		}
	}
	if s != nil && c.BelongsTo(s.who.Load()) && !s.isLeft() {
		op.nodes.mu.Lock()
		defer op.nodes.mu.Unlock()
		k := op.kernel.ledLocked(s)
		return k, k != nil, 0
	}
	if s != nil {
		op.endings.endIfUnmapped(s)
		if k := op.leadTold(c, s); k != nil {
			return k, true, 0
		}
	}
	if staged != nil && staged.hides(c) {
		return nil, true, unix.ENOENT
	}
	return nil, s != nil || staged != nil, 0
}

// leadTold finds the shadow of a new file for a process that could not create the file because
// it is there, and goes on with the name: GNU tar removes it before it tries again, and touch(1)
// sets its times. To such a call the file has to be there, too: it waits for the session then.
// Only the first of several processes may remove the file, for the others would find it gone,
// or keep the first from making its own.
func (op *opens) leadTold(c *caller, s *session) *kernelNode {
	if !s.isNew.Load() {
		return nil
	}
	op.nodes.mu.Lock()
	at := slices.Index(s.told, c.Owner())
	op.nodes.mu.Unlock()
	if at < 0 {
		return nil
	}
	if call, known := c.Syscall(); !known || !(syscalls.SetsTimes(call) || at == 0 && syscalls.Removes(call)) {
		return nil
	}
	op.nodes.mu.Lock()
	defer op.nodes.mu.Unlock()
	return op.kernel.ledLocked(s)
}

// otherName leads to a session on another name of the same inode: the caller
// who is on its way there, and the session's family.
func (op *opens) otherName(h *Request, k *kernelNode, volatile bool) (*kernelNode, bool) {
	if k == nil {
		return nil, volatile
	}
	op.nodes.mu.Lock()
	s := k.in.shadow
	op.nodes.mu.Unlock()
	if s == nil || volatile {
		return k, volatile
	}
	c := op.callers.callerOf(h)
	led := false
	if w := op.astray.walks.Get(c); w != nil {
		op.astray.walks.Arrive(w, func() bool {
			led = w.sess == s
			return led
		})
	}
	if !led && (!c.BelongsTo(s.who.Load()) || s.isLeft()) {
		return k, true
	}
	op.nodes.mu.Lock()
	defer op.nodes.mu.Unlock()
	shadow := op.kernel.ledLocked(s)
	if shadow == nil {
		return k, true
	}
	op.kernel.forgetLocked(k, 1)
	return shadow, true
}

// walkTarget takes a reference on the node to which a walk is led.
func (op *opens) walkTarget(w *walk) *kernelNode {
	var s *session
	var k *kernelNode
	op.astray.walks.Arrive(w, func() bool {
		s, k = w.sess, w.node
		return true
	})
	op.nodes.mu.Lock()
	defer op.nodes.mu.Unlock()
	if k != nil && op.nodes.kernelNodes[k.id] == k {
		k.nlookup++
		return k
	}
	if s == nil {
		return nil
	}
	return op.kernel.ledLocked(s)
}

// isBusyName reports whether a session began on a name while we looked it up:
// its answer must not be cached then.
func (op *opens) isBusyName(dir *inode, name string) bool {
	op.nodes.mu.Lock()
	defer op.nodes.mu.Unlock()
	return op.nodes.isBusyNameLocked(dir, name)
}
