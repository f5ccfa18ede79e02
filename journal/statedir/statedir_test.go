package statedir

import (
	"errors"
	"os"
	"path/filepath"
	"testing"

	"golang.org/x/sys/unix"
)

func openRoot(t *testing.T, dir string) int {
	t.Helper()
	fd, err := unix.Open(dir, unix.O_PATH|unix.O_DIRECTORY|unix.O_CLOEXEC, 0)
	if err != nil {
		t.Fatal(err)
	}
	t.Cleanup(func() { unix.Close(fd) })
	return fd
}

func must(t *testing.T, err error) {
	t.Helper()
	if err != nil {
		t.Fatal(err)
	}
}

// Each way in which a file can be another's is refused, and none of them hangs or
// changes the file.
func TestOpenFile(t *testing.T) {
	dir := t.TempDir()
	at := func(name string) string { return filepath.Join(dir, name) }
	write := func(name string, mode os.FileMode) {
		must(t, os.WriteFile(at(name), []byte("content"), 0o600))
		must(t, os.Chmod(at(name), mode))
	}
	write("own", 0o600)
	write("readable", 0o644)
	write("group", 0o620)
	write("world", 0o602)
	write("twice", 0o600)
	must(t, os.Link(at("twice"), at("twice2")))
	must(t, os.Symlink("own", at("link")))
	must(t, unix.Mkfifo(at("fifo"), 0o600))
	must(t, os.Mkdir(at("dir"), 0o700))
	root := openRoot(t, dir)
	for name, may := range map[string]struct{ read, write bool }{
		"own": {true, true}, "readable": {true, true}, "new": {false, true}, "group": {}, "world": {},
		"twice": {true, false}, "link": {}, "fifo": {}, "dir": {}, "../own": {},
	} {
		for _, how := range []struct {
			flags int
			may   bool
		}{{unix.O_RDONLY, may.read}, {unix.O_RDWR | unix.O_CREAT, may.write}, {unix.O_WRONLY | unix.O_CREAT | unix.O_TRUNC, may.write}} {
			fd, err := OpenFile(root, name, how.flags)
			if (err == nil) != how.may {
				t.Errorf("%s with %#x: %v", name, how.flags, err)
			}
			if err == nil {
				unix.Close(fd)
			}
		}
	}
	for _, name := range []string{"group", "world", "twice"} {
		if b, err := os.ReadFile(at(name)); err != nil || string(b) != "content" {
			t.Errorf("%s holds %q, %v", name, b, err)
		}
	}
}

// A directory is exposed to whoever else can rename in it.
func TestExposed(t *testing.T) {
	if os.Geteuid() != 0 {
		t.Skip("not root")
	}
	for _, c := range []struct {
		uid  int
		mode uint32
		want bool
	}{{0, 0o755, false}, {0, 0o775, true}, {0, 0o757, true}, {0, 0o1777, false}, {77, 0o755, true}, {77, 0o1755, true}} {
		dir := t.TempDir()
		must(t, os.Chown(dir, c.uid, c.uid))
		must(t, unix.Chmod(dir, c.mode))
		if got, err := Exposed(openRoot(t, dir)); got != c.want || err != nil {
			t.Errorf("%04o of user %d: %v, %v", c.mode, c.uid, got, err)
		}
	}
}

// The last state directory is told from former ones, wherever the data root goes.
func TestJudge(t *testing.T) {
	if os.Geteuid() != 0 {
		t.Skip("not root")
	}
	dir := t.TempDir()
	root := openRoot(t, dir)
	own := func() *os.File {
		d, err := Own(root)
		must(t, err)
		t.Cleanup(func() { d.Close() })
		return d
	}
	want := func(what string, d *os.File, trust Trust, is error) {
		t.Helper()
		if got, err := Judge(root, d); got != trust || !errors.Is(err, is) {
			t.Errorf("%s: %v, %v", what, got, err)
		}
	}
	first := own()
	want("root's own", first, Proven, nil)
	must(t, os.Chown(dir, 77, 77))
	want("exposed, and nothing is said", first, Unproven, nil)
	must(t, Vouch(root, first))
	if !Forgotten(root) {
		t.Skip("this filesystem has no trusted attributes")
	}
	want("vouched for", first, Proven, nil)
	must(t, os.Rename(filepath.Join(dir, Name), filepath.Join(dir, "first")))
	second := own()
	want("a new one", second, Unproven, ErrReplaced)
	must(t, Vouch(root, second))
	want("the new one", second, Proven, nil)
	want("the former one", first, Unproven, ErrReplaced)
	must(t, os.Chown(dir, 0, 0))
	want("the former one, with nobody near", first, Unproven, ErrReplaced)
	must(t, Vouch(root, first))
	want("the former one, made the last", first, Proven, nil)
}

// A directory of that name that is not this user's alone is not opened.
func TestOwn(t *testing.T) {
	for name, plant := range map[string]func(path string) error{
		"writable":  func(path string) error { return errors.Join(os.Mkdir(path, 0o700), os.Chmod(path, 0o770)) },
		"link":      func(path string) error { return errors.Join(os.Mkdir(path+"x", 0o700), os.Symlink(path+"x", path)) },
		"file":      func(path string) error { return os.WriteFile(path, nil, 0o600) },
		"another's": func(path string) error { return errors.Join(os.Mkdir(path, 0o700), os.Chown(path, 77, 77)) },
	} {
		if name == "another's" && os.Geteuid() != 0 {
			continue
		}
		dir := t.TempDir()
		must(t, plant(filepath.Join(dir, Name)))
		if d, err := Own(openRoot(t, dir)); !errors.Is(err, ErrForeign) {
			t.Errorf("%s: %v, %v", name, d, err)
		}
	}
}
