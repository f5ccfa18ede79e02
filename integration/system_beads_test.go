package integration

import (
	"encoding/json"
	"fmt"
	"os"
	"os/exec"
	"path/filepath"
	"slices"
	"strings"
	"sync"
	"testing"
	"time"

	"latchfs/integration/internal/wire"
)

// beadsProgram builds beads' program, once.
var beadsProgram = sync.OnceValues(func() (string, error) {
	path := filepath.Join(bench.root, "beads")
	return path, build(path, "./integration/internal/beads")
})

// beads is its program in a repository whose database has one issue.
func beads(t testing.TB, m *Mount, dir string) *system {
	t.Helper()
	program, err := beadsProgram()
	if err != nil {
		t.Fatal(err)
	}
	s := m.system(t, dir+"/.beads", "")
	s.dir, s.program = dir, []string{program}
	m.WriteFile(s.path(".beads/issues.jsonl"), `{"title":"first"}`+"\n")
	return s
}

// issues are those of a database, which has to be whole.
func issues(t testing.TB, s *system) []string {
	t.Helper()
	var titles []string
	for line := range strings.Lines(s.read(".beads/issues.jsonl")) {
		var issue struct{ Title string }
		if err := json.Unmarshal([]byte(line), &issue); err != nil {
			t.Fatalf("the database is torn: %v\n%s", err, s.read(".beads/issues.jsonl"))
		}
		titles = append(titles, issue.Title)
	}
	return titles
}

// claimedBy is a claim as beads writes it.
func claimedBy(holder string, pid int, host string) string {
	return fmt.Sprintf(`{"holder":%q,"pid":%d,"hostname":%q,"started_at":%q}`, holder, pid, host, time.Now().UTC().Format(time.RFC3339))
}

// deadPID is the id of a process that has ended.
func deadPID(t testing.TB) int {
	t.Helper()
	cmd := exec.Command("true")
	if err := cmd.Run(); err != nil {
		t.Fatal(err)
	}
	return cmd.Process.Pid
}

// sync has a daemon do its work once, and returns what it says.
func (s *system) sync(t testing.TB, p *Proc, text string) string {
	t.Helper()
	before := len(p.Stdout())
	p.Send(text)
	eventually(t, "the daemon's answer to "+text, func() bool {
		said := p.Stdout()[before:]
		return strings.HasSuffix(said, "\n") && !strings.HasPrefix(said, "added") || strings.HasSuffix(said, "synced\n")
	})
	return strings.TrimSpace(p.Stdout()[before:])
}

// Every number of beads' requirements, with programs as its users write them.
func TestSystemBeads(t *testing.T) {
	needsLatchfs(t)
	forEachMount(t, func(t *testing.T, m *Mount) {
		cases := []struct {
			number string
			test   func(*testing.T, *Mount, *system)
		}{
			{"B1", beadsClaims}, {"B2", beadsDaemon}, {"B3", beadsStale}, {"B4", beadsLines}, {"B5", beadsSubtree}, {"B6", beadsExcludes},
		}
		for _, c := range cases {
			t.Run(c.number, func(t *testing.T) { c.test(t, m, beads(t, m, c.number)) })
		}
	}, withArgs("--preset", "beads"))
}

func beadsClaims(t *testing.T, m *Mount, s *system) {
	p := s.start(t, "claim", "importer")
	p.AwaitLine("claimed")
	var c struct {
		Holder, Hostname string
		PID              int
		StartedAt        time.Time `json:"started_at"`
	}
	m.decode(s.read(".beads/.exclusive-lock"), &c)
	if c.Holder != "importer" || c.Hostname == "" || c.PID != p.PID() || c.StartedAt.IsZero() {
		t.Errorf("the claim is %+v", c)
	}
	mustEndWith(t, s.run(t, "add", "x"), 1, "Skipping database (locked by importer)")
	mustEndWith(t, p.resume(), 0)
	mustEndWith(t, s.run(t, "add", "x"), 0)
}

func beadsDaemon(t *testing.T, m *Mount, s *system) {
	daemon := s.start(t, "daemon")
	if got := s.sync(t, daemon, "free"); got != "added free\nsynced" {
		t.Errorf("without a claim it says %q", got)
	}
	holder := s.start(t, "claim", "X")
	holder.AwaitLine("claimed")
	if got := s.sync(t, daemon, "claimed"); got != "Skipping database (locked by X)" {
		t.Errorf("beside a claim it says %q", got)
	}
	holder.Kill() // the claim stays
	if got := s.sync(t, daemon, "dead"); got != "added dead\nsynced" {
		t.Errorf("beside a dead claim it says %q", got)
	}
	daemon.Close()
	daemon.OK()
	if got := issues(t, s); !slices.Equal(got, []string{"first", "free", "dead"}) {
		t.Errorf("the issues are %q", got)
	}
	// Work that is under way is completed.
	working := s.pause(t, "read", "write", "late")
	m.WriteFile(s.path(".beads/.exclusive-lock"), `{"holder"`)
	malformed := s.start(t, "daemon")
	if got := s.sync(t, malformed, "malformed"); !strings.HasPrefix(got, "Skipping database (lock check failed: malformed lock file: ") {
		t.Errorf("beside a malformed claim it says %q", got)
	}
	malformed.Close()
	malformed.OK()
	working.resume()
	m.control.OK(wire.Request{Op: "unlink", Path: m.Path(s.path(".beads/.exclusive-lock"))})
}

func beadsStale(t *testing.T, m *Mount, s *system) {
	host, err := os.Hostname()
	if err != nil {
		t.Fatal(err)
	}
	dead, living := deadPID(t), m.control.PID
	if m.UID != 0 {
		living = 1 // which may not be signalled (EPERM)
	}
	for _, c := range []struct {
		claim string
		want  string
	}{
		{claimedBy("X", dead, strings.ToUpper(host)), "added"},
		{claimedBy("X", dead, "elsewhere"), "Skipping database (locked by X)"},
		{claimedBy("X", living, host), "Skipping database (locked by X)"},
	} {
		m.WriteFile(s.path(".beads/.exclusive-lock"), c.claim)
		daemon := s.start(t, "daemon")
		if got := s.sync(t, daemon, "x"); !strings.HasPrefix(got, c.want) {
			t.Errorf("beside %s it says %q", c.claim, got)
		}
		daemon.Close()
		daemon.OK()
		m.control.Do(wire.Request{Op: "unlink", Path: m.Path(s.path(".beads/.exclusive-lock"))}) // by who has written it
	}
}

func beadsLines(t *testing.T, m *Mount, s *system) {
	host, _ := os.Hostname()
	m.WriteFile(s.path(".beads/.exclusive-lock"), claimedBy("X\n", deadPID(t), host))
	awaitLog(t, m, s.path(".beads/.exclusive-lock"), `Removed stale lock (X\\n), proceeding with sync`) // the log escapes it once more
	mustEndWith(t, s.run(t, "add", "first of all"), 0)
	m.WriteFile(s.path(".beads/.exclusive-lock"), `{"holder"`)
	awaitLog(t, m, s.path(".beads/.exclusive-lock"), "Skipping database (lock check failed: malformed lock file: it is not JSON)")
	if o := s.run(t, "add", "x"); !strings.Contains(o.Stderr, "Skipping database (lock check failed: malformed lock file: ") {
		t.Errorf("the tool says %s", o.Stderr)
	}
	m.control.OK(wire.Request{Op: "unlink", Path: m.Path(s.path(".beads/.exclusive-lock"))}) // by who has written it
}

func beadsSubtree(t *testing.T, m *Mount, s *system) {
	holder := s.start(t, "claim", "X")
	holder.AwaitLine("claimed")
	if got := issues(t, s); !slices.Equal(got, []string{"first"}) { // readers go on
		t.Errorf("the issues are %q", got)
	}
	mustEndWith(t, m.Bash(t, `echo '{"title":"outside"}' > "$1"`, s.path(".beads/issues.jsonl")), 1, "temporarily unavailable")
	mustEndWith(t, s.run(t, "write", "outside"), 1, "temporarily unavailable")
	mustEndWith(t, m.Bash(t, `rm "$1"`, s.path(".beads/.exclusive-lock")), 1)
	mustEndWith(t, holder.resume(), 0)
	guard := m.Guard(t, "--tree", s.path(".beads"), "--", "sh", "-c", "echo ready; cat >/dev/null")
	guard.AwaitLine("ready")
	mustEndWith(t, m.Bash(t, `echo '{"title":"outside"}' > "$1"`, s.path(".beads/issues.jsonl")), 1, "temporarily unavailable")
	if got := issues(t, s); !slices.Equal(got, []string{"first"}) {
		t.Errorf("the issues are %q", got)
	}
	mustEndWith(t, guard.resume(), 0)
}

func beadsExcludes(t *testing.T, m *Mount, s *system) {
	// A direct change waits for nobody here, but one that has not seen the last is refused.
	slow := s.pause(t, "read", "write", "slow")
	mustEndWith(t, s.run(t, "write", "fast"), 0)
	mustEndWith(t, slow.resume(), 1, "device or resource busy")
	if got := issues(t, s); !slices.Equal(got, []string{"first", "fast"}) {
		t.Errorf("the issues are %q", got)
	}
}

// What beads' programs lose on a plain directory.
func TestDefectsOfBeads(t *testing.T) {
	needsLatchfs(t)
	forEachMount(t, func(t *testing.T, m *Mount) {
		for _, d := range []struct{ what, point string }{
			{"two tools have checked before one claims", "checked"},
			{"a daemon has checked before a tool claims", "read"},
		} {
			defect(t, d.what, m, func(t *testing.T, m *Mount) harm {
				s := beads(t, m, d.point)
				command := []string{"add", "A"}
				if d.point == "read" {
					command = []string{"write", "A"} // the daemon's work, once it has checked
				}
				a := s.pause(t, d.point, command...)
				b := s.pause(t, "read", "add", "B")
				first := a.resume()
				var h harm
				if strings.Contains(first.Stdout, "claimed") {
					h.winners++ // the second has claimed it, and is at work
				}
				second := b.resume()
				reported := 1
				for _, o := range []Outcome{first, second} {
					if strings.Contains(o.Stdout, "added") {
						reported++
					}
				}
				h.lost = reported - len(issues(t, s))
				return h
			})
		}
	}, withArgs("--preset", "beads"))
}
