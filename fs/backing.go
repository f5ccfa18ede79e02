package fs

import (
	"os"

	"golang.org/x/sys/unix"

	"latchfs/fs/asuser"
	"latchfs/fs/iomode"
)

// ownIdentity is the daemon's.
var ownIdentity = asuser.Identity{UID: uint32(os.Geteuid()), GID: uint32(os.Getegid())}

// startIO chooses how h's I/O is done and fills in the answer to its open.
func (hs *handles) startIO(h *handle, want iomode.Mode, out *Opened) {
	is := h.k.io.Start(&h.io, iomode.Wanted{
		Mode: want, Writes: h.writes(), Unbuffered: h.flags&unix.O_DIRECT != 0, Root: h.uid == 0,
		Grows: hs.readsWhatGrows(h),
	}, openFile{hs, h})
	out.Direct, out.KeepCache = is.Mode.IsDirect(), is.KeepCache
	out.Passthrough, out.Backing = is.Mode.PassesThrough(), is.Backing
}

// readsWhatGrows reports whether h reads a file to which programs append records, and to which a
// write may return before the file has its bytes: they wait for their newline or for the lock, or go
// to the file that has the name now. The kernel takes the inode to be as long as the writes through
// it have reached (fuse_write_update_attr in fs/fuse/file.c). When such a write crosses what a
// reader of the inode's pages asks, the reader finds zeros behind the end of the file, and no
// answer keeps the kernel from that. A reader without pages gets what the daemon answers. Before
// Linux 6.6 its descriptor could not be mapped.
//
// The kernel splices from pages in any case. A reader that opened the file before the appender
// keeps its pages, too: another node for the appender would spare that reader the zeros, but a
// program that watches the file (inotify(7)) watches the first node, and would hear of no append.
func (hs *handles) readsWhatGrows(h *handle) bool {
	hs.nodes.mu.Lock()
	defer hs.nodes.mu.Unlock()
	return h.kind == readHandle && (h.n.records > 0 || h.n.lagged) && hs.kernel.srv.MapsDirect()
}

// mayPassWrites looks whether h's file can be opened to write. The kernel does that next, to pass
// writes through, and would tell of a failure by EIO whatever it is (fuse_file_io_open in
// fs/fuse/iomode.c).
func (hs *handles) mayPassWrites(h *handle) unix.Errno {
	fd, err := hs.reopen(hs.nodes.fdOf(h.n), int(h.flags&unix.O_ACCMODE))
	if err == nil {
		err = unix.Close(fd)
	}
	return errnoOf(err)
}

// endIO undoes startIO.
func (hs *handles) endIO(h *handle) { h.k.io.End(&h.io) }

// openFile is what a handle's node stands for, as package iomode asks about it. The node
// stands for it as long as it is asked.
type openFile struct {
	handles *handles
	h       *handle
}

// fd is the descriptor (O_PATH) of the file.
func (o openFile) fd() int { return o.handles.nodes.fdOf(o.handles.kernel.behind(o.h.k)) }

// Register implements iomode.File.
func (o openFile) Register(roots bool) (id int32, ok bool) {
	if !o.handles.disk.passthrough {
		return 0, false
	}
	fd, err := o.handles.reopenUnnoticed(o.fd())
	if err != nil {
		return 0, false
	}
	defer unix.Close(fd)
	if id, err = o.handles.kernel.register(fd, roots); err != nil {
		o.handles.disk.log.Debugf("passthrough not available for node %d: %v", o.h.k.id, err)
	}
	return id, err == nil
}

// Unregister implements iomode.File.
func (o openFile) Unregister(id int32) { o.handles.kernel.Unregister(id) }

// Stamp implements iomode.File.
func (o openFile) Stamp() (iomode.Stamp, bool) {
	var st unix.Stat_t
	err := unix.Fstat(o.fd(), &st)
	return iomode.StampOf(&st), err == nil
}

// HasLoneSetgid implements iomode.File.
func (o openFile) HasLoneSetgid() bool { return o.handles.callers.hasLoneSetgid(o.h.n) }

// IsShortOfSpace implements iomode.File.
func (o openFile) IsShortOfSpace() bool { return o.handles.disk.shortOfSpace() }
