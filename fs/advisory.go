package fs

import (
	"errors"
	"slices"

	"golang.org/x/sys/unix"

	"latchfs/fs/access"
	"latchfs/fs/advisory"
	"latchfs/fs/lockkey"
	"latchfs/fs/reach"
	"latchfs/lockmgr"
	"latchfs/lockmgr/policy"
	"latchfs/lockmgr/proc"
)

// advisoryEngine is the filesystem as package advisory needs it, and a handle an open file.
type advisoryEngine struct{ f *FS }

var (
	_ advisory.Engine = advisoryEngine{}
	_ advisory.Caller = (*caller)(nil)
	_ advisory.File   = (*handle)(nil)
)

// openAdvisory makes what keeps the locks that programs take by themselves. The policy, the
// processes and the lock table are known.
func (f *FS) openAdvisory() {
	f.locks.advisory = advisory.New(advisory.Config{
		Engine: advisoryEngine{f}, Table: f.rules.table, Policy: f.rules.policy, Procs: f.callers.proc, Logf: f.disk.log.Debugf, Done: f.life.done,
	})
}

// MayWrite implements advisory.Engine.
func (e advisoryEngine) MayWrite(c advisory.Caller, file advisory.File) bool {
	return reach.May(c.(*caller).User(), e.f.nodes.fdOf(file.(*handle).n), access.Write)
}

// MayClaim implements advisory.Engine.
func (e advisoryEngine) MayClaim(c advisory.Caller, path string) bool {
	return e.f.disk.root().MayClaim(c.(*caller).User(), &lockkey.Target{Paths: []string{path}}) == nil
}

// KeyAt implements advisory.Engine.
func (e advisoryEngine) KeyAt(path string) (lockmgr.Key, bool) {
	keys, _ := e.f.rules.keysOfTarget(&lockkey.Target{Paths: []string{path}})
	for _, k := range keys {
		if lockkey.IsInode(k) {
			return k, true
		}
	}
	return "", false
}

// LocksBytes implements advisory.Engine. A file goes live whose writer takes byte-range
// locks: that is how a database under a name nobody foresaw shows itself.
func (e advisoryEngine) LocksBytes(file advisory.File) unix.Errno {
	h := file.(*handle)
	s := h.sess
	if s == nil || h.kind != shadowHandle || h.flags&unix.O_ACCMODE != unix.O_RDWR {
		return 0
	}
	return e.f.commits.autoLive(s, "a byte-range lock on a read-write descriptor")
}

// demand is what is asked for as the filesystem asks for it.
func (e advisoryEngine) demand(a *advisory.Ask) *demand {
	d := &demand{
		c: a.By.(*caller), op: opFcntl, path: a.Path, handle: a.File.(*handle),
		lockTerms: lockTerms{mode: a.Mode, class: a.Class, client: a.Client.ID, span: a.Range, ttl: e.f.rules.settings(a.Path).TTL, weak: a.Weak}, wait: -1, owner: a.Owner, lineage: a.Lineage,
	}
	if a.Class == lockmgr.Flock {
		d.op = opFlock
	}
	if s := d.handle.sess; s != nil && d.c.Foreign() { // the open file is all that tells whose it is
		if o := s.who.Load().Owner(); o.PID == 0 {
			d.owner = &o
		}
	}
	return d
}

// Acquire implements advisory.Engine.
func (e advisoryEngine) Acquire(a *advisory.Ask) (*lockmgr.Lock, unix.Errno) {
	f, d := e.f, e.demand(a)
	l, err := f.locks.acquireOrClosed(d, a.NoWait)
	switch {
	case errors.Is(err, lockmgr.ErrWouldBlock):
		return nil, unix.EAGAIN // the program asked; it is no refusal
	case err != nil:
		return nil, f.locks.refuse(d, err)
	case l.Token() == 0: // a granted one may have become part of another thread's lock by now
		return f.locks.await(l, d, a.Cancel)
	}
	return l, 0
}

// Test implements advisory.Engine.
func (e advisoryEngine) Test(a *advisory.Ask, k lockmgr.Key) *lockmgr.Holder {
	r := e.f.locks.request(e.demand(a), true)
	r.Keys = []lockmgr.Key{k}
	return e.f.rules.table.Test(r)
}

// ID implements advisory.File.
func (h *handle) ID() uint64 { return h.id }

// Inode implements advisory.File.
func (h *handle) Inode() *advisory.Inode { return &h.n.advisory }

// InodeKey implements advisory.File.
func (h *handle) InodeKey() lockmgr.Key { return h.handles.rules.inodeKey(h.n) }

// IsWritable implements advisory.File.
func (h *handle) IsWritable() bool { return h.flags&unix.O_ACCMODE != unix.O_RDONLY }

// IsTold implements advisory.File.
func (h *handle) IsTold() bool { return !h.noFlush }

// Opens implements advisory.File.
func (h *handle) Opens(pid int32) (int, error) {
	w, r, err := h.handles.callers.proc.Opens(pid, h.procFile())
	return w + r, err
}

// LiveKey implements advisory.File.
func (h *handle) LiveKey(path string) (lockmgr.Key, bool) {
	if h.handles.nodes.isLivePath(path) {
		// Who opened the file before it went live has another inode, and means this one.
		if k, ok := h.handles.nodes.named(h.n); ok {
			return k.lockKey(), true
		}
	}
	if h.handles.rules.settings(path).Mode == policy.Live || h.handles.rules.isAutoLive(h.n) {
		return h.handles.rules.inodeKey(h.n), true
	}
	return "", false
}

// Standing implements advisory.File.
func (h *handle) Standing() advisory.Standing {
	n := h.n
	is := h.handles.standing(n)
	out := advisory.Standing{Regular: n.isRegular(), Linked: is.linked, Overtaken: is.overtaken}
	switch {
	case is.sess != nil:
		out.InSession, out.Path = true, is.sess.path()
	case is.parent == nil:
		out.Unnamed = true
	default:
		out.Unnamed, out.Path = is.unlinked, h.handles.nodes.path(is.parent, is.name)
	}
	return out
}

// standing is how an inode stands to its name.
type standing struct {
	parent   *inode
	name     string
	sess     *session
	replaced bool // a newer version has the name, or will in a moment
	// overtaken: that version is another file, which was renamed.
	overtaken bool
	unlinked  bool // the name was taken from it by anything else
	linked    bool // it has other names, of which none is the history's
}

// standing looks at all of it together, for a save may begin or end between two looks.
func (hs *handles) standing(n *inode) standing {
	for {
		hs.nodes.mu.Lock()
		is := n.standingLocked()
		hs.nodes.mu.Unlock()
		unlinked, linked := false, false
		if n.isRegular() && !is.replaced {
			unlinked = hs.nodes.unnamed(n)
			_, linked = hs.rules.linkKey(n)
		}
		hs.nodes.mu.Lock()
		same := n.standingLocked() == is
		hs.nodes.mu.Unlock()
		if same {
			is.unlinked, is.linked = unlinked, linked
			return is
		}
	}
}

func (n *inode) standingLocked() standing {
	// An appender may have come to a shadow that was never published.
	parent, name := n.namedLocked()
	is := standing{parent: parent, name: name, sess: n.sess, replaced: n.saved || n.orphan, overtaken: n.saved && n.overtaken}
	if is.sess != nil && is.sess.removed {
		is.sess, is.replaced = nil, false
	}
	return is
}

// procFile is what the handle has open as /proc shows it.
func (h *handle) procFile() proc.File { return h.handles.procFileAt(h.k, h.n) }

// procFileAt is n as /proc shows it to processes that have opened it at the node k. The kernel
// may still know that by a number from before: that of the version from which n was made.
func (hs *handles) procFileAt(k *kernelNode, n *inode) proc.File {
	file := hs.procFile(n)
	hs.nodes.mu.Lock()
	earlier := slices.Clone(k.numbers)
	hs.nodes.mu.Unlock()
	for _, key := range earlier {
		file.Also = append(file.Also, hs.disk.inoFor(key.dev, key.ino))
	}
	return file
}

// procFile is n as /proc shows it to processes that have it open.
func (hs *handles) procFile(n *inode) proc.File {
	hs.nodes.mu.Lock()
	key := n.key
	if n.shownAs != (inoKey{}) {
		key = n.shownAs
	}
	hs.nodes.mu.Unlock()
	return proc.File{Dev: hs.disk.mountDev, Ino: hs.disk.inoFor(key.dev, key.ino), MountID: hs.disk.mountID}
}
