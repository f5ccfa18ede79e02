package integration

import (
	"bytes"
	"os"
	"path/filepath"
	"testing"
)

// A large file is copied into its session only when something is changed. A mapping
// shows its content all the same, and what is stored through it is committed.
func TestLargeFileIsMapped(t *testing.T) {
	const size = 17 << 20
	fill := func(data string) error {
		return os.WriteFile(filepath.Join(data, "f"), bytes.Repeat([]byte("0123456789abcdef"), size/16), 0o644)
	}
	forEachMount(t, func(t *testing.T, m *Mount) {
		m.Python(t, `
import mmap, os
fd = os.open("f", os.O_RDWR)
with open("f", "rb") as r:
    own = mmap.mmap(r.fileno(), 0, prot=mmap.PROT_READ)
m = mmap.mmap(fd, 0)
for view in own, m:
    assert view[:16] == view[-16:] == b"0123456789abcdef", view[:16]
m[4096:4100] = b"MINE"
m.close()
os.pwrite(fd, b"AND", 8192)
os.close(fd)
own.close()
f = open("f", "rb").read()
assert len(f) == 17 << 20 and f[4090:4100] == b"abcdefMINE" and f[8190:8196] == b"efAND3" and f[-16:] == b"0123456789abcdef", f[4090:4100]
`)
	}, withSeed(fill))
}
