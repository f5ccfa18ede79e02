package commit

import (
	"errors"
	"fmt"
	"os"
	"path"
	"strings"
	"testing"

	"golang.org/x/sys/unix"

	"latchfs/journal/commit/internal/disk"
	"latchfs/journal/commit/internal/lazy"
	"latchfs/journal/commit/internal/tail"
)

// renameMade renames a file that was made a moment ago to a free name.
func (w *world) renameMade(from, dir, name string) bool {
	st := w.stat(from)
	m := w.s.MoveLazy(&st, w.openDir(dir), dir, name)
	if m == nil {
		return false
	}
	err := w.s.disk.Do("rename", func() error { return os.Rename(w.path(from), w.path(path.Join(dir, name))) })
	m.Done(err == nil)
	return err == nil
}

func (w *world) isGoing(dir int, name string) bool {
	var st unix.Stat_t
	check(w.t, unix.Fstat(dir, &st))
	return w.s.lazies.IsGoing(disk.InodeOf(&st), name)
}

// lost collects what the store says could not be put on the disk.
func (w *world) lost() *[]string {
	var told []string
	w.s.SetLost(func(path string, err error) { told = append(told, path+": "+err.Error()) })
	return &told
}

// failing lets one step fail until it is called.
func (w *world) failing(step string, errno unix.Errno) (stop func()) {
	w.s.disk.Fault = func(s string) error {
		w.steps = append(w.steps, s)
		if s == step {
			return errno
		}
		return nil
	}
	return func() { w.s.disk.Fault = func(s string) error { w.steps = append(w.steps, s); return nil } }
}

// A file that was made and could not be put on the disk in the background: latchfs tells
// of it once, and so does the next commit in the directory that waits for the disk.
func TestLostInTheBackground(t *testing.T) {
	eachFS(t, func(t *testing.T, w *world) {
		told := w.lost()
		w.write("d/old", "old")
		if !w.saveAs(Auto, "d/new", "new", "") {
			t.Fatal("not saved")
		}
		well := w.failing("fsync", unix.EIO)
		for range 2 {
			if w.settleAll() == nil {
				t.Error("a sync that fails is no error")
			}
		}
		well()
		if want := "d/new: fsync: input/output error"; len(*told) != 1 || (*told)[0] != want {
			t.Errorf("told %q, want once %q", *told, want)
		}
		for _, want := range []error{ErrNotDurable, nil} {
			sh, base := w.shadowOf("d/old")
			check(t, disk.WriteAll(sh.FD(), []byte("newer"), 0))
			o := w.publishOptions("d/old", base)
			o.Durability = Auto
			if _, err := sh.Publish(o); !errors.Is(err, want) {
				t.Errorf("a commit in the directory: %v, want %v", err, want)
			}
			check(t, sh.Discard())
		}
		st := w.stat("d/new")
		if err := w.s.Lost(disk.InodeOf(&st)); !errors.Is(err, unix.EIO) {
			t.Errorf("who asks for the file: %v", err)
		}
		if err := w.s.Lost(disk.InodeOf(&st)); err != nil {
			t.Errorf("who asks again: %v", err)
		}
		if n := w.s.lazies.Unsettled(); n != 0 {
			t.Errorf("%d commits are unsettled on a disk that is well again", n)
		}
	})
}

// The kernel tells once of a write that was lost. As long as the disk does not have the
// content the marker stays: after a crash the file is not there.
func TestLostIsNotBelievedToBeOnDisk(t *testing.T) {
	eachFS(t, func(t *testing.T, w *world) {
		w.write("d/other", "")
		content := strings.Repeat("content ", 1000)
		if !w.saveAs(Auto, "d/new", content, "") {
			t.Fatal("not saved")
		}
		well := w.failing("fsync", unix.EIO)
		check(t, errIsNil(w.settleAll()))
		well()
		f := openFile(t, w.path("d/new"), os.O_RDWR)
		check(t, disk.WriteAll(int(f.Fd()), []byte("x"), 4096)) // what the disk has
		if err := w.settleAll(); !errors.Is(err, unix.EIO) || w.s.lazies.Unsettled() != 1 {
			t.Errorf("%v, %d commits are unsettled", err, w.s.lazies.Unsettled())
		}
		check(t, disk.WriteAll(int(f.Fd()), []byte(content), 0))
		if err := w.settleAll(); err != nil || w.s.lazies.Unsettled() != 0 {
			t.Errorf("%v, %d commits are unsettled", err, w.s.lazies.Unsettled())
		}
	})
}

func errIsNil(err error) error {
	if err == nil {
		return errors.New("no error")
	}
	return nil
}

// A sync of the whole filesystem that fails tells nothing about one file: each is asked
// about.
func TestLostAmongMany(t *testing.T) {
	w := newWorld(t, t.TempDir())
	w.write("d/other", "")
	told := w.lost()
	for i := range 2 * lazy.SyncfsFrom {
		if !w.saveAs(Auto, "d/"+string(rune('a'+i)), "new", "") {
			t.Fatal("not saved")
		}
	}
	well := w.failing("syncfs", unix.EIO)
	if w.settleAll() == nil {
		t.Error("a sync that fails is no error")
	}
	well()
	if n := w.s.lazies.Unsettled(); n != 0 || len(*told) != 0 {
		t.Errorf("%d commits are unsettled, told %q: each could be synced", n, *told)
	}
	check(t, os.Mkdir(w.path("many"), 0o755))
	for i := range 300 {
		name := "many/" + strings.Repeat("x", i%100) + string(rune('a'+i/100))
		w.write(name, "x")
		check(t, w.soon(name))
	}
	well = w.failing("syncfs", unix.EIO)
	if w.settleAll() == nil {
		t.Error("a sync that fails is no error")
	}
	well()
	if len(*told) != 1 {
		t.Errorf("told %q: nobody knows of what", *told)
	}
}

// Records that were appended are on disk with the next commit in their directory that
// waits for the disk; where that is too late for them, it says so, and so does a sync of
// the file.
func TestRecordsAreSettledWithTheirDirectory(t *testing.T) {
	w := newWorld(t, t.TempDir())
	told := w.lost()
	w.write("d/log", "")
	w.write("d/old", "old")
	f := openFile(t, w.path("d/log"), os.O_RDWR|os.O_APPEND)
	log, err := w.s.Tail(tail.Options{FD: int(f.Fd()), DirPath: "d", Name: "log"})
	check(t, err)
	defer log.Close()
	dir := w.stat("d")
	add := func() uint64 {
		t.Helper()
		seq, err := log.Append(int(f.Fd()), []byte("record\n"))
		check(t, err)
		check(t, w.s.RecordsSoon(log, disk.InodeOf(&dir), "d/log"))
		return seq
	}
	add()
	w.steps = nil
	if !w.saveAs(Auto, "d/old", "new", "") || w.steps[0] == "fdatasync" || !strings.Contains(strings.Join(w.steps, " "), "fdatasync") {
		t.Errorf("a commit in the directory: %q", w.steps)
	}
	w.steps = nil
	check(t, w.settleAll())
	if len(w.steps) > 0 {
		t.Errorf("%q of what is on disk", w.steps)
	}
	seq := add()
	well := w.failing("fdatasync", unix.EIO)
	for range 2 {
		_ = w.settleAll()
	}
	well()
	if len(*told) != 1 || !strings.HasPrefix((*told)[0], "d/log: ") {
		t.Errorf("told %q", *told)
	}
	if err := log.Sync(seq); !errors.Is(err, unix.EIO) {
		t.Errorf("a sync of the record: %v", err)
	}
	if w.saveAs(Auto, "d/old", "newer", "") || !w.saveAs(Auto, "d/old", "newest", "") {
		t.Error("one commit in the directory hears of it")
	}
}

// A rename of a file that was made a moment ago waits for no disk. Its marker goes with it.
func TestMovedUnsettled(t *testing.T) {
	for tear, do := range tears {
		w := newWorld(t, t.TempDir())
		w.write("d/other", "")
		w.write("e/other", "")
		w.saveAs(Auto, "d/t", lazyVersions[1], "")
		w.saveAs(Auto, "d/u", lazyVersions[1], "")
		w.saveAs(Auto, "e/v", lazyVersions[1], "")
		w.steps = nil
		if !w.renameMade("d/t", "d", "f") || !w.renameMade("d/u", "e", "g") {
			t.Fatalf("not renamed: %q", w.steps)
		}
		if got := strings.Join(w.steps, " "); strings.Contains(got, "sync") {
			t.Errorf("a rename of what is not on disk: %s", got)
		}
		do(t, w.path("e/g"))
		w.start()
		w.s.disk.Epoch = func(int) string { return "another" }
		r, err := w.s.Recover()
		check(t, err)
		if _, err := os.Stat(w.path("e/g")); !errors.Is(err, os.ErrNotExist) || len(r.Reverted) != 1 || r.Reverted[0].Path != "e/g" {
			t.Errorf("%s: %v, %+v", tear, err, r.Reverted)
		}
		if w.read("d/f") != lazyVersions[1] {
			t.Errorf("%s: the whole file is not there", tear)
		}
		w.checkNothingLeft()
	}
}

// A file that waits for its rename is not settled meanwhile, and who wants it settled waits.
func TestSettlingWaitsForARename(t *testing.T) {
	w := newWorld(t, t.TempDir())
	w.write("d/other", "")
	w.saveAs(Auto, "d/t", "new", "")
	st := w.stat("d/t")
	m := w.s.MoveLazy(&st, w.openDir("d"), "d", "f")
	if m == nil {
		t.Fatal("not unsettled")
	}
	if again := w.s.MoveLazy(&st, w.openDir("d"), "d", "g"); again != nil {
		t.Error("renamed twice at once")
	}
	check(t, w.settleAll())
	if n := w.s.lazies.Unsettled(); n != 1 {
		t.Errorf("%d unsettled amid a rename", n)
	}
	settled := make(chan error)
	go func() { settled <- w.s.SettleLazyDir(w.openDir("d")) }()
	check(t, os.Rename(w.path("d/t"), w.path("d/f")))
	m.Done(true)
	check(t, <-settled)
	if n := w.s.lazies.Unsettled(); n != 0 {
		t.Errorf("%d unsettled", n)
	}
	if left := w.leftovers(); len(left) > 0 {
		t.Errorf("left: %q", left)
	}
}

// Of a file that was made and removed nothing is synced.
func TestMadeAndRemoved(t *testing.T) {
	w := newWorld(t, t.TempDir())
	w.write("d/other", "")
	w.saveAs(Auto, "d/f", "new", "")
	st := w.stat("d/f")
	if !w.s.IsMade(&st) {
		t.Error("what was made a moment ago was not")
	}
	check(t, os.Remove(w.path("d/f")))
	w.steps = nil
	check(t, w.settleAll())
	if got := strings.Join(w.steps, " "); got != "unlink" {
		t.Errorf("%s, want unlink", got)
	}
	if left := w.leftovers(); len(left) > 0 {
		t.Errorf("left: %q", left)
	}
}

// What is too large for a checksum is synced, and its name within a second.
func TestLargeFilesUnderAuto(t *testing.T) {
	w := newWorld(t, t.TempDir())
	w.write("d/other", "")
	w.steps = nil
	if !w.saveAs(Auto, "d/large", strings.Repeat("x", lazy.MaxSizeAnew+1), "") {
		t.Fatal("not saved")
	}
	got := strings.Replace(strings.Join(w.steps, " "), "writeback", "fsync", 1)
	if got != "tmpfile fsync link" && got != "fsync link" {
		t.Errorf("a large file: %s", got)
	}
	w.steps = nil
	check(t, w.settleAll())
	if got := strings.Join(w.steps, " "); got != "fsync" {
		t.Errorf("%s, want fsync of the directory", got)
	}
}

// Names are on disk after a sync of their directory: nothing more is done for them.
func TestNamesAreOnDiskWithTheirDirectory(t *testing.T) {
	w := newWorld(t, t.TempDir())
	w.write("d/f", "x")
	dir, st := w.openDir("d"), w.stat("d")
	for _, errno := range []unix.Errno{unix.EIO, 0} {
		check(t, w.soon("d"))
		w.s.NameGone(disk.InodeOf(&st), "gone")
		well := func() {}
		if errno != 0 {
			well = w.failing("syncdir", errno)
		}
		err := w.s.SyncDir(dir, dir)
		well()
		if failed := err != nil; failed != (errno != 0) || w.isGoing(dir, "gone") != failed {
			t.Errorf("%v, and the name is going: %v", err, w.isGoing(dir, "gone"))
		}
	}
	w.steps = nil
	check(t, w.settleAll())
	if len(w.steps) > 0 {
		t.Errorf("%q of what is on disk", w.steps)
	}
}

// However many names were taken away a moment ago: what is made under another one replaces
// nothing, and waits for no disk.
func TestMadeWhileManyAreGoing(t *testing.T) {
	w := newWorld(t, t.TempDir())
	w.write("d/other", "")
	w.saveAs(Auto, "d/first", "new", "")
	dir, st := w.openDir("d"), w.stat("d")
	check(t, w.soon("d"))
	for i := range 5000 {
		w.s.NameGone(disk.InodeOf(&st), fmt.Sprint("gone", i))
	}
	for name, waits := range map[string]bool{"d/new": false, "d/gone7": true} {
		w.steps = nil
		if !w.saveAs(Auto, name, "new", "") {
			t.Fatal("not saved")
		}
		if got := strings.Join(w.steps, " "); strings.Contains(got, "sync") != waits {
			t.Errorf("%s: %s", name, got)
		}
	}
	check(t, w.settleAll())
	if w.isGoing(dir, "gone8") {
		t.Error("a name is going that is gone on the disk")
	}
}

// Beyond what is remembered any name may be one that is going, until all are gone on the disk.
func TestMoreAreGoingThanRemembered(t *testing.T) {
	w := newWorld(t, t.TempDir())
	w.write("d/other", "")
	dir, st := w.openDir("d"), w.stat("d")
	check(t, w.soon("d"))
	for i := range 1<<14 + 1 {
		if w.isGoing(dir, "any") {
			t.Fatalf("any name is going after %d", i)
		}
		w.s.NameGone(disk.InodeOf(&st), fmt.Sprint("gone", i))
	}
	for _, errno := range []unix.Errno{unix.EIO, 0} {
		if !w.isGoing(dir, "any") {
			t.Error("a name that is not remembered is not going")
		}
		well := func() {}
		if errno != 0 {
			well = w.failing("fsync", errno)
		}
		if failed := w.settleAll() != nil; failed != (errno != 0) {
			t.Errorf("the sync fails: %v", failed)
		}
		well()
	}
	if w.isGoing(dir, "any") || w.isGoing(dir, "gone1") {
		t.Error("a name is going that is gone on the disk")
	}
}
