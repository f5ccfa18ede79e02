package main

import (
	"errors"
	"os"
	"path/filepath"
	"slices"
	"strings"
	"testing"

	"github.com/moby/sys/mountinfo"
)

// The same file is the same place by every name and from everywhere (SEED M4).
func TestLocate(t *testing.T) {
	d := newFakeDaemon(t, granting)
	outside := t.TempDir()
	mustMkdir(t, d.file("sub"))
	mustMkdir(t, d.file("sub/deep"))
	mustWrite(t, d.file("sub/file"), "", 0o600)
	mustWrite(t, d.file("file"), "", 0o600)
	for link, target := range map[string]string{
		d.file("to-file"):                     "sub/file",
		d.file("to-deep"):                     "sub/deep",
		d.file("to-be"):                       "sub/deep/new",
		d.file("chain"):                       "to-be",
		d.file("out"):                         outside,
		filepath.Join(outside, "in"):          d.file("sub"),
		filepath.Join(outside, "to-new-file"): d.file("new"),
	} {
		if err := os.Symlink(target, link); err != nil {
			t.Fatal(err)
		}
	}
	for _, tt := range []struct{ dir, name, want string }{
		{d.root, ".", "."},
		{d.root, "", "."},
		{d.root, "sub/..", "."},
		{d.root, "sub//./file", "sub/file"},
		{d.root, "to-file", "sub/file"},
		{d.root, "new", "new"},
		{d.root, "to-be", "sub/deep/new"},
		{d.root, "chain", "sub/deep/new"},
		{d.root, "to-deep/../file", "sub/file"},
		{d.root, "to-deep/../new", "sub/new"},
		{d.file("sub"), "../new", "new"},
		{d.file("sub"), "deep/", "sub/deep"},
		{outside, "in/file", "sub/file"},
		{outside, "in/../new", "new"},
		{outside, "to-new-file", "new"},
		{outside, d.root, "."},
		{outside, d.root + "/to-deep/../file", "sub/file"},
		{filepath.Join(outside, "in"), "../new", "new"}, // $PWD has the link
		{filepath.Join(outside, "in"), "file", "sub/file"},
	} {
		t.Chdir(tt.dir)
		if p, err := d.system().locate(tt.name); err != nil || p.path != tt.want || p.mount.Mountpoint != d.root {
			t.Errorf("%q in %s: %+v, %v, want %q", tt.name, tt.dir, p, err, tt.want)
		}
	}
	for _, tt := range []struct{ dir, name, want string }{
		{outside, ".", "not in a latchfs mount"},
		{outside, d.root + "2", "not in a latchfs mount"},
		{d.root, "out/file", "not in a latchfs mount"},
		{d.root, "..", "not in a latchfs mount"},
		{d.root, "missing/file", "no such file"},
		{d.root, "new/", "no such file"},
		{d.root, "sub/file/x", "not a directory"},
	} {
		t.Chdir(tt.dir)
		if p, err := d.system().locate(tt.name); err == nil || !strings.Contains(err.Error(), tt.want) {
			t.Errorf("%q in %s: %+v, %v, want %s", tt.name, tt.dir, p, err, tt.want)
		}
	}
}

func TestLocateLinkLoop(t *testing.T) {
	d := newFakeDaemon(t, granting)
	if err := os.Symlink("loop", d.file("loop")); err != nil {
		t.Fatal(err)
	}
	if p, err := d.system().locate(d.file("loop")); err == nil {
		t.Errorf("%+v", p)
	}
}

// A bind mount shows the same files, and the control file is at their root.
func TestLocateBindMount(t *testing.T) {
	dir := t.TempDir()
	part := &mountinfo.Info{Mountpoint: dir, Root: "/some/part", FSType: fsType, Minor: 1}
	whole := fakeMountAt("/whole", 1)
	noOpen := func(string) (*os.File, error) { return nil, errors.New("not asked to open") }

	sys := fakeSystem([]*mountinfo.Info{part, fakeMountAt("/other", 2), whole}, noOpen)
	p, err := sys.locate(filepath.Join(dir, "file"))
	if err != nil || p.path != "some/part/file" {
		t.Errorf("%+v, %v", p, err)
	}
	if m, err := sys.rooted(p.mount); err != nil || m != whole {
		t.Errorf("%+v, %v", m, err)
	}
	if m, err := fakeSystem([]*mountinfo.Info{part}, noOpen).rooted(part); err == nil {
		t.Errorf("%+v", m)
	}
}

// A working directory that is gone is known by the name that it had; one that the
// kernel does not know by a name is an error, and no question without end.
func TestLocateInAGoneDirectory(t *testing.T) {
	d := newFakeDaemon(t, granting)
	mustMkdir(t, d.file("x"))
	t.Chdir(d.file("x"))
	if err := os.Remove(d.file("x")); err != nil {
		t.Fatal(err)
	}
	for name, want := range map[string]string{"f": "x/f", ".": "x", "./y/f": "x/y/f", "../f": "f", "../x/f": "x/f", d.file("gone/f"): "gone/f"} {
		if p, err := d.system().locateGone(name); err != nil || p.path != want {
			t.Errorf("%s: %+v, %v, want %s", name, p, err, want)
		}
	}
	if p, err := d.system().locate("f"); err == nil {
		t.Errorf("a lock on %+v", p)
	}
}

// Which mount a command is about that names no file.
func TestMountOfNames(t *testing.T) {
	var opened string
	open := func(name string) (*os.File, error) {
		opened = name
		return nil, os.ErrPermission
	}
	a, b, outside := t.TempDir(), t.TempDir(), t.TempDir()
	one := []*mountinfo.Info{fakeMountAt(a, 1)}
	two := []*mountinfo.Info{fakeMountAt(a, 1), fakeMountAt(b, 2)}
	for _, tt := range []struct {
		mounts []*mountinfo.Info
		dir    string
		args   string
		want   string // the control file that is opened, or the complaint
	}{
		{one, outside, "--name x", a + "/.locks/control"},
		{two, b, "--name x", b + "/.locks/control"},
		{two, outside, "--name x --mount " + b, b + "/.locks/control"},
		{two, b, "--name x " + a + "/file", a + "/.locks/control"},
		{two, b, "--name x --locks-dir .l", b + "/.l/control"},
		{two, outside, "--name x", "more than one latchfs mount"},
		{two, outside, a + "/f " + b + "/f", "the locks of one command are all in one mount"},
		{two, outside, a + "/f --tree " + b, "the locks of one command are all in one mount"},
		{two, outside, a + "/f --mount " + b, "the locks of one command are all in one mount"},
		{nil, outside, "--name x", "no latchfs mount"},
		{two, outside, "--name x --mount " + outside, "not in a latchfs mount"},
	} {
		t.Chdir(tt.dir)
		opened = ""
		var stdout, stderr strings.Builder
		code := executeOn(fakeSystem(tt.mounts, open), append([]string{"check"}, strings.Fields(tt.args)...), &stdout, &stderr)
		wantCode := 1
		if strings.Contains(tt.want, "one") {
			wantCode = 2
		}
		if code != wantCode || stdout.String() != "" || opened != tt.want && !strings.Contains(stderr.String(), tt.want) {
			t.Errorf("%s: opened %s, %v", tt.args, opened, outcome{code, stdout.String(), stderr.String()})
		}
	}
}

// Whoever is in a data directory that is not mounted does not mean the only mount there is, and
// undo, which changes files, means none that is not said.
func TestOnlyMountIsNotMeant(t *testing.T) {
	a, data, outside := t.TempDir(), t.TempDir(), t.TempDir()
	mustMkdir(t, filepath.Join(a, ".locks"))
	for _, dir := range []string{".latchfs", "sub"} {
		mustMkdir(t, filepath.Join(data, dir))
	}
	elsewhere := fakeMountAt(a, 1)
	elsewhere.Source = data
	undo := "undo --actor x --since 1h"
	for _, tt := range []struct {
		mount     *mountinfo.Info
		dir, args string
		want      string // "" if the mount is meant
	}{
		{fakeMountAt(a, 1), data, "rejected list", "is not mounted"},
		{fakeMountAt(a, 1), filepath.Join(data, "sub"), "label x", "is not mounted"},
		{fakeMountAt(a, 1), data, undo, "is not mounted"},
		{fakeMountAt(a, 1), data, undo + " --mount " + a, ""},
		{fakeMountAt(a, 1), outside, undo, "--mount " + a},
		{fakeMountAt(a, 1), outside, undo + " " + a + "/f", ""},
		{fakeMountAt(a, 1), a, undo, ""},
		{fakeMountAt(a, 1), outside, "label x", ""},
		{elsewhere, data, "label x", ""},
		{elsewhere, data, undo, "--mount " + a},
	} {
		t.Chdir(tt.dir)
		var stdout, stderr strings.Builder
		code := executeOn(fakeSystem([]*mountinfo.Info{tt.mount}, func(string) (*os.File, error) { return nil, os.ErrPermission }), strings.Fields(tt.args), &stdout, &stderr)
		meant := strings.Contains(stderr.String(), "permission denied") || strings.Contains(stderr.String(), "keeps no history")
		if code == 0 || meant != (tt.want == "") || !strings.Contains(stderr.String(), tt.want) {
			t.Errorf("%s in %s: %v", tt.args, tt.dir, outcome{code, stdout.String(), stderr.String()})
		}
	}
}

// A file is where its name leads to, and --mount does not move it.
func TestMountOfFiles(t *testing.T) {
	a, b, outside := t.TempDir(), t.TempDir(), t.TempDir()
	two := []*mountinfo.Info{fakeMountAt(a, 1), fakeMountAt(b, 2)}
	for _, dir := range []string{a, b} {
		mustMkdir(t, filepath.Join(dir, ".locks"))
	}
	for _, tt := range []struct{ dir, args, want string }{
		{a, "f --mount " + b, "f is in the mount " + a + ", and --mount says " + b},
		{outside, "f --mount " + b, "--mount does not say where a file is: give its whole path"},
		{outside, b + "/f --mount " + a, "is in the mount " + b + ", and --mount says " + a},
		{outside, b + "/f --mount " + outside, "not in a latchfs mount"},
		{outside, b + "/f --mount " + b, "no version of f"},
		{b, "f --mount .", "no version of f"},
	} {
		t.Chdir(tt.dir)
		for _, command := range []string{"history", "diff", "restore"} {
			args := append([]string{command}, strings.Fields(tt.args)...)
			if command != "history" {
				args = append(args, "1")
			}
			var stdout, stderr strings.Builder
			code := executeOn(fakeSystem(two, func(string) (*os.File, error) { return nil, os.ErrPermission }), args, &stdout, &stderr)
			if asked := strings.Contains(stderr.String(), tt.want); code == 0 || !asked && !strings.HasPrefix(tt.want, "no version") || strings.Contains(stderr.String(), "--mount") && strings.HasPrefix(tt.want, "no version") {
				t.Errorf("%s in %s: %v", args, tt.dir, outcome{code, stdout.String(), stderr.String()})
			}
		}
	}
}

// JSON has no word for such a name: it would be another file's.
func TestNameThatIsNoText(t *testing.T) {
	d := newFakeDaemon(t, granting)
	for _, args := range [][]string{{"acquire", d.file("\xff")}, {"acquire", "--tree", d.file("\xff")}} {
		if got := d.run(args...); got.code != 2 || !strings.Contains(got.stderr, "not UTF-8") {
			t.Error(got)
		}
	}
	if err := os.Symlink("\xff", d.file("link")); err != nil {
		t.Fatal(err)
	}
	if got := d.run("acquire", d.file("link")); got.code != 2 || !strings.Contains(got.stderr, "not UTF-8") {
		t.Error(got)
	}
	if got := d.received(); got != nil {
		t.Errorf("%+v", got)
	}
}

// Who names a file in the data directory of a mount that is elsewhere is told where that is.
func TestDataDirectoryBehindAMount(t *testing.T) {
	data := t.TempDir()
	m := fakeMountAt("/m", 1)
	m.Source = data
	sys := fakeSystem([]*mountinfo.Info{m}, nil)
	t.Chdir(data)
	for name, want := range map[string]string{"new": "/m/new", ".": "/m", data + "/new": "/m/new"} {
		if _, err := sys.locate(name); err == nil || !strings.HasSuffix(err.Error(), "is not in a latchfs mount; a mount shows it as "+want) {
			t.Errorf("%s: %v", name, err)
		}
	}
	if _, err := sys.locate(data + "2"); err == nil || strings.Contains(err.Error(), "shows") {
		t.Errorf("beside it: %v", err)
	}
}

func TestFullPathsOfWhatIsInAMount(t *testing.T) {
	s := fakeSystem([]*mountinfo.Info{
		fakeMountAt("/srv/data", 1),
		{Mountpoint: "/home/ann/shared", Root: "/team", FSType: fsType, Minor: 1},
	}, nil)
	got := s.fromMountRoots([]string{"a/b", "/srv/data/a//b", "/srv/data", "/home/ann/shared/x", "/srv/other/x"})
	if want := []string{"a/b", "a/b", ".", "team/x", "/srv/other/x"}; !slices.Equal(got, want) {
		t.Errorf("got %q, want %q", got, want)
	}
}
