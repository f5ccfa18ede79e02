package fs

import (
	"slices"
	"time"
)

const rootID = 1

// kernelNode is what the kernel knows by one node number, and takes for an inode of its
// own. It stands for a backing inode: for the same one as long as the kernel remembers it,
// unless a session takes it over (FS.takeOver), which nobody notices who does not have it
// open. A session that does not publish its shadow gives it back (FS.giveBack).
//
// An inode has one node, as a rule. It gets a second one if the first is set aside: then
// lookups lead to the second, and the first is left to those who came before.
type kernelNode struct {
	id uint64 // never reused, so that the kernel cannot take it for a later one

	// Guarded by FS.mu.
	in      *inode        // what it stands for
	nlookup uint64        // the kernel's references
	pins    int           // ours: walks that are led to it
	opens   int           // open handles
	beside  *session      // whose shadow is open here, too: see session.attachBeside
	idle    chan struct{} // closed when the last handle goes, if somebody waits
	aside   bool          // lookups lead to another node
	former  *inode        // taken over: the committed file's, pinned, until the session has published the shadow
	holds   int           // requests on it that run
	was     []*inode      // what it stood for when they began; pinned
	shown   time.Time     // when the kernel was last told of a name that leads to it, and may keep that
	numbers []inoKey      // the inode numbers under which it was shown to the kernel: the last few

	io ioState
}

// nodeOf is the node with a number, nil for one unknown.
func (f *FS) nodeOf(id uint64) *kernelNode {
	f.mu.Lock()
	defer f.mu.Unlock()
	return f.nodes[id]
}

// inodeOf is what the kernel means by the number of a node, nil for one unknown.
func (f *FS) inodeOf(id uint64) *inode {
	f.mu.Lock()
	defer f.mu.Unlock()
	if k := f.nodes[id]; k != nil {
		return k.in
	}
	return nil
}

// behind is what a node stands for now.
func (f *FS) behind(k *kernelNode) *inode {
	f.mu.Lock()
	defer f.mu.Unlock()
	return k.in
}

// meant is what a request on a node is about that names no open file: until the node of a
// shadow that was written into the file is given back (see giveBack), that is the file.
func (f *FS) meant(k *kernelNode) *inode {
	f.mu.Lock()
	defer f.mu.Unlock()
	if k.in.copied && k.former != nil {
		return k.former
	}
	return k.in
}

// newNodeLocked enters a node that stands for n. FS.mu is held.
func (f *FS) newNodeLocked(n *inode) *kernelNode {
	f.nextID++
	k := &kernelNode{id: f.nextID, in: n}
	f.nodes[k.id] = k
	n.nodes = append(n.nodes, k)
	return k
}

// plantRootLocked makes n the root of the mount. FS.mu is held.
func (f *FS) plantRootLocked(n *inode) {
	n.dentry = f.names.Root()
	n.dentry.State.dir = n
	k := &kernelNode{id: rootID, in: n, nlookup: 1}
	f.nodes[rootID], n.nodes = k, []*kernelNode{k}
}

// nodeLocked is the node to which lookups of n lead, nil if there is none. FS.mu is held.
func (n *inode) nodeLocked() *kernelNode {
	for _, k := range n.nodes {
		if !k.aside {
			return k
		}
	}
	return nil
}

// lookedUpLocked is the node to which lookups of n lead, with one reference more of the
// kernel's. FS.mu is held.
func (f *FS) lookedUpLocked(n *inode) *kernelNode {
	k := n.nodeLocked()
	if k == nil {
		k = f.newNodeLocked(n)
	}
	k.nlookup++
	return k
}

// lookedUp is lookedUpLocked.
func (f *FS) lookedUp(n *inode) *kernelNode {
	f.mu.Lock()
	defer f.mu.Unlock()
	return f.lookedUpLocked(n)
}

// isOpenLocked reports whether somebody has n open. FS.mu is held.
func (n *inode) isOpenLocked() bool {
	return slices.ContainsFunc(n.nodes, func(k *kernelNode) bool { return k.opens > 0 })
}

// Forget gives back references of the kernel's: each Entry was one.
func (f *FS) Forget(id, nlookup uint64) {
	if isVirtual(id) {
		f.virt.forget(id, nlookup)
		return
	}
	if k := f.nodeOf(id); k != nil {
		f.forget(k, nlookup)
	}
}

// forget gives references of the kernel's back.
func (f *FS) forget(k *kernelNode, nlookup uint64) {
	f.mu.Lock()
	defer f.mu.Unlock()
	f.forgetLocked(k, nlookup)
}

// forgetLocked is forget. FS.mu is held.
func (f *FS) forgetLocked(k *kernelNode, nlookup uint64) {
	k.nlookup -= min(nlookup, k.nlookup)
	f.dropNodeLocked(k)
}

// dropNodeLocked frees a node that neither the kernel nor we need any more. FS.mu is held.
func (f *FS) dropNodeLocked(k *kernelNode) {
	if k.nlookup > 0 || k.opens > 0 || k.pins > 0 || k.id == rootID || f.nodes[k.id] != k {
		return
	}
	delete(f.nodes, k.id)
	f.dropBacking(k)
	f.partLocked(k)
	f.dropFormerLocked(k)
}

// partLocked ends that a node stands for its inode. FS.mu is held.
func (f *FS) partLocked(k *kernelNode) {
	n := k.in
	n.nodes = slices.DeleteFunc(n.nodes, func(o *kernelNode) bool { return o == k })
	f.reapLocked(n)
}

// setAside lets later lookups of the inode lead to another node.
func (f *FS) setAside(k *kernelNode) {
	f.mu.Lock()
	k.aside = true
	parent, name := k.in.namedLocked()
	f.mu.Unlock()
	if parent != nil {
		f.dropName(parent, name)
	}
}

// A hold keeps the inode open that a node stands for when a request on it begins. The
// node may become a session's meanwhile (takeOver), and the file's old inode be forgotten:
// its descriptor is closed, and may be another file's, only when the request has ended.
type hold struct {
	f *FS
	k *kernelNode
}

func (f *FS) hold(id uint64) hold {
	f.mu.Lock()
	defer f.mu.Unlock()
	k := f.nodes[id]
	if k == nil || !k.in.isRegular() {
		return hold{} // what is no file is never taken over
	}
	k.holds++
	return hold{f, k}
}

func (h hold) end() {
	if h.k == nil {
		return
	}
	h.f.mu.Lock()
	defer h.f.mu.Unlock()
	if h.k.holds--; h.k.holds > 0 {
		return
	}
	for _, was := range h.k.was {
		h.f.unpinLocked(was)
	}
	h.k.was = nil
}

// forgetAttrs makes the kernel forget the attributes of n.
func (f *FS) forgetAttrs(n *inode) { f.notifyInode(n, -1, 0) }

// notifyInode is Kernel.InodeNotify for each node of n.
func (f *FS) notifyInode(n *inode, off, length int64) {
	for _, id := range f.nodesOf(n) {
		f.srv.InodeNotify(id, off, length)
	}
}

// forgetName makes the kernel forget a name in dir. It waits for the directory's lock.
func (f *FS) forgetName(dir *inode, name string) {
	for _, id := range f.nodesOf(dir) {
		f.srv.EntryNotify(id, name)
	}
}

// nodesOf are the numbers by which the kernel knows n.
func (f *FS) nodesOf(n *inode) []uint64 {
	f.mu.Lock()
	defer f.mu.Unlock()
	ids := make([]uint64, len(n.nodes))
	for i, k := range n.nodes {
		ids[i] = k.id
	}
	return ids
}
