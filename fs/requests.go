package fs

import (
	"golang.org/x/sys/unix"

	"latchfs/fs/account"
)

// Requests is the filesystem as the kernel's requests are to reach it. It lets them wait for
// their turn (account.Turns), so that nobody has all processors while another user wants one.
//
// A request during which the kernel holds the lock of a directory or an inode does not
// wait, for other users would wait with it: it runs, and others of its user wait. The
// data of files is not counted: to read or write it takes no processor to speak of, and
// a disk serves many requests at once. Neither are requests that wait by themselves,
// for a lock or for a reply.
//
// A method that is not here is FS's own.
type Requests struct{ *FS }

// turn is that of one request, and the one of its look into .locks.
type turn struct{ request, view *account.Turn }

func (f *FS) takeTurn(h *Request) turn {
	var t turn
	if isVirtual(h.Node) {
		t.view = f.views.Take(h.UID)
	}
	t.request = f.turns.Take(h.UID)
	return t
}

func (t turn) end() {
	t.request.End()
	t.view.End()
}

// changes tells the store of a request that changes a directory, until end.
func (s Requests) changes() (end func()) {
	if s.store == nil {
		return func() {}
	}
	return s.store.Change()
}

// Lookup is FS.Lookup, in its turn.
func (s Requests) Lookup(cancel <-chan struct{}, h *Request, name string, out *Entry) unix.Errno {
	defer s.takeTurn(h).end()
	return s.FS.Lookup(cancel, h, name, out)
}

// GetAttr is FS.GetAttr, in its turn.
func (s Requests) GetAttr(cancel <-chan struct{}, in *AttrRequest, out *AttrReply) unix.Errno {
	defer s.takeTurn(&in.Request).end()
	defer s.hold(in.Node).end()
	return s.FS.GetAttr(cancel, in, out)
}

// Statx is FS.Statx, in its turn.
func (s Requests) Statx(cancel <-chan struct{}, in *StatxRequest, out *StatxReply) unix.Errno {
	defer s.takeTurn(&in.Request).end()
	defer s.hold(in.Node).end()
	return s.FS.Statx(cancel, in, out)
}

// SetXAttr is FS.SetXAttr; the inode stays open meanwhile.
func (s Requests) SetXAttr(cancel <-chan struct{}, in *SetXAttrRequest, attr string, data []byte) unix.Errno {
	defer s.changes()()
	defer s.hold(in.Node).end()
	return s.FS.SetXAttr(cancel, in, attr, data)
}

// RemoveXAttr is FS.RemoveXAttr; the inode stays open meanwhile.
func (s Requests) RemoveXAttr(cancel <-chan struct{}, h *Request, attr string) unix.Errno {
	defer s.changes()()
	defer s.hold(h.Node).end()
	return s.FS.RemoveXAttr(cancel, h, attr)
}

// Link is FS.Link; the inode stays open meanwhile.
func (s Requests) Link(cancel <-chan struct{}, in *LinkRequest, name string, out *Entry) unix.Errno {
	defer s.changes()()
	defer s.hold(in.Target).end()
	return s.FS.Link(cancel, in, name, out)
}

// Readlink is FS.Readlink, in its turn.
func (s Requests) Readlink(cancel <-chan struct{}, h *Request) ([]byte, unix.Errno) {
	defer s.takeTurn(h).end()
	return s.FS.Readlink(cancel, h)
}

// GetXAttr is FS.GetXAttr, in its turn.
func (s Requests) GetXAttr(cancel <-chan struct{}, h *Request, attr string, dest []byte) (uint32, unix.Errno) {
	defer s.takeTurn(h).end()
	defer s.hold(h.Node).end()
	return s.FS.GetXAttr(cancel, h, attr, dest)
}

// ListXAttr is FS.ListXAttr, in its turn.
func (s Requests) ListXAttr(cancel <-chan struct{}, h *Request, dest []byte) (uint32, unix.Errno) {
	defer s.takeTurn(h).end()
	defer s.hold(h.Node).end()
	return s.FS.ListXAttr(cancel, h, dest)
}

// Open is FS.Open, in its turn.
func (s Requests) Open(cancel <-chan struct{}, in *OpenRequest, out *Opened) unix.Errno {
	defer s.takeTurn(&in.Request).end()
	defer s.hold(in.Node).end()
	return s.FS.Open(cancel, in, out)
}

// Flush is FS.Flush, in its turn.
func (s Requests) Flush(cancel <-chan struct{}, in *FlushRequest) unix.Errno {
	defer s.takeTurn(&in.Request).end()
	return s.FS.Flush(cancel, in)
}

// Read is FS.Read, in its turn.
func (s Requests) Read(cancel <-chan struct{}, in *ReadRequest, buf []byte) (Data, unix.Errno) {
	if s.virt.isView(in) {
		defer s.takeTurn(&in.Request).end()
	}
	return s.FS.Read(cancel, in, buf)
}

// Write is FS.Write, in its turn. What is written to the control file are
// questions, whose answers take time.
func (s Requests) Write(cancel <-chan struct{}, in *WriteRequest, data [][]byte) (uint32, unix.Errno) {
	if isVirtual(in.Node) {
		defer s.takeTurn(&in.Request).end()
	}
	return s.FS.Write(cancel, in, data)
}

// OpenDir is FS.OpenDir, in its turn.
func (s Requests) OpenDir(cancel <-chan struct{}, in *OpenRequest, out *Opened) unix.Errno {
	defer s.takeTurn(&in.Request).end()
	return s.FS.OpenDir(cancel, in, out)
}

// ReadDir is FS.ReadDir, in its turn.
func (s Requests) ReadDir(cancel <-chan struct{}, in *ReadRequest, out Listing) unix.Errno {
	defer s.takeTurn(&in.Request).end()
	return s.FS.ReadDir(cancel, in, out)
}

// ReadDirPlus is FS.ReadDirPlus, in its turn.
func (s Requests) ReadDirPlus(cancel <-chan struct{}, in *ReadRequest, out Listing) unix.Errno {
	defer s.takeTurn(&in.Request).end()
	return s.FS.ReadDirPlus(cancel, in, out)
}

// GetLk is FS.GetLk, in its turn.
func (s Requests) GetLk(cancel <-chan struct{}, in *LockRequest) (FileLock, unix.Errno) {
	defer s.takeTurn(&in.Request).end()
	return s.FS.GetLk(cancel, in)
}

// SetLk is FS.SetLk, in its turn.
func (s Requests) SetLk(cancel <-chan struct{}, in *LockRequest) unix.Errno {
	defer s.takeTurn(&in.Request).end()
	return s.FS.SetLk(cancel, in)
}

// Create is FS.Create, in its turn.
func (s Requests) Create(cancel <-chan struct{}, in *CreateRequest, name string, out *Created) unix.Errno {
	defer s.changes()()
	defer s.turns.Jump(in.UID).End()
	return s.FS.Create(cancel, in, name, out)
}

// Rename is FS.Rename, in its turn.
func (s Requests) Rename(cancel <-chan struct{}, in *RenameRequest, old, name string) unix.Errno {
	defer s.changes()()
	defer s.turns.Jump(in.UID).End()
	return s.FS.Rename(cancel, in, old, name)
}

// Unlink is FS.Unlink, in its turn.
func (s Requests) Unlink(cancel <-chan struct{}, h *Request, name string) unix.Errno {
	defer s.changes()()
	defer s.turns.Jump(h.UID).End()
	return s.FS.Unlink(cancel, h, name)
}

// SetAttr is FS.SetAttr, in its turn.
func (s Requests) SetAttr(cancel <-chan struct{}, in *SetAttrRequest, out *AttrReply) unix.Errno {
	defer s.changes()()
	defer s.turns.Jump(in.UID).End()
	defer s.hold(in.Node).end()
	return s.FS.SetAttr(cancel, in, out)
}

// Mkdir is FS.Mkdir, of which the store is told.
func (s Requests) Mkdir(cancel <-chan struct{}, in *MakeRequest, name string, out *Entry) unix.Errno {
	defer s.changes()()
	return s.FS.Mkdir(cancel, in, name, out)
}

// Mknod is FS.Mknod, of which the store is told.
func (s Requests) Mknod(cancel <-chan struct{}, in *MakeRequest, name string, out *Entry) unix.Errno {
	defer s.changes()()
	return s.FS.Mknod(cancel, in, name, out)
}

// Symlink is FS.Symlink, of which the store is told.
func (s Requests) Symlink(cancel <-chan struct{}, h *Request, pointedTo, name string, out *Entry) unix.Errno {
	defer s.changes()()
	return s.FS.Symlink(cancel, h, pointedTo, name, out)
}

// Rmdir is FS.Rmdir, of which the store is told.
func (s Requests) Rmdir(cancel <-chan struct{}, h *Request, name string) unix.Errno {
	defer s.changes()()
	return s.FS.Rmdir(cancel, h, name)
}
