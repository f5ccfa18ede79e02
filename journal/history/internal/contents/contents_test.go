package contents

import (
	"errors"
	"io/fs"
	"os"
	"path/filepath"
	"slices"
	"strings"
	"testing"

	"golang.org/x/sys/unix"

	"latchfs/journal/history/internal/record"
)

func ok(t *testing.T, err error) {
	t.Helper()
	if err != nil {
		t.Fatal(err)
	}
}

// dirWith is a history's directory with files in it.
func dirWith(t *testing.T, files ...string) (d Dir, path string) {
	t.Helper()
	path = t.TempDir()
	for _, name := range files {
		ok(t, os.MkdirAll(filepath.Dir(filepath.Join(path, name)), 0o700))
		ok(t, os.WriteFile(filepath.Join(path, name), []byte(name), 0o600))
	}
	f, err := os.Open(path)
	ok(t, err)
	t.Cleanup(func() { f.Close() })
	return Dir{f}, path
}

const digits = "0123456789abcdef0123456789abcdef"

func idIn(dir string) string { return dir + digits[2:] }

// What is no content, or lies in the directory of others, is none.
func TestList(t *testing.T) {
	a, b := idIn("00"), idIn("fe")
	d, path := dirWith(t, "00/"+a, "fe/"+b, "fe/"+NewPrefix+b, "00/"+b, "fe/"+strings.ToUpper(b), "log", "zz/"+idIn("zz"), "0/"+a, "00/"+idIn("01"))
	ok(t, os.WriteFile(filepath.Join(path, "ab"), nil, 0o600))
	ok(t, os.Symlink("00", filepath.Join(path, "cd")))
	for range 2 { // it can be read again
		got, err := d.List()
		ok(t, err)
		if len(got) != 2 || !got[record.IDOf(a)] || !got[record.IDOf(b)] {
			t.Fatalf("contents %v", got)
		}
	}
	var dirs []string
	ok(t, d.Each(func(open *os.File, dir string, names []string) {
		dirs = append(dirs, dir)
		for _, name := range names {
			if unix.Faccessat(int(open.Fd()), name, unix.F_OK, 0) != nil {
				t.Errorf("%s is not in %s", name, dir)
			}
		}
	}))
	if slices.Sort(dirs); !slices.Equal(dirs, []string{"00", "fe"}) {
		t.Errorf("directories %q", dirs)
	}
}

func TestContent(t *testing.T) {
	id := idIn("00")
	d, _ := dirWith(t, "00/"+id)
	f, err := d.Content(id)
	ok(t, err)
	defer f.Close()
	var st, open unix.Stat_t
	ok(t, d.Stat(id, &st))
	ok(t, unix.Fstat(int(f.Fd()), &open))
	if st.Ino != open.Ino {
		t.Errorf("inode %d is open, not %d", open.Ino, st.Ino)
	}
	if d.HasACL(id) {
		t.Error("it has an ACL")
	}
	if !d.HasACL(idIn("01")) {
		t.Error("what is not there has no ACL for sure")
	}
	if _, err := d.Content(idIn("01")); !errors.Is(err, fs.ErrNotExist) {
		t.Errorf("of what is not there: %v", err)
	}
}

// A link in the place of a content is not followed.
func TestContentIsNoLink(t *testing.T) {
	id := idIn("00")
	d, path := dirWith(t, "00/other")
	ok(t, os.Symlink("other", filepath.Join(path, "00", id)))
	if _, err := d.Content(id); !errors.Is(err, unix.ELOOP) {
		t.Errorf("a link: %v", err)
	}
}

func TestRemove(t *testing.T) {
	id := idIn("00")
	d, _ := dirWith(t, "00/"+id)
	if err := d.Erased(id); err == nil {
		t.Error("it is gone before it was removed")
	}
	for range 2 {
		ok(t, d.Remove(id))
	}
	ok(t, d.Erased(id))
	if err := d.Erased(idIn("01")); err == nil {
		t.Error("nothing says that a content without its directory is gone for good")
	}
}
