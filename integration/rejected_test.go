package integration

import (
	"fmt"
	"os"
	"os/exec"
	"path/filepath"
	"strings"
	"testing"
	"time"
)

// seedRejected puts an entry into the store of refused bytes that was made a
// while ago.
func seedRejected(data string, ago time.Duration, content string) error {
	id := time.Now().Add(-ago).UTC().Format("20060102T150405.000000000") + "-00000001"
	dir := filepath.Join(data, ".latchfs", "rejected", id)
	for _, d := range []string{filepath.Join(data, ".latchfs"), filepath.Dir(dir), dir} {
		if err := os.Mkdir(d, 0o700); err != nil && !os.IsExist(err) {
			return err
		}
	}
	// By its lock file a start knows the directory for its own.
	if err := os.WriteFile(filepath.Join(data, ".latchfs", "daemon.lock"), nil, 0o600); err != nil {
		return err
	}
	if err := os.WriteFile(filepath.Join(dir, "content"), []byte(content), 0o600); err != nil {
		return err
	}
	// No mount begins a journal beside what is older than one.
	if out, err := exec.Command(bench.binary, "fsck", "--repair", data).CombinedOutput(); err != nil {
		return fmt.Errorf("%w: %s", err, out)
	}
	return nil
}

// What is too old goes at the start, what is young stays, and the audit trail says
// so.
func TestRejectedAges(t *testing.T) {
	needsLatchfs(t)
	forEachMount(t, func(t *testing.T, m *Mount) {
		m.AwaitEvent("rejected_removed", "")
		if kept := m.rejectedBytes(); kept != "young" {
			t.Errorf("kept are %q", kept)
		}
	}, withPolicy("[rejected]\nmax-age = \"2h\"\n"), withSeed(func(data string) error {
		if err := seedRejected(data, 3*time.Hour, "old"); err != nil {
			return err
		}
		return seedRejected(data, time.Hour, "young")
	}))
}

// The store is looked at when something is added, too.
func TestRejectedBounded(t *testing.T) {
	needsLatchfs(t)
	forEachMount(t, func(t *testing.T, m *Mount) {
		m.WriteFile("f", "old")
		if events := m.EventsOf("rejected_removed", ""); len(events) > 0 {
			t.Fatalf("removed at the start: %+v", events)
		}
		m.Bash(t, `exec 3>f; head -c 100000 /dev/zero | tr '\0' x >&3; kill -9 $$`)
		m.AwaitEvent("rollback", "f")
		m.AwaitEvent("rejected_removed", "")
		if kept := m.rejectedBytes(); len(kept) < 100_000 || len(kept) > 110_000 {
			t.Errorf("kept are %d bytes", len(kept))
		}
	}, withPolicy("[rejected]\nmax-bytes = \"450KiB\"\n"), withSeed(func(data string) error {
		return seedRejected(data, time.Hour, strings.Repeat("y", 400<<10))
	}))
}
