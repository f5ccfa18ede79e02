package commit

import (
	"context"
	"crypto/sha256"
	"errors"
	"fmt"
	"io"
	"io/fs"
	"os"
	"path/filepath"
	"slices"
	"strings"
	"testing"

	"golang.org/x/sys/unix"

	"latchfs/journal"
	"latchfs/journal/commit/fsck"
	"latchfs/journal/commit/internal/disk"
	"latchfs/journal/history"
)

// stop is what a daemon leaves that has ended: the lock's file, and the history's log.
func (w *world) stop() {
	w.t.Helper()
	const log = history.Dir + "/log"
	if _, err := os.Stat(w.path(disk.StateDirName + "/" + log)); err != nil {
		// The daemon has made it before there was anything in the history.
		if err := os.Mkdir(w.path(disk.StateDirName+"/"+history.Dir), 0o700); !errors.Is(err, fs.ErrExist) {
			check(w.t, err)
		}
		other := w.t.TempDir()
		h, err := history.Open(openFile(w.t, other, os.O_RDONLY), history.Options{})
		check(w.t, err)
		check(w.t, h.Close())
		b, err := os.ReadFile(filepath.Join(other, log))
		check(w.t, err)
		w.write(disk.StateDirName+"/"+log, string(b))
	}
	w.write(disk.StateDirName+"/"+disk.LockName, "1\n")
}

// everything is all that is below the root, with mode, inode, mtime, and a sum of the content:
// the race detector makes large strings dear.
func (w *world) everything() map[string]string {
	w.t.Helper()
	all := map[string]string{}
	content, room := sha256.New(), make([]byte, 32<<10)
	check(w.t, filepath.WalkDir(w.root, func(path string, d os.DirEntry, err error) error {
		if err != nil {
			return err
		}
		var st unix.Stat_t
		if err := unix.Lstat(path, &st); err != nil {
			return err
		}
		content.Reset()
		if d.Type().IsRegular() {
			f, err := os.Open(path)
			if err != nil {
				return err
			}
			defer f.Close()
			if _, err := io.CopyBuffer(content, struct{ io.Reader }{f}, room); err != nil {
				return err
			}
		}
		rel, _ := filepath.Rel(w.root, path)
		all[rel] = fmt.Sprintf("%o, inode %d, mtime %v, content %x", st.Mode, st.Ino, st.Mtim, content.Sum(nil))
		return nil
	}))
	return all
}

// check runs Check, which must change nothing.
func (w *world) check() *fsck.Checked {
	w.t.Helper()
	before := w.everything()
	c, err := fsck.Check(context.Background(), int(w.dir.Fd()), w.state)
	check(w.t, err)
	after := w.everything()
	for name := range after {
		if before[name] != after[name] {
			w.t.Fatalf("Check has changed %q", name)
		}
	}
	if len(before) != len(after) {
		w.t.Fatalf("Check has removed something")
	}
	return c
}

// found lists the findings as severity, kind and path.
func found(findings []journal.Finding) []string {
	all := []string{}
	for _, f := range findings {
		all = append(all, fmt.Sprintf("%s %s %s", f.Severity, f.Kind, f.Path))
	}
	return all
}

// mustFind checks, and wants just these findings beside that of an unclean stop.
func (w *world) mustFind(want ...string) *fsck.Checked {
	w.t.Helper()
	c := w.check()
	got := slices.DeleteFunc(found(c.Findings), func(f string) bool { return strings.HasPrefix(f, "recoverable "+journal.FindUnclean) })
	if !slices.Equal(got, want) {
		w.t.Errorf("found %q, want %q", got, want)
	}
	return c
}

// repair checks and repairs; all must be well then.
func (w *world) repair() []journal.Finding {
	w.t.Helper()
	findings, err := w.check().Repair(context.Background(), w.t.Logf)
	check(w.t, err)
	for _, f := range findings {
		if f.Done == "" && f.Kind != journal.FindKeptAside {
			w.t.Errorf("nothing is done about %+v", f)
		}
	}
	c := w.check()
	left := slices.DeleteFunc(c.Findings, func(f journal.Finding) bool { return f.Kind == journal.FindKeptAside })
	if len(left) > 0 {
		w.t.Errorf("after the repair: %+v", left)
	}
	return findings
}

// everyStop: a check and a repair take as long as several recoveries.
const everyStop = 2

// Whatever a crash leaves is no problem, and a repair is as good as a mount.
func TestCheckAndRepairAfterACrashAtEveryStep(t *testing.T) {
	stops := 0
	eachStopOf(t, inTurn, scenarios, true, func(t *testing.T, w *world, sc scenario, acked bool) {
		if stops++; stops%everyStop != 0 {
			return
		}
		w.stop()
		for _, f := range w.check().Findings {
			if f.Severity == journal.Problem {
				t.Errorf("%+v", f)
			}
		}
		w.repair()
		w.checkContent(sc, acked)
		w.checkRejected()
		w.start()
		w.tidyHistory()
		w.checkNothingLeft()
		if !w.j.Clean() {
			t.Error("not clean after a repair")
		}
	})
}

// corrupt makes one byte of the journal wrong, another one each time that n is, in
// such a way that no mount goes on.
func (w *world) corrupt(n int) (at int) {
	w.t.Helper()
	names, err := filepath.Glob(w.path(disk.StateDirName + "/journal-*"))
	check(w.t, err)
	if len(names) != 1 {
		w.t.Fatalf("%d segments", len(names))
	}
	data, err := os.ReadFile(names[0])
	check(w.t, err)
	at = n * 151 % len(data)
	data[at] ^= 0x40
	check(w.t, os.WriteFile(names[0], data, 0o600))
	return at
}

// A crash, and then a byte of the journal is wrong: no mount goes on, and after a
// repair nothing is lost. The file holds one version or the other, or if it may be
// half written the new version is kept.
func TestRepairOfACorruptJournalLosesNothing(t *testing.T) {
	stops, tried, redone := 0, 0, 0
	eachStopOf(t, inTurn, scenarios, true, func(t *testing.T, w *world, sc scenario, acked bool) {
		if stops++; stops%everyStop != 0 {
			return
		}
		tried++
		w.stop()
		at := w.corrupt(tried)
		before := w.everything()
		if _, err := journal.Open(w.state, journal.Options{}); !errors.Is(err, journal.ErrCorrupt) {
			t.Fatalf("damage at byte %d goes unnoticed: %v", at, err)
		}
		for _, f := range w.repair() {
			if strings.Contains(f.Done, "what was there before is kept") {
				redone++
			}
		}
		w.nothingLost(sc, acked, before)
		w.start() // a mount goes on
		w.tidyHistory()
		w.checkNothingLeft()
		if t.Failed() {
			t.Logf("with damage at byte %d", at)
		}
	})
	t.Logf("%d journals, %d commits in place finished", tried, redone)
	if tried < 100 || redone == 0 {
		t.Error("too few to mean anything")
	}
}

// nothingLost compares with what was there before the repair.
func (w *world) nothingLost(sc scenario, acked bool, before map[string]string) {
	w.t.Helper()
	for name := range before {
		if _, err := os.Lstat(w.path(name)); err != nil && !disk.Reserved(filepath.Base(name)) && !strings.HasPrefix(name, disk.StateDirName) {
			w.t.Errorf("%q is gone", name)
		}
	}
	kept := w.kept()
	b, err := os.ReadFile(w.path("d/f"))
	if err != nil && !os.IsNotExist(err) {
		w.t.Fatal(err)
	}
	newest := sc.mayBe[len(sc.mayBe)-1]
	whole := slices.Contains(sc.mayBe, string(b))
	if acked && string(b) != newest || !whole && !kept[newest] {
		w.t.Errorf("acknowledged %v, content %.40q, and %d entries are kept", acked, b, len(kept))
	}
}

// kept has everything that is kept under rejected/.
func (w *world) kept() map[string]bool {
	w.t.Helper()
	kept := map[string]bool{}
	contents, err := filepath.Glob(w.path(disk.StateDirName + "/rejected/*/content"))
	check(w.t, err)
	for _, name := range contents {
		b, err := os.ReadFile(name)
		check(w.t, err)
		kept[string(b)] = true
	}
	return kept
}
