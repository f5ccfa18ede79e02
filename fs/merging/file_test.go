package merging

import (
	"os"
	"testing"
	"time"

	"golang.org/x/sys/unix"

	"latchfs/journal/merge"
)

// What is read is the file that was looked at.
func TestRead(t *testing.T) {
	s := newStage(t)
	at := time.Now().Add(-time.Hour)
	date := func() {
		if err := os.Chtimes(s.path("f"), at, at); err != nil {
			t.Fatal(err)
		}
	}
	s.put("f", "known")
	date()
	f := s.look("f")
	if b, err := f.Read(); err != nil || string(b) != "known" {
		t.Errorf("%q, %v", b, err)
	}
	swapped := s.put("f", "SECRE")
	date()
	if b, err := f.Read(); err != unix.EBUSY {
		t.Errorf("another file: %q, %v", b, err)
	}
	if b, err := swapped.Read(); err != unix.EBUSY {
		t.Errorf("with another time: %q, %v", b, err)
	}
	f = s.look("f")
	if err := os.Remove(s.path("f")); err != nil {
		t.Fatal(err)
	}
	if _, err := f.Read(); err != unix.ENOENT {
		t.Errorf("none: %v", err)
	}
}

func TestBeginning(t *testing.T) {
	s := newStage(t)
	f := s.put("f", "known")
	for size, want := range map[int64]string{0: "", 3: "kno", 5: "known"} {
		b, ok := f.Beginning(size)
		if !ok || string(b) != want || cap(b) != len(want) {
			t.Errorf("%d bytes: %q, %v, with room for %d", size, b, ok, cap(b))
		}
	}
	if b, ok := f.Beginning(6); ok {
		t.Errorf("more than there is: %q", b)
	}
	s.put("f", "other")
	if b, ok := f.Beginning(3); ok {
		t.Errorf("of another file: %q", b)
	}
}

func TestWrite(t *testing.T) {
	s := newStage(t)
	s.put("f", "what was there")
	fd := s.open("f")
	if _, err := unix.Seek(fd, 4, 0); err != nil {
		t.Fatal(err)
	}
	for _, text := range []string{"short", "", "something that is longer than what was there"} {
		if err := Write(fd, []byte(text)); err != nil {
			t.Errorf("%q: %v", text, err)
		}
		s.holds("f", text)
	}
}

// A file that does not get the room that it needs is as it was.
func TestWriteWithoutRoom(t *testing.T) {
	fd, err := unix.MemfdCreate("f", unix.MFD_ALLOW_SEALING)
	if err != nil {
		t.Fatal(err)
	}
	defer unix.Close(fd)
	if err := Write(fd, []byte("old")); err != nil {
		t.Fatal(err)
	}
	if _, err := unix.FcntlInt(uintptr(fd), unix.F_ADD_SEALS, unix.F_SEAL_GROW); err != nil {
		t.Fatal(err)
	}
	if err := Write(fd, make([]byte, merge.MaxSize)); err != unix.EPERM {
		t.Errorf("a file that cannot grow: %v", err)
	}
	b := make([]byte, 8)
	if n, err := unix.Pread(fd, b, 0); err != nil || string(b[:n]) != "old" {
		t.Errorf("it holds %q, %v", b[:n], err)
	}
	if err := Write(-1, nil); err != unix.EBADF {
		t.Errorf("no file: %v", err)
	}
}
