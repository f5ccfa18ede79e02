package integration

import (
	"encoding/json"
	"math/rand/v2"
	"os"
	"path/filepath"
	"strconv"
	"strings"
	"syscall"
	"testing"
)

// mixedKind is how one system takes part in the mixed work.
type mixedKind struct {
	name         string // its directory
	files        []string
	attempts     int  // of each worker; more where those that are blocked do not wait
	steals       bool // a lock of it that is stale is taken by force
	make         func(t testing.TB, m *Mount, dir string) *system
	draw         func(rnd *rand.Rand, s *system, text string) *attempt
	acknowledged func(Outcome) bool
	ended        func(s *system, a *attempt)              // if there is something to do then
	lists        func(t testing.TB, s *system) [][]string // the texts in each file
}

var mixedKinds = []mixedKind{
	{
		name: "cleo", attempts: 3, files: []string{"todo.json", "todo-log.jsonl"}, make: mixedCleo, draw: drawCleo,
		acknowledged: func(o Outcome) bool { return o.Code == 0 },
		lists: func(t testing.TB, s *system) [][]string {
			return [][]string{tasks(t, s), linesOf(t, s, "todo-log.jsonl", "text")}
		},
	},
	{
		name: "clawdbot", attempts: 3, files: []string{"tasks.json", "events.jsonl"}, make: clawdbot, draw: drawClawdbot,
		acknowledged: func(o Outcome) bool { return o.Code == 0 },
		lists: func(t testing.TB, s *system) [][]string {
			texts, _ := remembered(t, s)
			return [][]string{texts, linesOf(t, s, "events.jsonl", "text")}
		},
	},
	{
		name: "fleet", attempts: 6, files: []string{"state/web.json"}, steals: true, make: towerFleet, draw: drawFleet,
		acknowledged: func(o Outcome) bool { return strings.Contains(o.Stdout, "applied\n") },
		lists:        func(t testing.TB, s *system) [][]string { return [][]string{deployments(t, s)} },
	},
	{
		name: "beads", attempts: 6, files: []string{".beads/issues.jsonl"}, make: beads, draw: drawBeads,
		acknowledged: func(o Outcome) bool { return strings.Contains(o.Stdout, "added ") },
		lists:        func(t testing.TB, s *system) [][]string { return [][]string{issues(t, s)} },
	},
	{
		name: "reverie", attempts: 6, files: []string{"f"}, make: mixedReverie, draw: drawReverie,
		acknowledged: func(o Outcome) bool { return strings.Contains(o.Stdout, "appended\n") },
		ended:        func(s *system, a *attempt) { os.Remove(filepath.Join(owners(s), a.text)) },
		lists: func(_ testing.TB, s *system) [][]string {
			return [][]string{strings.Split(strings.TrimSuffix(s.read("f"), "\n"), "\n")}
		},
	},
}

// oneOf chooses.
func oneOf(rnd *rand.Rand, these ...string) string { return these[rnd.IntN(len(these))] }

func mixedCleo(t testing.TB, m *Mount, dir string) *system {
	t.Helper()
	s := cleo(t, m, dir)
	s.ok(t, "log", "first")
	return s
}

// drawCleo also chooses what reads before it locks. That makes no backups: the copy would
// be a read of what it replaces.
func drawCleo(rnd *rand.Rand, _ *system, text string) *attempt {
	switch rnd.IntN(6) {
	case 0:
		return &attempt{argv: []string{"log", text}, files: []int{1}}
	case 1:
		return &attempt{argv: []string{"MAX_BACKUPS=0", "add-early", text}, files: []int{0}, point: oneOf(rnd, "read", "temp", "renamed")}
	}
	return &attempt{
		argv: []string{"LOCK_TIMEOUT=10", "add", text}, files: []int{0}, locked: true,
		point: oneOf(rnd, "read", "read", "temp", "validated", "backup", "renamed"),
	}
}

// drawClawdbot also chooses what takes no lock, and what breaks the lock of a live holder.
func drawClawdbot(rnd *rand.Rand, _ *system, text string) *attempt {
	a := &attempt{files: []int{0, 1}}
	switch rnd.IntN(5) {
	case 0:
		a.argv, a.point = []string{"save", text}, oneOf(rnd, "read", "saved")
		return a
	case 1:
		a.argv = []string{"LIMIT=0"}
	}
	a.argv = append(a.argv, "CLAWDBOT_SESSION_ID="+text, "add", text)
	a.locked, a.point = true, oneOf(rnd, "checked", "torn", "read", "read", "saved")
	return a
}

// drawFleet also chooses who sends no heartbeat.
func drawFleet(rnd *rand.Rand, _ *system, text string) *attempt {
	a := &attempt{argv: []string{"REQUEST_ID=" + text, "TTL=1", "deploy", "web", text}, files: []int{0}, locked: true, point: "read"}
	if rnd.IntN(4) == 0 {
		a.argv = append([]string{staleSince}, a.argv...)
	}
	return a
}

// drawBeads chooses a tool, a daemon, or what looks for no claim.
func drawBeads(rnd *rand.Rand, _ *system, text string) *attempt {
	switch rnd.IntN(5) {
	case 0:
		return &attempt{argv: []string{"write", text}, files: []int{0}, point: "read"}
	case 1:
		return &attempt{argv: []string{"daemon"}, input: text, files: []int{0}}
	}
	return &attempt{argv: []string{"add", text}, files: []int{0}, locked: true, point: oneOf(rnd, "checked", "stale", "read", "read")}
}

// orphan starts a program that nobody has started who still lives, as a session of reverie
// is to the next one, and ends with it.
const orphan = `
exec 3<&0 4>&1
pid=$(parent=$BASHPID
	setsid bash -c 'while kill -0 "$0" 2>/dev/null; do :; done; exec "$@"' "$parent" "$@" <&3 >&4 3<&- 4>&- & echo $!)
echo "pid $pid"
while read -r _ _ state _ 2>/dev/null </proc/$pid/stat && [[ $state != Z ]]; do sleep 0.01; done
`

func mixedReverie(t testing.TB, m *Mount, dir string) *system {
	t.Helper()
	s := m.system(t, dir, "reverie.sh")
	s.program = append([]string{"bash", "-c", orphan, "bash"}, s.program...)
	m.WriteFile(s.path("f"), "first\n")
	return s
}

// owners has a file for each session of reverie that has not ended.
func owners(s *system) string { return filepath.Join(s.m.Home(), "owners") }

// drawReverie also chooses who takes each session for dead.
func drawReverie(rnd *rand.Rand, s *system, text string) *attempt {
	if os.MkdirAll(owners(s), 0o755) != nil || os.WriteFile(filepath.Join(owners(s), text), nil, 0o644) != nil {
		panic("no place for " + text)
	}
	a := &attempt{argv: []string{"ROOT=" + s.m.Path("reverie")}, files: []int{0}, locked: true, point: oneOf(rnd, "dead", "read", "read")}
	if rnd.IntN(3) > 0 {
		a.argv = append(a.argv, "OWNERS="+owners(s))
	}
	a.argv = append(a.argv, "SESSION="+text, "append", "f", text)
	return a
}

// killOrphan kills the process group of a program that orphan has started.
func killOrphan(p *Proc) {
	_, after, ok := strings.Cut("\n"+p.Stdout(), "\npid ")
	line, _, whole := strings.Cut(after, "\n")
	if pid, err := strconv.Atoi(line); ok && whole && err == nil {
		syscall.Kill(-pid, syscall.SIGKILL)
	}
}

// linesOf has a field of each line of a file, all of which have to be whole.
func linesOf(t testing.TB, s *system, file, field string) []string {
	t.Helper()
	var texts []string
	for line := range strings.Lines(s.read(file)) {
		object := map[string]any{}
		if err := json.Unmarshal([]byte(line), &object); err != nil || !strings.HasSuffix(line, "\n") {
			t.Fatalf("%s is torn: %v\n%q", file, err, line)
		}
		text, _ := object[field].(string)
		texts = append(texts, text)
	}
	return texts
}

// whole shows that each JSON file is, and each line of the others; and that no number was
// given twice.
func (p *mixedPart) whole(x *mix) {
	t, m := x.t, x.m
	t.Helper()
	for _, text := range m.tree(p.s.dir, ".json", ".json.1", ".json.2", ".json.3", ".json.4", ".json.5") {
		if !json.Valid([]byte(text)) {
			t.Errorf("seed %d: a file of %s is torn: %q", x.seed, p.kind.name, text)
		}
	}
	for _, text := range m.tree(p.s.dir, ".jsonl") {
		for line := range strings.Lines(text) {
			if !json.Valid([]byte(line)) || !strings.HasSuffix(line, "\n") {
				t.Errorf("seed %d: a line of %s is torn: %q", x.seed, p.kind.name, line)
			}
		}
	}
	if p.kind.name != "cleo" {
		return
	}
	var list cleoList
	m.decode(p.s.read("todo.json"), &list)
	ids := map[int]string{}
	for _, task := range list.Tasks {
		if other, twice := ids[task.ID]; twice {
			t.Errorf("seed %d: %s and %s have one number", x.seed, other, task.Text)
		}
		ids[task.ID] = task.Text
	}
}
