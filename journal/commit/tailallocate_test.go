package commit

import (
	"strings"
	"testing"

	"golang.org/x/sys/unix"
)

// The room that an appender has made for a file is the file's: no recovery takes it for what a
// crash has left of a record, and records come behind it.
func TestTailAllocate(t *testing.T) {
	eachFS(t, func(t *testing.T, w *world) {
		w.write("log", "old\n")
		a := w.appending()
		if !a.append("one\n") {
			t.Fatal("cannot append")
		}
		check(t, a.t.Allocate(func() error { return unix.Fallocate(a.fd, 0, 0, 100) }))
		want := "old\none\n" + strings.Repeat("\x00", 92)
		w.s.disk.Epoch = func(int) string { return "another" }
		crash := func() {
			t.Helper()
			w.restart()
			if got := w.read("log"); got != want {
				t.Errorf("the log holds %q", got)
			}
			w.checkNothingLeft()
		}
		crash()
		a = w.appending()
		if !a.append("two\n") || !a.sync() {
			t.Fatal("cannot append behind it")
		}
		want += "two\n"
		crash()
	})
}
