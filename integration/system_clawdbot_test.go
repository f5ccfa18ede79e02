package integration

import (
	"encoding/json"
	"fmt"
	"slices"
	"strings"
	"syscall"
	"testing"
)

// clawdbot is its program in a memory directory at version 11.
func clawdbot(t testing.TB, m *Mount, dir string) *system {
	t.Helper()
	s := m.system(t, dir+"/memory", "clawdbot.py")
	m.WriteFile(s.path("tasks.json"), `{"version": 11, "tasks": []}`)
	m.WriteFile(s.path("events.jsonl"), "")
	return s
}

// remembered are the tasks of a memory, which has to be whole.
func remembered(t testing.TB, s *system) (tasks []string, version int) {
	t.Helper()
	var list struct {
		Version int
		Tasks   []string
	}
	if err := json.Unmarshal([]byte(s.read("tasks.json")), &list); err != nil {
		t.Fatalf("tasks.json is torn: %v\n%s", err, s.read("tasks.json"))
	}
	return list.Tasks, list.Version
}

// Every number of Clawdbot's requirements, with programs as its users write them. W12 is
// TestDefectsOfClawdbot as well.
func TestSystemClawdbot(t *testing.T) {
	inTestAll(t)
	needsLatchfs(t)
	forEachMount(t, func(t *testing.T, m *Mount) {
		cases := []struct {
			number string
			test   func(*testing.T, *Mount, *system)
		}{
			{"W1", clawdbotLostUpdate}, {"W2", clawdbotRecord}, {"W3", clawdbotDirectory}, {"W4", clawdbotModes}, {"W5", clawdbotStale},
			{"W6", clawdbotReentrant}, {"W7", clawdbotRefusal}, {"W8", clawdbotStatus}, {"W9", clawdbotCommands}, {"W10", clawdbotRecovers},
			{"W11", clawdbotLabel}, {"W12", clawdbotLateWrite},
		}
		for _, c := range cases {
			t.Run(c.number, func(t *testing.T) { c.test(t, m, clawdbot(t, m, c.number)) })
		}
	}, withArgs("--preset", "clawdbot"), withPolicy(hastyClaims))
}

// hastyClaims are Clawdbot's for those who cannot wait.
const hastyClaims = `
[[claim]]
glob = "{W5,W10}/memory/*.lock"
format = "clawdbot"
covers = "directory"
foreign-ttl = "200ms"
malformed = "free"
`

func clawdbotLostUpdate(t *testing.T, m *Mount, s *system) {
	a, b := s.pause(t, "read", "save", "A"), s.pause(t, "read", "save", "B")
	mustEndWith(t, a.resume(), 0)
	mustEndWith(t, b.resume(), 1, "Device or resource busy")
	if got, version := remembered(t, s); !slices.Equal(got, []string{"A"}) || version != 12 {
		t.Errorf("version %d has %q", version, got)
	}
	if why := m.Locks("events.jsonl"); !strings.Contains(why, s.path("tasks.json")) {
		t.Errorf("the audit trail does not tell of it:\n%s", why)
	}
}

func clawdbotRecord(t *testing.T, m *Mount, s *system) {
	holder := s.start(t, "CLAWDBOT_SESSION_ID=S", "acquire", "import")
	holder.AwaitLine("acquired")
	var own struct {
		PID        int
		Session    string `json:"session_id"`
		AcquiredAt string `json:"acquired_at"`
		Hostname   string
		Operation  string
	}
	m.decode(s.read(".memory.lock"), &own)
	if own.PID != holder.PID() || own.Session != "S" || own.AcquiredAt == "" || own.Hostname == "" || own.Operation != "import" {
		t.Errorf("its own record is %+v", own)
	}
	mustEndWith(t, holder.resume(), 0)
	guard := m.Guard(t, "--operation", "import", s.path("tasks.json"), "--", "sh", "-c", "echo ready; cat >/dev/null")
	guard.AwaitLine("ready")
	ours := m.LockStatus(s.path("tasks.json")).Holder
	if ours.PID != guard.PID() || ours.Session == "" || ours.Created.IsZero() {
		t.Errorf("the record of the mount is %+v", ours)
	}
	mustEndWith(t, guard.resume(), 0)
}

func clawdbotDirectory(t *testing.T, m *Mount, s *system) {
	guard := m.heldGuard(t, s.path("tasks.json"))
	script := s.start(t, "PAUSE=read", "add", "x") // the claim covers the directory, too
	for _, holder := range []*Proc{guard, script} {
		next := m.LaunchBash(t, `echo '{"outside": true}' >> "$1"`, s.path("events.jsonl"))
		next.MustWait()
		mustEndWith(t, holder.resume(), 0)
		next.OK()
		if holder == guard {
			script.AwaitLine("at read")
		}
	}
}

func clawdbotModes(t *testing.T, m *Mount, s *system) {
	file := s.path("tasks.json")
	holder := m.heldGuard(t, file)
	waits := m.Guard(t, file, "--", "true") // the policy's 5 s
	waits.MustWait()
	mustEndWith(t, m.Guard(t, "--wait", "50ms", file, "--", "true").Wait(), 8, "timeout after 50ms")
	mustEndWith(t, m.Guard(t, "--wait", "0", file, "--", "true").Wait(), 8)
	mustEndWith(t, m.Guard(t, "--wait", "0", "--steal", file, "--", "true").Wait(), 8) // it is not stale
	mustEndWith(t, holder.resume(), 0)
	waits.OK()
	if policy := m.Locks("policy"); !strings.Contains(policy, `"5s"`) {
		t.Errorf("the policy is %s", policy)
	}
	// A stale one is taken by force.
	held := m.Guard(t, "--ttl", "100ms", file, "--", "sh", "-c", "echo ready; cat >/dev/null")
	held.AwaitLine("ready")
	syscall.Kill(-held.PID(), syscall.SIGSTOP)
	m.AwaitStale(t, file)
	mustEndWith(t, m.Guard(t, "--wait", "0", "--steal", file, "--", "true").Wait(), 0)
	syscall.Kill(-held.PID(), syscall.SIGCONT)
	held.Close()
	held.Wait()
}

func clawdbotStale(t *testing.T, m *Mount, s *system) {
	dead := s.start(t, "acquire")
	dead.AwaitLine("acquired")
	pid := dead.PID()
	dead.Kill()
	awaitLog(t, m, s.path(".memory.lock"), fmt.Sprintf("Breaking stale lock: process %d is dead", pid))
	mustEndWith(t, s.run(t, "add", "after a dead one"), 0)
	if tasks, _ := remembered(t, s); !slices.Equal(tasks, []string{"after a dead one"}) {
		t.Errorf("the tasks are %q", tasks)
	}
	m.WriteFile(s.path(".memory.lock"), fmt.Sprintf(`{"pid": %d, "session_id": "gone", "acquired_at": "2026-01-01T00:00:00+00:00", "hostname": "elsewhere", "operation": "x"}`, pid))
	awaitLog(t, m, "lock is ", "(>0.2s)")
	mustEndWith(t, s.run(t, "add", "after one of another host"), 0)
}

func clawdbotReentrant(t *testing.T, m *Mount, s *system) {
	mustEndWith(t, s.run(t, "CLAWDBOT_SESSION_ID=S", "twice", "x"), 0)
	holder := s.start(t, "CLAWDBOT_SESSION_ID=S", "acquire")
	holder.AwaitLine("acquired")
	mustEndWith(t, s.run(t, "CLAWDBOT_SESSION_ID=T", "release"), 1, "held by session 'S'")
	remove := m.LaunchBash(t, `rm "$1"`, s.path(".memory.lock"))
	remove.MustWait()
	remove.Signal(syscall.SIGTERM)
	remove.Kill()
	mustEndWith(t, holder.resume(), 0)
	mine, other := m.shell(t), m.shell(t)
	mine.do(`$L acquire `+s.path("tasks.json")+` && $L acquire --wait 0 `+s.path("tasks.json"), 0)
	other.do(`$L release `+s.path("tasks.json"), 1)
	mine.do(`$L release `+s.path("tasks.json"), 0)
}

func clawdbotRefusal(t *testing.T, m *Mount, s *system) {
	holder := s.start(t, "CLAWDBOT_SESSION_ID=S", "acquire", "O")
	holder.AwaitLine("acquired")
	mustEndWith(t, s.run(t, "WAIT=0.1", "add", "x"), 1, "Could not acquire lock within 0.1s. Held by session 'S' for operation 'O'")
	mustEndWith(t, holder.resume(), 0)
	guard := m.heldGuard(t, "--operation", "O", s.path("tasks.json"))
	mustEndWith(t, m.Guard(t, "--wait", "50ms", s.path("tasks.json"), "--", "true").Wait(), 8,
		"Could not acquire lock within 50ms. Held by session '", "' for operation 'O'")
	mustEndWith(t, guard.resume(), 0)
}

func clawdbotStatus(t *testing.T, m *Mount, s *system) {
	sh, file := m.shell(t), s.path("tasks.json")
	if got := sh.do(`$L check --json `+file, 0); !strings.Contains(strings.ReplaceAll(got, " ", ""), `"locked":false`) {
		t.Errorf("free is %s", got)
	}
	sh.do(`$L acquire --operation O `+file, 0)
	for who, mine := range map[*Proc]bool{sh: true, m.shell(t): false} {
		got := who.do(`$L check --json `+file, 1)
		for _, field := range []string{`"locked":true`, `"holder":{`, `"is_stale":false`, `"we_hold_it":` + fmt.Sprint(mine)} {
			if !strings.Contains(strings.ReplaceAll(got, " ", ""), field) {
				t.Errorf("no %s in %s", field, got)
			}
		}
	}
	sh.do(`$L release `+file, 0)
	if got := strings.TrimSpace(s.ok(t, "status")); got != `{"locked": false}` {
		t.Errorf("its own status is %s", got)
	}
}

func clawdbotCommands(t *testing.T, m *Mount, s *system) {
	sh, other, file := m.shell(t), m.shell(t), s.path("tasks.json")
	sh.do(`$L acquire --operation label --wait 5s `+file, 0)
	if got := other.do(`$L status`, 0); !strings.Contains(got, "label") {
		t.Errorf("the status is %s", got)
	}
	other.do(`$L steal --force `+file, 8)
	sh.do(`$L release `+file, 0)
	other.do(`$L steal --force `+file, 0)
}

func clawdbotRecovers(t *testing.T, m *Mount, s *system) {
	s.pause(t, "saved", "add", "crashed").Kill() // with the lock, between the two files
	mustEndWith(t, s.run(t, "add", "after a crash"), 0)
	m.WriteFile(s.path(".memory.lock"), `{"pid": 1`)
	eventually(t, "the corrupt lock file is removed", func() bool { return !slices.Contains(m.List(s.dir), ".memory.lock") })
	mustEndWith(t, s.run(t, "add", "after corruption"), 0)
	held := m.Guard(t, "--ttl", "100ms", s.path("tasks.json"), "--", "sh", "-c", "echo ready; cat >/dev/null")
	held.AwaitLine("ready")
	syscall.Kill(-held.PID(), syscall.SIGSTOP)
	mustEndWith(t, s.run(t, "add", "after a hang"), 0)
	syscall.Kill(-held.PID(), syscall.SIGCONT)
	held.Close()
	held.Wait()
	if tasks, _ := remembered(t, s); !slices.Equal(tasks, []string{"crashed", "after a crash", "after corruption", "after a hang"}) {
		t.Errorf("the tasks are %q", tasks)
	}
}

func clawdbotLabel(t *testing.T, m *Mount, s *system) {
	s.ok(t, "CLAWDBOT_SESSION_ID=agent-7", "add", "x")
	events := m.EventsOf("commit", s.path("tasks.json"))
	if len(events) == 0 || events[len(events)-1].Actor != "agent-7" {
		t.Errorf("the commits are %+v", events)
	}
}

func clawdbotLateWrite(t *testing.T, m *Mount, s *system) {
	slow := s.pause(t, "read", "add", "late")
	next := s.start(t, "LIMIT=0", "add", "in time")
	next.settle()
	late := slow.resume()
	if n := lostMemories(t, s, late, next.Wait()); n != 0 {
		t.Errorf("%d tasks are lost", n)
	}
}

// What Clawdbot's program loses on a plain directory.
func TestDefectsOfClawdbot(t *testing.T) {
	needsLatchfs(t)
	forEachMount(t, func(t *testing.T, m *Mount) {
		for _, d := range []struct{ what, first, limit string }{
			{"two have checked before one writes", "checked", "30"},
			{"a lock file that is half written", "torn", "30"},
			{"a live holder is broken at its limit", "read", "0"},
		} {
			defect(t, d.what, m, func(t *testing.T, m *Mount) harm {
				s := clawdbot(t, m, d.first)
				a := s.pause(t, d.first, "add", "A")
				b := s.start(t, "PAUSE=read", "LIMIT="+d.limit, "add", "B")
				if m.Name == "plain" {
					b.AwaitLine("at read")
				} else {
					eventually(t, "B holds the lock, waits or has ended", func() bool { return b.Done() || strings.Contains(b.Stdout(), "at read") || b.waits() })
				}
				had := strings.Contains(b.Stdout(), "acquired")
				a.Close() // two have the lock now, if the second was not refused
				a.settle()
				var h harm
				if strings.Contains(a.Stdout(), "acquired") && had && !b.Done() {
					h.winners++
				}
				second := b.resume()
				h.lost = lostMemories(t, s, a.Wait(), second)
				return h
			})
		}
	}, withArgs("--preset", "clawdbot"))
}

// lostMemories counts the programs that have reported success for a task that is not there.
func lostMemories(t *testing.T, s *system, added ...Outcome) int {
	t.Helper()
	tasks, _ := remembered(t, s)
	reported := 0
	for _, o := range added {
		if o.Code == 0 {
			reported++
		}
	}
	return reported - len(tasks)
}
