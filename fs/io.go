package fs

import (
	"cmp"
	"math"

	"github.com/hanwen/go-fuse/v2/fuse"
	"golang.org/x/sys/unix"
)

// maxSpliced is how many bytes go through a pipe to the kernel: one has room for 1 MiB
// (pipe-max-size, pipe(7)), the header of the answer among it. More are copied.
const maxSpliced = 1<<20 - 8<<10

// Read implements fuse.RawFileSystem. With passthrough the kernel reads the
// backing file itself and asks only for handles in direct I/O.
func (f *FS) Read(cancel <-chan struct{}, in *fuse.ReadIn, buf []byte) (fuse.ReadResult, fuse.Status) {
	if isVirtual(in.NodeId) {
		return f.virt.read(cancel, in, buf)
	}
	h := f.handleOf(in.Fh)
	if h == nil {
		return nil, fuse.EBADF
	}
	if h.stale.Load() != nil {
		f.noteStaleRead(h, &in.InHeader)
	}
	fd, own, e := f.readFile(h)
	if e != 0 {
		return nil, status(e)
	}
	if h.app != nil {
		h.app.noteRead(&in.InHeader)
	}
	if own || in.Size > maxSpliced {
		n, err := unix.Pread(fd, buf[:min(int(in.Size), len(buf))], int64(in.Offset))
		if own {
			unix.Close(fd)
		}
		return fuse.ReadResultData(buf[:max(n, 0)]), statusOf(err)
	}
	return fuse.ReadResultFd(uintptr(fd), int64(in.Offset), int(in.Size)), fuse.OK
}

// readFile is the descriptor from which h reads: a shadow that has not been
// filled yet still has its content in the committed file. Own says that the caller
// closes it: the handle may read from another file at any moment, and its descriptor of
// this one be another file's.
func (f *FS) readFile(h *handle) (fd int, own bool, e unix.Errno) {
	if s := h.sess; s != nil {
		s.used.note()
		s.mu.Lock()
		if !s.filled && s.baseFD >= 0 && !s.state.hasEnded() {
			fd, err := unix.FcntlInt(uintptr(s.baseFD), unix.F_DUPFD_CLOEXEC, 0)
			s.mu.Unlock()
			return fd, true, errnoOf(err)
		}
		s.mu.Unlock()
	}
	if h.app != nil {
		fd, e := h.app.readFile()
		return fd, true, e
	}
	fd, e = f.file(h)
	return fd, false, e
}

// Write implements fuse.RawFileSystem; go-fuse calls Writev.
func (f *FS) Write(cancel <-chan struct{}, in *fuse.WriteIn, data []byte) (uint32, fuse.Status) {
	return f.Writev(cancel, in, [][]byte{data})
}

// Writev implements fuse.RawFileSystem.
func (f *FS) Writev(_ <-chan struct{}, in *fuse.WriteIn, data [][]byte) (uint32, fuse.Status) {
	if isVirtual(in.NodeId) {
		return f.virt.write(in, data)
	}
	h := f.handleOf(in.Fh)
	if h == nil {
		return 0, fuse.EBADF
	}
	inside := h.flags&unix.O_APPEND != 0 && f.isForPlace(h, in)
	if h.kind == appendHandle {
		write := h.app.write
		if inside {
			write = h.app.writeInside
		}
		n, e := write(in, data)
		return n, status(e)
	}
	var n int
	change, cached := f.cut, in.WriteFlags&fuse.WRITE_CACHE != 0
	switch {
	case cached:
		change = f.changeRead // pages of a mapping, which were read before
	case in.Offset == 0 && h.stale.Load() != nil:
		h.sess.mergeThrough(h, h.sess.becomeKnown)
	}
	e := change(h, math.MaxInt64, func(fd int) error {
		if inside && appendsAlways(fd) {
			own, e := f.storeFile(h)
			if e != 0 {
				return e
			}
			defer unix.Close(own)
			fd = own
		}
		err := f.asSender(h, &in.InHeader, cached, func() (err error) {
			n, err = unix.Pwritev(fd, data, int64(in.Offset))
			return err
		})
		if err != nil {
			return err
		}
		if in.WriteFlags&fuse.WRITE_KILL_SUIDGID != 0 {
			return f.killSuidBy(h, fd, f.sender(&in.InHeader))
		}
		return nil
	})
	if e != 0 {
		return 0, status(e)
	}
	return uint32(n), fuse.OK
}

// change runs a change of content on h's file. In a session it makes sure that
// the shadow has the old content first, and remembers that a change failed: a
// shadow that missed a write is never committed.
func (f *FS) change(h *handle, do func(fd int) error) unix.Errno {
	return f.cut(h, math.MaxInt64, do)
}

// cut is change by a cut to size bytes, behind which nothing of the old content counts.
func (f *FS) cut(h *handle, size int64, do func(fd int) error) unix.Errno {
	if h.stale.Load() == nil {
		return f.changeRead(h, size, do)
	}
	s := h.sess
	s.mu.Lock()
	e := s.mayChangeLocked(h)
	if e != 0 {
		s.setAsideLocked(h, do)
	}
	s.mu.Unlock()
	if e != 0 {
		return e
	}
	return f.changeRead(h, size, do)
}

// changeRead is cut where the version that is changed is known.
func (f *FS) changeRead(h *handle, size int64, do func(fd int) error) unix.Errno {
	s := h.sess
	if s == nil || h.kind != shadowHandle {
		fd, e := f.file(h)
		if e != 0 {
			return e
		}
		return errnoOf(do(fd))
	}
	s.used.note()
	s.mu.Lock()
	defer s.mu.Unlock()
	if s.state == stateCommitted || s.state == stateRolledBack {
		// Written after the commit, through a descriptor that the holder set
		// missed: set it apart before the write.
		s.mu.Unlock()
		s.setApart()
		s.mu.Lock()
		if s.state != stateApart {
			return unix.ESTALE
		}
	}
	if e := s.fillToLocked(size); e != 0 {
		return e
	}
	fd := s.shadow.FD()
	if fd < 0 {
		var e unix.Errno
		if fd, e = f.file(h); e != 0 {
			return e
		}
	}
	if err := f.retryWithRoom(func() error { return do(fd) }); err != nil {
		if !s.state.hasEnded() && losesData(errnoOf(err)) {
			s.failed = errnoOf(err)
		}
		return errnoOf(err)
	}
	s.wrote = true
	return 0
}

// losesData tells a failure that leaves the file without bytes that were
// written from one that merely refuses a request (EFBIG, EINVAL).
func losesData(e unix.Errno) bool {
	switch e {
	case unix.ENOSPC, unix.EDQUOT, unix.EIO, unix.EROFS, unix.ENOMEM:
		return true
	}
	return false
}

// Lseek implements fuse.RawFileSystem: SEEK_DATA and SEEK_HOLE.
func (f *FS) Lseek(_ <-chan struct{}, in *fuse.LseekIn, out *fuse.LseekOut) fuse.Status {
	h := f.handleOf(in.Fh)
	if h == nil || isVirtual(in.NodeId) {
		return fuse.ENOSYS
	}
	fd, own, e := f.readFile(h)
	if e != 0 {
		return status(e)
	}
	if own {
		defer unix.Close(fd)
	}
	off, err := unix.Seek(fd, int64(in.Offset), int(in.Whence))
	if err != nil {
		return statusOf(err)
	}
	out.Offset = uint64(off)
	return fuse.OK
}

// Fsync implements fuse.RawFileSystem: it makes the bytes durable and
// publishes nothing (DESIGN §4.1).
func (f *FS) Fsync(_ <-chan struct{}, in *fuse.FsyncIn) fuse.Status {
	if isVirtual(in.NodeId) {
		return fuse.OK
	}
	h := f.handleOf(in.Fh)
	if h == nil {
		return fuse.EBADF
	}
	if h.app != nil {
		return status(f.fsyncAppended(h, in.FsyncFlags&1 != 0))
	}
	fd, e := f.file(h)
	dataOnly := in.FsyncFlags&1 != 0
	switch {
	case e != 0:
		return status(e)
	case h.sess != nil && h.kind == shadowHandle:
		return status(h.sess.fsync(h, fd, dataOnly))
	case dataOnly:
		e = errnoOf(unix.Fdatasync(fd))
	default:
		e = errnoOf(unix.Fsync(fd))
	}
	return status(cmp.Or(e, f.lostSince(h.n)))
}

// Fallocate implements fuse.RawFileSystem.
func (f *FS) Fallocate(_ <-chan struct{}, in *fuse.FallocateIn) fuse.Status {
	h := f.handleOf(in.Fh)
	if h == nil || isVirtual(in.NodeId) {
		return fuse.EBADF
	}
	if h.app != nil {
		return fuse.ENOTSUP
	}
	return status(f.change(h, func(fd int) error {
		return f.asSender(h, &in.InHeader, false, func() error {
			return unix.Fallocate(fd, in.Mode, int64(in.Offset), int64(in.Length))
		})
	}))
}

// CopyFileRange implements fuse.RawFileSystem.
func (f *FS) CopyFileRange(_ <-chan struct{}, in *fuse.CopyFileRangeIn) (uint32, fuse.Status) {
	if isVirtual(in.NodeId) || isVirtual(in.NodeIdOut) {
		return 0, fuse.Status(unix.EXDEV)
	}
	src, dst := f.handleOf(in.FhIn), f.handleOf(in.FhOut)
	if src == nil || dst == nil {
		return 0, fuse.EBADF
	}
	if dst.app != nil {
		return 0, fuse.Status(unix.EXDEV)
	}
	if src.stale.Load() != nil {
		f.noteStaleRead(src, &in.InHeader)
	}
	from, own, e := f.readFile(src)
	if e != 0 {
		return 0, status(e)
	}
	if own {
		defer unix.Close(from)
	}
	if src.app != nil {
		src.app.noteRead(&in.InHeader)
	}
	var n int
	e = f.change(dst, func(fd int) error {
		in64, out64 := int64(in.OffIn), int64(in.OffOut)
		return f.asSender(dst, &in.InHeader, false, func() (err error) {
			n, err = unix.CopyFileRange(from, &in64, fd, &out64, int(min(in.Len, 1<<30)), int(in.Flags))
			return err
		})
	})
	return uint32(n), status(e)
}

// StatFs implements fuse.RawFileSystem.
func (f *FS) StatFs(_ <-chan struct{}, h *fuse.InHeader, out *fuse.StatfsOut) fuse.Status {
	fd := f.rootfd
	if n := f.inodeOf(h.NodeId); n != nil && f.fdOf(n) >= 0 {
		fd = f.fdOf(n)
	}
	var st unix.Statfs_t
	if err := unix.Fstatfs(fd, &st); err != nil {
		return statusOf(err)
	}
	out.Blocks, out.Bfree, out.Bavail = st.Blocks, st.Bfree, st.Bavail
	out.Files, out.Ffree = st.Files, st.Ffree
	out.Bsize, out.Frsize, out.NameLen = uint32(st.Bsize), uint32(st.Frsize), uint32(st.Namelen)
	return fuse.OK
}

// Access implements fuse.RawFileSystem: the kernel checks permissions.
func (f *FS) Access(_ <-chan struct{}, _ *fuse.AccessIn) fuse.Status { return fuse.ENOSYS }

// Ioctl implements fuse.RawFileSystem. None is forwarded: an ioctl on the
// backing file would be ours, with our privileges, not the caller's.
func (f *FS) Ioctl(_ <-chan struct{}, _ *fuse.IoctlIn, _ []byte, _ *fuse.IoctlOut, _ []byte) fuse.Status {
	return status(unix.ENOTTY)
}

// shortOfSpace reports whether the backing filesystem is so full that a write
// may fail: then writes go through the daemon, which sees that.
func (f *FS) shortOfSpace() bool {
	var st unix.Statfs_t
	if unix.Fstatfs(f.rootfd, &st) != nil {
		return true
	}
	return st.Bavail*uint64(st.Bsize) < lowSpace
}

// isFull reports whether so little is left for a user's files that a write which
// was passed through has most likely failed for that.
func (f *FS) isFull(uid uint32) bool {
	var st unix.Statfs_t
	if unix.Fstatfs(f.rootfd, &st) != nil || st.Bavail*uint64(st.Bsize) >= lowSpace {
		return false
	}
	if st.Bfree < fullBlocks || uid != 0 && st.Bavail < fullBlocks {
		return true
	}
	return !f.hasRoom(uid)
}

// hasRoom reports whether a user's write would find space now. Filesystems keep free
// blocks to themselves that statfs counts, and refuse a write as a whole when only
// a part of it would fit.
func (f *FS) hasRoom(uid uint32) bool {
	fd, err := unix.Openat(int(f.state.Fd()), ".", unix.O_TMPFILE|unix.O_WRONLY|unix.O_CLOEXEC, 0o600)
	if err == nil {
		defer unix.Close(fd)
		err = f.asUser(uid, uid, func() error { return unix.Fallocate(fd, 0, 0, largeWrite) })
	}
	return !isNoRoom(err)
}

// largeWrite is how much programs write at most in one call, or nearly so.
const largeWrite = 16 << 20

// fullBlocks are what a filesystem may have left when it refuses more.
const fullBlocks = 16

// lowSpace is the free space below which writes are not passed through.
const lowSpace = 256 << 20
