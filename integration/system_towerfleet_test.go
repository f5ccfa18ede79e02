package integration

import (
	"encoding/json"
	"fmt"
	"io/fs"
	"os"
	"slices"
	"strings"
	"syscall"
	"testing"
	"time"
)

// towerFleet is its program in a directory where web was deployed once.
func towerFleet(t testing.TB, m *Mount, dir string) *system {
	t.Helper()
	s := m.system(t, dir, "tower-fleet.sh")
	m.Mkdir(s.path("state"))
	m.WriteFile(s.path("state/web.json"), "[\"first\"]\n")
	return s
}

// staleSince makes a record of the program one whose heartbeat was long ago.
const staleSince = "NOW=2026-01-01T00:00:00Z"

// answer is an object that the program or latchfs has printed.
func answer(t testing.TB, o Outcome, code int) map[string]any {
	t.Helper()
	mustEndWith(t, o, code)
	return decoded(t, o.Stdout)
}

func decoded(t testing.TB, text string) map[string]any {
	t.Helper()
	var a map[string]any
	if err := json.Unmarshal([]byte(text), &a); err != nil {
		t.Fatalf("not JSON: %v\n%s", err, text)
	}
	return a
}

// mustHave fails the test if an object lacks a field, given as "held_by.pid".
func mustHave(t testing.TB, object map[string]any, fields ...string) {
	t.Helper()
	for _, field := range fields {
		var at any = object
		for name := range strings.SplitSeq(field, ".") {
			inner, _ := at.(map[string]any)
			at = inner[name]
		}
		if at == nil || at == "" {
			t.Errorf("no %s in %v", field, object)
		}
	}
}

// Every number of tower-fleet's requirements, with programs as its users write them.
func TestSystemTowerFleet(t *testing.T) {
	needsLatchfs(t)
	forEachMount(t, func(t *testing.T, m *Mount) {
		requireTool(t, "jq", "sha256sum")
		cases := []struct {
			number string
			test   func(*testing.T, *Mount, *system)
		}{
			{"T1", fleetExcludes}, {"T2", fleetNames}, {"T3", fleetRecord}, {"T4", fleetTTL}, {"T5", fleetBlocked},
			{"T6", fleetHeartbeat}, {"T7", fleetStale}, {"T8", fleetSteals}, {"T9", fleetAudit}, {"T10", fleetReleases},
			{"T11", fleetObserves}, {"T12", fleetTrustsNothing}, {"T13", fleetDeadPID}, {"T14", fleetTools},
		}
		for _, c := range cases {
			t.Run(c.number, func(t *testing.T) { c.test(t, m, towerFleet(t, m, c.number)) })
		}
	}, withArgs("--preset", "tower-fleet"), leftLocks())
}

func fleetExcludes(t *testing.T, m *Mount, s *system) {
	a := s.pause(t, "read", "REQUEST_ID=a", "deploy", "web", "A")
	// Who does not know of the file is kept out, and who does cannot remove it.
	mustEndWith(t, m.Guard(t, "--name", "web", "--", "true").Wait(), 8)
	mustEndWith(t, s.bash(t, `rm locks/web.lock`), 1, "temporarily unavailable")
	mustEndWith(t, s.bash(t, `echo '{}' > locks/web.lock`), 1, "temporarily unavailable")
	mustEndWith(t, s.run(t, "deploy", "web", "B"), 8)
	mustEndWith(t, s.run(t, "check", "web"), 1)
	mustEndWith(t, a.resume(), 0)
	mustEndWith(t, s.run(t, "check", "web"), 0)
	if got := deployments(t, s); !slices.Equal(got, []string{"first", "A"}) {
		t.Errorf("deployed: %q", got)
	}
}

func fleetNames(t *testing.T, m *Mount, s *system) {
	sh := m.shell(t)
	for _, name := range []string{"a", "a-b_9", strings.Repeat("x", 128)} {
		mustEndWith(t, s.run(t, "acquire", name), 0)
		sh.do(`$L acquire --name t2-`+name[:min(len(name), 100)]+` && $L release --all`, 0)
	}
	for _, name := range []string{"A", "-a", "a_", "a.b", "../a", strings.Repeat("x", 129)} {
		mustEndWith(t, s.run(t, "acquire", name), 2)
		sh.do(`$L acquire --name=`+name, 2)
	}
}

// recordFields are those of a lock/v1 record.
var recordFields = []string{"lock_version", "lock_name", "request_id", "actor", "intent", "intent_version", "host_id", "pid",
	"created_at", "last_heartbeat_at", "ttl_seconds"}

func fleetRecord(t *testing.T, m *Mount, s *system) {
	mustEndWith(t, s.run(t, "acquire", "web"), 0)
	mustHave(t, answer(t, s.run(t, "check", "web"), 1), recordFields...)
	sh := m.shell(t)
	sh.do(`$L acquire --operation deploy --actor ci --name t3`, 0)
	record := decoded(t, m.Locks("names/t3.lock"))
	mustHave(t, record, recordFields...)
	for _, field := range []string{"created_at", "last_heartbeat_at"} {
		if _, err := time.Parse("2006-01-02T15:04:05Z", fmt.Sprint(record[field])); err != nil {
			t.Errorf("%s: %v", field, err)
		}
	}
	if record["lock_version"] != "v1" || record["actor"] != "ci" || record["intent"] != "deploy" {
		t.Errorf("the record is %v", record)
	}
	sh.do(`$L release --all`, 0)
}

func fleetTTL(t *testing.T, m *Mount, s *system) {
	for argument, want := range map[string]float64{"": 900, "--ttl 5s": 5} {
		sh := m.shell(t)
		sh.do(`$L acquire `+argument+` --name t4`, 0)
		if got := decoded(t, m.Locks("names/t4.lock"))["ttl_seconds"]; got != want {
			t.Errorf("the ttl with %q is %v, want %v", argument, got, want)
		}
		sh.do(`$L release --all`, 0)
	}
	mustEndWith(t, s.run(t, "TTL=5", "acquire", "web"), 0)
	if got := answer(t, s.run(t, "check", "web"), 1)["ttl_seconds"]; got != 5.0 {
		t.Errorf("the ttl is %v", got)
	}
}

func fleetBlocked(t *testing.T, m *Mount, s *system) {
	fields := []string{"lock_name", "held_by.request_id", "held_by.actor", "held_by.intent", "held_by.created_at", "held_by.last_heartbeat_at", "suggestion"}
	var creators []*Proc
	for range 3 {
		creators = append(creators, s.start(t, "acquire", "web"))
	}
	won := 0
	for _, p := range creators {
		o := p.Wait()
		if o.Code == 0 {
			won++
			continue
		}
		mustEndWith(t, o, 8)
	}
	if won != 1 {
		t.Errorf("%d have created it", won)
	}
	said := answer(t, s.run(t, "acquire", "web"), 8)
	if mustHave(t, said, fields...); said["error"] != "lock_blocked" {
		t.Errorf("the answer is %v", said)
	}
	sh := m.shell(t)
	sh.do(`$L acquire --name t5`, 0)
	said = answer(t, m.Guard(t, "--json", "--name", "t5", "--", "touch", "ran").Wait(), 8)
	if mustHave(t, said, fields...); said["error"] != "lock_blocked" || slices.Contains(m.List(""), "ran") {
		t.Errorf("the answer is %v", said)
	}
	sh.do(`$L release --all`, 0)
}

func fleetHeartbeat(t *testing.T, m *Mount, s *system) {
	mustEndWith(t, s.run(t, "REQUEST_ID=r", "acquire", "web"), 0)
	before := answer(t, s.run(t, "check", "web"), 1)
	mustEndWith(t, s.run(t, "REQUEST_ID=r", "NOW=2030-01-01T00:00:00Z", "heartbeat", "web"), 0)
	after := answer(t, s.run(t, "check", "web"), 1)
	if after["last_heartbeat_at"] != "2030-01-01T00:00:00Z" {
		t.Errorf("the heartbeat is %v", after["last_heartbeat_at"])
	}
	for field, was := range before {
		if field != "last_heartbeat_at" && after[field] != was {
			t.Errorf("%s was %v and is %v", field, was, after[field])
		}
	}
	mustEndWith(t, s.run(t, "heartbeats", "nothing"), 1, "warning: heartbeat of nothing has failed")
	if !strings.Contains(s.read("audit.jsonl"), `"event":"heartbeat_failed"`) {
		t.Errorf("its audit trail is %s", s.read("audit.jsonl"))
	}
	holder := m.Guard(t, "--ttl", "100ms", "--name", "t6", "--", "sh", "-c", "echo ready; cat >/dev/null")
	holder.AwaitLine("ready")
	first := m.LockStatus("t6").Holder
	syscall.Kill(-holder.PID(), syscall.SIGSTOP)
	m.awaitLockEvents("heartbeat_failed", "t6", 1)
	syscall.Kill(-holder.PID(), syscall.SIGCONT)
	if last := m.LockStatus("t6").Holder; last.Session != first.Session || !last.Created.Equal(first.Created) {
		t.Errorf("the record was %+v and is %+v", first, last)
	}
	holder.Close()
	holder.Wait()
}

var staleFields = []string{"lock_name", "stale_since", "age_seconds", "ttl_seconds", "held_by.request_id", "held_by.host_id", "held_by.pid", "suggestion"}

func fleetStale(t *testing.T, m *Mount, s *system) {
	mustEndWith(t, s.run(t, staleSince, "acquire", "web"), 0)
	for _, how := range []string{"acquire", "steal"} {
		said := answer(t, s.run(t, how, "web"), 8)
		if mustHave(t, said, staleFields...); said["error"] != "lock_stale" {
			t.Errorf("the answer is %v", said)
		}
	}
	stopped := stoppedHolder(t, m, "t7")
	said := answer(t, m.Latchfs(t, "steal", "--json", "--name", "t7"), 8)
	if mustHave(t, said, staleFields...); said["error"] != "lock_stale" {
		t.Errorf("the answer is %v", said)
	}
	stopped()
}

// stoppedHolder has a holder of a name stopped until its lock is stale; the answer lets
// it go on to its end.
func stoppedHolder(t *testing.T, m *Mount, name string) (end func()) {
	t.Helper()
	p := m.Guard(t, "--ttl", "100ms", "--name", name, "--", "sh", "-c", "echo ready; cat >/dev/null")
	p.AwaitLine("ready")
	syscall.Kill(-p.PID(), syscall.SIGSTOP)
	m.AwaitStale(t, name)
	return func() {
		syscall.Kill(-p.PID(), syscall.SIGCONT)
		p.Close()
		p.Wait()
	}
}

func fleetSteals(t *testing.T, m *Mount, s *system) {
	mustEndWith(t, s.run(t, "acquire", "web"), 0)
	mustEndWith(t, s.run(t, "FORCE=1", "steal", "web"), 8)
	mustEndWith(t, s.run(t, staleSince, "acquire", "db"), 0)
	mustEndWith(t, s.run(t, "steal", "db"), 8)
	mustEndWith(t, s.run(t, "FORCE=1", "steal", "db"), 0)
	sh := m.shell(t)
	sh.do(`$L acquire --name t8-active`, 0)
	sh.do(`$L check --name t8-active`, 1)
	mustEndWith(t, m.Guard(t, "--steal", "--name", "t8-active", "--", "true").Wait(), 8)
	sh.do(`$L release --all`, 0)
	stopped := stoppedHolder(t, m, "t8")
	mustEndWith(t, m.Guard(t, "--name", "t8", "--", "true").Wait(), 8)
	mustEndWith(t, m.Guard(t, "--steal", "--name", "t8", "--", "true").Wait(), 0)
	stopped()
}

func fleetAudit(t *testing.T, m *Mount, s *system) {
	for _, fail := range []string{"true", "false"} {
		sh := m.shell(t)
		sh.do(`$L guard --name t9 -- `+fail, map[string]int{"true": 0, "false": 1}[fail])
	}
	stopped := stoppedHolder(t, m, "t9")
	mustEndWith(t, m.Guard(t, "--steal", "--name", "t9", "--", "true").Wait(), 0)
	stopped()
	for kind, fields := range map[string][]string{
		"lock_acquired": {"lock_path", "ttl_seconds"},
		"lock_stolen":   {"previous_lock.request_id", "previous_lock_hash", "reason"},
		"lock_released": {"held_duration_seconds", "result"},
	} {
		for _, event := range m.awaitLockEvents(kind, "t9", 1) {
			mustHave(t, event, append(fields, "event", "request_id", "timestamp", "lock_name")...)
		}
	}
	mustEndWith(t, s.run(t, staleSince, "acquire", "web"), 0)
	mustEndWith(t, s.run(t, "FORCE=1", "deploy", "web", "x"), 0)
	for line := range strings.Lines(s.read("audit.jsonl")) {
		mustHave(t, decoded(t, line), "event", "request_id", "timestamp", "lock_name")
	}
}

func fleetReleases(t *testing.T, m *Mount, s *system) {
	mustEndWith(t, s.run(t, "release", "missing"), 0, "warning")
	mustEndWith(t, s.run(t, "REQUEST_ID=a", "acquire", "web"), 0)
	mustEndWith(t, s.run(t, "REQUEST_ID=b", "release", "web"), 1, "refused")
	mustEndWith(t, s.run(t, "REQUEST_ID=a", "release", "web", "failure", "migrate"), 0)
	if !strings.Contains(s.read("audit.jsonl"), `"result":"failure","failure_step":"migrate"`) {
		t.Errorf("its audit trail is %s", s.read("audit.jsonl"))
	}
	mine, other := m.shell(t), m.shell(t)
	mine.do(`$L acquire --name t10`, 0)
	other.do(`$L release --name t10`, 1)
	mine.do(`$L release --name t10 && $L release --name t10`, 0)
	mustEndWith(t, m.Guard(t, "--name", "t10", "--", "sh", "-c", "exit 7").Wait(), 7)
	other.do(`$L check --name t10`, 0)
}

func fleetObserves(t *testing.T, m *Mount, s *system) {
	a := s.pause(t, "read", "deploy", "web", "A")
	if out := s.ok(t, "observe", "web"); out != "[\"first\"]\n" {
		t.Errorf("observed: %s", out)
	}
	guard := m.heldGuard(t, s.path("state/web.json"))
	s.ok(t, "observe", "web")
	mustEndWith(t, m.Bash(t, `echo '["late"]' > "$1"`, s.path("state/web.json")), 1, "temporarily unavailable")
	mustEndWith(t, guard.resume(), 0)
	mustEndWith(t, a.resume(), 0)
}

func fleetTrustsNothing(t *testing.T, m *Mount, s *system) {
	mustEndWith(t, s.run(t, "acquire", "web"), 0)
	for _, dir := range []string{s.path("locks"), ".latchfs"} {
		info, err := os.Stat(m.Data + "/" + dir)
		if err != nil || info.Mode().Perm() != 0o700 {
			t.Errorf("%s: %v %v, want %v", dir, info.Mode(), err, fs.FileMode(0o700))
		}
	}
	sh := m.shell(t)
	sh.do(`$L acquire --name t12`, 0)
	sh.do(`{ echo '{}' > .locks/names/t12.lock; } 2>/dev/null`, 1)
	sh.do(`$L check --name t12`, 1)
	sh.do(`$L release --all`, 0)
	// What is no record is nobody's, and is not taken for free.
	m.WriteFile(s.path("locks/bad.lock"), `{"lock_version": "v9"`)
	mustEndWith(t, s.run(t, "deploy", "bad", "x"), 8)
}

func fleetDeadPID(t *testing.T, m *Mount, s *system) {
	mustEndWith(t, s.run(t, "acquire", "web"), 0) // the process in the record has ended
	said := answer(t, s.run(t, "acquire", "web"), 8)
	if said["error"] != "lock_blocked" {
		t.Errorf("the answer is %v", said)
	}
}

func fleetTools(t *testing.T, m *Mount, s *system) {
	mustEndWith(t, s.run(t, "acquire", "web"), 0)
	mustEndWith(t, s.bash(t, `[ "$(ls locks)" = web.lock ] && jq -e .lock_name locks/web.lock`), 0)
	sh := m.shell(t)
	sh.do(`$L acquire --name t14`, 0)
	if out := sh.do(`ls .locks/names && jq . .locks/names/t14.lock && $L check --name t14`, 1); !strings.Contains(out, "t14.lock") {
		t.Errorf("said %s", out)
	}
	sh.do(`$L release --all`, 0)
}

// deployments are what the state tells, which has to be whole.
func deployments(t testing.TB, s *system) []string {
	t.Helper()
	var list []string
	if err := json.Unmarshal([]byte(s.read("state/web.json")), &list); err != nil {
		t.Fatalf("the state is torn: %v\n%s", err, s.read("state/web.json"))
	}
	return list
}

// What tower-fleet's program loses on a plain directory.
func TestDefectsOfTowerFleet(t *testing.T) {
	inTestAll(t)
	needsLatchfs(t)
	forEachMount(t, func(t *testing.T, m *Mount) {
		requireTool(t, "jq", "sha256sum")
		defect(t, "two that find a lock stale", m, func(t *testing.T, m *Mount) harm {
			s := towerFleet(t, m, "stale")
			mustEndWith(t, s.run(t, staleSince, "acquire", "web"), 0)
			return fleetHarm(t, s, s.pause(t, "stale", "FORCE=1", "REQUEST_ID=a", "deploy", "web", "A"))
		})
		defect(t, "a live holder whose heartbeats have failed", m, func(t *testing.T, m *Mount) harm {
			s := towerFleet(t, m, "late")
			late := s.pause(t, "read", staleSince, "REQUEST_ID=a", "deploy", "web", "A")
			reported := s.run(t, "FORCE=1", "REQUEST_ID=b", "deploy", "web", "B")
			return harm{lost: lostDeployments(t, s, late.resume(), reported)}
		})
	}, withArgs("--preset", "tower-fleet"), leftLocks())
}

// fleetHarm lets a second one have the lock, and then the first go on.
func fleetHarm(t *testing.T, s *system, a *Proc) harm {
	t.Helper()
	b := s.start(t, "PAUSE=read", "FORCE=1", "REQUEST_ID=b", "deploy", "web", "B")
	eventually(t, "the second is at work, or was refused", func() bool { return b.Done() || strings.Contains(b.Stdout(), "at read") })
	first := a.resume()
	var h harm
	if strings.Contains(first.Stdout, "acquired") && strings.Contains(b.Stdout(), "acquired") && !b.Done() {
		h.winners++
	}
	h.lost = lostDeployments(t, s, first, b.resume())
	return h
}

// lostDeployments counts the programs that have reported a deployment which is not there.
func lostDeployments(t *testing.T, s *system, done ...Outcome) int {
	t.Helper()
	reported := 1 // the first
	for _, o := range done {
		if strings.Contains(o.Stdout, "applied") {
			reported++
		}
	}
	return reported - len(deployments(t, s))
}
