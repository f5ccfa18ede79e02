package fs

import (
	"fmt"
	"sync"
	"time"

	"github.com/hanwen/go-fuse/v2/fuse"
	"golang.org/x/sys/unix"
)

// The self-test asserts at each start what waiting and redirecting rely on:
// that the kernel walks a path again after ESTALE and repeats the operation,
// that it looks the name up anew in that walk, and that it asks for the
// attributes of the directories on the way once these are invalid (which takes
// the mount option default_permissions).

const (
	probeName = ".self-test"
	probeNode = uint64(1) << 63
)

type probe struct {
	f *FS

	mu       sync.Mutex // guards what follows
	running  bool
	opens    int
	lookups  int // after the first open
	getattrs int // of the directory, after the first open
}

// selfTestTimeout bounds the wait for the mount's first answer.
const selfTestTimeout = 10 * time.Second

// run opens the probe through the mount. The open is a plain system call in a
// thread of its own; the requests are served by others.
func (p *probe) run(mountpoint string) error {
	p.mu.Lock()
	p.running = true
	p.mu.Unlock()
	path := mountpoint + "/" + p.f.opts.LocksDir + "/" + probeName
	result := make(chan error, 1)
	go func() {
		fd, err := unix.Open(path, unix.O_RDONLY|unix.O_CLOEXEC, 0)
		if err == nil {
			unix.Close(fd)
		}
		result <- err
	}()
	select {
	case err := <-result:
		if err != nil {
			return fmt.Errorf("%w: self-test: open %s: %w", ErrKernel, path, err)
		}
	case <-time.After(selfTestTimeout):
		return fmt.Errorf("%w: self-test: the mount does not answer", ErrKernel)
	}
	p.mu.Lock()
	defer p.mu.Unlock()
	p.running = false
	switch {
	case p.opens != 2:
		return fmt.Errorf("%w: self-test: an open answered ESTALE was sent %d times, want 2", ErrKernel, p.opens)
	case p.lookups == 0:
		return fmt.Errorf("%w: self-test: no lookup in the second walk", ErrKernel)
	case p.getattrs == 0:
		return fmt.Errorf("%w: self-test: no getattr in the second walk (default_permissions?)", ErrKernel)
	}
	return nil
}

func (p *probe) lookup(out *fuse.EntryOut) fuse.Status {
	p.mu.Lock()
	defer p.mu.Unlock()
	if !p.running {
		return fuse.ENOENT
	}
	if p.opens > 0 {
		p.lookups++
	}
	out.NodeId, out.Generation = probeNode, 1
	out.Attr = fuse.Attr{Ino: probeNode, Mode: unix.S_IFREG | 0o444, Nlink: 1}
	return fuse.OK
}

func (p *probe) getattr(out *fuse.AttrOut) fuse.Status {
	out.Attr = fuse.Attr{Ino: probeNode, Mode: unix.S_IFREG | 0o444, Nlink: 1}
	return fuse.OK
}

func (p *probe) noteRootGetattr() {
	p.mu.Lock()
	if p.running && p.opens > 0 {
		p.getattrs++
	}
	p.mu.Unlock()
}

func (p *probe) open(_ *fuse.OpenIn, out *fuse.OpenOut) fuse.Status {
	p.mu.Lock()
	defer p.mu.Unlock()
	p.opens++
	if p.opens == 1 {
		p.f.srv.InodeNotify(virtualRoot, -1, 0)
		return status(unix.ESTALE)
	}
	out.OpenFlags = fuse.FOPEN_NOFLUSH
	return fuse.OK
}
