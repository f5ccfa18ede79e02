package procfs

import (
	"bytes"
	"errors"
	"os"
	"slices"
	"strings"
	"testing"

	"golang.org/x/sys/unix"
)

func mustOpen(t *testing.T) *Root {
	t.Helper()
	r, err := Open("/proc")
	if err != nil {
		t.Fatal(err)
	}
	t.Cleanup(r.Release)
	return r
}

// The descriptors stay open until the last user has released them.
func TestRelease(t *testing.T) {
	r, err := Open("/proc")
	if err != nil {
		t.Fatal(err)
	}
	r.Retain()
	r.Release()
	if _, err := r.Link("self"); err != nil || r.Uses() != 1 {
		t.Errorf("with %d uses: %v", r.Uses(), err)
	}
	dir := r.Dir()
	r.Release()
	if _, err := unix.FcntlInt(uintptr(dir), unix.F_GETFD, 0); err != unix.EBADF {
		t.Errorf("without users the directory is open: %v", err)
	}
}

func TestOpenElsewhere(t *testing.T) {
	if r, err := Open(t.TempDir()); err == nil {
		r.Release()
		t.Error("an empty directory is taken for a procfs")
	}
}

// A file is read as a whole whatever its length, and up to a limit.
func TestReadLengths(t *testing.T) {
	dir := t.TempDir()
	for _, size := range []int{0, 1, FirstRead - 1, FirstRead, FirstRead + 1, 5*FirstRead + 7} {
		want := []byte(strings.Repeat("abcdefg", size/7+1)[:size])
		path := dir + "/file"
		if err := os.WriteFile(path, want, 0o600); err != nil {
			t.Fatal(err)
		}
		r := &Root{dir: unix.AT_FDCWD}
		if err := r.WithFile(path, func(b []byte) error {
			if !bytes.Equal(b, want) {
				t.Errorf("of %d bytes WithFile has %d", size, len(b))
			}
			return nil
		}); err != nil {
			t.Error(err)
		}
		if b, err := r.ReadAll(path); !bytes.Equal(b, want) || err != nil {
			t.Errorf("of %d bytes ReadAll has %d, %v", size, len(b), err)
		}
		for _, limit := range []int{0, 1, FirstRead, FirstRead + 2, 6 * FirstRead} {
			if b, err := r.ReadUpTo(path, limit); !bytes.Equal(b, want[:min(limit, size)]) || err != nil {
				t.Errorf("of %d bytes ReadUpTo(%d) has %d, %v", size, limit, len(b), err)
			}
		}
	}
}

// What is read again is rendered anew, and the error of use comes back as its own.
func TestReread(t *testing.T) {
	r := mustOpen(t)
	fd, err := r.OpenFile("self/stat", unix.O_RDONLY)
	if err != nil {
		t.Fatal(err)
	}
	defer unix.Close(fd)
	failed := errors.New("failed")
	for range 2 {
		read, err := Reread(fd, func(b []byte) error {
			if st, err := ParseStat(b); err != nil || st.PPID != int32(os.Getppid()) {
				t.Errorf("%+v, %v", st, err)
			}
			return failed
		})
		if !read || err != failed {
			t.Errorf("%t, %v", read, err)
		}
	}
	if read, err := Reread(-1, nil); read || err != unix.EBADF {
		t.Errorf("no file: %t, %v", read, err)
	}
}

func TestThreads(t *testing.T) {
	r := mustOpen(t)
	self := int32(os.Getpid())
	tids, err := r.Threads(self)
	if err != nil || !slices.Contains(tids, self) {
		t.Errorf("our threads are %v, %v", tids, err)
	}
	for _, tid := range tids {
		if tgid, ppid, err := r.ThreadGroup(tid); err != ErrGone && (tgid != self || ppid != int32(os.Getppid()) || err != nil) {
			t.Errorf("thread %d belongs to %d, a child of %d: %v", tid, tgid, ppid, err)
		}
	}
	if _, err := r.Threads(1 << 30); err != ErrGone {
		t.Errorf("of no process: %v", err)
	}
	if uid := r.User(self); uid != uint32(os.Geteuid()) {
		t.Errorf("our user is %d", uid)
	}
}
