package fs

import (
	"fmt"
	"strings"
	"sync"

	"github.com/moby/sys/mountinfo"
	"golang.org/x/sys/unix"
)

// fsType is the type under which mounts appear in /proc/self/mountinfo.
const fsType = "fuse.latchfs"

// findMount returns the topmost mount on path, nil if there is none.
func findMount(path string) (*mountinfo.Info, error) {
	list, err := mountinfo.GetMounts(mountinfo.SingleEntryFilter(path))
	if err != nil || len(list) == 0 {
		return nil, err
	}
	all, err := mountinfo.GetMounts(func(i *mountinfo.Info) (skip, stop bool) { return i.Mountpoint != path, false })
	if err != nil || len(all) == 0 {
		return nil, err
	}
	return all[len(all)-1], nil
}

// mountWatch knows which files of the mount are mount points, or are mounted
// somewhere else by themselves.
type mountWatch struct {
	f  *FS
	fd int

	mu    sync.Mutex // guards paths
	paths map[string]bool
}

func newMountWatch(f *FS) (*mountWatch, error) {
	fd, err := unix.Open("/proc/self/mountinfo", unix.O_RDONLY|unix.O_CLOEXEC, 0)
	if err != nil {
		return nil, fmt.Errorf("open /proc/self/mountinfo: %w", err)
	}
	w := &mountWatch{f: f, fd: fd}
	w.reload()
	return w, nil
}

// covers reports whether path is special in the mount table as it is now.
func (w *mountWatch) covers(path string) bool {
	if w == nil {
		return false
	}
	w.mu.Lock()
	defer w.mu.Unlock()
	// The kernel signals a change of the table as an exception (proc(5)).
	p := []unix.PollFd{{Fd: int32(w.fd), Events: unix.POLLPRI}}
	if n, err := unix.Poll(p, 0); err == nil && n > 0 && p[0].Revents&(unix.POLLPRI|unix.POLLERR) != 0 {
		w.reload()
	}
	return w.paths[path]
}

func (w *mountWatch) reload() {
	paths := map[string]bool{}
	prefix := w.f.opts.Mountpoint + "/"
	_, err := mountinfo.GetMounts(func(i *mountinfo.Info) (skip, stop bool) {
		if unix.Mkdev(uint32(i.Major), uint32(i.Minor)) == w.f.mountDev && i.Root != "/" {
			paths[strings.TrimPrefix(i.Root, "/")] = true
		}
		if below, ok := strings.CutPrefix(i.Mountpoint, prefix); ok {
			paths[below] = true
		}
		return true, false
	})
	if err == nil {
		w.paths = paths
	}
}

func (w *mountWatch) close() {
	if w != nil {
		unix.Close(w.fd)
	}
}

// Network filesystems, by statfs(2) magic number: on these other machines can
// change files too, and local locks do not reach them (SEED C16).
var networkTypes = map[int64]string{
	0x6969: "NFS", 0xff534d42: "CIFS", 0xfe534d42: "SMB", 0x517b: "SMB", 0x00c36400: "Ceph",
	0x01021997: "9P", 0x5346414f: "AFS", 0x6b414653: "AFS", 0x0bd00bd0: "Lustre",
	0x01161970: "GFS2", 0x7461636f: "OCFS2", 0x73757245: "Coda", 0x564c: "NCP",
	0x65735546: "FUSE",
}
