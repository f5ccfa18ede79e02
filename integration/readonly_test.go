package integration

import (
	"bytes"
	"errors"
	"fmt"
	"os"
	"path/filepath"
	"strings"
	"testing"

	"golang.org/x/sys/unix"
)

// What the policy makes read-only is changed by nobody: not under another name, which a link
// or the rename of its directory would give it, nor by a file in its place. .locks/why says by
// which rule.
func TestReadOnlyFilesStay(t *testing.T) {
	inTest(t)
	needsLatchfs(t)
	forEachMount(t, func(t *testing.T, m *Mount) {
		m.Mkdir("d")
		for name, script := range map[string]string{
			"written":         "echo new > frozen/f",
			"appended to":     "echo new >> frozen/f",
			"cut":             "truncate -s 0 frozen/f",
			"made":            "echo new > frozen/g",
			"removed":         "rm -f frozen/f",
			"renamed":         "mv frozen/f d/f",
			"replaced":        "echo new > d/t; mv -f d/t frozen/f",
			"linked":          "ln frozen/f d/f",
			"directory moved": "mv frozen d/frozen",
			"exchanged":       `python3 -c 'import ctypes, os; e = ctypes.CDLL(None, use_errno=True); r = e.renameat2(-100, b"d", -100, b"frozen", 2); print(os.strerror(ctypes.get_errno())) if r else None; raise SystemExit(r and 1)'`,
			"mode":            "chmod 600 frozen/f",
			"directory made":  "mkdir frozen/d",
		} {
			o := m.Bash(t, "export LC_ALL=C; "+script+` && exit 3; cat .locks/why`)
			if o.Code != 0 || !strings.Contains(o.Stdout, "EROFS") || !strings.Contains(o.Stdout, "readonly") || strings.Contains(o.Stdout, "error of the disk") {
				t.Errorf("%s: %+v", name, o)
			}
		}
		if got := m.Bash(t, "cat frozen/f; ls -A frozen d").Stdout; got != "old\nd:\nt\n\nfrozen:\nf\n" {
			t.Errorf("there is %q", got)
		}
	}, withPolicy("[[rule]]\nglob = \"frozen/**\"\nmode = \"readonly\"\n"), withSeed(func(data string) error {
		if err := os.Mkdir(filepath.Join(data, "frozen"), 0o755); err != nil {
			return err
		}
		return os.WriteFile(filepath.Join(data, "frozen/f"), []byte("old\n"), 0o644)
	}))
}

// What a read-only filesystem below refuses is in .locks/why, once: the program was told no more
// than that.
func TestWhyOfAReadOnlyFilesystem(t *testing.T) {
	needsRoot(t)
	needsLatchfs(t)
	m := mount(t, withSeed(func(data string) error {
		if err := errors.Join(os.MkdirAll(filepath.Join(data, "sub", "d"), 0o755), os.WriteFile(filepath.Join(data, "sub", "f"), nil, 0o644)); err != nil {
			return err
		}
		sub := filepath.Join(data, "sub")
		if err := unix.Mount(sub, sub, "", unix.MS_BIND, ""); err != nil {
			return err
		}
		return unix.Mount("", sub, "", unix.MS_REMOUNT|unix.MS_BIND|unix.MS_RDONLY, "")
	}))
	t.Cleanup(func() { unix.Unmount(filepath.Join(m.Data, "sub"), unix.MNT_DETACH) })
	for op, script := range map[string]string{
		"create sub/new": "echo x > sub/new", "unlink sub/f": "rm -f sub/f", "rename sub/f": "mv sub/f sub/g", "mkdir sub/e": "mkdir sub/e",
		"rmdir sub/d": "rmdir sub/d", "setattr sub/f": "chmod 600 sub/f", "link sub/g": "ln sub/f sub/g", "symlink sub/l": "ln -s f sub/l",
		"mknod sub/p": "mkfifo sub/p", "setxattr sub/f": `python3 -c 'import os; os.setxattr("sub/f", "user.x", b"x")'`,
	} {
		o := m.Bash(t, script+` 2>/dev/null && exit 3; cat .locks/why`)
		if o.Code != 0 || strings.Count(o.Stdout, op+": EROFS (process ") != 1 || !strings.Contains(o.Stdout, "The filesystem that has the data is read-only there") {
			t.Errorf("%s: %+v", script, o)
		}
	}
}

// A disk that an error has made read-only refuses each open to write by that errno, also where
// the kernel would pass what is written through: it has nothing but EIO for an open that fails then.
func TestOpensOnADiskThatHasBecomeReadOnly(t *testing.T) {
	needsLatchfs(t)
	const script = `
import os
for what, name, flags in (
    ("appended to", "log", os.O_WRONLY | os.O_APPEND), ("saved", "log", os.O_RDWR), ("cut", "log", os.O_WRONLY | os.O_TRUNC),
    ("live", "t.db", os.O_RDWR), ("cut live", "t.db", os.O_WRONLY | os.O_TRUNC), ("appended to live", "t.db", os.O_WRONLY | os.O_APPEND),
):
    try: os.close(os.open(name, flags))
    except OSError as e: print(what, e.strerror)
    else: print(what, "done")
print(open("log").read() + open("t.db").read(), end="")
print(open(".locks/why").read().count("is read-only there"))
`
	needsDisks(t, "mkfs.ext4")
	m := mount(t, onDiskImage(t, diskKinds[0], diskKinds[0].least, "errors=remount-ro"), errorsInLog(), noLastWords())
	for name, content := range map[string]string{"log": "logged\n", "t.db": "stored\n"} { // and the daemon has nothing there
		if err := os.WriteFile(filepath.Join(m.Data, name), []byte(content), 0o644); err != nil {
			t.Fatal(err)
		}
	}
	makeReadOnly(t, m)
	mustSee(t, "on a read-only disk", m.Python(t, script), "appended to Read-only file system\nsaved Read-only file system\n"+
		"cut Read-only file system\nlive Read-only file system\ncut live Read-only file system\nappended to live Read-only file system\nlogged\nstored\n6\n")
}

// makeReadOnly lets the kernel find an error on the mount's disk, an ext4.
func makeReadOnly(t *testing.T, m *Mount) {
	t.Helper()
	syncDisk(t, m)
	var st unix.Stat_t
	if err := unix.Stat(m.Data, &st); err != nil {
		t.Fatal(err)
	}
	uevent, err := os.ReadFile(fmt.Sprintf("/sys/dev/block/%d:%d/uevent", unix.Major(st.Dev), unix.Minor(st.Dev)))
	if err != nil {
		t.Fatal(err)
	}
	_, device, _ := bytes.Cut(uevent, []byte("DEVNAME="))
	device, _, _ = bytes.Cut(device, []byte("\n"))
	trigger := "/sys/fs/ext4/" + string(device) + "/trigger_fs_error"
	if err := os.WriteFile(trigger, []byte("1"), 0); os.IsNotExist(err) {
		t.Skipf("the kernel has no %s", trigger)
	} else if err != nil {
		t.Fatal(err)
	}
}
