// Package mounts knows the mount table: which mounts of latchfs there are, which of them are
// dead, and what is mounted on the files of one.
//
// Mutex order: Watch.mu is a leaf. While it is held the mount table is read.
package mounts

import (
	"errors"
	"fmt"
	"os"
	"os/exec"
	"strconv"
	"strings"

	"github.com/moby/sys/mountinfo"
	"golang.org/x/sys/unix"
)

// FSType is the type under which mounts of latchfs appear in /proc/self/mountinfo. Their
// source is the data directory.
const FSType = "fuse.latchfs"

// ErrAlreadyMounted says that there is a living mount of latchfs on a directory.
var ErrAlreadyMounted = errors.New("already mounted by latchfs")

// Find returns the topmost mount on path, which is absolute and has no symbolic links; nil
// if there is none.
func Find(path string) (*mountinfo.Info, error) {
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

// On returns the mount that path lies on, which is absolute and has no symbolic links.
func On(path string) (on *mountinfo.Info, err error) {
	list, err := mountinfo.GetMounts(mountinfo.ParentsFilter(path))
	for _, i := range list {
		if on == nil || len(i.Mountpoint) >= len(on.Mountpoint) { // the topmost comes last
			on = i
		}
	}
	return on, err
}

// Shows reports whether a mount of latchfs shows the data directory dir.
func Shows(dir string) bool {
	list, err := mountinfo.GetMounts(func(i *mountinfo.Info) (skip, stop bool) {
		return i.FSType != FSType || i.Source != dir, false
	})
	return err == nil && len(list) > 0
}

// HowToEnd is the command that ends the daemon with a process id that its lock file tells, in
// parentheses after a space; "" where that is another process: the id may be one of another pid
// namespace.
func HowToEnd(pid string) string {
	n, err := strconv.Atoi(pid)
	if err != nil {
		return ""
	}
	comm, err := os.ReadFile(fmt.Sprintf("/proc/%d/comm", n))
	if err != nil || string(comm) != "latchfs\n" {
		return ""
	}
	return fmt.Sprintf(" (`kill %d`)", n)
}

// IsDead tells the errors of a mount without a daemon: ENOTCONN, and for a
// request that was under way when the connection died ECONNABORTED.
func IsDead(err error) bool {
	return errors.Is(err, unix.ENOTCONN) || errors.Is(err, unix.ECONNABORTED)
}

// ClearDead takes a dead mount of latchfs away that is on path, and reports whether there
// was one. err is why path could not be used.
func ClearDead(path string, err error) (cleared bool, _ error) {
	if !IsDead(err) {
		return false, nil
	}
	i, e := Find(path)
	if e != nil || i == nil || i.FSType != FSType {
		return false, nil
	}
	if err := Detach(path); err != nil {
		return false, fmt.Errorf("%s: a dead mount is in the way: %w", path, err)
	}
	return true, nil
}

// Clear refuses a path on which a mount of latchfs lives (ErrAlreadyMounted), and takes dead
// ones away. For a while after a daemon's death the kernel still answers stat(2) from its
// cache; statfs(2) it never caches.
func Clear(path string) error {
	i, err := Find(path)
	if err != nil || i == nil || i.FSType != FSType {
		return err
	}
	var st unix.Statfs_t
	if err := unix.Statfs(path, &st); !IsDead(err) {
		return fmt.Errorf("%w: %s", ErrAlreadyMounted, path)
	}
	if err := Detach(path); err != nil {
		return fmt.Errorf("%s: a dead mount is in the way: %w", path, err)
	}
	return Clear(path)
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
