package fs

import (
	"errors"
	"fmt"
	"io"
	"os"
	"os/exec"
	"path/filepath"
	"runtime"
	"syscall"
	"testing"

	"golang.org/x/sys/unix"
)

// The disk of a simulation whose power fails: an image on a loop device.

// simDisk is that disk. Simulations take turns with it, each in a directory of its own.
type simDisk struct {
	simDiskKind
	dir   string // of the images
	image string
	cuts  int
}

// simDiskKind is a filesystem. Nothing is written to it but what somebody syncs: the journal
// waits for an hour, and a rename over a file is no reason to write the new one.
type simDiskKind struct {
	name    string
	mkfs    []string
	size    int64 // bytes
	options string
}

var simDiskKinds = []simDiskKind{
	{"ext4", []string{"-q", "-b", "4096", "-J", "size=4"}, 64 << 20, "noauto_da_alloc,noinit_itable,commit=3600"},
	{"xfs", []string{"-q"}, 320 << 20, "nouuid"}, // the old mount is there still
}

// newSimDisk makes a disk, or says what is missing.
func newSimDisk(t testing.TB, kind simDiskKind) *simDisk {
	t.Helper()
	if os.Geteuid() != 0 {
		t.Skip("only root can mount a disk whose power fails")
	}
	d := &simDisk{simDiskKind: kind, dir: simBase(t)}
	d.image = d.dir + "/image"
	err := errors.Join(os.WriteFile(d.image, nil, 0o600), os.Truncate(d.image, d.size), os.Mkdir(d.root(), 0o755))
	if err != nil {
		t.Fatal(err)
	}
	if out, err := exec.Command("mkfs."+d.name, append(d.mkfs, d.image)...).CombinedOutput(); err != nil {
		t.Fatalf("mkfs.%s: %v: %s", d.name, err, out)
	}
	if err := d.boot(); errors.Is(err, unix.ENODEV) || errors.Is(err, os.ErrNotExist) {
		t.Skipf("the kernel lacks %s or loop devices: %v", d.name, err)
	} else if err != nil {
		t.Fatal(err)
	}
	t.Cleanup(func() { _ = unix.Unmount(d.root(), unix.MNT_DETACH) })
	return d
}

// root is where the disk is mounted.
func (d *simDisk) root() string { return d.dir + "/root" }

// boot mounts what the disk holds.
func (d *simDisk) boot() error {
	image, err := os.OpenFile(d.image, os.O_RDWR, 0)
	if err != nil {
		return err
	}
	defer image.Close()
	loop, err := loopDevice(int(image.Fd()))
	if err != nil {
		return err
	}
	defer loop.Close()
	return os.NewSyscallError("mount", unix.Mount(loop.Name(), d.root(), d.name, 0, d.options))
}

// loopDevice is a loop device for an image, which goes with its last user.
func loopDevice(image int) (*os.File, error) {
	control, err := os.OpenFile("/dev/loop-control", os.O_RDWR, 0)
	if err != nil {
		return nil, err
	}
	defer control.Close()
	for {
		n, err := unix.IoctlRetInt(int(control.Fd()), unix.LOOP_CTL_GET_FREE)
		if err != nil {
			return nil, os.NewSyscallError("LOOP_CTL_GET_FREE", err)
		}
		loop, err := os.OpenFile(fmt.Sprintf("/dev/loop%d", n), os.O_RDWR, 0)
		if err != nil {
			return nil, err
		}
		err = unix.IoctlLoopConfigure(int(loop.Fd()), &unix.LoopConfig{Fd: uint32(image), Info: unix.LoopInfo64{Flags: unix.LO_FLAGS_AUTOCLEAR}})
		if err == nil {
			return loop, nil
		}
		loop.Close()
		if err != unix.EBUSY { // somebody else was faster
			return nil, os.NewSyscallError("LOOP_CONFIGURE", err)
		}
	}
}

// fail cuts the power: nothing more comes to the disk, and what was not written is lost
// (EXT4_IOC_SHUTDOWN and XFS_IOC_GOINGDOWN, without a last write of the journal).
func (d *simDisk) fail() error {
	root, err := os.Open(d.root())
	if err != nil {
		return err
	}
	defer root.Close()
	const shutdown, noLogFlush = 0x8004587d, 2
	return os.NewSyscallError("the shutdown", unix.IoctlSetPointerInt(int(root.Fd()), shutdown, noLogFlush))
}

// reboot mounts the disk after its power has failed. What is open of the old mount leads to an
// image of its own from now on.
func (d *simDisk) reboot() error {
	d.cuts++
	old, err := os.Open(d.image)
	if err != nil {
		return err
	}
	defer old.Close()
	d.image = fmt.Sprintf("%s/image-%d", d.dir, d.cuts)
	if err := copyData(d.image, old); err != nil {
		return err
	}
	if err := errors.Join(os.Remove(old.Name()), unix.Unmount(d.root(), unix.MNT_DETACH)); err != nil {
		return err
	}
	return d.boot()
}

// copyData copies a file without what was never written of it.
func copyData(path string, from *os.File) error {
	to, err := os.OpenFile(path, os.O_WRONLY|os.O_CREATE|os.O_EXCL, 0o600)
	if err != nil {
		return err
	}
	defer to.Close()
	end, err := from.Seek(0, io.SeekEnd)
	if err != nil {
		return err
	}
	for hole := int64(0); ; {
		data, err := unix.Seek(int(from.Fd()), hole, unix.SEEK_DATA)
		if err == unix.ENXIO {
			return to.Truncate(end)
		}
		if err != nil {
			return err
		}
		if hole, err = unix.Seek(int(from.Fd()), data, unix.SEEK_HOLE); err != nil {
			return err
		}
		if _, err := io.Copy(io.NewOffsetWriter(to, data), io.NewSectionReader(from, data, hole-data)); err != nil {
			return err
		}
	}
}

// othersSync lets somebody who has to do with none of this sync a file: the names are on the
// disk as they are then, and of the bytes those that were written out.
func (d *simDisk) othersSync() error {
	f, err := os.OpenFile(filepath.Join(d.root(), "others"), os.O_WRONLY|os.O_CREATE|os.O_APPEND, 0o600)
	if err != nil {
		return err
	}
	defer f.Close()
	if _, err := f.WriteString("x"); err != nil {
		return err
	}
	return f.Sync()
}

// sync writes all to the disk.
func (d *simDisk) sync() error {
	root, err := os.Open(d.root())
	if err != nil {
		return err
	}
	defer root.Close()
	return os.NewSyscallError("syncfs", unix.Syncfs(int(root.Fd())))
}

// The disk loses what was not synced, the bytes of a file whose name was written among it,
// and nothing else.
func TestSimDisk(t *testing.T) {
	for _, kind := range simDiskKinds {
		t.Run(kind.name, func(t *testing.T) { losesWhatIsNotSynced(t, newSimDisk(t, kind)) })
	}
}

func losesWhatIsNotSynced(t *testing.T, d *simDisk) {
	check := func(err error) {
		t.Helper()
		if err != nil {
			t.Fatal(err)
		}
	}
	for range 2 {
		for _, name := range []string{"synced", "named", "not"} {
			f, err := os.Create(filepath.Join(d.root(), name))
			check(err)
			_, err = f.WriteString("content")
			check(err)
			switch name {
			case "synced":
				check(f.Sync())
			case "named":
				check(d.othersSync())
			}
			check(f.Close())
		}
		check(d.fail())
		if err := os.Mkdir(d.root()+"/late", 0o755); !errors.Is(err, unix.EIO) {
			t.Fatalf("something is done after the power has failed: %v", err)
		}
		check(d.reboot())
		for name, want := range map[string]string{"synced": "content", "named": ""} {
			if b, err := os.ReadFile(filepath.Join(d.root(), name)); err != nil || string(b) != want {
				t.Errorf("%s is %q, %v", name, b, err)
			}
		}
		if _, err := os.Lstat(filepath.Join(d.root(), "not")); !errors.Is(err, os.ErrNotExist) {
			t.Errorf("a name that nobody has synced is there: %v", err)
		}
		check(os.Remove(d.root() + "/named"))
	}
}

func TestMain(m *testing.M) {
	if os.Geteuid() == 0 && os.Getenv("LATCHFS_TEST_NAMESPACE") == "" {
		os.Exit(inNamespace())
	}
	os.Exit(m.Run())
}

// inNamespace runs the tests in a mount namespace of their own: whatever becomes of them, no
// mount is left.
func inNamespace() int {
	runtime.LockOSThread() // Pdeathsig is about the thread
	cmd := exec.Command("/proc/self/exe", os.Args[1:]...)
	cmd.Env = append(os.Environ(), "LATCHFS_TEST_NAMESPACE=1")
	cmd.Stdin, cmd.Stdout, cmd.Stderr = os.Stdin, os.Stdout, os.Stderr
	cmd.SysProcAttr = &syscall.SysProcAttr{Unshareflags: syscall.CLONE_NEWNS, Pdeathsig: syscall.SIGKILL}
	if err := cmd.Run(); err != nil {
		fmt.Fprintln(os.Stderr, err)
		return max(1, cmd.ProcessState.ExitCode())
	}
	return 0
}
