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
import os, struct
entries = [(1, 7, -1)] + [(2, 6, 1000 + i) for i in range(20)] + [(4, 5, -1), (16, 7, -1), (32, 5, -1)]
acl = struct.pack("<I", 2) + b"".join(struct.pack("<HHi", *e) for e in entries)
for i in range(30):
    with open(f"f{i}", "wb") as f: f.write(os.urandom(1_000_000))
for i in range(30): os.unlink(f"f{i}")
for d in "mkdir", "symlink", "mknod", "link", "rename", "renamedir", "live", "xattr", "attrs": os.mkdir(d)
for i in range(40):
    open(f"xattr/{i}", "w").close()
    open(f"attrs/{i}", "w").close()
    os.setxattr(f"attrs/{i}", "user.x", b"%0700d" % i)
    os.setxattr(f"attrs/{i}", "system.posix_acl_access", acl) # which a chmod changes
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
    "removexattr": lambda i: os.removexattr(f"attrs/{i}", "user.x"),
    "chmod": lambda i: os.chmod(f"attrs/{i}", 0o600),
    "chown": lambda i: os.chown(f"attrs/{i}", 7, 7),
    "utime": lambda i: os.utime(f"attrs/{i}", (i, i)),
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
			for _, what := range []string{"mkdir", "symlink", "mknod", "link", "rename", "renamedir", "live", "xattr", "chmod", "chown", "utime", "removexattr"} {
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
