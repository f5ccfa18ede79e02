package face

import (
	"context"
	"fmt"
	"log"
	"math"
	"os"
	"os/exec"
	"strings"
	"sync"
	"time"

	"github.com/hanwen/go-fuse/v2/fuse"
	"golang.org/x/sys/unix"

	"latchfs/fs"
	"latchfs/fs/mounts"
)

// Mount is a running mount.
type Mount struct {
	f        *fs.FS
	opts     fs.Options
	gone     chan struct{} // closed when the kernel has let go of the mount
	stopped  chan struct{} // closed when Shutdown has done what it can
	stopOnce sync.Once
}

// Start mounts the data directory. It returns once the mount answers and the
// self-test has passed; whatever it refuses, nothing is left behind.
func Start(o fs.Options) (*Mount, error) {
	f, err := fs.Open(o)
	if err != nil {
		return nil, err
	}
	m := &Mount{f: f, opts: f.Options(), gone: make(chan struct{}), stopped: make(chan struct{})}
	if err := m.mount(); err != nil {
		f.Close()
		return nil, err
	}
	return m, nil
}

// Mountpoint is where the mount is, as an absolute path.
func (m *Mount) Mountpoint() string { return m.opts.Mountpoint }

// FS is the filesystem that is mounted.
func (m *Mount) FS() *fs.FS { return m.f }

// Wait returns when the mount is gone, or shut down: programs in other mount
// namespaces may then still have it until the process ends.
func (m *Mount) Wait() error {
	select {
	case <-m.gone:
		// Somebody has unmounted it, or cut it off. That is a stop like any other.
		m.f.Abandon()
		m.f.Close()
	case <-m.stopped:
	}
	return nil
}

// mount attaches to the kernel and starts serving.
func (m *Mount) mount() error {
	below, err := m.f.Below()
	if err != nil {
		return fmt.Errorf("statfs %s: %w", m.opts.Dir, err)
	}
	opts := mountOptions(&m.opts, &below)
	var k kernel
	q := m.f.Requests()
	c := &face{omitted: omitted{fuse.NewDefaultRawFileSystem()}, nameRequests: nameRequests{q}, fileRequests: fileRequests{q}, fs: q}
	c.attach = func(srv *fuse.Server) {
		k.srv = srv
		m.f.Attach(k, opts.DisabledCapabilities&fuse.CAP_PASSTHROUGH == 0 && k.offers(fuse.CAP_PASSTHROUGH))
	}
	srv, err := fuse.NewServer(c, m.opts.Mountpoint, opts)
	if err != nil {
		return fmt.Errorf("mount on %s: %w", m.opts.Mountpoint, mountFailed(err))
	}
	// The connection ends with its last descriptor: no process that we start is to have one.
	if err := unix.CloseRange(3, math.MaxUint32, unix.CLOSE_RANGE_CLOEXEC); err != nil {
		m.opts.Log.Warnf("processes that latchfs starts may keep the mount alive after its death: %v", err)
	}
	go func() {
		srv.Serve()
		m.f.Stop()
		close(m.gone)
	}()
	if err := m.f.Begin(); err != nil {
		_ = mounts.Detach(m.opts.Mountpoint)
		<-m.gone
		return err
	}
	return nil
}

// mountFailed says of a failure of fusermount3, of which go-fuse knows no more than
// the wait status, what may be behind it.
func mountFailed(err error) error {
	if os.Geteuid() == 0 || !strings.Contains(err.Error(), "fusermount") {
		return err
	}
	if e := unix.Access("/dev/fuse", unix.R_OK|unix.W_OK); e != nil {
		return fmt.Errorf("fusermount3 could not mount: /dev/fuse cannot be opened by this user: %w", e)
	}
	return fmt.Errorf("fusermount3 could not mount: %s", strings.TrimSpace(err.Error()))
}

// failStop ends the daemon where serving a request has panicked. By default go-fuse answers
// EIO and goes on: a mutex that was held then is held for ever, and the mount hangs for
// everybody. A start after a crash loses nothing that was promised.
func failStop(cause any) fuse.Status { panic(cause) }

// mountOptions are go-fuse's, for a mount over a filesystem of which statfs(2) says below.
func mountOptions(o *fs.Options, below *unix.Statfs_t) *fuse.MountOptions {
	const overlay = 0x794c7630 // OVERLAYFS_SUPER_MAGIC of include/linux/magic.h
	privileged := os.Geteuid() == 0
	m := &fuse.MountOptions{
		AllowOther: o.AllowOther, FsName: o.Dir, Name: "latchfs",
		MaxBackground: 64, MaxWrite: 1 << 20, MaxStackDepth: 1,
		EnableLocks: true, EnableAcl: true, Debug: o.Debug,
		Logger:  log.New(logWriter{o.Log}, "", 0),
		Options: append([]string{"default_permissions"}, o.MountOptions...),
		ExtraCapabilities: fuse.CAP_ATOMIC_O_TRUNC | fuse.CAP_HANDLE_KILLPRIV_V2 | fuse.CAP_DONT_MASK |
			fuse.CAP_DIRECT_IO_ALLOW_MMAP | fuse.CAP_SETXATTR_EXT | fuse.CAP_READDIRPLUS_AUTO,
		DisabledCapabilities: fuse.CAP_WRITEBACK_CACHE | fuse.CAP_NO_OPEN_SUPPORT,
		PanicHandler:         failStop,
	}
	if o.Passthrough != nil && !*o.Passthrough || !privileged {
		m.DisabledCapabilities |= fuse.CAP_PASSTHROUGH
	}
	if privileged {
		m.DirectMountStrict = true
		m.DirectMountFlags = directFlags(o, below)
	} else if o.ReadOnly {
		m.Options = append(m.Options, "ro")
	}
	if int64(uint32(below.Type)) == overlay {
		m.MaxStackDepth = 2
	}
	return m
}

// directFlags are the mount flags: those of the filesystem below, so that
// setuid programs and devices work as they do without the mount.
func directFlags(o *fs.Options, below *unix.Statfs_t) uintptr {
	flags := uintptr(unix.MS_MGC_VAL) // ignored, but not zero
	for from, to := range map[int64]uintptr{
		unix.ST_NOSUID: unix.MS_NOSUID, unix.ST_NODEV: unix.MS_NODEV,
		unix.ST_NOEXEC: unix.MS_NOEXEC, unix.ST_RDONLY: unix.MS_RDONLY,
	} {
		if int64(below.Flags)&from != 0 {
			flags |= to
		}
	}
	if o.ReadOnly {
		flags |= unix.MS_RDONLY
	}
	return flags
}

// logWriter passes go-fuse's messages on.
type logWriter struct{ log fs.Logger }

func (w logWriter) Write(p []byte) (int, error) {
	w.log.Warnf("fuse: %s", strings.TrimSpace(string(p)))
	return len(p), nil
}

// Shutdown holds new sessions back, lets the running ones finish until ctx ends,
// refuses those that wait by then, and unmounts. Sessions that are still open are
// rolled back: nothing is committed that was not closed.
func (m *Mount) Shutdown(ctx context.Context) error {
	defer m.stopOnce.Do(func() { close(m.stopped) })
	m.f.Drain(ctx, m.gone)
	err := m.unmount()
	m.f.Abandon()
	if err == nil {
		select {
		case <-m.gone:
		case <-time.After(unmountGrace):
			// Programs have files open, or a mount namespace made meanwhile, a
			// container's for instance, has a copy of the mount. The end of the
			// process cuts them off.
			m.opts.Log.Warnf("%s is still used by other programs; they are cut off", m.opts.Mountpoint)
		}
	}
	m.f.Close()
	return err
}

// unmountGrace is how long the kernel may take to let go after an unmount.
const unmountGrace = 2 * time.Second

// unmount takes the mount away, lazily if somebody still uses it. What is in its place is
// left alone where somebody has taken it away already.
func (m *Mount) unmount() error {
	select {
	case <-m.gone:
		return nil
	default:
	}
	if !m.f.IsMounted() {
		return nil
	}
	err := unix.Unmount(m.opts.Mountpoint, 0)
	if err == unix.EPERM {
		err = exec.Command("fusermount3", "-u", "--", m.opts.Mountpoint).Run()
	}
	if err == nil {
		return nil
	}
	m.opts.Log.Infof("%s is busy: detaching it", m.opts.Mountpoint)
	return mounts.Detach(m.opts.Mountpoint)
}
