package integration

import (
	"path/filepath"
	"testing"

	"golang.org/x/sys/unix"
)

// A program that opens a file with O_DIRECT, and takes that off for the rest of its data
// which fills no block, writes all of it.
func TestDirectWriteOfPartOfABlock(t *testing.T) {
	forEachMount(t, func(t *testing.T, m *Mount) {
		fd, err := unix.Open(filepath.Join(t.TempDir(), "f"), unix.O_CREAT|unix.O_RDWR|unix.O_DIRECT|unix.O_CLOEXEC, 0o600)
		if err != nil {
			t.Skipf("the filesystem below has no direct I/O: %v", err)
		}
		unix.Close(fd)
		got := m.Bash(t, `
head -c 5124 /dev/urandom > source
echo old > old; echo old > old.db
for to in new old new.db old.db; do
    dd if=source of=$to oflag=direct bs=4k status=none || echo "$to: exit $?"
    cmp source $to
done`)
		if got.Stdout != "" || got.Stderr != "" || got.Code != 0 {
			t.Errorf("%+v", got)
		}
	})
}
