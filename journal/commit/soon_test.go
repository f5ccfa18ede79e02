package commit

import (
	"fmt"
	"os"
	"strings"
	"testing"

	"golang.org/x/sys/unix"

	"latchfs/journal/commit/internal/disk"
)

// soon asks for a file, or a directory, to be on disk within a second.
func (w *world) soon(name string) error {
	st := w.stat(name)
	return w.s.NamesSoon(disk.InodeOf(&st), name, func() (int, error) { return unix.Open(w.path(name), unix.O_RDONLY|unix.O_CLOEXEC, 0) })
}

func TestSoonIsOnDiskWithTheNextThatAreSettled(t *testing.T) {
	w := newWorld(t, t.TempDir())
	w.write("d/f", "x")
	for _, name := range []string{"d", "d/f", "d", "d/f"} {
		check(t, w.soon(name))
	}
	w.steps = nil
	check(t, w.settleAll())
	if got := strings.Join(w.steps, " "); got != "fsync fsync" {
		t.Errorf("%s, want each of the two once", got)
	}
	w.steps = nil
	check(t, w.settleAll())
	if len(w.steps) > 0 {
		t.Errorf("%s of what is on disk", w.steps)
	}
}

// What could not be synced is synced the next time, and again where it has changed since.
func TestSoonIsTriedAgain(t *testing.T) {
	w := newWorld(t, t.TempDir())
	w.write("d/f", "x")
	check(t, w.soon("d/f"))
	w.failAt(1, false)
	if w.settleAll() == nil {
		t.Error("a sync that fails is no error")
	}
	w.failAt(0, false)
	check(t, w.soon("d/f"))
	before := w.descriptors()
	w.steps = nil
	check(t, w.settleAll())
	if got := strings.Join(w.steps, " "); got != "fsync" {
		t.Errorf("%s, want fsync", got)
	}
	if after := w.descriptors(); after != before-1 {
		t.Errorf("%d descriptors, and %d afterwards", before, after)
	}
}

// Many are synced with the whole filesystem, and have no more descriptors than a few.
func TestSoonOfMany(t *testing.T) {
	w := newWorld(t, t.TempDir())
	check(t, os.Mkdir(w.path("many"), 0o755))
	before := w.descriptors()
	for i := range 1000 {
		name := fmt.Sprintf("many/%d", i)
		w.write(name, "x")
		check(t, w.soon(name))
	}
	if n := w.descriptors() - before; n > 300 {
		t.Errorf("%d descriptors", n)
	}
	w.steps = nil
	check(t, w.settleAll())
	if got := strings.Join(w.steps, " "); got != "syncfs" {
		t.Errorf("%s, want syncfs", got)
	}
	if n := w.descriptors() - before; n != 0 {
		t.Errorf("%d descriptors are left", n)
	}
}

// descriptors counts those that lead below the data root: others are closed when the
// collector finds what earlier tests have left.
func (w *world) descriptors() (n int) {
	w.t.Helper()
	list, err := os.ReadDir("/proc/self/fd")
	check(w.t, err)
	for _, e := range list {
		if to, err := os.Readlink("/proc/self/fd/" + e.Name()); err == nil && strings.HasPrefix(to, w.root+"/") {
			n++
		}
	}
	return n
}
