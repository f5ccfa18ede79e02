package face

import (
	"github.com/hanwen/go-fuse/v2/fuse"
	"golang.org/x/sys/unix"

	"latchfs/fs"
)

// kernel is the kernel's connection as the filesystem needs it.
type kernel struct{ srv *fuse.Server }

var _ fs.Kernel = kernel{}

// InodeNotify implements fs.Kernel.
func (k kernel) InodeNotify(node uint64, off, length int64) {
	k.srv.InodeNotify(node, off, length) // fails for what the kernel does not know: it has nothing to forget
}

// EntryNotify implements fs.Kernel.
func (k kernel) EntryNotify(dir uint64, name string) { k.srv.EntryNotify(dir, name) }

// RegisterBacking implements fs.Kernel.
func (k kernel) RegisterBacking(fd int) (id int32, e unix.Errno) {
	return k.srv.RegisterBackingFd(&fuse.BackingMap{Fd: int32(fd)})
}

// UnregisterBacking implements fs.Kernel.
func (k kernel) UnregisterBacking(id int32) unix.Errno { return k.srv.UnregisterBackingFd(id) }

// MapsDirect implements fs.Kernel.
func (k kernel) MapsDirect() bool { return k.offers(fuse.CAP_DIRECT_IO_ALLOW_MMAP) }

// Prune makes the kernel forget nodes that nobody uses; ENOSYS if it cannot be told to. The
// filesystem asks whether its kernel has this method (trim.Pruner).
func (k kernel) Prune(nodes []uint64) error {
	if st := k.srv.PruneNotify(nodes); st != fuse.OK {
		return unix.Errno(st)
	}
	return nil
}

// offers reports whether the kernel has offered a capability, one of fuse.CAP_*.
func (k kernel) offers(capability uint64) bool {
	return k.srv.KernelSettings().Flags64()&capability != 0
}
