package versions

import (
	"errors"
	"io"
	"os"
	"testing"

	"golang.org/x/sys/unix"

	"latchfs/journal/history"
)

func TestNumbers(t *testing.T) {
	s := newStage(t)
	s.save("f", "one")
	first := history.StateOf(s.stat("f"))
	s.save("f", "two")
	second := history.StateOf(s.stat("f"))
	for _, c := range []struct {
		path   string
		is     history.State
		number uint64
		counts bool
	}{
		{"f", first, 1, true},
		{"f", second, 2, true},
		{"f", history.State{Ino: 1}, 0, true},
		{"f", history.State{Ino: second.Ino, Size: 99, Mtime: second.Mtime}, 0, true},
		{"g", first, 0, false},
	} {
		if number, counts := s.Number(c.path, c.is); number != c.number || counts != c.counts {
			t.Errorf("%s %+v: %d %v, want %d %v", c.path, c.is, number, counts, c.number, c.counts)
		}
	}
	f, err := s.OpenState("f", first)
	check(t, err)
	defer f.Close()
	if data, err := io.ReadAll(f); err != nil || string(data) != "one" {
		t.Errorf("read %q, %v", data, err)
	}
	for _, is := range []history.State{second, {Ino: 1}} { // it is the current one, and there is none
		if _, err := s.OpenState("f", is); !errors.Is(err, history.ErrNotKept) {
			t.Errorf("%+v: %v", is, err)
		}
	}
}

// Of two versions that one file was, both of which are kept, the newer one is meant.
func TestNewestOfAState(t *testing.T) {
	s := newStage(t)
	s.save("f", "one")
	is := history.StateOf(s.stat("f"))
	s.save("f", "two")
	s.h.Add(history.Version{Path: "f", Event: history.Found, State: is, Content: s.h.Of("f")[0].Content})
	if number, _ := s.Number("f", is); number != 3 {
		t.Errorf("version %d", number)
	}
}

func TestUnshare(t *testing.T) {
	s := newStage(t)
	s.save("f", "one")
	w, err := os.OpenFile(s.path("f"), os.O_WRONLY, 0)
	check(t, err)
	defer w.Close()
	ino := s.stat("f").Ino
	if was, err := s.Unshare(ino); was || err != nil {
		t.Errorf("a file that is no version: %v, %v", was, err)
	}
	s.save("f", "two")
	if !s.IsContent(ino) {
		t.Fatal("the file is not kept")
	}
	if was, err := s.Unshare(ino); !was || err != nil {
		t.Errorf("%v, %v", was, err)
	}
	_, err = w.WriteString("ONE")
	check(t, err)
	if s.IsContent(ino) {
		t.Error("the file is a version still")
	}
	s.want("f", "1 commit of 0: one", "2 commit of 1")
}

// failing are Contents that do nothing.
type failing struct{}

func (failing) PutBack(string, int, string) error     { return unix.EIO }
func (failing) Unshare(string) (kept bool, err error) { return false, unix.EIO }

func TestUnshareFails(t *testing.T) {
	s := newStage(t)
	s.save("f", "one")
	ino := s.stat("f").Ino
	s.save("f", "two")
	s.c.Contents = failing{}
	if was, err := s.Unshare(ino); !was || err != unix.EIO {
		t.Errorf("%v, %v", was, err)
	}
}

func TestPutBack(t *testing.T) {
	for name, c := range map[string]struct {
		before func(s *stage)
		by     *Remover
		want   uint64 // 0: it is not put back
		err    error
	}{
		"whoever has removed it":      {want: 1},
		"by the one who removed it":   {by: &Remover{PID: 5, UID: 7}, want: 1},
		"by another process":          {by: &Remover{PID: 6, UID: 7}},
		"by another user":             {by: &Remover{PID: 5, UID: 8}},
		"something else has the name": {before: func(s *stage) { s.write("f", "two") }, err: unix.EEXIST},
		"something else is a version": {before: func(s *stage) { s.save("f", "two") }},
		"another has replaced it, and is gone": {before: func(s *stage) {
			s.save("f", "two")
			s.save("f", "three")
			check(s.t, os.Remove(s.path("f")))
		}},
		"it was renamed away": {before: func(s *stage) {
			s.h.Add(history.Version{Path: "f", Event: history.RenameAway})
		}},
		"it is not kept": {before: func(s *stage) {
			_, _, err := s.Forget("f", func(*history.Version) bool { return true })
			check(s.t, err)
		}},
		"a copy is kept": {before: func(s *stage) {
			_, err := s.Unshare(s.h.Of("f")[0].State.Ino)
			check(s.t, err)
		}},
	} {
		t.Run(name, func(t *testing.T) {
			s := newStage(t)
			s.save("f", "one")
			ino := s.stat("f").Ino
			s.remove("f", 5)
			if c.before != nil {
				c.before(s)
			}
			back, err := s.PutBack(s.name("f"), "put_back", c.by)
			if !errors.Is(err, c.err) {
				t.Fatal(err)
			}
			if c.want == 0 {
				if back != nil {
					t.Errorf("it is back: %+v", back)
				}
				return
			}
			if back == nil || back.Number != c.want || back.Is == nil || back.Is.Ino != ino {
				t.Fatalf("it is back as %+v", back)
			}
			s.want("f", "1 commit of 0", "2 delete of 1", "3 commit of 1")
			if v := s.last("f"); v.Operation != "put_back" || v.Program != "vi" || v.PID != 5 || v.UID != 7 || v.State != history.StateOf(s.stat("f")) || v.Rights.Mode != 0o640 {
				t.Errorf("the version is %+v", v)
			}
		})
	}
}

// gone are Contents whose files somebody removes at once.
type gone struct{}

func (gone) PutBack(string, int, string) error     { return nil }
func (gone) Unshare(string) (kept bool, err error) { return false, nil }

func TestPutBackAndGoneAgain(t *testing.T) {
	s := newStage(t)
	s.h.Add(history.Version{Path: "g", Event: history.Delete})
	if back, err := s.PutBack(s.name("g"), "put_back", nil); back != nil || err != nil {
		t.Errorf("what never was is back: %+v, %v", back, err)
	}
	s.save("f", "one")
	s.remove("f", 5)
	s.c.Contents = gone{}
	back, err := s.PutBack(s.name("f"), "put_back", nil)
	if err != nil || back == nil || back.Number != 1 || back.Is != nil {
		t.Errorf("%+v, %v", back, err)
	}
	if n := len(s.h.Of("f")); n != 2 {
		t.Errorf("%d versions, want those before", n)
	}
}
