package locksfs

import (
	"fmt"
	"slices"
	"strings"
	"testing"

	"golang.org/x/sys/unix"

	"latchfs/fs/locksdir"
)

// A file is read at any offset, as it was when it was opened.
func TestRead(t *testing.T) {
	s := newStage(t)
	_, fh := s.opens("g", bob)
	s.files["g"] = "changed"
	if !s.fs.IsView(fh) || s.fs.IsView(fh+1) {
		t.Error("what is put together is not known")
	}
	buf := make([]byte, 4)
	for off, want := range map[int64]string{0: "0123", 5: "5678", 8: "89", 10: "", 99: ""} {
		n, errno := s.fs.Read(fh, bob, false, nil, buf, off)
		if string(buf[:n]) != want || errno != 0 {
			t.Errorf("at %d: %q, %v", off, buf[:n], errno)
		}
	}
	_, errno := s.fs.Read(fh, bob, false, nil, buf, -1)
	s.is("before the beginning", errno, unix.EIO)
	_, errno = s.fs.Read(fh+1, bob, false, nil, buf, 0)
	s.is("what is not open", errno, unix.EBADF)
	_, errno = s.fs.Write(fh, bob, [][]byte{[]byte("x")})
	s.is("write", errno, unix.EPERM)
	_, errno = s.fs.Write(fh+1, bob, [][]byte{[]byte("x")})
	s.is("write to what is not open", errno, unix.EPERM)
	s.fs.Flush(fh, bob)
	s.fs.Flush(fh+1, bob)
	if s.open != 1 {
		t.Errorf("%d contents are open", s.open)
	}
	s.fs.Release(fh)
	s.fs.Release(fh) // whose number is nobody's any more
	_, errno = s.fs.Read(fh, bob, false, nil, buf, 0)
	s.is("what is closed", errno, unix.EBADF)
	if s.open != 0 {
		t.Errorf("%d contents are open at the end", s.open)
	}
}

// Nothing but the control file is opened to write, and no directory to read.
func TestOpen(t *testing.T) {
	s := newStage(t)
	g := s.node("g", bob)
	for flags, want := range map[uint32]unix.Errno{
		unix.O_RDONLY: 0, unix.O_RDONLY | unix.O_NONBLOCK | unix.O_APPEND: 0, unix.O_WRONLY: unix.EACCES, unix.O_RDWR: unix.EACCES, unix.O_TRUNC: unix.EACCES,
	} {
		fh, talks, errno := s.fs.Open(g, flags, bob)
		s.is(fmt.Sprintf("open with %#x", flags), errno, want)
		if talks {
			t.Error("it talks")
		}
		s.fs.Release(fh)
	}
	_, _, errno := s.fs.Open(root, unix.O_RDONLY, bob)
	s.is("open of a directory", errno, unix.EISDIR)
	_, _, errno = s.fs.Open(s.node("d/own", ann), unix.O_RDONLY, bob)
	s.is("open of what bob does not see", errno, unix.ENOENT)
	if s.open != 0 {
		t.Errorf("%d contents are open", s.open)
	}
}

// What is kept in memory for a user counts, from the open to the release.
func TestOpenIsCharged(t *testing.T) {
	s := newStage(t)
	_, fh := s.opens("README", bob)
	kept := s.book.Used(bob.uid)
	if e, errno := s.fs.StatHandle(s.node("README", bob), fh, bob); kept == 0 || e.Size != kept || errno != 0 {
		t.Errorf("for %+v, %v, %d bytes are charged", e, errno, kept)
	}
	_, second := s.opens("README", bob)
	if got := s.book.Used(bob.uid); got != 2*kept {
		t.Errorf("for two opens %d bytes are charged, and %d for one", got, kept)
	}
	_, fhG := s.opens("g", bob) // kept by nobody
	s.book.Charge(bob.uid, limit-2*kept)
	_, _, errno := s.fs.Open(s.node("README", bob), unix.O_RDONLY, bob)
	s.is("open of more than bob may have", errno, unix.ENOMEM)
	_, ofAnn := s.opens("README", ann)
	s.book.Charge(bob.uid, -(limit - 2*kept))
	for _, fh := range []uint64{fh, second, fhG, ofAnn} {
		s.fs.Release(fh)
	}
	if s.book.Used(bob.uid) != 0 || s.book.Used(ann.uid) != 0 {
		t.Errorf("in the end bob is charged %d bytes, ann %d", s.book.Used(bob.uid), s.book.Used(ann.uid))
	}
}

// A conversation is its opener's, and hears of all that is done with its handle.
func TestControl(t *testing.T) {
	s := newStage(t)
	id := s.node(Control, bob)
	fh, talks, errno := s.fs.Open(id, unix.O_RDWR, bob)
	if !talks || errno != 0 {
		t.Fatalf("talks %v, %v", talks, errno)
	}
	if want := []string{fmt.Sprintf("%d by 2", id-root)}; !slices.Equal(s.begun, want) {
		t.Errorf("begun are %q, want %q", s.begun, want)
	}
	if s.fs.IsView(fh) {
		t.Error("a reply is put together")
	}
	child := bob
	child.pid = 201
	buf := make([]byte, 8)
	n, errno := s.fs.Write(fh, child, [][]byte{[]byte("lock "), []byte("f")})
	if n != 6 || errno != unix.EDEADLK {
		t.Errorf("write: %d, %v", n, errno)
	}
	n, errno = s.fs.Read(fh, bob, true, make(chan struct{}), buf, 5)
	if string(buf[:n]) != "reply" || errno != unix.EINTR {
		t.Errorf("read: %q, %v", buf[:n], errno)
	}
	s.fs.Read(fh, child, false, nil, buf[:3], 0)
	other := bob
	other.gid++
	for _, b := range []by{ann, other} {
		_, errno = s.fs.Write(fh, b, [][]byte{[]byte("x")})
		s.is("another one's write", errno, unix.EPERM)
		_, errno = s.fs.Read(fh, b, true, nil, buf, 0)
		s.is("another one's read", errno, unix.EPERM)
	}
	s.fs.Flush(fh, child)
	s.fs.Release(fh)
	want := []string{
		"201 writes lock f", "200 reads 8, nonblock true, cancel true", "201 reads 3, nonblock false, cancel false", "201 flushes", "closed",
	}
	if got := s.talks[0].said; !slices.Equal(got, want) {
		t.Errorf("the conversation was told\n%s\nwant\n%s", strings.Join(got, "\n"), strings.Join(want, "\n"))
	}
	s.refused = unix.EROFS
	_, _, errno = s.fs.Open(id, unix.O_RDONLY, bob)
	s.is("a conversation that is refused", errno, unix.EROFS)
}

// list is what a listing has from an offset on, as far as there is room for so many.
func (s *stage) list(fh, off uint64, room int) (names []string) {
	s.t.Helper()
	full := false
	s.is("list", s.fs.List(fh, off, func(e *locksdir.Entry, next uint64) bool {
		if full {
			s.t.Error("an entry comes after one that had no room")
		}
		if full = len(names) == room; full {
			return false
		}
		name := e.Name
		if e.Dir {
			name += "/"
		}
		names = append(names, fmt.Sprint(name, next))
		return true
	}), 0)
	return names
}

// A directory is listed as it was when it was opened, from any offset.
func TestList(t *testing.T) {
	s := newStage(t)
	fh, errno := s.fs.OpenDir(root, bob)
	s.is("listing", errno, 0)
	delete(s.files, "g")
	all := []string{"./1", "../2", "control3", "d/4", "events.jsonl5", "g6"}
	for off := range uint64(9) {
		for room := range 8 {
			rest := all[min(int(off), len(all)):]
			if got, want := s.list(fh, off, room), rest[:min(room, len(rest))]; !slices.Equal(got, want) {
				t.Errorf("from %d on, %d of them: %q, want %q", off, room, got, want)
			}
		}
	}
	d := s.node("d", bob)
	for _, c := range []struct {
		b    by
		want string
	}{{bob, "./1 ../2 f3"}, {ann, "./1 ../2 f3 own4"}} {
		fh, errno := s.fs.OpenDir(d, c.b)
		s.is("listing", errno, 0)
		if got := strings.Join(s.list(fh, 0, 9), " "); got != c.want {
			t.Errorf("user %d sees %s", c.b.uid, got)
		}
	}
	_, errno = s.fs.OpenDir(s.node("events.jsonl", bob), bob)
	s.is("listing of a file", errno, unix.ENOTDIR)
	s.is("list of what is not open", s.fs.List(999, 0, nil), unix.EBADF)
	_, errno = s.fs.Read(fh, bob, false, nil, make([]byte, 9), 0)
	s.is("read of a directory", errno, unix.EBADF)
}

// What a listing has counts, from the open to the release.
func TestListIsCharged(t *testing.T) {
	s := newStage(t)
	d := s.node("d", ann)
	fh, errno := s.fs.OpenDir(d, ann)
	s.is("listing", errno, 0)
	if got := s.book.Used(ann.uid); got != 2*96+int64(len("f")+len("own")) {
		t.Errorf("%d bytes are charged", got)
	}
	s.book.Charge(ann.uid, limit)
	_, errno = s.fs.OpenDir(d, ann)
	s.is("listing of more than ann may have", errno, unix.ENOMEM)
	s.book.Charge(ann.uid, -limit)
	s.fs.Release(fh)
	if got := s.book.Used(ann.uid); got != 0 {
		t.Errorf("%d bytes are charged in the end", got)
	}
}
