package integration

import (
	"fmt"
	"os"
	"path/filepath"
	"testing"

	"golang.org/x/sys/unix"
)

// A user who walks through more directories than the daemon may have descriptors takes
// nobody else's: the kernel forgets those in which nobody works (FUSE_NOTIFY_PRUNE).
func TestManyDirectoriesLeaveDescriptors(t *testing.T) {
	if !kernelAtLeast(t, 6, 18) {
		t.Skip("the kernel has no FUSE_NOTIFY_PRUNE (Linux 6.18)")
	}
	const dirs, descriptors = 1500, 300
	strangerMounts(t, func(t *testing.T, m *Mount) {
		for i := range dirs {
			if err := os.Mkdir(filepath.Join(m.Data, fmt.Sprintf("bob/d%d", i)), 0o755); err != nil {
				t.Fatal(err)
			}
		}
		limit := unix.Rlimit{Cur: descriptors, Max: descriptors}
		if err := unix.Prlimit(m.PID(), unix.RLIMIT_NOFILE, &limit, nil); err != nil {
			t.Fatal(err)
		}
		walk := fmt.Sprintf("import os\nos.chdir('%s')\nfor i in range(%d): os.stat('d%%d' %% i)\nos.stat('d0')\nassert os.getcwd().endswith('/bob')\n", m.Path("bob"), dirs)
		m.launchAs(t, otherUID, bench.python, "-c", walk).OK()
		alice := m.ClientAs(t, ordinaryUID)
		if err := alice.Save("alice/f", "new"); err != nil {
			t.Errorf("another user's save: %v", err)
		}
	})
}

func kernelAtLeast(t *testing.T, major, minor int) bool {
	t.Helper()
	var u unix.Utsname
	if err := unix.Uname(&u); err != nil {
		t.Fatal(err)
	}
	var a, b int
	if _, err := fmt.Sscanf(unix.ByteSliceToString(u.Release[:]), "%d.%d", &a, &b); err != nil {
		t.Fatal(err)
	}
	return a > major || a == major && b >= minor
}
