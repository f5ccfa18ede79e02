package locksfs

import (
	"errors"
	"io/fs"
	"slices"
	"testing"
	"testing/synctest"
	"time"

	"golang.org/x/sys/unix"

	"latchfs/fs/locksdir"
)

// A name leads to its node as long as the kernel remembers it.
func TestLookup(t *testing.T) {
	s := newStage(t)
	id, e, errno := s.fs.LookupRoot(bob)
	if id != root || !e.Dir || errno != 0 {
		t.Errorf("the root is %d, %+v, %v", id, e, errno)
	}
	d, e, errno := s.fs.Lookup(root, "d", bob)
	if d <= root || !e.Dir || errno != 0 {
		t.Errorf("d is %d, %+v, %v", d, e, errno)
	}
	f, e, errno := s.fs.Lookup(d, "f", bob)
	if f <= root || f == d || e.Dir || e.Size != 4 || errno != 0 {
		t.Errorf("d/f is %d, %+v, %v", f, e, errno)
	}
	if again := s.node("d/f", ann); again != f {
		t.Errorf("d/f is %d again", again)
	}
	_, _, errno = s.fs.Lookup(d, "own", bob)
	s.is("what bob does not see", errno, unix.ENOENT)
	_, _, errno = s.fs.Lookup(d, "own", ann)
	s.is("what ann sees", errno, 0)
	s.broken["d/f"] = unix.EACCES
	_, _, errno = s.fs.Lookup(d, "f", bob)
	s.is("what is refused", errno, unix.EACCES)
	s.broken["d/f"] = fs.ErrNotExist
	_, _, errno = s.fs.Lookup(d, "f", bob)
	s.is("what there is not, in other words", errno, unix.ENOENT)
	s.broken["d/f"] = errors.New("unheard of")
	_, _, errno = s.fs.Lookup(d, "f", bob)
	s.is("what is broken", errno, unix.EIO)

	s.fs.Forget(d, 3)
	_, _, errno = s.fs.Lookup(d, "f", bob)
	s.is("below what is forgotten", errno, unix.ESTALE)
	_, errno = s.fs.Stat(d, bob)
	s.is("stat of what is forgotten", errno, unix.ESTALE)
	_, _, errno = s.fs.Open(d, 0, bob)
	s.is("open of what is forgotten", errno, unix.ESTALE)
	_, errno = s.fs.OpenDir(d, bob)
	s.is("listing of what is forgotten", errno, unix.ESTALE)
	s.is("removal below what is forgotten", s.fs.Remove(d, "f", bob), unix.ESTALE)
	if new := s.node("d", bob); new == d {
		t.Error("a forgotten number comes again")
	}
}

// What there is not gets no number.
func TestNothingIsNotNumbered(t *testing.T) {
	s := newStage(t)
	a := s.node("g", ann)
	for range 10 {
		_, _, errno := s.fs.Lookup(root, "none", ann)
		s.is("what there is not", errno, unix.ENOENT)
	}
	if b := s.node("d", ann); b != a+1 {
		t.Errorf("the next number after %d is %d", a, b)
	}
}

// What a node leads to is found out by who asks, each time.
func TestStat(t *testing.T) {
	s := newStage(t)
	own := s.node("d/own", ann)
	_, errno := s.fs.Stat(own, bob)
	s.is("what bob does not see", errno, unix.ENOENT)
	if e, errno := s.fs.Stat(own, ann); e.Size != 3 || errno != 0 {
		t.Errorf("ann sees %+v, %v", e, errno)
	}
	s.files["d/own"] = "longer"
	if e, _ := s.fs.Stat(own, ann); e.Size != 6 {
		t.Errorf("then %+v", e)
	}
	delete(s.files, "d/own")
	_, errno = s.fs.Stat(own, ann)
	s.is("what is gone", errno, unix.ENOENT)
}

// What is open has the size that it had then, for who asks by the handle.
func TestStatHandle(t *testing.T) {
	s := newStage(t)
	id, fh := s.opens("g", bob)
	s.files["g"] = "short"
	for _, c := range []struct {
		what string
		stat func() (locksdir.Entry, unix.Errno)
		want int64
	}{
		{"by the handle", func() (locksdir.Entry, unix.Errno) { return s.fs.StatHandle(id, fh, bob) }, 10},
		{"without it", func() (locksdir.Entry, unix.Errno) { return s.fs.Stat(id, bob) }, 5},
		{"by another one", func() (locksdir.Entry, unix.Errno) { return s.fs.StatHandle(id, fh+1, bob) }, 5},
	} {
		if e, errno := c.stat(); e.Size != c.want || errno != 0 {
			t.Errorf("%s: %+v, %v", c.what, e, errno)
		}
	}
	dir, errno := s.fs.OpenDir(root, bob)
	s.is("listing", errno, 0)
	if e, errno := s.fs.StatHandle(root, dir, bob); !e.Dir || errno != 0 {
		t.Errorf("the directory: %+v, %v", e, errno)
	}
}

// A file that grows has, without a handle, the size that its opener has; to others it has
// that of a new look.
func TestStatOfWhatGrows(t *testing.T) {
	s := newStage(t)
	id, fh := s.opens("events.jsonl", ann)
	s.files["events.jsonl"] = "one\ntwo\n"
	sister := ann
	sister.pid++
	alike := bob
	alike.pid = ann.pid
	for _, c := range []struct {
		who  string
		b    by
		want int64
	}{{"its opener", ann, 4}, {"another process of its user", sister, 8}, {"another user", bob, 8}, {"another user in its process", alike, 8}} {
		e, errno := s.fs.Stat(id, c.b)
		if own := e.Mtime.Equal(time.Unix(2000, 0)); e.Size != c.want || errno != 0 || own != (c.want == 4) {
			t.Errorf("%s sees %+v, %v", c.who, e, errno)
		}
	}
	_, last := s.opens("events.jsonl", ann)
	if e, _ := s.fs.Stat(id, ann); e.Size != 8 {
		t.Errorf("after another open: %+v", e)
	}
	s.fs.Release(last)
	s.fs.Release(fh)
	s.files["events.jsonl"] = ""
	if e, _ := s.fs.Stat(id, ann); e.Size != 0 {
		t.Errorf("when it is closed: %+v", e)
	}
	// Another file that the process has open is not this one.
	s.opens("g", ann)
	if e, _ := s.fs.Stat(id, ann); e.Size != 0 {
		t.Errorf("with another file open: %+v", e)
	}
}

// The control file is there for everybody, and nobody is looked at for it.
func TestControlIsThere(t *testing.T) {
	s := newStage(t)
	asked := 0
	b := bob
	b.asked = &asked
	id, e, errno := s.fs.Lookup(root, Control, b)
	want := locksdir.Entry{Name: "control", Mode: 0o666, Mtime: started}
	if e != want || errno != 0 {
		t.Errorf("%+v, %v", e, errno)
	}
	if e, errno := s.fs.Stat(id, b); e != want || errno != 0 {
		t.Errorf("%+v, %v", e, errno)
	}
	if asked != 0 {
		t.Errorf("who asks was looked at %d times", asked)
	}
	_, _, errno = s.fs.Lookup(s.node("d", b), Control, b)
	s.is("one in a directory", errno, unix.ENOENT)
}

// What is removed is the tree's.
func TestRemove(t *testing.T) {
	s := newStage(t)
	d := s.node("d", ann)
	s.is("removal", s.fs.Remove(d, "f", ann), 0)
	s.is("removal from the root", s.fs.Remove(root, "g", bob), 0)
	s.broken["d/f"] = unix.EBUSY
	s.is("refused removal", s.fs.Remove(d, "f", ann), unix.EBUSY)
	if want := []string{"d/f by 1", "g by 2"}; !slices.Equal(s.removed, want) {
		t.Errorf("removed are %q", s.removed)
	}
}

// Every five seconds what nobody looks at is dropped, until the end.
func TestTrim(t *testing.T) {
	s := newStage(t)
	synctest.Test(t, func(t *testing.T) {
		done, ended := make(chan struct{}), make(chan struct{})
		go func() {
			s.fs.Trim(done)
			close(ended)
		}()
		time.Sleep(26 * time.Second)
		synctest.Wait()
		if s.trims != 5 {
			t.Errorf("trimmed %d times", s.trims)
		}
		close(done)
		<-ended
		time.Sleep(time.Minute)
		if s.trims != 5 {
			t.Errorf("trimmed %d times", s.trims)
		}
	})
}
