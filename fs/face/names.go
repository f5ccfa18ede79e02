package face

import (
	"github.com/hanwen/go-fuse/v2/fuse"

	"latchfs/fs"
)

// nameRequests are those that make, change, remove and list names, and those about extended
// attributes.
type nameRequests struct{ fs fs.Requests }

// Mkdir implements fuse.RawFileSystem.
func (c nameRequests) Mkdir(cancel <-chan struct{}, in *fuse.MkdirIn, name string, out *fuse.EntryOut) fuse.Status {
	q := fs.MakeRequest{Request: request(&in.InHeader), Mode: in.Mode, Umask: in.Umask}
	var e fs.Entry
	errno := c.fs.Mkdir(cancel, &q, name, &e)
	return entry(out, &e, errno)
}

// Mknod implements fuse.RawFileSystem.
func (c nameRequests) Mknod(cancel <-chan struct{}, in *fuse.MknodIn, name string, out *fuse.EntryOut) fuse.Status {
	q := fs.MakeRequest{Request: request(&in.InHeader), Mode: in.Mode, Umask: in.Umask, Rdev: in.Rdev}
	var e fs.Entry
	errno := c.fs.Mknod(cancel, &q, name, &e)
	return entry(out, &e, errno)
}

// Symlink implements fuse.RawFileSystem.
func (c nameRequests) Symlink(cancel <-chan struct{}, h *fuse.InHeader, pointedTo, name string, out *fuse.EntryOut) fuse.Status {
	in := request(h)
	var e fs.Entry
	errno := c.fs.Symlink(cancel, &in, pointedTo, name, &e)
	return entry(out, &e, errno)
}

// Link implements fuse.RawFileSystem.
func (c nameRequests) Link(cancel <-chan struct{}, in *fuse.LinkIn, name string, out *fuse.EntryOut) fuse.Status {
	var e fs.Entry
	errno := c.fs.Link(cancel, &fs.LinkRequest{Request: request(&in.InHeader), Target: in.Oldnodeid}, name, &e)
	return entry(out, &e, errno)
}

// Readlink implements fuse.RawFileSystem.
func (c nameRequests) Readlink(cancel <-chan struct{}, h *fuse.InHeader) ([]byte, fuse.Status) {
	in := request(h)
	target, e := c.fs.Readlink(cancel, &in)
	return target, fuse.Status(e)
}

// Unlink implements fuse.RawFileSystem.
func (c nameRequests) Unlink(cancel <-chan struct{}, h *fuse.InHeader, name string) fuse.Status {
	in := request(h)
	return fuse.Status(c.fs.Unlink(cancel, &in, name))
}

// Rmdir implements fuse.RawFileSystem.
func (c nameRequests) Rmdir(cancel <-chan struct{}, h *fuse.InHeader, name string) fuse.Status {
	in := request(h)
	return fuse.Status(c.fs.Rmdir(cancel, &in, name))
}

// Rename implements fuse.RawFileSystem.
func (c nameRequests) Rename(cancel <-chan struct{}, in *fuse.RenameIn, oldName, newName string) fuse.Status {
	return fuse.Status(c.fs.Rename(cancel, &fs.RenameRequest{Request: request(&in.InHeader), NewDir: in.Newdir, Flags: in.Flags}, oldName, newName))
}

// OpenDir implements fuse.RawFileSystem.
func (c nameRequests) OpenDir(cancel <-chan struct{}, in *fuse.OpenIn, out *fuse.OpenOut) fuse.Status {
	var o fs.Opened
	return opened(out, &o, c.fs.OpenDir(cancel, openRequest(in), &o))
}

// ReadDir implements fuse.RawFileSystem.
func (c nameRequests) ReadDir(cancel <-chan struct{}, in *fuse.ReadIn, out *fuse.DirEntryList) fuse.Status {
	return fuse.Status(c.fs.ReadDir(cancel, readRequest(in), names{out}))
}

// ReadDirPlus implements fuse.RawFileSystem.
func (c nameRequests) ReadDirPlus(cancel <-chan struct{}, in *fuse.ReadIn, out *fuse.DirEntryList) fuse.Status {
	return fuse.Status(c.fs.ReadDirPlus(cancel, readRequest(in), &described{list: out}))
}

// ReleaseDir implements fuse.RawFileSystem.
func (c nameRequests) ReleaseDir(in *fuse.ReleaseIn) {
	c.fs.ReleaseDir(&fs.ReleaseRequest{Request: request(&in.InHeader), Handle: in.Fh})
}

// FsyncDir implements fuse.RawFileSystem.
func (c nameRequests) FsyncDir(cancel <-chan struct{}, in *fuse.FsyncIn) fuse.Status {
	return fuse.Status(c.fs.FsyncDir(cancel, fsyncRequest(in)))
}

// listed is an entry of a directory in the kernel's words.
func listed(d *fs.Listed) fuse.DirEntry {
	return fuse.DirEntry{Name: d.Name, Ino: d.Ino, Mode: d.Mode, Off: d.Next}
}

// names is a listing of names alone.
type names struct{ list *fuse.DirEntryList }

// Add implements fs.Listing.
func (l names) Add(d fs.Listed) bool { return l.list.AddDirEntry(listed(&d)) }

// Describe implements fs.Listing. Nobody asks for it here.
func (l names) Describe(*fs.Entry) {}

// described is a listing of names with what they lead to.
type described struct {
	list *fuse.DirEntryList
	last *fuse.EntryOut // of the entry added last
}

// Add implements fs.Listing.
func (l *described) Add(d fs.Listed) bool {
	l.last = l.list.AddDirLookupEntry(listed(&d))
	return l.last != nil
}

// Describe implements fs.Listing.
func (l *described) Describe(e *fs.Entry) { fillEntry(l.last, e) }

// GetXAttr implements fuse.RawFileSystem.
func (c nameRequests) GetXAttr(cancel <-chan struct{}, h *fuse.InHeader, attr string, dest []byte) (uint32, fuse.Status) {
	in := request(h)
	n, e := c.fs.GetXAttr(cancel, &in, attr, dest)
	return n, fuse.Status(e)
}

// ListXAttr implements fuse.RawFileSystem.
func (c nameRequests) ListXAttr(cancel <-chan struct{}, h *fuse.InHeader, dest []byte) (uint32, fuse.Status) {
	in := request(h)
	n, e := c.fs.ListXAttr(cancel, &in, dest)
	return n, fuse.Status(e)
}

// SetXAttr implements fuse.RawFileSystem.
func (c nameRequests) SetXAttr(cancel <-chan struct{}, in *fuse.SetXAttrIn, attr string, data []byte) fuse.Status {
	q := fs.SetXAttrRequest{Request: request(&in.InHeader), Flags: in.Flags, KillSgid: in.SetXAttrFlags&fuse.SETXATTR_ACL_KILL_SGID != 0}
	return fuse.Status(c.fs.SetXAttr(cancel, &q, attr, data))
}

// RemoveXAttr implements fuse.RawFileSystem.
func (c nameRequests) RemoveXAttr(cancel <-chan struct{}, h *fuse.InHeader, attr string) fuse.Status {
	in := request(h)
	return fuse.Status(c.fs.RemoveXAttr(cancel, &in, attr))
}
