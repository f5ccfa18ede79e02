package commit

import (
	"bytes"
	"errors"
	"os"
	"path/filepath"
	"strings"
	"testing"

	"github.com/google/go-cmp/cmp"
	"golang.org/x/sys/unix"

	"latchfs/journal"
	"latchfs/journal/commit/internal/disk"
	"latchfs/journal/commit/internal/keep"
	"latchfs/journal/history"
)

func TestInPlaceKeepsTheInode(t *testing.T) {
	eachFS(t, func(t *testing.T, w *world) {
		w.write("d/f", strings.Repeat("old", 1000))
		check(t, os.Link(w.path("d/f"), w.path("other")))
		before := w.stat("d/f")
		target := openFile(t, w.path("d/f"), os.O_RDWR)
		sh, base := w.shadowOf("d/f")
		overwriteFD(t, sh.FD(), "new")
		want := statFD(t, sh.FD()).Mtim
		v, err := sh.InPlace(int(target.Fd()), w.publishOptions("d/f", base))
		check(t, err)
		check(t, sh.Discard())
		after := w.stat("other")
		if w.read("other") != "new" || after.Ino != before.Ino || after.Nlink != 2 || after.Mtim != want {
			t.Errorf("%q, before %+v, after %+v", w.read("other"), before, after)
		}
		if v != *w.version("d/f") {
			t.Errorf("InPlace returned %+v, the file is %+v", v, w.version("d/f"))
		}
		w.checkNothingLeft()
	})
}

// A link to the file that a failed commit has left in the history gives way to the copy
// that is kept there. That is no change of the file.
func TestInPlaceReplacesALinkThatWasLeft(t *testing.T) {
	eachFS(t, func(t *testing.T, w *world) {
		w.write("f", "old")
		kept := w.path(StateDirName + "/" + history.ContentPath(theContent))
		check(t, os.MkdirAll(filepath.Dir(kept), 0o700))
		check(t, os.Link(w.path("f"), kept))
		target := openFile(t, w.path("f"), os.O_RDWR)
		sh, base := w.shadowOf("f")
		overwriteFD(t, sh.FD(), "new")
		o := w.publishOptions("f", base)
		o.Keep = keep.Keep{ID: theContent}
		_, err := sh.InPlace(int(target.Fd()), o)
		check(t, err)
		check(t, sh.Discard())
		if old, err := os.ReadFile(kept); string(old) != "old" || w.read("f") != "new" || w.stat("f").Nlink != 1 {
			t.Errorf("kept %q (%v), in the file %q, which has %d names", old, err, w.read("f"), w.stat("f").Nlink)
		}
	})
}

// What the session did to its shadow's metadata happens to the target.
func TestInPlaceCarriesMetadata(t *testing.T) {
	eachFS(t, func(t *testing.T, w *world) {
		w.write("f", "old")
		target := openFile(t, w.path("f"), os.O_RDWR)
		check(t, unix.Fsetxattr(int(target.Fd()), "user.gone", []byte("x"), 0))
		sh, base := w.shadowOf("f")
		check(t, disk.WriteAll(sh.FD(), []byte("new"), 0))
		check(t, unix.Fsetxattr(sh.FD(), "user.note", []byte("y"), 0))
		check(t, unix.Fremovexattr(sh.FD(), "user.gone"))
		if root(t) {
			check(t, unix.Fchown(sh.FD(), 12, 34))
		}
		check(t, unix.Fchmod(sh.FD(), 0o4711))
		check(t, disk.Futimens(sh.FD(), [2]unix.Timespec{{Sec: 1}, {Sec: 2}}))
		want := metadataOf(t, sh.FD())
		_, err := sh.InPlace(int(target.Fd()), w.publishOptions("f", base))
		check(t, err)
		check(t, sh.Discard())
		got := metadataOf(t, int(target.Fd()))
		if diff := cmp.Diff(want, got); diff != "" {
			t.Error(diff)
		}
	})
}

// What the target has got from the session meanwhile, and the session takes back, is a change
// of the target.
func TestInPlaceTakesBackWhatWasCarried(t *testing.T) {
	eachFS(t, func(t *testing.T, w *world) {
		w.write("f", "old")
		target := openFile(t, w.path("f"), os.O_RDWR)
		sh, _ := w.shadowOf("f")
		change := func(fd int, mode uint32, id int) {
			if root(t) {
				check(t, unix.Fchown(fd, id, id))
			}
			check(t, unix.Fchmod(fd, mode))
		}
		for _, fd := range []int{sh.FD(), int(target.Fd())} {
			change(fd, 0o666, 12)
		}
		check(t, sh.Carried())
		overwriteFD(t, sh.FD(), "new")
		change(sh.FD(), 0o644, os.Getuid())
		want := metadataOf(t, sh.FD())
		_, err := sh.InPlace(int(target.Fd()), w.publishOptions("f", w.version("f")))
		check(t, err)
		check(t, sh.Discard())
		if diff := cmp.Diff(want, metadataOf(t, int(target.Fd()))); diff != "" {
			t.Error(diff)
		}
	})
}

func TestInPlaceConflicts(t *testing.T) {
	eachFS(t, func(t *testing.T, w *world) {
		for name, change := range map[string]func(){
			"written":  func() { w.write("f", "OLD") },
			"replaced": func() { w.write("g", "old"); check(t, os.Rename(w.path("g"), w.path("f"))) },
			"removed":  func() { check(t, os.Remove(w.path("f"))) },
		} {
			for _, when := range []string{"fsync", "syncdir"} {
				w.write("f", "old")
				target := openFile(t, w.path("f"), os.O_RDWR)
				sh, base := w.shadowOf("f")
				check(t, disk.WriteAll(sh.FD(), []byte("new"), 0))
				fired := false
				w.s.disk.Fault = func(step string) error {
					if step == when && !fired {
						fired = true
						change()
					}
					return nil
				}
				_, err := sh.InPlace(int(target.Fd()), w.publishOptions("f", base))
				if !errors.Is(err, ErrConflict) || errors.Is(err, ErrRedoPending) {
					t.Errorf("%s: %v", name, err)
				}
				b := make([]byte, 3)
				if _, err := target.ReadAt(b, 0); err != nil || !bytes.EqualFold(b, []byte("old")) {
					t.Errorf("%s: the target has %q, %v", name, b, err)
				}
				if when == "syncdir" { // the redo was armed: it must not go off later
					w.s.disk.Fault = func(string) error { return errInjected }
					sh.Discard()
					w.restart()
					if b, err := os.ReadFile(w.path("f")); err == nil && !bytes.EqualFold(b, []byte("old")) {
						t.Errorf("%s: recovery has written %q", name, b)
					}
				}
				check(t, sh.Discard())
				w.checkNothingLeft()
			}
		}
	})
}

// halfWritten stops a commit in place before what it has copied is cut off behind its end.
func (w *world) halfWritten(name string) {
	w.t.Helper()
	w.halfCopied(name, "new", 3)
}

func TestRedoFindsWhatHasMoved(t *testing.T) {
	moves := map[string]func(w *world){
		"nothing":   func(w *world) {},
		"directory": func(w *world) { check(w.t, os.Rename(w.path("d"), w.path("e"))) },
		"directory, another in its place": func(w *world) {
			check(w.t, os.Rename(w.path("d"), w.path("e")))
			w.write("d/f", "another")
		},
		"target": func(w *world) {
			check(w.t, os.Mkdir(w.path("e"), 0o755))
			check(w.t, os.Rename(w.path("d/f"), w.path("e/f")))
		},
		"directory, deep": func(w *world) {
			deep := "e/" + strings.Repeat("deep/", 300)
			check(w.t, os.MkdirAll(w.path(deep), 0o755))
			check(w.t, os.Rename(w.path("d"), w.path(deep+"d")))
			check(w.t, os.Rename(w.path("e/deep"), w.path("deep")))
		},
	}
	eachFS(t, func(t *testing.T, w *world) {
		for name, move := range moves {
			check(t, errors.Join(os.RemoveAll(w.path("d")), os.RemoveAll(w.path("e"))))
			w.write("d/f", "old and longer")
			target := openFile(t, w.path("d/f"), os.O_RDONLY)
			w.halfWritten("d/f")
			move(w)
			w.start()
			r, err := w.s.Recover()
			check(t, err)
			if len(r.Redone) != 1 || len(r.Salvaged) > 0 {
				t.Errorf("%s: report %+v", name, r)
			}
			b := make([]byte, 20)
			if n, _ := target.ReadAt(b, 0); string(b[:n]) != "new" {
				t.Errorf("%s: content %q", name, b[:n])
			}
			w.checkNothingLeft()
		}
	})
}

func TestRedoWithoutTargetKeepsTheBytes(t *testing.T) {
	eachFS(t, func(t *testing.T, w *world) {
		w.write("d/f", "old")
		w.halfWritten("d/f")
		check(t, os.Remove(w.path("d/f")))
		w.write("d/f", "another")
		w.start()
		r, err := w.s.Recover()
		check(t, err)
		if len(r.Redone) > 0 || len(r.Salvaged) != 1 {
			t.Fatalf("report %+v", r)
		}
		if got := w.read(".latchfs/rejected/" + r.Salvaged[0] + "/content"); got != "new" {
			t.Errorf("kept %q", got)
		}
		if got := w.read("d/f"); got != "another" {
			t.Errorf("content %q", got)
		}
		w.checkNothingLeft()
	})
}

// Inode numbers are used again; a file is told by its birth as well.
func TestOpenTarget(t *testing.T) {
	eachFS(t, func(t *testing.T, w *world) {
		w.write("f", "")
		st := w.stat("f")
		born := disk.Birth(int(openFile(t, w.path("f"), os.O_RDONLY).Fd()))
		if born == 0 {
			t.Fatal("no time of birth")
		}
		is := func(in journal.Intent) bool {
			fd, err := disk.OpenTarget(int(w.dir.Fd()), "f", in)
			check(t, err)
			if fd >= 0 {
				unix.Close(fd)
			}
			return fd >= 0
		}
		this := journal.Intent{TargetDev: uint64(st.Dev), TargetIno: st.Ino, TargetBirth: born}
		otherDev, otherIno, otherBirth, unborn := this, this, this, this
		otherDev.TargetDev++ // mounted in another order
		otherIno.TargetIno++
		otherBirth.TargetBirth--
		unborn.TargetBirth = 0
		if !is(this) || !is(otherDev) || is(otherIno) || is(otherBirth) || is(unborn) {
			t.Error(is(this), is(otherDev), is(otherIno), is(otherBirth), is(unborn))
		}
	})
}

// A redo that was carried out is not carried out again over something newer,
// even if the machine dies right after it.
func TestRedoIsNotRepeated(t *testing.T) {
	eachFS(t, func(t *testing.T, w *world) {
		w.write("f", "old")
		target := openFile(t, w.path("f"), os.O_RDWR)
		sh, base := w.shadowOf("f")
		check(t, disk.WriteAll(sh.FD(), []byte("one"), 0))
		_, err := sh.InPlace(int(target.Fd()), w.publishOptions("f", base))
		check(t, err)
		if last := w.steps[len(w.steps)-1]; last != "syncjournal" {
			t.Errorf("the last step is %s: the end of the commit may be forgotten", last)
		}
		check(t, disk.WriteAll(int(target.Fd()), []byte("two"), 0)) // around us
		w.restart()
		if got := w.read("f"); got != "two" {
			t.Errorf("content %q", got)
		}
	})
}

// A commit in place that is still to be finished would be finished over whatever
// is committed after it, so nothing is.
func TestInPlaceAfterHalfWritten(t *testing.T) {
	eachFS(t, func(t *testing.T, w *world) {
		w.write("f", "old content")
		w.halfWritten("f")
		w.s.disk.Fault = nil
		save := func() error {
			target := openFile(t, w.path("f"), os.O_RDWR)
			sh, base := w.shadowOf("f")
			defer sh.Discard()
			overwriteFD(t, sh.FD(), "newer")
			_, err := sh.InPlace(int(target.Fd()), w.publishOptions("f", base))
			return err
		}
		if err := save(); !errors.Is(err, unix.EIO) {
			t.Errorf("a commit over a half written file: %v", err)
		}
		if !w.s.HalfDone() {
			t.Error("nothing is half written")
		}
		_, err := w.s.Recover()
		check(t, err)
		if got := w.read("f"); got != "new" || w.s.HalfDone() {
			t.Errorf("after the recovery the file holds %q; half written: %v", got, w.s.HalfDone())
		}
		check(t, save())
		w.restart()
		if got := w.read("f"); got != "newer" {
			t.Errorf("after a restart the file holds %q", got)
		}
	})
}
