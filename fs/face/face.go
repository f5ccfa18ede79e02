// Package face is the mount: it takes the kernel's FUSE requests, puts them to package fs
// in its words, and puts the answers into the kernel's. It alone knows FUSE. What a request
// means, and whether it may, is no business of it.
//
// Start mounts; the Mount that it returns serves until it is shut down or taken away. The
// package has no mutex.
package face

import (
	"github.com/hanwen/go-fuse/v2/fuse"
	"golang.org/x/sys/unix"

	"latchfs/fs"
)

// face is what go-fuse calls for each request of the kernel.
type face struct {
	omitted
	nameRequests
	fileRequests
	fs     fs.Requests
	attach func(srv *fuse.Server) // once the kernel has said what it can do
}

// omitted are the requests that face does not answer but with ENOSYS: the kernel does what they
// ask for itself.
type omitted struct{ fuse.RawFileSystem }

// String implements fuse.RawFileSystem.
func (c *face) String() string { return "latchfs" }

// Init implements fuse.RawFileSystem.
func (c *face) Init(srv *fuse.Server) { c.attach(srv) }

// OnUnmount implements fuse.RawFileSystem.
func (c *face) OnUnmount() {}

// request is what every request says.
func request(h *fuse.InHeader) fs.Request {
	return fs.Request{Node: h.NodeId, TID: h.Pid, UID: h.Uid, GID: h.Gid}
}

// fill puts attributes into the kernel's words.
func fill(out *fuse.Attr, a *fs.Attr) {
	*out = fuse.Attr{
		Ino: a.Ino, Size: a.Size, Blocks: a.Blocks,
		Atime: uint64(a.Atime.Sec), Mtime: uint64(a.Mtime.Sec), Ctime: uint64(a.Ctime.Sec),
		Atimensec: uint32(a.Atime.Nsec), Mtimensec: uint32(a.Mtime.Nsec), Ctimensec: uint32(a.Ctime.Nsec),
		Mode: a.Mode, Nlink: a.Nlink, Owner: fuse.Owner{Uid: a.UID, Gid: a.GID}, Rdev: a.Rdev, Blksize: a.Blksize,
	}
}

// generation is that of every node: no number is used twice.
const generation = 1

// fillEntry does the same with what a name leads to.
func fillEntry(out *fuse.EntryOut, e *fs.Entry) {
	out.NodeId, out.Generation = e.Node, generation
	fill(&out.Attr, &e.Attr)
	out.SetEntryTimeout(e.NameTTL)
	out.SetAttrTimeout(e.AttrTTL)
}

// fillOpened does the same with an open file.
func fillOpened(out *fuse.OpenOut, o *fs.Opened) {
	out.Fh, out.BackingID = o.Handle, o.Backing
	out.OpenFlags = 0
	for _, f := range [...]struct {
		set  bool
		flag uint32
	}{
		{o.Direct, fuse.FOPEN_DIRECT_IO}, {o.KeepCache, fuse.FOPEN_KEEP_CACHE}, {o.NoFlush, fuse.FOPEN_NOFLUSH},
		{o.Stream, fuse.FOPEN_STREAM}, {o.Passthrough, fuse.FOPEN_PASSTHROUGH},
	} {
		if f.set {
			out.OpenFlags |= f.flag
		}
	}
}

// entry answers with what a name leads to.
func entry(out *fuse.EntryOut, e *fs.Entry, errno unix.Errno) fuse.Status {
	if errno == 0 {
		fillEntry(out, e)
	}
	return fuse.Status(errno)
}

// Lookup implements fuse.RawFileSystem.
func (c *face) Lookup(cancel <-chan struct{}, h *fuse.InHeader, name string, out *fuse.EntryOut) fuse.Status {
	in := request(h)
	var e fs.Entry
	errno := c.fs.Lookup(cancel, &in, name, &e)
	return entry(out, &e, errno)
}

// Forget implements fuse.RawFileSystem.
func (c *face) Forget(node, nlookup uint64) { c.fs.Forget(node, nlookup) }

// StatFs implements fuse.RawFileSystem.
func (c *face) StatFs(cancel <-chan struct{}, h *fuse.InHeader, out *fuse.StatfsOut) fuse.Status {
	in := request(h)
	var st unix.Statfs_t
	if e := c.fs.StatFs(cancel, &in, &st); e != 0 {
		return fuse.Status(e)
	}
	out.Blocks, out.Bfree, out.Bavail = st.Blocks, st.Bfree, st.Bavail
	out.Files, out.Ffree = st.Files, st.Ffree
	out.Bsize, out.Frsize, out.NameLen = uint32(st.Bsize), uint32(st.Frsize), uint32(st.Namelen)
	return fuse.OK
}
