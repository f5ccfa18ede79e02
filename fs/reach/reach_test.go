package reach

import (
	"encoding/binary"
	"errors"
	"fmt"
	"os"
	"path/filepath"
	"strings"
	"testing"

	"golang.org/x/sys/unix"

	"latchfs/fs/access"
	"latchfs/fs/lockkey"
	"latchfs/fs/report"
	"latchfs/lockmgr"
)

// The files of these tests are the tester's. Others are made up: a user of none of its
// groups, and one whose group they have.
var (
	owner    = &access.User{UID: ownUID(), All: true}
	stranger = &access.User{UID: ownUID() + 7, GIDs: []uint32{uint32(os.Getegid()) + 7}, All: true}
	mate     = &access.User{UID: ownUID() + 8, GIDs: []uint32{uint32(os.Getegid())}, All: true}
	root     = &access.User{}
)

// ownUID is that of the files.
func ownUID() uint32 { return uint32(os.Geteuid()) }

// tree makes a root with files and, with a slash at their end, directories.
func tree(t *testing.T, modes map[string]os.FileMode) (Root, string) {
	t.Helper()
	dir := t.TempDir()
	must(t, os.Chmod(dir, 0o755))
	for p := range modes {
		at := filepath.Join(dir, p)
		must(t, os.MkdirAll(filepath.Dir(at), 0o755))
		if strings.HasSuffix(p, "/") {
			must(t, os.MkdirAll(at, 0o755))
		} else {
			must(t, os.WriteFile(at, []byte("x"), 0o600))
		}
	}
	for p, mode := range modes {
		must(t, os.Chmod(filepath.Join(dir, p), mode))
	}
	fd, err := unix.Open(dir, unix.O_PATH|unix.O_DIRECTORY, 0)
	must(t, err)
	t.Cleanup(func() {
		unix.Close(fd)
		_ = filepath.Walk(dir, func(p string, _ os.FileInfo, _ error) error { return os.Chmod(p, 0o700) })
	})
	return Root{FD: fd}, dir
}

func must(t *testing.T, err error) {
	t.Helper()
	if err != nil {
		t.Fatal(err)
	}
}

func TestMayReach(t *testing.T) {
	r, dir := tree(t, map[string]os.FileMode{
		"open/": 0o755, "open/private": 0o600, "open/shared": 0o640, "open/public": 0o666,
		"closed/": 0o700, "closed/public": 0o666, "closed/sub/": 0o755, "closed/sub/public": 0o666, "group/": 0o750, "group/public": 0o666,
		"common/": 0o777, "sticky/": 0o777 | os.ModeSticky,
	})
	for _, link := range []string{"common/link", "sticky/link", "open/link"} {
		must(t, os.Symlink("public", filepath.Join(dir, link)))
	}
	for _, c := range []struct {
		u    *access.User
		path string
		bits uint32
		want unix.Errno
	}{
		{owner, "open/private", access.Write, 0},
		{stranger, "open/private", access.Read, unix.EACCES},
		{root, "open/private", access.Write, 0},
		{mate, "open/shared", access.Read, 0},
		{mate, "open/shared", access.Write, unix.EACCES},
		{stranger, "open/shared", access.Read, unix.EACCES},
		{stranger, "open/public", access.Write, 0},
		{stranger, "closed/public", access.Write, unix.EACCES},
		{stranger, "closed/sub/public", access.Write, unix.EACCES},
		{mate, "group/public", access.Write, 0},
		{stranger, "group/public", access.Write, unix.EACCES},
		{root, "closed/public", access.Write, 0},

		// What is not there yet is its directory's.
		{stranger, "common/new", access.Read, 0},
		{stranger, "open/new", access.Read, unix.EACCES},
		{owner, "open/new", access.Read, 0},
		{owner, "none/new", access.Read, unix.ENOENT},
		{owner, "open/public/new", access.Read, unix.ENOTDIR},
		{owner, "", access.Read, 0},
		{stranger, "", access.Read, unix.EACCES},

		// A symbolic link is not followed: whoever may replace it may lock its name.
		{stranger, "common/link", access.Write, 0},
		{stranger, "sticky/link", access.Write, unix.EACCES},
		{owner, "sticky/link", access.Write, 0},
		{stranger, "open/link", access.Write, unix.EACCES},
		{owner, "open/link/below", access.Write, unix.ENOTDIR},
	} {
		if got := r.MayReach(c.u, c.path, c.bits); got != c.want {
			t.Errorf("user %d, %q, %o: %v, want %v", c.u.UID, c.path, c.bits, got, c.want)
		}
	}
}

func TestMayLock(t *testing.T) {
	r, _ := tree(t, map[string]os.FileMode{"public": 0o666, "readable": 0o644, "private": 0o600, "d/": 0o777, "d/f": 0o666})
	paths := func(p ...string) *lockkey.Target { return &lockkey.Target{Paths: p} }
	trees := func(p ...string) *lockkey.Target { return &lockkey.Target{Trees: p} }
	for _, c := range []struct {
		u        *access.User
		t        *lockkey.Target
		mode     lockmgr.Mode
		weak, ok bool
	}{
		{owner, paths("public", "private"), lockmgr.Exclusive, false, true},
		{stranger, paths("public"), lockmgr.Exclusive, false, true},
		{stranger, paths("readable"), lockmgr.Exclusive, false, false},
		{stranger, paths("readable"), lockmgr.Update, false, false},
		{stranger, paths("readable"), lockmgr.Shared, true, true},
		{stranger, paths("public", "readable"), lockmgr.Shared, true, true},
		{stranger, paths("public"), lockmgr.Shared, false, true},
		{stranger, paths("private"), lockmgr.Shared, false, false},
		{stranger, paths("public", "private"), lockmgr.Shared, false, false},
		{owner, trees("d"), lockmgr.Exclusive, false, true},
		{root, trees(""), lockmgr.Exclusive, false, true},
		// Anybody may write in it, and yet it is the owner's.
		{stranger, trees("d"), lockmgr.Shared, false, false},
		// A tree that is a file, or to be made, is like one.
		{stranger, trees("d/f"), lockmgr.Exclusive, false, true},
		{stranger, trees("d/new"), lockmgr.Exclusive, false, true},
		{stranger, trees("new"), lockmgr.Exclusive, false, false},
		{stranger, trees("none/new"), lockmgr.Exclusive, false, false},
		{stranger, &lockkey.Target{Names: []string{"n"}}, lockmgr.Exclusive, false, true},
	} {
		weak, err := r.MayLock(c.u, c.t, c.mode)
		if err == nil && weak != c.weak || (err == nil) != c.ok {
			t.Errorf("user %d, %+v, %v: weak %v, %v", c.u.UID, *c.t, c.mode, weak, err)
		}
		if err != nil && !errors.Is(err, unix.EACCES) && !errors.Is(err, unix.ENOENT) {
			t.Errorf("%v is no errno", err)
		}
	}
}

func TestStat(t *testing.T) {
	r, _ := tree(t, map[string]os.FileMode{"f": 0o644, "closed/": 0o700, "closed/f": 0o644})
	for _, c := range []struct {
		u     *access.User
		path  string
		found bool
		kind  uint32
		want  unix.Errno
	}{
		{owner, "f", true, unix.S_IFREG, 0},
		{stranger, "f", true, unix.S_IFREG, 0},
		{owner, "new", false, unix.S_IFDIR, 0},
		{owner, "", true, unix.S_IFDIR, 0},
		{nil, "closed/f", true, unix.S_IFREG, 0},
		{stranger, "closed/f", false, 0, unix.EACCES},
		{owner, "f/x", false, 0, unix.ENOTDIR},
	} {
		st, found, e := r.Stat(c.u, c.path)
		if found != c.found || e != c.want || e == 0 && st.Mode&unix.S_IFMT != c.kind {
			t.Errorf("%q: %v, %v, mode %o", c.path, found, e, st.Mode)
		}
		if got := r.Exists(c.path); c.u != stranger && got != (c.found && c.want == 0) {
			t.Errorf("%q exists: %v", c.path, got)
		}
	}
	st := unix.Stat_t{Uid: owner.UID}
	if !Owns(owner, &st) || !Owns(root, &st) || Owns(stranger, &st) {
		t.Error("whose the file is")
	}
}

// No path leads outside, and no link is followed on the way.
func TestNothingLeadsOutside(t *testing.T) {
	r, dir := tree(t, map[string]os.FileMode{"d/f": 0o644})
	must(t, os.Symlink(dir, filepath.Join(dir, "out")))
	must(t, os.Symlink("d", filepath.Join(dir, "in")))
	for path, want := range map[string]unix.Errno{
		"d/f": 0, "../" + filepath.Base(dir): unix.EXDEV, "out/d/f": unix.ELOOP, "in/f": unix.ELOOP, "d/none": unix.ENOENT, "/etc": unix.EXDEV,
	} {
		fd, e := r.Open(path, unix.O_PATH)
		if e != want {
			t.Errorf("%q: %v, want %v", path, e, want)
		}
		if e == 0 {
			unix.Close(fd)
		}
	}
	if fd, e := r.OpenDir(""); e != 0 {
		t.Error(e)
	} else {
		unix.Close(fd)
	}
	if fd, e := r.OpenDir("d/f"); e != unix.ENOTDIR {
		t.Errorf("a file is opened as a directory: %d, %v", fd, e)
	}
	if fd, e := r.OpenParent(nil, "in/f"); e != unix.ENOTDIR {
		t.Errorf("a link is followed: %d, %v", fd, e)
	}
}

// A right that an ACL gives counts, and one that cannot be read gives none.
func TestACL(t *testing.T) {
	r, dir := tree(t, map[string]os.FileMode{"f": 0o640})
	at := filepath.Join(dir, "f")
	acl := binary.LittleEndian.AppendUint32(nil, 2) // version
	for _, e := range [][3]uint32{{0x01, 6, ^uint32(0)}, {0x02, 6, stranger.UID}, {0x04, 0, ^uint32(0)}, {0x10, 6, ^uint32(0)}, {0x20, 0, ^uint32(0)}} {
		acl = binary.LittleEndian.AppendUint16(acl, uint16(e[0]))
		acl = binary.LittleEndian.AppendUint16(acl, uint16(e[1]))
		acl = binary.LittleEndian.AppendUint32(acl, e[2])
	}
	if e := r.MayReach(stranger, "f", access.Write); e != unix.EACCES {
		t.Errorf("without the ACL: %v", e)
	}
	fd, err := unix.Open(at, unix.O_PATH, 0)
	must(t, err)
	defer unix.Close(fd)
	if HasACL(fd) {
		t.Error("it has an ACL before it has one")
	}
	if err := unix.Setxattr(at, ACLAttr, acl, 0); errors.Is(err, unix.EOPNOTSUPP) {
		t.Skip("the filesystem has no ACLs")
	} else if err != nil {
		t.Fatal(err)
	}
	st, up := stat(t, at), openDir(t, dir)
	if st.Mode&0o777 != 0o660 {
		t.Fatalf("with the ACL its mode is %o", st.Mode)
	}
	if WithoutACL(up, "f", st); st.Mode&0o777 != 0o600 {
		t.Errorf("without the ACL its mode would be %o: the group has no rights", st.Mode)
	}
	acl[4+2*8+2] = 7 // the group's own
	must(t, unix.Setxattr(at, ACLAttr, acl, 0))
	if st = stat(t, at); st.Mode&0o777 != 0o660 {
		t.Fatalf("its mode is %o", st.Mode)
	}
	if WithoutACL(up, "f", st); st.Mode&0o777 != 0o660 {
		t.Errorf("without the ACL its mode would be %o: the group has what the mask lets through", st.Mode)
	}
	if WithoutACL(-1, "f", st); st.Mode&0o777 != 0o600 {
		t.Errorf("where the ACL cannot be read its mode would be %o", st.Mode)
	}
	acl[4+2*8+2] = 0
	must(t, unix.Setxattr(at, ACLAttr, acl, 0))
	if e := r.MayReach(stranger, "f", access.Write); e != 0 {
		t.Errorf("with the ACL: %v", e)
	}
	if e := r.MayReach(mate, "f", access.Read); e != unix.EACCES {
		t.Errorf("the group has no rights by the ACL: %v", e)
	}
	if !HasACL(fd) || !HasACL(-1) {
		t.Error("an ACL is not seen, or what cannot be looked at has none")
	}
	if May(stranger, -1, access.Read) {
		t.Error("what is not open may be read")
	}
}

func stat(t *testing.T, name string) *unix.Stat_t {
	t.Helper()
	var st unix.Stat_t
	must(t, unix.Lstat(name, &st))
	return &st
}

func openDir(t *testing.T, name string) int {
	t.Helper()
	fd, err := unix.Open(name, unix.O_PATH, 0)
	must(t, err)
	t.Cleanup(func() { unix.Close(fd) })
	return fd
}

func viewer(u *access.User) report.Viewer {
	return report.Viewer{UID: u.UID, GIDs: u.GIDs, AllGroups: u.All, Privileged: u == root}
}

func TestLook(t *testing.T) {
	r, dir := tree(t, map[string]os.FileMode{
		"f": 0o600, "closed/": 0o700, "closed/sub/": 0o755, "closed/sub/f": 0o644, "open/": 0o755, "open/f": 0o644, "open/private": 0o600,
	})
	must(t, os.Symlink("open", filepath.Join(dir, "link")))
	look := r.LookOf(viewer(stranger))
	for path, want := range map[string]bool{
		"f": true, "new": true, "open/f": true, "open/none": true, "closed": true, "closed/f": false, "closed/sub/f": false,
		"closed/none/f": false, "//inode/1:2": true, "link/f": false, "gone/f": false, "gone/deep/f": false, "open/f/x": false,
	} {
		if got := look.Sees(path, owner.UID); got != want {
			t.Errorf("a stranger sees %q: %v", path, got)
		}
	}
	for path, want := range map[string]bool{"gone/f": true, "gone/deep/f": true, "closed/f": false} {
		if got := look.Sees(path, stranger.UID); got != want {
			t.Errorf("a stranger sees what it has done to %q: %v", path, got)
		}
	}
	if all := r.LookOf(viewer(root)); !all.Sees("closed/f", 1) || !all.Sees("gone/f", 1) || all.Way("closed/sub") != All {
		t.Error("root does not see everything")
	}
	for path, want := range map[string]Readable{
		"open/f": ReadYes, "open/private": ReadNo, "open/none": ReadGone, "open": ReadGone, "link": ReadGone, "open/f/x": ReadGone, "f": ReadNo,
	} {
		if got := look.ReadsNow(path); got != want {
			t.Errorf("%q is readable: %d, want %d", path, got, want)
		}
	}
	if look.Viewer().UID != stranger.UID || look.User().UID != stranger.UID {
		t.Error("who looks")
	}

	// What was found out stands until a directory is closed, opened, made or removed.
	if !look.Stands() {
		t.Error("nothing has changed, and the look does not stand")
	}
	if got := look.Way("closed/sub"); got != Denied {
		t.Errorf("the way into a closed directory: %d", got)
	}
	must(t, os.Chmod(filepath.Join(dir, "closed"), 0o755))
	if look.Stands() {
		t.Error("a directory was opened, and the look stands")
	}
	if look.Sees("closed/f", owner.UID) || !r.LookOf(viewer(stranger)).Sees("closed/f", owner.UID) {
		t.Error("a look does not remember, or a new one does")
	}
	must(t, os.Remove(filepath.Join(dir, "open/f")))
	if look.ReadsNow("open/f") != ReadYes {
		t.Error("a look forgets what it has found out")
	}
}

func TestDir(t *testing.T) {
	for path, want := range map[string]string{"a/b/c": "a/b", "a": "", "": ""} {
		if got := Dir(path); got != want {
			t.Errorf("the directory of %q is %q", path, got)
		}
	}
}

// What a look remembers has a bound, and a look that has forgotten something does not
// say that all it has said still stands.
func TestLooksAreBounded(t *testing.T) {
	r, _ := tree(t, nil)
	l := r.LookOf(viewer(root))
	asked := 0
	find := func(string) bool { asked++; return true }
	for i := range 4 * maxLook / lookCost {
		path := fmt.Sprint("d/", i)
		first := l.Once(path, find)
		if again := l.Once(path, find); !first || !again || asked != i+1 {
			t.Fatalf("asked %d times about %d paths", asked, i+1)
		}
		if len(l.once) > maxLook/lookCost {
			t.Fatalf("%d paths are remembered", len(l.once))
		}
	}
	if l.Stands() {
		t.Error("a look that has forgotten what it said vouches for it")
	}
	l = r.LookOf(viewer(stranger))
	for i := range maxLook / lookCost {
		l.Way(fmt.Sprint("d/", i))
		l.ReadsNow(fmt.Sprint("d/", i))
		if len(l.dirs)+len(l.files) > maxLook/lookCost {
			t.Fatalf("%d directories and %d files are remembered", len(l.dirs), len(l.files))
		}
	}
}
