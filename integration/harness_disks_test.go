package integration

import (
	"fmt"
	"os"
	"os/exec"
	"strings"
	"testing"
	"time"

	"golang.org/x/sys/unix"
)

// diskKind is a filesystem that an image can have.
type diskKind struct {
	name    string
	mkfs    []string
	options string // to mount with
	least   int64  // the smallest image that it takes
}

// The filesystems that data is lost on when a sync is missing. ext4 hides a
// missing sync before a replacing rename unless told not to.
var diskKinds = []diskKind{
	{"ext4", []string{"mkfs.ext4", "-q", "-F", "-E", "lazy_itable_init=0,lazy_journal_init=0"}, "noauto_da_alloc", 64 << 20},
	{"xfs", []string{"mkfs.xfs", "-q", "-f"}, "", 320 << 20},
	{"btrfs", []string{"mkfs.btrfs", "-q", "-f"}, "", 256 << 20},
}

// needsDisks skips the test where no image can be mounted.
func needsDisks(t *testing.T, programs ...string) {
	t.Helper()
	needsRoot(t)
	requireTool(t, append([]string{"losetup", "mount"}, programs...)...)
	if _, err := os.Stat("/dev/loop-control"); err != nil {
		t.Skipf("there are no loop devices: %v", err)
	}
}

// makeImage makes an image of size bytes with the filesystem in it; it takes the
// room that it is written to.
func (k diskKind) makeImage(image string, size int64, more ...string) error {
	f, err := os.OpenFile(image, os.O_RDWR|os.O_CREATE|os.O_EXCL, 0o600)
	if err != nil {
		return err
	}
	defer f.Close()
	if err := f.Truncate(size); err != nil {
		return err
	}
	argv := append(append(k.mkfs[:len(k.mkfs):len(k.mkfs)], more...), image)
	return command(argv...)
}

// mountImage mounts the image on dir. Its loop device goes when it is unmounted,
// by whomever and however.
func (k diskKind) mountImage(image, dir string, options ...string) error {
	out, err := exec.Command("losetup", "--show", "-f", image).CombinedOutput()
	if err != nil {
		return fmt.Errorf("losetup %s: %w: %s", image, err, out)
	}
	device := strings.TrimSpace(string(out))
	defer exec.Command("losetup", "-d", device).Run()
	argv := []string{"mount", "-t", k.name}
	if k.options != "" {
		options = append(options, k.options)
	}
	if len(options) > 0 {
		argv = append(argv, "-o", strings.Join(options, ","))
	}
	return command(append(argv, device, dir)...)
}

func command(argv ...string) error {
	if out, err := exec.Command(argv[0], argv[1:]...).CombinedOutput(); err != nil {
		return fmt.Errorf("%q: %w: %s", argv, err, out)
	}
	return nil
}

// inMemoryDir is a directory of memory for images, so that what the test takes
// for its disk is fast and is nobody else's.
func inMemoryDir(t *testing.T, size int64) string {
	t.Helper()
	dir, err := os.MkdirTemp(bench.root, "disks-")
	if err != nil {
		t.Fatal(err)
	}
	if err := unix.Mount("tmpfs", dir, "tmpfs", 0, fmt.Sprintf("mode=755,size=%d", size+size/4)); err != nil {
		t.Fatal(err)
	}
	t.Cleanup(func() { unmountDisk(t, dir) })
	return dir
}

// unmountDisk unmounts dir if something is mounted there. What a killed daemon
// had open may take a moment to go.
func unmountDisk(t *testing.T, dir string) {
	t.Helper()
	if dir == "" {
		return
	}
	var err error
	for range int(patience / poll) {
		if err = unix.Unmount(dir, 0); err != unix.EBUSY {
			break
		}
		time.Sleep(poll)
	}
	if err == unix.EINVAL || err == unix.ENOENT {
		return // not mounted
	}
	if err != nil {
		t.Errorf("unmounting %s: %v", dir, err)
		unix.Unmount(dir, unix.MNT_DETACH)
	}
}
