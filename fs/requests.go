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
// The others, which take no turn, are at the end.
type Requests struct{ f *FS }

// Requests are those of the kernel, which may come as soon as it is attached.
func (f *FS) Requests() Requests { return Requests{f} }

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
	if s.f.store == nil {
		return func() {}
	}
	return s.f.store.Change()
}

// Lookup is FS.Lookup, in its turn.
func (s Requests) Lookup(cancel <-chan struct{}, h *Request, name string, out *Entry) unix.Errno {
	defer s.f.takeTurn(h).end()
	return s.f.Lookup(cancel, h, name, out)
}

// GetAttr is FS.GetAttr, in its turn.
func (s Requests) GetAttr(cancel <-chan struct{}, in *AttrRequest, out *AttrReply) unix.Errno {
	defer s.f.takeTurn(&in.Request).end()
	defer s.f.hold(in.Node).end()
	return s.f.GetAttr(cancel, in, out)
}

// Statx is FS.Statx, in its turn.
func (s Requests) Statx(cancel <-chan struct{}, in *StatxRequest, out *StatxReply) unix.Errno {
	defer s.f.takeTurn(&in.Request).end()
	defer s.f.hold(in.Node).end()
	return s.f.Statx(cancel, in, out)
}

// SetXAttr is FS.SetXAttr; the inode stays open meanwhile.
func (s Requests) SetXAttr(cancel <-chan struct{}, in *SetXAttrRequest, attr string, data []byte) unix.Errno {
	defer s.changes()()
	defer s.f.hold(in.Node).end()
	return s.f.SetXAttr(cancel, in, attr, data)
}

// RemoveXAttr is FS.RemoveXAttr; the inode stays open meanwhile.
func (s Requests) RemoveXAttr(cancel <-chan struct{}, h *Request, attr string) unix.Errno {
	defer s.changes()()
	defer s.f.hold(h.Node).end()
	return s.f.RemoveXAttr(cancel, h, attr)
}

// Link is FS.Link; the inode stays open meanwhile.
func (s Requests) Link(cancel <-chan struct{}, in *LinkRequest, name string, out *Entry) unix.Errno {
	defer s.changes()()
	defer s.f.hold(in.Target).end()
	return s.f.Link(cancel, in, name, out)
}

// Readlink is FS.Readlink, in its turn.
func (s Requests) Readlink(cancel <-chan struct{}, h *Request) ([]byte, unix.Errno) {
	defer s.f.takeTurn(h).end()
	return s.f.Readlink(cancel, h)
}

// GetXAttr is FS.GetXAttr, in its turn.
func (s Requests) GetXAttr(cancel <-chan struct{}, h *Request, attr string, dest []byte) (uint32, unix.Errno) {
	defer s.f.takeTurn(h).end()
	defer s.f.hold(h.Node).end()
	return s.f.GetXAttr(cancel, h, attr, dest)
}

// ListXAttr is FS.ListXAttr, in its turn.
func (s Requests) ListXAttr(cancel <-chan struct{}, h *Request, dest []byte) (uint32, unix.Errno) {
	defer s.f.takeTurn(h).end()
	defer s.f.hold(h.Node).end()
	return s.f.ListXAttr(cancel, h, dest)
}

// Open is FS.Open, in its turn.
func (s Requests) Open(cancel <-chan struct{}, in *OpenRequest, out *Opened) unix.Errno {
	defer s.f.takeTurn(&in.Request).end()
	defer s.f.hold(in.Node).end()
	return s.f.Open(cancel, in, out)
}

// Flush is FS.Flush, in its turn.
func (s Requests) Flush(cancel <-chan struct{}, in *FlushRequest) unix.Errno {
	defer s.f.takeTurn(&in.Request).end()
	return s.f.Flush(cancel, in)
}

// Read is FS.Read, in its turn.
func (s Requests) Read(cancel <-chan struct{}, in *ReadRequest, buf []byte) (Data, unix.Errno) {
	if s.f.virt.isView(in) {
		defer s.f.takeTurn(&in.Request).end()
	}
	return s.f.Read(cancel, in, buf)
}

// Write is FS.Write, in its turn. What is written to the control file are
// questions, whose answers take time.
func (s Requests) Write(cancel <-chan struct{}, in *WriteRequest, data [][]byte) (uint32, unix.Errno) {
	if isVirtual(in.Node) {
		defer s.f.takeTurn(&in.Request).end()
	}
	return s.f.Write(cancel, in, data)
}

// OpenDir is FS.OpenDir, in its turn.
func (s Requests) OpenDir(cancel <-chan struct{}, in *OpenRequest, out *Opened) unix.Errno {
	defer s.f.takeTurn(&in.Request).end()
	return s.f.OpenDir(cancel, in, out)
}

// ReadDir is FS.ReadDir, in its turn.
func (s Requests) ReadDir(cancel <-chan struct{}, in *ReadRequest, out Listing) unix.Errno {
	defer s.f.takeTurn(&in.Request).end()
	return s.f.ReadDir(cancel, in, out)
}

// ReadDirPlus is FS.ReadDirPlus, in its turn.
func (s Requests) ReadDirPlus(cancel <-chan struct{}, in *ReadRequest, out Listing) unix.Errno {
	defer s.f.takeTurn(&in.Request).end()
	return s.f.ReadDirPlus(cancel, in, out)
}

// GetLk is FS.GetLk, in its turn.
func (s Requests) GetLk(cancel <-chan struct{}, in *LockRequest) (FileLock, unix.Errno) {
	defer s.f.takeTurn(&in.Request).end()
	return s.f.GetLk(cancel, in)
}

// SetLk is FS.SetLk, in its turn.
func (s Requests) SetLk(cancel <-chan struct{}, in *LockRequest) unix.Errno {
	defer s.f.takeTurn(&in.Request).end()
	return s.f.SetLk(cancel, in)
}

// Create is FS.Create, in its turn.
func (s Requests) Create(cancel <-chan struct{}, in *CreateRequest, name string, out *Created) unix.Errno {
	defer s.changes()()
	defer s.f.turns.Jump(in.UID).End()
	return s.f.Create(cancel, in, name, out)
}

// Rename is FS.Rename, in its turn.
func (s Requests) Rename(cancel <-chan struct{}, in *RenameRequest, old, name string) unix.Errno {
	defer s.changes()()
	defer s.f.turns.Jump(in.UID).End()
	return s.f.Rename(cancel, in, old, name)
}

// Unlink is FS.Unlink, in its turn.
func (s Requests) Unlink(cancel <-chan struct{}, h *Request, name string) unix.Errno {
	defer s.changes()()
	defer s.f.turns.Jump(h.UID).End()
	return s.f.Unlink(cancel, h, name)
}

// SetAttr is FS.SetAttr, in its turn.
func (s Requests) SetAttr(cancel <-chan struct{}, in *SetAttrRequest, out *AttrReply) unix.Errno {
	defer s.changes()()
	defer s.f.turns.Jump(in.UID).End()
	defer s.f.hold(in.Node).end()
	return s.f.SetAttr(cancel, in, out)
}

// Mkdir is FS.Mkdir, of which the store is told.
func (s Requests) Mkdir(cancel <-chan struct{}, in *MakeRequest, name string, out *Entry) unix.Errno {
	defer s.changes()()
	return s.f.Mkdir(cancel, in, name, out)
}

// Mknod is FS.Mknod, of which the store is told.
func (s Requests) Mknod(cancel <-chan struct{}, in *MakeRequest, name string, out *Entry) unix.Errno {
	defer s.changes()()
	return s.f.Mknod(cancel, in, name, out)
}

// Symlink is FS.Symlink, of which the store is told.
func (s Requests) Symlink(cancel <-chan struct{}, h *Request, pointedTo, name string, out *Entry) unix.Errno {
	defer s.changes()()
	return s.f.Symlink(cancel, h, pointedTo, name, out)
}

// Rmdir is FS.Rmdir, of which the store is told.
func (s Requests) Rmdir(cancel <-chan struct{}, h *Request, name string) unix.Errno {
	defer s.changes()()
	return s.f.Rmdir(cancel, h, name)
}

// Forget is FS.Forget.
func (s Requests) Forget(id, nlookup uint64) { s.f.Forget(id, nlookup) }

// StatFs is FS.StatFs.
func (s Requests) StatFs(cancel <-chan struct{}, h *Request, out *unix.Statfs_t) unix.Errno {
	return s.f.StatFs(cancel, h, out)
}

// Tmpfile is FS.Tmpfile.
func (s Requests) Tmpfile(cancel <-chan struct{}, in *CreateRequest, out *Created) unix.Errno {
	return s.f.Tmpfile(cancel, in, out)
}

// Lseek is FS.Lseek.
func (s Requests) Lseek(cancel <-chan struct{}, in *SeekRequest) (uint64, unix.Errno) {
	return s.f.Lseek(cancel, in)
}

// Fallocate is FS.Fallocate.
func (s Requests) Fallocate(cancel <-chan struct{}, in *AllocRequest) unix.Errno {
	return s.f.Fallocate(cancel, in)
}

// CopyFileRange is FS.CopyFileRange.
func (s Requests) CopyFileRange(cancel <-chan struct{}, in *CopyRequest) (uint32, unix.Errno) {
	return s.f.CopyFileRange(cancel, in)
}

// Fsync is FS.Fsync, which waits for the disk.
func (s Requests) Fsync(cancel <-chan struct{}, in *FsyncRequest) unix.Errno {
	return s.f.Fsync(cancel, in)
}

// FsyncDir is FS.FsyncDir, which waits for the disk.
func (s Requests) FsyncDir(cancel <-chan struct{}, in *FsyncRequest) unix.Errno {
	return s.f.FsyncDir(cancel, in)
}

// Release is FS.Release.
func (s Requests) Release(cancel <-chan struct{}, in *ReleaseRequest) { s.f.Release(cancel, in) }

// ReleaseDir is FS.ReleaseDir.
func (s Requests) ReleaseDir(in *ReleaseRequest) { s.f.ReleaseDir(in) }

// SetLkw is FS.SetLkw, which waits for a lock.
func (s Requests) SetLkw(cancel <-chan struct{}, in *LockRequest) unix.Errno {
	return s.f.SetLkw(cancel, in)
}
