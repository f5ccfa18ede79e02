package integration

import (
	"os"
	"path/filepath"
	"testing"

	"golang.org/x/sys/unix"
)

// The space that a filesystem keeps for root is not filled by what ordinary users
// write through the mount, however they write, and root may still fill it.
func TestRootsReserve(t *testing.T) {
	needsDisks(t, "mkfs.ext4")
	const size, left = 640 << 20, 8 << 20
	forBothRootMounts(t, func(t *testing.T, m *Mount) {
		script := bobScript(`
import fcntl
held = {how: os.open(f"{D}/{how}", os.O_CREAT | os.O_RDWR | (os.O_APPEND if how == "append" else 0), 0o644)
        for how in ("write", "append", "fallocate")}
for fd in held.values():
    os.write(fd, b"open\n")
print("open", flush=True)
sys.stdin.readline()
line = b"x" * 65535 + b"\n"
for how, fd in held.items():
    os.lseek(fd, 0, os.SEEK_END)
    try:
        while True:
            if how == "fallocate":
                os.posix_fallocate(fd, os.fstat(fd).st_size, len(line))
            else:
                os.write(fd, line)
    except OSError as e:
        if e.errno != errno.ENOSPC:
            raise
for fd in held.values():
    try:
        os.close(fd)
    except OSError as e:
        if e.errno != errno.ENOSPC:
            raise
print("full", flush=True)
sys.stdin.readline()
`)
		bob := m.LaunchPython(t, script, m.Path("bob"), filepath.Join(m.Data, "bob"))
		bob.AwaitOutput("open")
		var st unix.Statfs_t
		if err := unix.Statfs(m.Data, &st); err != nil {
			t.Fatal(err)
		}
		reserve := int64(st.Bfree-st.Bavail) * int64(st.Bsize)
		if reserve < 2*left {
			t.Fatalf("only %d bytes are reserved: the test tests nothing", reserve)
		}
		fill, err := os.Create(filepath.Join(m.Data, "fill"))
		if err != nil {
			t.Fatal(err)
		}
		defer fill.Close()
		if err := unix.Fallocate(int(fill.Fd()), 0, 0, int64(st.Bavail)*int64(st.Bsize)-left); err != nil {
			t.Fatal(err)
		}
		bob.Send("")
		bob.AwaitOutput("full")
		if err := unix.Statfs(m.Data, &st); err != nil {
			t.Fatal(err)
		}
		// The log of what was read takes a megabyte ahead when it gets its first record.
		if now := int64(st.Bfree) * int64(st.Bsize); now < reserve-2<<20 {
			t.Errorf("%d of %d bytes are left of what is root's", now, reserve)
		}
		bob.Send("")
		bob.OK()
		m.Python(t, `
import os, sys
fd = os.open(sys.argv[1], os.O_CREAT | os.O_WRONLY, 0o600)
for i in range(32):
    os.write(fd, b"x" * 65536)
os.close(fd)
`, m.Path("roots"))
	}, func(t *testing.T) []mountOption { return []mountOption{onDiskImage(t, diskKinds[0], size)} })
}
