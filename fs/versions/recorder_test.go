package versions

import (
	"errors"
	"os"
	"path/filepath"
	"testing"

	"latchfs/journal"
	"latchfs/journal/commit"
	"latchfs/journal/history"
)

// known is what a path holds, as far as the history knows, and whether it goes on changing.
func (s *stage) known(path string) (is history.State, loose bool) {
	is, loose, _ = s.h.Last(path)
	return is, loose
}

func TestChanged(t *testing.T) {
	s := newStage(t)
	s.save("f", "one")
	w, err := os.OpenFile(s.path("f"), os.O_WRONLY|os.O_APPEND, 0)
	check(t, err)
	defer w.Close()
	for _, loose := range []bool{true, false} {
		_, err = w.WriteString(" and more")
		check(t, err)
		s.Changed("f", int(w.Fd()), loose)
		if is, l := s.known("f"); is != history.StateOf(s.stat("f")) || l != loose {
			t.Errorf("loose %v: %+v, %v", loose, is, l)
		}
	}
	was, _ := s.known("f")
	s.Changed("f", -1, true)
	if is, loose := s.known("f"); is != was || loose {
		t.Errorf("a descriptor of nothing has changed it: %+v, %v", is, loose)
	}
	s.want("f", "1 commit of 0")
}

// A file at rest that is shorter than its version is being cut, and keeps what is known of that.
func TestRested(t *testing.T) {
	s := newStage(t)
	s.save("f", "one")
	was, _ := s.known("f")
	w, err := os.OpenFile(s.path("f"), os.O_RDWR|os.O_APPEND, 0)
	check(t, err)
	defer w.Close()
	check(t, w.Truncate(1))
	s.Rested("f", int(w.Fd()))
	if is, _ := s.known("f"); is != was {
		t.Errorf("while it was cut: %+v, want %+v", is, was)
	}
	_, err = w.WriteString("ne and more")
	check(t, err)
	s.Rested("f", int(w.Fd()))
	if is, loose := s.known("f"); is != history.StateOf(s.stat("f")) || loose {
		t.Errorf("%+v, %v", is, loose)
	}
	s.Rested("f", -1)
	s.want("f", "1 commit of 0")
}

func TestRestamped(t *testing.T) {
	s := newStage(t)
	s.save("f", "one")
	before := s.stat("f")
	after := s.write("copy", "one")
	s.Restamped("f", before, after)
	if is, loose := s.known("f"); is != history.StateOf(after) || loose {
		t.Errorf("%+v, %v; want %+v", is, loose, history.StateOf(after))
	}
	s.Restamped("f", before, before) // of an inode that is not the version's any more
	if is, _ := s.known("f"); is != history.StateOf(after) {
		t.Error("a version has become an inode that it was before")
	}
}

func TestHasFile(t *testing.T) {
	s := newStage(t)
	s.save("f", "one")
	s.save("g", "one")
	s.remove("g", 5)
	for path, want := range map[string]bool{"f": true, "g": false, "h": false} {
		if got := s.HasFile(path); got != want {
			t.Errorf("%s: %v", path, got)
		}
	}
}

func TestMoved(t *testing.T) {
	s := newStage(t)
	for _, path := range []string{"a/f", "b/g"} {
		s.h.Add(history.Version{Path: path, Event: history.Commit})
	}
	s.Moved("a", "b", true)
	if !s.HasFile("b/f") || !s.HasFile("a/g") || s.HasFile("a/f") {
		t.Error("directories that change places do not take their versions along")
	}
	s.Moved("a", "c", false)
	if !s.HasFile("c/g") || s.HasFile("a/g") {
		t.Error("a directory that is renamed does not take its versions along")
	}
}

func TestGiveRoom(t *testing.T) {
	s := newStage(t)
	if s.GiveRoom() {
		t.Error("an empty history gives room")
	}
	s.save("f", "one")
	s.save("f", "two")
	if !s.GiveRoom() || s.GiveRoom() {
		t.Error("what is kept is not given up once")
	}
	s.want("f", "1 commit of 0", "2 commit of 1")
}

func TestForget(t *testing.T) {
	s := newStage(t)
	s.save("f", "one")
	s.save("f", "two")
	s.save("f", "three")
	n, bytes, err := s.Forget("f", func(v *history.Version) bool { return v.Number == 1 })
	if n != 1 || bytes != 3 || err != nil {
		t.Errorf("%d versions of %d bytes, %v", n, bytes, err)
	}
	s.want("f", "1 commit of 0", "2 commit of 1: two", "3 commit of 2")
}

func TestRecovered(t *testing.T) {
	s := newStage(t)
	check(t, os.Mkdir(s.path("d"), 0o700))
	var kept []journal.Intent
	for _, in := range []journal.Intent{{Name: "f"}, {Dir: "d", Name: "f"}} {
		path := filepath.Join(in.Dir, in.Name)
		s.write(path, "of "+path)
		in.Keep = s.h.Add(history.Version{Path: path, Event: history.Commit, State: history.StateOf(s.stat(path))}).Content
		content := filepath.Join(s.path(commit.StateDirName), history.ContentPath(in.Keep))
		check(t, os.MkdirAll(filepath.Dir(content), 0o700))
		check(t, os.Rename(s.path(path), content))
		s.h.Add(history.Version{Path: path, Event: history.Commit, State: history.State{Ino: 1}, Base: 1})
		kept = append(kept, in)
	}
	s.Recovered(commit.Report{Kept: kept})
	s.want("f", "1 commit of 0: of f", "2 commit of 1")
	s.want("d/f", "1 commit of 0: of d/f", "2 commit of 1")
}

func TestNoHistory(t *testing.T) {
	var r *Recorder
	s := newStage(t)
	st := s.write("f", "one")
	r.Moved("a", "b", false)
	r.Changed("f", int(s.dir.Fd()), true)
	r.Is("f", st, true)
	r.Restamped("f", st, st)
	r.Recovered(commit.Report{})
	if r.HasFile("f") || r.GiveRoom() || r.IsContent(st.Ino) || r.IsGrowing(inodeOf(st)) || r.IsFirst("f", st, 3) {
		t.Error("there is something")
	}
	if was, err := r.Unshare(st.Ino); was || err != nil {
		t.Errorf("unshared: %v, %v", was, err)
	}
	if n, _, err := r.Forget("f", nil); n > 0 || err != nil {
		t.Errorf("forgotten: %d, %v", n, err)
	}
	if number, counts := r.Number("f", history.StateOf(st)); number > 0 || counts {
		t.Errorf("number %d, %v", number, counts)
	}
	if back, err := r.PutBack(s.name("f"), "put_back", nil); back != nil || err != nil {
		t.Errorf("put back: %+v, %v", back, err)
	}
	_, err := r.Open("f", 1)
	_, err2 := r.OpenState("f", history.StateOf(st))
	if !errors.Is(err, history.ErrNotKept) || !errors.Is(err2, history.ErrNotKept) {
		t.Errorf("opened: %v, %v", err, err2)
	}
	check(t, r.Close())
}

func TestGrowth(t *testing.T) {
	s := newStage(t)
	st := s.write("f", "one\n")
	f := open(t, s.path("f"))
	for added, want := range map[int]bool{4: true, 3: false} {
		if got := s.IsFirst("f", st, added); got != want {
			t.Errorf("%d bytes of 4 were appended: %v", added, got)
		}
	}
	s.AddFile(history.Version{Path: "f", Event: history.Commit}, st, int(f.Fd()))
	s.want("f", "1 commit of 0")
	if v := s.last("f"); v.State != history.StateOf(st) || v.Rights.Mode != 0o640 || v.Rights.ACL {
		t.Errorf("it is entered as %+v", v)
	}
	if s.IsFirst("f", st, 4) {
		t.Error("what is known is new")
	}

	in := inodeOf(st)
	s.Grow(in, "f", st)
	s.Grow(in, "f", st)
	if _, loose := s.known("f"); !loose || !s.IsGrowing(in) {
		t.Error("it does not grow")
	}
	if s.Rest(in) || !s.IsGrowing(in) {
		t.Error("it rests, and another one makes it grow")
	}
	if !s.Rest(in) || s.IsGrowing(in) || len(s.growing) > 0 {
		t.Error("nobody makes it grow, and it does not rest")
	}
}
