package commit

import (
	"os"
	"path/filepath"
	"testing"

	"golang.org/x/sys/unix"

	"latchfs/journal/history"
)

// A content whose file is opened to be written may be the one that the history gives up
// to make room for that: then there is nothing left to be unshared.
func TestUnshareOfAContentThatGivesWay(t *testing.T) {
	eachFS(t, func(t *testing.T, w *world) {
		w.write("f", "old")
		kept := w.path(StateDirName + "/" + history.ContentPath(theContent))
		check(t, os.MkdirAll(filepath.Dir(kept), 0o700))
		check(t, os.Link(w.path("f"), kept))
		full := true
		w.s.disk.Fault = func(step string) error {
			if step == "unlink" && full {
				full = false
				return unix.ENOSPC
			}
			return nil
		}
		w.s.SetRoom(func(error) bool { return os.Remove(kept) == nil })
		for range 2 { // the second time the history has lost it before
			if is, err := w.s.Unshare(theContent); is || err != nil {
				t.Errorf("kept %v: %v", is, err)
			}
		}
		if full {
			t.Error("nothing asked for room")
		}
		if st := w.stat("f"); st.Nlink != 1 || w.read("f") != "old" {
			t.Errorf("%q with %d names", w.read("f"), st.Nlink)
		}
	})
}
