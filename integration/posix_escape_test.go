package integration

import (
	"fmt"
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

// TestNoEscape swaps a directory and a file under the mount for symbolic links
// that lead out, around the mount and behind the kernel's back, which still
// remembers what they were. A client who is not root works on them: the kernel
// does not let him follow such links, and the daemon must not do it for him. By turns
// here; TestNoEscapeRacing as fast as it goes.
func TestNoEscape(t *testing.T) { noEscape(t, repeat(3, 1000), 0) }

func TestNoEscapeRacing(t *testing.T) {
	inStress(t)
	noEscape(t, 1, repeat(30, 5000))
}

func noEscape(t *testing.T, turns, racing int) {
	t.Helper()
	needsLatchfs(t)
	needsRoot(t)
	m := mount(t, withArgs("--durability", "ordered"))
	v := newVictim(t, m)
	for _, dir := range []string{"dir", "file"} {
		if err := os.Mkdir(filepath.Join(m.Data, dir), 0o777); err != nil {
			t.Fatal(err)
		}
		if err := os.Chmod(filepath.Join(m.Data, dir), 0o777); err != nil {
			t.Fatal(err)
		}
		plant(t, filepath.Join(m.Data, dir, "secret"))
	}
	swaps := []swap{
		{path: filepath.Join(m.Data, "dir"), target: v.dir},
		{path: filepath.Join(m.Data, "file", "secret"), target: v.secret()},
	}
	c := &intruder{dirs: []string{m.Path("dir"), m.Path("file")}}
	for range turns {
		c.attack(t)
		for _, s := range swaps {
			s.there()
		}
		c.attack(t)
		for _, s := range swaps {
			s.back()
		}
	}
	if racing > 0 {
		c.race(t, swaps, racing)
	}
	v.check(t)
	t.Logf("%d operations of the client succeeded", c.done)
	if c.leaked > 0 {
		t.Errorf("the client read the secret %d times", c.leaked)
	}
	if c.done == 0 {
		t.Error("no operation of the client succeeded, so nothing was tested")
	}
}

// race attacks while the names change as fast as they can.
func (c *intruder) race(t *testing.T, swaps []swap, times int) {
	t.Helper()
	stop := make(chan struct{})
	var swapping sync.WaitGroup
	for _, s := range swaps {
		swapping.Go(func() {
			for {
				select {
				case <-stop:
					return
				default:
					s.there()
					s.back()
				}
			}
		})
	}
	for range times {
		c.attack(t)
	}
	close(stop)
	swapping.Wait()
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

// swap is a name that is by turns itself and a link that leads out.
type swap struct{ path, target string }

// there makes it the link. The client moves things as well, so that nothing here
// has to succeed.
func (s swap) there() {
	if os.Rename(s.path, s.path+".aside") == nil {
		_ = os.Symlink(s.target, s.path)
	}
}

// back makes it what it was.
func (s swap) back() {
	if st, err := os.Lstat(s.path); err == nil && st.Mode()&os.ModeSymlink != 0 {
		_ = os.Remove(s.path)
	}
	_ = os.Rename(s.path+".aside", s.path)
}

// intruder is the client and what came of his attempts.
type intruder struct {
	dirs         []string
	round        int
	done, leaked int
}

// attack tries everything once in each directory, as a user who is not root.
func (c *intruder) attack(t *testing.T) {
	t.Helper()
	ended := make(chan struct{})
	onPrivateThread(testUID, func() {
		defer close(ended)
		for _, dir := range c.dirs {
			d, l := attack(dir, c.round)
			c.done, c.leaked, c.round = c.done+d, c.leaked+l, c.round+1
		}
	})
	select {
	case <-ended:
	case <-time.After(patience):
		t.Fatal("the client hangs")
	}
}

// attack does everything a client can do to the secret in dir and beside it,
// leaves what it makes where it made it, and counts what succeeded and how often
// the secret was read.
func attack(dir string, round int) (done, leaked int) {
	at := func(name string) string { return filepath.Join(dir, fmt.Sprint(name, round)) }
	secret := filepath.Join(dir, "secret")
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
		os.WriteFile(at("own"), []byte("mine"), 0o644),
		unix.Link(at("own"), at("linked")),
		unix.Symlink("nowhere", at("symlink")),
		unix.Mkdir(at("sub"), 0o755),
		unix.Mkfifo(at("fifo"), 0o644),
		unix.Rename(at("own"), at("renamed")),
		unix.Rename(at("renamed"), secret),
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
