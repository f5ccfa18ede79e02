package commit

import (
	"maps"
	"os"
	"path/filepath"
	"slices"
	"testing"

	"latchfs/journal/commit/internal/disk"
)

// txnChanges are what somebody does outside the mount after a crash in the middle of a
// transaction that is decided.
var txnChanges = map[string]struct {
	do   func(w *world)
	tree []string // after the recovery, as far as it is not txnAfter
	kept []string // the bytes kept aside
}{
	"nothing":          {do: func(*world) {}},
	"written in place": {do: func(w *world) { w.write("d/f", "theirs") }}, // it is in the history
	"replaced": {
		do:   func(w *world) { w.write("d/t", "theirs"); check(w.t, os.Rename(w.path("d/t"), w.path("d/f"))) },
		kept: []string{"theirs"},
	},
	"removed": {do: func(w *world) { check(w.t, os.Remove(w.path("d/f"))) }},
	"removed and made anew": {
		do:   func(w *world) { check(w.t, os.Remove(w.path("d/f"))); w.write("d/f", "theirs") },
		kept: []string{"theirs"},
	},
	"a new name made": {do: func(w *world) { w.write("d/n", "theirs") }, kept: []string{"theirs"}},
	"both": {
		do: func(w *world) {
			w.write("d/n", "theirs")
			check(w.t, os.Rename(w.path("d/n"), w.path("d/f")))
			w.write("d/n", "theirs, too")
		},
		kept: []string{"theirs", "theirs, too"},
	},
	"a directory made": {
		do:   func(w *world) { check(w.t, os.Remove(w.path("d/f"))); check(w.t, os.Mkdir(w.path("d/f"), 0o755)) },
		tree: []string{"d/f/"}, kept: []string{"new"},
	},
	"a link made": {
		do:   func(w *world) { check(w.t, os.Symlink("f", w.path("d/n"))) },
		tree: []string{"d/n -> f"}, kept: []string{"new"},
	},
}

// crashedInTxn is a world after a crash in a transaction that is decided, before it has
// changed anything, with a change by somebody. late: the crash comes right after the first
// part of the transaction, and the change right before.
func crashedInTxn(t *testing.T, at, change string, late bool) *world {
	t.Helper()
	w := txnWorld(t, at)
	w.s.rejects.NoBallast()
	decided, begun, dead := false, false, false
	w.s.disk.Fault = func(s string) error {
		dead = dead || begun || decided && s == "rename" && !late
		if !dead && decided && s == "rename" {
			begun = true
			txnChanges[change].do(w)
		}
		decided = decided || s == "syncjournal"
		if dead {
			return errInjected
		}
		return nil
	}
	if err := w.transact(); !dead || err == nil {
		t.Fatalf("no crash: %v", err)
	}
	if !late {
		txnChanges[change].do(w)
	}
	w.start()
	w.s.rejects.NoBallast()
	return w
}

// checkTxnChanged: the transaction has happened as far as it can, and what was to be kept
// is aside, once or more.
func (w *world) checkTxnChanged(change string, once bool) {
	w.t.Helper()
	c := txnChanges[change]
	want := slices.Clone(txnAfter)
	for _, line := range c.tree {
		want = slices.DeleteFunc(want, func(s string) bool { return s[:3] == line[:3] && len(s) > 3 && s[3] == '=' })
		want = append(want, line)
	}
	slices.Sort(want)
	if got := w.tree(); !slices.Equal(got, want) {
		w.t.Errorf("the tree is %q, not %q", got, want)
	}
	entries, err := filepath.Glob(w.path(disk.StateDirName + "/rejected/*/content"))
	check(w.t, err)
	var kept []string
	for _, path := range entries {
		b, err := os.ReadFile(path)
		check(w.t, err)
		kept = append(kept, string(b))
	}
	slices.Sort(kept)
	missing := slices.ContainsFunc(c.kept, func(s string) bool { return !slices.Contains(kept, s) })
	if missing || once && !slices.Equal(kept, c.kept) {
		w.t.Errorf("kept %q, not %q", kept, c.kept)
	}
}

// A decided transaction is finished over nothing that somebody has put there since the
// crash, wherever that came and wherever the recovery is cut off in its turn.
func TestTxnKeepsWhatWasPutThereSince(t *testing.T) {
	for i, change := range slices.Sorted(maps.Keys(txnChanges)) {
		c := txnChanges[change]
		for fs, at := range inTurn(i) {
			t.Run(fs+"/"+change, func(t *testing.T) {
				w := crashedInTxn(t, at, change, false)
				r, err := w.s.Recover()
				check(t, err)
				w.checkTxnChanged(change, true)
				if len(r.Salvaged) != len(c.kept) || len(c.tree) == 0 && len(r.Changed) != len(c.kept) {
					t.Errorf("told of %d kept and of %+v", len(r.Salvaged), r.Changed)
				}
				w.checkNothingLeft()
				os.RemoveAll(w.root)

				for n := 1; ; n++ {
					w := crashedInTxn(t, at, change, false)
					reached := w.failAt(n, true)
					w.s.Recover()
					cut := reached()
					w.restart()
					w.checkTxnChanged(change, false)
					w.checkNothingLeft()
					os.RemoveAll(w.root)
					if t.Failed() || !cut {
						break
					}
				}
			})
		}
	}
}

// The same where the directory has moved meanwhile.
func TestTxnKeepsWhatWasPutInAMovedDirectory(t *testing.T) {
	for fs, at := range filesystems {
		t.Run(fs, func(t *testing.T) {
			w := crashedInTxn(t, at, "both", false)
			check(t, os.Rename(w.path("d"), w.path("moved")))
			r, err := w.s.Recover()
			check(t, err)
			if w.read("moved/f") != "new" || w.read("moved/n") != "new" || len(r.Changed) != 2 {
				t.Errorf("moved/f holds %q, moved/n %q; told of %+v", w.read("moved/f"), w.read("moved/n"), r.Changed)
			}
			os.RemoveAll(w.root)
		})
	}
}

// What gets the name of a part at the last moment has changed places with the shadow when
// the crash comes.
func TestTxnKeepsWhatCameAtTheLastMoment(t *testing.T) {
	for fs, at := range filesystems {
		t.Run(fs, func(t *testing.T) {
			w := crashedInTxn(t, at, "replaced", true)
			if w.read("d/f") != "new" {
				t.Fatalf("d/f holds %q before the recovery", w.read("d/f"))
			}
			_, err := w.s.Recover()
			check(t, err)
			w.checkTxnChanged("replaced", true)
			w.checkNothingLeft()
			os.RemoveAll(w.root)
		})
	}
}
