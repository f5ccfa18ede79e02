package fs

import (
	"context"
	"errors"
	"fmt"
	"log"
	"os"
	"os/exec"
	"path/filepath"
	"strings"
	"sync"
	"time"

	"github.com/hanwen/go-fuse/v2/fuse"
	"golang.org/x/sys/unix"

	"latchfs/fs/locksdir"
	"latchfs/journal"
	"latchfs/journal/commit"
	"latchfs/lockmgr"
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
	if err := f.openState(); err != nil {
		return nil, err
	}
	f.raiseLimits()
	if f.proc, err = proc.New("/proc"); err != nil {
		return nil, err
	}
	if f.procfd, err = unix.Open("/proc/self/fd", unix.O_PATH|unix.O_DIRECTORY|unix.O_CLOEXEC, 0); err != nil {
		return nil, fmt.Errorf("open /proc/self/fd: %w", err)
	}
	f.virt = newVirtual(f, locksdir.New(f.source))
	if err := f.plantRoot(); err != nil {
		return nil, err
	}
	m := &Mount{f: f, gone: make(chan struct{}), stopped: make(chan struct{})}
	if err := m.mount(); err != nil {
		return nil, err
	}
	f.event(journal.Event{Time: time.Now(), Event: "mount", Detail: map[string]any{"mountpoint": f.opts.Mountpoint, "version": o.Version}})
	return m, nil
}

// Mountpoint is where the mount is, as an absolute path.
func (m *Mount) Mountpoint() string { return m.f.opts.Mountpoint }

// Passthrough reports whether the kernel does file I/O without the daemon.
func (m *Mount) Passthrough() bool { return m.f.registrar != nil }

// Wait returns when the mount is gone, or shut down: programs in other mount
// namespaces may then still have it until the process ends.
func (m *Mount) Wait() error {
	select {
	case <-m.gone:
	case <-m.stopped:
	}
	return nil
}

// openData opens the data directory and refuses what cannot be mounted.
func (f *FS) openData() error {
	o := &f.opts
	dir, err := canonical(o.Dir)
	if err != nil {
		return err
	}
	mnt, err := canonical(o.Mountpoint)
	if err != nil {
		return err
	}
	o.Dir, o.Mountpoint = dir, mnt
	switch {
	case mnt != dir && inside(mnt, dir):
		return fmt.Errorf("%w: mountpoint %s lies inside the data directory %s", ErrBadOption, mnt, dir)
	case mnt != dir && inside(dir, mnt):
		return fmt.Errorf("%w: data directory %s lies inside the mountpoint %s", ErrBadOption, dir, mnt)
	}
	for _, p := range []string{mnt, dir} {
		if err := clearMount(p); err != nil {
			return err
		}
	}
	if f.rootfd, err = unix.Open(dir, unix.O_PATH|unix.O_DIRECTORY|unix.O_CLOEXEC, 0); err != nil {
		if err == unix.ENOTDIR {
			err = ErrNotDirectory
		}
		return fmt.Errorf("%s: %w", dir, err)
	}
	var st unix.Stat_t
	if err := unix.Fstat(f.rootfd, &st); err != nil {
		return fmt.Errorf("%s: %w", dir, err)
	}
	f.dev = uint64(st.Dev)
	if unix.Fstatat(f.rootfd, o.LocksDir, &st, unix.AT_SYMLINK_NOFOLLOW) == nil {
		return fmt.Errorf("%w: %s already has an entry %q; choose another name with --locks-dir", ErrReservedName, dir, o.LocksDir)
	}
	f.warnNetwork()
	return nil
}

// canonical resolves path and removes a dead mount of ours that is in the way.
func canonical(path string) (string, error) {
	abs, err := filepath.Abs(path)
	if err != nil {
		return "", err
	}
	real, err := filepath.EvalSymlinks(abs)
	if errors.Is(err, unix.ENOTCONN) {
		if i, e := findMount(abs); e == nil && i != nil && i.FSType == fsType {
			if err := Detach(abs); err != nil {
				return "", fmt.Errorf("%s: a dead mount is in the way: %w", abs, err)
			}
			return canonical(path)
		}
	}
	if err != nil {
		return "", err
	}
	st, err := os.Stat(real)
	if errors.Is(err, unix.ENOTCONN) {
		if i, e := findMount(real); e == nil && i != nil && i.FSType == fsType {
			if err := Detach(real); err != nil {
				return "", fmt.Errorf("%s: a dead mount is in the way: %w", real, err)
			}
			return canonical(path)
		}
	}
	if err != nil {
		return "", err
	}
	if !st.IsDir() {
		return "", fmt.Errorf("%s: %w", path, ErrNotDirectory)
	}
	return real, nil
}

// clearMount refuses a path on which a mount of ours lives, and removes a dead
// one. For a while after a daemon's death the kernel still answers stat(2) from
// its cache; statfs(2) it never caches.
func clearMount(path string) error {
	i, err := findMount(path)
	if err != nil || i == nil || i.FSType != fsType {
		return err
	}
	var st unix.Statfs_t
	switch err := unix.Statfs(path, &st); err {
	case unix.ENOTCONN, unix.ECONNABORTED:
	default:
		return fmt.Errorf("%w: %s", ErrAlreadyMounted, path)
	}
	if err := Detach(path); err != nil {
		return fmt.Errorf("%s: a dead mount is in the way: %w", path, err)
	}
	return clearMount(path)
}

func inside(path, dir string) bool {
	return dir == "/" || strings.HasPrefix(path, dir+"/")
}

// Detach takes a mount away although it may be in use (umount -l).
func Detach(mountpoint string) error {
	err := unix.Unmount(mountpoint, unix.MNT_DETACH)
	if err != unix.EPERM {
		return err
	}
	out, err := exec.Command("fusermount3", "-u", "-z", "--", mountpoint).CombinedOutput()
	if err != nil {
		return fmt.Errorf("fusermount3: %w: %s", err, strings.TrimSpace(string(out)))
	}
	return nil
}

func (f *FS) warnNetwork() {
	var st unix.Statfs_t
	if unix.Fstatfs(f.rootfd, &st) != nil {
		return
	}
	if name, ok := networkTypes[int64(uint32(st.Type))]; ok {
		f.log.Warnf("%s is on %s: programs on other machines are not kept out, only those on this one", f.opts.Dir, name)
	}
}

// openState opens the state directory, keeps other daemons out, and recovers
// what an earlier one left unfinished.
func (f *FS) openState() error {
	if f.opts.ReadOnly {
		f.table = lockmgr.New(lockmgr.Options{FirstToken: 1})
		return nil
	}
	if err := f.openStateDir(); err != nil {
		return err
	}
	var err error
	f.journal, err = journal.Open(f.state, journal.Options{Logf: f.log.Warnf})
	if err != nil {
		return fmt.Errorf("journal of %s: %w", f.opts.Dir, err)
	}
	f.store = commit.NewStore(f.rootfd, f.state, f.journal)
	report, err := f.store.Recover()
	if err != nil {
		return fmt.Errorf("recovery of %s: %w", f.opts.Dir, err)
	}
	f.reportRecovery(report)
	first, err := f.journal.ReserveTokens(tokenBlock)
	if err != nil {
		return fmt.Errorf("journal of %s: %w", f.opts.Dir, err)
	}
	f.tokenLimit = first + tokenBlock
	f.table = lockmgr.New(lockmgr.Options{FirstToken: first})
	return nil
}

func (f *FS) openStateDir() error {
	const name = commit.StateDirName
	if err := unix.Mkdirat(f.rootfd, name, 0o700); err != nil && err != unix.EEXIST {
		return fmt.Errorf("%s/%s: %w", f.opts.Dir, name, err)
	}
	fd, err := unix.Openat(f.rootfd, name, unix.O_RDONLY|unix.O_DIRECTORY|unix.O_NOFOLLOW|unix.O_CLOEXEC, 0)
	if err == unix.ENOTDIR || err == unix.ELOOP {
		return fmt.Errorf("%w: %s/%s is not ours", ErrReservedName, f.opts.Dir, name)
	}
	if err != nil {
		return fmt.Errorf("%s/%s: %w", f.opts.Dir, name, err)
	}
	f.state = os.NewFile(uintptr(fd), name)
	if err := f.checkStateDir(); err != nil {
		return err
	}
	lock, err := unix.Openat(fd, "daemon.lock", unix.O_RDWR|unix.O_CREAT|unix.O_NOFOLLOW|unix.O_CLOEXEC, 0o600)
	if err != nil {
		return fmt.Errorf("%s/%s/daemon.lock: %w", f.opts.Dir, name, err)
	}
	if err := unix.Flock(lock, unix.LOCK_EX|unix.LOCK_NB); err != nil {
		pid := make([]byte, 32)
		n, _ := unix.Pread(lock, pid, 0)
		unix.Close(lock)
		return fmt.Errorf("%w: %s (pid %s)", ErrDataInUse, f.opts.Dir, strings.TrimSpace(string(pid[:max(n, 0)])))
	}
	// The descriptor stays open, and the flock with it, until the process ends.
	unix.Ftruncate(lock, 0)
	unix.Pwrite(lock, fmt.Appendf(nil, "%d\n", os.Getpid()), 0)
	return nil
}

// checkStateDir refuses a directory of that name that is not our state.
func (f *FS) checkStateDir() error {
	var st unix.Stat_t
	if err := unix.Fstat(int(f.state.Fd()), &st); err != nil {
		return err
	}
	list, err := readEntries(int(f.state.Fd()), func(name string) bool { return name != "." && name != ".." })
	if err != nil {
		return fmt.Errorf("%s/%s: %w", f.opts.Dir, commit.StateDirName, err)
	}
	ours := len(list) == 0
	for _, e := range list {
		ours = ours || e.name == "daemon.lock"
	}
	if !ours {
		return fmt.Errorf("%w: %s/%s exists and was not made by latchfs", ErrReservedName, f.opts.Dir, commit.StateDirName)
	}
	if st.Mode&0o077 != 0 {
		return os.Chmod(f.opts.Dir+"/"+commit.StateDirName, 0o700)
	}
	return nil
}

// raiseLimits allows as many descriptors as the system gives: each file that
// the kernel remembers costs one.
func (f *FS) raiseLimits() {
	var l unix.Rlimit
	if unix.Getrlimit(unix.RLIMIT_NOFILE, &l) != nil {
		l.Cur = 1024
	}
	want := l
	want.Cur = want.Max
	if b, err := os.ReadFile("/proc/sys/fs/nr_open"); err == nil && os.Geteuid() == 0 {
		var n uint64
		if _, err := fmt.Sscan(string(b), &n); err == nil && n > want.Max {
			want.Cur, want.Max = n, n
		}
	}
	if unix.Setrlimit(unix.RLIMIT_NOFILE, &want) == nil {
		l = want
	}
	// A quarter is left for handles, shadows and journals.
	f.maxNodes = int(l.Cur / 4 * 3)
}

func (f *FS) plantRoot() error {
	fd, err := unix.Openat(f.rootfd, ".", unix.O_PATH|unix.O_DIRECTORY|unix.O_CLOEXEC, 0)
	if err != nil {
		return err
	}
	var st unix.Stat_t
	if err := unix.Fstat(fd, &st); err != nil {
		unix.Close(fd)
		return err
	}
	key := inoKey{uint64(st.Dev), st.Ino}
	root := &node{id: fuse.FUSE_ROOT_ID, fd: fd, key: key, kind: unix.S_IFDIR, nlookup: 1}
	f.nodes[root.id], f.byIno[key] = root, root
	return nil
}

// mount attaches to the kernel and starts serving.
func (m *Mount) mount() error {
	f := m.f
	f.privileged = os.Geteuid() == 0
	opts := f.mountOptions()
	srv, err := fuse.NewServer(f, f.opts.Mountpoint, opts)
	if err != nil {
		return fmt.Errorf("mount on %s: %w", f.opts.Mountpoint, err)
	}
	if opts.DisabledCapabilities&fuse.CAP_PASSTHROUGH == 0 && srv.KernelSettings().Flags64()&fuse.CAP_PASSTHROUGH != 0 {
		if f.registrar, err = newRegistrar(srv, f.done); err != nil {
			f.log.Warnf("no passthrough: %v", err)
		}
	}
	go func() {
		srv.Serve()
		f.stop()
		close(m.gone)
	}()
	go f.walks.sweep()
	go f.trim.run()
	err = f.identify()
	if err == nil {
		err = f.probe.run(f.opts.Mountpoint)
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

// stop ends everything that runs in the background.
func (f *FS) stop() {
	f.refuseAll()
	f.doneOnce.Do(func() { close(f.done) })
}

// refuseAll turns away new sessions and everybody who waits for one.
func (f *FS) refuseAll() {
	f.refusing.Store(true)
	f.closeOnce.Do(func() { close(f.closing) })
}

// Shutdown refuses new sessions, lets the running ones finish until ctx ends,
// and unmounts. Sessions that are still open then are rolled back: nothing is
// committed that was not closed.
func (m *Mount) Shutdown(ctx context.Context) error {
	f := m.f
	defer m.stopOnce.Do(func() { close(m.stopped) })
	f.refuseAll()
	t := time.NewTicker(20 * time.Millisecond)
	defer t.Stop()
wait:
	for f.running() > 0 {
		select {
		case <-ctx.Done():
			break wait
		case <-m.gone:
			break wait
		case <-t.C:
		}
	}
	if n := f.running(); n > 0 {
		f.log.Warnf("%d sessions still open are rolled back", n)
	}
	err := f.unmount(m)
	f.abandonSessions()
	if err != nil {
		return err
	}
	select {
	case <-m.gone:
	case <-time.After(unmountGrace):
		// A mount namespace made meanwhile, a container's for instance, has a
		// copy of the mount.
		// Programs have files open, or a mount namespace made meanwhile, a
		// container's for instance, has a copy of the mount. The end of the
		// process cuts them off.
		f.log.Warnf("%s is still used by other programs; they are cut off", f.opts.Mountpoint)
	}
	f.cleanup()
	return nil
}

// unmountGrace is how long the kernel may take to let go after an unmount.
const unmountGrace = 2 * time.Second

func (f *FS) running() int {
	f.mu.Lock()
	defer f.mu.Unlock()
	n := 0
	for s := range f.sessions {
		if !s.over {
			n++
		}
	}
	return n
}

// unmount takes the mount away, lazily if somebody still uses it.
func (f *FS) unmount(m *Mount) error {
	select {
	case <-m.gone:
		return nil
	default:
	}
	err := unix.Unmount(f.opts.Mountpoint, 0)
	if err == unix.EPERM {
		err = exec.Command("fusermount3", "-u", "--", f.opts.Mountpoint).Run()
	}
	if err == nil {
		return nil
	}
	f.log.Infof("%s is busy: detaching it", f.opts.Mountpoint)
	return Detach(f.opts.Mountpoint)
}

// abandonSessions rolls back what was not closed.
func (f *FS) abandonSessions() {
	f.mu.Lock()
	all := make([]*session, 0, len(f.sessions))
	for s := range f.sessions {
		all = append(all, s)
	}
	f.mu.Unlock()
	for _, s := range all {
		s.abandon()
	}
}

// cleanup gives back what Start has opened.
func (f *FS) cleanup() {
	f.stop()
	f.mounts.close()
	if f.journal != nil {
		f.event(journal.Event{Time: time.Now(), Event: "unmount"})
		if err := f.journal.Close(); err != nil {
			f.log.Errorf("closing the journal: %v", err)
		}
	}
}
