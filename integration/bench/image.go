package main

import (
	"context"
	"errors"
	"fmt"
	"os"
	"path/filepath"

	"golang.org/x/sys/unix"

	"latchfs/integration/bench/internal/load"
)

// The choices of -fs beside the filesystems that an image can have.
const (
	fsAuto = "auto" // the directory as it is when it is on ext4 with a journal, else an ext4 image
	fsAsIs = "dir"  // the directory as it is
)

// imageSize is room for every column; the blocks are allocated beforehand.
const imageSize = 6 << 30

// makeImageCommands by filesystem. Nothing is left to be initialised in the
// background, which would be measured too.
func makeImageCommands() map[string][]string {
	return map[string][]string{
		"ext4":  {"mkfs.ext4", "-q", "-F", "-E", "lazy_itable_init=0,lazy_journal_init=0"},
		"xfs":   {"mkfs.xfs", "-q", "-f"},
		"btrfs": {"mkfs.btrfs", "-q", "-f"},
	}
}

// chooseFS decides what auto means. ext4 without a journal is no ground to
// measure on: it leaves recently deleted inodes alone for minutes and searches
// past all of them at every create, so each safe save slows down the next.
func chooseFS(choice, dir string) (string, error) {
	if choice != fsAuto {
		return choice, nil
	}
	m, err := mountOf(dir)
	if err != nil {
		return "", err
	}
	if m.Type == "ext4" && hasJournal(m.Source) {
		return fsAsIs, nil
	}
	if os.Geteuid() != 0 {
		return fsAsIs, nil
	}
	return "ext4", nil
}

// hasJournal looks for the journal (inode 8) of an ext4 device.
func hasJournal(device string) bool {
	if resolved, err := filepath.EvalSymlinks(device); err == nil {
		device = resolved
	}
	_, err := os.Stat(filepath.Join("/proc/fs/jbd2", filepath.Base(device)+"-8"))
	return err == nil
}

// mountImage makes a filesystem in a file beside dir and mounts it on dir.
func mountImage(ctx context.Context, kind, dir string) error {
	command := makeImageCommands()[kind]
	if command == nil {
		return fmt.Errorf("no image of a filesystem %q: want %s, %s, ext4, xfs or btrfs", kind, fsAuto, fsAsIs)
	}
	image := dir + ".img"
	below, err := mountOf(dir)
	if err != nil {
		return err
	}
	if err := allocate(image, imageSize, below.Type == "tmpfs"); err != nil {
		return err
	}
	if _, err := output(ctx, command[0], append(command[1:], image)...); err != nil {
		return err
	}
	return mountLoop(ctx, image, dir)
}

// mountLoop goes around the page cache of the filesystem that the image lies
// on: a sync then writes what the image's filesystem wrote, and no more. The
// device is detached at once, which takes effect when it is unmounted: nothing
// is left behind even when this program is killed.
func mountLoop(ctx context.Context, image, dir string) error {
	device, err := output(ctx, "losetup", "--show", "-f", "--direct-io=on", image)
	if err != nil {
		return err
	}
	_, err = output(ctx, "mount", device, dir)
	_, detached := output(context.WithoutCancel(ctx), "losetup", "-d", device)
	return errors.Join(err, detached)
}

// allocate makes a file of the size. In memory it stays sparse, for there is
// nothing to be gained by taking so much of it at once.
func allocate(path string, size int64, sparse bool) error {
	f, err := os.OpenFile(path, os.O_RDWR|os.O_CREATE|os.O_EXCL, 0o600)
	if err != nil {
		return err
	}
	if sparse {
		err = f.Truncate(size)
	} else {
		err = unix.Fallocate(int(f.Fd()), 0, 0, size)
	}
	return errors.Join(load.At("allocate", path, err), f.Close())
}

// removeImage takes the image away, if there is one. A daemon that had to be
// killed may still hold it: then it goes with that process.
func removeImage(dir string) error {
	if err := unmount(dir); err != nil {
		if err := unix.Unmount(dir, unix.MNT_DETACH); err != nil {
			return load.At("unmount", dir, err)
		}
	}
	if err := os.Remove(dir + ".img"); err != nil && !errors.Is(err, os.ErrNotExist) {
		return err
	}
	return nil
}
