package audit

import (
	"fmt"
	"os"
	"os/exec"
	"path/filepath"
	"strings"
	"testing"

	"golang.org/x/sys/unix"
)

// The power fails after a rotation, when somebody has committed the filesystem's journal: what
// was on disk of the trail before is there.
func TestPowerCutAfterARotation(t *testing.T) {
	if os.Geteuid() != 0 {
		t.Skip("an ordinary user mounts no image")
	}
	image := filepath.Join(t.TempDir(), "image")
	check(t, os.WriteFile(image, nil, 0o600))
	check(t, os.Truncate(image, 16<<20))
	if out, err := exec.Command("mkfs.ext4", "-q", image).CombinedOutput(); err != nil {
		t.Skipf("no image: %v: %s", err, out)
	}
	at := mounted(t, image)
	dir, err := os.Open(at)
	check(t, err)
	defer dir.Close()
	trail, err := Open(dir, 10_000)
	check(t, err)
	defer trail.Close()
	check(t, trail.Append(Event{Event: "first", Detail: map[string]any{"uid": 1}}))
	until := func(name string) {
		for n := 0; !holds(at, name, "first"); n++ {
			check(t, trail.Append(Event{Event: "more", Detail: map[string]any{"uid": 2}}))
			if n > 1000 {
				t.Fatalf("the first event does not come to %s", name)
			}
		}
	}
	until(oldName)
	check(t, unix.Syncfs(int(dir.Fd())))
	until(keptName)
	somebody, err := os.Create(filepath.Join(at, "somebody's"))
	check(t, err)
	defer somebody.Close()
	check(t, somebody.Sync())
	// What the disk holds, and nothing that the kernel only remembers.
	b, err := os.ReadFile(image)
	check(t, err)
	check(t, os.WriteFile(image+".cut", b, 0o600))
	after := mounted(t, image+".cut")
	if !holds(after, oldName, "first") && !holds(after, keptName, "first") {
		t.Error("what was on disk before the rotation is gone")
	}
}

// holds reports whether a part of the trail has an event.
func holds(dir, name, event string) bool {
	b, _ := os.ReadFile(filepath.Join(dir, name))
	return strings.Contains(string(b), fmt.Sprintf("%q", event))
}

// mounted mounts an image for the time of the test.
func mounted(t *testing.T, image string) (at string) {
	t.Helper()
	at = image + ".mnt"
	check(t, os.Mkdir(at, 0o700))
	if out, err := exec.Command("mount", "-o", "loop,noauto_da_alloc", image, at).CombinedOutput(); err != nil {
		t.Skipf("no image: %v: %s", err, out)
	}
	t.Cleanup(func() { unix.Unmount(at, unix.MNT_DETACH) })
	return at
}
