package commit

import (
	"errors"
	"fmt"
	"os"
	"path"
	"slices"
	"strings"
	"testing"

	"latchfs/journal"
	"latchfs/journal/commit/fsck"
	"latchfs/journal/commit/internal/disk"
	"latchfs/journal/history"
)

// stopCleanly ends the daemon as it ends by itself.
func (w *world) stopCleanly() {
	w.t.Helper()
	check(w.t, w.j.Settle())
	check(w.t, w.j.Close())
	w.stop()
}

func TestCheckFindsOrphans(t *testing.T) {
	eachFS(t, func(t *testing.T, w *world) {
		deep := strings.Repeat("deep/", 40)
		for _, name := range []string{orphanName, deep + orphanName, disk.StateDirName + "/" + orphanName} {
			w.write(name, "orphan")
		}
		for _, name := range []string{"d/" + disk.ReservedPrefix + "mine", "nested/.latchfs/journal", "nested/" + orphanName, "d/f"} {
			w.write(name, "keep")
		}
		check(t, os.Symlink(w.path("nested"), w.path("link")))
		w.stop()
		w.mustFind("recoverable orphan "+disk.StateDirName+"/"+orphanName, "recoverable orphan "+orphanName, "recoverable orphan "+deep+orphanName)
		w.stopCleanly() // then no mount would look for them
		w.mustFind("recoverable orphan "+disk.StateDirName+"/"+orphanName, "problem orphan "+orphanName, "problem orphan "+deep+orphanName)
		w.write("d/"+orphanName, "")
		for _, f := range w.repair() {
			want := "its bytes are kept as "
			switch path.Dir(f.Path) {
			case disk.StateDirName:
				want = "removed"
			case "d":
				want = "it was empty, and is removed"
			}
			if !strings.HasPrefix(f.Done, want) {
				t.Errorf("%+v", f)
			}
		}
		for _, id := range w.rejectedIDs() {
			if got := w.read(disk.StateDirName + "/rejected/" + id + "/content"); got != "orphan" {
				t.Errorf("kept is %q", got)
			}
		}
		if n := len(w.rejectedIDs()); n != 2 {
			t.Errorf("%d are kept", n)
		}
		if w.read("nested/"+orphanName)+w.read("d/f") != "keepkeep" {
			t.Error("what is not ours has changed")
		}
	})
}

func TestCheckOfTheStateDirectory(t *testing.T) {
	eachFS(t, func(t *testing.T, w *world) {
		w.stopCleanly()
		w.mustFind()
		w.write(disk.StateDirName+"/notes.txt", "mine")
		w.write(disk.StateDirName+"/ballast-9", "mine")
		check(t, os.Chmod(w.path(disk.StateDirName), 0o755))
		want := []string{"problem state-directory .latchfs", "info unknown-entry .latchfs/ballast-9", "info unknown-entry .latchfs/notes.txt"}
		c := w.mustFind(want...)
		findings, err := c.Repair(t.Context(), t.Logf)
		check(t, err)
		for i, f := range findings {
			if repaired := i == 0; repaired != (f.Done != "") {
				t.Errorf("%+v", f)
			}
		}
		if w.read(disk.StateDirName+"/notes.txt") != "mine" || w.stat(disk.StateDirName).Mode&0o777 != 0o700 {
			t.Error("not what was to be done")
		}
	})
}

// A lock that keeps every mount from starting is a problem.
func TestCheckOfTheLock(t *testing.T) {
	eachFS(t, func(t *testing.T, w *world) {
		w.stopCleanly()
		lock := w.path(disk.StateDirName + "/" + disk.LockName)
		for what, change := range map[string]func() error{
			"writable":     func() error { return os.Chmod(lock, 0o666) },
			"a directory":  func() error { return errors.Join(os.Remove(lock), os.Mkdir(lock, 0o700)) },
			"two names":    func() error { return os.Link(lock, w.path("other")) },
			"another's":    func() error { return os.Chown(lock, 77, 77) },
			"as it was":    func() error { return nil },
			"another mode": func() error { return os.Chmod(lock, 0o644) },
		} {
			if what == "another's" && os.Geteuid() != 0 {
				continue
			}
			check(t, os.RemoveAll(lock))
			os.Remove(w.path("other"))
			check(t, os.WriteFile(lock, nil, 0o600))
			check(t, change())
			if what == "as it was" || what == "another mode" {
				w.mustFind()
				continue
			}
			t.Log(what)
			w.mustFind("problem state-directory .latchfs/daemon.lock")
		}
	})
}

// A directory of that name without a lock is not ours.
func TestCheckOfAForeignDirectory(t *testing.T) {
	eachFS(t, func(t *testing.T, w *world) {
		check(t, w.j.Close())
		before := w.everything()
		c := w.mustFind("problem state-directory .latchfs")
		findings, err := c.Repair(t.Context(), t.Logf)
		if err != nil || len(findings) != 1 || findings[0].Done != "" {
			t.Errorf("%+v, %v", findings, err)
		}
		for name, is := range w.everything() {
			if before[name] != is {
				t.Errorf("%q has changed", name)
			}
		}
	})
}

func TestCheckOfRejected(t *testing.T) {
	eachFS(t, func(t *testing.T, w *world) {
		w.write("f", "old")
		sh, _ := w.shadowOf("f")
		id, err := sh.Reject(map[string]any{"reason": "test"})
		check(t, err)
		check(t, sh.Discard())
		w.stopCleanly()
		w.mustFind()
		entry := disk.StateDirName + "/rejected/"
		w.write(entry+"0-torn/content", "torn")
		w.write(entry+"0-torn/meta.json", `{"id":`)
		w.write(entry+"0-bare/content", "no meta")
		w.write(entry+"0-gone/meta.json", "{}")
		w.write(entry+".new-0-half/content", "half")
		w.write(entry+".new-0-less/meta.json", "{}")
		found := map[string]string{}
		for _, f := range w.repair() {
			found[strings.TrimPrefix(f.Path, entry)] = fmt.Sprintf("%s: %s", f.Severity, f.Done)
		}
		for name, want := range map[string]string{
			"0-torn/meta.json": "problem: renamed to corrupt-meta.json", "0-gone": "problem: renamed to corrupt-rejected-0-gone",
			".new-0-half": "recoverable: finished", ".new-0-less": "recoverable: finished",
		} {
			if found[name] != want {
				t.Errorf("%s: %q, want %q", name, found[name], want)
			}
		}
		if len(found) != 4 {
			t.Errorf("found %v", found)
		}
		for name, want := range map[string]string{"0-torn/content": "torn", "0-torn/corrupt-meta.json": `{"id":`, "0-half/content": "half", id + "/content": "old"} {
			if got := w.read(entry + name); got != want {
				t.Errorf("%s: %q", name, got)
			}
		}
	})
}

// What is pending is said of each file, with what the next mount does about it.
func TestCheckOfPendingIntents(t *testing.T) {
	eachFS(t, func(t *testing.T, w *world) {
		for _, name := range []string{"half/f", "moved/f", "gone/f"} {
			w.write(name, "old and longer")
			w.halfWritten(name)
			w.s.disk.Fault = nil
		}
		check(t, os.Rename(w.path("moved"), w.path("elsewhere")))
		check(t, os.Remove(w.path("gone/f")))
		begin := func(in journal.Intent) {
			_, err := w.j.Begin(in)
			check(t, err)
		}
		begin(journal.Intent{Kind: journal.KindReplace, Dir: "half", Name: "g", ShadowDir: "half", Shadow: orphanName})
		w.write("half/"+orphanName, "shadow")
		begin(journal.Intent{Kind: journal.KindShadow, Dir: "half", Name: "h", ShadowDir: "half", Shadow: strings.Replace(orphanName, "0", "1", 1)})
		w.stop()
		c := w.mustFind("recoverable pending-intent half/f", "recoverable pending-intent moved/f", "recoverable pending-intent gone/f",
			"recoverable pending-intent half/g", "recoverable pending-intent half/h")
		means := map[string]string{}
		for _, f := range c.Findings {
			means[f.Path] = f.Means
		}
		for name, want := range map[string]string{
			"half/f": "does all of it", "moved/f": `the file is at "elsewhere/f" now`, "gone/f": "keeps the new version under rejected/",
			"half/g": "removes the shadow", "half/h": "nothing of it is left",
		} {
			if !strings.Contains(means[name], want) {
				t.Errorf("%s: %q, want %q", name, means[name], want)
			}
		}
		w.repair()
		if half, moved := w.read("half/f"), w.read("elsewhere/f"); half != "new" || moved != "new" {
			t.Errorf("the files hold %q and %q", half, moved)
		}
	})
}

// A journal whose checksums are right and whose names are not, is obeyed by nobody.
func TestImplausibleIntentsTouchNothing(t *testing.T) {
	for _, in := range []journal.Intent{
		{Kind: journal.KindReplace, Dir: "d", ShadowDir: "d", Name: "x", Shadow: "f"},
		{Kind: journal.KindShadow, Dir: "d", ShadowDir: "d", Name: "x", Shadow: "../d/f"},
		{Kind: journal.KindShadow, Dir: "d", ShadowDir: "d", Name: "../d/f", Shadow: orphanName},
		{Kind: journal.KindInPlace, Dir: "d", ShadowDir: "d", Name: "f", Shadow: "g"},
		{Kind: journal.KindInPlace, Dir: "d", ShadowDir: "d", Name: "", Shadow: orphanName},
		{Kind: journal.KindShadow, Dir: "d", ShadowDir: "../d", Name: "f", Shadow: orphanName},
		{Kind: journal.KindReplace, Dir: "d", ShadowDir: "d", Name: "f", Shadow: orphanName, Keep: "x"},
	} {
		eachFS(t, func(t *testing.T, w *world) {
			w.write("d/f", "mine")
			w.write("d/g", "mine")
			st := w.stat("d/f")
			in.TargetDev, in.TargetIno, in.TargetBirth = uint64(st.Dev), st.Ino, disk.Birth(int(openFile(t, w.path("d/f"), os.O_RDONLY).Fd()))
			_, err := w.j.Begin(in)
			check(t, err)
			w.stop()
			c := w.check()
			if f := c.Findings[len(c.Findings)-1]; f.Severity != journal.Problem || f.Kind != fsck.FindBadIntent {
				t.Errorf("found %q", found(c.Findings))
			}
			w.start()
			if _, err := w.s.Recover(); err == nil {
				t.Error("no error")
			}
			w.repair()
			if w.read("d/f")+w.read("d/g") != "minemine" {
				t.Error("a user's file has changed")
			}
			w.start() // a mount goes on
			w.checkNothingLeft()
		})
	}
}

func TestCheckAndRepairOfATransactionAtEveryStep(t *testing.T) {
	eachTxnStop(t, true, func(t *testing.T, w *world, err error) {
		w.stop()
		for _, f := range w.check().Findings {
			if f.Severity == journal.Problem {
				t.Errorf("%+v", f)
			}
		}
		w.repair()
		w.start()
		w.checkTree(err == nil)
	})
}

// With a corrupt journal it may be half a transaction, but nothing is lost.
func TestRepairOfATransactionWithACorruptJournal(t *testing.T) {
	tried := 0
	eachTxnStop(t, true, func(t *testing.T, w *world, err error) {
		tried++
		steps := w.steps
		w.stop()
		w.corrupt(tried)
		w.repair()
		w.start()
		if err == nil {
			w.checkTree(true)
			return
		}
		kept := w.kept()
		for _, name := range []string{"d/f", "d/h", "d/h2", "d/g", "e/x"} {
			b, err := os.ReadFile(w.path(name))
			removed := name == "d/g" || name == "e/x"
			switch {
			case os.IsNotExist(err) && removed && (kept["gone"] || haveRemoved(steps)):
			case err == nil && slices.Contains([]string{"old", "new", "gone"}, string(b)):
			default:
				t.Errorf("%s holds %q, %v", name, b, err)
			}
		}
	})
}

// haveRemoved reports whether a transaction has removed something itself before it
// was stopped.
func haveRemoved(steps []string) bool {
	decided := slices.Index(steps, "syncjournal")
	return decided >= 0 && slices.Contains(steps[decided:], "unlink")
}

// A history that cannot be read is kept, with its contents, and a new one begun.
func TestRepairOfACorruptHistory(t *testing.T) {
	eachFS(t, func(t *testing.T, w *world) {
		w.stopCleanly()
		content := disk.StateDirName + "/" + history.ContentPath(strings.Repeat("ab", 16))
		for n, log := range []string{"", "latchjnl, or so it says"} {
			w.write(content, "old content")
			if log != "" {
				w.write(disk.StateDirName+"/history/log", log)
			} else {
				check(t, os.Remove(w.path(disk.StateDirName+"/history/log")))
			}
			findings := w.repair()
			f := findings[slices.IndexFunc(findings, func(f journal.Finding) bool { return f.Kind == history.FindCorrupt })]
			aside := disk.StateDirName + "/corrupt-history" + []string{"", ".1"}[n]
			if !strings.Contains(f.Done, "kept as "+aside+",") {
				t.Errorf("done: %q", f.Done)
			}
			if got := w.read(strings.Replace(content, disk.StateDirName+"/history", aside, 1)); got != "old content" {
				t.Errorf("kept: %q", got)
			}
		}
	})
}
