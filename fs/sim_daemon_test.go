package fs

import (
	"fmt"
	"os"
	"slices"
	"strings"
	"sync"
	"testing/synctest"
	"time"

	"golang.org/x/sys/unix"

	"latchfs/fs/locksdir"
)

// The daemon of a simulation.

// start makes the filesystem, as Start does, without a mount.
func (w *simWorld) start(dir string) error {
	o := Options{Dir: dir, LockTimeout: 2 * time.Second, Log: simLog{w: w}}
	if err := o.Validate(); err != nil {
		return err
	}
	f := newFS(o)
	w.fs = f
	w.kernel = newSimKernel(w)
	w.kernel.fs = face{f}
	w.procs = newSimProcs(w)
	f.srv, f.proc = w.kernel, w.procs
	if err := f.openData(); err != nil {
		return err
	}
	if err := f.openState(); err != nil {
		return err
	}
	f.openControlRoom()
	var err error
	if f.procfd, err = unix.Open("/proc/self/fd", unix.O_PATH|unix.O_DIRECTORY|unix.O_CLOEXEC, 0); err != nil {
		return err
	}
	f.maxNodes = 1000
	f.mountDev, f.mountID = unix.Mkdev(0, 4000), 4000
	f.virt = newVirtual(f, locksdir.New(f.source))
	if err := f.plantRoot(); err != nil {
		return err
	}
	go f.walks.sweep()
	go f.trim.run()
	go f.keepKnowledge()
	return nil
}

// stop ends the filesystem and closes what a process's end would close.
func (w *simWorld) stop(dir string) {
	w.fs.stop()
	w.fs.abandonSessions()
	w.fs.cleanup()
	synctest.Wait()
	for _, fd := range []int{w.fs.rootfd, w.fs.procfd} {
		unix.Close(fd)
	}
	_ = w.fs.state.Close()
	w.fs.mu.Lock()
	for _, n := range w.fs.nodes {
		if n.fd >= 0 {
			unix.Close(n.fd)
		}
	}
	w.fs.mu.Unlock()
	closeBelow(dir)
}

// closeBelow closes what is still open of a directory: the lock of the state directory,
// which a daemon keeps until it ends.
func closeBelow(dir string) {
	list, err := os.ReadDir("/proc/self/fd")
	if err != nil {
		return
	}
	for _, e := range list {
		if to, err := os.Readlink("/proc/self/fd/" + e.Name()); err == nil && strings.HasPrefix(to, dir+"/") {
			var fd int
			if _, err := fmt.Sscan(e.Name(), &fd); err == nil {
				unix.Close(fd)
			}
		}
	}
}

// holdsNoMutex reports whether nobody holds a mutex of the filesystem's for which
// somebody may wait.
func (f *FS) holdsNoMutex() bool {
	var taken []sync.Locker
	defer func() {
		for _, l := range slices.Backward(taken) {
			l.Unlock()
		}
	}()
	try := func(l interface {
		sync.Locker
		TryLock() bool
	}) bool {
		if !l.TryLock() {
			return false
		}
		taken = append(taken, l)
		return true
	}
	if !try(&f.thefts) || !try(&f.ns) || !try(&f.paths) || !try(&f.readClaims.mu) ||
		!try(&f.walks.mu) || !try(&f.ends) || !try(&f.bases.mu) || !try(&f.mu) {
		return false
	}
	for s := range f.sessions {
		if !try(&s.mu) {
			return false
		}
	}
	for _, n := range f.nodes {
		if !try(&n.io.mu) {
			return false
		}
	}
	for _, h := range f.handles {
		if !try(&h.mu) || h.app != nil && !try(&h.app.mu) {
			return false
		}
	}
	return true
}

// checkEmpty looks for what dead processes have left behind.
func (w *simWorld) checkEmpty() {
	held, waiting := w.fs.table.Len()
	if held > 0 || waiting > 0 {
		w.failf("%d locks are held and %d waited for, and everybody is dead", held, waiting)
	}
	f := w.fs
	f.mu.Lock()
	defer f.mu.Unlock()
	sessions, handles, names := len(f.sessions), len(f.handles), 0
	f.names.All(func(d *dentry) {
		if d.State.busy() {
			names++
		}
	})
	if sessions > 0 || handles > 0 || names > 0 || f.walks.any() {
		go w.failf("%d sessions, %d handles, %d names in session and %d walks are left, and everybody is dead", sessions, handles, names, f.walks.n.Load())
	}
	for _, n := range f.nodes {
		if n.opens > 0 || n.sess != nil || n.shadow != nil || n.awaited > 0 || n.inside > 0 {
			id := n.id
			go w.failf("node %d is still in use, and everybody is dead", id)
		}
	}
}
