package face

import (
	"github.com/hanwen/go-fuse/v2/fuse"
	"golang.org/x/sys/unix"

	"latchfs/fs"
)

// fileRequests are those about files: their attributes, their content and the locks on them.
type fileRequests struct{ fs fs.Requests }

func openRequest(in *fuse.OpenIn) *fs.OpenRequest {
	return &fs.OpenRequest{Request: request(&in.InHeader), Flags: in.Flags, KillSuid: in.Mode&fuse.OPEN_KILL_SUIDGID != 0}
}

func createRequest(in *fuse.CreateIn) *fs.CreateRequest {
	open := fs.OpenRequest{Request: request(&in.InHeader), Flags: in.Flags, KillSuid: in.OpenFlags&fuse.OPEN_KILL_SUIDGID != 0}
	return &fs.CreateRequest{OpenRequest: open, Mode: in.Mode, Umask: in.Umask}
}

func readRequest(in *fuse.ReadIn) *fs.ReadRequest {
	return &fs.ReadRequest{Request: request(&in.InHeader), Handle: in.Fh, Offset: in.Offset, Size: in.Size, Flags: in.Flags}
}

func fsyncRequest(in *fuse.FsyncIn) *fs.FsyncRequest {
	const dataOnly = 1 // FUSE_FSYNC_FDATASYNC
	return &fs.FsyncRequest{Request: request(&in.InHeader), Handle: in.Fh, DataOnly: in.FsyncFlags&dataOnly != 0}
}

// Open implements fuse.RawFileSystem.
func (c fileRequests) Open(cancel <-chan struct{}, in *fuse.OpenIn, out *fuse.OpenOut) fuse.Status {
	var o fs.Opened
	return opened(out, &o, c.fs.Open(cancel, openRequest(in), &o))
}

// opened answers with an open file or directory.
func opened(out *fuse.OpenOut, o *fs.Opened, e unix.Errno) fuse.Status {
	if e == 0 {
		fillOpened(out, o)
	}
	return fuse.Status(e)
}

// Create implements fuse.RawFileSystem.
func (c fileRequests) Create(cancel <-chan struct{}, in *fuse.CreateIn, name string, out *fuse.CreateOut) fuse.Status {
	var made fs.Created
	return created(out, &made, c.fs.Create(cancel, createRequest(in), name, &made))
}

// Tmpfile implements fuse.RawFileSystem.
func (c fileRequests) Tmpfile(cancel <-chan struct{}, in *fuse.CreateIn, out *fuse.CreateOut) fuse.Status {
	var made fs.Created
	return created(out, &made, c.fs.Tmpfile(cancel, createRequest(in), &made))
}

// created answers with a file that was made and opened.
func created(out *fuse.CreateOut, made *fs.Created, e unix.Errno) fuse.Status {
	if e == 0 {
		fillEntry(&out.EntryOut, &made.Entry)
		fillOpened(&out.OpenOut, &made.Opened)
	}
	return fuse.Status(e)
}

// GetAttr implements fuse.RawFileSystem.
func (c fileRequests) GetAttr(cancel <-chan struct{}, in *fuse.GetAttrIn, out *fuse.AttrOut) fuse.Status {
	var a fs.AttrReply
	return attributes(out, &a, c.fs.GetAttr(cancel, attrRequest(in), &a))
}

func attrRequest(in *fuse.GetAttrIn) *fs.AttrRequest {
	return &fs.AttrRequest{Request: request(&in.InHeader), Handle: in.Fh(), HasHandle: in.Flags()&fuse.FUSE_GETATTR_FH != 0}
}

// SetAttr implements fuse.RawFileSystem.
func (c fileRequests) SetAttr(cancel <-chan struct{}, in *fuse.SetAttrIn, out *fuse.AttrOut) fuse.Status {
	var a fs.AttrReply
	return attributes(out, &a, c.fs.SetAttr(cancel, setAttrRequest(in), &a))
}

func setAttrRequest(in *fuse.SetAttrIn) *fs.SetAttrRequest {
	return &fs.SetAttrRequest{
		Request: request(&in.InHeader), Set: set(in.Valid), Handle: in.Fh, Size: in.Size,
		Mode: in.Mode & 0o7777, Owner: in.Owner.Uid, Group: in.Owner.Gid,
		Atime: unix.Timespec{Sec: int64(in.Atime), Nsec: int64(in.Atimensec)},
		Mtime: unix.Timespec{Sec: int64(in.Mtime), Nsec: int64(in.Mtimensec)},
	}
}

// attributes answers with attributes.
func attributes(out *fuse.AttrOut, a *fs.AttrReply, e unix.Errno) fuse.Status {
	if e == 0 {
		fill(&out.Attr, &a.Attr)
		out.SetTimeout(a.TTL)
	}
	return fuse.Status(e)
}

// set says what the bits of the kernel's mask ask to set.
func set(valid uint32) (s fs.Set) {
	for _, b := range [...]struct {
		bit uint32
		set fs.Set
	}{
		{fuse.FATTR_MODE, fs.SetMode}, {fuse.FATTR_UID, fs.SetUID}, {fuse.FATTR_GID, fs.SetGID}, {fuse.FATTR_SIZE, fs.SetSize},
		{fuse.FATTR_ATIME, fs.SetAtime}, {fuse.FATTR_MTIME, fs.SetMtime}, {fuse.FATTR_FH, fs.SetHandle},
		{fuse.FATTR_ATIME_NOW, fs.SetAtimeNow}, {fuse.FATTR_MTIME_NOW, fs.SetMtimeNow}, {fuse.FATTR_KILL_SUIDGID, fs.SetKillSuid},
	} {
		if valid&b.bit != 0 {
			s |= b.set
			valid &^= b.bit
		}
	}
	if valid != 0 {
		s |= fs.SetOther
	}
	return s
}

// Statx implements fuse.RawFileSystem.
func (c fileRequests) Statx(cancel <-chan struct{}, in *fuse.StatxIn, out *fuse.StatxOut) fuse.Status {
	var a fs.StatxReply
	if e := c.fs.Statx(cancel, &fs.StatxRequest{Request: request(&in.InHeader), Mask: in.SxMask}, &a); e != 0 {
		return fuse.Status(e)
	}
	out.FromStatx(&a.Statx_t)
	out.SetTimeout(a.TTL)
	return fuse.OK
}

// Read implements fuse.RawFileSystem.
func (c fileRequests) Read(cancel <-chan struct{}, in *fuse.ReadIn, buf []byte) (fuse.ReadResult, fuse.Status) {
	d, e := c.fs.Read(cancel, readRequest(in), buf)
	if e != 0 {
		return nil, fuse.Status(e)
	}
	return readResult(d), fuse.OK
}

func readResult(d fs.Data) fuse.ReadResult {
	if d.Size > 0 {
		return fuse.ReadResultFd(uintptr(d.FD), d.Off, d.Size)
	}
	return fuse.ReadResultData(d.Bytes)
}

// Write implements fuse.RawFileSystem.
func (c fileRequests) Write(cancel <-chan struct{}, in *fuse.WriteIn, data []byte) (uint32, fuse.Status) {
	return c.Writev(cancel, in, [][]byte{data})
}

// Writev implements fuse.RawFileSystem.
func (c fileRequests) Writev(cancel <-chan struct{}, in *fuse.WriteIn, data [][]byte) (uint32, fuse.Status) {
	n, e := c.fs.Write(cancel, writeRequest(in), data)
	return n, fuse.Status(e)
}

func writeRequest(in *fuse.WriteIn) *fs.WriteRequest {
	return &fs.WriteRequest{
		Request: request(&in.InHeader), Handle: in.Fh, Offset: in.Offset, Flags: in.Flags,
		Cached: in.WriteFlags&fuse.WRITE_CACHE != 0, KillSuid: in.WriteFlags&fuse.WRITE_KILL_SUIDGID != 0,
	}
}

// Lseek implements fuse.RawFileSystem.
func (c fileRequests) Lseek(cancel <-chan struct{}, in *fuse.LseekIn, out *fuse.LseekOut) fuse.Status {
	at, e := c.fs.Lseek(cancel, &fs.SeekRequest{Request: request(&in.InHeader), Handle: in.Fh, Offset: in.Offset, Whence: in.Whence})
	out.Offset = at
	return fuse.Status(e)
}

// Fallocate implements fuse.RawFileSystem.
func (c fileRequests) Fallocate(cancel <-chan struct{}, in *fuse.FallocateIn) fuse.Status {
	q := fs.AllocRequest{Request: request(&in.InHeader), Handle: in.Fh, Offset: in.Offset, Length: in.Length, Mode: in.Mode}
	return fuse.Status(c.fs.Fallocate(cancel, &q))
}

// CopyFileRange implements fuse.RawFileSystem.
func (c fileRequests) CopyFileRange(cancel <-chan struct{}, in *fuse.CopyFileRangeIn) (uint32, fuse.Status) {
	n, e := c.fs.CopyFileRange(cancel, copyRequest(in))
	return n, fuse.Status(e)
}

func copyRequest(in *fuse.CopyFileRangeIn) *fs.CopyRequest {
	return &fs.CopyRequest{
		Request: request(&in.InHeader), Handle: in.FhIn, Offset: in.OffIn,
		To: in.NodeIdOut, ToHandle: in.FhOut, ToOffset: in.OffOut, Length: in.Len, Flags: in.Flags,
	}
}

// Fsync implements fuse.RawFileSystem.
func (c fileRequests) Fsync(cancel <-chan struct{}, in *fuse.FsyncIn) fuse.Status {
	return fuse.Status(c.fs.Fsync(cancel, fsyncRequest(in)))
}

// Flush implements fuse.RawFileSystem.
func (c fileRequests) Flush(cancel <-chan struct{}, in *fuse.FlushIn) fuse.Status {
	return fuse.Status(c.fs.Flush(cancel, &fs.FlushRequest{Request: request(&in.InHeader), Handle: in.Fh, LockOwner: in.LockOwner}))
}

// Release implements fuse.RawFileSystem.
func (c fileRequests) Release(cancel <-chan struct{}, in *fuse.ReleaseIn) {
	c.fs.Release(cancel, &fs.ReleaseRequest{Request: request(&in.InHeader), Handle: in.Fh})
}

// Ioctl implements fuse.RawFileSystem. None is forwarded: an ioctl on the backing file would
// be ours, with our privileges, not the caller's.
func (c fileRequests) Ioctl(_ <-chan struct{}, _ *fuse.IoctlIn, _ []byte, _ *fuse.IoctlOut, _ []byte) fuse.Status {
	return fuse.Status(unix.ENOTTY)
}

func lockRequest(in *fuse.LkIn) *fs.LockRequest {
	return &fs.LockRequest{
		Request: request(&in.InHeader), Handle: in.Fh, Owner: in.Owner, Flock: in.LkFlags&fuse.LK_FLOCK != 0,
		Lock: fs.FileLock{Start: in.Lk.Start, End: in.Lk.End, Type: in.Lk.Typ, PID: in.Lk.Pid},
	}
}

// GetLk implements fuse.RawFileSystem.
func (c fileRequests) GetLk(cancel <-chan struct{}, in *fuse.LkIn, out *fuse.LkOut) fuse.Status {
	l, e := c.fs.GetLk(cancel, lockRequest(in))
	out.Lk = fuse.FileLock{Start: l.Start, End: l.End, Typ: l.Type, Pid: l.PID}
	return fuse.Status(e)
}

// SetLk implements fuse.RawFileSystem.
func (c fileRequests) SetLk(cancel <-chan struct{}, in *fuse.LkIn) fuse.Status {
	return fuse.Status(c.fs.SetLk(cancel, lockRequest(in)))
}

// SetLkw implements fuse.RawFileSystem.
func (c fileRequests) SetLkw(cancel <-chan struct{}, in *fuse.LkIn) fuse.Status {
	return fuse.Status(c.fs.SetLkw(cancel, lockRequest(in)))
}
