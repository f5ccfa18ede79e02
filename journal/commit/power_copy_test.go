package commit

import (
	"os"
	"path/filepath"
	"strings"
	"testing"

	"golang.org/x/sys/unix"

	"latchfs/journal/commit/internal/disk"
	"latchfs/journal/commit/internal/keep"
	"latchfs/journal/history"
)

// The power fails at each step of a commit that keeps a copy of what it replaces, and after it:
// what is kept has the content of the old version, or is not as long, so that the history drops it.
func TestPowerCutWhileACopyIsKept(t *testing.T) {
	shelf := cloneShelf(t)
	d := poweredDisks[0]
	image, at := d.make(t, shelf)
	w := newWorld(t, at)
	old := strings.Repeat("an old line of text\n", 1000)
	w.write("f", old)
	check(t, os.Truncate(w.path("f"), 40_000)) // a hole at the end
	old += strings.Repeat("\x00", 40_000-len(old))
	check(t, os.Link(w.path("f"), w.path("other")))
	check(t, unix.Syncfs(int(w.dir.Fd())))
	target := openFile(t, w.path("f"), os.O_RDWR)
	sh, base := w.shadowOf("f")
	check(t, disk.WriteAll(sh.FD(), []byte("new"), 0))
	o := w.publishOptions("f", base)
	o.Keep = keep.Keep{ID: theContent}
	c := &cuts{t: t, image: image, w: w}
	w.s.disk.Fault = c.before
	_, err := sh.InPlace(int(target.Fd()), o)
	check(t, err)
	c.end()
	check(t, sh.Discard())
	c.each(d, func(step string, after *booted) {
		kept := filepath.Join(after.path(StateDirName), history.ContentPath(theContent))
		got, err := os.ReadFile(kept)
		if err == nil && len(got) == len(old) && string(got) != old {
			t.Errorf("before %q: kept are %d bytes that begin with %.20q", step, len(got), got)
		}
		// As the history does when it is opened.
		_ = os.Remove(filepath.Join(filepath.Dir(kept), history.NewPrefix+theContent))
	})
}
