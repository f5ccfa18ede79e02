package integration

import (
	"errors"
	"os"
	"path/filepath"
	"syscall"
	"testing"

	"golang.org/x/sys/unix"

	"latchfs/integration/internal/wire"
)

// isLive tells whether a file that is being written is seen before its close. It
// leaves the file behind.
func (m *Mount) isLive(t *testing.T, name string) bool {
	t.Helper()
	c := m.Client(t)
	defer c.Quit()
	fd := c.Open(name, unix.O_WRONLY|unix.O_CREAT)
	c.Write(fd, "probe")
	_, err := m.control.Stat(name)
	if err != nil && !errors.Is(err, syscall.ENOENT) {
		t.Fatal(err)
	}
	c.MustClose(fd)
	return err == nil
}

func (m *Mount) mustBeLive(t *testing.T, name string, want bool) {
	t.Helper()
	if !*plain && m.isLive(t, name) != want {
		t.Errorf("%s is live: %t", name, !want)
	}
}

// A directory with the marker of a database is live, with all below it, for as long
// as the marker is there and wherever the directory goes.
func TestDirectoryOfADatabaseIsLive(t *testing.T) {
	forEachMount(t, func(t *testing.T, m *Mount) {
		for _, dir := range []string{"db", "db/base", "db/base/1", "beside", "atomic"} {
			m.Mkdir(dir)
		}
		m.mustBeLive(t, "db/base/1/early", false)
		m.WriteFile("db/PG_VERSION", "15\n")
		m.mustBeLive(t, "db/a", true)
		m.mustBeLive(t, "db/base/1/a", true)
		m.mustBeLive(t, "beside/a", false)
		m.WriteFile("db/base/1/PG_VERSION", "15\n")

		admin := m.Client(t)
		admin.OK(admin.path2("rename", "db", "beside/db"))
		m.mustBeLive(t, "beside/db/base/1/b", true)
		m.Mkdir("db")
		m.mustBeLive(t, "db/b", false) // the name is another directory's
		admin.OK(admin.path2("rename", "beside/db/PG_VERSION", "beside/db/no"))
		m.mustBeLive(t, "beside/db/c", false)
		m.mustBeLive(t, "beside/db/base/1/c", true) // it has its own
		admin.OK(admin.path2("rename", "beside/db/no", "beside/db/PG_VERSION"))
		m.mustBeLive(t, "beside/db/d", true)
		admin.OK(wire.Request{Op: "unlink", Path: m.Path("beside/db/PG_VERSION")})
		m.mustBeLive(t, "beside/db/e", false)

		// A file that was a version, then live, is removed as one.
		if o := m.Bash(t, `cat $(find beside -type f) && rm -r beside/db`); o.Code != 0 {
			t.Errorf("rm: %d %s", o.Code, o.Stderr)
		}

		// A rule can except a directory; what only looks like a marker is none.
		m.WriteFile("atomic/PG_VERSION", "15\n")
		m.mustBeLive(t, "atomic/a", false)
		m.Mkdir("beside/ibdata1")
		m.mustBeLive(t, "beside/f", false)
		m.noBypass(t)
	}, withPolicy("[[rule]]\nglob = \"atomic/**\"\nlive-if = []\n"))
}

// A marker may be several files, and one of them told by a glob.
func TestMarkerOfSeveralFiles(t *testing.T) {
	forEachMount(t, func(t *testing.T, m *Mount) {
		m.Mkdir("db")
		m.WriteFile("db/CURRENT", "release-7\n")
		m.mustBeLive(t, "db/a", false)
		m.WriteFile("db/MANIFEST-000001", "x")
		m.mustBeLive(t, "db/b", true)
	})
}

// A directory that has its marker from before the mount is live from the beginning,
// the data root too, and one that gets it outside the mount soon after.
func TestMarkersFromOutside(t *testing.T) {
	seed := func(data string) error {
		if err := os.Mkdir(filepath.Join(data, "db"), 0o755); err != nil {
			return err
		}
		return os.WriteFile(filepath.Join(data, "db", "ibdata1"), nil, 0o644)
	}
	forEachMount(t, func(t *testing.T, m *Mount) {
		m.mustBeLive(t, "db/a", true)
		m.mustBeLive(t, "a", false)
		if *plain {
			return
		}
		if err := os.WriteFile(filepath.Join(m.Data, "WiredTiger"), nil, 0o644); err != nil {
			t.Fatal(err)
		}
		m.control.Stat("WiredTiger")
		eventually(t, "the marker outside", func() bool { return m.isLive(t, "b") })
	}, withSeed(seed))
}

// A file that is being written when its directory becomes a database's is live from
// then on: nobody waits for its close.
func TestOpenFileInANewDatabase(t *testing.T) {
	forEachMount(t, func(t *testing.T, m *Mount) {
		m.Mkdir("db")
		m.WriteFile("db/old", "old")
		a, b := m.Client(t), m.Client(t)
		made, changed := a.Open("db/made", unix.O_RDWR|unix.O_CREAT), a.Open("db/old", unix.O_RDWR)
		a.Write(made, "one")
		a.OK(wire.Request{Op: "pwrite", FD: changed, Data: []byte("new")})
		a.Save("db/PG_VERSION", "15\n")
		eventually(t, "the files are live", func() bool {
			st, err := m.control.Stat("db/made")
			return err == nil && st.Size == 3 && m.ReadFile("db/old") == "new"
		})
		a.Write(made, " two")
		fd := b.Open("db/made", unix.O_RDWR) // does not wait
		if got := b.ReadAt(fd, 7, 0); got != "one two" {
			t.Errorf("the other reads %q", got)
		}
		b.OK(wire.Request{Op: "pwrite", FD: b.Open("db/old", unix.O_RDWR), Data: []byte("N")})
		if got := a.ReadAt(changed, 3, 0); got != "New" {
			t.Errorf("the first writer reads %q", got)
		}
		m.noBypass(t)
	})
}

// In a directory in which anybody may make files nobody makes the files of others live:
// what they write would be seen unfinished.
func TestMarkerOfAnotherUser(t *testing.T) {
	needsRoot(t)
	inShortOnRoot(t, func(t *testing.T, m *Mount) {
		m.Mkdir("shared")
		if o := m.Bash(t, `chmod 1777 shared && mkdir shared/own && echo old > shared/own/f`); o.Code != 0 {
			t.Fatal(o.Stderr)
		}
		writer, other := m.Client(t), m.ClientAs(t, ordinaryUID)
		fd := writer.Open("shared/own/f", unix.O_WRONLY|unix.O_TRUNC)
		writer.Write(fd, "half")
		if err := other.Save("shared/PG_VERSION", "15\n"); err != nil {
			t.Fatal(err)
		}
		m.mustBeLive(t, "shared/own/a", false)
		if got := m.ReadFile("shared/own/f"); !*plain && got != "old\n" {
			t.Errorf("a reader sees %q", got)
		}
		writer.MustClose(fd)
		if o := m.Bash(t, `rm shared/PG_VERSION && chmod 755 shared && echo 15 > shared/PG_VERSION`); o.Code != 0 {
			t.Fatal(o.Stderr)
		}
		m.mustBeLive(t, "shared/own/b", true)
	})
}

// An open for reading may cut a file, also a live one: POSIX leaves that open, and Linux does it.
func TestCutByAReader(t *testing.T) {
	forEachMount(t, func(t *testing.T, m *Mount) {
		for _, name := range []string{"f", "f.log"} {
			m.WriteFile(name, "old")
			m.Python(t, `import os, sys; os.close(os.open(sys.argv[1], os.O_RDONLY | os.O_TRUNC))`, name)
			if got := m.ReadFile(name); got != "" {
				t.Errorf("%s holds %q", name, got)
			}
		}
	})
}
