package integration

import (
	"strings"
	"testing"

	"golang.org/x/sys/unix"
)

// Presets hold where they were mounted for, next to each other and to a policy file.
func TestPresets(t *testing.T) {
	alongside(t)
	needsLatchfs(t)
	forEachMount(t, func(t *testing.T, m *Mount) {
		m.LaunchBash(t, `set -e
			mkdir -p fleet/locks elsewhere
			echo '{' > t
			! mv t a.json || exit 1
			! mv t elsewhere/a.json || exit 1
			echo '{' > fleet/a.json
			echo '{' > free.json
			grep -q 'preset cleo:' .locks/policy
			grep -q 'preset tower-fleet=fleet:' .locks/policy`).OK()
		// tower-fleet does not wait, cleo does.
		c := m.Client(t)
		c.Open("fleet/held", unix.O_CREAT|unix.O_RDWR)
		out := m.Bash(t, `echo x > fleet/held`)
		if out.Code == 0 || !strings.Contains(out.Stderr, "temporarily unavailable") {
			t.Errorf("a write to what is held ended with %+v", out)
		}
	}, withArgs("--preset", "cleo", "--preset", "tower-fleet=fleet"),
		withPolicy("[[rule]]\nglob = 'free.json'\nvalidate = []\n"))
}
