package changes

import (
	"os"
	"path/filepath"
	"testing"

	"golang.org/x/sys/unix"

	"latchfs/lockmgr/knowledge"
)

func TestMade(t *testing.T) {
	s := newStage(t)
	for _, op := range []string{OpMkdir, OpSymlink, "mknod"} {
		s.Teller.Made(caller, op, "a", "")
	}
	s.Teller.Made(caller, OpMkdir, "b", "t1")
	s.heard(
		`make_dir a of ann by 7 {"program":"vi","uid":1000}`,
		`make_link a of ann by 7 {"program":"vi","uid":1000}`,
		`make_dir b of ann by 7 {"program":"vi","transaction":"t1","uid":1000}`,
	)
}

func TestGone(t *testing.T) {
	s := newStage(t)
	dir := unix.Stat_t{Mode: unix.S_IFDIR | unix.S_ISVTX | 0o70, Uid: 3, Gid: 4}
	link := unix.Stat_t{Mode: unix.S_IFLNK | 0o777, Uid: 3, Gid: 4}
	s.Teller.Gone(caller, "d", &dir, "", "")
	s.Teller.Gone(caller, "l", &link, "a/b", "t1")
	s.Teller.Gone(caller, "odd", &link, "\xff", "")
	s.Teller.Gone(caller, "f", file(1, 3), "", "")
	s.heard(
		`delete_dir d of ann by 7 {"file_gid":4,"file_uid":3,"mode":"1070","program":"vi","uid":1000}`,
		`delete_link l of ann by 7 {"file_gid":4,"file_uid":3,"program":"vi","target":"a/b","transaction":"t1","uid":1000}`,
		`delete_link odd of ann by 7 {"file_gid":4,"file_uid":3,"program":"vi","target":"\ufffd","target_base64":"/w==","uid":1000}`,
	)
}

// A rename over a link removes it, and makes one if a link was renamed.
func TestRenamedOverALink(t *testing.T) {
	link := &unix.Stat_t{Mode: unix.S_IFLNK | 0o777, Uid: 3, Gid: 4}
	const gone = `delete_link l of ann by 7 {"file_gid":4,"file_uid":3,"program":"vi","target":"a","uid":1000}`
	for _, c := range []struct {
		is     *unix.Stat_t
		silent bool
		want   []string
	}{
		{link, false, []string{gone, `make_link l of ann by 7 {"program":"vi","uid":1000}`}},
		{&unix.Stat_t{Mode: unix.S_IFIFO}, false, []string{gone}},
		{nil, false, nil},
		{link, true, nil}, // they change places
	} {
		s := newStage(t)
		to := s.Change(caller, "rename", nameOf("l"), 11)
		to.Other, to.Path, to.Was, to.Is, to.Target, to.Silent = s.Change(caller, "rename", nameOf("n"), 11), "l", link, c.is, "a", c.silent
		to.report()
		s.heard(c.want...)
	}
}

func TestTargetOf(t *testing.T) {
	dir := t.TempDir()
	check(t, os.Symlink("a/b", filepath.Join(dir, "l")))
	check(t, os.WriteFile(filepath.Join(dir, "f"), nil, 0o600))
	fd, err := unix.Open(dir, unix.O_PATH, 0)
	check(t, err)
	defer unix.Close(fd)
	link := unix.Stat_t{Mode: unix.S_IFLNK}
	for _, c := range []struct {
		name string
		st   unix.Stat_t
		want string
	}{{"l", link, "a/b"}, {"l", *file(1, 3), ""}, {"f", link, ""}, {"nothing", link, ""}} {
		if got := TargetOf(fd, c.name, &c.st); got != c.want {
			t.Errorf("%s: %q", c.name, got)
		}
	}
}

func TestIsFile(t *testing.T) {
	if !IsFile(file(1, 3)) || IsFile(&unix.Stat_t{Mode: unix.S_IFDIR}) || IsFile(nil) {
		t.Error("what is a file is not told")
	}
}

func TestStamps(t *testing.T) {
	st := file(2, 3)
	st.Mtim = unix.Timespec{Sec: 4, Nsec: 5}
	if got, want := stampAt(st), (knowledge.Stamp{Dev: 1, Ino: 2, Size: 3, Mtime: 4_000_000_005}); got != want {
		t.Errorf("%+v, want %+v", got, want)
	}
	if got := stampAt(nil); got != (knowledge.Stamp{}) {
		t.Errorf("nothing has the stamp %+v", got)
	}
}
