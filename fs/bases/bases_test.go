package bases

import (
	"io"
	"os"
	"path/filepath"
	"strings"
	"sync"
	"testing"
	"testing/synctest"
	"time"

	"golang.org/x/sys/unix"

	"latchfs/journal/merge"
	"latchfs/lockmgr/knowledge"
)

// file makes a file and opens it.
func file(t *testing.T, content string) (name string, fd int, stamp knowledge.Stamp) {
	t.Helper()
	name = filepath.Join(t.TempDir(), "f")
	if err := os.WriteFile(name, []byte(content), 0o600); err != nil {
		t.Fatal(err)
	}
	fd, err := unix.Open(name, unix.O_RDONLY|unix.O_CLOEXEC, 0)
	if err != nil {
		t.Fatal(err)
	}
	return name, fd, stampAt(t, name)
}

func stampAt(t *testing.T, name string) knowledge.Stamp {
	t.Helper()
	var st unix.Stat_t
	if err := unix.Lstat(name, &st); err != nil {
		t.Fatal(err)
	}
	return StampOf(&st)
}

// isOpen reports whether a descriptor leads anywhere.
func isOpen(fd int) bool {
	_, err := unix.FcntlInt(uintptr(fd), unix.F_GETFD, 0)
	return err == nil
}

// of is the content of a version, or "none".
func (s *Store) of(key knowledge.Key, b knowledge.Basis) string {
	data, ok := s.Content(key, &b)
	if !ok {
		return "none"
	}
	return string(data)
}

// A base is what it was, or it is not there.
func TestContent(t *testing.T) {
	var s Store
	defer s.Close()
	_, fd, stamp := file(t, "old")
	s.PutFile("k", 3, fd, stamp)
	known := knowledge.Basis{Version: 3, At: time.Now().Add(-time.Minute)}
	for what, c := range map[string]struct {
		key    knowledge.Key
		change func(*knowledge.Basis)
		want   string
	}{
		"the version":     {"k", func(*knowledge.Basis) {}, "old"},
		"with its stamp":  {"k", func(b *knowledge.Basis) { b.Stamp = stamp }, "old"},
		"another key":     {"l", func(*knowledge.Basis) {}, "none"},
		"another version": {"k", func(b *knowledge.Basis) { b.Version = 4 }, "none"},
		"another stamp":   {"k", func(b *knowledge.Basis) { b.Stamp = knowledge.Stamp{Ino: 1} }, "none"},
		// Read after version 3 was replaced: another version 3.
		"read later":           {"k", func(b *knowledge.Basis) { b.At = time.Now().Add(time.Minute) }, "none"},
		"read at its very end": {"k", func(b *knowledge.Basis) { b.At = time.Now().Add(lateRead / 2) }, "old"},
	} {
		b := known
		c.change(&b)
		if got := s.of(c.key, b); got != c.want {
			t.Errorf("%s: %q, want %q", what, got, c.want)
		}
	}
}

// A file that was written to after it had lost its name is no version's any more, and
// neither is one that had got the name before it was opened: whoever has swapped it must
// not read by a merge what only the daemon may read.
func TestAnotherFile(t *testing.T) {
	for what, spoil := range map[string]func(t *testing.T, name string, stamp knowledge.Stamp) (fd int){
		"written to": func(t *testing.T, name string, _ knowledge.Stamp) int {
			if err := os.WriteFile(name, []byte("written in place"), 0o600); err != nil {
				t.Fatal(err)
			}
			return -1
		},
		"swapped for one of the same size and time": func(t *testing.T, _ string, stamp knowledge.Stamp) int {
			name, fd, _ := file(t, "SEC")
			at := time.Unix(0, stamp.Mtime)
			if err := os.Chtimes(name, at, at); err != nil {
				t.Fatal(err)
			}
			if now := stampAt(t, name); now.Size != stamp.Size || now.Mtime != stamp.Mtime || now.Ino == stamp.Ino {
				t.Fatalf("%+v does not pass for %+v", now, stamp)
			}
			return fd
		},
		"cut and made anew in the same moment": func(t *testing.T, name string, stamp knowledge.Stamp) int {
			if err := os.Truncate(name, 1); err != nil {
				t.Fatal(err)
			}
			at := time.Unix(0, stamp.Mtime)
			if err := os.Chtimes(name, at, at); err != nil {
				t.Fatal(err)
			}
			return -1
		},
	} {
		t.Run(what, func(t *testing.T) {
			var s Store
			defer s.Close()
			name, fd, stamp := file(t, "old")
			if other := spoil(t, name, stamp); other >= 0 {
				unix.Close(fd)
				fd = other
			}
			s.PutFile("k", 3, fd, stamp)
			for range 2 {
				if got := s.of("k", knowledge.Basis{Version: 3, Stamp: stamp}); got != "none" {
					t.Errorf("the base is %q", got)
				}
			}
			if isOpen(fd) || s.bytes != 0 || len(s.list) != 0 {
				t.Errorf("it is kept: %d bases of %d bytes", len(s.list), s.bytes)
			}
		})
	}
}

// What was used longest ago goes first, by number and by size.
func TestBounds(t *testing.T) {
	var s Store
	defer s.Close()
	put := func(n, size int) { s.PutBytes("k", uint64(n), make([]byte, size), knowledge.Stamp{}) }
	has := func(n int) bool {
		_, ok := s.Content("k", &knowledge.Basis{Version: uint64(n)})
		return ok
	}
	for n := 1; n <= MaxCount; n++ {
		put(n, 1)
	}
	if !has(1) {
		t.Error("the first is gone too early")
	}
	put(MaxCount+1, 1)
	if !has(1) || has(2) || !has(3) || len(s.list) != MaxCount || s.bytes != MaxCount {
		t.Errorf("of %d: 1 %v, 2 %v, 3 %v", len(s.list), has(1), has(2), has(3))
	}
	put(MaxCount+2, MaxBytes)
	if len(s.list) != 1 || s.bytes != MaxBytes || !has(MaxCount+2) {
		t.Errorf("%d bases with %d bytes", len(s.list), s.bytes)
	}
}

// Whatever is dropped is closed: by a bound, by another of the same version, at the end.
func TestDescriptors(t *testing.T) {
	var s Store
	var fds []int
	put := func(number uint64) {
		_, fd, stamp := file(t, "x")
		fds = append(fds, fd)
		s.PutFile("k", number, fd, stamp)
	}
	put(1)
	put(1)
	if isOpen(fds[0]) || !isOpen(fds[1]) || s.bytes != 1 {
		t.Errorf("of two under one number: %v, %v; %d bytes", isOpen(fds[0]), isOpen(fds[1]), s.bytes)
	}
	fds = fds[1:] // the number is given out again
	put(2)
	s.PutBytes("k", 3, make([]byte, MaxBytes-1), knowledge.Stamp{})
	if isOpen(fds[0]) || !isOpen(fds[1]) {
		t.Error("the bound of bytes has closed the wrong one")
	}
	s.Close()
	if isOpen(fds[1]) || s.bytes != 0 {
		t.Errorf("after the end %d bytes are kept", s.bytes)
	}
}

// When a directory above gets another name a base is found under the new path, by its
// stamp: the numbers begin anew there.
func TestFollow(t *testing.T) {
	var s Store
	defer s.Close()
	stamp := func(n uint64) knowledge.Stamp { return knowledge.Stamp{Ino: n, Size: 1} }
	s.PutBytes("d/f", 3, []byte("a"), stamp(1))
	s.PutBytes("d/f", 4, []byte("b"), stamp(2))
	s.PutBytes("g", 3, []byte("c"), stamp(3))
	s.Follow(func(path string) string {
		if rest, ok := strings.CutPrefix(path, "d/"); ok {
			return "e/" + rest
		}
		return path
	})
	s.PutBytes("e/f", 3, []byte("d"), stamp(4)) // another version 3
	for _, c := range []struct {
		key     knowledge.Key
		number  uint64
		stamp   knowledge.Stamp
		content string
	}{
		{"e/f", 9, stamp(1), "a"}, {"e/f", 9, stamp(2), "b"}, {"e/f", 3, stamp(1), "a"}, {"e/f", 3, stamp(4), "d"},
		{"e/f", 3, knowledge.Stamp{}, "d"}, {"g", 3, stamp(3), "c"}, {"d/f", 3, stamp(1), "none"}, {"e/f", 9, stamp(5), "none"},
	} {
		if got := s.of(c.key, knowledge.Basis{Version: c.number, Stamp: c.stamp}); got != c.content {
			t.Errorf("version %d of %s, %v: %q, want %q", c.number, c.key, c.stamp, got, c.content)
		}
	}
	if s.bytes != 4 {
		t.Errorf("%d bytes, want 4", s.bytes)
	}
}

// A base was replaced when it was put: who has read the version long after has read
// another one.
func TestReplacedWhenPut(t *testing.T) {
	synctest.Test(t, func(t *testing.T) {
		var s Store
		s.PutBytes("k", 1, []byte("x"), knowledge.Stamp{})
		time.Sleep(time.Minute)
		if got := s.of("k", knowledge.Basis{Version: 1, At: time.Now()}); got != "none" {
			t.Errorf("read a minute later: %q", got)
		}
		if got := s.of("k", knowledge.Basis{Version: 1, At: time.Now().Add(-time.Minute)}); got != "x" {
			t.Errorf("read before: %q", got)
		}
	})
}

// A file is read from its beginning, and not beyond the bound.
func TestRead(t *testing.T) {
	name, fd, stamp := file(t, "0123456789")
	defer unix.Close(fd)
	if _, err := unix.Seek(fd, 4, io.SeekStart); err != nil {
		t.Fatal(err)
	}
	if data, st, err := Read(fd); err != nil || string(data) != "0123456789" || StampOf(st) != stamp {
		t.Errorf("%q, %v", data, err)
	}
	if at, err := unix.Seek(fd, 0, io.SeekCurrent); at != 4 || err != nil {
		t.Errorf("the offset is %d, %v", at, err)
	}
	if err := os.Truncate(name, merge.MaxSize+1); err != nil {
		t.Fatal(err)
	}
	if _, _, err := Read(fd); err != unix.EFBIG {
		t.Errorf("of a file that is too long: %v", err)
	}
	if _, _, err := Read(-1); err != unix.EBADF {
		t.Errorf("of nothing: %v", err)
	}
}

// Several may ask, and put, and follow at once.
func TestAtOnce(t *testing.T) {
	var s Store
	var wg sync.WaitGroup
	for n := range uint64(4) {
		wg.Go(func() {
			for range 200 {
				s.PutBytes("d/f", n, []byte("x"), knowledge.Stamp{Ino: n + 1})
				s.of("d/f", knowledge.Basis{Version: n})
				s.Follow(func(path string) string { return path })
			}
		})
	}
	wg.Wait()
	if len(s.list) != 4 || s.bytes != 4 {
		t.Errorf("%d bases with %d bytes", len(s.list), s.bytes)
	}
	s.Close()
}
