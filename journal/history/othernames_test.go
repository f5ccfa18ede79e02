package history

import (
	"os"
	"slices"
	"strings"
	"testing"
	"time"
)

// write writes a file in place, as one with several names is: the old content is copied
// into the history, as a version of path.
func (w *world) write(path, content string) {
	w.t.Helper()
	old := w.ref(path)
	b, err := os.ReadFile(w.path(path))
	check(w.t, err)
	check(w.t, os.WriteFile(w.path("copy"), b, 0o600))
	w.into("copy", old.Content)
	check(w.t, os.WriteFile(w.path(path), []byte(content), 0o600))
	w.s.Add(Version{Path: path, Event: Commit, Base: old.Number, State: StateOf(w.stat(path))})
	w.s.Keep(path, old, 9)
}

// What is kept of a file under another of its names is found, and other files are not
// taken for it.
func TestOtherNames(t *testing.T) {
	w := newWorld(t, Options{})
	tick := func() { w.later(time.Second) }
	w.save("h", "SECRET", 9)
	tick()
	check(t, os.Link(w.path("h"), w.path("hh")))
	check(t, os.Link(w.path("h"), w.path("unsaved")))
	w.write("hh", "clean")
	tick()
	w.save("other", "x", 9)
	w.save("other", "y", 9)
	w.rename("other", "renamed", 9)
	w.save("renamed", "z", 9)
	expect := func(path string, want ...string) {
		t.Helper()
		now := uint64(0)
		if _, err := os.Lstat(w.path(path)); err == nil {
			now = w.stat(path).Ino
		}
		if got := w.s.OtherNames(path, now); !slices.Equal(got, want) {
			t.Errorf("of %s something is kept under %q, want %q", path, got, want)
		}
	}
	expect("h", "hh")
	expect("hh")
	expect("unsaved", "hh")
	expect("other")
	expect("renamed")
	expect("none")
	check(t, os.Remove(w.path("h")))
	w.s.Add(Version{Path: "h", Event: Delete})
	tick()
	expect("h", "hh")
	if _, _, err := w.s.Forget("hh", func(*Version) bool { return true }); err != nil {
		t.Fatal(err)
	}
	expect("h")
	if text := w.show("hh"); strings.Contains(text, "SECRET") {
		t.Error(text)
	}
}

// Two paths with one inode are names of one file only if they had it at the same time, and
// not if one became the other.
func TestInodesAreUsedAgain(t *testing.T) {
	at := func(from, to int64) []span { return []span{{path: "b", ino: 7, from: from, to: to, kept: true}} }
	mine := []span{{path: "a", ino: 7, from: 10, to: 20}, {path: "a", ino: 8, from: 20, to: 30}}
	for from, want := range map[int64]bool{0: false, 5: false, 6: true, 15: true, 19: true, 20: false, 25: false} {
		if got := keepsOf(at(from, from+5), mine); got != want {
			t.Errorf("from %d on: %v", from, got)
		}
	}
	moved := at(19, 40)
	moved[0].renamed = "a"
	if keepsOf(moved, mine) {
		t.Error("a rename makes a second name")
	}
}
