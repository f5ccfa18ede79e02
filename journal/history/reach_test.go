package history

import (
	"reflect"
	"testing"
)

// Who could reach a content is known over restarts and rewrites of the log; where it
// was never told nobody could.
func TestReach(t *testing.T) {
	w := newWorld(t, Options{})
	for _, text := range []string{"one", "two", "three", "four"} {
		w.save("f", text, 9)
	}
	gates := []Gate{{1000, 100, 0o100}, {0, 7, 0o110}}
	list := w.s.Of("f")
	w.s.Reached(list[0].Content, Reach{Known: true, Gates: gates})
	w.s.Reached(list[1].Content, Reach{Known: true})
	w.s.Reached(list[3].Content, Reach{Known: true}) // it is not kept
	want := []Reach{{Known: true, Gates: gates}, {Known: true}, {}, {}}
	for _, how := range []string{"at once", "after a stop", "after a crash", "after a rewrite", "after a rewrite and a stop"} {
		switch how {
		case "after a stop", "after a crash", "after a rewrite and a stop":
			w.reopen(how == "after a crash")
		case "after a rewrite":
			w.s.rewrite()
		}
		for i, v := range w.s.Of("f") {
			if !reflect.DeepEqual(v.Reach, want[i]) {
				t.Errorf("%s: version %d: %+v, want %+v", how, v.Number, v.Reach, want[i])
			}
		}
	}
}

// Forgotten contents are gone from the disk, and all others are there.
func TestForget(t *testing.T) {
	w := newWorld(t, Options{})
	for _, text := range []string{"one", "two", "three", "four"} {
		w.save("f", text, 9)
		w.save("g", text, 9)
	}
	n, bytes, err := w.s.Forget("f", func(v *Version) bool { return v.Number == 2 })
	if n != 1 || bytes != 3 || err != nil {
		t.Errorf("one version: %d, %d, %v", n, bytes, err)
	}
	w.expect("f", "1 commit \"one\"\n2 commit\n3 commit \"three\"\n4 commit now")
	if n, bytes, err = w.s.Forget("f", func(*Version) bool { return true }); n != 2 || bytes != 8 || err != nil {
		t.Errorf("all: %d, %d, %v", n, bytes, err)
	}
	for _, crash := range []bool{true, false} {
		w.expect("f", "1 commit\n2 commit\n3 commit\n4 commit now")
		w.expect("g", "1 commit \"one\"\n2 commit \"two\"\n3 commit \"three\"\n4 commit now")
		if n := len(w.files()); n != 3 {
			t.Errorf("%d contents on disk", n)
		}
		w.reopen(crash)
	}
	if n, _, err := w.s.Forget("nothing", func(*Version) bool { return true }); n != 0 || err != nil {
		t.Errorf("what is not known: %d, %v", n, err)
	}
}
