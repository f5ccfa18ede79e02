package datadir

import (
	"errors"
	"fmt"
	"os"
	"path/filepath"
	"slices"
	"strings"
	"testing"
	"testing/synctest"
	"time"

	"golang.org/x/sys/unix"

	"latchfs/journal/commit"
	"latchfs/journal/statedir"
)

// warnings are what an operator was told.
type warnings []string

func (w *warnings) warnf(format string, a ...any) { *w = append(*w, fmt.Sprintf(format, a...)) }

func directory(t *testing.T) string {
	t.Helper()
	dir, err := filepath.EvalSymlinks(t.TempDir())
	if err != nil {
		t.Fatal(err)
	}
	return dir
}

func open(t *testing.T, path, mountpoint string) (*Dir, *warnings, error) {
	t.Helper()
	w := &warnings{}
	d, err := Open(Config{Path: path, Mountpoint: mountpoint, LocksDir: ".locks", Warnf: w.warnf})
	if err == nil {
		t.Cleanup(func() { unix.Close(d.FD) })
	}
	return d, w, err
}

func mustOpen(t *testing.T, path string) (*Dir, *warnings) {
	t.Helper()
	d, w, err := open(t, path, path)
	if err != nil {
		t.Fatal(err)
	}
	return d, w
}

func mkdirs(t *testing.T, dirs ...string) {
	t.Helper()
	for _, d := range dirs {
		if err := os.MkdirAll(d, 0o755); err != nil {
			t.Fatal(err)
		}
	}
}

func write(t *testing.T, path, text string) {
	t.Helper()
	if err := os.WriteFile(path, []byte(text), 0o600); err != nil {
		t.Fatal(err)
	}
}

// Paths come back absolute and without links, and the directory is the one that was meant.
func TestOpen(t *testing.T) {
	at := directory(t)
	mkdirs(t, at+"/data/sub", at+"/mnt")
	for link, target := range map[string]string{"relative": "data", "absolute": at + "/data", "over": "data/sub/../../relative"} {
		if err := os.Symlink(target, filepath.Join(at, link)); err != nil {
			t.Fatal(err)
		}
	}
	var want unix.Stat_t
	if err := unix.Stat(at+"/data", &want); err != nil {
		t.Fatal(err)
	}
	t.Chdir(at)
	for _, path := range []string{at + "/data", "data", "./mnt/../data/", "relative", "absolute", "over", at + "//over/."} {
		d, w, err := open(t, path, "mnt")
		if err != nil {
			t.Errorf("%s: %v", path, err)
			continue
		}
		var is unix.Stat_t
		if err := unix.Fstat(d.FD, &is); err != nil || is.Ino != want.Ino {
			t.Errorf("%s is inode %d, %v; want %d", path, is.Ino, err, want.Ino)
		}
		if d.Path != at+"/data" || d.Mountpoint != at+"/mnt" || d.Dev != uint64(want.Dev) || len(*w) > 0 {
			t.Errorf("%s is %+v, %q", path, d, *w)
		}
	}
}

// What cannot be mounted is refused for a reason that names it.
func TestOpenRefuses(t *testing.T) {
	at := directory(t)
	mkdirs(t, at+"/data/sub", at+"/mnt", at+"/taken/.locks")
	write(t, at+"/file", "")
	for link, target := range map[string]string{"loop": "loop", "nowhere": "missing"} {
		if err := os.Symlink(target, filepath.Join(at, link)); err != nil {
			t.Fatal(err)
		}
	}
	for name, c := range map[string]struct {
		path, mountpoint string
		want             error
		says             string
	}{
		"no directory":                   {at + "/file", at + "/mnt", ErrNotDirectory, "/file"},
		"a mountpoint that is none":      {at + "/data", at + "/file", ErrNotDirectory, "/file"},
		"missing":                        {at + "/missing", at + "/mnt", os.ErrNotExist, "/missing"},
		"a link to nothing":              {at + "/nowhere", at + "/mnt", os.ErrNotExist, "/missing"},
		"links in a circle":              {at + "/loop", at + "/mnt", unix.ELOOP, "/loop"},
		"a mountpoint inside":            {at + "/data", at + "/data/sub", ErrBadOption, "lies inside the data directory"},
		"a data directory inside":        {at + "/data/sub", at + "/data", ErrBadOption, "lies inside the mountpoint"},
		"an entry of the locks' name":    {at + "/taken", at + "/taken", ErrReservedName, "--locks-dir"},
		"a directory below a file's":     {at + "/file/sub", at + "/mnt", unix.ENOTDIR, "/file/sub"},
		"a mountpoint that is not there": {at + "/data", at + "/missing", os.ErrNotExist, "/missing"},
	} {
		if _, _, err := open(t, c.path, c.mountpoint); !errors.Is(err, c.want) || !strings.Contains(err.Error(), c.says) {
			t.Errorf("%s: %v; want %v and %q", name, err, c.want, c.says)
		}
	}
}

// A neighbour whose name begins alike lies not inside.
func TestNeighbourIsNotInside(t *testing.T) {
	at := directory(t)
	mkdirs(t, at+"/data", at+"/data2")
	if _, _, err := open(t, at+"/data", at+"/data2"); err != nil {
		t.Error(err)
	}
	if !inside("/anything", "/") || inside("/data", "/data") {
		t.Error("/ holds not everything, or a directory itself")
	}
}

// Root is not led by the links of others.
func TestLinkOfAnother(t *testing.T) {
	if os.Geteuid() != 0 {
		t.Skip("takes root, whom others must not lead")
	}
	at := directory(t)
	mkdirs(t, at+"/data")
	link := at + "/link"
	if err := os.Symlink("data", link); err != nil {
		t.Fatal(err)
	}
	if _, _, err := open(t, link, link); err != nil {
		t.Errorf("one's own: %v", err)
	}
	if err := os.Lchown(link, 62001, 62001); err != nil {
		t.Fatal(err)
	}
	if _, _, err := open(t, link, link); !errors.Is(err, ErrBadOption) || !strings.Contains(err.Error(), "user 62001") {
		t.Errorf("another's: %v", err)
	}
}

// openState opens the state directory until the test ends.
func openState(t *testing.T, d *Dir) error {
	t.Helper()
	err := d.OpenState()
	if d.State != nil {
		t.Cleanup(func() { d.State.Close() })
	}
	return err
}

// A new state directory is its owner's alone, hidden from git, and bears this process's id.
func TestNewState(t *testing.T) {
	at := directory(t)
	d, w := mustOpen(t, at)
	if err := openState(t, d); err != nil || len(*w) > 0 {
		t.Fatalf("%v, %q", err, *w)
	}
	state := filepath.Join(at, commit.StateDirName)
	var st unix.Stat_t
	if err := unix.Stat(state, &st); err != nil || st.Mode&0o7777 != 0o700 || st.Ino != d.StateIno || uint64(st.Dev) != d.StateDev {
		t.Errorf("%v, %o, inode %d of device %d; opened was %d of %d", err, st.Mode, st.Ino, st.Dev, d.StateIno, d.StateDev)
	}
	for name, want := range map[string]string{commit.IgnoreName: "*\n", commit.LockName: fmt.Sprintf("%d\n", os.Getpid())} {
		if b, err := os.ReadFile(filepath.Join(state, name)); err != nil || string(b) != want {
			t.Errorf("%s holds %q, %v; want %q", name, b, err, want)
		}
	}
	if names, err := d.State.Readdirnames(-1); err != nil || !slices.Contains(names, commit.LockName) {
		t.Errorf("the opened directory lists %q, %v", names, err)
	}
}

// A directory of that name that somebody else has made is refused, and stays as it is.
func TestForeignState(t *testing.T) {
	at := directory(t)
	state := filepath.Join(at, commit.StateDirName)
	mkdirs(t, state)
	write(t, filepath.Join(state, "precious"), "theirs")
	d, _ := mustOpen(t, at)
	if err := openState(t, d); !errors.Is(err, ErrReservedName) || !strings.Contains(err.Error(), "was not made by latchfs") {
		t.Errorf("%v", err)
	}
	if list, err := os.ReadDir(state); err != nil || len(list) != 1 {
		t.Errorf("there are %v now, %v", list, err)
	}
	if os.Geteuid() != 0 {
		return
	}
	at = directory(t)
	mkdirs(t, filepath.Join(at, commit.StateDirName))
	if err := os.Chown(filepath.Join(at, commit.StateDirName), 62001, 62001); err != nil {
		t.Fatal(err)
	}
	d, _ = mustOpen(t, at)
	if err := openState(t, d); !errors.Is(err, ErrReservedName) || !strings.Contains(err.Error(), "rename it") {
		t.Errorf("another user's: %v", err)
	}
}

// What an owner has put into .gitignore stays, rights that are too wide do not.
func TestOwnState(t *testing.T) {
	at := directory(t)
	state := filepath.Join(at, commit.StateDirName)
	mkdirs(t, state)
	write(t, filepath.Join(state, commit.LockName), "")
	write(t, filepath.Join(state, commit.IgnoreName), "mine\n")
	if err := os.Chmod(state, 0o755); err != nil {
		t.Fatal(err)
	}
	d, _ := mustOpen(t, at)
	if err := openState(t, d); err != nil {
		t.Fatal(err)
	}
	if b, err := os.ReadFile(filepath.Join(state, commit.IgnoreName)); err != nil || string(b) != "mine\n" {
		t.Errorf(".gitignore holds %q, %v", b, err)
	}
	if st, err := os.Stat(state); err != nil || st.Mode().Perm() != 0o700 {
		t.Errorf("%v, %v", st.Mode(), err)
	}
}

// A second daemon waits a moment for the first to end, and is told then who it is.
func TestStateInUse(t *testing.T) {
	at := directory(t)
	first, _ := mustOpen(t, at)
	if err := openState(t, first); err != nil {
		t.Fatal(err)
	}
	synctest.Test(t, func(t *testing.T) {
		second, _ := mustOpen(t, at)
		began := time.Now()
		err := openState(t, second)
		if !errors.Is(err, ErrInUse) || !strings.Contains(err.Error(), fmt.Sprintf("pid %d", os.Getpid())) {
			t.Errorf("%v", err)
		}
		if waited := time.Since(began); waited < endingGrace || waited > 2*endingGrace {
			t.Errorf("it waited for %v", waited)
		}
	})
}

// Where others could do it, a state directory that was taken away is told of, and a new one
// begun; a former one that was put in the place of the last is refused.
func TestReplacedState(t *testing.T) {
	if os.Geteuid() != 0 {
		t.Skip("takes root, whose state others could replace")
	}
	at := directory(t)
	if err := os.Chmod(at, 0o777); err != nil {
		t.Fatal(err)
	}
	state := filepath.Join(at, commit.StateDirName)
	d, w := mustOpen(t, at)
	if err := openState(t, d); err != nil || len(*w) > 0 {
		t.Fatalf("%v, %q", err, *w)
	}
	d, w = mustOpen(t, at)
	if err := os.Rename(state, at+"/former"); err != nil {
		t.Fatal(err)
	}
	if err := openState(t, d); err != nil || len(*w) != 1 || !strings.Contains((*w)[0], "a new one is begun") {
		t.Fatalf("it was taken away: %v, %q", err, *w)
	}
	if err := os.RemoveAll(state); err != nil {
		t.Fatal(err)
	}
	if err := os.Rename(at+"/former", state); err != nil {
		t.Fatal(err)
	}
	lock := filepath.Join(state, commit.LockName)
	if err := os.Remove(lock); err != nil { // this process has locked it
		t.Fatal(err)
	}
	write(t, lock, "")
	d, _ = mustOpen(t, at)
	if err := openState(t, d); !errors.Is(err, ErrReservedName) || !errors.Is(err, statedir.ErrReplaced) || !strings.Contains(err.Error(), "--trust-state "+at) {
		t.Errorf("a former one is there: %v", err)
	}
	d.Vouch()
	d, _ = mustOpen(t, at)
	synctest.Test(t, func(t *testing.T) { // the lock is this process's now
		if err := openState(t, d); errors.Is(err, statedir.ErrReplaced) {
			t.Errorf("it was vouched for: %v", err)
		}
	})
}

// The owner of the data directory is named, by number where there is no name.
func TestOwnerName(t *testing.T) {
	at := directory(t)
	d, _ := mustOpen(t, at)
	if name := d.ownerName(); name == "its owner" || !strings.HasSuffix(name, ", its owner,") {
		t.Errorf("%q", name)
	}
	if os.Geteuid() != 0 {
		return
	}
	if err := os.Chown(at, 62001, 62001); err != nil {
		t.Fatal(err)
	}
	if name := d.ownerName(); name != "user 62001, its owner," {
		t.Errorf("%q", name)
	}
}
