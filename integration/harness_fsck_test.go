package integration

import (
	"encoding/json"
	"os/exec"
	"slices"
	"strings"
	"testing"
)

// Finding is a line of `latchfs fsck --json`.
type Finding struct {
	Severity string `json:"severity"`
	Kind     string `json:"kind"`
	Path     string `json:"path"`
	Offset   int64  `json:"offset"`
	What     string `json:"what"`
	Means    string `json:"means"`
	Done     string `json:"done"`
}

// Fsck runs `latchfs fsck --json` on the data directory, as the mount's user, and
// returns what it found and its exit code.
func (m *Mount) Fsck(t testing.TB, flags ...string) (findings []Finding, code int) {
	t.Helper()
	cmd := exec.Command(bench.binary, append([]string{"fsck", "--json", m.Data}, flags...)...)
	m.asOwner(cmd)
	var stderr strings.Builder
	cmd.Stderr = &stderr
	out, err := cmd.Output()
	code = cmd.ProcessState.ExitCode()
	if err != nil && (code != 1 || len(out) == 0) {
		t.Errorf("latchfs fsck: %v\n%s%s", err, out, stderr.String())
	}
	for line := range strings.Lines(string(out)) {
		var f Finding
		if err := json.Unmarshal([]byte(line), &f); err != nil {
			t.Fatalf("latchfs fsck: %v: %s", err, line)
		}
		findings = append(findings, f)
	}
	return findings, code
}

// checkFiles lets fsck look at what the mount has left. After a daemon that ended
// by itself there is nothing to be found; what one that was killed leaves must be
// such that the next mount recovers from it.
func (m *Mount) checkFiles() {
	if m.daemon == nil {
		return
	}
	findings, _ := m.Fsck(m.t)
	var found bool
	killed := m.daemon.ProcessState != nil && m.daemon.ProcessState.ExitCode() != 0
	for _, f := range findings {
		crash := f.Severity == "recoverable" || f.Kind == "torn-tail"
		if !slices.Contains(m.options.findings, f.Kind) && !(killed && crash) {
			m.t.Errorf("found by fsck: %+v", f)
			found = true
		}
	}
	if found {
		m.t.Logf("log of latchfs:\n%s", m.log())
	}
}

// noLastWords permits what a daemon leaves for which the disk was too full at its
// end to write down that it had finished, or which versions are in the history, or before
// that why bytes were refused: they are worth keeping without.
func noLastWords() mountOption {
	return withFindings("unclean-stop", "pending-intent", "torn-tail", "orphaned-content", "damaged-rejected")
}
