package history

import (
	"fmt"
	"os"
	"slices"
	"strings"
	"testing"
	"time"
)

// heavy is content of one block more than nothing: each weighs the same.
func heavy(name string, n int) string { return strings.Repeat(fmt.Sprintf("%s%d ", name, n), 1000) }

// pinned pins version 1 of each path.
func (w *world) pinned(paths ...string) (releases []func()) {
	w.t.Helper()
	for _, p := range paths {
		release, ok := w.s.Pin(p, 1)
		if !ok {
			w.t.Fatalf("version 1 of %s cannot be pinned", p)
		}
		releases = append(releases, release)
	}
	return releases
}

func (w *world) wantKept(when string, number uint64, paths ...string) {
	w.t.Helper()
	for _, p := range paths {
		if _, err := w.read(p, number); err != nil {
			w.t.Errorf("%s version %d of %s: %v", when, number, p, err)
		}
	}
}

// No bound takes what is pinned, and it goes when it is not pinned any more.
func TestPin(t *testing.T) {
	paths := []string{"a", "b", "c"}
	for name, press := range map[string]func(w *world){
		"bytes": func(w *world) {
			for i := range 10 {
				w.save("other", heavy("other", i), 100)
			}
		},
		"space":   func(w *world) { w.s.Free(1 << 40) },
		"age":     func(w *world) { w.later(2 * time.Hour); w.s.tidy() },
		"number":  func(w *world) { w.save("a", "x", 1); w.save("b", "x", 0); w.save("c", "x", 0) },
		"records": func(w *world) { w.s.mu.Lock(); defer w.s.mu.Unlock(); w.s.evictLocked(0) },
	} {
		w := newWorld(t, Options{MaxBytes: 48 << 10, MaxAge: time.Hour})
		for i := range 2 {
			for _, p := range paths {
				w.save(p, heavy(p, i), 100)
			}
		}
		releases := w.pinned(paths...)
		press(w)
		w.files() // empties the trash
		w.wantKept(name+": while it is pinned,", 1, paths...)
		for _, release := range releases {
			release()
		}
		press(w)
		w.files()
		for _, p := range paths {
			if _, err := w.read(p, 1); err == nil {
				t.Errorf("%s: version 1 of %s is kept, and nobody has it pinned", name, p)
			}
		}
		w.s.mu.Lock()
		left := len(w.s.pins)
		w.s.mu.Unlock()
		if left > 0 {
			t.Errorf("%s: %d pins are left", name, left)
		}
	}
}

// Twice pinned is pinned until both are over.
func TestPinTwice(t *testing.T) {
	w := newWorld(t, Options{})
	w.save("a", "1", 9)
	w.save("a", "2", 9)
	releases := append(w.pinned("a"), w.pinned("a")...)
	releases[0]()
	w.s.Free(1 << 40)
	w.wantKept("once released,", 1, "a")
	releases[1]()
	w.s.Free(1 << 40)
	if n := len(w.files()); n > 0 {
		t.Errorf("%d contents are left", n)
	}
}

// What cannot be read cannot be pinned, and what is to be erased is.
func TestPinRefused(t *testing.T) {
	w := newWorld(t, Options{})
	w.save("a", "1", 9)
	w.save("a", "2", 9)
	w.remove("a", 9)
	for _, at := range []struct {
		path   string
		number uint64
	}{{"b", 1}, {"a", 7}, {"a", 3}} {
		if _, ok := w.s.Pin(at.path, at.number); ok {
			t.Errorf("version %d of %s is pinned", at.number, at.path)
		}
	}
	defer w.pinned("a")[0]()
	if n, _, err := w.s.Forget("a", func(*Version) bool { return true }); n != 2 || err != nil {
		t.Errorf("%d are erased, %v", n, err)
	}
	if _, ok := w.s.Pin("a", 1); ok || len(w.files()) > 0 {
		t.Error("what was erased is pinned")
	}
}

// A file that was renamed comes into the history when something replaces it, and stays.
func TestPinOfARenamedFile(t *testing.T) {
	w := newWorld(t, Options{MaxBytes: 16 << 10})
	w.save("a", heavy("a", 1), 9)
	w.rename("a", "b", 9)
	defer w.pinned("a")[0]()
	w.save("b", heavy("b", 2), 9)
	for i := range 5 {
		w.save("other", heavy("other", i), 9)
	}
	w.later(time.Hour)
	w.s.tidy() // a is gone for long
	w.files()
	w.wantKept("after the rename", 1, "a")
}

// One user's pins do not make others lose what they have.
func TestPinsOfTheHeaviest(t *testing.T) {
	w := newWorld(t, Options{MaxBytes: 30 << 10})
	by := func(uid uint32, p string, n int) {
		old := Ref{}
		if n > 0 {
			old = w.ref(p)
			w.into(p, old.Content)
		}
		check(t, os.WriteFile(w.path(p), []byte(heavy(p, n)), 0o600))
		w.s.Add(Version{Path: p, Event: Commit, UID: uid, State: StateOf(w.stat(p))})
		w.s.Keep(p, old, 99)
	}
	his := []string{"a", "b", "c", "d", "e", "f"}
	for n := range 2 {
		for _, p := range his {
			by(1, p, n)
		}
	}
	releases := w.pinned(his...)
	for n := range 4 {
		by(2, "x", n)
	}
	w.wantKept("while another has his pinned,", 1, append(his, "x")...)
	before := w.s.kept.Bytes()
	slices.Reverse(releases)
	for _, release := range releases {
		release()
	}
	if w.s.kept.Bytes() >= before || w.s.kept.Bytes() > 30<<10 {
		t.Errorf("%d bytes are kept, before the end of the pins %d", w.s.kept.Bytes(), before)
	}
}
