package integration

import (
	"encoding/json"
	"errors"
	"fmt"
	"hash/crc32"
	"os"
	"path/filepath"
	"strings"
	"testing"

	"golang.org/x/sys/unix"

	"latchfs/integration/internal/wire"
)

// A disk that fills up: programs are told, no file is torn, and once there is
// space again everything works.

// onDiskImage is a mount option that puts the data directory on a filesystem of its
// own, which goes when the test has ended and its mount is gone.
func onDiskImage(t *testing.T, k diskKind, size int64, options ...string) mountOption {
	t.Helper()
	shelf := inMemoryDir(t, size)
	image, where := filepath.Join(shelf, "image"), ""
	if err := k.makeImage(image, size); err != nil {
		t.Fatal(err)
	}
	t.Cleanup(func() { unmountDisk(t, where) })
	return withSeed(func(data string) error {
		where = data
		return k.mountImage(image, data, options...)
	})
}

// filling saves files of many sizes until it was refused often enough, and prints
// the version of each file that was acknowledged last. argv is its name and how
// often. Every version says its own length and checksum.
const filling = `
import errno, json, os, random, sys, zlib
me, enough = sys.argv[1], int(sys.argv[2])
rnd, acknowledged, refused, n = random.Random(me), {}, 0, 0
while refused < enough:
    n += 1
    name = f"{me}-{n % 8}"
    body = f"{name} {n} " + str(rnd.random()) * rnd.choice([1, 300, 5000, 40000])
    text = f"{len(body)} {zlib.crc32(body.encode())} {body}"
    try:
        with open(name, "w") as f:
            f.write(text)
        acknowledged[name] = n
    except OSError as e:
        if e.errno != errno.ENOSPC:
            sys.exit(f"{name}: {e}")
        refused += 1
    if n > 500:
        sys.exit("the disk does not fill up")
print(json.dumps(acknowledged))
`

// checkFilled compares a file with what was acknowledged of it.
func checkFilled(t *testing.T, dir, name string, n int) {
	t.Helper()
	b, err := os.ReadFile(filepath.Join(dir, name))
	if err != nil {
		t.Error(err)
		return
	}
	var size, sum, version int
	var whose string
	_, err = fmt.Sscan(string(b[:min(len(b), 100)]), &size, &sum, &whose, &version)
	parts := strings.SplitN(string(b), " ", 3)
	switch {
	case err != nil || len(parts) < 3 || len(parts[2]) != size || crcOf(parts[2]) != sum:
		t.Errorf("%s is torn: %d bytes, %.60q", name, len(b), b)
	case whose != name || version != n:
		t.Errorf("%s holds version %d of %s; %d was acknowledged", name, version, whose, n)
	}
}

func crcOf(s string) int { return int(crc32.ChecksumIEEE([]byte(s))) }

func TestFullDisk(t *testing.T) {
	needsLatchfs(t)
	for _, kind := range diskKinds {
		t.Run(kind.name, func(t *testing.T) {
			needsDisks(t, kind.mkfs[0])
			m := mount(t, onDiskImage(t, kind, kind.least), errorsInLog(), noLastWords())
			fillDisk(t, m)
			m.Python(t, `import glob, os; [os.unlink(f) for f in glob.glob("*-*")]`)
			for i := range 8 {
				m.WriteFile(fmt.Sprint("f", i), "there is space again")
			}
		})
	}
}

// fillDisk has eight processes fill the disk, twice.
func fillDisk(t *testing.T, m *Mount) {
	t.Helper()
	takeSpace(t, m, 4<<20)
	for range 2 {
		var procs []*Proc
		for i := range 8 {
			procs = append(procs, m.LaunchPython(t, filling, fmt.Sprint("p", i), "5"))
		}
		for _, p := range procs {
			var acknowledged map[string]int
			if err := json.Unmarshal([]byte(p.OK()), &acknowledged); err != nil {
				t.Fatal(err)
			}
			for name, n := range acknowledged {
				checkFilled(t, m.Data, name, n)
			}
		}
	}
}

// takeSpace leaves about so many bytes of the disk free.
func takeSpace(t *testing.T, m *Mount, leave int64) {
	t.Helper()
	var st unix.Statfs_t
	if err := unix.Statfs(m.Data, &st); err != nil {
		t.Fatal(err)
	}
	f, err := os.Create(filepath.Join(m.Data, "ballast"))
	if err != nil {
		t.Fatal(err)
	}
	defer f.Close()
	if n := int64(st.Bavail)*st.Bsize - leave; n > 0 {
		if err := unix.Fallocate(int(f.Fd()), 0, 0, n); err != nil {
			t.Fatal(err)
		}
	}
}

// A write that is passed through to the filesystem fails unseen by latchfs. What
// was written so far does not replace the file all the same.
func TestFullDiskBehindPassthrough(t *testing.T) {
	needsLatchfs(t)
	const script = `
import errno, sys
f, chunk = open("f", "wb", buffering=0), b"x" * 4_000_003
try:
    while True:
        f.write(chunk)
except OSError as e:
    print(errno.errorcode[e.errno])
try:
    f.close()
    print("closed")
except OSError as e:
    print(errno.errorcode[e.errno])
`
	for _, kind := range diskKinds {
		t.Run(kind.name, func(t *testing.T) {
			needsDisks(t, kind.mkfs[0])
			m := mount(t, onDiskImage(t, kind, 700<<20), errorsInLog(), noLastWords())
			takeSpace(t, m, 270<<20)
			m.WriteFile("f", "old")
			if got := m.Python(t, script); got != "ENOSPC\nENOSPC\n" {
				t.Errorf("the program was told %q", got)
			}
			if got := m.ReadFile("f"); got != "old" {
				t.Errorf("the file holds %d bytes", len(got))
			}
			// On a full disk latchfs cannot even write down that it has stopped.
			if err := os.Remove(m.Path("ballast")); err != nil {
				t.Fatal(err)
			}
			syncDisk(t, m)
		})
	}
}

// A file that a limit on its writer's files has cut does not replace the old one.
func TestFileSizeLimit(t *testing.T) {
	const script = `
import errno, resource, signal
signal.signal(signal.SIGXFSZ, signal.SIG_IGN)
resource.setrlimit(resource.RLIMIT_FSIZE, (100_000, 100_000))
f = open("f", "wb", buffering=0)
print(f.write(b"x" * 300_000))
try:
    f.close()
    print("closed")
except OSError as e:
    print(errno.errorcode[e.errno])
`
	test := func(t *testing.T, m *Mount, uid int) {
		t.Helper()
		m.WriteFile("f", "old")
		m.control.OK(wire.Request{Op: "chmod", Path: m.Path("f"), Mode: 0o666})
		if got := m.launchAs(t, uid, bench.python, "-c", script).OK(); got != "100000\nEFBIG\n" {
			t.Errorf("a program of user %d was told %q", uid, got)
		}
		if got := m.ReadFile("f"); got != "old" {
			t.Errorf("the file holds %d bytes", len(got))
		}
	}
	forEachMount(t, func(t *testing.T, m *Mount) { test(t, m, m.UID) })
	strangerMounts(t, func(t *testing.T, m *Mount) { test(t, m, otherUID) })
}

// A quota is a limit that statfs does not show.
func TestQuota(t *testing.T) {
	needsLatchfs(t)
	const script = `
import errno
f, chunk = open("f", "wb", buffering=0), b"x" * 1_000_003
try:
    for _ in range(60): f.write(chunk)
except OSError as e:
    print(errno.errorcode[e.errno])
try:
    f.close()
    print("closed")
except OSError as e:
    print(errno.errorcode[e.errno])
`
	kind := diskKinds[2]
	needsDisks(t, kind.mkfs[0], "btrfs")
	m := mount(t, onDiskImage(t, kind, 700<<20), errorsInLog(), noLastWords())
	m.Stop(t)
	for _, argv := range [][]string{{"quota", "enable"}, {"qgroup", "limit", "32M"}} {
		if err := command(append(append([]string{"btrfs"}, argv...), m.Data)...); err != nil {
			t.Skip(err)
		}
	}
	m.Start(t)
	m.WriteFile("f", "old")
	m.Python(t, `open("ballast", "wb").write(b"x" * 8_000_000)`)
	if got := m.Python(t, script); got != "EDQUOT\nEDQUOT\n" {
		t.Errorf("the program was told %q", got)
	}
	if got := m.ReadFile("f"); got != "old" {
		t.Errorf("the file holds %d bytes", len(got))
	}
	if err := os.Remove(m.Path("ballast")); err != nil {
		t.Fatal(err)
	}
	eventually(t, "saves work when there is space again", func() bool {
		syncDisk(t, m) // btrfs accounts for what was freed when it commits
		return m.control.Save("f", "next") == nil
	})
	if got := m.ReadFile("f"); got != "next" {
		t.Errorf("the file holds %q", got)
	}
}

// On a disk on which there is nothing left the next mount begins all the same, and then
// makes room: who saves has the earlier versions given up.
func TestMountOnAFullDisk(t *testing.T) {
	needsLatchfs(t)
	for _, kind := range diskKinds {
		t.Run(kind.name, func(t *testing.T) {
			needsDisks(t, kind.mkfs[0])
			m := mount(t, onDiskImage(t, kind, kind.least), noLastWords())
			for range 4 {
				m.WriteFile("f", strings.Repeat("x", 4<<20))
			}
			syncDisk(t, m)
			m.Crash(t)
			fillAround(t, m)
			m.Start(t)
			m.WriteFile("f", "saved\n")
			m.holds(t, "f", "saved\n")
		})
	}
}

// fillAround takes all that is left of the disk, around the mount.
func fillAround(t *testing.T, m *Mount) {
	t.Helper()
	f, err := os.OpenFile(filepath.Join(m.Data, "filling"), os.O_WRONLY|os.O_CREATE|os.O_APPEND, 0o600)
	if err != nil {
		t.Fatal(err)
	}
	defer f.Close()
	for size := 1 << 20; size > 0; size /= 2 {
		for err == nil {
			if _, err = f.Write(make([]byte, size)); err == nil {
				err = f.Sync()
			}
		}
		if !errors.Is(err, unix.ENOSPC) {
			t.Fatal(err)
		}
		err = nil
	}
}
