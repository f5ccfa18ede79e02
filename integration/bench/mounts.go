package main

import (
	"errors"
	"os/exec"
	"time"

	"github.com/moby/sys/mountinfo"
	"golang.org/x/sys/unix"
)

// mountEntry is what the mount table says about one mount.
type mountEntry struct {
	Type    string // filesystem type
	Source  string // device or what the filesystem calls so
	Options string // of the mount and of the filesystem
}

// findMount reports whether something is mounted at exactly this path, without
// touching it.
func findMount(path string) (bool, error) {
	infos, err := mountinfo.GetMounts(mountinfo.SingleEntryFilter(path))
	return len(infos) > 0, err
}

// mountOf is the mount that a path lies on.
func mountOf(path string) (mountEntry, error) {
	infos, err := mountinfo.GetMounts(mountinfo.ParentsFilter(path))
	if err != nil {
		return mountEntry{}, err
	}
	var longest *mountinfo.Info
	for _, info := range infos {
		if longest == nil || len(info.Mountpoint) >= len(longest.Mountpoint) {
			longest = info
		}
	}
	if longest == nil {
		return mountEntry{}, errors.New("no mount for " + path)
	}
	return entryOf(longest), nil
}

func entryOf(i *mountinfo.Info) mountEntry {
	return mountEntry{Type: i.FSType, Source: i.Source, Options: i.Options + "," + i.VFSOptions}
}

// isMounted errs on the safe side.
func isMounted(path string) bool {
	mounted, err := findMount(path)
	return mounted || err != nil
}

// unmount takes an ordinary mount away; a client's last close may still be on
// its way, so a busy one is tried again for a moment.
func unmount(path string) error {
	var err error
	for range 50 {
		if !isMounted(path) {
			return nil
		}
		err = unix.Unmount(path, unix.UMOUNT_NOFOLLOW)
		if errors.Is(err, unix.EPERM) {
			err = exec.Command("fusermount3", "-u", path).Run()
		}
		if err == nil {
			return nil
		}
		time.Sleep(20 * time.Millisecond)
	}
	return err
}
