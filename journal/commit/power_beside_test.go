package commit

import (
	"os"
	"strings"
	"testing"

	"golang.org/x/sys/unix"

	"latchfs/journal/commit/internal/disk"
)

// What is new beside a file that is replaced is on disk with the new version, and before
// that it is whole or absent.
func TestPowerCutBesideNewFiles(t *testing.T) {
	shelf := cloneShelf(t)
	for _, d := range poweredDisks {
		t.Run(d.String(), func(t *testing.T) {
			image, at := d.make(t, shelf)
			w := newWorld(t, at)
			w.s.lazyAnywhere = false
			w.write("old", "old content")
			check(t, unix.Syncfs(int(w.dir.Fd())))
			made := strings.Repeat("made a moment ago\n", 1000)
			for _, name := range []string{"a", "b"} {
				if !w.saveAs(Auto, name, made, "") {
					t.Fatal("not saved")
				}
			}
			sh, base := w.shadowOf("old")
			check(t, disk.WriteAll(sh.FD(), []byte("new content"), 0))
			c := &cuts{t: t, image: image, w: w}
			w.s.disk.Fault = c.before
			_, err := sh.Publish(w.publishOptions("old", base))
			check(t, err)
			c.end()
			check(t, sh.Discard())
			c.each(d, func(step string, after *booted) {
				for _, name := range []string{"a", "b"} {
					got, err := os.ReadFile(after.path(name))
					if string(got) != made && (err == nil || step == "") {
						t.Errorf("before %q: %s has %d bytes, %v", step, name, len(got), err)
					}
				}
				got := after.read("old")
				if got != "new content" && (got != "old content" || step == "") {
					t.Errorf("before %q: %q", step, got)
				}
			})
		})
	}
}
