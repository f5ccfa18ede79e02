package integration

import (
	"bytes"
	"errors"
	"fmt"
	"io/fs"
	"os"
	"os/exec"
	"path/filepath"
	"strings"
	"testing"

	"golang.org/x/sys/unix"
)

// submount mounts a tmpfs at sub in the data, for the time of the test, with a setuid
// program of root's, one with a capability, and a device that everybody may open.
func submount(t *testing.T, data string, flags uintptr) (sub string) {
	t.Helper()
	sub = filepath.Join(data, "sub")
	if err := os.Mkdir(sub, 0o755); err != nil && !errors.Is(err, fs.ErrExist) {
		t.Fatal(err)
	}
	if err := unix.Mount("tmpfs", sub, "tmpfs", 0, "mode=755,size=16m"); err != nil {
		t.Fatal(err)
	}
	t.Cleanup(func() { unix.Unmount(sub, unix.MNT_DETACH) })
	id, err := exec.LookPath("id")
	if err != nil {
		t.Fatal(err)
	}
	program, err := os.ReadFile(id)
	if err != nil {
		t.Fatal(err)
	}
	for name, mode := range map[string]uint32{"id": 0o6755, "capable": 0o755} {
		if err := os.WriteFile(filepath.Join(sub, name), program, 0o755); err != nil {
			t.Fatal(err)
		}
		if err := unix.Chmod(filepath.Join(sub, name), mode); err != nil {
			t.Fatal(err)
		}
	}
	if err := unix.Setxattr(filepath.Join(sub, "capable"), "security.capability", capNetRaw, 0); err != nil {
		t.Fatal(err)
	}
	zero := filepath.Join(sub, "zero")
	if err := errors.Join(unix.Mknod(zero, unix.S_IFCHR|0o666, int(unix.Mkdev(1, 5))), unix.Chmod(zero, 0o666)); err != nil {
		t.Fatal(err)
	}
	if err := unix.Mount("", sub, "", unix.MS_REMOUNT|unix.MS_BIND|flags, ""); err != nil {
		t.Fatal(err)
	}
	return sub
}

// What a filesystem mounted inside the data directory forbids stays forbidden through
// the mount; what it allows stays allowed.
func TestFlagsOfMountsBelow(t *testing.T) {
	for _, c := range []struct {
		name                  string
		flags                 uintptr
		suid, device, execute bool
	}{
		{"allowed", 0, true, true, true},
		{"nosuid,nodev", unix.MS_NOSUID | unix.MS_NODEV, false, false, true},
		{"noexec", unix.MS_NOEXEC, true, true, false},
	} {
		t.Run(c.name, func(t *testing.T) {
			for _, passthrough := range []mountOption{func(*mountOptions) {}, noPassthrough()} {
				testFlagsBelow(t, mount(t, passthrough), c.flags, c.suid, c.device, c.execute)
			}
		})
	}
}

func testFlagsBelow(t *testing.T, m *Mount, flags uintptr, suid, device, execute bool) {
	t.Helper()
	sub := submount(t, m.Data, flags)
	defer unix.Unmount(sub, unix.MNT_DETACH)
	for _, name := range []string{"id", "capable"} {
		out, err := m.runAs(t, ordinaryUID, filepath.Join(m.Dir, "sub", name), "-u")
		euid := strings.TrimSpace(out)
		switch {
		case !execute:
			if err == nil {
				t.Errorf("%s: %s was run below noexec", m.Name, name)
			}
		case err != nil:
			t.Errorf("%s: %s: %v", m.Name, name, err)
		case name == "id" && (euid == "0") != suid:
			t.Errorf("%s: the setuid program runs as %s", m.Name, euid)
		}
	}
	read := fmt.Sprintf("open(%q,'rb').read(1)", filepath.Join(m.Dir, "sub", "zero"))
	if _, err := m.runAs(t, ordinaryUID, bench.python, "-c", read); (err == nil) != device {
		t.Errorf("%s: a device is opened: %v", m.Name, err)
	}
	_, err := unix.Getxattr(filepath.Join(m.Dir, "sub", "capable"), "security.capability", make([]byte, 64))
	if (err == nil) != suid {
		t.Errorf("%s: the capability of a program: %v", m.Name, err)
	}
	// statx(2) for the time of birth is a request of its own.
	var st unix.Statx_t
	if err := unix.Statx(unix.AT_FDCWD, filepath.Join(m.Dir, "sub", "id"), 0, unix.STATX_BASIC_STATS|unix.STATX_BTIME, &st); err != nil {
		t.Error(err)
	} else if (st.Mode&unix.S_ISUID != 0) != suid {
		t.Errorf("%s: statx says %04o", m.Name, st.Mode)
	}
}

// Whoever opens a file to write it hears that it is below a read-only mount: a shell does not
// look at what a close says.
func TestReadOnlyMountBelow(t *testing.T) {
	for _, passthrough := range []mountOption{func(*mountOptions) {}, noPassthrough()} {
		m := mount(t, passthrough)
		needsRoot(t)
		sub := submount(t, m.Data, unix.MS_RDONLY)
		defer unix.Unmount(sub, unix.MNT_DETACH)
		for _, write := range []string{"echo x > sub/id", "echo x >> sub/id", "echo x 1<> sub/id", "truncate -s 0 sub/id", "echo x > sub/new", "dd if=/dev/null of=sub/id status=none"} {
			if o := m.Bash(t, write); o.Code == 0 || !strings.Contains(o.Stderr, "Read-only file system") {
				t.Errorf("%s: %s: %d, %s", m.Name, write, o.Code, o.Stderr)
			}
		}
		if o := m.Bash(t, `cmp sub/id "$(command -v id)"; ls .locks/rejected 2>/dev/null; echo x > beside`); o.Code != 0 || o.Stdout != "" {
			t.Errorf("%s: afterwards: %s%s", m.Name, o.Stdout, o.Stderr)
		}
		if err := unix.Mount("", sub, "", unix.MS_REMOUNT|unix.MS_BIND, ""); err != nil {
			t.Fatal(err)
		}
		if o := m.Bash(t, "echo x > sub/id && cat sub/id"); o.Stdout != "x\n" {
			t.Errorf("%s: when it may be written: %s%s", m.Name, o.Stdout, o.Stderr)
		}
	}
}

// A filesystem that is mounted more strictly while its files are in use is asked anew.
func TestRemountBelow(t *testing.T) {
	m := mount(t)
	needsRoot(t)
	sub := submount(t, m.Data, 0)
	defer unix.Unmount(sub, unix.MNT_DETACH)
	run := func() string {
		out, err := m.runAs(t, ordinaryUID, filepath.Join(m.Dir, "sub", "id"), "-u")
		if err != nil {
			t.Fatal(err)
		}
		return strings.TrimSpace(out)
	}
	if got := run(); got != "0" {
		t.Fatalf("the setuid program runs as %s", got)
	}
	if err := unix.Mount("", sub, "", unix.MS_REMOUNT|unix.MS_BIND|unix.MS_NOSUID, ""); err != nil {
		t.Fatal(err)
	}
	eventually(t, "the setuid program has lost its user", func() bool { return run() != "0" })
}

// A write by somebody who may write to a setuid file takes the bits away below nosuid,
// too, where they do not count.
func TestWriteBelowNosuidDropsBits(t *testing.T) {
	needsRoot(t)
	for _, policy := range []string{"", "[[rule]]\nglob = \"**\"\nmode = \"live\"\n"} {
		for _, passthrough := range []mountOption{func(*mountOptions) {}, noPassthrough()} {
			m := mount(t, passthrough, withPolicy(policy))
			sub := submount(t, m.Data, unix.MS_NOSUID)
			file := filepath.Join(sub, "id")
			if err := unix.Chmod(file, 0o6777); err != nil {
				t.Fatal(err)
			}
			const script = "import os,sys; f=os.open(sys.argv[1],os.O_RDWR); os.pwrite(f,b'x',0); os.close(f)"
			if out, err := m.runAs(t, ordinaryUID, bench.python, "-c", script, filepath.Join(m.Dir, "sub", "id")); err != nil {
				t.Fatalf("%v: %s", err, out)
			}
			var st unix.Stat_t
			if err := unix.Stat(file, &st); err != nil || st.Mode&(unix.S_ISUID|unix.S_ISGID) != 0 {
				t.Errorf("%s, %q: the file has mode %04o, %v", m.Name, policy, st.Mode&0o7777, err)
			}
			if b, err := os.ReadFile(file); err != nil || !bytes.HasPrefix(b, []byte("xELF")) {
				t.Errorf("it begins with %q, %v", b[:4], err)
			}
			unix.Unmount(sub, unix.MNT_DETACH)
		}
	}
}
