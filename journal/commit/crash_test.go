package commit

import (
	"errors"
	"fmt"
	"io/fs"
	"maps"
	"os"
	"path/filepath"
	"slices"
	"strings"
	"testing"

	"golang.org/x/sys/unix"

	"latchfs/journal/commit/internal/disk"
	"latchfs/journal/commit/internal/keep"
	"latchfs/journal/commit/internal/tail"
	"latchfs/journal/history"
)

// scenario is a piece of work on a data root with the file d/f, content "old".
// work returns whether it has acknowledged the new version, content "new".
type scenario struct {
	setup func(w *world)
	work  func(w *world) (acked bool)
	// mayBe lists what d/f may hold after a crash or an error before the
	// acknowledgement; "old" and "new" if it is nil.
	mayBe []string
	// keeps: once d/f is not "old" any more, that is in the history.
	keeps bool
}

func (w *world) commitNew(sh *Shadow, publish func() error) (acked bool) {
	defer sh.Discard()
	if err := disk.WriteAll(sh.FD(), []byte("new"), 0); err != nil {
		w.t.Fatal(err)
	}
	return publish() == nil
}

// theContent is the id under which the scenarios keep the old content of d/f.
const theContent = "000102030405060708090a0b0c0d0e0f"

// replaceKept is replace with the old version going into the history.
func replaceKept(k keep.Keep) func(w *world) bool {
	return func(w *world) bool {
		sh, base := w.begin()
		return sh != nil && w.commitNew(sh, func() error {
			o := w.publishOptions("d/f", base)
			o.Keep = k
			_, err := sh.Publish(o)
			return err
		})
	}
}

func inPlaceKept(w *world) bool {
	target := openFile(w.t, w.path("d/f"), os.O_RDWR)
	sh, base := w.begin()
	return sh != nil && w.commitNew(sh, func() error {
		o := w.publishOptions("d/f", base)
		o.Keep = keep.Keep{ID: theContent}
		_, err := sh.InPlace(int(target.Fd()), o)
		return err
	})
}

func renameKept(k keep.Keep) func(w *world) bool {
	return func(w *world) bool {
		_, err := w.s.RenameOver(keep.RenameOptions{FromDir: w.openDir("d"), From: "t", ToDir: w.openDir("d"), To: "f", Keep: k})
		return err == nil
	}
}

func removeKept(k keep.Keep) func(w *world) bool {
	return func(w *world) bool {
		_, err := w.s.Remove(nil, w.openDir("d"), "f", k)
		return err == nil
	}
}

// begin makes a shadow of d/f like shadowOf, but may fail.
func (w *world) begin() (*Shadow, *disk.Version) {
	base := openFile(w.t, w.path("d/f"), os.O_RDONLY)
	v := w.version("d/f")
	sh, err := w.s.NewShadow(w.shadowOptions("d/f", base))
	if err != nil {
		return nil, nil
	}
	if err := errors.Join(sh.Fill(int(base.Fd())), sh.Mark()); err != nil {
		sh.Discard()
		return nil, nil
	}
	return sh, v
}

func replace(w *world) bool {
	sh, base := w.begin()
	return sh != nil && w.commitNew(sh, func() error {
		_, err := sh.Publish(w.publishOptions("d/f", base))
		return err
	})
}

func inPlace(w *world) bool {
	target := openFile(w.t, w.path("d/f"), os.O_RDWR)
	sh, base := w.begin()
	return sh != nil && w.commitNew(sh, func() error {
		_, err := sh.InPlace(int(target.Fd()), w.publishOptions("d/f", base))
		return err
	})
}

// without returns work on a filesystem where the step fails with errno.
func without(step string, errno unix.Errno, work func(w *world) bool) func(w *world) bool {
	return func(w *world) bool {
		inner := w.s.disk.Fault
		w.s.disk.Fault = func(s string) error {
			if s == step {
				return errno
			}
			return inner(s)
		}
		return work(w)
	}
}

var scenarios = map[string]scenario{
	"replace":              {work: replace},
	"replace, named":       {work: without("tmpfile", unix.EOPNOTSUPP, replace)},
	"replace, kept":        {work: replaceKept(keep.Keep{ID: theContent}), keeps: true},
	"replace, copied":      {work: replaceKept(keep.Keep{ID: theContent, Copy: true}), keeps: true},
	"replace, no exchange": {work: without("exchange", unix.EINVAL, replace)},
	"replace, no exchange, kept": {
		work: without("exchange", unix.EINVAL, replaceKept(keep.Keep{ID: theContent})), keeps: true,
	},
	"replace, far history": { // as in another subvolume
		work: without("keep", unix.EXDEV, replaceKept(keep.Keep{ID: theContent})), keeps: true,
	},
	"stranger at the exchange": {
		work: func(w *world) bool {
			inner, fired := w.s.disk.Fault, false
			w.s.disk.Fault = func(step string) error {
				if step == "exchange" && !fired {
					fired = true
					w.write("t", "theirs")
					check(w.t, os.Rename(w.path("t"), w.path("d/f")))
				}
				return inner(step)
			}
			replaceKept(keep.Keep{ID: theContent})(w)
			return false // nobody's bytes may be lost, whatever is acknowledged
		},
		mayBe: []string{"old", "theirs"},
	},
	"in place, kept": {work: inPlaceKept, keeps: true},
	"rename, kept": {
		setup: func(w *world) { w.write("d/t", "new") },
		work:  renameKept(keep.Keep{ID: theContent}), keeps: true,
	},
	"rename, copied": {
		setup: func(w *world) { w.write("d/t", "new") },
		work:  renameKept(keep.Keep{ID: theContent, Copy: true}), keeps: true,
	},
	"remove, kept":   {work: removeKept(keep.Keep{ID: theContent}), keeps: true, mayBe: []string{"old", ""}},
	"remove, copied": {work: removeKept(keep.Keep{ID: theContent, Copy: true}), keeps: true, mayBe: []string{"old", ""}},
	"in place":       {work: inPlace},
	"in place, a record taken out": {
		setup: func(w *world) { w.write("d/f", "old\n") },
		work:  takenOut,
		mayBe: []string{"old\n", "old\nhalf", "old\nhalftheirs\n", "old\ntheirs\n"},
	},
	"in place, named": {work: without("tmpfile", unix.EOPNOTSUPP, inPlace)},
	"in place, no clone": {
		// Long, with holes in other places than the old content has.
		setup: func(w *world) { w.write("d/f", strings.Repeat("old ", 5000)) },
		work:  without("clone", unix.EOPNOTSUPP, inPlaceSparse),
		mayBe: []string{strings.Repeat("old ", 5000), sparseContent},
	},
	"new": {
		setup: func(w *world) { check(w.t, os.Remove(w.path("d/f"))) },
		work: func(w *world) bool {
			sh, err := w.s.NewShadow(w.shadowOptions("d/f", nil))
			return err == nil && w.commitNew(sh, func() error {
				_, err := sh.Publish(w.publishOptions("d/f", nil))
				return err
			})
		},
		mayBe: []string{"", "new"},
	},
	"reject": {
		work: func(w *world) bool {
			sh, _ := w.begin()
			if sh == nil {
				return false
			}
			defer sh.Discard()
			disk.WriteAll(sh.FD(), []byte("new"), 0)
			sh.Reject(map[string]any{"reason": "test"})
			return false
		},
		mayBe: []string{"old"},
	},
	"conflict": {
		work: func(w *world) bool {
			sh, base := w.begin()
			return sh != nil && w.commitNew(sh, func() error {
				base.Size++
				_, err := sh.Publish(w.publishOptions("d/f", base))
				return err
			})
		},
		mayBe: []string{"old"},
	},
	"exchange for a clone": {
		work: func(w *world) bool {
			sh, base := w.begin()
			if sh == nil {
				return false
			}
			return w.commitNew(sh, func() error {
				v, err := sh.Publish(w.publishOptions("d/f", base))
				if err != nil {
					return err
				}
				c, err := sh.Clone(w.openDir("d"))
				if err != nil {
					return nil // the first one was acknowledged
				}
				defer c.Discard()
				c.Publish(w.publishOptions("d/f", &v))
				return nil
			})
		},
	},
}

// takenOut appends two records and writes the file anew without the first.
func takenOut(w *world) bool {
	file := openFile(w.t, w.path("d/f"), os.O_RDWR|os.O_APPEND)
	tail, err := w.s.Tail(tail.Options{FD: int(file.Fd()), DirPath: "d", Name: "f"})
	for _, record := range []string{"half", "theirs\n"} {
		if err == nil {
			_, err = tail.Append(int(file.Fd()), []byte(record))
		}
	}
	if err != nil {
		return false
	}
	target, base := openFile(w.t, w.path("d/f"), os.O_RDWR), w.version("d/f")
	sh, err := w.s.NewShadow(w.shadowOptions("d/f", target))
	if err != nil {
		return false
	}
	defer sh.Discard()
	check(w.t, disk.WriteAll(sh.FD(), []byte("old\ntheirs\n"), 0))
	_, err = sh.InPlace(int(target.Fd()), w.publishOptions("d/f", base))
	return err == nil
}

var sparseContent = "new" + strings.Repeat("\x00", 64<<10) + "end"

func inPlaceSparse(w *world) bool {
	target := openFile(w.t, w.path("d/f"), os.O_RDWR)
	base := w.version("d/f")
	f := openFile(w.t, w.path("d/f"), os.O_RDONLY)
	sh, err := w.s.NewShadow(w.shadowOptions("d/f", f))
	if err != nil {
		return false
	}
	defer sh.Discard()
	check(w.t, disk.WriteAll(sh.FD(), []byte("new"), 0))
	check(w.t, disk.WriteAll(sh.FD(), []byte("end"), int64(len(sparseContent)-3)))
	_, err = sh.InPlace(int(target.Fd()), w.publishOptions("d/f", base))
	return err == nil
}

// eachStop runs every scenario again and again on each filesystem, and stops it
// before its first change to the disk, its second, and so on.
func eachStop(t *testing.T, crash bool, verify func(t *testing.T, w *world, sc scenario, acked bool)) {
	t.Helper()
	eachStopOf(t, everywhere, scenarios, crash, verify)
}

// eachStopOf does so with other scenarios, on some filesystems.
func eachStopOf(t *testing.T, places places, scenarios map[string]scenario, crash bool, verify func(t *testing.T, w *world, sc scenario, acked bool)) {
	t.Helper()
	for i, what := range slices.Sorted(maps.Keys(scenarios)) {
		for name, at := range places(i) {
			t.Run(name+"/"+what, func(t *testing.T) { stopsOf(t, at, scenarios[what], crash, verify) })
		}
	}
}

func stopsOf(t *testing.T, at string, sc scenario, crash bool, verify func(t *testing.T, w *world, sc scenario, acked bool)) {
	t.Helper()
	for n := 1; ; n++ {
		w := scenarioWorld(t, at, sc)
		w.s.rejects.NoBallast()
		reached := w.failAt(n, crash)
		acked := sc.work(w)
		stopped := reached()
		t.Logf("stop %d: %q acknowledged %v", n, w.steps, acked)
		if len(sc.mayBe) == 0 {
			sc.mayBe = []string{"old", "new"}
		}
		verify(t, w, sc, acked)
		os.RemoveAll(w.root)
		if t.Failed() || !stopped {
			if n < 4 && !t.Failed() {
				t.Errorf("only %d steps", n)
			}
			return
		}
	}
}

func scenarioWorld(t *testing.T, at string, sc scenario) *world {
	root, err := os.MkdirTemp(at, "crash-")
	check(t, err)
	t.Cleanup(func() { os.RemoveAll(root) })
	w := newWorld(t, root)
	w.write("d/f", "old")
	if sc.setup != nil {
		sc.setup(w)
	}
	return w
}

func (w *world) checkContent(sc scenario, acked bool) {
	w.t.Helper()
	b, err := os.ReadFile(w.path("d/f"))
	if err != nil && !errors.Is(err, fs.ErrNotExist) {
		w.t.Fatal(err)
	}
	got := string(b)
	if acked && got != sc.mayBe[len(sc.mayBe)-1] || !slices.Contains(sc.mayBe, got) {
		w.t.Errorf("acknowledged %v, content %.40q", acked, got)
	}
}

// checkHistory: what is in the history is whole and has no other name, and what
// was to be kept is there.
func (w *world) checkHistory(sc scenario, crashed bool) {
	w.t.Helper()
	kept, err := filepath.Glob(w.path(".latchfs/history/*/*"))
	check(w.t, err)
	for _, path := range kept {
		st := w.stat(strings.TrimPrefix(path, w.root+"/"))
		if b, err := os.ReadFile(path); err != nil || string(b) != "old" || st.Nlink != 1 {
			w.t.Errorf("%s: %q, %v, %d names", path, b, err, st.Nlink)
		}
	}
	now, _ := os.ReadFile(w.path("d/f"))
	if sc.keeps && crashed && string(now) != "old" && len(kept) != 1 {
		w.t.Errorf("the file is %q, kept is %q", now, kept)
	}
}

// tidyHistory is what the opening of the history does to its directory.
func (w *world) tidyHistory() {
	w.t.Helper()
	kept, err := filepath.Glob(w.path(".latchfs/history/*/*"))
	check(w.t, err)
	for _, path := range kept {
		st := w.stat(strings.TrimPrefix(path, w.root+"/"))
		if st.Nlink > 1 || strings.HasPrefix(filepath.Base(path), history.NewPrefix) {
			check(w.t, os.Remove(path))
		}
	}
}

// checkRejected: what is under rejected/ is whole.
func (w *world) checkRejected() {
	w.t.Helper()
	kept, err := filepath.Glob(w.path(".latchfs/rejected/*"))
	check(w.t, err)
	for _, dir := range kept {
		if b, err := os.ReadFile(dir + "/content"); err != nil || string(b) != "new" {
			w.t.Errorf("kept %q, %v", b, err)
		}
	}
}

func TestCrashAtEveryStep(t *testing.T) {
	eachStop(t, true, func(t *testing.T, w *world, sc scenario, acked bool) {
		w.restart()
		w.tidyHistory()
		w.checkContent(sc, acked)
		w.checkRejected()
		w.checkHistory(sc, true)
		w.checkNothingLeft()
		check(t, w.j.Close())
		w.start()
		if !w.j.Clean() {
			t.Error("a clean stop after recovery is not clean")
		}
	})
}

// A crash may hit the recovery as well.
func TestCrashWhileRecovering(t *testing.T) {
	eachStopOf(t, inTurn, scenarios, true, func(t *testing.T, w *world, sc scenario, acked bool) {
		for n := 1; ; n++ {
			w.start()
			w.s.rejects.NoBallast() // there is enough, for it would only take time
			reached := w.failAt(n, true)
			w.s.Recover()
			if !reached() {
				break
			}
		}
		w.restart()
		w.tidyHistory()
		w.checkContent(sc, acked)
		w.checkHistory(sc, false)
		w.checkNothingLeft()
	})
}

// One system call fails and the daemon lives on.
func TestErrorAtEveryStep(t *testing.T) {
	eachStop(t, false, func(t *testing.T, w *world, sc scenario, acked bool) {
		w.s.disk.Fault = nil
		// What the clean-up could not remove is left to Recover, nothing else.
		_, err := w.s.Recover()
		check(t, err)
		w.tidyHistory()
		w.checkContent(sc, acked)
		w.checkRejected()
		w.checkHistory(sc, false)
		w.checkNothingLeft()
	})
}

// After an error the old version is there at once, unless the error says that it
// is half written or not known to be durable.
func TestErrorsKeepTheOldVersion(t *testing.T) {
	for name, at := range filesystems {
		for _, how := range []string{"replace", "in place"} {
			t.Run(name+"/"+how, func(t *testing.T) {
				for n := 1; ; n++ {
					w := scenarioWorld(t, at, scenario{})
					target := openFile(t, w.path("d/f"), os.O_RDWR)
					sh, base := w.shadowOf("d/f")
					check(t, disk.WriteAll(sh.FD(), []byte("new"), 0))
					reached := w.failAt(n, false)
					var err error
					var v disk.Version
					if how == "replace" {
						v, err = sh.Publish(w.publishOptions("d/f", base))
					} else {
						v, err = sh.InPlace(int(target.Fd()), w.publishOptions("d/f", base))
					}
					got := fmt.Sprintf("%q after %q: %v", w.read("d/f"), w.steps, err)
					switch {
					case err == nil, errors.Is(err, ErrNotDurable):
						if w.read("d/f") != "new" || v != *w.version("d/f") {
							t.Error(got)
						}
					case errors.Is(err, ErrRedoPending):
						if how == "replace" {
							t.Error(got)
						}
						w.s.disk.Fault = nil
						r, err := w.s.Recover()
						check(t, err)
						if w.read("d/f") != "new" || len(r.Redone) != 1 {
							t.Error(got)
						}
					default:
						if w.read("d/f") != "old" || !errors.Is(err, errInjected) {
							t.Error(got)
						}
						// The caller keeps the bytes.
						id, err := sh.Reject(nil)
						check(t, err)
						if kept := w.read(".latchfs/rejected/" + id + "/content"); kept != "new" {
							t.Errorf("%s; kept %q", got, kept)
						}
					}
					sh.Discard()
					if !reached() {
						return
					}
				}
			})
		}
	}
}
