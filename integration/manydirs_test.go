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
		m.manyDirs(t, dirs, descriptors)
		walk := fmt.Sprintf("import os\nos.chdir('%s')\nfor i in range(%d): os.stat('old%%d' %% i)\nos.stat('old0')\nassert os.getcwd().endswith('/bob')\n", m.Path("bob"), dirs)
		m.launchAs(t, otherUID, bench.python, "-c", walk).OK()
		alice := m.ClientAs(t, ordinaryUID)
		if err := alice.Save("alice/f", "new"); err != nil {
			t.Errorf("another user's save: %v", err)
		}
	})
}

// A program may make more files than the daemon may have descriptors: those that are
// closed cost none.
func TestManyNewFilesLeaveDescriptors(t *testing.T) {
	if !kernelAtLeast(t, 6, 18) {
		t.Skip("the kernel has no FUSE_NOTIFY_PRUNE (Linux 6.18)")
	}
	const files, descriptors = 350, 300
	makers := map[string]string{
		"saved":    "open('f%d' % i, 'w').write('x')",
		"live":     "open('f%d.log' % i, 'w').write('x')",
		"replaced": "open('t', 'w').write('x'); os.rename('t', 'f%d' % i)",
		"made":     "os.mkdir('d%d' % i)",
	}
	oneStrangerMount(t, func(t *testing.T, m *Mount) {
		m.manyDirs(t, descriptors, descriptors)
		// The daemon notices when somebody has more open than it may have.
		hold := fmt.Sprintf("import os\nos.chdir('%s')\nheld = []\ntry:\n for i in range(%d): held.append(os.open('old%%d' %% i, os.O_RDONLY))\nexcept OSError as e: print(e.strerror)\n",
			m.Path("bob"), descriptors)
		if got := m.launchAs(t, otherUID, bench.python, "-c", hold).OK(); got != "Too many open files in system\n" {
			t.Errorf("who has too many files open reads %q", got)
		}
		for name, make := range makers {
			script := fmt.Sprintf("import os\nos.mkdir('%[1]s')\nos.chdir('%[1]s')\nfor i in range(%[2]d): %[3]s\nassert len(os.listdir()) == %[2]d\n",
				m.Path("bob/"+name), files, make)
			m.launchAs(t, otherUID, bench.python, "-c", script).OK()
		}
		if got, err := os.ReadFile(filepath.Join(m.Data, fmt.Sprintf("bob/saved/f%d", files-1))); string(got) != "x" {
			t.Errorf("the last of the new files has %q: %v", got, err)
		}
	})
}

// manyDirs makes so many directories, bob/old0 and on, of which the daemon knows nothing, and
// leaves it that many descriptors.
func (m *Mount) manyDirs(t *testing.T, dirs int, descriptors uint64) {
	t.Helper()
	for i := range dirs {
		must(t, os.Mkdir(filepath.Join(m.Data, fmt.Sprintf("bob/old%d", i)), 0o755))
	}
	limit := unix.Rlimit{Cur: descriptors, Max: descriptors}
	must(t, unix.Prlimit(m.PID(), unix.RLIMIT_NOFILE, &limit, nil))
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
