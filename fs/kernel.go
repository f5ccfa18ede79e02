package fs

import (
	"slices"
	"syscall"
	"time"

	"latchfs/fs/asuser"
	"latchfs/fs/iomode"

	"golang.org/x/sys/unix"
)

// kernel knows by which nodes the kernel knows inodes, and makes it forget what it keeps of
// them: names, attributes, pages and backing files.
type kernel struct {
	srv    Kernel
	nextID uint64 // guarded by nodes.mu

	disk  *disk
	nodes *nodes
	view  *view
}

const rootID = 1

// kernelNode is what the kernel knows by one node number, and takes for an inode of its
// own. It stands for a backing inode: for the same one as long as the kernel remembers it,
// unless a session takes it over (sessions.takeOver): only a process that has it open would
// notice that. A session that does not publish its shadow gives it back (names.giveBack).
//
// An inode has one node, as a rule. It gets a second one if the first is set aside: then
// lookups lead to the second, and the first is left to those who came before.
type kernelNode struct {
	id uint64 // never reused, so that the kernel cannot take it for a later one

	// Guarded by nodes.mu.
	in      *inode        // what it stands for
	nlookup uint64        // the kernel's references
	pins    int           // our references: walks that are led to it
	opens   int           // open handles
	beside  *session      // whose shadow is open here, too: see sessions.attachBeside
	idle    chan struct{} // closed when the last handle goes, if somebody waits
	aside   bool          // lookups lead to another node
	former  *inode        // what it stood for before a session took it over, pinned until the shadow is published
	holds   int           // requests on it that run
	was     []*inode      // what it stood for when they began; pinned
	shown   time.Time     // when the kernel was last told of a name that leads to it, and may keep that
	numbers []inoKey      // the inode numbers under which it was shown to the kernel: the last few

	io iomode.Node // guards itself
}

// nodeOf is the node with a number, nil for one unknown.
func (kn *kernel) nodeOf(id uint64) *kernelNode {
	kn.nodes.mu.Lock()
	defer kn.nodes.mu.Unlock()
	return kn.nodes.kernelNodes[id]
}

// inodeOf is what the kernel means by the number of a node, nil for one unknown.
func (kn *kernel) inodeOf(id uint64) *inode {
	kn.nodes.mu.Lock()
	defer kn.nodes.mu.Unlock()
	if k := kn.nodes.kernelNodes[id]; k != nil {
		return k.in
	}
	return nil
}

// behind is what a node stands for now.
func (kn *kernel) behind(k *kernelNode) *inode {
	kn.nodes.mu.Lock()
	defer kn.nodes.mu.Unlock()
	return k.in
}

// meant is what a request on a node is about that names no open file: until the node of a
// shadow that was written into the file is given back (see names.giveBack), that is the file.
func (kn *kernel) meant(k *kernelNode) *inode {
	kn.nodes.mu.Lock()
	defer kn.nodes.mu.Unlock()
	if k.in.copied && k.former != nil {
		return k.former
	}
	return k.in
}

// newNodeLocked enters a node that stands for n. nodes.mu is held.
func (kn *kernel) newNodeLocked(n *inode) *kernelNode {
	kn.nextID++
	k := &kernelNode{id: kn.nextID, in: n}
	kn.nodes.kernelNodes[k.id] = k
	n.nodes = append(n.nodes, k)
	return k
}

func (kn *kernel) plantRoot() error {
	fd, err := unix.Openat(kn.disk.rootfd, ".", unix.O_PATH|unix.O_DIRECTORY|unix.O_CLOEXEC, 0)
	if err != nil {
		return err
	}
	var st unix.Stat_t
	if err := unix.Fstat(fd, &st); err != nil {
		unix.Close(fd)
		return err
	}
	key := inoKey{uint64(st.Dev), st.Ino}
	kn.nodes.mu.Lock()
	defer kn.nodes.mu.Unlock()
	kn.plantRootLocked(kn.nodes.newInodeLocked(fd, key, unix.S_IFDIR))
	return nil
}

// plantRootLocked makes n the root of the mount. nodes.mu is held.
func (kn *kernel) plantRootLocked(n *inode) {
	n.dentry = kn.nodes.dentries.Root()
	n.dentry.State.dir = n
	k := &kernelNode{id: rootID, in: n, nlookup: 1}
	kn.nodes.kernelNodes[rootID], n.nodes = k, []*kernelNode{k}
}

// nodeLocked is the node to which lookups of n lead, nil if there is none. nodes.mu is held.
func (n *inode) nodeLocked() *kernelNode {
	for _, k := range n.nodes {
		if !k.aside {
			return k
		}
	}
	return nil
}

// lookedUpLocked is the node to which lookups of n lead, with one reference more of the
// kernel's. nodes.mu is held.
func (kn *kernel) lookedUpLocked(n *inode) *kernelNode {
	k := n.nodeLocked()
	if k == nil {
		k = kn.newNodeLocked(n)
	}
	k.nlookup++
	return k
}

// ledLocked is lookedUpLocked for the shadow of a session, nil if the session is over.
// nodes.mu is held.
func (kn *kernel) ledLocked(s *session) *kernelNode {
	if s.over {
		return nil
	}
	return kn.lookedUpLocked(s.inode)
}

// lookedUp is lookedUpLocked.
func (kn *kernel) lookedUp(n *inode) *kernelNode {
	kn.nodes.mu.Lock()
	defer kn.nodes.mu.Unlock()
	return kn.lookedUpLocked(n)
}

// isOpenLocked reports whether somebody has n open. nodes.mu is held.
func (n *inode) isOpenLocked() bool {
	return slices.ContainsFunc(n.nodes, func(k *kernelNode) bool { return k.opens > 0 })
}

// Forget gives back references of the kernel's: each Entry was one.
func (kn *kernel) Forget(id, nlookup uint64) {
	if isVirtual(id) {
		kn.view.virt.forget(id, nlookup)
		return
	}
	if k := kn.nodeOf(id); k != nil {
		kn.forget(k, nlookup)
	}
}

// forget gives references of the kernel's back.
func (kn *kernel) forget(k *kernelNode, nlookup uint64) {
	kn.nodes.mu.Lock()
	defer kn.nodes.mu.Unlock()
	kn.forgetLocked(k, nlookup)
}

// forgetLocked is forget. nodes.mu is held.
func (kn *kernel) forgetLocked(k *kernelNode, nlookup uint64) {
	k.nlookup -= min(nlookup, k.nlookup)
	kn.dropNodeLocked(k)
}

// dropNodeLocked frees a node that neither the kernel nor we need any more. nodes.mu is held.
func (kn *kernel) dropNodeLocked(k *kernelNode) {
	if k.nlookup > 0 || k.opens > 0 || k.pins > 0 || k.id == rootID || kn.nodes.kernelNodes[k.id] != k {
		return
	}
	delete(kn.nodes.kernelNodes, k.id)
	k.io.Forget(kn)
	kn.partLocked(k)
	kn.dropFormerLocked(k)
}

// partLocked takes a node from the inode that it stands for, and frees the inode if nothing
// else needs it. nodes.mu is held.
func (kn *kernel) partLocked(k *kernelNode) {
	n := k.in
	n.nodes = slices.DeleteFunc(n.nodes, func(o *kernelNode) bool { return o == k })
	kn.nodes.reapLocked(n)
}

// hold keeps the inode open that a node stands for when a request on it begins. The
// node may become a session's meanwhile (sessions.takeOver), and the file's old inode be forgotten:
// its descriptor is closed, and may be another file's, only when the request has ended.
type hold struct {
	nodes *nodes
	k     *kernelNode
}

func (kn *kernel) hold(id uint64) hold {
	kn.nodes.mu.Lock()
	defer kn.nodes.mu.Unlock()
	k := kn.nodes.kernelNodes[id]
	if k == nil || !k.in.isRegular() {
		return hold{} // a session takes over nothing but regular files
	}
	k.holds++
	return hold{kn.nodes, k}
}

func (h hold) end() {
	if h.k == nil {
		return
	}
	h.nodes.mu.Lock()
	defer h.nodes.mu.Unlock()
	if h.k.holds--; h.k.holds > 0 {
		return
	}
	for _, was := range h.k.was {
		h.nodes.unpinLocked(was)
	}
	h.k.was = nil
}

// forgetAttrs makes the kernel forget the attributes of n.
func (kn *kernel) forgetAttrs(n *inode) { kn.notifyInode(n, -1, 0) }

// notifyInode is Kernel.InodeNotify for each node of n.
func (kn *kernel) notifyInode(n *inode, off, length int64) {
	for _, id := range kn.nodesOf(n) {
		kn.srv.InodeNotify(id, off, length)
	}
}

// forgetName makes the kernel forget a name in dir. It waits for the directory's lock.
func (kn *kernel) forgetName(dir *inode, name string) {
	for _, id := range kn.nodesOf(dir) {
		kn.srv.EntryNotify(id, name)
	}
}

// nodesOf are the numbers by which the kernel knows n.
func (kn *kernel) nodesOf(n *inode) []uint64 {
	kn.nodes.mu.Lock()
	defer kn.nodes.mu.Unlock()
	ids := make([]uint64, len(n.nodes))
	for i, k := range n.nodes {
		ids[i] = k.id
	}
	return ids
}

// register registers a backing file without CAP_FSETID and CAP_SYS_RESOURCE: passthrough
// writes run with the credentials of the thread that registered the file, and with these a
// write would keep setuid bits and ignore quotas. What users write is registered as nobody,
// for filesystems keep space in reserve for user 0.
func (kn *kernel) register(fd int, forRoot bool) (id int32, err error) {
	who := asuser.Nobody
	if forRoot {
		who = ownIdentity
	}
	err = who.Less(func() error {
		var e syscall.Errno
		if id, e = kn.srv.RegisterBacking(fd); e != 0 {
			return e
		}
		return nil
	}, unix.CAP_FSETID, unix.CAP_SYS_RESOURCE)
	return id, err
}

// Unregister implements iomode.Kernel.
func (kn *kernel) Unregister(id int32) {
	if e := kn.srv.UnregisterBacking(id); e != 0 {
		kn.disk.log.Debugf("backing file %d: %v", id, e)
	}
}

// adopt makes fd (O_PATH) the descriptor of its inode, unless that has one already, and
// takes one reference of the kernel's on its node.
func (kn *kernel) adopt(fd int, st *unix.Stat_t) (*kernelNode, unix.Errno) {
	if err := unix.Fstat(fd, st); err != nil {
		unix.Close(fd)
		return nil, errnoOf(err)
	}
	kn.nodes.mu.Lock()
	defer kn.nodes.mu.Unlock()
	return kn.adoptLocked(fd, st), 0
}

// adoptLocked is adopt for a descriptor of what has the status st. nodes.mu is held.
func (kn *kernel) adoptLocked(fd int, st *unix.Stat_t) *kernelNode {
	key := inoKey{uint64(st.Dev), st.Ino}
	n := kn.nodes.inodes[key]
	if n != nil {
		unix.Close(fd)
	} else {
		n = kn.nodes.newInodeLocked(fd, key, st.Mode&unix.S_IFMT)
		n.saved = kn.nodes.replacing[key]
	}
	return kn.lookedUpLocked(n)
}

// dropFormerLocked forgets what k stood for before a session took it over. nodes.mu is held.
func (kn *kernel) dropFormerLocked(k *kernelNode) {
	if k.former != nil {
		kn.nodes.unpinLocked(k.former)
		k.former = nil
	}
}

// rootChanged is to be called when a program has changed the owner or the rights of a node
// through the mount. Those of the data root say who may rename the state directory: Vouch.
func (kn *kernel) rootChanged(node uint64) {
	if node == rootID && kn.disk.state != nil {
		kn.disk.dir.Vouch()
	}
}
