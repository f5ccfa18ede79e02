package integration

import (
	"os"
	"path/filepath"
	"slices"
	"strings"
	"testing"
)

// Of a new file that did not come to be the daemon holds nothing: what is kept of it may be
// removed to make room, and the room is there then.
func TestRefusedNewFilesAreLetGo(t *testing.T) {
	needsLatchfs(t)
	forEachMount(t, func(t *testing.T, m *Mount) {
		m.killWriter(t, "killed", "half")
		m.Bash(t, `
echo '{' > bad.json
"$1" guard --txn --name t -- bash -c 'echo x > rolled-back; exit 1'
"$1" guard --txn --name t -- bash -c 'echo x > moved; mv moved back; exit 1'`, bench.binary)
		eventually(t, "the end of what is deleted and open", func() bool { return len(m.deletedButOpen(t)) == 0 })
		for _, name := range []string{"killed", "bad.json", "rolled-back", "moved", "back"} {
			if _, err := os.Lstat(filepath.Join(m.Data, name)); err == nil {
				t.Errorf("%s is there", name)
			}
		}
	}, withPolicy("[[rule]]\nglob = [\"*.json\"]\nvalidate = \"json\"\n"))
}

// deletedButOpen are the files in the data directory that the daemon has open and that have
// no name. The mount is asked for none: that alone would make the kernel forget them.
func (m *Mount) deletedButOpen(t *testing.T) []string {
	t.Helper()
	all := m.openFiles()
	if len(all) == 0 {
		t.Fatal("the daemon has no descriptors")
	}
	return slices.DeleteFunc(all, func(to string) bool {
		return !strings.HasPrefix(to, m.Data+"/") || !strings.HasSuffix(to, " (deleted)")
	})
}
