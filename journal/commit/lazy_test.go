package commit

import (
	"errors"
	"os"
	"strings"
	"testing"
	"time"

	"golang.org/x/sys/unix"

	"latchfs/journal"
	"latchfs/journal/commit/internal/disk"
	"latchfs/journal/commit/internal/lazy"
	"latchfs/journal/commit/internal/rejected"
	"latchfs/journal/commit/internal/tail"
	"latchfs/journal/history"
)

// saveLazily publishes content under the name, over what is there.
func (w *world) saveLazily(name, content, keep string) (acked bool) {
	w.t.Helper()
	return w.saveAs(Lazy, name, content, keep)
}

// saveAs publishes content under the name, over what is there.
func (w *world) saveAs(durability Durability, name, content, keep string) (acked bool) {
	w.t.Helper()
	o := w.publishOptions(name, nil)
	so := w.shadowOptions(name, nil)
	if base, err := os.Open(w.path(name)); err == nil {
		defer base.Close()
		so.Base, o.Base = int(base.Fd()), w.version(name)
	}
	o.Durability, o.Keep.ID = durability, keep
	sh, err := w.s.NewShadow(so)
	if err != nil {
		return false
	}
	defer sh.Discard()
	check(w.t, disk.WriteAll(sh.FD(), []byte(content), 0))
	_, err = sh.Publish(o)
	return err == nil
}

func (w *world) settleAll() error { return w.s.lazies.SettleAll() }

// lazily is a commit that is settled in the end, by the second try if need be.
func lazily(contents ...string) func(w *world) bool {
	return func(w *world) bool {
		acked := true
		for _, c := range contents {
			acked = acked && w.saveLazily("d/f", c, "")
		}
		if w.settleAll() != nil {
			_ = w.settleAll()
		}
		return acked
	}
}

func init() {
	remove := func(w *world) { check(w.t, os.Remove(w.path("d/f"))) }
	scenarios["lazy"] = scenario{work: lazily("new")}
	scenarios["lazy, named"] = scenario{work: without("tmpfile", unix.EOPNOTSUPP, lazily("new"))}
	scenarios["lazy, no links"] = scenario{work: without("mark", unix.EXDEV, lazily("new"))}
	scenarios["lazy, no markers"] = scenario{work: without("mark", unix.EXDEV, without("symlink", unix.EPERM, lazily("new")))}
	scenarios["lazy, no exchange"] = scenario{work: without("exchange", unix.EINVAL, lazily("new"))}
	scenarios["lazy, new"] = scenario{setup: remove, work: lazily("new"), mayBe: []string{"", "new"}}
	scenarios["lazy, new, no links"] = scenario{setup: remove, work: without("mark", unix.EXDEV, lazily("new")), mayBe: []string{"", "new"}}
	scenarios["auto, new and replaced"] = scenario{setup: remove, mayBe: []string{"", "between", "new"}, work: func(w *world) bool {
		acked := w.saveAs(Auto, "d/f", "between", "") && w.saveAs(Auto, "d/f", "new", "")
		if w.settleAll() != nil {
			_ = w.settleAll()
		}
		return acked
	}}
	renamed := func(w *world) bool {
		acked := w.saveAs(Auto, "d/t", "new", "") && w.renameMade("d/t", "d", "f")
		if w.settleAll() != nil {
			_ = w.settleAll()
		}
		_ = os.Remove(w.path("d/t")) // where a crash has come before
		return acked
	}
	scenarios["auto, new and renamed"] = scenario{setup: remove, mayBe: []string{"", "new"}, work: renamed}
	scenarios["lazy, again and again"] = scenario{work: lazily("between", "new"), mayBe: []string{"old", "between", "new"}}
}

// Nothing is synced by a lazy commit but the journal, once for each directory.
func TestLazyDoesNotWait(t *testing.T) {
	w := newWorld(t, t.TempDir())
	w.write("d/f", "old")
	for range 3 {
		w.saveLazily("d/f", "new", "")
		w.saveLazily("d/g", "new", "")
	}
	n := 0
	for _, step := range w.steps {
		switch step {
		case "fsync", "fdatasync", "syncdir", "syncfs":
			t.Errorf("%s in %q", step, w.steps)
		case "syncjournal":
			n++
		}
	}
	if n != 1 {
		t.Errorf("the journal was synced %d times", n)
	}
	w.write("d/large", "")
	w.steps = nil
	w.saveLazily("d/large", strings.Repeat("x", lazy.MaxSize+1), "")
	steps := strings.Join(w.steps, " ")
	if len(w.leftovers()) == 0 || strings.Contains(steps, "symlink") || strings.Contains(steps, "mark") || !strings.Contains(steps, "fsync") && !strings.Contains(steps, "writeback") {
		t.Errorf("a large file was published by %q", w.steps)
	}
	check(t, w.s.Close())
	check(t, w.j.Close())
	if left := w.leftovers(); len(left) > 0 {
		t.Errorf("left after a clean stop: %q", left)
	}
	w.start()
	if n := len(w.j.Pending()); n > 0 || w.read("d/f") != "new" || w.read("d/g") != "new" {
		t.Errorf("%d intents pending, f %q, g %q", n, w.read("d/f"), w.read("d/g"))
	}
}

// What a power cut leaves of the content.
var tears = map[string]func(t *testing.T, path string){
	"empty": func(t *testing.T, path string) { check(t, os.Truncate(path, 0)) },
	"short": func(t *testing.T, path string) { check(t, os.Truncate(path, 600)) },
	"zeros": func(t *testing.T, path string) { check(t, os.Truncate(path, 0)); check(t, os.Truncate(path, 1800)) },
	"lost sector": func(t *testing.T, path string) {
		f := openFile(t, path, os.O_WRONLY)
		check(t, disk.WriteAll(int(f.Fd()), make([]byte, 512), 512))
	},
	// As where blocks are shared with the version before.
	"older bytes": func(t *testing.T, path string) {
		var st unix.Stat_t
		check(t, unix.Stat(path, &st))
		f := openFile(t, path, os.O_WRONLY)
		check(t, disk.WriteAll(int(f.Fd()), []byte(strings.Repeat("other ", 100)), 600))
		check(t, disk.Futimens(int(f.Fd()), [2]unix.Timespec{disk.Omit, st.Mtim}))
	},
}

var lazyVersions = []string{"old", strings.Repeat("first ", 300), strings.Repeat("second", 300), strings.Repeat("third ", 300)}

// After a power cut every file is its newest version that is whole, wherever the
// older ones are, and however often recovery is cut short itself.
func TestLazyTorn(t *testing.T) {
	for tear, do := range tears {
		for _, kept := range []bool{false, true} {
			for torn := range 4 { // so many of the newest versions
				for way := range 8 { // new or not, interrupted or not, with symbolic links or with links
					isNew, interrupted, symlinks := way&1 != 0, way&2 != 0, way&4 != 0
					if torn == 3 && isNew {
						continue
					}
					t.Run(tear, func(t *testing.T) { lazyTorn(t, do, kept, torn, isNew, interrupted, symlinks) })
				}
			}
		}
	}
}

func lazyTorn(t *testing.T, tear func(*testing.T, string), kept bool, torn int, isNew, interrupted, symlinks bool) {
	w := newWorld(t, t.TempDir())
	if symlinks {
		w.failing("mark", unix.EMLINK)
	}
	w.write("d/f", lazyVersions[0])
	if isNew {
		check(t, os.Remove(w.path("d/f")))
		w.write("d/other", "")
	}
	var inodes []string
	for i, content := range lazyVersions[1:] {
		id := ""
		if kept {
			id = theContent[:len(theContent)-1] + string(rune('0'+i))
		}
		if !w.saveLazily("d/f", content, id) {
			t.Fatalf("cannot save: %q", w.steps)
		}
		// Its content can be got at when another one has its name.
		link := w.path("d/link" + string(rune('0'+i)))
		check(t, os.Link(w.path("d/f"), link))
		inodes = append(inodes, link)
	}
	for _, link := range inodes[len(inodes)-torn:] {
		tear(t, link)
	}
	for _, link := range inodes {
		check(t, os.Remove(link))
	}
	want := lazyVersions[3-torn]
	for n := 1; ; n++ {
		w.start()
		w.s.rejects.NoBallast()
		w.s.disk.Epoch = func(int) string { return "another" }
		reached := func() bool { return false }
		if interrupted {
			reached = w.failAt(n, true)
		}
		_, err := w.s.Recover()
		if !reached() {
			check(t, err)
			break
		}
	}
	w.restart()
	if got, err := os.ReadFile(w.path("d/f")); string(got) != want || err != nil && !(isNew && torn == 3) {
		t.Errorf("%d torn: the file holds %.20q (%d bytes), %v; want %.20q", torn, got, len(got), err, want)
	}
	if torn > 0 {
		if w.rejectedCount() == 0 {
			t.Error("the torn bytes are not kept")
		}
	}
	w.checkNothingLeft()
}

func (w *world) rejectedCount() int {
	list, _ := os.ReadDir(w.path(".latchfs/" + rejected.Dir))
	return len(list)
}

// A torn new file goes; its name was free before.
func TestLazyTornNew(t *testing.T) {
	for tear, do := range tears {
		w := newWorld(t, t.TempDir())
		w.write("d/other", "")
		w.saveLazily("d/f", lazyVersions[1], "")
		w.saveLazily("d/g", lazyVersions[1], "")
		do(t, w.path("d/f"))
		w.start()
		w.s.disk.Epoch = func(int) string { return "another" }
		r, err := w.s.Recover()
		check(t, err)
		if _, err := os.Stat(w.path("d/f")); !errors.Is(err, os.ErrNotExist) || len(r.Reverted) != 1 || !r.Reverted[0].Gone {
			t.Errorf("%s: %v, %+v", tear, err, r.Reverted)
		}
		if w.read("d/g") != lazyVersions[1] {
			t.Errorf("%s: the whole file is not there", tear)
		}
		w.checkNothingLeft()
	}
}

// What no power cut does to a file is not undone: it was changed around us, or by
// us after it was settled; nor is anything if the machine did not go down.
func TestLazyChangedAround(t *testing.T) {
	other := strings.Repeat("other ", 300)
	for what, change := range map[string]func(w *world) string{
		"other bytes": func(w *world) string {
			f := openFile(t, w.path("d/f"), os.O_WRONLY)
			check(t, disk.WriteAll(int(f.Fd()), []byte(other), 0))
			later := unix.NsecToTimespec(time.Now().Add(time.Second).UnixNano()) // not in the same tick
			check(t, disk.Futimens(int(f.Fd()), [2]unix.Timespec{disk.Omit, later}))
			return other
		},
		"appended": func(w *world) string {
			f := openFile(t, w.path("d/f"), os.O_WRONLY|os.O_APPEND)
			check(t, disk.WriteAll(int(f.Fd()), []byte("more"), 1800))
			return lazyVersions[1] + "more"
		},
		"replaced": func(w *world) string {
			w.write("d/t", "short")
			check(t, os.Rename(w.path("d/t"), w.path("d/f")))
			return "short"
		},
		"in place": func(w *world) string {
			sh, base := w.shadowOf("d/f")
			defer sh.Discard()
			overwriteFD(t, sh.FD(), "short")
			_, err := sh.InPlace(int(openFile(t, w.path("d/f"), os.O_RDWR).Fd()), w.publishOptions("d/f", base))
			check(t, err)
			return "short"
		},
		"a record": func(w *world) string {
			f := openFile(t, w.path("d/f"), os.O_RDWR|os.O_APPEND)
			tail, err := w.s.Tail(tail.Options{FD: int(f.Fd()), DirPath: "d", Name: "f"})
			check(t, err)
			w.s.tails.Linger = 1 << 60
			_, err = tail.Append(int(f.Fd()), []byte("record\n"))
			check(t, err)
			check(t, tail.Truncate(0))
			return ""
		},
		"settled": func(w *world) string {
			st := w.stat("d/f")
			check(t, w.s.SettleLazy(&st))
			check(t, os.Truncate(w.path("d/f"), 3))
			return lazyVersions[1][:3]
		},
		"settled with its directory": func(w *world) string {
			check(t, w.s.SettleLazyDir(w.openDir("d")))
			check(t, os.Truncate(w.path("d/f"), 3))
			return lazyVersions[1][:3]
		},
	} {
		t.Run(what, func(t *testing.T) {
			w := newWorld(t, t.TempDir())
			w.write("d/f", "old")
			w.saveLazily("d/f", lazyVersions[1], "")
			want := change(w)
			w.start()
			w.s.disk.Epoch = func(int) string { return "another" }
			r, err := w.s.Recover()
			check(t, err)
			if got := w.read("d/f"); got != want || len(r.Reverted) > 0 {
				t.Errorf("the file holds %.20q (%d bytes), want %.20q; %+v", got, len(got), want, r)
			}
			w.checkNothingLeft()
		})
	}
	w := newWorld(t, t.TempDir())
	w.write("d/f", "old")
	w.saveLazily("d/f", lazyVersions[1], "")
	check(t, os.Truncate(w.path("d/f"), 3))
	w.start()
	_, err := w.s.Recover()
	check(t, err)
	if got := w.read("d/f"); got != lazyVersions[1][:3] {
		t.Errorf("after a mere restart the file holds %.20q", got)
	}
	w.checkNothingLeft()
}

// The directory was renamed before the crash.
func TestLazyInAMovedDirectory(t *testing.T) {
	w := newWorld(t, t.TempDir())
	w.write("a/b/f", "old")
	w.saveLazily("a/b/f", lazyVersions[1], "")
	check(t, os.Truncate(w.path("a/b/f"), 3))
	check(t, os.Rename(w.path("a"), w.path("c")))
	w.start()
	w.s.disk.Epoch = func(int) string { return "another" }
	_, err := w.s.Recover()
	check(t, err)
	if got := w.read("c/b/f"); got != "old" {
		t.Errorf("the file holds %.20q", got)
	}
	w.checkNothingLeft()
}

// Many commits are settled by one sync, and the old versions stay as long as the
// history wants them.
func TestLazySettles(t *testing.T) {
	w := newWorld(t, t.TempDir())
	names := []string{}
	for i := range 3 * lazy.SyncfsFrom {
		name := "d/" + string(rune('a'+i%lazy.SyncfsFrom)) + strings.Repeat("x", i/lazy.SyncfsFrom)
		names = append(names, name)
		w.write(name, "old")
		w.saveLazily(name, "new", "")
	}
	w.steps = nil
	check(t, w.settleAll())
	if n := strings.Count(strings.Join(w.steps, " "), "sync"); n != 1 {
		t.Errorf("%d syncs: %q", n, w.steps)
	}
	for _, name := range names {
		if w.read(name) != "new" {
			t.Errorf("%s holds %q", name, w.read(name))
		}
	}
	w.saveLazily(names[0], "newer", theContent)
	if got := w.read(disk.StateDirName + "/" + history.ContentPath(theContent)); got != "new" {
		t.Errorf("the history holds %q", got)
	}
	w.s.SettleKept(theContent)
	if n := w.s.lazies.Unsettled(); n != 0 {
		t.Errorf("%d pending", n)
	}
	for _, in := range w.j.Pending() {
		if in.Kind == journal.KindReplace {
			t.Errorf("pending: %+v", in)
		}
	}
	if left := w.leftovers(); len(left) > 0 {
		t.Errorf("left: %q", left)
	}
}

// Who makes room on a full disk may ask for a commit to be settled while the history is
// locked: if that finds no room either, it does not ask for some in its turn.
func TestSettlingForRoomAsksForNone(t *testing.T) {
	w := newWorld(t, t.TempDir())
	w.write("d/f", "old")
	if !w.saveLazily("d/f", "new", theContent) {
		t.Fatal("not saved")
	}
	asked := 0
	w.s.SetRoom(func(error) bool { asked++; return false })
	w.s.disk.Fault = func(step string) error { // with a marker left of what was not published
		if step == "link" || step == "unlink" {
			return unix.EIO
		}
		return nil
	}
	if w.saveLazily("d/new", "new", "") {
		t.Fatal("saved on a disk that fails")
	}
	w.s.disk.Fault = func(string) error { return unix.ENOSPC }
	w.s.SettleKept(theContent)
	if n := w.s.lazies.Unsettled(); n != 1 {
		t.Fatalf("%d commits are unsettled on a full disk", n)
	}
	if asked != 0 {
		t.Errorf("room was asked for %d times", asked)
	}
	if w.settleAll() == nil || asked == 0 {
		t.Errorf("the disk is full, and room was asked for %d times", asked)
	}
}

// On a full disk room is made by settling the commits that keep a file which has no other
// name, and by these alone.
func TestRoomOfUnsettledCommits(t *testing.T) {
	for _, c := range []struct {
		name  string
		keeps bool
		work  func(w *world)
	}{
		{"made and removed", true, func(w *world) { w.saveAs(Auto, "d/g", "new", ""); check(w.t, os.Remove(w.path("d/g"))) }},
		{"made and replaced", true, func(w *world) { w.saveAs(Auto, "d/g", "between", ""); w.saveLazily("d/g", "new", "") }},
		{"the version before", true, func(w *world) { w.saveLazily("d/f", "new", "") }},
		{"made", false, func(w *world) { w.saveAs(Auto, "d/g", "new", "") }},
	} {
		t.Run(c.name, func(t *testing.T) {
			w := newWorld(t, t.TempDir())
			w.write("d/f", "old")
			c.work(w)
			w.saveAs(Auto, "d/other", "new", "")
			asked, settled := 0, false
			w.s.SetRoom(func(error) bool { asked++; return false })
			w.s.disk.Fault = func(step string) error {
				settled = settled || step == "unlink"
				if step == "tmpfile" && !settled {
					return unix.ENOSPC
				}
				return nil
			}
			if acked := w.saveAs(Auto, "d/after", "new", ""); acked != c.keeps {
				t.Errorf("acknowledged: %v", acked)
			}
			if asked != 1 {
				t.Errorf("the history was asked for room %d times", asked)
			}
			if w.s.lazies.Unsettled() == 0 {
				t.Error("all commits are settled")
			}
		})
	}
}
