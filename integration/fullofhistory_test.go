package integration

import (
	"os"
	"path/filepath"
	"testing"
)

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
