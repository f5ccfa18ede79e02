package fs

import (
	"fmt"

	"golang.org/x/sys/unix"

	"latchfs/fs/selftest"
)

// selfTestNode is the node of the file that package selftest opens, in .locks. Those of
// other virtual nodes never get there.
const selfTestNode = uint64(1) << 63

// testKernel runs the self-test through the mount. Its open is a plain system call in a
// thread of its own; the requests are served by others.
func (f *FS) testKernel() error {
	path := f.disk.opts.Mountpoint + "/" + f.disk.opts.LocksDir + "/" + selftest.Name
	err := f.selfTest.Run(func() error {
		fd, err := unix.Open(path, unix.O_RDONLY|unix.O_CLOEXEC, 0)
		if err != nil {
			return fmt.Errorf("open %s: %w", path, err)
		}
		unix.Close(fd)
		return nil
	})
	if err != nil {
		return fmt.Errorf("%w: %w", ErrKernel, err)
	}
	return nil
}

func selfTestAttr() Attr {
	return Attr{Ino: selfTestNode, Mode: unix.S_IFREG | 0o444, Nlink: 1}
}

func (v *virtual) lookupSelfTest(out *Entry) unix.Errno {
	if !v.f.selfTest.Lookup() {
		return unix.ENOENT
	}
	out.Node = selfTestNode
	out.Attr = selfTestAttr()
	return 0
}

func (v *virtual) openSelfTest(out *Opened) unix.Errno {
	if v.f.selfTest.Open() {
		v.f.kernel.srv.InodeNotify(virtualRoot, -1, 0)
		return unix.ESTALE
	}
	out.NoFlush = true
	return 0
}
