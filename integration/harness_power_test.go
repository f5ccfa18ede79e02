package integration

import (
	"fmt"
	"os"
	"path/filepath"
	"testing"

	"golang.org/x/sys/unix"
)

// powerDisk is a disk that can lose its power: an image file on another filesystem that can clone files: a clone made at some moment holds
// what the filesystem on the disk had written by then, and not what it only had
// in memory.
type powerDisk struct {
	kind  diskKind
	shelf string // where the image lies
	where string // where the disk is mounted
	cuts  int
}

const diskSize = 512 << 20

// newPowerDisk skips the test where the disk cannot be made.
func newPowerDisk(t *testing.T, kind diskKind) *powerDisk {
	t.Helper()
	needsDisks(t, kind.mkfs[0], "mkfs.xfs")
	outer := diskKind{name: "xfs", mkfs: []string{"mkfs.xfs", "-q", "-f", "-m", "reflink=1"}}
	const size = 4 * diskSize
	memory := inMemoryDir(t, size)
	d := &powerDisk{kind: kind, shelf: filepath.Join(memory, "shelf")}
	if err := os.Mkdir(d.shelf, 0o755); err != nil {
		t.Fatal(err)
	}
	image := filepath.Join(memory, "outer")
	if err := outer.makeImage(image, size); err != nil {
		t.Fatal(err)
	}
	if err := outer.mountImage(image, d.shelf); err != nil {
		t.Fatal(err)
	}
	t.Cleanup(func() { unmountDisk(t, d.shelf) })
	if err := kind.makeImage(d.image(), diskSize); err != nil {
		t.Fatal(err)
	}
	t.Cleanup(func() { unmountDisk(t, d.where) })
	return d
}

// image is the file of the disk as it is since the last cut.
func (d *powerDisk) image() string { return filepath.Join(d.shelf, fmt.Sprint("disk-", d.cuts)) }

// boot mounts the disk on dir.
func (d *powerDisk) boot(dir string) error {
	d.where = dir
	return d.kind.mountImage(d.image(), dir)
}

// snapshot makes the disk as it is at this moment the one that the next boot
// mounts.
func (d *powerDisk) snapshot() error {
	now, err := os.Open(d.image())
	if err != nil {
		return err
	}
	defer now.Close()
	d.cuts++
	next, err := os.OpenFile(d.image(), os.O_RDWR|os.O_CREATE|os.O_EXCL, 0o600)
	if err != nil {
		return err
	}
	defer next.Close()
	return unix.IoctlFileClone(int(next.Fd()), int(now.Fd()))
}

// restart puts the disk of the last snapshot in the place of the running one,
// which nobody uses any more.
func (d *powerDisk) restart(t *testing.T) {
	t.Helper()
	unmountDisk(t, d.where)
	if err := os.Remove(filepath.Join(d.shelf, fmt.Sprint("disk-", d.cuts-1))); err != nil {
		t.Fatal(err)
	}
	if err := d.boot(d.where); err != nil {
		t.Fatalf("after the power cut: %v", err)
	}
}
