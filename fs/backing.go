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
	}, openFile{hs, h})
	out.Direct, out.KeepCache = is.Mode.IsDirect(), is.KeepCache
	out.Passthrough, out.Backing = is.Mode.PassesThrough(), is.Backing
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
