package integration

import (
	"os"
	"strings"
	"testing"
)

// On a disk with little room left, what needs little is done.

// A file is cut down to what there is room for: who makes room so needs none for what goes.
func TestCutOnNearlyFullDisk(t *testing.T) {
	needsLatchfs(t)
	const cut = `
import os
fd = os.open("small", os.O_WRONLY)
os.ftruncate(fd, 5)
os.close(fd)
os.truncate("large", 5)
fd = os.open("grown", os.O_WRONLY)
os.ftruncate(fd, 3)
os.ftruncate(fd, 5)
os.close(fd)
`
	for _, kind := range diskKinds {
		t.Run(kind.name, func(t *testing.T) {
			needsDisks(t, kind.mkfs[0])
			m := mount(t, onDiskImage(t, kind, kind.least), errorsInLog(), noLastWords())
			for name, size := range map[string]int{"small": 6 << 20, "large": 18 << 20, "grown": 6 << 20} {
				m.WriteFile(name, strings.Repeat("x", size))
			}
			syncDisk(t, m)
			takeSpace(t, m, 2<<20)
			m.Python(t, cut)
			for name, want := range map[string]string{"small": "xxxxx", "large": "xxxxx", "grown": "xxx\x00\x00"} {
				if got := m.ReadFile(name); got != want {
					t.Errorf("%s holds %d bytes, %.10q", name, len(got), got)
				}
			}
		})
	}
}

// A file with two names is saved where there is room for its new version beside the old one.
func TestHardLinkOnNearlyFullDisk(t *testing.T) {
	needsLatchfs(t)
	const size = 12 << 20
	for _, kind := range diskKinds {
		t.Run(kind.name, func(t *testing.T) {
			needsDisks(t, kind.mkfs[0])
			m := mount(t, onDiskImage(t, kind, kind.least), errorsInLog(), noLastWords())
			m.WriteFile("a", strings.Repeat("x", size))
			if err := os.Link(m.Path("a"), m.Path("b")); err != nil {
				t.Fatal(err)
			}
			syncDisk(t, m)
			takeSpace(t, m, size*3/2)
			for _, fill := range []string{"y", "z"} {
				m.Python(t, `import sys; open("b", "w").write(sys.argv[1] * int(sys.argv[2]))`, fill, "12582912")
				if got := m.ReadFile("a"); got != strings.Repeat(fill, size) {
					t.Errorf("a holds %d bytes, %.10q", len(got), got)
				}
			}
		})
	}
}

// A rename within a transaction that finds no room leaves what the transaction has written
// under the other name.
func TestRenameInTransactionOnNearlyFullDisk(t *testing.T) {
	needsLatchfs(t)
	const script = `
import errno, os
open("b", "w").write("new")
fd = os.open("a", os.O_RDWR)
try:
    os.rename("a", "b")
except OSError as e:
    print(errno.errorcode[e.errno])
os.close(fd)
print(open("b").read())
`
	kind := diskKinds[0] // without reflinks
	needsDisks(t, kind.mkfs[0])
	m := mount(t, onDiskImage(t, kind, kind.least), errorsInLog(), noLastWords())
	m.WriteFile("a", strings.Repeat("x", 18<<20))
	m.WriteFile("b", "old")
	syncDisk(t, m)
	takeSpace(t, m, 4<<20)
	o := m.Guard(t, "--txn", "b", "--", "python3", "-c", script).Wait()
	mustEndWith(t, o, 0)
	mustSee(t, "the program", o.Stdout, "ENOSPC\nnew\n")
	mustSee(t, "who opens b after it", m.ReadFile("b"), "new")
}
