package integration

import (
	"fmt"
	"os"
	"path/filepath"
	"strings"
	"testing"
	"time"
)

const (
	madeBig   = `for f in "$@"; do head -c 300000 /dev/urandom > $f; done; sha256sum "$@" > sums`
	zeroedBig = `for f in e d c b a; do echo > $f; head -c 300000 /dev/zero > $f; done`
)

// An undo near the bound of the history does not push out what it still has to put back: it is
// done in another order than the versions were made in.
func TestUndoAtTheBoundOfTheHistory(t *testing.T) {
	needsLatchfs(t)
	forEachMount(t, func(t *testing.T, m *Mount) {
		m.Bash(t, madeBig, "e", "d", "c", "b", "a")
		since := time.Now().Format(time.RFC3339Nano)
		m.agent(t, "agent-7", zeroedBig)
		out := m.latchfs(t, 0, "undo", "--actor", "agent-7", "--since", since)
		if n := strings.Count(out, "restored "); n != 5 {
			t.Errorf("%d files are restored:\n%s", n, out)
		}
		if o := m.Bash(t, "sha256sum -c --quiet sums"); o.Code != 0 {
			t.Errorf("%+v", o)
		}
		// What was pinned is not any more.
		m.Bash(t, `for f in a b c d e; do head -c 300000 /dev/zero > $f; done`)
		eventually(t, "the bound to hold again", func() bool {
			size := 0
			for _, f := range strings.Fields(m.Bash(t, `find .locks/history -type f -printf '%s\n'`).Stdout) {
				n := 0
				if _, err := fmt.Sscan(f, &n); err != nil {
					t.Fatal(err)
				}
				size += n
			}
			return size <= 1700<<10
		})
	}, withPolicy("[history]\nmax-bytes = \"1700KiB\"\n"))
}

// Nor does it on a full disk: if there is no room to put it back it stays kept.
func TestUndoOnAFullDisk(t *testing.T) {
	needsLatchfs(t)
	kind := diskKinds[0]
	needsDisks(t, kind.mkfs[0])
	m := mount(t, onDiskImage(t, kind, kind.least), errorsInLog(), noLastWords())
	files := []string{"a", "b", "c"}
	m.Bash(t, `for f in "$@"; do head -c 3000000 /dev/urandom > $f; done; sha256sum "$@" > sums`, files...)
	since := time.Now().Format(time.RFC3339Nano)
	m.agent(t, "agent-7", `for f in a b c; do head -c 3000000 /dev/zero > $f; done`)
	syncDisk(t, m)
	fillAround(t, m)
	undo := []string{"undo", "--actor", "agent-7", "--since", since}
	if o := m.Latchfs(t, undo...); o.Code != 1 || !strings.Contains(o.Stderr, "make room, and run it again") {
		t.Errorf("undo on a full disk: %+v", o)
	}
	if err := os.Remove(filepath.Join(m.Data, "filling")); err != nil {
		t.Fatal(err)
	}
	m.latchfs(t, 0, undo...)
	if o := m.Bash(t, "sha256sum -c --quiet sums"); o.Code != 0 {
		t.Errorf("%+v", o)
	}
	syncDisk(t, m)
}
