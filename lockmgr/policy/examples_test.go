package policy

import (
	"slices"
	"testing"
	"time"
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
	if a, b := p.LockName("todo.json"), p.LockName("todo-log.jsonl"); a == b { // C3
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
