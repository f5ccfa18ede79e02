package commit

import (
	"errors"
	"os"
	"slices"
	"testing"

	"golang.org/x/sys/unix"
)

// makeBelow makes a directory with one in it, and a link in d, for a transaction.
func (w *world) makeBelow(txn *Txn) {
	w.t.Helper()
	for _, m := range []struct {
		dir, name string
		do        func(dir int, name string) error
	}{
		{"d", "m", func(dir int, name string) error { return unix.Mkdirat(dir, name, 0o755) }},
		{"d/m", "k", func(dir int, name string) error { return unix.Mkdirat(dir, name, 0o755) }},
		{"d", "link", func(dir int, name string) error { return unix.Symlinkat("f", dir, name) }},
	} {
		check(w.t, txn.Make(MakeOptions{w.openDir(m.dir), m.dir, m.name}, m.do))
	}
}

// What a transaction has made that is not decided when the daemon dies is taken away also
// where its directory has got another name since, and nothing else is that has its name.
func TestTxnTakesAwayWhatIsInAMovedDirectory(t *testing.T) {
	for moved, do := range map[string]func(w *world){
		"renamed":     func(w *world) { check(w.t, os.Rename(w.path("d"), w.path("new"))) },
		"moved below": func(w *world) { check(w.t, os.Rename(w.path("d"), w.path("o/d"))) },
		"another one has its name": func(w *world) {
			check(w.t, os.Rename(w.path("d"), w.path("new")))
			check(w.t, os.MkdirAll(w.path("d/m/theirs"), 0o755))
			check(w.t, os.Symlink("f", w.path("d/link")))
		},
		"what was made is gone": func(w *world) { check(w.t, os.RemoveAll(w.path("d"))) },
		"somebody uses what was made": func(w *world) {
			w.write("d/m/theirs", "")
			check(w.t, os.Rename(w.path("d"), w.path("new")))
		},
	} {
		t.Run(moved, func(t *testing.T) {
			eachFS(t, func(t *testing.T, w *world) {
				w.write("d/f", "old")
				w.write("o/f", "old")
				w.makeBelow(w.s.NewTxn(7))
				before := w.tree()
				do(w)
				w.restart()
				want := map[string][]string{
					"renamed":                     {"new/", "new/f=old", "o/", "o/f=old"},
					"moved below":                 {"o/", "o/d/", "o/d/f=old", "o/f=old"},
					"another one has its name":    {"d/link -> f", "d/m/", "d/m/theirs/", "new/", "new/f=old", "o/", "o/f=old"},
					"what was made is gone":       {"o/", "o/f=old"},
					"somebody uses what was made": {"new/", "new/f=old", "new/m/", "new/m/theirs=", "o/", "o/f=old"},
				}[moved]
				if got := w.tree(); !slices.Equal(got, want) {
					t.Errorf("before the crash: %q\nthe tree is %q\nnot %q", before, got, want)
				}
				w.checkNothingLeft()
			})
		})
	}
}

// The recovery of that is cut off at each of its steps, and the next one does it.
func TestTxnTakesAwayWhatIsInAMovedDirectoryAtEveryStep(t *testing.T) {
	eachFS(t, func(t *testing.T, w *world) {
		w.write("d/f", "old")
		w.makeBelow(w.s.NewTxn(7))
		check(t, os.Rename(w.path("d"), w.path("new")))
		cut := 0
		for n := 1; ; n++ {
			w.start()
			w.s.rejects.NoBallast()
			reached := w.failAt(n, true)
			w.s.Recover()
			if !reached() {
				break
			}
			cut = n
		}
		w.restart()
		if got, want := w.tree(), []string{"new/", "new/f=old"}; !slices.Equal(got, want) || cut < 4 {
			t.Errorf("cut off %d times; the tree is %q, not %q", cut, got, want)
		}
		w.checkNothingLeft()
	})
}

// Who has made something may take it away again wherever its directory is by now.
func TestUnmakeInAMovedDirectory(t *testing.T) {
	eachFS(t, func(t *testing.T, w *world) {
		w.write("d/f", "old")
		txn := w.s.NewTxn(1)
		w.makeBelow(txn)
		check(t, os.Rename(w.path("d"), w.path("new")))
		check(t, os.Mkdir(w.path("d"), 0o755))
		if err := txn.Unmake(w.openDir("d"), "link"); !errors.Is(err, ErrConflict) {
			t.Errorf("in the directory that has the name now: %v", err)
		}
		check(t, txn.Unmake(w.openDir("new"), "link"))
		check(t, txn.Commit())
		if _, err := os.Lstat(w.path("new/link")); !errors.Is(err, os.ErrNotExist) {
			t.Errorf("the link: %v", err)
		}
		w.checkNothingLeft()
	})
}
