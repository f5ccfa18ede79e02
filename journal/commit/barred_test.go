package commit

import (
	"fmt"
	"os"
	"os/exec"
	"slices"
	"testing"

	"golang.org/x/sys/unix"
)

// A file that nobody may write does not keep a recovery from coming to its end: an unfinished
// record stands there, and a file that needs no change is looked at.
func TestTailOfABarredFile(t *testing.T) {
	if os.Geteuid() != 0 {
		t.Skip("only root may make a file immutable, or mount it")
	}
	bars := map[string]func(t *testing.T, file string){
		"immutable": func(t *testing.T, file string) {
			if out, err := exec.Command("chattr", "+i", file).CombinedOutput(); err != nil {
				t.Skipf("%s", out)
			}
			t.Cleanup(func() { check(t, exec.Command("chattr", "-i", file).Run()) })
		},
		"read-only mount": func(t *testing.T, file string) {
			check(t, unix.Mount(file, file, "", unix.MS_BIND, ""))
			t.Cleanup(func() { check(t, unix.Unmount(file, 0)) })
			check(t, unix.Mount("", file, "", unix.MS_REMOUNT|unix.MS_BIND|unix.MS_RDONLY, ""))
		},
	}
	for name, bar := range bars {
		for _, unfinished := range []bool{false, true} {
			t.Run(fmt.Sprintf("%s, unfinished %v", name, unfinished), func(t *testing.T) {
				eachFS(t, func(t *testing.T, w *world) { w.testBarredTail(t, bar, unfinished) })
			})
		}
	}
}

func (w *world) testBarredTail(t *testing.T, bar func(t *testing.T, file string), unfinished bool) {
	w.write("log", "old\n")
	a := w.appending()
	if !a.append("one\n") {
		t.Fatal("cannot append")
	}
	want := "old\none\n"
	if unfinished {
		w.s.tails.Piece = 5
		w.failAt(3, true)
		a.append("half of it\n")
		want += "half "
	}
	a.close()
	bar(t, w.path("log"))
	w.start()
	r, err := w.s.Recover()
	check(t, err)
	if w.read("log") != want || len(r.Cut) > 0 || unfinished != slices.Equal(r.Barred, []string{"log"}) {
		t.Errorf("%q, cut %+v, barred %q", w.read("log"), r.Cut, r.Barred)
	}
	w.checkNothingLeft()
}

// A commit in place that was not finished, for an error of the disk, is finished in the same run
// when its file is barred no more. Until then it stays to be done.
func TestRedoOfABarredFile(t *testing.T) {
	if os.Geteuid() != 0 {
		t.Skip("only root may make a file immutable")
	}
	eachFS(t, func(t *testing.T, w *world) {
		w.write("f", page("o"))
		w.halfCopied("f", page("n")+page("m"), 4096)
		w.s.disk.Fault = nil
		if out, err := exec.Command("chattr", "+i", w.path("f")).CombinedOutput(); err != nil {
			t.Skipf("%s", out)
		}
		_, barred := w.s.Recover()
		check(t, exec.Command("chattr", "-i", w.path("f")).Run())
		if barred == nil {
			t.Error("a file that cannot be opened was given up")
		}
		_, err := w.s.Recover()
		check(t, err)
		if got := w.read("f"); got != page("n")+page("m") {
			t.Errorf("the file holds %.10q…, %d bytes", got, len(got))
		}
		w.checkNothingLeft()
	})
}
