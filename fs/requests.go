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
// Of a request to which the walk of a path has led, and which the kernel repeats after ESTALE, it
// tells when it is answered.
//
// The others, which take no turn, are at the end.
type Requests struct{ f *FS }

// Requests are those of the kernel, which may come as soon as it is attached.
func (f *FS) Requests() Requests { return Requests{f} }

// turn is that of one request, and the one of its look into .locks.
type turn struct{ request, view *account.Turn }

func (cs *callers) takeTurn(h *Request) turn {
	var t turn
	if isVirtual(h.Node) {
		t.view = cs.views.Take(h.UID)
	}
	t.request = cs.turns.Take(h.UID)
	return t
}

func (t turn) end() {
	t.request.End()
	t.view.End()
}

// changes tells the store of a request that changes a directory, until end.
func (s Requests) changes() (end func()) {
	if s.f.disk.store == nil {
		return func() {}
	}
	return s.f.disk.store.Change()
}

// Lookup is opens.Lookup, in its turn.
func (s Requests) Lookup(cancel <-chan struct{}, h *Request, name string, out *Entry) unix.Errno {
	defer s.f.callers.takeTurn(h).end()
	return s.f.opens.Lookup(cancel, h, name, out)
}

// GetAttr is attrs.GetAttr, in its turn.
func (s Requests) GetAttr(cancel <-chan struct{}, in *AttrRequest, out *AttrReply) unix.Errno {
	defer s.f.callers.takeTurn(&in.Request).end()
	defer s.f.kernel.hold(in.Node).end()
	return s.f.attrs.GetAttr(cancel, in, out)
}

// Statx is attrs.Statx, in its turn.
func (s Requests) Statx(cancel <-chan struct{}, in *StatxRequest, out *StatxReply) unix.Errno {
	defer s.f.callers.takeTurn(&in.Request).end()
	defer s.f.kernel.hold(in.Node).end()
	return s.f.attrs.Statx(cancel, in, out)
}

// SetXAttr is attrs.SetXAttr; the inode stays open meanwhile.
func (s Requests) SetXAttr(cancel <-chan struct{}, in *SetXAttrRequest, attr string, data []byte) unix.Errno {
	defer s.f.astray.walks.Answered(in.TID)
	defer s.changes()()
	defer s.f.kernel.hold(in.Node).end()
	return s.told(&in.Request, opXattr, in.Node, "", s.f.attrs.SetXAttr(cancel, in, attr, data))
}

// RemoveXAttr is attrs.RemoveXAttr; the inode stays open meanwhile.
func (s Requests) RemoveXAttr(cancel <-chan struct{}, h *Request, attr string) unix.Errno {
	defer s.f.astray.walks.Answered(h.TID)
	defer s.changes()()
	defer s.f.kernel.hold(h.Node).end()
	return s.told(h, opXattr, h.Node, "", s.f.attrs.RemoveXAttr(cancel, h, attr))
}

// Link is entries.Link; the inode stays open meanwhile.
func (s Requests) Link(cancel <-chan struct{}, in *LinkRequest, name string, out *Entry) unix.Errno {
	defer s.f.astray.walks.Answered(in.TID)
	defer s.changes()()
	defer s.f.kernel.hold(in.Target).end()
	e := s.f.entries.Link(cancel, in, name, out)
	if e == unix.EROFS && s.f.reports.isKept(s.pathOf(in.Target, "")) {
		return e
	}
	return s.told(&in.Request, opLink, in.Node, name, e)
}

// Readlink is entries.Readlink, in its turn.
func (s Requests) Readlink(cancel <-chan struct{}, h *Request) ([]byte, unix.Errno) {
	defer s.f.callers.takeTurn(h).end()
	return s.f.entries.Readlink(cancel, h)
}

// GetXAttr is attrs.GetXAttr, in its turn.
func (s Requests) GetXAttr(cancel <-chan struct{}, h *Request, attr string, dest []byte) (uint32, unix.Errno) {
	defer s.f.callers.takeTurn(h).end()
	defer s.f.kernel.hold(h.Node).end()
	return s.f.attrs.GetXAttr(cancel, h, attr, dest)
}

// ListXAttr is attrs.ListXAttr, in its turn.
func (s Requests) ListXAttr(cancel <-chan struct{}, h *Request, dest []byte) (uint32, unix.Errno) {
	defer s.f.callers.takeTurn(h).end()
	defer s.f.kernel.hold(h.Node).end()
	return s.f.attrs.ListXAttr(cancel, h, dest)
}

// Open is opens.Open, in its turn.
func (s Requests) Open(cancel <-chan struct{}, in *OpenRequest, out *Opened) unix.Errno {
	defer s.f.astray.walks.Answered(in.TID)
	defer s.f.callers.takeTurn(&in.Request).end()
	defer s.f.kernel.hold(in.Node).end()
	return s.told(&in.Request, opOpen, in.Node, "", s.f.opens.Open(cancel, in, out))
}

// Flush is endings.Flush, in its turn.
func (s Requests) Flush(cancel <-chan struct{}, in *FlushRequest) unix.Errno {
	defer s.f.callers.takeTurn(&in.Request).end()
	return s.f.endings.Flush(cancel, in)
}

// Read is contents.Read, in its turn.
func (s Requests) Read(cancel <-chan struct{}, in *ReadRequest, buf []byte) (Data, unix.Errno) {
	if s.f.view.virt.isView(in) {
		defer s.f.callers.takeTurn(&in.Request).end()
	}
	return s.f.contents.Read(cancel, in, buf)
}

// Write is contents.Write, in its turn. What is written to the control file are
// questions, whose answers take time.
func (s Requests) Write(cancel <-chan struct{}, in *WriteRequest, data [][]byte) (uint32, unix.Errno) {
	if isVirtual(in.Node) {
		defer s.f.callers.takeTurn(&in.Request).end()
	}
	return s.f.contents.Write(cancel, in, data)
}

// OpenDir is listings.OpenDir, in its turn.
func (s Requests) OpenDir(cancel <-chan struct{}, in *OpenRequest, out *Opened) unix.Errno {
	defer s.f.callers.takeTurn(&in.Request).end()
	return s.f.listings.OpenDir(cancel, in, out)
}

// ReadDir is listings.ReadDir, in its turn.
func (s Requests) ReadDir(cancel <-chan struct{}, in *ReadRequest, out Listing) unix.Errno {
	defer s.f.callers.takeTurn(&in.Request).end()
	return s.f.listings.ReadDir(cancel, in, out)
}

// ReadDirPlus is listings.ReadDirPlus, in its turn.
func (s Requests) ReadDirPlus(cancel <-chan struct{}, in *ReadRequest, out Listing) unix.Errno {
	defer s.f.callers.takeTurn(&in.Request).end()
	return s.f.listings.ReadDirPlus(cancel, in, out)
}

// GetLk is advisoryLocks.GetLk, in its turn.
func (s Requests) GetLk(cancel <-chan struct{}, in *LockRequest) (FileLock, unix.Errno) {
	defer s.f.callers.takeTurn(&in.Request).end()
	return s.f.advisoryLocks.GetLk(cancel, in)
}

// SetLk is advisoryLocks.SetLk, in its turn.
func (s Requests) SetLk(cancel <-chan struct{}, in *LockRequest) unix.Errno {
	defer s.f.callers.takeTurn(&in.Request).end()
	return s.f.advisoryLocks.SetLk(cancel, in)
}

// Create is opens.Create, in its turn.
func (s Requests) Create(cancel <-chan struct{}, in *CreateRequest, name string, out *Created) unix.Errno {
	defer s.f.astray.walks.Answered(in.TID)
	defer s.changes()()
	defer s.f.callers.turns.Jump(in.UID).End()
	return s.told(&in.Request, opCreate, in.Node, name, s.f.opens.Create(cancel, in, name, out))
}

// Rename is entries.Rename, in its turn.
func (s Requests) Rename(cancel <-chan struct{}, in *RenameRequest, old, name string) unix.Errno {
	defer s.f.astray.walks.Answered(in.TID)
	defer s.changes()()
	defer s.f.callers.turns.Jump(in.UID).End()
	e := s.f.entries.Rename(cancel, in, old, name)
	if e == unix.EROFS && s.f.reports.isKept(s.pathOf(in.NewDir, name)) {
		return e
	}
	return s.told(&in.Request, opRename, in.Node, old, e)
}

// Unlink is entries.Unlink, in its turn.
func (s Requests) Unlink(cancel <-chan struct{}, h *Request, name string) unix.Errno {
	defer s.f.astray.walks.Answered(h.TID)
	defer s.changes()()
	defer s.f.callers.turns.Jump(h.UID).End()
	return s.told(h, opUnlink, h.Node, name, s.f.entries.Unlink(cancel, h, name))
}

// SetAttr is attrs.SetAttr, in its turn.
func (s Requests) SetAttr(cancel <-chan struct{}, in *SetAttrRequest, out *AttrReply) unix.Errno {
	defer s.f.astray.walks.Answered(in.TID)
	defer s.changes()()
	defer s.f.callers.turns.Jump(in.UID).End()
	defer s.f.kernel.hold(in.Node).end()
	return s.told(&in.Request, opSetattr, in.Node, "", s.f.attrs.SetAttr(cancel, in, out))
}

// Mkdir is entries.Mkdir, of which the store is told.
func (s Requests) Mkdir(cancel <-chan struct{}, in *MakeRequest, name string, out *Entry) unix.Errno {
	defer s.f.astray.walks.Answered(in.TID)
	defer s.changes()()
	return s.told(&in.Request, opMkdir, in.Node, name, s.f.entries.Mkdir(cancel, in, name, out))
}

// Mknod is entries.Mknod, of which the store is told.
func (s Requests) Mknod(cancel <-chan struct{}, in *MakeRequest, name string, out *Entry) unix.Errno {
	defer s.f.astray.walks.Answered(in.TID)
	defer s.changes()()
	return s.told(&in.Request, opMknod, in.Node, name, s.f.entries.Mknod(cancel, in, name, out))
}

// Symlink is entries.Symlink, of which the store is told.
func (s Requests) Symlink(cancel <-chan struct{}, h *Request, pointedTo, name string, out *Entry) unix.Errno {
	defer s.f.astray.walks.Answered(h.TID)
	defer s.changes()()
	return s.told(h, opSymlink, h.Node, name, s.f.entries.Symlink(cancel, h, pointedTo, name, out))
}

// Rmdir is entries.Rmdir, of which the store is told.
func (s Requests) Rmdir(cancel <-chan struct{}, h *Request, name string) unix.Errno {
	defer s.f.astray.walks.Answered(h.TID)
	defer s.changes()()
	return s.told(h, opRmdir, h.Node, name, s.f.entries.Rmdir(cancel, h, name))
}

// Forget is kernel.Forget.
func (s Requests) Forget(id, nlookup uint64) { s.f.kernel.Forget(id, nlookup) }

// StatFs is contents.StatFs.
func (s Requests) StatFs(cancel <-chan struct{}, h *Request, out *unix.Statfs_t) unix.Errno {
	return s.f.contents.StatFs(cancel, h, out)
}

// Tmpfile is opens.Tmpfile.
func (s Requests) Tmpfile(cancel <-chan struct{}, in *CreateRequest, out *Created) unix.Errno {
	defer s.f.astray.walks.Answered(in.TID)
	return s.told(&in.Request, opCreate, in.Node, "", s.f.opens.Tmpfile(cancel, in, out))
}

// Lseek is contents.Lseek.
func (s Requests) Lseek(cancel <-chan struct{}, in *SeekRequest) (uint64, unix.Errno) {
	return s.f.contents.Lseek(cancel, in)
}

// Fallocate is contents.Fallocate.
func (s Requests) Fallocate(cancel <-chan struct{}, in *AllocRequest) unix.Errno {
	return s.f.contents.Fallocate(cancel, in)
}

// CopyFileRange is contents.CopyFileRange.
func (s Requests) CopyFileRange(cancel <-chan struct{}, in *CopyRequest) (uint32, unix.Errno) {
	return s.f.contents.CopyFileRange(cancel, in)
}

// Fsync is contents.Fsync, which waits for the disk.
func (s Requests) Fsync(cancel <-chan struct{}, in *FsyncRequest) unix.Errno {
	return s.f.contents.Fsync(cancel, in)
}

// FsyncDir is listings.FsyncDir, which waits for the disk.
func (s Requests) FsyncDir(cancel <-chan struct{}, in *FsyncRequest) unix.Errno {
	return s.f.listings.FsyncDir(cancel, in)
}

// Release is endings.Release.
func (s Requests) Release(cancel <-chan struct{}, in *ReleaseRequest) {
	s.f.endings.Release(cancel, in)
}

// ReleaseDir is listings.ReleaseDir.
func (s Requests) ReleaseDir(in *ReleaseRequest) { s.f.listings.ReleaseDir(in) }

// SetLkw is advisoryLocks.SetLkw, which waits for a lock.
func (s Requests) SetLkw(cancel <-chan struct{}, in *LockRequest) unix.Errno {
	return s.f.advisoryLocks.SetLkw(cancel, in)
}
