package integration

import (
	"os"
	"path/filepath"
	"sync"
	"testing"
	"time"

	"golang.org/x/sys/unix"
)

// victim is a directory that only root may enter, with one file. A client who
// is not root and reaches it was led there by the daemon.
type victim struct{ dir string }

func newVictim(t *testing.T, m *Mount) victim {
	t.Helper()
	v := victim{filepath.Join(filepath.Dir(m.Data), "outside")}
	if err := os.Mkdir(v.dir, 0o700); err != nil {
		t.Fatal(err)
	}
	if err := os.WriteFile(v.secret(), []byte("secret"), 0o666); err != nil {
		t.Fatal(err)
	}
	if err := os.Chmod(v.secret(), 0o666); err != nil {
		t.Fatal(err)
	}
	return v
}

func (v victim) secret() string { return filepath.Join(v.dir, "secret") }

// check tells whether anything outside was touched.
func (v victim) check(t *testing.T) {
	t.Helper()
	if b, err := os.ReadFile(v.secret()); err != nil || string(b) != "secret" {
		t.Errorf("outside the data directory: %q, %v", b, err)
	}
	var st unix.Stat_t
	if err := unix.Lstat(v.secret(), &st); err != nil || statLine(&st) != "file 0666 nlink=1 uid=0 gid=0 size=6" {
		t.Errorf("outside the data directory: %s, %v", statLine(&st), err)
	}
	entries, err := os.ReadDir(v.dir)
	if err != nil {
		t.Fatal(err)
	}
	if len(entries) != 1 {
		t.Errorf("outside the data directory there are %d names, want the secret alone", len(entries))
	}
}

// TestNoEscape swaps directories and files under the mount for symbolic links
// that lead out, as fast as it can, while a client who is not root works on
// them. The kernel does not let that client follow them; the daemon must not
// do it for him.
func TestNoEscape(t *testing.T) {
	needsLatchfs(t)
	needsRoot(t)
	m := mount(t)
	v := newVictim(t, m)
	stop := make(chan struct{})
	var swapping sync.WaitGroup
	for _, kind := range []string{"dir", "file"} {
		if err := os.Mkdir(filepath.Join(m.Data, kind), 0o777); err != nil {
			t.Fatal(err)
		}
		if err := os.Chmod(filepath.Join(m.Data, kind), 0o777); err != nil {
			t.Fatal(err)
		}
	}
	plant(t, filepath.Join(m.Data, "dir", "secret"))
	plant(t, filepath.Join(m.Data, "file", "secret"))
	swapping.Go(func() { swapForLink(filepath.Join(m.Data, "dir"), v.dir, stop) })
	swapping.Go(func() { swapForLink(filepath.Join(m.Data, "file", "secret"), v.secret(), stop) })

	deadline := time.Now().Add(time.Duration(repeat(3, 120)) * time.Second)
	done, leaked := 0, 0
	ended := make(chan struct{})
	onPrivateThread(testUID, func() {
		defer close(ended)
		for time.Now().Before(deadline) {
			for _, dir := range []string{"dir", "file"} {
				d, l := attack(m.Path(dir))
				done, leaked = done+d, leaked+l
			}
		}
	})
	select {
	case <-ended:
	case <-time.After(time.Until(deadline) + patience):
		t.Fatal("the client hangs")
	}
	close(stop)
	swapping.Wait()
	v.check(t)
	if leaked > 0 {
		t.Errorf("the client read the secret %d times", leaked)
	}
	if done == 0 {
		t.Error("no operation of the client succeeded, so nothing was tested")
	}
}

// plant puts a file that anybody may write.
func plant(t *testing.T, path string) {
	t.Helper()
	if err := os.WriteFile(path, []byte("inside"), 0o666); err != nil {
		t.Fatal(err)
	}
	if err := os.Chmod(path, 0o666); err != nil {
		t.Fatal(err)
	}
}

// swapForLink lets path be itself and a link to target by turns, around the mount.
func swapForLink(path, target string, stop <-chan struct{}) {
	aside := path + ".aside"
	for {
		select {
		case <-stop:
			return
		default:
		}
		// The client may move things as well, so nothing here has to succeed.
		if os.Rename(path, aside) == nil {
			_ = os.Symlink(target, path)
			_ = os.Remove(path)
		}
		_ = os.Rename(aside, path)
	}
}

// attack does everything a client can do to the secret in dir and counts what
// succeeded, and how often the secret was read.
func attack(dir string) (done, leaked int) {
	at := func(name string) string { return filepath.Join(dir, name) }
	secret, own := at("secret"), at("own")
	if b, err := os.ReadFile(secret); err == nil {
		done++
		if string(b) == "secret" {
			leaked++
		}
	}
	for _, err := range []error{
		closing(unix.Open(secret, unix.O_WRONLY|unix.O_TRUNC, 0)),
		os.WriteFile(secret, []byte("inside"), 0o666),
		unix.Truncate(secret, 3),
		unix.Chmod(secret, 0o666),
		unix.Lsetxattr(secret, "user.x", []byte("x"), 0),
		os.WriteFile(own, []byte("mine"), 0o644),
		unix.Link(own, at("linked")),
		unix.Symlink("nowhere", at("symlink")),
		unix.Mkdir(at("sub"), 0o755),
		unix.Rename(own, at("renamed")),
		unix.Rmdir(at("sub")),
		unix.Unlink(at("symlink")),
		unix.Unlink(at("linked")),
		unix.Unlink(at("renamed")),
	} {
		if err == nil {
			done++
		}
	}
	return done, leaked
}

// TestNoEscapeByDotDot climbs as far as names allow; a client sees the mount's
// parent, and never the data directory's.
func TestNoEscapeByDotDot(t *testing.T) {
	needsLatchfs(t)
	m := mount(t)
	for _, name := range []string{"..", "sub/../..", ".locks/..", ".locks/../.."} {
		if err := os.MkdirAll(m.Path("sub"), 0o755); err != nil {
			t.Fatal(err)
		}
		var got, want unix.Stat_t
		if err := unix.Stat(m.Dir+"/"+name, &got); err != nil {
			t.Errorf("%s: %v", name, err)
			continue
		}
		clean := filepath.Clean(m.Dir + "/" + name)
		if err := unix.Stat(clean, &want); err != nil {
			t.Fatal(err)
		}
		if got.Dev != want.Dev || got.Ino != want.Ino {
			t.Errorf("%s is not %s", name, clean)
		}
	}
}
