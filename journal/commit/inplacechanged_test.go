package commit

import (
	"errors"
	"os"
	"path/filepath"
	"slices"
	"strings"
	"testing"

	"github.com/google/go-cmp/cmp"

	"latchfs/journal/commit/internal/disk"
	"latchfs/journal/commit/internal/recovery"
)

// page is content of one page, the least that a copy leaves whole when its daemon is killed.
func page(c string) string { return strings.Repeat(c, 4096) }

// halfCopied stops a commit in place of the file name, whose new content is that, when the
// first copied bytes of it are in the file.
func (w *world) halfCopied(name, content string, copied int) {
	w.t.Helper()
	target := openFile(w.t, w.path(name), os.O_RDWR)
	sh, base := w.shadowOf(name)
	overwriteFD(w.t, sh.FD(), content)
	w.s.disk.Fault = dieAtCopy(w.t, target, content[:copied])
	_, err := sh.InPlace(int(target.Fd()), w.publishOptions(name, base))
	if !errors.Is(err, ErrRedoPending) {
		w.t.Fatalf("error %v", err)
	}
	sh.Discard()
	check(w.t, target.Close())
}

// dieAtCopy lets the daemon die when copied has been written to target.
func dieAtCopy(t testing.TB, target *os.File, copied string) func(string) error {
	dead := false
	return func(step string) error {
		if !dead && (step == "clone" || step == "copy") {
			dead = true
			check(t, disk.WriteAll(int(target.Fd()), []byte(copied), 0))
		}
		if dead {
			return errInjected
		}
		return nil
	}
}

// changes are what somebody does to a file outside the mount, after a crash has left the
// first page of its new content, or less, before the last of its old.
var changes = map[string]struct {
	old, new string
	copied   int
	do       func(w *world)
	holds    string // what the file holds after the recovery; "": its new content
	kept     string // the bytes kept aside; "": none
}{
	"nothing, nothing copied": {old: page("o") + page("p"), new: page("n") + page("m")},
	"nothing, half copied":    {old: page("o") + page("p"), new: page("n") + page("m"), copied: 4096},
	"nothing, all copied":     {old: page("o") + page("p"), new: page("n") + "end", copied: 4099},
	"nothing, longer":         {old: "short", new: page("n") + page("m"), copied: 4096},
	"nothing, not cut off":    {old: page("o") + page("p"), new: "new", copied: 3},
	"nothing, lost in a power cut": {
		old: page("o") + page("p"), new: page("n") + page("m"), copied: 4096,
		do: func(w *world) { w.writeAt("d/f", 512, strings.Repeat("\x00", 1024)) },
	},
	"nothing, a large file": {
		old: strings.Repeat("o", 3<<20), new: strings.Repeat("n", 3<<20), copied: 3 << 20,
	},
	"written anew": {
		old: "old", new: "new", copied: 3,
		do:    func(w *world) { w.write("d/f", "theirs") },
		holds: "theirs", kept: "new",
	},
	"written anew, half copied": {
		old: page("o") + page("p"), new: page("n") + page("m"), copied: 4096,
		do:    func(w *world) { w.write("d/f", "theirs") },
		holds: "theirs", kept: page("n") + page("m"),
	},
	"appended to, nothing copied": {
		old: page("o"), new: page("n"),
		do:    func(w *world) { w.writeAt("d/f", 4096, "theirs") },
		holds: page("o") + "theirs", kept: page("n"),
	},
	"appended to, half copied": {
		old: page("o") + page("p"), new: page("n") + page("m"), copied: 4096,
		do:   func(w *world) { w.writeAt("d/f", 8192, "theirs") },
		kept: page("n") + page("p") + "theirs",
	},
	"written in the middle, all copied": {
		old: page("o"), new: page("n") + page("m"), copied: 8192,
		do:   func(w *world) { w.writeAt("d/f", 100, "theirs") },
		kept: strings.Repeat("n", 100) + "theirs" + page("n")[106:] + page("m"),
	},
	"emptied": {
		old: page("o"), new: page("n"),
		do: func(w *world) { w.write("d/f", "") },
	},
	"a large file, half copied": { // it cannot be told whether anybody has written
		old: strings.Repeat("o", 3<<20), new: strings.Repeat("n", 3<<20), copied: 4096,
		kept: page("n") + strings.Repeat("o", 3<<20-4096),
	},
}

func (w *world) writeAt(name string, at int64, content string) {
	w.t.Helper()
	f := openFile(w.t, w.path(name), os.O_WRONLY)
	check(w.t, disk.WriteAll(int(f.Fd()), []byte(content), at))
	check(w.t, f.Close())
}

// crashedAndChanged is a world after a crash and a change.
func crashedAndChanged(t *testing.T, root, name string) *world {
	t.Helper()
	c := changes[name]
	w := newWorld(t, root)
	w.write("d/f", c.old)
	check(t, os.Link(w.path("d/f"), w.path("other")))
	w.halfCopied("d/f", c.new, c.copied)
	if c.do != nil {
		c.do(w)
	}
	w.start()
	return w
}

// checkChanged: the file holds what it is to hold, and what was to be kept is aside, once or
// more.
func (w *world) checkChanged(name string, once bool) {
	w.t.Helper()
	c := changes[name]
	if c.holds == "" {
		c.holds = c.new
	}
	if w.read("d/f") != c.holds || w.read("other") != c.holds {
		w.t.Errorf("the file holds %.20q, under its other name %.20q", w.read("d/f"), w.read("other"))
	}
	entries, err := filepath.Glob(w.path(".latchfs/rejected/*/content"))
	check(w.t, err)
	var kept []string
	for _, path := range entries {
		b, err := os.ReadFile(path)
		check(w.t, err)
		kept = append(kept, string(b))
	}
	if wanted := c.kept != ""; once && len(kept) > 1 || wanted != (len(kept) > 0) || wanted && !slices.Contains(kept, c.kept) {
		w.t.Errorf("kept %.20q", kept)
	}
	w.checkNothingLeft()
}

// A commit in place is finished over nothing that somebody has written since the crash.
func TestRedoKeepsWhatWasWrittenSince(t *testing.T) {
	eachFS(t, func(t *testing.T, w *world) {
		for name, c := range changes {
			t.Run(name, func(t *testing.T) {
				root, err := os.MkdirTemp(w.root, "of-")
				check(t, err)
				w := crashedAndChanged(t, root, name)
				r, err := w.s.Recover()
				check(t, err)
				w.checkChanged(name, true)
				want := recovery.Report{SweepDue: true}
				if c.holds == "" {
					want.Redone = r.Redone
				}
				if c.kept != "" {
					want.Salvaged = r.Salvaged
					want.Changed = []recovery.Changed{{In: r.Changed[0].In, Path: "d/f", Stands: c.holds != "", Kept: r.Salvaged[0]}}
				}
				if diff := cmp.Diff(want, r); diff != "" || len(r.Redone) != len(want.Redone) {
					t.Error(diff)
				}
			})
		}
	})
}

// Nothing of it is lost when a crash hits the recovery as well, at whatever step.
func TestCrashWhileKeepingWhatWasWrittenSince(t *testing.T) {
	eachFS(t, func(t *testing.T, w *world) {
		// Each crash leaves descriptors open, until the test ends: so not all of them.
		for _, name := range []string{"nothing, half copied", "written anew, half copied", "appended to, half copied"} {
			t.Run(name, func(t *testing.T) {
				for n, reached := 1, true; reached && !t.Failed(); n++ {
					root, err := os.MkdirTemp(w.root, "of-")
					check(t, err)
					w := crashedAndChanged(t, root, name)
					w.s.rejects.NoBallast()
					stopped := w.failAt(n, true)
					_, _ = w.s.Recover()
					reached = stopped()
					w.restart()
					w.checkChanged(name, false)
					check(t, os.RemoveAll(root))
				}
			})
		}
	})
}

// A part of a decided transaction is no other.
func TestTxnInPlaceKeepsWhatWasWrittenSince(t *testing.T) {
	eachFS(t, func(t *testing.T, w *world) {
		w.write("d/f", page("o")+page("p"))
		check(t, os.Link(w.path("d/f"), w.path("other")))
		target := openFile(t, w.path("d/f"), os.O_RDWR)
		sh, base := w.shadowOf("d/f")
		overwriteFD(t, sh.FD(), "new")
		txn := w.s.NewTxn(1)
		check(t, txn.PutInPlace(sh, int(target.Fd()), w.publishOptions("d/f", base)))
		w.s.disk.Fault = dieAtCopy(t, target, "new")
		if err := txn.Commit(); !errors.Is(err, ErrRedoPending) {
			t.Fatalf("error %v", err)
		}
		_ = sh.Discard()
		w.writeAt("d/f", 8192, "theirs")
		w.start()
		r, err := w.s.Recover()
		check(t, err)
		if got := w.read("d/f"); got != "new" || len(r.Changed) != 1 {
			t.Fatalf("the file holds %.20q, report %+v", got, r)
		}
		want := "new" + page("o")[3:] + page("p") + "theirs"
		if kept := w.read(".latchfs/rejected/" + r.Changed[0].Kept + "/content"); kept != want {
			t.Errorf("kept %.20q", kept)
		}
		w.checkNothingLeft()
	})
}

// What an error of the disk has left half written is known as long as the daemon lives, and
// a commit of which it has told that it will be finished is.
func TestRedoInTheSameRun(t *testing.T) {
	eachFS(t, func(t *testing.T, w *world) {
		large := strings.Repeat("o", 3<<20)
		for name, since := range map[string]func(){
			"nothing":      func() {},
			"written anew": func() { w.write("d/f", "theirs") },
		} {
			w.write("d/f", large)
			w.halfCopied("d/f", page("n"), 100)
			since()
			_, err := w.s.Recover()
			if !errors.Is(err, errInjected) {
				t.Errorf("%s: error %v", name, err)
			}
			w.s.disk.Fault = nil
			r, err := w.s.Recover()
			check(t, err)
			if changed := name != "nothing"; w.read("d/f") != page("n") || (len(r.Changed) == 1) != changed {
				t.Errorf("%s: the file holds %.20q, report %+v", name, w.read("d/f"), r)
			}
			for _, c := range r.Changed {
				if kept := w.read(".latchfs/rejected/" + c.Kept + "/content"); kept != "theirs" {
					t.Errorf("%s: kept %.20q", name, kept)
				}
			}
			w.checkNothingLeft()
		}
	})
}
