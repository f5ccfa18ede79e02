package commit

import (
	"errors"
	"os"
	"testing"

	"golang.org/x/sys/unix"

	"latchfs/journal/commit/internal/disk"
	"latchfs/journal/commit/internal/keep"
	"latchfs/journal/history"
)

// replacedInTxn replaces d/f in a transaction, with the old version going into the history.
func replacedInTxn(w *world) bool {
	sh, base := w.shadowOf("d/f")
	defer sh.Discard()
	overwriteFD(w.t, sh.FD(), "new")
	txn := w.s.NewTxn(1)
	o := w.publishOptions("d/f", base)
	o.Keep.ID = theContent
	check(w.t, txn.Put(sh, o))
	return txn.Commit() == nil
}

// dying returns work whose daemon dies after the step, and what the next one makes of it.
func dying(step string, work func(w *world) bool) func(w *world) bool {
	return func(w *world) bool {
		inner, dead := w.s.disk.Fault, false
		w.s.disk.Fault = func(s string) error {
			switch {
			case dead:
				return errInjected
			case s == step:
				dead = true
			}
			return inner(s)
		}
		work(w)
		w.start()
		w.s.disk.Fault = inner
		_, err := w.s.Recover()
		check(w.t, err)
		return dead
	}
}

// keptWays are the ways in which the file d/f loses its name and goes into the history.
var keptWays = map[string]func(w *world) bool{
	"publish":             replaceKept(keep.Keep{ID: theContent}),
	"publish by a rename": without("exchange", unix.EINVAL, replaceKept(keep.Keep{ID: theContent})),
	"publish lazily":      func(w *world) bool { return w.saveLazily("d/f", "new", theContent) && w.settleAll() == nil },
	"a transaction":       replacedInTxn,
	"rename": func(w *world) bool {
		w.write("d/t", "new")
		return renameKept(keep.Keep{ID: theContent})(w)
	},
	"remove":                      removeKept(keep.Keep{ID: theContent}),
	"recovery":                    dying("exchange", replaceKept(keep.Keep{ID: theContent})),
	"recovery of a transaction":   dying("rename", replacedInTxn),
	"recovery before an exchange": dying("syncjournal", replacedInTxn),
}

// A file that has another name when it loses one is not what the history keeps: a copy is, and
// what is done to the file by its other name leaves that alone.
func TestHistoryKeepsNoFileThatHasOtherNames(t *testing.T) {
	for way, work := range keptWays {
		t.Run(way, func(t *testing.T) {
			eachFS(t, func(t *testing.T, w *world) {
				w.write("d/f", "old")
				check(t, os.Link(w.path("d/f"), w.path("other")))
				if !work(w) {
					t.Fatal("it has failed")
				}
				w.checkCopyIsKept()
			})
		})
	}
}

// A name may be given to the file at the last moment: when it is known that it had no other.
func TestHistoryKeepsNoFileThatGetsAnotherName(t *testing.T) {
	for way, work := range keptWays {
		t.Run(way, func(t *testing.T) {
			eachFS(t, func(t *testing.T, w *world) {
				w.write("d/f", "old")
				f, inner := openFile(t, w.path("d/f"), os.O_RDONLY), w.s.disk.Fault
				links := map[string]int{"rename": 1, "publish by a rename": 2}[way] // until the history's
				w.s.disk.Fault = func(step string) error {
					if step == "link" {
						links--
					}
					_, missing := os.Lstat(w.path("other"))
					if missing != nil && (step == "keep" || step == "link" && links == 0) {
						check(t, disk.LinkFD(int(f.Fd()), int(w.dir.Fd()), "other"))
					}
					return inner(step)
				}
				if !work(w) {
					t.Fatal("it has failed")
				}
				w.checkCopyIsKept()
			})
		})
	}
}

// checkCopyIsKept: the history holds what the file was that is now "other" alone.
func (w *world) checkCopyIsKept() {
	w.t.Helper()
	st, content := w.stat("other"), StateDirName+"/"+history.ContentPath(theContent)
	if st.Nlink != 1 {
		w.t.Errorf("the file has %d names", st.Nlink)
	}
	w.write("other", "written since")
	check(w.t, os.Chmod(w.path("other"), 0o600))
	if kept := w.stat(content); kept.Ino == st.Ino || w.read(content) != "old" || kept.Mode != unix.S_IFREG|0o644 {
		w.t.Errorf("the history holds %q with the mode %o, the inode %d; the file is %d", w.read(content), kept.Mode, kept.Ino, st.Ino)
	}
}

// A copy of content that is too large for that is not made, and the name is lost all the same.
func TestHistoryKeepsNoLargeFileThatHasOtherNames(t *testing.T) {
	eachFS(t, func(t *testing.T, w *world) {
		w.write("d/f", "")
		check(t, os.Truncate(w.path("d/f"), keep.MaxKeptCopy+1))
		check(t, os.Link(w.path("d/f"), w.path("other")))
		work := without("clone", unix.EOPNOTSUPP, removeKept(keep.Keep{ID: theContent}))
		if !work(w) {
			t.Fatal("it was not removed")
		}
		_, err := os.Lstat(w.path(StateDirName + "/" + history.ContentPath(theContent)))
		if st := w.stat("other"); st.Nlink != 1 || !errors.Is(err, os.ErrNotExist) {
			t.Errorf("%d names, in the history: %v", st.Nlink, err)
		}
	})
}
