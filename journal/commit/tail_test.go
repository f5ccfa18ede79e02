package commit

import (
	"bytes"
	"errors"
	"fmt"
	"io/fs"
	"os"
	"path/filepath"
	"slices"
	"strconv"
	"strings"
	"sync/atomic"
	"testing"
	"time"

	"golang.org/x/sys/unix"

	"latchfs/journal/commit/internal/disk"
	"latchfs/journal/commit/internal/tail"
)

// appending is a piece of work on the file "log": records that are appended one
// by one, with what a program does in between.
type appending struct {
	w    *world
	t    *tail.Tail
	fd   int
	file *os.File

	records []string // since the last truncation, the one under way included
	acked   int      // how many of them a Sync has acknowledged
	whole   int      // how many Append has acknowledged
	cutting bool     // a truncation is under way
}

func (w *world) appending() *appending {
	w.t.Helper()
	f := openFile(w.t, w.path("log"), os.O_RDWR|os.O_APPEND|os.O_CREATE)
	tail, err := w.s.Tail(tail.Options{FD: int(f.Fd()), Name: "log"})
	check(w.t, err)
	w.s.tails.Linger, w.s.tails.Piece = time.Hour, 4000 // nothing happens by itself
	return &appending{w: w, t: tail, file: f, fd: int(f.Fd()), records: []string{"old\n"}, acked: 1, whole: 1}
}

func (a *appending) append(record string) bool {
	a.records = append(a.records, record)
	if _, err := a.t.Append(a.fd, []byte(record)); err != nil {
		return false
	}
	a.whole = len(a.records)
	return true
}

func (a *appending) sync() bool {
	if a.t.Sync(a.t.Last()) != nil {
		return false
	}
	a.acked = len(a.records)
	return true
}

func (a *appending) truncate() bool {
	a.cutting = true
	if a.t.Truncate(0) != nil {
		return false
	}
	a.records, a.acked, a.whole, a.cutting = nil, 0, 0, false
	return true
}

// fail appends a record of several pieces for which there is no room after the
// first.
func (a *appending) fail() bool {
	inner, pieces := a.w.s.disk.Fault, 0
	defer func() { a.w.s.disk.Fault = inner }()
	a.w.s.disk.Fault = func(step string) error {
		if err := inner(step); err != nil || step != "write" {
			return err
		}
		if pieces++; pieces > 1 {
			return unix.ENOSPC
		}
		return nil
	}
	record := strings.Repeat("refused ", 1000)
	a.records = append(a.records, record)
	_, err := a.t.Append(a.fd, []byte(record))
	a.records = a.records[:len(a.records)-1]
	return errors.Is(err, unix.ENOSPC)
}

// syncJournal is what somebody else's commit may do at any time.
func (a *appending) syncJournal() bool { return a.w.s.disk.Do("syncjournal", a.w.j.Sync) == nil }

// everything is what programs do with a log.
func (a *appending) everything() {
	long := strings.Repeat("long ", 2000) + "\n"
	_ = a.append("one\n") && a.append("two\n") && a.sync() &&
		a.append("no newline") && a.sync() && a.append(" and its end\n") && a.append(long) && a.sync() &&
		a.append("zeros "+strings.Repeat("\x00", 3000)+"\n") && a.sync() &&
		a.append("unsynced\n") && a.fail() && a.syncJournal() && a.append("short\n") && a.sync() &&
		a.truncate() && a.append("anew\n") && a.sync() && a.append("x") && a.append(long) && a.sync() && a.append("last")
}

// check compares the log with what was appended: whole records, at least those
// that were acknowledged.
func (a *appending) check(w *world, least int, what string) {
	w.t.Helper()
	got := w.read("log")
	end := ""
	if a.cutting && got == "" {
		return
	}
	for n, r := range append([]string{""}, a.records...) {
		end += r
		if n >= least && got == end {
			return
		}
	}
	w.t.Errorf("%s: %d records of %q acknowledged, the log holds %.60q (%d bytes)", what, least, a.records, got, len(got))
}

func (a *appending) close() {
	a.t.Close()
	a.file.Close()
}

// eachTailStop stops the work before its first change to the disk, its second,
// and so on; long records are written in several.
func eachTailStop(t *testing.T, verify func(t *testing.T, a *appending)) {
	for name, at := range filesystems {
		t.Run(name, func(t *testing.T) {
			for n := 1; ; n++ {
				root, err := os.MkdirTemp(at, "tail-")
				check(t, err)
				w := newWorld(t, root)
				w.s.rejects.NoBallast()
				w.write("log", "old\n")
				a := w.appending()
				reached := w.failAt(n, true)
				a.everything()
				stopped := reached()
				t.Logf("stop %d: %q", n, w.steps)
				a.close()
				verify(t, a)
				os.RemoveAll(root)
				if t.Failed() || !stopped {
					if n < 40 && !t.Failed() {
						t.Errorf("only %d steps", n)
					}
					return
				}
			}
		})
	}
}

// A daemon that is killed at any moment leaves whole records, and all for which
// Append has returned; if the machine went down as well, those that were synced.
func TestTailCrashAtEveryStep(t *testing.T) {
	for _, rebooted := range []bool{false, true} {
		t.Run(fmt.Sprint("rebooted=", rebooted), func(t *testing.T) {
			eachTailStop(t, func(t *testing.T, a *appending) {
				w, least := a.w, a.whole
				w.start()
				if rebooted {
					w.s.disk.Epoch, least = func(int) string { return "another" }, a.acked
				}
				r, err := w.s.Recover()
				check(t, err)
				a.check(w, least, fmt.Sprintf("recovered %+v", r))
				w.checkNothingLeft()
				check(t, w.j.Close())
			})
		})
	}
}

// A crash may hit the recovery as well, and what is appended then is as safe.
func TestTailCrashWhileRecovering(t *testing.T) {
	eachTailStop(t, func(t *testing.T, a *appending) {
		w := a.w
		for n := 1; ; n++ {
			w.start()
			w.s.rejects.NoBallast()
			w.s.disk.Epoch = func(int) string { return "another" }
			reached := w.failAt(n, true)
			w.s.Recover()
			if !reached() {
				break
			}
		}
		a.check(w, a.acked, "recovered")
		w.s.disk.Fault = nil
		b := w.appending()
		b.records, b.acked, b.whole = []string{w.read("log")}, 1, 1
		if !b.append("more") || !b.sync() {
			t.Error("cannot append after a recovery")
		}
		b.close()
		w.start()
		w.s.disk.Epoch = func(int) string { return "yet another" }
		_, err := w.s.Recover()
		check(t, err)
		b.check(w, b.acked, "appended after the recovery")
	})
}

// One system call fails and the daemon lives on: the record is there as a whole
// or not at all.
func TestTailErrorAtEveryStep(t *testing.T) {
	for n := 1; ; n++ {
		w := newWorld(t, t.TempDir())
		w.write("log", "old\n")
		a := w.appending()
		reached := w.failAt(n, false)
		want := "old\n"
		for _, r := range []string{"one\n", "no newline", "two\n"} {
			if a.append(r) {
				want += r
			}
			a.t.Sync(a.t.Last())
		}
		if a.t.Truncate(0) == nil || w.read("log") == "" {
			want = ""
		}
		if a.append("last\n") {
			want += "last\n"
		}
		if got := w.read("log"); got != want {
			t.Errorf("after %q: %q, want %q", w.steps, got, want)
		}
		w.s.disk.Fault = nil
		a.close()
		check(t, w.s.Close())
		check(t, w.j.Close())
		w.start()
		if !w.j.Clean() || len(w.j.Pending()) > 0 {
			t.Errorf("after %q and a clean stop: pending %v", w.steps, w.j.Pending())
		}
		if !reached() {
			return
		}
	}
}

// afterCut is what would be there after a power cut: the journal as it was synced
// last, and so much of the file.
type afterCut struct {
	state map[string][]byte
	log   []byte
}

func (w *world) contents() map[string][]byte {
	w.t.Helper()
	files := map[string][]byte{}
	check(w.t, filepath.WalkDir(w.path(disk.StateDirName), func(path string, d fs.DirEntry, err error) error {
		if err == nil && d.Type().IsRegular() {
			rel, _ := filepath.Rel(w.root, path)
			files[rel], err = os.ReadFile(path)
		}
		return err
	}))
	return files
}

// A power cut takes the records of the journal that were not synced, and of the
// file what was not synced: all of it, single sectors, or the end.
func TestTailPowerCutAtEveryStep(t *testing.T) {
	losses := map[string]func(synced, all []byte) []byte{
		"nothing": func(_, all []byte) []byte { return all },
		"all":     func(synced, _ []byte) []byte { return synced },
		"end":     func(synced, all []byte) []byte { return all[:max(len(synced), len(all)-3)] },
		"zeros": func(synced, all []byte) []byte {
			return append(slices.Clone(synced), make([]byte, max(0, len(all)-len(synced)))...)
		},
		"first sector": func(synced, all []byte) []byte {
			all = slices.Clone(all)
			if from := len(synced); from < len(all) {
				clear(all[from:min(len(all), (from/512+1)*512)])
			}
			return all
		},
		"last sector": func(synced, all []byte) []byte {
			all = slices.Clone(all)
			if from := max(len(synced), (len(all)-1)/512*512); from < len(all) {
				clear(all[from:])
			}
			return all
		},
	}
	for loss, lose := range losses {
		for _, journalToo := range []bool{true, false} {
			t.Run(fmt.Sprintf("%s,journal=%v", loss, journalToo), func(t *testing.T) {
				for n := 1; powerCutAt(t, n, journalToo, lose); n++ {
					if t.Failed() {
						return
					}
				}
			})
		}
	}
}

func powerCutAt(t *testing.T, n int, journalToo bool, lose func(synced, all []byte) []byte) (stopped bool) {
	w := newWorld(t, t.TempDir())
	w.write("log", "old\n")
	a := w.appending()
	d := afterCut{state: w.contents(), log: []byte(w.read("log"))}
	reached := w.failAt(n, true)
	inner, last := w.s.disk.Fault, ""
	note := func() {
		switch last {
		case "syncjournal":
			d.state = w.contents()
		case "fdatasync":
			d.log = []byte(w.read("log"))
		}
	}
	w.s.disk.Fault = func(step string) error {
		if !reached() {
			note()
		}
		last = step
		return inner(step)
	}
	a.everything()
	if !reached() {
		note()
	}
	steps := w.steps
	a.close()
	if !journalToo {
		d.state = w.contents()
	}
	all := []byte(w.read("log"))
	synced := d.log
	if !bytes.HasPrefix(all, synced) {
		all = synced // a truncation that is not on disk
	}
	// The same inode, or recovery would not know it.
	check(t, os.WriteFile(w.path("log"), lose(synced, all), 0o644))
	for name := range w.contents() {
		check(t, os.Remove(w.path(name)))
	}
	for name, content := range d.state {
		check(t, os.WriteFile(w.path(name), content, 0o600))
	}
	w.start()
	w.s.disk.Epoch = func(int) string { return "another" }
	r, err := w.s.Recover()
	check(t, err)
	a.check(w, a.acked, fmt.Sprintf("stop %d after %q: of %d bytes %d were synced; recovered %+v", n, steps, len(all), len(synced), r))
	return reached()
}

// What no crash explains is left alone: somebody has changed the file around the
// mount.
func TestTailChangedAround(t *testing.T) {
	for name, change := range map[string]func(w *world) string{
		"rewritten": func(w *world) string {
			check(t, os.WriteFile(w.path("log"), []byte("what else may be in a file\n"), 0o644))
			return "what else may be in a file\n"
		},
		"emptied": func(w *world) string { check(t, os.Truncate(w.path("log"), 0)); return "" },
		"removed": func(w *world) string { check(t, os.Remove(w.path("log"))); return "" },
		"replaced": func(w *world) string {
			check(t, os.WriteFile(w.path("other"), []byte("other\nunfinished"), 0o644))
			check(t, os.Rename(w.path("other"), w.path("log")))
			return "other\nunfinished"
		},
	} {
		for _, epoch := range []string{"", "another"} {
			t.Run(name+epoch, func(t *testing.T) {
				w := newWorld(t, t.TempDir())
				w.s.disk.Fault = nil // the end of a removed file comes from another goroutine
				w.write("log", "old\n")
				a := w.appending()
				if !a.append("one\n") || !a.append("two\n") {
					t.Fatal("cannot append")
				}
				want := change(w)
				a.close()
				w.start()
				if epoch != "" {
					w.s.disk.Epoch = func(int) string { return epoch }
				}
				r, err := w.s.Recover()
				check(t, err)
				if b, err := os.ReadFile(w.path("log")); string(b) != want || err != nil && name != "removed" || len(r.Cut) > 0 {
					t.Errorf("the log holds %q, %v; %+v", b, err, r)
				}
				w.checkNothingLeft()
			})
		}
	}
}

// A torn record is found under whatever name the file has by now, and its bytes
// are kept.
func TestTailOfARenamedFile(t *testing.T) {
	for _, to := range []string{"log.1", "d/e/log.1"} {
		w := newWorld(t, t.TempDir())
		w.write("log", "old\n")
		w.write("d/e/f", "")
		a := w.appending()
		if !a.append("one\n") {
			t.Fatal("cannot append")
		}
		w.s.tails.Piece = 5
		w.failAt(3, true) // after the record in the journal and five bytes of it in the file
		a.append("half of it\n")
		check(t, os.Rename(w.path("log"), w.path(to)))
		w.write("log", "unfinished")
		a.close()
		w.start()
		r, err := w.s.Recover()
		check(t, err)
		if got := w.read(to); got != "old\none\n" || w.read("log") != "unfinished" {
			t.Errorf("%s holds %q, its successor %q", to, got, w.read("log"))
		}
		if len(r.Cut) != 1 || r.Cut[0].From != 13 || r.Cut[0].To != 8 {
			t.Fatalf("report %+v", r)
		}
		if kept := w.read(".latchfs/rejected/" + r.Cut[0].Kept + "/content"); kept != "half " {
			t.Errorf("kept %q", kept)
		}
		w.checkNothingLeft()
	}
}

// A commit in place changes a file to which records were appended a moment ago.
func TestInPlaceAfterAppending(t *testing.T) {
	for _, more := range []string{"", " line\n"} {
		w := newWorld(t, t.TempDir())
		w.write("log", "old\n")
		a := w.appending()
		if !a.append(strings.Repeat("one", 1000) + "\n") {
			t.Fatal("cannot append")
		}
		sh, base := w.shadowOf("log")
		overwriteFD(t, sh.FD(), "new\nand unfinished")
		target := openFile(t, w.path("log"), os.O_RDWR)
		_, err := sh.InPlace(int(target.Fd()), w.publishOptions("log", base))
		check(t, err)
		check(t, sh.Discard())
		if more != "" && (!a.append(more) || !a.sync()) {
			t.Error("cannot append after the commit")
		}
		a.close()
		w.start()
		w.s.disk.Epoch = func(int) string { return "another" }
		_, err = w.s.Recover()
		check(t, err)
		if got := w.read("log"); got != "new\nand unfinished"+more {
			t.Errorf("the log holds %q", got)
		}
	}
}

// A loop of short appends costs one undo record, and when it is over nothing is
// left.
func TestTailLingers(t *testing.T) {
	w := newWorld(t, t.TempDir())
	w.write("log", "old\n")
	for range 5 {
		a := w.appending()
		if !a.append("more\n") || !a.sync() {
			t.Fatal("cannot append")
		}
		a.close()
	}
	begun := 0
	for _, step := range w.steps {
		if step == "begin" {
			begun++
		}
	}
	if begun != 1 {
		t.Errorf("%d undo records: %q", begun, w.steps)
	}
	if n := w.s.tails.Count(); n != 1 {
		t.Errorf("%d tails", n)
	}
	check(t, w.s.Close())
	check(t, w.j.Close())
	w.start()
	if n := len(w.j.Pending()); n > 0 {
		t.Errorf("%d undo records pending after a clean stop", n)
	}
}

// Only so many files are kept that were appended to a moment ago: the oldest end at once. One
// that is appended to again is none of them meanwhile.
func TestFewTailsLinger(t *testing.T) {
	w := newWorld(t, t.TempDir())
	w.s.disk.Fault = nil // the ends come from other goroutines
	w.s.tails.Linger = time.Hour
	w.s.SetMaxIdleTails(2)
	appends := func(name string) (end func()) {
		f := openFile(t, w.path(name), os.O_RDWR|os.O_APPEND|os.O_CREATE)
		tl, err := w.s.Tail(tail.Options{FD: int(f.Fd()), Name: name})
		check(t, err)
		_, err = tl.Append(int(f.Fd()), []byte("more\n"))
		check(t, err)
		return func() { tl.Close(); check(t, f.Close()) }
	}
	begun := false
	counts := func(when string, want int) {
		t.Helper()
		for deadline := time.Now().Add(10 * time.Second); w.s.tails.Count() != want; time.Sleep(time.Millisecond) {
			if time.Now().After(deadline) {
				t.Fatalf("%s there are %d tails, want %d", when, w.s.tails.Count(), want)
			}
		}
	}
	used := appends("used")
	for _, name := range []string{"a", "b", "c", "d", "e"} {
		appends(name)()
	}
	counts("beside one that is used", 3)
	used()
	counts("when nobody uses one", 2)
	for range 100 {
		appends("used")()
	}
	counts("after one was used again and again", 2)
	// Whoever was used last lingers longest.
	used = appends("used")
	appends("a")()
	counts("beside one that is used, again", 3)
	used()
	counts("when that rests, too", 2)
	appends("b")()
	counts("after the third", 2)
	w.s.disk.Fault = func(step string) error { begun = begun || step == "begin"; return nil }
	appends("used")()
	w.s.disk.Fault = nil
	if begun {
		t.Error("the oldest was not the one that ended")
	}
	appends("a")()
	appends("b")()
	counts("after others", 2)
	for _, name := range []string{"c", "d", "e"} {
		if got := w.read(name); got != "more\n" {
			t.Errorf("%s holds %q", name, got)
		}
	}
	check(t, w.s.Close())
	check(t, w.j.Close())
	w.start()
	if n := len(w.j.Pending()); n > 0 {
		t.Errorf("%d undo records are pending after a clean stop", n)
	}
}

// A tail that cannot end for an error of the disk tries again after a while, and not at once,
// however many there are.
func TestTailsThatCannotEnd(t *testing.T) {
	w := newWorld(t, t.TempDir())
	var tries atomic.Int32
	w.s.tails.Linger = 50 * time.Millisecond
	w.s.SetMaxIdleTails(1)
	w.s.disk.Fault = func(step string) error {
		if step == "fdatasync" {
			tries.Add(1)
			return unix.EIO
		}
		return nil
	}
	const files = 4
	began := time.Now()
	for i := range files {
		f := openFile(t, w.path(strconv.Itoa(i)), os.O_RDWR|os.O_APPEND|os.O_CREATE)
		tl, err := w.s.Tail(tail.Options{FD: int(f.Fd()), Name: strconv.Itoa(i)})
		check(t, err)
		_, err = tl.Append(int(f.Fd()), []byte("more\n"))
		check(t, err)
		tl.Close()
		check(t, f.Close())
	}
	for deadline := began.Add(10 * time.Second); tries.Load() < 3*files; time.Sleep(time.Millisecond) {
		if time.Now().After(deadline) {
			t.Fatalf("%d tries", tries.Load())
		}
	}
	if took := time.Since(began); took < w.s.tails.Linger {
		t.Errorf("%d tries of %d tails took %v: there is no pause", tries.Load(), files, took)
	}
}

// The file of an appender that has gone is let go of, at once if it was removed.
func TestTailExpires(t *testing.T) {
	for _, removed := range []bool{false, true} {
		w := newWorld(t, t.TempDir())
		w.s.disk.Fault = nil // the end comes from another goroutine
		w.write("log", "old\n")
		a := w.appending()
		w.s.tails.Linger = time.Millisecond
		if removed {
			w.s.tails.Linger = time.Hour
		}
		if !a.append("more\n") {
			t.Fatal("cannot append")
		}
		if removed {
			check(t, os.Remove(w.path("log")))
		}
		a.close()
		for deadline := time.Now().Add(10 * time.Second); ; time.Sleep(time.Millisecond) {
			if w.s.tails.Count() == 0 {
				break
			}
			if time.Now().After(deadline) {
				t.Fatal("the tail is still there")
			}
		}
		w.start()
		if n := len(w.j.Pending()); n > 0 {
			t.Errorf("%d undo records pending", n)
		}
	}
}

// A lost write is told to everybody who waits for it.
func TestTailLostWrite(t *testing.T) {
	w := newWorld(t, t.TempDir())
	a := w.appending()
	if !a.append("one\n") {
		t.Fatal("cannot append")
	}
	first := a.t.Last()
	if !a.append("two\n") {
		t.Fatal("cannot append")
	}
	w.s.disk.Fault = func(step string) error {
		if step == "fdatasync" {
			return unix.EIO
		}
		return nil
	}
	errs := []error{a.t.Sync(a.t.Last())}
	w.s.disk.Fault = nil
	errs = append(errs, a.t.Sync(first), a.t.Sync(a.t.Last()))
	for i, err := range errs {
		if !errors.Is(err, unix.EIO) {
			t.Errorf("sync %d: %v", i, err)
		}
	}
	if !a.append("three\n") || !a.sync() {
		t.Error("what came later is not on disk either")
	}
}

// What is appended and not synced is bounded, in the journal too.
func TestTailIsBounded(t *testing.T) {
	w := newWorld(t, t.TempDir())
	w.s.disk.Fault = nil // there is another goroutine
	a := w.appending()
	for range 3 * tail.MaxUnknownRecords {
		if _, err := a.t.Append(a.fd, []byte("line\n")); err != nil {
			t.Fatal(err)
		}
	}
	for deadline := time.Now().Add(10 * time.Second); ; time.Sleep(time.Millisecond) {
		n, busy := a.t.Unknown()
		if n < 2*tail.MaxUnknownRecords && !busy {
			return
		}
		if time.Now().After(deadline) {
			t.Fatalf("%d records unknown", n)
		}
	}
}

// The daemon is killed, the next one recovers, and the power fails at each step of that, while
// others commit the filesystem's journal: what was appended is whole, or not there. Once its
// intent has ended nobody would cut it off.
func TestTailPowerCutAfterAKill(t *testing.T) {
	shelf := cloneShelf(t)
	for _, d := range poweredDisks {
		t.Run(d.String(), func(t *testing.T) {
			image, at := d.make(t, shelf)
			w := newWorld(t, at)
			w.write("log", "old\n")
			check(t, unix.Syncfs(int(w.dir.Fd())))
			a := w.appending()
			if !a.append("one\n") || !a.append("two\n") {
				t.Fatal("not appended")
			}
			w.start()
			c := &cuts{t: t, image: image, w: w}
			w.s.disk.Fault = c.before
			_, err := w.s.Recover()
			check(t, err)
			check(t, w.j.Sync())
			c.end()
			a.close()
			c.each(d, func(step string, after *booted) {
				if got := after.read("log"); got != "old\n" && got != "old\none\n" && got != "old\none\ntwo\n" {
					t.Errorf("before %q: %q", step, got)
				}
			})
		})
	}
}

// The power fails when the bytes of a second record are on the disk, and the size is not. What
// is lost of that does not come back when the power fails once more, in place of a third.
func TestTailLostTwice(t *testing.T) {
	d := poweredDisks[0]
	image, at := d.make(t, cloneShelf(t))
	w := newWorld(t, at)
	w.write("log", "old\n")
	check(t, unix.Syncfs(int(w.dir.Fd())))
	a := w.appending()
	if !a.append("one\n") {
		t.Fatal("not appended")
	}
	commitJournal(t, w)
	if !a.append("two\n") {
		t.Fatal("not appended")
	}
	check(t, unix.SyncFileRange(a.fd, 0, 0, unix.SYNC_FILE_RANGE_WRITE|unix.SYNC_FILE_RANGE_WAIT_AFTER))
	first := cut(t, image, 1)
	a.close()

	after := bootCut(t, d, first)
	if got := after.read("log"); got != "old\none\n" {
		t.Fatalf("after the first cut: %q", got)
	}
	a = after.appending()
	if !a.append("six\n") {
		t.Fatal("not appended")
	}
	commitJournal(t, after.world)
	second := cut(t, first, 2)
	a.close()

	after = bootCut(t, d, second)
	if got := after.read("log"); got != "old\none\n" && got != "old\none\nsix\n" {
		t.Errorf("after the second cut: %q", got)
	}
	after.gone()
}

// What lies behind the end of a file is cleared in the files of other users, too, whose times
// nobody else may set, and not where bits would go with it.
func TestTailClearsBehind(t *testing.T) {
	for mode, clears := range map[uint32]bool{0o664: true, 0o4755: false, 0o2755: false} {
		w := newWorld(t, t.TempDir())
		w.write("log", "old\n")
		check(t, unix.Chmod(w.path("log"), mode))
		a := w.appending()
		if !a.append("one\n") {
			t.Fatal("not appended")
		}
		a.close()
		w.start()
		w.s.disk.Epoch = func(int) string { return "another" }
		inner := w.s.disk.Fault
		w.s.disk.Fault = func(step string) error {
			if step == "utimens" {
				return unix.EPERM
			}
			return inner(step)
		}
		_, err := w.s.Recover()
		check(t, err)
		if got := w.read("log"); got != "old\none\n" {
			t.Errorf("%o: %q", mode, got)
		}
		if slices.Contains(w.steps, "truncate") != clears {
			t.Errorf("%o: %q", mode, w.steps)
		}
	}
}
