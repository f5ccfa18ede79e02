package integration

import (
	"encoding/json"
	"fmt"
	"slices"
	"strings"
	"testing"
)

// Latchfs runs a command of latchfs to its end, in the mount's root.
func (m *Mount) Latchfs(t testing.TB, argv ...string) Outcome {
	t.Helper()
	return m.Run(t, bench.binary, argv...)
}

// Guard starts `latchfs guard`.
func (m *Mount) Guard(t testing.TB, argv ...string) *Proc {
	t.Helper()
	return m.Launch(t, bench.binary, append([]string{"guard"}, argv...)...)
}

// heldGuard starts a guard whose command says "ready" and then holds until its
// standard input is closed.
func (m *Mount) heldGuard(t testing.TB, argv ...string) *Proc {
	t.Helper()
	p := m.Guard(t, append(argv, "--", "sh", "-c", "echo ready; cat >/dev/null")...)
	p.AwaitLine("ready")
	return p
}

// LockStatus is what .locks/status.json says about one lock.
type LockStatus struct {
	Name      string   `json:"lock_name"`
	Locked    bool     `json:"locked"`
	Stale     bool     `json:"is_stale"`
	WeHoldIt  bool     `json:"we_hold_it"`
	Holder    HeldLock `json:"holder"`
	RequestID string   `json:"request_id"`
}

// LockStatus reads .locks/status.json about a file, a tree or a name.
func (m *Mount) LockStatus(name string) LockStatus {
	m.t.Helper()
	var all struct{ Locks []LockStatus }
	m.decode(m.Locks("status.json"), &all)
	i := slices.IndexFunc(all.Locks, func(l LockStatus) bool { return l.Name == name })
	if i < 0 {
		return LockStatus{}
	}
	return all.Locks[i]
}

// AwaitStale waits until a lock is shown as stale.
func (m *Mount) AwaitStale(t testing.TB, name string) LockStatus {
	t.Helper()
	var s LockStatus
	eventually(t, name+" is stale", func() bool { s = m.LockStatus(name); return s.Stale })
	return s
}

// AwaitClear waits until nothing is held and nobody waits.
func (m *Mount) AwaitClear(t testing.TB) {
	t.Helper()
	var raw string
	eventually(t, "nothing is locked", func() bool {
		var s struct{ Held, Waiting int }
		raw = m.Locks("status.json")
		m.decode(raw, &s)
		return s.Held == 0 && s.Waiting == 0
	})
}

// mustEndWith fails the test unless a program ended with a code, and with all of
// the words in what it complained of.
func mustEndWith(t testing.TB, o Outcome, code int, words ...string) {
	t.Helper()
	if o.Code != code {
		t.Errorf("ended with %d %v, want %d\n%s%s", o.Code, o.Signal, code, o.Stdout, o.Stderr)
	}
	for _, w := range words {
		if !strings.Contains(o.Stderr, w) {
			t.Errorf("does not say %q but\n%s", w, o.Stderr)
		}
	}
}

// lockEvents lists the events of one kind about a lock, whole.
func (m *Mount) lockEvents(kind, name string) []map[string]any {
	m.t.Helper()
	var found []map[string]any
	for line := range strings.Lines(m.Locks("events.jsonl")) {
		ev := map[string]any{}
		if err := json.Unmarshal([]byte(line), &ev); err != nil {
			m.t.Fatalf("not JSON: %v\n%s", err, line)
		}
		if ev["event"] == kind && ev["lock_name"] == name {
			found = append(found, ev)
		}
	}
	return found
}

// awaitLockEvents waits for n events of one kind about a lock.
func (m *Mount) awaitLockEvents(kind, name string, n int) []map[string]any {
	m.t.Helper()
	var found []map[string]any
	eventually(m.t, fmt.Sprintf("%d events %s of %s", n, kind, name), func() bool {
		found = m.lockEvents(kind, name)
		return len(found) >= n
	})
	return found
}
