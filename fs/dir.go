package fs

import (
	"encoding/binary"
	"sync"
	"time"

	"golang.org/x/sys/unix"

	"latchfs/journal/commit"
)

// dirStream is an open directory: what it held when it was opened or rewound,
// so that offsets stay good however the directory changes meanwhile.
type dirStream struct {
	mu      sync.Mutex // guards what follows
	fd      int
	loaded  bool
	entries []dirEntry
	uid     uint32 // who pays for the entries
	charged int64
	end     uint64 // the offset behind the last entry
}

type dirEntry struct {
	name     string
	ino      uint64
	kind     uint32 // S_IFMT bits
	volatile bool   // in session or virtual: listed without attributes
}

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
	h.dir = &dirStream{fd: fd, uid: in.UID}
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
	h.dir.mu.Lock()
	unix.Close(h.dir.fd)
	h.dir.fd = -1
	h.dir.dropLocked(f.book)
	h.dir.mu.Unlock()
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
	h.dir.mu.Lock()
	defer h.dir.mu.Unlock()
	if f.store != nil {
		return errnoOf(f.store.FsyncDir(h.dir.fd))
	}
	return errnoOf(unix.Fsync(h.dir.fd))
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
		if d.volatile || d.name == "." || d.name == ".." || !f.roomForNodes() {
			continue // no node is planted for it
		}
		f.plant(h.n, d, out)
	}
	return 0
}

// plant fills in the attributes of a directory entry and takes a reference on
// its node, unless a session is on the name, or the kernel has them.
func (f *FS) plant(dir *inode, d *dirEntry, out Listing) {
	f.mu.Lock()
	skip := f.isBusyNameLocked(dir, d.name) || f.isShownLocked(dir, d)
	f.mu.Unlock()
	if skip {
		return
	}
	var st unix.Stat_t
	k, errno := f.child(dir, d.name, &st)
	if errno != 0 {
		return
	}
	var e Entry
	f.fillEntry(&e, k, &st, f.isBusyName(dir, d.name))
	out.Describe(&e)
}

// isShownLocked reports whether the kernel was told lately what a directory entry leads to,
// and so most likely knows it still: it asks for attributes with every listing, whether or
// not anybody wants them. What it does not know it looks up. FS.mu is held.
func (f *FS) isShownLocked(dir *inode, d *dirEntry) bool {
	n := f.inodes[inoKey{dir.key.dev, d.ino}]
	if n == nil {
		return false
	}
	k := n.nodeLocked()
	return k != nil && k.nlookup > 0 && time.Since(k.shown) < entryTTL/2
}

// listed is entry i of an open directory as it is shown.
func (f *FS) listed(h *handle, d *dirEntry, i int) Listed {
	ino := d.ino
	if h.n.key.dev != f.dev {
		ino = f.inoFor(h.n.key.dev, d.ino)
	}
	return Listed{Name: d.name, Ino: ino, Mode: d.kind, Next: uint64(i + 1)}
}

// dirList returns the directory's entries; reading from the start reads the
// directory anew, as rewinddir(3) asks.
func (f *FS) dirList(in *ReadRequest) (*handle, []dirEntry, unix.Errno) {
	h := f.handleOf(in.Handle)
	if h == nil || h.dir == nil {
		return nil, nil, unix.EBADF
	}
	h.dir.mu.Lock()
	defer h.dir.mu.Unlock()
	switch {
	case in.Offset == 0:
	case in.Offset >= h.dir.end && h.dir.end > 0:
		if h.dir.charged > keptListing {
			h.dir.dropLocked(f.book) // it has been read
		}
		return h, nil, 0
	case h.dir.loaded:
		return h, h.dir.entries, 0
	}
	if _, err := unix.Seek(h.dir.fd, 0, 0); err != nil {
		return nil, nil, errnoOf(err)
	}
	list, err := readEntries(h.dir.fd, visible)
	if err != nil {
		return nil, nil, errnoOf(err)
	}
	list = f.withSessions(f.callerOf(&in.Request), h.n, list)
	h.dir.dropLocked(f.book)
	cost := costOfList(list)
	if !f.book.Take(h.dir.uid, cost) {
		return nil, nil, unix.ENOMEM
	}
	h.dir.entries, h.dir.charged, h.dir.loaded, h.dir.end = list, cost, true, uint64(len(list))
	return h, list, 0
}

// withSessions adds what the backing directory does not show: new files to the
// family that is creating them, and where the mount wants it listed the virtual
// directory, into which programs that walk a tree would walk.
func (f *FS) withSessions(c *caller, dir *inode, list []dirEntry) []dirEntry {
	if dir.isRoot() && f.opts.ListLocks && !f.opts.ReadOnly {
		list = append(list, dirEntry{name: f.opts.LocksDir, ino: virtualRoot, kind: unix.S_IFDIR, volatile: true})
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
		if busy[list[i].name] != nil {
			list[i].volatile = true
			delete(busy, list[i].name)
		}
	}
	for name, s := range busy {
		if s.isNew.Load() && c.kinOf(s.who.Load()) {
			list = append(list, dirEntry{name: name, ino: s.inode.key.ino, kind: unix.S_IFREG, volatile: true})
		}
	}
	return list
}

// visible reports whether a name is shown: all but those that are ours.
func visible(name string) bool { return !commit.Reserved(name) }

// readEntries reads the entries of a whole directory that want accepts.
func readEntries(fd int, want func(name string) bool) ([]dirEntry, error) {
	var list []dirEntry
	buf := make([]byte, 64<<10)
	for {
		n, err := unix.Getdents(fd, buf)
		if err == unix.EINTR {
			continue
		}
		if err != nil {
			return nil, err
		}
		if n == 0 {
			return list, nil
		}
		list = parseDirents(list, buf[:n], want)
	}
}

// parseDirents decodes linux_dirent64 records (getdents64(2)).
func parseDirents(list []dirEntry, b []byte, want func(name string) bool) []dirEntry {
	const header = 8 + 8 + 2 + 1 // d_ino, d_off, d_reclen, d_type
	for len(b) > header {
		reclen := int(binary.NativeEndian.Uint16(b[16:]))
		if reclen <= header || reclen > len(b) {
			return list
		}
		name := b[header:reclen]
		for i, ch := range name {
			if ch == 0 {
				name = name[:i]
				break
			}
		}
		if want(string(name)) {
			list = append(list, dirEntry{
				name: string(name), ino: binary.NativeEndian.Uint64(b), kind: uint32(b[18]) << 12,
			})
		}
		b = b[reclen:]
	}
	return list
}

// removeOrphans removes reserved names that no running commit uses from a
// directory that would be empty without them. It reports whether some are gone.
func (f *FS) removeOrphans(dirfd int, name string) bool {
	fd, err := unix.Openat(dirfd, name, unix.O_RDONLY|unix.O_DIRECTORY|unix.O_NOFOLLOW|unix.O_CLOEXEC, 0)
	if err != nil {
		return false
	}
	defer unix.Close(fd)
	list, err := readEntries(fd, commit.Reserved)
	if err != nil || len(list) == 0 {
		return false
	}
	if err := f.store.SettleLazyDir(fd); err != nil {
		f.log.Warnf("commits in %q are not known to be on disk: %v", name, err)
	}
	left, err := readEntries(fd, commit.Reserved)
	removed := err == nil && len(left) < len(list)
	list = left
	for i := range list {
		removed = f.store.RemoveOrphan(fd, list[i].name) == nil || removed
	}
	return removed
}

// roomForNodes reports whether directory listings may plant further nodes: each inode costs
// a descriptor.
func (f *FS) roomForNodes() bool {
	return f.countInodes() < f.maxInodes/2
}
