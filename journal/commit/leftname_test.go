package commit

import (
	"os"
	"testing"

	"golang.org/x/sys/unix"

	"latchfs/journal/commit/internal/disk"
)

// A commit cannot put the earlier version into the history, nor take the name away by which
// that is left. The directory is renamed since, and perhaps another one gets its path. The recovery
// of the same run finds the name, so that nothing is left at a clean stop.
func TestLeftInARenamedDirectory(t *testing.T) {
	for what, again := range map[string]bool{"its path is free": false, "its path is another one's": true} {
		t.Run(what, func(t *testing.T) {
			eachFS(t, func(t *testing.T, w *world) {
				w.write("d/f", "old")
				sh, base := w.shadowOf("d/f")
				check(t, disk.WriteAll(sh.FD(), []byte("new"), 0))
				w.s.disk.Fault = func(step string) error {
					if step == "keep" || step == "unlink" {
						return unix.ENOSPC
					}
					return nil
				}
				_, _ = sh.Publish(w.publishOptions("d/f", base))
				sh.Discard()
				w.s.disk.Fault = nil
				check(t, os.Rename(w.path("d"), w.path("e")))
				if again {
					check(t, os.Mkdir(w.path("d"), 0o755))
				}
				if len(w.leftovers()) == 0 {
					t.Fatal("nothing is left to be found")
				}
				_, err := w.s.Recover()
				check(t, err)
				w.checkNothingLeft()
				if got := w.read("e/f"); got != "new" {
					t.Errorf("the file holds %q", got)
				}
			})
		})
	}
}
