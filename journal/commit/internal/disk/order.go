package disk

import (
	"bufio"
	"fmt"
	"os"
	"path/filepath"
	"slices"
	"strings"

	"golang.org/x/sys/unix"
)

// A filesystem with a journal (ext4 with data=ordered, XFS) keeps this order: what is
// done to names comes to the disk in the order in which it was done; where bytes were
// written back and waited for before a name was changed, their blocks and the size are
// recorded before that change or together with it; and the device has emptied its cache
// before the record counts. So one sync of the directory does for the bytes, too.
//
// Nothing is taken for granted here: a filesystem that is mounted in another way, or that
// cannot be asked, keeps no order, and each file is synced before it gets its name.

// procRoot and sysRoot are where the kernel tells how a filesystem is mounted.
const (
	procRoot = "/proc"
	sysRoot  = "/sys"
)

// order is what the data root's own filesystem does with names and bytes.
type order struct {
	dev   uint64 // its device
	known bool   // that could be asked
	kept  bool
	btrfs bool
}

// orderOf asks how the filesystem of fd, whose device is dev, is mounted.
func orderOf(fd int, dev uint64) order {
	o := order{dev: dev, known: true}
	var st unix.Statfs_t
	if unix.Fstatfs(fd, &st) != nil {
		return o
	}
	switch st.Type {
	case unix.EXT4_SUPER_MAGIC:
		o.kept = ext4KeepsOrder(dev)
	case unix.XFS_SUPER_MAGIC:
		o.kept = xfsKeepsOrder(dev)
	case unix.TMPFS_MAGIC:
		o.kept = true // nothing comes to a disk
	case unix.BTRFS_SUPER_MAGIC:
		o.btrfs = true
	}
	return o
}

// ext4KeepsOrder wants a journal on the filesystem's own device: with one on another,
// the data's device empties its cache too late.
func ext4KeepsOrder(dev uint64) bool {
	target, err := os.Readlink(fmt.Sprintf("%s/dev/block/%d:%d", sysRoot, unix.Major(dev), unix.Minor(dev)))
	if err != nil {
		return false
	}
	device := filepath.Base(target)
	const journalInode = "8" // EXT4_JOURNAL_INO
	if _, err := os.Stat(procRoot + "/fs/jbd2/" + device + "-" + journalInode); err != nil {
		return false
	}
	options, err := os.ReadFile(procRoot + "/fs/ext4/" + device + "/options")
	return err == nil && ext4OptionsKeepOrder(strings.Fields(string(options)))
}

// ext4OptionsKeepOrder judges the options of /proc/fs/ext4/DEVICE/options, which has
// the defaults, too. A fast commit (fc_debug_force) does not write whole transactions, and
// an asynchronous one writes its record before the cache is empty.
func ext4OptionsKeepOrder(options []string) bool {
	for _, bad := range []string{"journal_async_commit", "fc_debug_force", "fast_commit", "nobarrier"} {
		if slices.Contains(options, bad) {
			return false
		}
	}
	return slices.Contains(options, "data=ordered") && slices.Contains(options, "barrier")
}

// xfsKeepsOrder wants the data, its log and all else on one device.
func xfsKeepsOrder(dev uint64) bool {
	options, ok := superOptions(dev)
	if !ok {
		return false
	}
	for option := range strings.SplitSeq(options, ",") {
		name, _, _ := strings.Cut(option, "=")
		if name == "logdev" || name == "rtdev" || name == "nobarrier" {
			return false
		}
	}
	return true
}

// superOptions are the options of the filesystem on a device (proc_pid_mountinfo(5)).
func superOptions(dev uint64) (options string, ok bool) {
	f, err := os.Open(procRoot + "/self/mountinfo")
	if err != nil {
		return "", false
	}
	defer f.Close()
	id := fmt.Sprintf("%d:%d", unix.Major(dev), unix.Minor(dev))
	lines := bufio.NewScanner(f)
	for lines.Scan() {
		head, tail, _ := strings.Cut(lines.Text(), " - ")
		of, about := strings.Fields(head), strings.Fields(tail)
		if len(of) > 2 && of[2] == id && len(about) > 2 {
			return about[2], true
		}
	}
	return "", false
}

// KeepsOrder reports whether changes of names come to the disk of the device dev in their
// order, those of the journal's file with them, and a size not before the bytes that were
// written back before. In memory nothing comes to a disk.
func (s *Disk) KeepsOrder(dev uint64) bool {
	o := s.rootOrder()
	return o.kept && o.dev == dev
}

// IsOnRoot reports whether the device dev is the data root's own filesystem, and not one
// that is mounted below.
func (s *Disk) IsOnRoot(dev uint64) bool {
	o := s.rootOrder()
	return o.known && o.dev == dev
}

// ForgetsUnnamed reports whether the filesystem of fd, which is on the device dev, loses
// what was synced while it had no name.
func (s *Disk) ForgetsUnnamed(fd int, dev uint64) bool {
	if o := s.rootOrder(); o.dev == dev {
		return o.btrfs
	}
	return ForgetsUnnamed(fd)
}
