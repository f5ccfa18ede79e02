package commit

import (
	"os"
	"os/exec"
	"slices"
	"testing"
)

// A file that nobody may write does not keep a recovery from coming to its end: an unfinished
// record stands there, and a file that needs no change is looked at.
func TestTailOfABarredFile(t *testing.T) {
	if os.Geteuid() != 0 {
		t.Skip("only root may make a file immutable")
	}
	for _, unfinished := range []bool{false, true} {
		eachFS(t, func(t *testing.T, w *world) {
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
			if out, err := exec.Command("chattr", "+i", w.path("log")).CombinedOutput(); err != nil {
				t.Skipf("%s", out)
			}
			t.Cleanup(func() { check(t, exec.Command("chattr", "-i", w.path("log")).Run()) })
			w.start()
			r, err := w.s.Recover()
			check(t, err)
			if w.read("log") != want || len(r.Cut) > 0 || unfinished != slices.Equal(r.Barred, []string{"log"}) {
				t.Errorf("unfinished %v: %q, cut %+v, barred %q", unfinished, w.read("log"), r.Cut, r.Barred)
			}
			w.checkNothingLeft()
		})
	}
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
