package integration

import (
	"bytes"
	"errors"
	"fmt"
	"os"
	"os/exec"
	"path/filepath"
	"strings"
	"syscall"
	"testing"
	"time"

	"golang.org/x/sys/unix"
)

// TestMountHelper: mount(8) and an fstab line mount and unmount, by way of the
// helpers that `make install` links, put into the tests' own /sbin.
func TestMountHelper(t *testing.T) {
	inTest(t)
	data, mnt := newDirs(t)
	installHelpers(t)
	fstab := filepath.Join(filepath.Dir(data), "fstab")
	if err := os.WriteFile(fstab, fmt.Appendf(nil, "%s %s fuse.latchfs noauto,lock-timeout=2s,nodev 0 0\n", data, mnt), 0o644); err != nil {
		t.Fatal(err)
	}
	for _, c := range []struct {
		name     string
		args     []string
		readOnly bool
	}{
		{"fuse.latchfs", []string{"-t", "fuse.latchfs", data, mnt}, false},
		{"latchfs", []string{"-t", "latchfs", data, mnt}, false},
		{"read-only", []string{"-t", "fuse.latchfs", "-o", "ro,noexec", data, mnt}, true},
		{"options", []string{"-t", "fuse.latchfs", "-o", "lock-timeout=1s,durability=ordered,allow_other", data, mnt}, false},
		{"fstab", []string{"-T", fstab, mnt}, false},
	} {
		t.Run(c.name, func(t *testing.T) {
			if o := finish(t, exec.Command("mount", c.args...)); o.Code != 0 {
				t.Fatalf("mount: %+v", o)
			}
			if _, err := os.ReadFile(filepath.Join(mnt, ".locks", "README")); err != nil {
				t.Error(err)
			}
			err := os.WriteFile(filepath.Join(mnt, "f"), []byte(c.name), 0o644)
			if c.readOnly != errors.Is(err, unix.EROFS) || !c.readOnly && err != nil {
				t.Errorf("write: %v", err)
			}
			if o := finish(t, exec.Command("umount", mnt)); o.Code != 0 || isMounted(mnt) {
				t.Errorf("umount: %+v", o)
			}
			eventually(t, "the daemon ends", func() bool { return daemonOf(t, data) == 0 })
		})
	}
	if o := finish(t, exec.Command("mount", "-t", "fuse.latchfs", "-o", "no-such-option", data, mnt)); o.Code == 0 || !strings.Contains(o.Stderr, "no-such-option") {
		t.Errorf("an unknown option: %+v", o)
	}
}

// installHelpers puts the helpers into /usr/sbin as this process sees it, which
// is not as the machine sees it: TestMain gave us a mount namespace.
func installHelpers(t *testing.T) {
	t.Helper()
	upper, err := os.MkdirTemp(bench.root, "sbin-")
	if err != nil {
		t.Fatal(err)
	}
	layers := filepath.Join(upper, "layers")
	if err := os.Mkdir(layers, 0o755); err != nil {
		t.Fatal(err)
	}
	if err := unix.Mount("tmpfs", layers, "tmpfs", 0, "mode=755"); err != nil {
		t.Fatal(err)
	}
	t.Cleanup(func() { unix.Unmount(layers, unix.MNT_DETACH) })
	for _, dir := range []string{"upper", "work"} {
		if err := os.Mkdir(filepath.Join(layers, dir), 0o755); err != nil {
			t.Fatal(err)
		}
	}
	options := fmt.Sprintf("lowerdir=/usr/sbin,upperdir=%s/upper,workdir=%s/work", layers, layers)
	err = unix.Mount("overlay", "/usr/sbin", "overlay", 0, options)
	if errors.Is(err, unix.ENODEV) {
		t.Skip("this kernel has no overlayfs, so /usr/sbin cannot be tried out")
	}
	if err != nil {
		t.Fatal(err)
	}
	t.Cleanup(func() { unix.Unmount("/usr/sbin", unix.MNT_DETACH) })
	for _, name := range []string{"mount.latchfs", "mount.fuse.latchfs"} {
		link := filepath.Join("/usr/sbin", name)
		if err := os.Remove(link); err != nil && !errors.Is(err, os.ErrNotExist) {
			t.Fatal(err)
		}
		if err := os.Symlink(bench.binary, link); err != nil {
			t.Fatal(err)
		}
	}
}

// TestMakeRun: `make run` prints where it is mounted, and Ctrl-C in its terminal
// ends it and the mount.
func TestMakeRun(t *testing.T) {
	inTest(t)
	needsLatchfs(t)
	needsRoot(t)
	requireTool(t, "make")
	copied, err := os.MkdirTemp(bench.root, "run-")
	if err != nil {
		t.Fatal(err)
	}
	const copySources = `set -o pipefail
tar -C .. --exclude=./{.git,.tools,bin,data,integration} -cf - . | tar -C "$0" -xf -`
	if out, err := exec.Command("bash", "-c", copySources, copied).CombinedOutput(); err != nil {
		t.Fatalf("copying the sources: %v\n%s", err, out)
	}
	data := filepath.Join(copied, "data")
	t.Cleanup(func() { unix.Unmount(data, unix.MNT_DETACH) })

	cmd := exec.Command("make", "run")
	cmd.Dir = copied
	cmd.SysProcAttr = &syscall.SysProcAttr{Setpgid: true}
	out := &lockedBuffer{}
	cmd.Stdout, cmd.Stderr = out, out
	if err := cmd.Start(); err != nil {
		t.Fatal(err)
	}
	ended := make(chan error, 1)
	go func() { ended <- cmd.Wait() }()
	defer syscall.Kill(-cmd.Process.Pid, syscall.SIGKILL)
	within(t, 3*time.Minute, "make run mounts", func() bool {
		select {
		case err := <-ended:
			t.Fatalf("make run ended: %v\n%s", err, out)
		default:
		}
		return isMounted(data) && strings.Contains(out.String(), "is mounted at")
	})
	if err := os.WriteFile(filepath.Join(data, "f"), []byte("content"), 0o644); err != nil {
		t.Error(err)
	}
	if !strings.Contains(out.String(), copied) {
		t.Errorf("it does not say where it is mounted:\n%s", out)
	}
	// The terminal sends SIGINT to every process of the foreground group.
	if err := syscall.Kill(-cmd.Process.Pid, syscall.SIGINT); err != nil {
		t.Fatal(err)
	}
	select {
	case <-ended:
	case <-time.After(patience):
		t.Fatalf("make run does not end\n%s", out)
	}
	if isMounted(data) {
		t.Error("the mount is still there")
	}
	if err := syscall.Kill(-cmd.Process.Pid, 0); !errors.Is(err, syscall.ESRCH) {
		t.Errorf("a process of make run is still there: %v", err)
	}
	if b, err := os.ReadFile(filepath.Join(data, "f")); string(b) != "content" {
		t.Errorf("the data directory has %q, %v", b, err)
	}
	if bytes.Contains([]byte(out.String()), []byte("rror")) {
		t.Errorf("it complains:\n%s", out)
	}
}
