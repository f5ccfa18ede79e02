package fs

import (
	"math/rand/v2"
	"strings"
	"sync"
	"sync/atomic"
	"time"

	"golang.org/x/sys/unix"
)

// simKernel is the kernel of the simulation, as far as a FUSE filesystem notices it: it
// keeps names and attributes as long as it was told to, walks a path a second time after
// ESTALE (with LOOKUP_REVAL, so that it believes no name), holds the locks of
// directories and inodes where Linux does, sends FLUSH at each close and RELEASE some
// time after the last.
//
// What it leaves out: several mounts, permissions. See also sim_passthrough_test.go and
// sim_mapped_test.go.
type simKernel struct {
	w        *simWorld
	d        *simDaemon
	ended    int64 // after the daemon's death: when the next one answers
	fs       Requests
	root     *simInode
	renames  simLock // s_vfs_rename_mutex
	mu       sync.Mutex
	inodes   map[uint64]*simInode
	releases int

	backings    map[int32]*simBacking // guarded by mu, as the next
	lastBacking int32
	refusals    *rand.Rand // of backing files
}

// simInode is an inode of the kernel's cache. Its mutable parts are guarded by
// simKernel.mu, but for the locks.
type simInode struct {
	id       uint64
	isDir    bool
	attr     Attr
	until    time.Time // attributes are believed until then
	version  uint64    // counts invalidations
	nlookup  uint64
	lock     simLock  // i_rwsem
	page     []byte   // the file's pages; nil: none cached
	dirty    *simFile // through which they were stored into; nil: they are as the daemon knows them
	pageLock simLock
	children map[string]*simDentry
	names    int
	opens    int
	appended int64       // when somebody has last opened it to append records
	dead     bool        // a directory that was removed: S_DEAD
	linked   atomic.Bool // a file that has had several names, and is updated in place
	backing  *simBacking // of the opens that are passed through; or nil
	passed   int         // opens that are passed through
	cached   int         // opens that may have pages
}

// simDentry is a name in the kernel's cache; without an inode, that nothing has it.
type simDentry struct {
	dir   *simInode
	name  string
	inode *simInode
	until time.Time
}

func newSimKernel(d *simDaemon) *simKernel {
	root := &simInode{id: rootID, isDir: true, nlookup: 1, children: map[string]*simDentry{}}
	return &simKernel{w: d.w, d: d, fs: Requests{d.fs}, root: root, inodes: map[uint64]*simInode{rootID: root}}
}

// isDead reports whether the daemon has died, so that nothing answers on the mount.
func (k *simKernel) isDead() bool { return k.d.dead.Load() }

// until is the given moment, or that at which nothing could happen on the mount any more.
func (k *simKernel) until(at int64) int64 {
	if k.ended == 0 {
		return at
	}
	return min(at, k.ended)
}

// InodeNotify implements Kernel.
func (k *simKernel) InodeNotify(id uint64, off, _ int64) {
	k.mu.Lock()
	n := k.inodes[id]
	if n != nil {
		n.until = time.Time{}
		n.version++
	}
	k.mu.Unlock()
	if n == nil || k.isDead() {
		return
	}
	if off >= 0 {
		n.pageLock.lock(true)
		k.writeBackPages(n) // fuse_launder_folio
		k.mu.Lock()
		n.page = nil
		k.mu.Unlock()
		n.pageLock.unlock(true)
	}
}

// EntryNotify implements Kernel.
func (k *simKernel) EntryNotify(dir uint64, name string) {
	k.mu.Lock()
	d := k.inodes[dir]
	k.mu.Unlock()
	if d == nil || k.isDead() {
		return
	}
	k.d.perhapsPark("the daemon is about to invalidate the name " + name)
	d.lock.lock(true)
	defer d.lock.unlock(true)
	k.mu.Lock()
	defer k.mu.Unlock()
	d.until = time.Time{}
	if c := d.children[name]; c != nil {
		k.dropLocked(c)
	}
}

// MapsDirect implements Kernel.
func (k *simKernel) MapsDirect() bool { return true }

// dropLocked forgets a name. mu is held.
func (k *simKernel) dropLocked(d *simDentry) {
	if d.dir.children[d.name] != d {
		return
	}
	delete(d.dir.children, d.name)
	if d.inode != nil {
		d.inode.names--
	}
}

// put remembers a name.
func (k *simKernel) putLocked(dir *simInode, name string, n *simInode, ttl time.Duration) {
	if old := dir.children[name]; old != nil {
		k.dropLocked(old)
	}
	dir.children[name] = &simDentry{dir: dir, name: name, inode: n, until: time.Now().Add(ttl)}
	if n != nil {
		n.names++
	}
}

// request sends one request and returns the answer. Between requests anything may
// happen. A process that was killed sends nothing more, but for what its end sends.
func (k *simKernel) request(p *simProc, what string, do func(h Request, cancel <-chan struct{}) unix.Errno) unix.Errno {
	return k.requestTo(p, what, false, do)
}

func (k *simKernel) requestTo(p *simProc, what string, force bool, do func(h Request, cancel <-chan struct{}) unix.Errno) unix.Errno {
	k.w.park(p.String() + " is about to send " + what)
	if p.isKilled() && !force {
		return unix.EINTR
	}
	if k.isDead() {
		return unix.ENOTCONN
	}
	cancel := p.begins(force)
	defer p.ends()
	h := Request{UID: p.uid, GID: k.w.gid, TID: p.tid()}
	st := do(h, cancel)
	if k.isDead() { // whatever it was about to answer
		st = unix.ENOTCONN
	}
	k.w.tracef("      %s %s: %v", p, what, unix.Errno(st))
	return unix.Errno(st)
}

func seen(ttl time.Duration) time.Time { return time.Now().Add(ttl) }

// setAttrLocked believes attributes, unless they crossed an invalidation. mu is held.
func (n *simInode) setAttrLocked(a *Attr, ttl time.Duration, version uint64) {
	if n.version != version {
		return
	}
	if n.page != nil && n.dirty == nil && (a.Size != n.attr.Size || a.Mtime != n.attr.Mtime) {
		n.page = nil // FUSE_AUTO_INVAL_DATA
	}
	n.attr, n.until = *a, seen(ttl)
	if a.Nlink > 1 && a.Mode&unix.S_IFMT == unix.S_IFREG {
		n.linked.Store(true)
	}
}

func (k *simKernel) getattr(p *simProc, n *simInode) unix.Errno {
	k.mu.Lock()
	fresh, version := time.Now().Before(n.until), n.version
	k.mu.Unlock()
	if fresh {
		return 0
	}
	p.uses(n)
	var out AttrReply
	e := k.request(p, "GETATTR "+p.nameOf(n), func(h Request, cancel <-chan struct{}) unix.Errno {
		h.Node = n.id
		return k.fs.GetAttr(cancel, &AttrRequest{Request: h}, &out)
	})
	if e != 0 {
		return e
	}
	k.mu.Lock()
	defer k.mu.Unlock()
	n.setAttrLocked(&out.Attr, out.TTL, version)
	return 0
}

// askName sends LOOKUP.
func (k *simKernel) askName(p *simProc, dir *simInode, name string) (*Entry, unix.Errno) {
	var out Entry
	e := k.request(p, "LOOKUP "+name, func(h Request, cancel <-chan struct{}) unix.Errno {
		h.Node = dir.id
		return k.fs.Lookup(cancel, &h, name, &out)
	})
	if e == unix.ENOENT {
		return &Entry{}, 0
	}
	return &out, e
}

// inodeOf is the inode that an answer names, with one lookup more. It is used until
// the process's system call ends.
func (k *simKernel) inodeOf(p *simProc, out *Entry) *simInode {
	k.mu.Lock()
	defer k.mu.Unlock()
	n := k.inodes[out.Node]
	if n == nil {
		n = &simInode{id: out.Node, isDir: out.Attr.Mode&unix.S_IFMT == unix.S_IFDIR, children: map[string]*simDentry{}}
		k.inodes[n.id] = n
	}
	n.nlookup++
	n.setAttrLocked(&out.Attr, out.AttrTTL, n.version)
	p.uses(n)
	return n
}

// lookup finds what a name leads to, nil if nothing. reval: no cached name is believed.
// The directory's lock is the caller's, if locked says so.
func (k *simKernel) lookup(p *simProc, dir *simInode, name string, reval, locked bool) (*simInode, unix.Errno) {
	n, e, done := k.lookupCached(p, dir, name, reval)
	if done {
		return n, e
	}
	k.mu.Lock()
	dead := dir.dead
	k.mu.Unlock()
	if dead {
		return nil, unix.ENOENT
	}
	if !locked {
		dir.lock.lock(false)
		defer dir.lock.unlock(false)
		k.mu.Lock()
		d := dir.children[name] // another one may have looked it up meanwhile
		if d != nil && time.Now().Before(d.until) && !reval {
			if d.inode != nil {
				p.uses(d.inode)
			}
			k.mu.Unlock()
			return d.inode, 0
		}
		k.mu.Unlock()
	}
	out, e := k.askName(p, dir, name)
	if e != 0 {
		return nil, e
	}
	if out.Node != 0 {
		n = k.inodeOf(p, out)
	}
	k.mu.Lock()
	defer k.mu.Unlock()
	k.putLocked(dir, name, n, out.NameTTL)
	return n, 0
}

// lookupCached is d_revalidate: a name that is known is believed, or asked for again.
func (k *simKernel) lookupCached(p *simProc, dir *simInode, name string, reval bool) (n *simInode, e unix.Errno, done bool) {
	k.mu.Lock()
	d := dir.children[name]
	if d == nil {
		k.mu.Unlock()
		return nil, 0, false
	}
	if d.inode != nil {
		p.uses(d.inode)
	}
	if time.Now().Before(d.until) && !reval {
		k.mu.Unlock()
		return d.inode, 0, true
	}
	if d.inode == nil {
		k.dropLocked(d)
		k.mu.Unlock()
		return nil, 0, false
	}
	version := d.inode.version
	k.mu.Unlock()
	out, e := k.askName(p, dir, name)
	if e == unix.EINTR {
		return nil, e, true
	}
	k.mu.Lock()
	defer k.mu.Unlock()
	if e == 0 && out.Node == d.inode.id {
		d.inode.nlookup++
		d.inode.setAttrLocked(&out.Attr, out.AttrTTL, version)
		d.until = seen(out.NameTTL)
		return d.inode, 0, true
	}
	if e == 0 && out.Node != 0 {
		id := out.Node
		go k.fs.Forget(id, 1)
	}
	k.dropLocked(d)
	return nil, 0, false
}

// walk finds the directory of a path below the root. Each directory on the way is
// asked for its attributes where they are not known, for its permissions.
func (k *simKernel) walk(p *simProc, path string, reval bool) (dir *simInode, name string, e unix.Errno) {
	dir = k.root
	parts := strings.Split(path, "/")
	for _, part := range parts[:len(parts)-1] {
		if e := k.getattr(p, dir); e != 0 {
			return nil, "", e
		}
		n, e := k.lookup(p, dir, part, reval, false)
		switch {
		case e != 0:
			return nil, "", e
		case n == nil:
			return nil, "", unix.ENOENT
		case !n.isDir:
			return nil, "", unix.ENOTDIR
		}
		dir = n
	}
	return dir, parts[len(parts)-1], k.getattr(p, dir)
}

// again runs a system call on paths, and once more if the answer is ESTALE.
func again(do func(reval bool) unix.Errno) unix.Errno {
	e := do(false)
	if e == unix.ESTALE {
		e = do(true)
	}
	return e
}

// evict makes the kernel forget some name, and every inode that nobody uses.
func (k *simKernel) evict(pick func(n int) int) {
	k.mu.Lock()
	var all []*simDentry
	for id := uint64(1); id <= k.fs.f.lastNode(); id++ {
		n := k.inodes[id]
		if n == nil {
			continue
		}
		for _, name := range sortedNames(n.children) {
			if d := n.children[name]; d.inode == nil || len(d.inode.children) == 0 {
				all = append(all, d)
			}
		}
	}
	if len(all) > 0 {
		d := all[pick(len(all))]
		k.w.tracef("      the kernel forgets the name %s", d.name)
		k.dropLocked(d)
	}
	k.mu.Unlock()
	k.forgetUnused()
}

// forgetUnused sends FORGET for the inodes that have no name, no open file and no
// system call that uses them.
func (k *simKernel) forgetUnused() {
	used := k.w.inUse()
	k.mu.Lock()
	var gone []*simInode
	for _, n := range k.inodes {
		if n.id != rootID && n.names == 0 && n.opens == 0 && len(n.children) == 0 && !used[n] {
			gone = append(gone, n)
			delete(k.inodes, n.id)
		}
	}
	k.mu.Unlock()
	for _, n := range gone {
		k.fs.Forget(n.id, n.nlookup)
	}
}
