package fs

import (
	"fmt"
	"math/rand/v2"
	"path/filepath"
	"strconv"
	"sync"

	"golang.org/x/sys/unix"
)

// Passthrough in the simulated kernel: fs/fuse/iomode.c and fs/fuse/passthrough.c of the kernel's
// source. Reads and writes of a file that is passed through go to its backing file, and the daemon
// hears of none, and so they do when it is dead.

// drawPasses says whether a kernel passes through. It comes from random numbers of its own, as
// in drawLocks.
func drawPasses(seed uint64) int { return rand.New(rand.NewPCG(seed, 13)).IntN(2) }

// simBacking is a backing file that is registered, or in use.
type simBacking struct {
	w    *simWorld
	fd   int // of the kernel's own
	uses int // 1 for the registration, and 1 for each inode that is passed through
}

// simKept are the descriptors that the kernel has, which survive the daemon.
type simKept struct {
	sync.Mutex
	fds map[int]bool
}

func (o *simKept) open(do func() (int, error)) (int, error) {
	o.Lock()
	defer o.Unlock()
	fd, err := do()
	if err != nil {
		return -1, err
	}
	if o.fds == nil {
		o.fds = map[int]bool{}
	}
	o.fds[fd] = true
	return fd, nil
}

func (o *simKept) close(fd int) {
	o.Lock()
	defer o.Unlock()
	delete(o.fds, fd)
	unix.Close(fd)
}

func (o *simKept) has(fd int) bool { return o.fds[fd] }

// RegisterBacking implements Kernel. Now and then the kernel has no room for one more.
func (k *simKernel) RegisterBacking(fd int) (int32, unix.Errno) {
	if k.w.opts.script.hazards.passes == 0 {
		return 0, unix.ENOSYS
	}
	if k.refusesBacking() {
		return 0, unix.ENOMEM
	}
	own, err := k.w.keeps.open(func() (int, error) { return unix.FcntlInt(uintptr(fd), unix.F_DUPFD_CLOEXEC, 0) })
	if err != nil {
		return 0, errnoOf(err)
	}
	k.mu.Lock()
	defer k.mu.Unlock()
	k.lastBacking++
	if k.backings == nil {
		k.backings = map[int32]*simBacking{}
	}
	k.backings[k.lastBacking] = &simBacking{w: k.w, fd: own, uses: 1}
	return k.lastBacking, 0
}

func (k *simKernel) refusesBacking() bool {
	k.mu.Lock()
	defer k.mu.Unlock()
	if k.refusals == nil {
		k.refusals = rand.New(rand.NewPCG(k.w.opts.seed, 14))
	}
	return k.refusals.IntN(16) == 0
}

// UnregisterBacking implements Kernel.
func (k *simKernel) UnregisterBacking(id int32) unix.Errno {
	k.mu.Lock()
	defer k.mu.Unlock()
	b := k.backings[id]
	if b == nil {
		return unix.ENOENT
	}
	delete(k.backings, id)
	b.drop()
	return 0
}

func (b *simBacking) drop() {
	if b.uses--; b.uses == 0 {
		b.w.keeps.close(b.fd)
	}
}

// startIOLocked is fuse_file_io_open: all opens of an inode that are passed through have one
// backing file, and none that may have pages is beside them. mu is held.
func (k *simKernel) startIOLocked(f *simFile) unix.Errno {
	n := f.inode
	switch {
	case n.backing != nil && !f.out.Passthrough:
		return unix.EIO
	case !f.out.Passthrough && f.out.Direct:
		return 0
	case !f.out.Passthrough:
		n.cached++
		f.cached = true
		return 0
	}
	b := k.backings[f.out.Backing]
	if b == nil || n.cached > 0 || n.backing != nil && n.backing != b {
		return unix.EIO
	}
	fd, err := k.w.keeps.open(func() (int, error) {
		return unix.Open(filepath.Join("/proc/self/fd", strconv.Itoa(b.fd)), int(f.flags)&unix.O_ACCMODE|unix.O_CLOEXEC, 0)
	})
	if err != nil {
		return errnoOf(err)
	}
	if n.backing == nil {
		n.backing = b
		b.uses++
	}
	n.passed++
	f.backing = fd
	if f.passes() {
		k.w.model.count(map[bool]string{false: "passed through to read", true: "passed through to write"}[f.writes()])
	}
	return 0
}

// endIOLocked is fuse_file_io_release. mu is held.
func (k *simKernel) endIOLocked(f *simFile) {
	n := f.inode
	if f.cached {
		n.cached--
	}
	if f.backing < 0 {
		return
	}
	k.w.keeps.close(f.backing)
	if n.passed--; n.passed == 0 {
		n.backing.drop()
		n.backing = nil
	}
}

// passes reports whether the kernel reads and writes the backing file itself.
func (f *simFile) passes() bool { return f.backing >= 0 && !f.out.Direct }

// backingRead reads at the file's position.
func (k *simKernel) backingRead(p *simProc, f *simFile, size int) ([]byte, unix.Errno) {
	k.w.park(fmt.Sprintf("%s is about to read the file behind %s at %d", p, f.path, f.pos))
	b := make([]byte, size)
	n, err := unix.Pread(f.backing, b, f.pos)
	f.pos += int64(max(n, 0))
	return b[:max(n, 0)], errnoOf(err)
}

// backingWrite writes at the file's position, or at the end of the file to append. The inode's
// lock is held.
func (k *simKernel) backingWrite(p *simProc, f *simFile, b []byte) unix.Errno {
	k.w.park(fmt.Sprintf("%s is about to write the file behind %s at %d", p, f.path, f.pos))
	if p.isKilled() {
		return unix.EINTR
	}
	if f.flags&unix.O_APPEND != 0 {
		var st unix.Stat_t
		if err := unix.Fstat(f.backing, &st); err != nil {
			return errnoOf(err)
		}
		f.pos = st.Size
	}
	_, err := unix.Pwrite(f.backing, b, f.pos)
	return errnoOf(err)
}
