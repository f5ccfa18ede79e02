package fs

import (
	"time"

	"golang.org/x/sys/unix"

	"latchfs/fs/listing"
	"latchfs/journal/commit"
)

// listings lists directories.
type listings struct {
	*ground
	*engine
	attrs *attrs
	opens *opens
}

// OpenDir opens a directory to list it.
func (li *listings) OpenDir(_ <-chan struct{}, in *OpenRequest, out *Opened) unix.Errno {
	if isVirtual(in.Node) {
		return li.view.virt.openDir(in, out)
	}
	k := li.kernel.nodeOf(in.Node)
	if k == nil {
		return unix.ESTALE
	}
	n := k.in // of a directory always the same
	if e := li.reports.mayOpenMore(&in.Request, opOpen, func() string { return li.nodes.nodePath(n) }); e != 0 {
		return e
	}
	li.endings.endLeftIn(n)
	fd, err := li.nodes.openList(n)
	if err != nil {
		return errnoOf(err)
	}
	h := li.handles.newHandle(k, n, dirHandle, in.Flags, ids{in.UID, in.GID})
	h.dir = listing.NewStream(fd, in.UID, li.callers.book)
	out.Handle = h.id
	return 0
}

// ReleaseDir is Release for an open directory.
func (li *listings) ReleaseDir(in *ReleaseRequest) {
	if isVirtual(in.Node) {
		li.view.virt.release(in.Handle)
		return
	}
	h := li.handles.handleOf(in.Handle)
	if h == nil {
		return
	}
	li.locks.advisory.Released(h)
	h.dir.Close()
	li.endings.closeHandle(h)
}

// FsyncDir writes the names in an open directory to the disk: fsync(2).
func (li *listings) FsyncDir(_ <-chan struct{}, in *FsyncRequest) unix.Errno {
	if isVirtual(in.Node) {
		return 0
	}
	h := li.handles.handleOf(in.Handle)
	if h == nil {
		return unix.EBADF
	}
	if li.disk.store != nil {
		return errnoOf(h.dir.Do(li.disk.store.FsyncDir))
	}
	return errnoOf(h.dir.Do(unix.Fsync))
}

// ReadDir lists names: getdents64(2).
func (li *listings) ReadDir(_ <-chan struct{}, in *ReadRequest, out Listing) unix.Errno {
	if isVirtual(in.Node) {
		return li.view.virt.readDir(in, out)
	}
	h, list, e := li.dirList(in)
	if e != 0 {
		return e
	}
	for i := int(in.Offset); i < len(list); i++ {
		d := &list[i]
		if !out.Add(li.listed(h, d, i)) {
			break
		}
	}
	return 0
}

// ReadDirPlus lists names with what they lead to, where that is new to the kernel.
func (li *listings) ReadDirPlus(_ <-chan struct{}, in *ReadRequest, out Listing) unix.Errno {
	if isVirtual(in.Node) {
		return li.view.virt.readDirPlus(in, out)
	}
	h, list, e := li.dirList(in)
	if e != 0 {
		return e
	}
	for i := int(in.Offset); i < len(list); i++ {
		d := &list[i]
		if !out.Add(li.listed(h, d, i)) {
			break
		}
		if d.Volatile || listing.IsDots(d.Name) || !li.roomForNodes() {
			continue // no node is planted for it
		}
		li.plant(h.n, d, out)
	}
	return 0
}

// plant fills in the attributes of a directory entry and takes a reference on
// its node, unless a session is on the name, or the kernel has them.
func (li *listings) plant(dir *inode, d *listing.Entry, out Listing) {
	li.nodes.mu.Lock()
	skip := li.nodes.isBusyNameLocked(dir, d.Name) || li.isShownLocked(dir, d)
	li.nodes.mu.Unlock()
	if skip {
		return
	}
	var st unix.Stat_t
	k, errno := childBy(li.names, li.nodes.trim.TryOpenAt, dir, d.Name, &st) // the kernel looks up what it is not told
	if errno != 0 {
		return
	}
	var e Entry
	li.attrs.fillEntry(&e, k, &st, li.opens.isBusyName(dir, d.Name))
	out.Describe(&e)
}

// isShownLocked reports whether the kernel was told lately what a directory entry leads to,
// and so most likely knows it still: it asks for attributes with every listing, whether or
// not anybody wants them. What it does not know it looks up. nodes.mu is held.
func (li *listings) isShownLocked(dir *inode, d *listing.Entry) bool {
	n := li.nodes.inodes[inoKey{dir.key.dev, d.Ino}]
	if n == nil {
		return false
	}
	k := n.nodeLocked()
	return k != nil && k.nlookup > 0 && time.Since(k.shown) < entryTTL/2
}

// listed is entry i of an open directory as it is shown.
func (li *listings) listed(h *handle, d *listing.Entry, i int) Listed {
	ino := d.Ino
	if h.n.key.dev != li.disk.dev {
		ino = li.disk.inoFor(h.n.key.dev, d.Ino)
	}
	return Listed{Name: d.Name, Ino: ino, Mode: d.Kind, Next: uint64(i + 1)}
}

// dirList returns the directory's entries; reading from the start reads the
// directory anew, as rewinddir(3) asks.
func (li *listings) dirList(in *ReadRequest) (*handle, []listing.Entry, unix.Errno) {
	h := li.handles.handleOf(in.Handle)
	if h == nil || h.dir == nil {
		return nil, nil, unix.EBADF
	}
	list, err := h.dir.List(in.Offset, seenDir{li, in, h.n})
	return h, list, errnoOf(err)
}

// seenDir is a directory as a caller sees it who reads it.
type seenDir struct {
	listings *listings
	by       *ReadRequest
	n        *inode
}

// Entries implements listing.Dir.
func (d seenDir) Entries(fd int) ([]listing.Entry, error) {
	list, err := listing.Read(fd, visible)
	if err != nil {
		return nil, err
	}
	return d.listings.withSessions(d.listings.callers.callerOf(&d.by.Request), d.n, list), nil
}

// withSessions adds what the backing directory does not show: new files to the
// family that is creating them, and where the mount wants it listed the virtual
// directory, into which programs that walk a tree would walk.
func (li *listings) withSessions(c *caller, dir *inode, list []listing.Entry) []listing.Entry {
	if dir.isRoot() && li.disk.opts.ListLocks && !li.disk.opts.ReadOnly {
		list = append(list, listing.Entry{Name: li.disk.opts.LocksDir, Ino: virtualRoot, Kind: unix.S_IFDIR, Volatile: true})
	}
	list = li.txns.stagedView(c, dir, list)
	in := li.endings.sessionsIn(dir)
	if len(in) == 0 {
		return list
	}
	busy := make(map[string]*session, len(in))
	for _, s := range in {
		_, name := s.where()
		busy[name] = s
	}
	for i := range list {
		if busy[list[i].Name] != nil {
			list[i].Volatile = true
			delete(busy, list[i].Name)
		}
	}
	for name, s := range busy {
		if s.isNew.Load() && c.BelongsTo(s.who.Load()) {
			list = append(list, listing.Entry{Name: name, Ino: s.inode.key.ino, Kind: unix.S_IFREG, Volatile: true})
		}
	}
	return list
}

// visible reports whether a name is shown: all but those that are ours.
func visible(name string) bool { return !commit.Reserved(name) }

// roomForNodes reports whether directory listings may plant further nodes: each inode costs
// a descriptor.
func (li *listings) roomForNodes() bool {
	return li.nodes.countInodes() < li.nodes.maxInodes/2
}
