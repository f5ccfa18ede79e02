package mounts

import (
	"errors"
	"fmt"
	"os"
	"path/filepath"
	"testing"

	"golang.org/x/sys/unix"
)

// needsMounts skips a test that mounts where nothing can be mounted.
func needsMounts(t *testing.T) {
	t.Helper()
	if os.Geteuid() != 0 {
		t.Skip("only root mounts")
	}
}

// mount mounts something until the test ends.
func mount(t *testing.T, source, at, fstype string, flags uintptr, data string) {
	t.Helper()
	if err := unix.Mount(source, at, fstype, flags, data); err != nil {
		t.Fatalf("mount %s: %v", at, err)
	}
	t.Cleanup(func() { _ = unix.Unmount(at, unix.MNT_DETACH) })
}

// connection is a mount of latchfs without a daemon: it is dead when its descriptor is closed.
func connection(t *testing.T, source, at string) (end func()) {
	t.Helper()
	return connectionOf(t, FSType, source, at)
}

func connectionOf(t *testing.T, fstype, source, at string) (end func()) {
	t.Helper()
	fd, err := unix.Open("/dev/fuse", unix.O_RDWR|unix.O_CLOEXEC, 0)
	if err != nil {
		t.Skip("/dev/fuse: ", err)
	}
	mount(t, source, at, fstype, 0, fmt.Sprintf("fd=%d,rootmode=40000,user_id=0,group_id=0", fd))
	return func() { unix.Close(fd) }
}

func directory(t *testing.T) string {
	t.Helper()
	dir, err := filepath.EvalSymlinks(t.TempDir())
	if err != nil {
		t.Fatal(err)
	}
	return dir
}

func TestFind(t *testing.T) {
	needsMounts(t)
	dir := directory(t)
	if i, err := Find(dir); err != nil || i != nil {
		t.Fatalf("a plain directory: %v, %v", i, err)
	}
	mount(t, "first", dir, "tmpfs", 0, "")
	mount(t, "second", dir, "tmpfs", 0, "")
	if i, err := Find(dir); err != nil || i == nil || i.Source != "second" {
		t.Fatalf("two mounts: %+v, %v; want the second", i, err)
	}
	if err := Detach(dir); err != nil {
		t.Fatal(err)
	}
	if i, err := Find(dir); err != nil || i == nil || i.Source != "first" {
		t.Fatalf("one is detached: %+v, %v; want the first", i, err)
	}
}

// A path lies on the topmost of the mounts on the last directory of the way to it that has one.
func TestOn(t *testing.T) {
	needsMounts(t)
	dir := directory(t)
	below := dir + "/a"
	if err := os.Mkdir(below, 0o700); err != nil {
		t.Fatal(err)
	}
	on := func(path, want string) {
		t.Helper()
		if i, err := On(path); err != nil || i == nil || i.Source != want {
			t.Errorf("%s lies on %+v, %v; want %s", path, i, err, want)
		}
	}
	around, err := On(dir)
	if err != nil || around == nil {
		t.Fatalf("a plain directory: %v, %v", around, err)
	}
	mount(t, "first", below, "tmpfs", 0, "")
	on(dir, around.Source)
	on(below, "first")
	on(below+"/deep/down", "first")
	on(below+"bove", around.Source)
	mount(t, "second", below, "tmpfs", 0, "")
	on(below+"/deep", "second")
}

// A dead mount of latchfs is taken away; another filesystem, and a plain directory, are left.
func TestClear(t *testing.T) {
	needsMounts(t)
	dir := directory(t)
	if err := Clear(dir); err != nil {
		t.Fatalf("a plain directory: %v", err)
	}
	mount(t, "other", dir, "tmpfs", 0, "")
	if err := Clear(dir); err != nil {
		t.Fatalf("another filesystem: %v", err)
	}
	end := connection(t, "data", dir)
	end()
	second := connection(t, "data", dir)
	second()
	if err := Clear(dir); err != nil {
		t.Fatalf("two dead mounts: %v", err)
	}
	if i, err := Find(dir); err != nil || i == nil || i.Source != "other" {
		t.Errorf("what is left is %+v, %v; want the other filesystem", i, err)
	}
}

func TestClearDead(t *testing.T) {
	needsMounts(t)
	dir := directory(t)
	for _, err := range []error{nil, unix.ENOENT, unix.EACCES, unix.ENOTCONN} {
		if cleared, e := ClearDead(dir, err); cleared || e != nil {
			t.Errorf("a plain directory, %v: %t, %v", err, cleared, e)
		}
	}
	end := connection(t, "data", dir)
	if cleared, err := ClearDead(dir, unix.EACCES); cleared || err != nil {
		t.Errorf("a living mount: %t, %v", cleared, err)
	}
	end()
	_, err := os.Stat(dir)
	if !IsDead(err) {
		t.Fatalf("stat of a dead mount: %v", err)
	}
	if cleared, err := ClearDead(dir, err); !cleared || err != nil {
		t.Errorf("a dead mount: %t, %v", cleared, err)
	}
	if i, err := Find(dir); i != nil || err != nil {
		t.Errorf("it is still there: %+v, %v", i, err)
	}
	connectionOf(t, "fuse.other", "data", dir)()
	if cleared, err := ClearDead(dir, unix.ENOTCONN); cleared || err != nil {
		t.Errorf("another's dead mount: %t, %v", cleared, err)
	}
}

func TestIsDead(t *testing.T) {
	for err, want := range map[error]bool{
		unix.ENOTCONN: true, unix.ECONNABORTED: true, &os.PathError{Op: "stat", Path: "x", Err: unix.ENOTCONN}: true,
		unix.EIO: false, nil: false, errors.New("ENOTCONN"): false,
	} {
		if IsDead(err) != want {
			t.Errorf("IsDead(%v) is %t", err, !want)
		}
	}
}

// Only a mount of latchfs shows a data directory, by its source.
func TestShows(t *testing.T) {
	needsMounts(t)
	dir, data := directory(t), directory(t)
	mount(t, data, dir, "tmpfs", 0, "")
	if Shows(data) {
		t.Error("another filesystem shows it")
	}
	end := connection(t, data, dir)
	defer end()
	if !Shows(data) || Shows(dir) {
		t.Errorf("the source is shown: %t, the mountpoint: %t", Shows(data), Shows(dir))
	}
}

// A watch notices what is mounted below the mount, what of the mount is mounted elsewhere,
// and that it is no more.
func TestWatch(t *testing.T) {
	needsMounts(t)
	dir, elsewhere := directory(t), filepath.Join(directory(t), "file")
	mount(t, "watched", dir, "tmpfs", 0, "")
	for _, name := range []string{filepath.Join(dir, "below"), filepath.Join(dir, "bound"), elsewhere} {
		if err := os.WriteFile(name, nil, 0o600); err != nil {
			t.Fatal(err)
		}
	}
	i, err := Find(dir)
	if err != nil {
		t.Fatal(err)
	}
	w, err := NewWatch(dir, unix.Mkdev(uint32(i.Major), uint32(i.Minor)))
	if err != nil {
		t.Fatal(err)
	}
	defer w.Close()
	want := func(when string, below, bound bool) {
		t.Helper()
		if w.Covers("below") != below || w.Covers("bound") != bound || w.Covers("other") || w.Covers("") {
			t.Errorf("%s: below %t, bound %t, other %t, root %t", when, w.Covers("below"), w.Covers("bound"), w.Covers("other"), w.Covers(""))
		}
	}
	want("at first", false, false)
	mount(t, elsewhere, filepath.Join(dir, "below"), "", unix.MS_BIND, "")
	want("something is mounted on a file", true, false)
	mount(t, filepath.Join(dir, "bound"), elsewhere, "", unix.MS_BIND, "")
	want("a file is mounted elsewhere", true, true)
	for _, at := range []string{filepath.Join(dir, "below"), elsewhere} {
		if err := unix.Unmount(at, 0); err != nil {
			t.Fatal(err)
		}
	}
	want("at last", false, false)
	var none *Watch
	if none.Covers("below") {
		t.Error("no watch knows of a mount")
	}
	none.Close()
}
