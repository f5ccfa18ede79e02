package fs

import (
	"errors"
	"fmt"
	"log"
	"math"
	"os"
	"strings"
	"sync"
	"time"

	"github.com/hanwen/go-fuse/v2/fuse"
	"golang.org/x/sys/unix"

	"latchfs/fs/asuser"
	"latchfs/fs/locksdir"
	"latchfs/fs/privileges"
	"latchfs/journal"
	"latchfs/journal/audit"
	"latchfs/lockmgr/proc"
)

// Mount is a running mount.
type Mount struct {
	f        *FS
	gone     chan struct{} // closed when the kernel has let go of the mount
	stopped  chan struct{} // closed when Shutdown has done what it can
	stopOnce sync.Once
}

// Start mounts the data directory. It returns once the mount answers and the
// self-test has passed; whatever it refuses, nothing is left behind.
func Start(o Options) (_ *Mount, err error) {
	if err := o.Validate(); err != nil {
		return nil, err
	}
	f := newFS(o)
	defer func() {
		if err != nil {
			f.cleanup()
		}
	}()
	if err := f.openData(); err != nil {
		return nil, err
	}
	err = f.openState()
	if errors.Is(err, journal.ErrCorrupt) {
		err = fmt.Errorf("%w; see what can be done with: latchfs fsck --repair %s", err, f.opts.Dir)
	}
	if err != nil {
		return nil, err
	}
	f.raiseLimits()
	processes, err := proc.New("/proc")
	if err != nil {
		return nil, err
	}
	f.proc = processes
	f.openUpdates()
	f.openReadClaims()
	f.openAdvisory()
	f.openControlRoom()
	if err := f.proc.FollowForks(); err != nil {
		f.log.Infof("a script may be told of what its own orphaned background jobs have changed: %v", err)
	}
	if f.procfd, err = unix.Open("/proc/self/fd", unix.O_PATH|unix.O_DIRECTORY|unix.O_CLOEXEC, 0); err != nil {
		return nil, fmt.Errorf("open /proc/self/fd: %w", err)
	}
	if f.opts.DropPrivileges {
		// What needs more is done; nobody has made a request yet.
		if err := privileges.Drop(); err != nil {
			f.log.Infof("the daemon keeps capabilities that it does not need: %v", err)
		}
	}
	f.virt = newVirtual(f, locksdir.New(f.source))
	if err := f.plantRoot(); err != nil {
		return nil, err
	}
	if err := f.restoreClaims(); err != nil {
		return nil, err
	}
	m := &Mount{f: f, gone: make(chan struct{}), stopped: make(chan struct{})}
	if err := m.mount(); err != nil {
		return nil, err
	}
	f.event(audit.Event{Time: time.Now(), Event: "mount", Detail: map[string]any{"mountpoint": f.opts.Mountpoint, "version": o.Version}})
	return m, nil
}

// Mountpoint is where the mount is, as an absolute path.
func (m *Mount) Mountpoint() string { return m.f.opts.Mountpoint }

// Passthrough reports whether the kernel does file I/O without the daemon.
func (m *Mount) Passthrough() bool { return m.f.passthrough }

// Wait returns when the mount is gone, or shut down: programs in other mount
// namespaces may then still have it until the process ends.
func (m *Mount) Wait() error {
	select {
	case <-m.gone:
		// Somebody has unmounted it, or cut it off. That is a stop like any other.
		m.f.abandonSessions()
		m.f.cleanup()
	case <-m.stopped:
	}
	return nil
}

// mount attaches to the kernel and starts serving.
func (m *Mount) mount() error {
	f := m.f
	f.privileged = os.Geteuid() == 0
	f.noteMount()
	if err := f.findCommandUsers(); err != nil {
		return err
	}
	opts := f.mountOptions()
	srv, err := fuse.NewServer(face{f}, f.opts.Mountpoint, opts)
	if err != nil {
		return fmt.Errorf("mount on %s: %w", f.opts.Mountpoint, f.mountFailed(err))
	}
	// The connection ends with its last descriptor: no process that we start is to have one.
	if err := unix.CloseRange(3, math.MaxUint32, unix.CLOSE_RANGE_CLOEXEC); err != nil {
		f.log.Warnf("processes that latchfs starts may keep the mount alive after its death: %v", err)
	}
	if opts.DisabledCapabilities&fuse.CAP_PASSTHROUGH == 0 && srv.KernelSettings().Flags64()&fuse.CAP_PASSTHROUGH != 0 {
		// In another goroutine: the first thread would lose PR_SET_PDEATHSIG.
		dropped := make(chan error)
		go func() { dropped <- asuser.Nobody.Less(func() error { return nil }) }()
		err := <-dropped
		if f.passthrough = err == nil; err != nil {
			f.log.Warnf("no passthrough: %v", err)
		}
	}
	go func() {
		srv.Serve()
		f.stop()
		close(m.gone)
	}()
	go f.walks.Sweep(f.done)
	go f.trim.Run()
	go f.virt.files.Trim(f.done)
	if f.store != nil {
		go f.pruneRejected()
		go f.remembers.Keep(f.done, f.sweepKnowledge)
	}
	err = f.identify()
	if err == nil {
		err = f.testKernel()
	}
	if err != nil {
		_ = Detach(f.opts.Mountpoint)
		<-m.gone
		return err
	}
	if f.journal != nil && !f.journal.Clean() {
		go f.sweepOrphans()
	}
	return nil
}

// mountFailed says of a failure of fusermount3, of which go-fuse knows no more than
// the wait status, what may be behind it.
func (f *FS) mountFailed(err error) error {
	if f.privileged || !strings.Contains(err.Error(), "fusermount") {
		return err
	}
	if e := unix.Access("/dev/fuse", unix.R_OK|unix.W_OK); e != nil {
		return fmt.Errorf("fusermount3 could not mount: /dev/fuse cannot be opened by this user: %w", e)
	}
	return fmt.Errorf("fusermount3 could not mount: %s", strings.TrimSpace(err.Error()))
}

// identify finds out how /proc shows the mount to other processes.
func (f *FS) identify() error {
	i, err := findMount(f.opts.Mountpoint)
	if err != nil {
		return err
	}
	if i == nil || i.FSType != fsType {
		return fmt.Errorf("%s vanished from the mount table", f.opts.Mountpoint)
	}
	f.mountID = i.ID
	f.mountDev = unix.Mkdev(uint32(i.Major), uint32(i.Minor))
	f.mounts, err = newMountWatch(f)
	return err
}

// failStop ends the daemon where serving a request has panicked. By default go-fuse answers
// EIO and goes on: a mutex that was held then is held for ever, and the mount hangs for
// everybody. A start after a crash loses nothing that was promised.
func failStop(cause any) fuse.Status { panic(cause) }

func (f *FS) mountOptions() *fuse.MountOptions {
	o := &f.opts
	m := &fuse.MountOptions{
		AllowOther: o.AllowOther, FsName: o.Dir, Name: "latchfs",
		MaxBackground: 64, MaxWrite: 1 << 20, MaxStackDepth: 1,
		EnableLocks: true, EnableAcl: true, Debug: o.Debug,
		Logger:  log.New(logWriter{f.log}, "", 0),
		Options: append([]string{"default_permissions"}, o.MountOptions...),
		ExtraCapabilities: fuse.CAP_ATOMIC_O_TRUNC | fuse.CAP_HANDLE_KILLPRIV_V2 | fuse.CAP_DONT_MASK |
			fuse.CAP_DIRECT_IO_ALLOW_MMAP | fuse.CAP_SETXATTR_EXT | fuse.CAP_READDIRPLUS_AUTO,
		DisabledCapabilities: fuse.CAP_WRITEBACK_CACHE | fuse.CAP_NO_OPEN_SUPPORT,
		PanicHandler:         failStop,
	}
	if o.Passthrough != nil && !*o.Passthrough || !f.privileged {
		m.DisabledCapabilities |= fuse.CAP_PASSTHROUGH
	}
	if f.privileged {
		m.DirectMountStrict = true
		m.DirectMountFlags = f.directFlags()
	} else if o.ReadOnly {
		m.Options = append(m.Options, "ro")
	}
	var st unix.Statfs_t
	if unix.Fstatfs(f.rootfd, &st) == nil && int64(uint32(st.Type)) == overlayMagic {
		m.MaxStackDepth = 2
	}
	return m
}

// directFlags are the mount flags: those of the filesystem below, so that
// setuid programs and devices work as they do without the mount.
func (f *FS) directFlags() uintptr {
	flags := uintptr(unix.MS_MGC_VAL) // ignored, but not zero
	var st unix.Statfs_t
	if unix.Fstatfs(f.rootfd, &st) == nil {
		for from, to := range map[int64]uintptr{
			unix.ST_NOSUID: unix.MS_NOSUID, unix.ST_NODEV: unix.MS_NODEV,
			unix.ST_NOEXEC: unix.MS_NOEXEC, unix.ST_RDONLY: unix.MS_RDONLY,
		} {
			if int64(st.Flags)&from != 0 {
				flags |= to
			}
		}
	}
	if f.opts.ReadOnly {
		flags |= unix.MS_RDONLY
	}
	return flags
}

// logWriter passes go-fuse's messages on.
type logWriter struct{ log Logger }

func (w logWriter) Write(p []byte) (int, error) {
	w.log.Warnf("fuse: %s", strings.TrimSpace(string(p)))
	return len(p), nil
}
