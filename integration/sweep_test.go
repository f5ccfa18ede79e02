package integration

import (
	"fmt"
	"os"
	"path/filepath"
	"slices"
	"testing"
)

// What a crash has left in the directories of the data goes after the next start, while the
// mount is in use, wherever the mount lies. Then a stop is clean again.
func TestSweepAfterACrash(t *testing.T) {
	needsLatchfs(t)
	for name, where := range map[string]mountOption{"elsewhere": func(*mountOptions) {}, "over itself": overItself()} {
		t.Run(name, func(t *testing.T) {
			forEachMount(t, sweepAfterACrash, where)
		})
	}
}

// sweptDirs are two directories at the top, so that the way from one to the other is over
// the data root, one below another, and that.
var sweptDirs = []string{"", "a", "a/b", "c", "c/d"}

func sweepAfterACrash(t *testing.T, m *Mount) {
	for _, dir := range sweptDirs {
		if dir != "" {
			m.Bash(t, "mkdir "+dir)
		}
		m.WriteFile(filepath.Join(dir, "f"), dir)
	}
	m.Crash(t)
	m.detach()
	data, err := os.Open(m.Data) // below what is mounted there next
	if err != nil {
		t.Fatal(err)
	}
	defer data.Close()
	left := m.leaveOrphans(t)
	if got := orphansIn(t, data); !containsAll(got, left) {
		t.Fatalf("there are %q without some of %q", got, left)
	}

	m.Start(t)
	awaitLog(t, m, fmt.Sprintf(" %d orphaned shadows removed", len(left)))
	if got := orphansIn(t, data); len(got) > 0 {
		t.Errorf("after the sweep there are still %q", got)
	}
	for _, dir := range sweptDirs {
		if got := m.ReadFile(filepath.Join(dir, "f")); got != dir {
			t.Errorf("%s/f holds %q", dir, got)
		}
	}
	m.Stop(t)
	if findings, _ := m.Fsck(t); len(findings) > 0 {
		t.Errorf("after a stop fsck finds %+v", findings)
	}
}

// leaveOrphans makes two in each directory, as a power cut leaves them that has taken what
// the journal says of them. The killed daemon has left one in each, which recovery finds by
// its journal.
func (m *Mount) leaveOrphans(t *testing.T) (made []string) {
	t.Helper()
	for i, dir := range sweptDirs {
		for j := range 2 {
			name := filepath.Join(dir, fmt.Sprintf(".latchfs-%016x%016x", i, j))
			if err := os.WriteFile(filepath.Join(m.Data, name), []byte("half a fil"), 0o600); err != nil {
				t.Fatal(err)
			}
			if err := os.Lchown(filepath.Join(m.Data, name), m.UID, -1); err != nil {
				t.Fatal(err)
			}
			made = append(made, name)
		}
	}
	return made
}

func containsAll(have, want []string) bool {
	return !slices.ContainsFunc(want, func(name string) bool { return !slices.Contains(have, name) })
}

// orphansIn lists the reserved names below an open data root, whatever is mounted over it.
func orphansIn(t *testing.T, data *os.File) []string {
	t.Helper()
	found, err := reservedNames(fmt.Sprintf("/proc/self/fd/%d/.", data.Fd()))
	if err != nil {
		t.Fatal(err)
	}
	return found
}
