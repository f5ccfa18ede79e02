package fs

import (
	"github.com/hanwen/go-fuse/v2/fuse"

	"latchfs/fs/account"
)

// face is what the kernel sees of the filesystem. It lets requests wait for their turn
// (account.Turns), so that nobody has all processors while another user wants one.
//
// A request during which the kernel holds the lock of a directory or an inode does not
// wait, for other users would wait with it: it runs, and others of its user wait. The
// data of files is not counted: to read or write it takes no processor to speak of, and
// a disk serves many requests at once. Neither are requests that wait by themselves,
// for a lock or for a reply.
type face struct{ *FS }

// turn is that of one request, and the one of its look into .locks.
type turn struct{ request, view *account.Turn }

func (f *FS) takeTurn(h *fuse.InHeader) turn {
	var t turn
	if isVirtual(h.NodeId) {
		t.view = f.views.Take(h.Uid)
	}
	t.request = f.turns.Take(h.Uid)
	return t
}

func (t turn) end() {
	t.request.End()
	t.view.End()
}

// Lookup implements fuse.RawFileSystem.
func (s face) Lookup(cancel <-chan struct{}, h *fuse.InHeader, name string, out *fuse.EntryOut) fuse.Status {
	defer s.takeTurn(h).end()
	return s.FS.Lookup(cancel, h, name, out)
}

// GetAttr implements fuse.RawFileSystem.
func (s face) GetAttr(cancel <-chan struct{}, in *fuse.GetAttrIn, out *fuse.AttrOut) fuse.Status {
	defer s.takeTurn(&in.InHeader).end()
	defer s.hold(in.NodeId).end()
	return s.FS.GetAttr(cancel, in, out)
}

// Statx implements fuse.RawFileSystem.
func (s face) Statx(cancel <-chan struct{}, in *fuse.StatxIn, out *fuse.StatxOut) fuse.Status {
	defer s.takeTurn(&in.InHeader).end()
	defer s.hold(in.NodeId).end()
	return s.FS.Statx(cancel, in, out)
}

// SetXAttr implements fuse.RawFileSystem.
func (s face) SetXAttr(cancel <-chan struct{}, in *fuse.SetXAttrIn, attr string, data []byte) fuse.Status {
	defer s.hold(in.NodeId).end()
	return s.FS.SetXAttr(cancel, in, attr, data)
}

// RemoveXAttr implements fuse.RawFileSystem.
func (s face) RemoveXAttr(cancel <-chan struct{}, h *fuse.InHeader, attr string) fuse.Status {
	defer s.hold(h.NodeId).end()
	return s.FS.RemoveXAttr(cancel, h, attr)
}

// Link implements fuse.RawFileSystem.
func (s face) Link(cancel <-chan struct{}, in *fuse.LinkIn, name string, out *fuse.EntryOut) fuse.Status {
	defer s.hold(in.Oldnodeid).end()
	return s.FS.Link(cancel, in, name, out)
}

// Readlink implements fuse.RawFileSystem.
func (s face) Readlink(cancel <-chan struct{}, h *fuse.InHeader) ([]byte, fuse.Status) {
	defer s.takeTurn(h).end()
	return s.FS.Readlink(cancel, h)
}

// GetXAttr implements fuse.RawFileSystem.
func (s face) GetXAttr(cancel <-chan struct{}, h *fuse.InHeader, attr string, dest []byte) (uint32, fuse.Status) {
	defer s.takeTurn(h).end()
	defer s.hold(h.NodeId).end()
	return s.FS.GetXAttr(cancel, h, attr, dest)
}

// ListXAttr implements fuse.RawFileSystem.
func (s face) ListXAttr(cancel <-chan struct{}, h *fuse.InHeader, dest []byte) (uint32, fuse.Status) {
	defer s.takeTurn(h).end()
	defer s.hold(h.NodeId).end()
	return s.FS.ListXAttr(cancel, h, dest)
}

// Open implements fuse.RawFileSystem.
func (s face) Open(cancel <-chan struct{}, in *fuse.OpenIn, out *fuse.OpenOut) fuse.Status {
	defer s.takeTurn(&in.InHeader).end()
	defer s.hold(in.NodeId).end()
	return s.FS.Open(cancel, in, out)
}

// Flush implements fuse.RawFileSystem.
func (s face) Flush(cancel <-chan struct{}, in *fuse.FlushIn) fuse.Status {
	defer s.takeTurn(&in.InHeader).end()
	return s.FS.Flush(cancel, in)
}

// Read implements fuse.RawFileSystem.
func (s face) Read(cancel <-chan struct{}, in *fuse.ReadIn, buf []byte) (fuse.ReadResult, fuse.Status) {
	if s.virt.isView(in) {
		defer s.takeTurn(&in.InHeader).end()
	}
	return s.FS.Read(cancel, in, buf)
}

// Writev implements fuse.RawFileSystem. What is written to the control file are
// questions, whose answers take time.
func (s face) Writev(cancel <-chan struct{}, in *fuse.WriteIn, data [][]byte) (uint32, fuse.Status) {
	if isVirtual(in.NodeId) {
		defer s.takeTurn(&in.InHeader).end()
	}
	return s.FS.Writev(cancel, in, data)
}

// OpenDir implements fuse.RawFileSystem.
func (s face) OpenDir(cancel <-chan struct{}, in *fuse.OpenIn, out *fuse.OpenOut) fuse.Status {
	defer s.takeTurn(&in.InHeader).end()
	return s.FS.OpenDir(cancel, in, out)
}

// ReadDir implements fuse.RawFileSystem.
func (s face) ReadDir(cancel <-chan struct{}, in *fuse.ReadIn, out *fuse.DirEntryList) fuse.Status {
	defer s.takeTurn(&in.InHeader).end()
	return s.FS.ReadDir(cancel, in, out)
}

// ReadDirPlus implements fuse.RawFileSystem.
func (s face) ReadDirPlus(cancel <-chan struct{}, in *fuse.ReadIn, out *fuse.DirEntryList) fuse.Status {
	defer s.takeTurn(&in.InHeader).end()
	return s.FS.ReadDirPlus(cancel, in, out)
}

// GetLk implements fuse.RawFileSystem.
func (s face) GetLk(cancel <-chan struct{}, in *fuse.LkIn, out *fuse.LkOut) fuse.Status {
	defer s.takeTurn(&in.InHeader).end()
	return s.FS.GetLk(cancel, in, out)
}

// SetLk implements fuse.RawFileSystem.
func (s face) SetLk(cancel <-chan struct{}, in *fuse.LkIn) fuse.Status {
	defer s.takeTurn(&in.InHeader).end()
	return s.FS.SetLk(cancel, in)
}

// Create implements fuse.RawFileSystem.
func (s face) Create(cancel <-chan struct{}, in *fuse.CreateIn, name string, out *fuse.CreateOut) fuse.Status {
	defer s.turns.Jump(in.Uid).End()
	return s.FS.Create(cancel, in, name, out)
}

// Rename implements fuse.RawFileSystem.
func (s face) Rename(cancel <-chan struct{}, in *fuse.RenameIn, old, name string) fuse.Status {
	defer s.turns.Jump(in.Uid).End()
	return s.FS.Rename(cancel, in, old, name)
}

// Unlink implements fuse.RawFileSystem.
func (s face) Unlink(cancel <-chan struct{}, h *fuse.InHeader, name string) fuse.Status {
	defer s.turns.Jump(h.Uid).End()
	return s.FS.Unlink(cancel, h, name)
}

// SetAttr implements fuse.RawFileSystem.
func (s face) SetAttr(cancel <-chan struct{}, in *fuse.SetAttrIn, out *fuse.AttrOut) fuse.Status {
	defer s.turns.Jump(in.Uid).End()
	defer s.hold(in.NodeId).end()
	return s.FS.SetAttr(cancel, in, out)
}
