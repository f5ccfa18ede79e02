package commit

import (
	"os"
	"testing"

	"golang.org/x/sys/unix"

	"latchfs/journal/commit/internal/keep"
)

// What is copied for the history was not read by anybody: the file, which somebody
// still has open, keeps the access time that it has.
func TestKeepingACopyIsNoAccess(t *testing.T) {
	eachFS(t, func(t *testing.T, w *world) {
		w.write("d/f", "content")
		unread := []unix.Timespec{{Sec: 1_000_000_000}, {Sec: 1_100_000_000}}
		check(t, unix.UtimesNanoAt(unix.AT_FDCWD, w.path("d/f"), unread, 0))
		f := openFile(t, w.path("d/f"), os.O_RDONLY)
		kept, err := w.s.Remove(nil, w.openDir("d"), "f", keep.Keep{ID: theContent, Copy: true})
		check(t, err)
		if !kept {
			t.Fatal("not kept")
		}
		if got := statFD(t, int(f.Fd())).Atim; got != unread[0] {
			t.Errorf("atime %d.%09d after the copy, want %d", got.Sec, got.Nsec, unread[0].Sec)
		}
	})
}
