package fs

import (
	"time"

	"golang.org/x/sys/unix"

	"latchfs/fs/listing"
	"latchfs/journal/commit"
)

// OpenDir opens a directory to list it.
func (f *FS) OpenDir(_ <-chan struct{}, in *OpenRequest, out *Opened) unix.Errno {
	if isVirtual(in.Node) {
		return f.virt.openDir(in, out)
	}
	k := f.nodeOf(in.Node)
	if k == nil {
		return unix.ESTALE
	}
	n := k.in // of a directory always the same
	if e := f.mayOpenMore(&in.Request, opOpen, func() string { return f.nodePath(n) }); e != 0 {
		return e
	}
	f.endUnmappedIn(n)
	fd, err := f.openList(n)
	if err != nil {
		return errnoOf(err)
	}
	h := f.newHandle(k, n, dirHandle, in.Flags, ids{in.UID, in.GID})
	h.dir = listing.NewStream(fd, in.UID, f.book)
	out.Handle = h.id
	return 0
}

// openList opens a directory to list it. That is not ".", for which it would have to be
// searched, too.
func (f *FS) openList(dir *inode) (fd int, err error) {
	return f.trim.OpenAt(f.procfd, procName(f.fdOf(dir)), unix.O_RDONLY|unix.O_DIRECTORY)
}

// ReleaseDir is Release for an open directory.
func (f *FS) ReleaseDir(in *ReleaseRequest) {
	if isVirtual(in.Node) {
		f.virt.release(in.Handle)
		return
	}
	h := f.handleOf(in.Handle)
	if h == nil {
		return
	}
	f.advisory.Released(h)
	h.dir.Close()
	f.closeHandle(h)
}

// FsyncDir writes the names in an open directory to the disk: fsync(2).
func (f *FS) FsyncDir(_ <-chan struct{}, in *FsyncRequest) unix.Errno {
	if isVirtual(in.Node) {
		return 0
	}
	h := f.handleOf(in.Handle)
	if h == nil {
		return unix.EBADF
	}
	if f.store != nil {
		return errnoOf(h.dir.Do(f.store.FsyncDir))
	}
	return errnoOf(h.dir.Do(unix.Fsync))
}

// ReadDir lists names: getdents64(2).
func (f *FS) ReadDir(_ <-chan struct{}, in *ReadRequest, out Listing) unix.Errno {
	if isVirtual(in.Node) {
		return f.virt.readDir(in, out)
	}
	h, list, e := f.dirList(in)
	if e != 0 {
		return e
	}
	for i := int(in.Offset); i < len(list); i++ {
		d := &list[i]
		if !out.Add(f.listed(h, d, i)) {
			break
		}
	}
	return 0
}

// ReadDirPlus lists names with what they lead to, where that is new to the kernel.
func (f *FS) ReadDirPlus(_ <-chan struct{}, in *ReadRequest, out Listing) unix.Errno {
	if isVirtual(in.Node) {
		return f.virt.readDirPlus(in, out)
	}
	h, list, e := f.dirList(in)
	if e != 0 {
		return e
	}
	for i := int(in.Offset); i < len(list); i++ {
		d := &list[i]
		if !out.Add(f.listed(h, d, i)) {
			break
		}
		if d.Volatile || listing.IsDots(d.Name) || !f.roomForNodes() {
			continue // no node is planted for it
		}
		f.plant(h.n, d, out)
	}
	return 0
}

// plant fills in the attributes of a directory entry and takes a reference on
// its node, unless a session is on the name, or the kernel has them.
func (f *FS) plant(dir *inode, d *listing.Entry, out Listing) {
	f.mu.Lock()
	skip := f.isBusyNameLocked(dir, d.Name) || f.isShownLocked(dir, d)
	f.mu.Unlock()
	if skip {
		return
	}
	var st unix.Stat_t
	k, errno := f.child(dir, d.Name, &st)
	if errno != 0 {
		return
	}
	var e Entry
	f.fillEntry(&e, k, &st, f.isBusyName(dir, d.Name))
	out.Describe(&e)
}

// isShownLocked reports whether the kernel was told lately what a directory entry leads to,
// and so most likely knows it still: it asks for attributes with every listing, whether or
// not anybody wants them. What it does not know it looks up. FS.mu is held.
func (f *FS) isShownLocked(dir *inode, d *listing.Entry) bool {
	n := f.inodes[inoKey{dir.key.dev, d.Ino}]
	if n == nil {
		return false
	}
	k := n.nodeLocked()
	return k != nil && k.nlookup > 0 && time.Since(k.shown) < entryTTL/2
}

// listed is entry i of an open directory as it is shown.
func (f *FS) listed(h *handle, d *listing.Entry, i int) Listed {
	ino := d.Ino
	if h.n.key.dev != f.dev {
		ino = f.inoFor(h.n.key.dev, d.Ino)
	}
	return Listed{Name: d.Name, Ino: ino, Mode: d.Kind, Next: uint64(i + 1)}
}

// dirList returns the directory's entries; reading from the start reads the
// directory anew, as rewinddir(3) asks.
func (f *FS) dirList(in *ReadRequest) (*handle, []listing.Entry, unix.Errno) {
	h := f.handleOf(in.Handle)
	if h == nil || h.dir == nil {
		return nil, nil, unix.EBADF
	}
	list, err := h.dir.List(in.Offset, seenDir{f, in, h.n})
	return h, list, errnoOf(err)
}

// seenDir is a directory as a caller sees it who reads it.
type seenDir struct {
	f  *FS
	by *ReadRequest
	n  *inode
}

// Entries implements listing.Dir.
func (d seenDir) Entries(fd int) ([]listing.Entry, error) {
	list, err := listing.Read(fd, visible)
	if err != nil {
		return nil, err
	}
	return d.f.withSessions(d.f.callerOf(&d.by.Request), d.n, list), nil
}

// withSessions adds what the backing directory does not show: new files to the
// family that is creating them, and where the mount wants it listed the virtual
// directory, into which programs that walk a tree would walk.
func (f *FS) withSessions(c *caller, dir *inode, list []listing.Entry) []listing.Entry {
	if dir.isRoot() && f.opts.ListLocks && !f.opts.ReadOnly {
		list = append(list, listing.Entry{Name: f.opts.LocksDir, Ino: virtualRoot, Kind: unix.S_IFDIR, Volatile: true})
	}
	list = f.stagedView(c, dir, list)
	in := f.sessionsIn(dir)
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
		if s.isNew.Load() && c.kinOf(s.who.Load()) {
			list = append(list, listing.Entry{Name: name, Ino: s.inode.key.ino, Kind: unix.S_IFREG, Volatile: true})
		}
	}
	return list
}

// visible reports whether a name is shown: all but those that are ours.
func visible(name string) bool { return !commit.Reserved(name) }

// removeOrphans removes reserved names that no running commit uses from a
// directory that would be empty without them. It reports whether some are gone.
func (f *FS) removeOrphans(dirfd int, name string) bool {
	fd, err := unix.Openat(dirfd, name, unix.O_RDONLY|unix.O_DIRECTORY|unix.O_NOFOLLOW|unix.O_CLOEXEC, 0)
	if err != nil {
		return false
	}
	defer unix.Close(fd)
	list, err := listing.Read(fd, commit.Reserved)
	if err != nil || len(list) == 0 {
		return false
	}
	if err := f.store.SettleLazyDir(fd); err != nil {
		f.log.Warnf("commits in %q are not known to be on disk: %v", name, err)
	}
	if _, err := unix.Seek(fd, 0, unix.SEEK_SET); err != nil {
		return false
	}
	left, err := listing.Read(fd, commit.Reserved)
	removed := err == nil && len(left) < len(list)
	list = left
	for i := range list {
		removed = f.store.RemoveOrphan(fd, list[i].Name) == nil || removed
	}
	return removed
}

// roomForNodes reports whether directory listings may plant further nodes: each inode costs
// a descriptor.
func (f *FS) roomForNodes() bool {
	return f.countInodes() < f.maxInodes/2
}
