package main

import (
	"bytes"
	"context"
	"errors"
	"fmt"
	"os"
	"os/exec"
	"path/filepath"
	"slices"
	"strconv"
	"strings"
	"time"

	"github.com/moby/sys/mountinfo"
	"github.com/spf13/cobra"
	"golang.org/x/sys/unix"

	"latchfs/fs/mounts"
	"latchfs/journal/commit"
)

// umountFlags are the flags of `latchfs umount`.
type umountFlags struct {
	lazy    bool
	dead    bool
	timeout time.Duration
}

func newUmountCommand() *cobra.Command {
	var f umountFlags
	cmd := &cobra.Command{
		Use:   "umount MOUNTPOINT",
		Short: "Unmount",
		Long: `Unmount a latchfs mount, and return when its daemon is gone, too.

A mount in use is not unmounted; the message says by whom. With --lazy it
disappears at once, and its daemon ends when the last user does.`,
		Args: exactly(1),
		RunE: func(cmd *cobra.Command, args []string) error {
			return f.run(cmd, args[0])
		},
	}
	cmd.Flags().BoolVarP(&f.lazy, "lazy", "z", false, "detach now, clean up when it is no longer in use")
	cmd.Flags().BoolVar(&f.dead, "dead", false, "only if the daemon is gone; anything else is left alone")
	cmd.Flags().DurationVar(&f.timeout, "timeout", 30*time.Second, "how long to wait for the daemon to end")
	return cmd
}

// run is `latchfs umount`.
func (f *umountFlags) run(cmd *cobra.Command, path string) error {
	m, err := mountAt(path)
	if f.dead {
		// What is not ours, not there or alive is none of our business.
		if errors.Is(err, errNotMounted) || m == nil || !isDead(m) {
			return nil
		}
	}
	if errors.Is(err, errNotMounted) {
		return notMounted(path, err)
	}
	if err != nil {
		return err
	}
	if owner, known := ownerOf(m); known && owner != os.Geteuid() && os.Geteuid() != 0 {
		return fmt.Errorf("%s is the mount of %s: only that user and root unmount it", m.Mountpoint, userName(owner))
	}
	lazy := f.lazy || f.dead
	if err := unmount(m.Mountpoint, lazy); err != nil {
		if users := mountUsers(m); errors.Is(err, unix.EBUSY) && len(users) > 0 {
			return fmt.Errorf("%s is in use by %s", m.Mountpoint, strings.Join(users, ", "))
		}
		return fmt.Errorf("%s: %w", m.Mountpoint, err)
	}
	if lazy {
		return nil
	}
	if others := othersOf(m); len(others) > 0 {
		warn(cmd, "its daemon goes on, for the same is mounted on %s", strings.Join(others, ", "))
		return nil
	}
	ctx, cancel := context.WithTimeout(context.Background(), f.timeout)
	defer cancel()
	if err := daemonGone(ctx, m.Source); err != nil {
		return fmt.Errorf("%s is unmounted here, but after %v its daemon is still running; another mount namespace, such as a container's, may have a copy of the mount: end the container, or the daemon%s", m.Mountpoint, f.timeout, mounts.HowToEnd(lockPID(lockOf(m.Source))))
	}
	return nil
}

// othersOf are the mount points at which the filesystem of a mount can be seen besides, as
// by a bind mount.
func othersOf(m *mountinfo.Info) (others []string) {
	mounts, err := latchfsMounts()
	if err != nil {
		return nil
	}
	for _, x := range mounts {
		if sameFilesystem(x, m) && x.Source == m.Source { // the number of an earlier one may be another's
			others = append(others, x.Mountpoint)
		}
	}
	return others
}

// unmount removes a mount: by the system call, or for an ordinary user by
// fusermount3, which knows whose mount it is.
func unmount(mountpoint string, lazy bool) error {
	if os.Geteuid() == 0 {
		flags := unix.UMOUNT_NOFOLLOW
		if lazy {
			flags |= unix.MNT_DETACH
		}
		return unix.Unmount(mountpoint, flags)
	}
	args := []string{"-u"}
	if lazy {
		args = append(args, "-z")
	}
	var stderr bytes.Buffer
	cmd := exec.Command("fusermount3", append(args, "--", mountpoint)...)
	cmd.Env = append(os.Environ(), "LC_ALL=C")
	cmd.Stderr = &stderr
	err := cmd.Run()
	switch said := strings.TrimSpace(stderr.String()); {
	case err == nil:
		return nil
	case strings.HasSuffix(said, "Device or resource busy"):
		return unix.EBUSY
	case said != "":
		return errors.New(said)
	default:
		return fmt.Errorf("fusermount3: %w", err)
	}
}

// lockOf is the file on which the daemon of a data directory has its flock.
func lockOf(dir string) string { return filepath.Join(dir, commit.StateDirName, commit.LockName) }

// daemonGone returns when the daemon of a data directory has ended: it holds a
// flock for as long as it lives. A directory whose lock we may not see has no
// daemon that we could wait for.
func daemonGone(ctx context.Context, dir string) error {
	lock, err := openPlain(unix.AT_FDCWD, lockOf(dir), unix.O_RDONLY|unix.O_NOFOLLOW|unix.O_NONBLOCK)
	if err != nil {
		return nil
	}
	free := make(chan struct{})
	go func() {
		defer lock.Close() // not earlier: nothing ends the wait
		defer close(free)
		for errors.Is(unix.Flock(int(lock.Fd()), unix.LOCK_SH), unix.EINTR) {
			continue
		}
	}()
	select {
	case <-free:
		return nil
	case <-ctx.Done():
		return ctx.Err()
	}
}

// mountUsers names the processes that keep a mount busy, as far as /proc lets
// us see them.
func mountUsers(m *mountinfo.Info) []string {
	procs, _ := filepath.Glob("/proc/[0-9]*")
	var users []string
	for _, proc := range procs {
		if filepath.Base(proc) != strconv.Itoa(os.Getpid()) && usesMount(proc, m) {
			comm, _ := os.ReadFile(filepath.Join(proc, "comm"))
			users = append(users, fmt.Sprintf("%s (pid %s)", bytes.TrimSpace(comm), filepath.Base(proc)))
		}
	}
	return users
}

// usesMount tells whether a process has a file of the mount open or its
// working or root directory there.
func usesMount(proc string, m *mountinfo.Info) bool {
	copies := copiesOf(proc, m)
	if len(copies) == 0 {
		return false
	}
	for _, link := range []string{"cwd", "root"} {
		// Text only: following the link would ask the mount.
		dir, err := os.Readlink(filepath.Join(proc, link))
		if err == nil && slices.ContainsFunc(copies, func(c *mountinfo.Info) bool {
			return dir == c.Mountpoint || strings.HasPrefix(dir, c.Mountpoint+"/")
		}) {
			return true
		}
	}
	fds, _ := filepath.Glob(filepath.Join(proc, "fdinfo", "*"))
	for _, fd := range fds {
		info, err := os.ReadFile(fd)
		if err == nil && slices.ContainsFunc(copies, func(c *mountinfo.Info) bool {
			return bytes.Contains(info, fmt.Appendf(nil, "mnt_id:\t%d\n", c.ID))
		}) {
			return true
		}
	}
	return false
}

// copiesOf are what a process may use that keeps a mount busy: the mount itself, or in another
// mount namespace its copies, which have other ids.
func copiesOf(proc string, m *mountinfo.Info) []*mountinfo.Info {
	own, _ := os.Readlink("/proc/self/ns/mnt")
	if its, err := os.Readlink(filepath.Join(proc, "ns/mnt")); err != nil || its == own {
		return []*mountinfo.Info{m}
	}
	f, err := os.Open(filepath.Join(proc, "mountinfo"))
	if err != nil {
		return nil
	}
	defer f.Close()
	copies, err := mountinfo.GetMountsFromReader(f, func(i *mountinfo.Info) (skip, stop bool) {
		return i.Major != m.Major || i.Minor != m.Minor, false
	})
	if err != nil {
		return nil
	}
	return copies
}

// notMounted is the error of a path at which nothing is mounted. It names the mount that the
// path is in, if that is one of ours. Nothing on a mount is touched, for it may be dead.
func notMounted(path string, err error) error {
	abs, e := filepath.Abs(path)
	if e != nil {
		return err
	}
	m, e := machine().mountOf(abs)
	if e != nil || m == nil || m.FSType != fsType {
		return err
	}
	return fmt.Errorf("%w: it is in the mount at %s", err, m.Mountpoint)
}
