package mounts

import (
	"fmt"
	"strings"
	"sync"

	"github.com/moby/sys/mountinfo"
	"golang.org/x/sys/unix"
)

// Watch knows which files of a mount are mount points, or are mounted somewhere else by
// themselves. A nil Watch knows of none.
type Watch struct {
	below string // the mountpoint, with a slash
	dev   uint64 // the mount's device
	fd    int    // /proc/self/mountinfo, which says when it has changed

	mu    sync.Mutex // guards paths
	paths map[string]bool
}

// NewWatch watches the mount at mountpoint, whose device is dev.
func NewWatch(mountpoint string, dev uint64) (*Watch, error) {
	fd, err := unix.Open("/proc/self/mountinfo", unix.O_RDONLY|unix.O_CLOEXEC, 0)
	if err != nil {
		return nil, fmt.Errorf("open /proc/self/mountinfo: %w", err)
	}
	w := &Watch{below: mountpoint + "/", dev: dev, fd: fd}
	w.reloadLocked() // nobody else knows it yet
	return w, nil
}

// Covers reports whether path, below the mount's root, is special in the mount table as it is
// now.
func (w *Watch) Covers(path string) bool {
	if w == nil {
		return false
	}
	w.mu.Lock()
	defer w.mu.Unlock()
	// The kernel signals a change of the table as an exception (proc(5)).
	p := []unix.PollFd{{Fd: int32(w.fd), Events: unix.POLLPRI}}
	if n, err := unix.Poll(p, 0); err == nil && n > 0 && p[0].Revents&(unix.POLLPRI|unix.POLLERR) != 0 {
		w.reloadLocked()
	}
	return w.paths[path]
}

// reloadLocked reads the table. If that fails, what was known counts on. w.mu is held.
func (w *Watch) reloadLocked() {
	paths := map[string]bool{}
	_, err := mountinfo.GetMounts(func(i *mountinfo.Info) (skip, stop bool) {
		if unix.Mkdev(uint32(i.Major), uint32(i.Minor)) == w.dev && i.Root != "/" {
			paths[strings.TrimPrefix(i.Root, "/")] = true
		}
		if below, ok := strings.CutPrefix(i.Mountpoint, w.below); ok {
			paths[below] = true
		}
		return true, false
	})
	if err == nil {
		w.paths = paths
	}
}

// Close ends the watch.
func (w *Watch) Close() {
	if w != nil {
		unix.Close(w.fd)
	}
}
