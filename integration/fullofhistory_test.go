package integration

import (
	"os"
	"path/filepath"
	"strings"
	"testing"
)

// Whoever appends to a full disk is told by .locks/why what it was told by close.
func TestAppendToAFullDisk(t *testing.T) {
	needsLatchfs(t)
	const script = `
import errno, os
fd = os.open("records", os.O_WRONLY | os.O_APPEND)
os.write(fd, b"x" * 100_001)
try:
    os.close(fd)
    print("closed")
except OSError as e:
    print(errno.errorcode[e.errno])
print(open(".locks/why").read())
`
	kind := diskKinds[0]
	needsDisks(t, kind.mkfs[0])
	m := mount(t, onDiskImage(t, kind, kind.least), errorsInLog(), noLastWords())
	m.WriteFile("records", "one\n")
	syncDisk(t, m)
	fillAround(t, m)
	if got := m.Python(t, script); !strings.HasPrefix(got, "ENOSPC\n") || !strings.Contains(got, "append records: ENOSPC") {
		t.Errorf("the program was told %s", got)
	}
	if err := os.Remove(filepath.Join(m.Data, "filling")); err != nil {
		t.Fatal(err)
	}
	syncDisk(t, m)
}

// On a disk that the earlier versions fill they go for everything that needs room, be it as
// little as a name.
func TestNamesOnADiskFullOfHistory(t *testing.T) {
	needsLatchfs(t)
	const prepare = `
import os
for i in range(30):
    with open(f"f{i}", "wb") as f: f.write(os.urandom(1_000_000))
for i in range(30): os.unlink(f"f{i}")
for d in "mkdir", "symlink", "mknod", "link", "rename", "renamedir", "live", "xattr": os.mkdir(d)
for i in range(40):
    open(f"xattr/{i}", "w").close()
    open(f"from{i}", "w").close()
    os.mkdir(f"fromdir{i}")
`
	const try = `
import errno, os, sys
what = sys.argv[1]
long = lambda i: f"{what}/{i:0240}"
do = {
    "mkdir": lambda i: os.mkdir(long(i)),
    "symlink": lambda i: os.symlink("x" * 200, long(i)),
    "mknod": lambda i: os.mknod(long(i)),
    "link": lambda i: os.link("from0", long(i)),
    "rename": lambda i: os.rename(f"from{i}", long(i)),
    "renamedir": lambda i: os.rename(f"fromdir{i}", long(i)),
    "live": lambda i: open(long(i)[:-4] + ".pid", "w").close(),
    "xattr": lambda i: os.setxattr(f"xattr/{i}", "user.x", b"%0700d" % i),
}
for i in range(40):
    try:
        do[what](i)
    except OSError as e:
        sys.exit(f"{what} {i}: {errno.errorcode[e.errno]}")
`
	for _, kind := range diskKinds {
		t.Run(kind.name, func(t *testing.T) {
			needsDisks(t, kind.mkfs[0])
			m := mount(t, onDiskImage(t, kind, kind.least), noLastWords())
			m.Python(t, prepare)
			m.Stop(t) // what was saved within the last second takes its room until it is settled
			m.Start(t)
			for _, what := range []string{"mkdir", "symlink", "mknod", "link", "rename", "renamedir", "live", "xattr"} {
				syncDisk(t, m)
				fillAround(t, m)
				if out := m.Run(t, bench.python, "-c", try, what); out.Code != 0 {
					t.Errorf("%s", out.Stderr)
				}
			}
			// On a full disk latchfs cannot even write down that it has stopped.
			if err := os.Remove(filepath.Join(m.Data, "filling")); err != nil {
				t.Fatal(err)
			}
			syncDisk(t, m)
		})
	}
}
