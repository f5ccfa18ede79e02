package policy

import (
	"slices"
	"testing"
	"time"

	"latchfs/lockmgr/policy/lockfile"
)

// examples/policies/cleo.toml says what cleo's requirements say (SEED C1 to C16).
func TestCleoExample(t *testing.T) {
	p, err := Load("../../examples/policies/cleo.toml")
	if err != nil {
		t.Fatal(err)
	}
	for _, path := range []string{"todo.json", ".cleo/todo-archive.json", "todo-log.jsonl", "notes.md"} {
		s := p.For(path)
		if s.Mode != Atomic || s.Wait != 30*time.Second || s.Durability != Full || s.OnKill != Rollback || s.Key != FileKey {
			t.Errorf("%s: %+v", path, s) // C1, C3, C6, C9
		}
		if s.History != 5 { // C12
			t.Errorf("%s keeps %d earlier versions", path, s.History)
		}
	}
	if v := p.For("todo.json").Validate; v == nil || !slices.Equal(v.Formats, []Format{JSON}) || !v.NonEmpty { // C12
		t.Errorf("todo.json: %v", v)
	}
	if s := p.For("todo-log.jsonl"); s.Append != Record || s.Validate == nil || !slices.Equal(s.Validate.Formats, []Format{JSONL}) {
		t.Errorf("todo-log.jsonl: %+v", s) // C2, C12
	}
	if v := p.For("notes.md").Validate; v != nil {
		t.Errorf("notes.md: %v", v)
	}
	if s := p.For("todo.json.lock"); s.Mode != Live || s.Validate != nil { // C4
		t.Errorf("todo.json.lock: %+v", s)
	}
	standsFor(t, p, lockfile.Flock, map[string]string{"todo.json.lock": "the file todo.json", "d/x.lock": "the file d/x", ".lock": ""}) // C4
	if a, b := p.LockName("todo.json"), p.LockName("todo-log.jsonl"); a == b {                                                          // C3
		t.Errorf("both are locked as %q", a)
	}
}

// examples/policies/agents.toml shows every answer to lost updates.
func TestAgentsExample(t *testing.T) {
	p, err := Load("../../examples/policies/agents.toml")
	if err != nil {
		t.Fatal(err)
	}
	for path, want := range map[string]LostUpdate{
		"tasks.json": Merge, "team/tasks.json": Merge, "team/board/june.json": Merge,
		"next-id": Serialize, "counters/pages.json": Serialize, "queue/in.json": Serialize,
		"state/a/b.json": Adaptive, "agent.state.toml": Adaptive,
		"notes/monday.md": WarnLost, "log.jsonl": WarnLost,
		"build/x/y.js": IgnoreLost, "report-1.txt": IgnoreLost,
		"main.go": RefuseLost,
	} {
		if s := p.For(path); s.LostUpdate != want || s.Wait != time.Minute || s.Strangers != IgnoreStrangers {
			t.Errorf("%s: %+v, want %s", path, s, want)
		}
	}
	if s := p.For("queue/in.json"); s.ClaimTTL != 10*time.Second || !s.Observes("python3", "/usr/bin/python3.13", "/srv/show-queue.py") {
		t.Errorf("queue/in.json: %+v", s)
	}
	if s := p.For("x.db"); s.Mode != Live {
		t.Errorf("x.db: %+v", s)
	}
}

// example reads one of examples/policies.
func example(t *testing.T, name string) *Policy {
	t.Helper()
	p, err := Load("../../examples/policies/" + name + ".toml")
	if err != nil {
		t.Fatal(err)
	}
	return p
}

// standsFor checks what claim files of an example stand for; "" is nothing.
func standsFor(t *testing.T, p *Policy, format lockfile.Format, want map[string]string) {
	t.Helper()
	for path, want := range want {
		got := ""
		if c := p.ClaimFile(path); c != nil && c.Format == format {
			if target, err := c.Target(path); err == nil {
				got = target.String()
			}
		}
		if got != want {
			t.Errorf("%s stands for %q, want %q", path, got, want)
		}
	}
}

func TestClawdbotExample(t *testing.T) {
	p := example(t, "clawdbot")
	if env := p.ActorEnv(); env[0] != "CLAWDBOT_SESSION_ID" { // W11
		t.Errorf("actors are told by %q", env)
	}
	for _, path := range []string{"memory/tasks.json", "memory/events.jsonl", "tasks.json", "notes/a.md"} {
		s := p.For(path)
		if s.Wait != 5*time.Second || s.TTL != 30*time.Second || s.OnStale != StealStale { // W4, W5, W10
			t.Errorf("%s: %+v", path, s)
		}
		if s.LostUpdate != RefuseLost || s.Insist != NeverObey { // W1
			t.Errorf("%s: %+v", path, s)
		}
	}
	if a, b := p.LockName("memory/tasks.json"), p.LockName("memory/events.jsonl"); a != b || a != "memory" { // W3
		t.Errorf("they are locked as %q and %q", a, b)
	}
	if a, b := p.LockName("tasks.json"), p.LockName("events.jsonl"); a != b { // W3
		t.Errorf("they are locked as %q and %q", a, b)
	}
	standsFor(t, p, lockfile.Clawdbot, map[string]string{
		"memory/.lock": "the directory memory", "a/memory/tasks.lock": "the directory a/memory", ".tasks.lock": "the whole mount",
		".lock": "the whole mount", "Cargo.lock": "", "memory/a/x.lock": "", "memory/tasks.json": "",
	})
	c := p.ClaimFile("memory/.lock")
	if c.TTL != 30*time.Second || c.ForeignTTL != 10*time.Second || c.OnStale != lockfile.RemoveStale || c.Malformed != lockfile.MalformedFree { // W5, W10
		t.Errorf("%+v", c)
	}
}

func TestTowerFleetExample(t *testing.T) {
	p := example(t, "tower-fleet")
	for _, path := range []string{"locks/web.lock", "intents/web.json"} {
		if s := p.For(path); s.Wait != 0 || s.TTL != 900*time.Second || s.OnStale != KeepStale { // T4, T5, T8
			t.Errorf("%s: %+v", path, s)
		}
	}
	standsFor(t, p, lockfile.LockV1, map[string]string{
		"locks/web.lock": "the named lock web", "fleet/locks/deploy-1_a.lock": "the named lock deploy-1_a", // T2
		"locks/Web.lock": "", "locks/-a.lock": "", "locks/a.json": "", "web.lock": "",
	})
	c := p.ClaimFile("locks/web.lock")
	if c.TTL != 900*time.Second || c.OnStale != lockfile.KeepStale || c.Malformed != lockfile.MalformedLocked { // T4, T8, T12
		t.Errorf("%+v", c)
	}
}

func TestBeadsExample(t *testing.T) {
	p := example(t, "beads")
	for path, mode := range map[string]Mode{
		".beads/beads.db": Live, "a/.beads/beads.db-wal": Live, ".beads/x.sqlite3": Live, ".beads/daemon.lock": Live, ".beads/daemon.log": Live,
		".beads/issues.jsonl": Atomic, "a/.beads/metadata.json": Atomic, ".beads/.exclusive-lock": Atomic,
	} {
		if s := p.For(path); s.Mode != mode || s.Wait != 0 { // B2
			t.Errorf("%s: %+v", path, s)
		}
	}
	if s := p.For("main.go"); s.Wait != 30*time.Second {
		t.Errorf("main.go: %+v", s)
	}
	standsFor(t, p, lockfile.Beads, map[string]string{ // B1, B5
		".beads/.exclusive-lock": "the directory .beads", "a/.beads/.exclusive-lock": "the directory a/.beads",
		".exclusive-lock": "the whole mount", "a/.exclusive-lock": "",
	})
	c := p.ClaimFile(".beads/.exclusive-lock")
	if c.TTL != 0 || c.ForeignTTL != 0 || c.OnStale != lockfile.RemoveStale || c.Malformed != lockfile.MalformedLocked { // B2, B3
		t.Errorf("%+v", c)
	}
}

func TestReverieExample(t *testing.T) {
	p := example(t, "reverie")
	if s := p.For("src/a.c"); s.Wait != 0 || s.TTL != 5*time.Minute || s.OnStale != KeepStale { // M1, M6
		t.Errorf("src/a.c: %+v", s)
	}
	if a, b, c := p.LockName("src/a.c"), p.LockName("worktrees/w/src/a.c"), p.LockName("src/b.c"); a != b || a == c { // M4
		t.Errorf("they are locked as %q, %q and %q", a, b, c)
	}
	standsFor(t, p, lockfile.OwnerDir, map[string]string{ // M4
		"locks/src/a.c.lock": "the file src/a.c", "locks/README.lock": "the file README", "src/a.c.lock": "", "locks/src": "",
	})
	if dir, c := p.ClaimRecord("locks/src/a.c.lock/record.json"); c == nil || dir != "locks/src/a.c.lock" { // M5
		t.Errorf("the record belongs to %q", dir)
	}
	if c := p.ClaimFile("locks/src/a.c.lock"); c.TTL != 5*time.Minute || c.OnStale != lockfile.RemoveStale { // M6
		t.Errorf("%+v", c)
	}
}
