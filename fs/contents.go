package fs

import (
	"cmp"
	"math"

	"golang.org/x/sys/unix"

	"latchfs/fs/iomode"
	"latchfs/fs/records"
	"latchfs/fs/sessionstate"
)

// contents reads and writes open files.
type contents struct {
	*ground
	*engine
	appending *appending
}

// maxSpliced is how many bytes go through a pipe to the kernel: one has room for 1 MiB
// (pipe-max-size, pipe(7)), the header of the answer among it. More are copied.
const maxSpliced = 1<<20 - 8<<10

// Read reads a file: read(2), pread(2), and pages of a mapping. With passthrough the kernel reads the
// backing file itself and asks only for handles in direct I/O.
func (co *contents) Read(cancel <-chan struct{}, in *ReadRequest, buf []byte) (Data, unix.Errno) {
	if isVirtual(in.Node) {
		return co.view.virt.read(cancel, in, buf)
	}
	h := co.handles.handleOf(in.Handle)
	if h == nil {
		return Data{}, unix.EBADF
	}
	if h.stale.Load() != nil {
		co.sessions.noteStaleRead(h, &in.Request)
	}
	if h.kind == readHandle && h.sess == nil && h.io.Mode() == iomode.Watched {
		co.handles.showLines(&in.Request, h.n) // a reader of pages asks for the attributes, which does this
	}
	fd, own, e := co.readFile(h)
	if e != 0 {
		return Data{}, e
	}
	if h.app != nil {
		h.app.noteRead(&in.Request)
	}
	if own || in.Size > maxSpliced {
		n, err := unix.Pread(fd, buf[:min(int(in.Size), len(buf))], int64(in.Offset))
		if own {
			unix.Close(fd)
		}
		return Data{Bytes: buf[:max(n, 0)]}, errnoOf(err)
	}
	return Data{FD: fd, Off: int64(in.Offset), Size: int(in.Size)}, 0
}

// readFile is the descriptor from which h reads: a shadow that has not been filled has its
// content in the file that it was to replace, also when its session is over. Own says that
// the caller closes it: the handle may read from another file at any moment, and its descriptor of
// this one be another file's.
func (co *contents) readFile(h *handle) (fd int, own bool, e unix.Errno) {
	if s := h.sess; s != nil {
		s.used.note()
		s.mu.Lock()
		if old := s.content.Old(); !s.content.IsFilled() && old >= 0 && !s.state.HasEnded() {
			fd, err := unix.FcntlInt(uintptr(old), unix.F_DUPFD_CLOEXEC, 0)
			s.mu.Unlock()
			return fd, true, errnoOf(err)
		}
		s.mu.Unlock()
	}
	if fd, err := co.nodes.dupStandsFor(h.n); err != nil || fd >= 0 {
		return fd, true, errnoOf(err)
	}
	if h.app != nil {
		fd, e := h.app.ReadFile()
		return fd, true, e
	}
	fd, e = co.handles.file(h)
	if e == unix.EACCES && h.sess != nil {
		fd, e = co.shadowFile(h.sess)
		own = true
	}
	return fd, own, e
}

// Write writes to a file: write(2), pwritev(2), and pages of a mapping. It returns how much
// was written.
func (co *contents) Write(_ <-chan struct{}, in *WriteRequest, data [][]byte) (uint32, unix.Errno) {
	if isVirtual(in.Node) {
		return co.view.virt.write(in, data)
	}
	h := co.handles.handleOf(in.Handle)
	if h == nil {
		return 0, unix.EBADF
	}
	inside := h.flags&unix.O_APPEND != 0 && co.appending.isForPlace(h, in)
	if h.kind == appendHandle {
		return h.app.write(in, data, inside)
	}
	var n int
	change, cached := co.cut, in.Cached
	switch {
	case cached:
		change = co.changeRead // pages of a mapping, which were read before
	case in.Offset == 0 && h.stale.Load() != nil:
		co.sessions.mergeThrough(h.sess, h, func(content []byte) error { return co.sessions.becomeKnown(h.sess, content) })
	}
	e := change(h, &in.Request, math.MaxInt64, func(fd int) error {
		if inside && records.AppendsAlways(fd) {
			own, err := co.handles.reopen(co.nodes.fdOf(h.n), unix.O_RDWR|int(h.flags&(unix.O_SYNC|unix.O_DSYNC)))
			if err != nil {
				return errnoOf(err)
			}
			defer unix.Close(own)
			fd = own
		}
		err := co.callers.asSender(h, &in.Request, cached, func() (err error) {
			n, err = unix.Pwritev(fd, data, int64(in.Offset))
			return err
		})
		if err != nil {
			return err
		}
		if in.KillSuid {
			return co.handles.killSuidBy(h, fd, co.callers.membership(&in.Request))
		}
		return nil
	})
	if e != 0 {
		return 0, e
	}
	return uint32(n), 0
}

// change runs a change of content on h's file, on behalf of who has sent the request by. In a
// session it makes sure that the shadow has the old content first, and remembers that a change
// failed: a shadow that missed a write is never committed.
func (co *contents) change(h *handle, by *Request, do func(fd int) error) unix.Errno {
	return co.cut(h, by, math.MaxInt64, do)
}

// cut is change by a cut to size bytes, behind which nothing of the old content counts.
func (co *contents) cut(h *handle, by *Request, size int64, do func(fd int) error) unix.Errno {
	if h.stale.Load() == nil {
		return co.changeRead(h, by, size, do)
	}
	s := h.sess
	s.mu.Lock()
	co.noteWriterLocked(s, by)
	e := co.sessions.mayChangeLocked(s, h)
	if e != 0 {
		co.sessions.setAsideLocked(s, h, do)
	}
	s.mu.Unlock()
	if e != 0 {
		return e
	}
	return co.changeRead(h, by, size, do)
}

// changeRead is cut where the version that is changed is known.
func (co *contents) changeRead(h *handle, by *Request, size int64, do func(fd int) error) unix.Errno {
	s := h.sess
	if s == nil || h.kind != shadowHandle {
		fd, e := co.handles.file(h)
		if e != 0 {
			return e
		}
		co.nodes.standsForItself(h.n)
		return errnoOf(do(fd))
	}
	s.used.note()
	s.mu.Lock()
	defer s.mu.Unlock()
	co.noteWriterLocked(s, by)
	if s.state.Is(sessionstate.Committed) || s.state.Is(sessionstate.RolledBack) {
		// Written after the commit, through a descriptor that the holder set
		// missed: set it apart before the write.
		s.mu.Unlock()
		co.commits.setApart(s)
		s.mu.Lock()
		if !s.state.Is(sessionstate.Apart) {
			return unix.ESTALE
		}
	}
	if e := s.fillToLocked(size); e != 0 {
		return e
	}
	fd := s.shadow.FD()
	if fd < 0 {
		var e unix.Errno
		if fd, e = co.handles.file(h); e != 0 {
			return e
		}
	}
	if s.state.HasEnded() {
		co.nodes.standsForItself(h.n)
	}
	if err := co.disk.retryWithRoom(func() error { return do(fd) }); err != nil {
		if !s.state.HasEnded() && losesData(errnoOf(err)) {
			s.content.Fail(errnoOf(err))
		}
		return errnoOf(err)
	}
	s.content.Write()
	return 0
}

// Lseek finds data and holes of a file: lseek(2) with SEEK_DATA, SEEK_HOLE. Virtual files tell
// of neither. ENOSYS would make the kernel ask no more, of no file of the mount.
func (co *contents) Lseek(_ <-chan struct{}, in *SeekRequest) (uint64, unix.Errno) {
	h := co.handles.handleOf(in.Handle)
	if h == nil || isVirtual(in.Node) {
		return 0, unix.EINVAL
	}
	fd, own, e := co.readFile(h)
	if e != 0 {
		return 0, e
	}
	if own {
		defer unix.Close(fd)
	}
	off, err := unix.Seek(fd, int64(in.Offset), int(in.Whence))
	return uint64(max(off, 0)), errnoOf(err)
}

// Fsync is fsync(2) and fdatasync(2): it makes the bytes durable and
// publishes nothing.
func (co *contents) Fsync(_ <-chan struct{}, in *FsyncRequest) unix.Errno {
	if isVirtual(in.Node) {
		return 0
	}
	h := co.handles.handleOf(in.Handle)
	if h == nil {
		return unix.EBADF
	}
	if h.app != nil {
		return h.app.fsync(in.DataOnly)
	}
	fd, e := co.handles.file(h)
	if e == unix.EACCES && h.kind == shadowHandle {
		if fd, e = co.shadowFile(h.sess); e == 0 {
			defer unix.Close(fd)
		}
	}
	dataOnly := in.DataOnly
	switch {
	case e != 0:
		return e
	case h.sess != nil && h.kind == shadowHandle:
		return co.endings.fsync(h.sess, h, fd, dataOnly)
	case dataOnly:
		e = errnoOf(unix.Fdatasync(fd))
	default:
		e = errnoOf(unix.Fsync(fd))
	}
	return cmp.Or(e, co.names.lostSince(h.n))
}

// shadowFile is a descriptor of the session's shadow, which the caller closes: an ordinary user's
// daemon cannot open a file anew that its owner may not read or write.
func (co *contents) shadowFile(s *session) (fd int, e unix.Errno) {
	s.mu.Lock()
	defer s.mu.Unlock()
	if s.shadow.FD() < 0 {
		return -1, unix.EACCES
	}
	fd, err := unix.FcntlInt(uintptr(s.shadow.FD()), unix.F_DUPFD_CLOEXEC, 0)
	return fd, errnoOf(err)
}

// Fallocate is fallocate(2).
func (co *contents) Fallocate(_ <-chan struct{}, in *AllocRequest) unix.Errno {
	h := co.handles.handleOf(in.Handle)
	if h == nil || isVirtual(in.Node) {
		return unix.EBADF
	}
	if h.app != nil {
		return h.app.allocate(in)
	}
	return co.change(h, &in.Request, func(fd int) error { return co.disk.allocate(fd, in) })
}

// CopyFileRange is copy_file_range(2), and returns how much was copied.
func (co *contents) CopyFileRange(_ <-chan struct{}, in *CopyRequest) (uint32, unix.Errno) {
	if isVirtual(in.Node) || isVirtual(in.To) {
		return 0, unix.EXDEV
	}
	src, dst := co.handles.handleOf(in.Handle), co.handles.handleOf(in.ToHandle)
	if src == nil || dst == nil {
		return 0, unix.EBADF
	}
	if dst.app != nil {
		return 0, unix.EXDEV
	}
	if src.stale.Load() != nil {
		co.sessions.noteStaleRead(src, &in.Request)
	}
	from, own, e := co.readFile(src)
	if e != 0 {
		return 0, e
	}
	if own {
		defer unix.Close(from)
	}
	if src.app != nil {
		src.app.noteRead(&in.Request)
	}
	var n int
	e = co.change(dst, &in.Request, func(fd int) error {
		in64, out64 := int64(in.Offset), int64(in.ToOffset)
		return co.callers.asSender(dst, &in.Request, false, func() (err error) {
			n, err = unix.CopyFileRange(from, &in64, fd, &out64, int(min(in.Length, 1<<30)), int(in.Flags))
			return err
		})
	})
	return uint32(n), e
}

// StatFs answers what statfs(2) says of the filesystem that a node is on.
func (co *contents) StatFs(_ <-chan struct{}, h *Request, out *unix.Statfs_t) unix.Errno {
	fd := co.disk.rootfd
	if n := co.kernel.inodeOf(h.Node); n != nil && co.nodes.fdOf(n) >= 0 {
		fd = co.nodes.fdOf(n)
	}
	return errnoOf(unix.Fstatfs(fd, out))
}
