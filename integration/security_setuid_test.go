package integration

import (
	"os"
	"path/filepath"
	"testing"

	"golang.org/x/sys/unix"
)

// Whatever way somebody writes another's setuid file, the bits are gone when what was
// written is there, in the data and for whoever looks, or runs it, through the mount.
func TestWritesTakeSetuid(t *testing.T) {
	ways := map[string]string{
		"append":        `fd = os.open(f, os.O_WRONLY | os.O_APPEND); os.write(fd, b"line\n"); seen(fd); os.close(fd)`,
		"append piece":  `fd = os.open(f, os.O_WRONLY | os.O_APPEND); os.write(fd, b"piece"); os.fsync(fd); seen(fd); os.close(fd)`,
		"append closed": `fd = os.open(f, os.O_WRONLY | os.O_APPEND); os.write(fd, b"piece"); os.close(fd)`,
		"append read":   `fd = os.open(f, os.O_RDWR | os.O_APPEND); os.write(fd, b"line\n"); seen(fd); os.close(fd)`,
		"append cut":    `fd = os.open(f, os.O_WRONLY | os.O_APPEND); os.ftruncate(fd, 1); seen(fd); os.close(fd)`,
		"write":         `fd = os.open(f, os.O_WRONLY); os.write(fd, b"line\n"); os.close(fd)`,
		"update":        `fd = os.open(f, os.O_RDWR); os.pread(fd, 5, 0); os.pwrite(fd, b"x", 1); os.close(fd)`,
		"rewrite":       `fd = os.open(f, os.O_WRONLY | os.O_TRUNC); os.write(fd, b"line\n"); os.close(fd)`,
		"truncate":      `os.truncate(f, 2)`,
		"ftruncate":     `fd = os.open(f, os.O_WRONLY); os.ftruncate(fd, 2); os.close(fd)`,
		"direct":        `fd = os.open(f, os.O_WRONLY | os.O_DIRECT); m = mmap.mmap(-1, 4096); os.writev(fd, [m]); os.close(fd)`,
		"two appenders": `a, b = os.open(f, os.O_WRONLY | os.O_APPEND), os.open(f, os.O_WRONLY | os.O_APPEND); os.write(a, b"1\n"); os.write(b, b"2\n"); seen(b); os.close(a); os.close(b)`,
	}
	forBothRootMounts(t, func(t *testing.T, m *Mount) {
		for way, script := range ways {
			for _, name := range []string{"bob/alices", "bob/alices.live"} {
				path := filepath.Join(m.Data, name)
				if err := os.WriteFile(path, []byte("#!/bin/true\n"), 0o600); err != nil {
					t.Fatal(err)
				}
				if err := os.Chown(path, aliceUID, aliceUID); err != nil {
					t.Fatal(err)
				}
				if err := unix.Chmod(path, 0o6777); err != nil {
					t.Fatal(err)
				}
				before, err := os.Stat(m.Path(name)) // the kernel remembers
				if err != nil {
					t.Fatal(err)
				}
				if before.Mode()&os.ModeSetuid == 0 {
					t.Fatalf("%s is %v before the write", name, before.Mode())
				}
				bob := m.LaunchPython(t, bobScript(`
import mmap
f = sys.argv[1]
def seen(fd):
    got = ctypes.create_string_buffer(256)
    if libc.statx(-100, f.encode(), 0, 2, got) != 0: # STATX_MODE
        sys.exit("statx fails")
    if int.from_bytes(got[28:30], "little") & 0o6000:
        sys.exit("the writer sees the bits")
`+script), m.Path(name), "").Wait()
				if bob.Code != 0 {
					t.Errorf("%s of %s: %s", way, name, bob.Stderr)
				}
				for _, where := range []string{m.Path(name), path} {
					// Whoever runs a program asks for nothing but the mode.
					var after unix.Statx_t
					err := unix.Statx(unix.AT_FDCWD, where, 0, unix.STATX_MODE, &after)
					if err != nil || after.Mode&(unix.S_ISUID|unix.S_ISGID) != 0 {
						t.Errorf("%s: %s has mode %o after the write (%v)", way, where, after.Mode, err)
					}
				}
				if err := os.Remove(m.Path(name)); err != nil {
					t.Fatal(err)
				}
			}
		}
	}, func(*testing.T) []mountOption {
		return []mountOption{withPolicy("[defaults]\nlost-update = \"off\"\n[[rule]]\nglob = \"**/*.live\"\nmode = \"live\"\n")}
	})
}
