package integration

import (
	"fmt"
	"maps"
	"os"
	"path/filepath"
	"slices"
	"testing"

	"github.com/hanwen/go-fuse/v2/posixtest"
)

// posixChecks is the whole differential suite.
func posixChecks() []posixCheck {
	return slices.Concat(renameChecks, fileChecks, dataChecks, metaChecks, xattrChecks, nameChecks, rightsChecks)
}

// plainTwin makes a directory on the same filesystem as the data of m, but
// outside the mount: what happens there is what has to happen on the mount.
func plainTwin(t *testing.T, m *Mount) string {
	t.Helper()
	dir := filepath.Join(filepath.Dir(m.Data), "twin")
	if err := os.Mkdir(dir, 0o755); err != nil {
		t.Fatal(err)
	}
	if err := os.Chown(dir, m.UID, m.UID); err != nil {
		t.Fatal(err)
	}
	return dir
}

// TestPosix holds the mount to what a plain directory does, call by call.
func TestPosix(t *testing.T) {
	requireTool(t, "setfacl", "getfacl")
	rootAndUser(t, func(t *testing.T, m *Mount) {
		comparePosix(t, plainTwin(t, m), m, posixChecks())
	}, withArgs("--durability", "ordered"))
}

// rootAndUser is forEachMount without the variant in the middle, whose way of
// reading and writing is the ordinary user's; the long version has it too.
func rootAndUser(t *testing.T, test func(*testing.T, *Mount), opts ...mountOption) {
	t.Helper()
	if stress() {
		forEachMount(t, test, opts...)
		return
	}
	inWays(t, test, opts, way{"root", asMostMount()}, way{"user", asUser()})
}

// TestPosixtest runs go-fuse's conformance suite.
func TestPosixtest(t *testing.T) {
	skipped := map[string]string{
		"FcntlFlockLocksFile": "it wants POSIX locks of one process to conflict, against fcntl(2)",
	}
	if *plain {
		skipped["OpenSymlinkRace"] = "it tells files from link targets by their device"
	}
	m := mount(t)
	for _, name := range slices.Sorted(maps.Keys(posixtest.All)) {
		if reason, ok := skipped[name]; ok {
			t.Logf("%s is left out: %s", name, reason)
			continue
		}
		t.Run(name, func(t *testing.T) {
			if name == "OpenSymlinkRace" {
				inStress(t)
			}
			dir := filepath.Join(m.Dir, name)
			if err := os.Mkdir(dir, 0o755); err != nil {
				t.Fatal(err)
			}
			posixtest.All[name](t, dir)
			if err := os.RemoveAll(dir); err != nil {
				t.Error(err)
			}
		})
	}
}

// TestPosixBigDirectory lists and stats a directory of very many names that was
// filled underneath, then removes part of it through the mount.
func TestPosixBigDirectory(t *testing.T) {
	inTestAll(t)
	entries := repeat(20_000, 100_000)
	m := mount(t, withSeed(func(data string) error {
		big := filepath.Join(data, "big")
		if err := os.Mkdir(big, 0o755); err != nil {
			return err
		}
		return fillDirectory(big, entries)
	}))
	dir := filepath.Join(m.Dir, "big")
	for round := range 2 { // cold and warm
		names := readNames(t, dir)
		if len(names) != entries {
			t.Fatalf("round %d: %d names listed, want %d", round, len(names), entries)
		}
		slices.Sort(names)
		if n := len(slices.Compact(names)); n != entries {
			t.Fatalf("round %d: %d different names, want %d", round, n, entries)
		}
	}
	infos, err := os.ReadDir(dir)
	if err != nil {
		t.Fatal(err)
	}
	for _, e := range infos { // every name becomes a node of the daemon's
		if _, err := e.Info(); err != nil {
			t.Fatal(err)
		}
	}
	for i := 0; i < entries; i += 50 {
		if err := os.Remove(filepath.Join(dir, bigName(i))); err != nil {
			t.Fatal(err)
		}
	}
	if n := len(readNames(t, dir)); n != entries-entries/50 {
		t.Errorf("%d names left, want %d", n, entries-entries/50)
	}
}

// bigName is the i-th name of a big directory.
func bigName(i int) string { return fmt.Sprintf("entry-%06d", i) }

// fillDirectory makes n empty files; links to a few inodes would be faster, but
// then a stat of each would not need an inode of its own.
func fillDirectory(dir string, n int) error {
	for i := range n {
		f, err := os.OpenFile(filepath.Join(dir, bigName(i)), os.O_CREATE|os.O_EXCL|os.O_WRONLY, 0o644)
		if err != nil {
			return err
		}
		if err := f.Close(); err != nil {
			return err
		}
	}
	return nil
}

func readNames(t *testing.T, dir string) []string {
	t.Helper()
	f, err := os.Open(dir)
	if err != nil {
		t.Fatal(err)
	}
	defer f.Close()
	names, err := f.Readdirnames(-1)
	if err != nil {
		t.Fatal(err)
	}
	return names
}
