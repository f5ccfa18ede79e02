package integration

import (
	"encoding/json"
	"fmt"
	"path/filepath"
	"slices"
	"strings"
	"syscall"
	"testing"
	"time"
)

// cleo's list of tasks, as its program writes it.
type cleoList struct {
	Tasks []struct {
		ID   int
		Text string
	}
}

// cleo is cleo's program in a directory that has a list with one task.
func cleo(t testing.TB, m *Mount, dir string) *system {
	t.Helper()
	s := m.system(t, dir, "cleo.sh")
	s.ok(t, "init")
	s.ok(t, "add", "first")
	return s
}

// tasks are the texts of a list, which has to be whole.
func tasks(t testing.TB, s *system) []string {
	t.Helper()
	var list cleoList
	if err := json.Unmarshal([]byte(s.read("todo.json")), &list); err != nil {
		t.Fatalf("todo.json is torn: %v\n%s", err, s.read("todo.json"))
	}
	var texts []string
	for _, task := range list.Tasks {
		texts = append(texts, task.Text)
	}
	return texts
}

// Every number of cleo's requirements, with programs as its users write them.
func TestSystemCleo(t *testing.T) {
	inTestAll(t)
	needsLatchfs(t)
	forEachMount(t, func(t *testing.T, m *Mount) {
		requireTool(t, "flock", "jq")
		cases := []struct {
			number string
			test   func(*testing.T, *Mount, string)
		}{
			{"C1", cleoKilledAnywhere}, {"C2", cleoWritersWait}, {"C3", cleoLocksPerFile}, {"C4", cleoFlock}, {"C5", cleoEleven},
			{"C6", cleoWaits}, {"C7", cleoTimeout}, {"C8", cleoOwnLock}, {"C9", cleoReleasedHowever}, {"C10", cleoFailure},
			{"C11", cleoReleaseTwice}, {"C12", cleoJudged}, {"C13", cleoReaders}, {"C14", cleoTimes}, {"C15", cleoIDs}, {"C16", cleoNetwork},
		}
		for _, c := range cases {
			t.Run(c.number, func(t *testing.T) { c.test(t, m, c.number) })
		}
	}, withArgs("--preset", "cleo"))
}

func cleoKilledAnywhere(t *testing.T, m *Mount, dir string) {
	s := cleo(t, m, dir)
	for _, point := range []string{"read", "temp", "validated", "backup", "renamed"} {
		before := tasks(t, s)
		s.pause(t, point, "add", point).Kill()
		after := tasks(t, s)
		if want := append(slices.Clone(before), point); !slices.Equal(after, want) && !slices.Equal(after, before) {
			t.Errorf("killed at %s: %q, want %q or %q", point, after, before, want)
		}
		s.ok(t, "add", "after "+point)
	}
}

func cleoWritersWait(t *testing.T, m *Mount, dir string) {
	s := m.system(t, dir, "cleo.sh")
	for _, step := range [][2][]string{
		{{"temp", "init"}, {"init"}}, // a creation
		{{"read", "add", "a"}, {"add", "b"}},
	} {
		holder := s.pause(t, step[0][0], step[0][1:]...)
		next := s.start(t, step[1]...)
		next.MustWait()
		mustEndWith(t, s.bash(t, `! [ -e todo.json ] || cat todo.json`), 0)
		mustEndWith(t, holder.resume(), 0)
		next.OK()
	}
	if got := tasks(t, s); !slices.Equal(got, []string{"a", "b"}) {
		t.Errorf("the tasks are %q", got)
	}
	holder := s.pause(t, "locked", "hold", "todo-log.jsonl") // an append
	next := s.start(t, "log", "x")
	next.MustWait()
	mustEndWith(t, holder.resume(), 0)
	next.OK()
}

func cleoLocksPerFile(t *testing.T, m *Mount, dir string) {
	s := cleo(t, m, dir)
	holder := s.pause(t, "read", "add", "slow")
	s.ok(t, "LOCK_TIMEOUT=0", "log", "at once")
	mustEndWith(t, holder.resume(), 0)
	both := s.pause(t, "locked", "hold", "todo.json", "todo-log.jsonl")
	for _, argv := range [][]string{{"add", "x"}, {"log", "x"}} {
		mustEndWith(t, s.run(t, append([]string{"LOCK_TIMEOUT=0"}, argv...)...), 8)
	}
	mustEndWith(t, both.resume(), 0)
}

func cleoFlock(t *testing.T, m *Mount, dir string) {
	s := m.system(t, dir, "cleo.sh")
	holder := m.LaunchBash(t, `cd "$1"; exec 200>f.lock; flock -x -w 30 200; echo ready; read -r || :`, dir)
	holder.AwaitLine("ready")
	mustEndWith(t, s.bash(t, `exec 200>f.lock; flock -n 200`), 1)
	next := m.LaunchBash(t, `cd "$1"; exec 200>f.lock; flock -x -w 30 200; echo mine`, dir)
	next.MustWait()
	holder.Close()
	holder.OK()
	next.OK()
	mustEndWith(t, s.bash(t, `[ -e f.lock ] && ! [ -s f.lock ] && exec 200>f.lock && flock -n 200 && rm f.lock && exec 200>&- 201>f.lock && flock -n 201`), 0)
	// While f.lock is locked, nobody else writes f, who has never heard of f.lock.
	script := m.LaunchBash(t, `cd "$1"; exec 200>f.lock; flock -x 200; echo ready; read -r || :; echo mine > f`, dir)
	script.AwaitLine("ready")
	outside := m.LaunchBash(t, `cd "$1"; echo outside >> f`, dir)
	outside.MustWait()
	mustEndWith(t, script.resume(), 0)
	outside.OK()
	if got := s.read("f"); got != "mine\noutside\n" {
		t.Errorf("f holds %q", got)
	}
	if out := m.Latchfs(t, "history", "--json", s.path("f.lock")).Stdout; strings.Contains(out, `"version"`) {
		t.Errorf("a lock file has a history: %s", out)
	}
}

func cleoEleven(t *testing.T, m *Mount, dir string) {
	s := m.system(t, dir, "cleo.sh")
	files := []string{"hold"}
	for i := range 11 {
		files = append(files, fmt.Sprint("f", i))
	}
	holder := s.pause(t, "locked", files...)
	for _, f := range files[1:] {
		mustEndWith(t, s.run(t, "LOCK_TIMEOUT=0", "hold", f), 8)
	}
	mustEndWith(t, holder.resume(), 0)
}

func cleoWaits(t *testing.T, m *Mount, dir string) {
	s := cleo(t, m, dir)
	if policy := m.Locks("policy"); !strings.Contains(policy, `"30s"`) {
		t.Errorf("the policy says no wait of 30s: %s", policy)
	}
	holder := m.heldGuard(t, s.path("todo.json"))
	sh := m.shell(t)
	if said := sh.do(`$L acquire --wait 40ms `+s.path("todo.json")+` 2>&1`, 8); !strings.Contains(said, "timeout after 40ms") {
		t.Errorf("the refusal is %s", said)
	}
	sh.do(`$L acquire --wait 0 `+s.path("todo.json"), 8)
	holder.Close()
	holder.OK()
}

func cleoTimeout(t *testing.T, m *Mount, dir string) {
	s := cleo(t, m, dir)
	holder := s.pause(t, "read", "add", "slow")
	mustEndWith(t, s.run(t, "LOCK_TIMEOUT=0.1", "add", "x"), 8, "Failed to acquire lock (timeout after 0.1s)")
	mustEndWith(t, holder.resume(), 0)
	guard := m.heldGuard(t, s.path("todo.json"))
	mustEndWith(t, m.Guard(t, "--wait", "100ms", s.path("todo.json"), "--", "true").Wait(), 8,
		"Failed to acquire lock (timeout after 100ms)", fmt.Sprint(guard.PID()))
	mustEndWith(t, m.Guard(t, "--wait", "0", s.path("todo.json"), "--", "true").Wait(), 8,
		"Cannot acquire lock on "+s.path("todo.json")+" (another process may be active)")
	guard.Close()
	guard.OK()
}

func cleoOwnLock(t *testing.T, m *Mount, dir string) {
	s := cleo(t, m, dir)
	mustEndWith(t, s.run(t, "LOCK_TIMEOUT=0", "hold", "todo.json", "todo.json"), 0)
	sh := m.shell(t)
	file := s.path("todo.json")
	sh.do(`$L acquire `+file+` && $L acquire --wait 0 `+file+` && $L guard --wait 0 `+file+` -- true`, 0)
	sh.do(`$L release `+file, 0)
}

func cleoReleasedHowever(t *testing.T, m *Mount, dir string) {
	s := cleo(t, m, dir)
	for _, sig := range []syscall.Signal{syscall.SIGINT, syscall.SIGTERM, syscall.SIGKILL} {
		holder := s.pause(t, "read", "add", sig.String())
		next := s.start(t, "add", "after "+sig.String())
		next.MustWait()
		syscall.Kill(-holder.PID(), sig)
		holder.Wait()
		next.OK()
	}
	mustEndWith(t, s.run(t, "save"), 6) // an error: nothing to save
	s.ok(t, "LOCK_TIMEOUT=0", "add", "last")
	if got, want := tasks(t, s), []string{"first", "after interrupt", "after terminated", "after killed", "last"}; !slices.Equal(got, want) {
		t.Errorf("the tasks are %q, want %q", got, want)
	}
}

func cleoFailure(t *testing.T, m *Mount, dir string) {
	s := cleo(t, m, dir)
	p := s.start(t, "save")
	p.Send(`{"tasks": [`)
	mustEndWith(t, p.resume(), 6)
	if names := m.List(dir); slices.ContainsFunc(names, func(n string) bool { return strings.Contains(n, ".tmp.") }) {
		t.Errorf("a temporary file is left: %q", names)
	}
	if got := tasks(t, s); !slices.Equal(got, []string{"first"}) {
		t.Errorf("the tasks are %q", got)
	}
	s.ok(t, "LOCK_TIMEOUT=0", "add", "second")
}

func cleoReleaseTwice(t *testing.T, m *Mount, dir string) {
	s := cleo(t, m, dir)
	s.ok(t, "unlock-twice")
	sh := m.shell(t)
	sh.do(`$L release `+s.path("todo.json"), 0)
	sh.do(`$L acquire `+s.path("todo.json")+`; $L release --all`, 0)
	sh.do(`$L release --all`, 0)
}

func cleoJudged(t *testing.T, m *Mount, dir string) {
	s := cleo(t, m, dir)
	for i := range 7 {
		s.ok(t, "add", fmt.Sprint(i))
	}
	if names := m.List(s.path("backups")); len(names) != 5 {
		t.Errorf("its own backups are %q", names)
	}
	for _, save := range []string{`echo '{"tasks": [' > todo.json`, `: > todo.json`, `echo x > new && mv new todo.json`, `python3 -c 'open("todo.json", "w").write("[")'`} {
		before := s.read("todo.json")
		s.bash(t, save) // a shell does not tell of a refused close
		if got := s.read("todo.json"); got != before {
			t.Errorf("%s has left %q", save, got)
		}
	}
	var versions int
	out := m.Latchfs(t, "history", s.path("todo.json")).Stdout
	for line := range strings.Lines(out) {
		if strings.Contains(line, " yes ") {
			versions++
		}
	}
	if versions != 5 {
		t.Errorf("%d earlier versions are kept, want 5:\n%s", versions, out)
	}
}

func cleoReaders(t *testing.T, m *Mount, dir string) {
	s := cleo(t, m, dir)
	holder := s.pause(t, "validated", "add", "second")
	reader := m.LaunchBash(t, `cd "$1"; exec 3<todo.json; echo open; read -r; cat <&3`, dir)
	reader.AwaitLine("open")
	if got := tasks(t, s); len(got) != 1 {
		t.Errorf("before the commit the tasks are %q", got)
	}
	mustEndWith(t, holder.resume(), 0)
	if got := tasks(t, s); len(got) != 2 {
		t.Errorf("after the commit the tasks are %q", got)
	}
	reader.Close()
	if out := reader.OK(); strings.Contains(out, "second") || !strings.Contains(out, "first") {
		t.Errorf("who had opened it before reads %q", out)
	}
}

// The overhead of C14 is measured by make bench.
func cleoTimes(t *testing.T, m *Mount, dir string) {
	s := cleo(t, m, dir)
	began := time.Now()
	for i := range 10 {
		s.ok(t, "add", fmt.Sprint(i))
	}
	if took := time.Since(began); took > promised(5*time.Second) {
		t.Errorf("10 locked writes took %v", took)
	}
	began = time.Now()
	mustEndWith(t, s.bash(t, `exec 200>todo.json.lock; flock -n 200`), 0)
	if took := time.Since(began); took > promised(100*time.Millisecond) {
		t.Errorf("a lock took %v", took)
	}
}

func cleoIDs(t *testing.T, m *Mount, dir string) {
	const adders = 5
	s := cleo(t, m, dir)
	var running []*Proc
	for i := range adders {
		running = append(running, s.start(t, "add", fmt.Sprint(i)))
	}
	for _, p := range running {
		p.OK()
	}
	// A program without any lock of its own, under guard.
	const add = `n=$(jq '[.tasks[].id] | max + 1' "$1") && jq --argjson n "$n" '.tasks += [{id: $n, text: "g"}]' "$1" >"$1.$$" && mv "$1.$$" "$1"`
	running = nil
	for range adders {
		running = append(running, m.Guard(t, s.path("todo.json"), "--", "bash", "-c", add, "bash", s.path("todo.json")))
	}
	for _, p := range running {
		p.OK()
	}
	var list cleoList
	m.decode(s.read("todo.json"), &list)
	ids := map[int]bool{}
	for _, task := range list.Tasks {
		ids[task.ID] = true
	}
	if len(list.Tasks) != 1+2*adders || len(ids) != len(list.Tasks) {
		t.Errorf("%d tasks with %d ids, want %d:\n%s", len(list.Tasks), len(ids), 1+2*adders, s.read("todo.json"))
	}
}

// To latchfs the files of another FUSE filesystem are those of a server.
func cleoNetwork(t *testing.T, m *Mount, dir string) {
	m.Mkdir(dir)
	at := filepath.Join(m.Home(), "network")
	if out, err := m.runAs(t, m.UID, "mkdir", at); err != nil {
		t.Fatalf("%v %s", err, out)
	}
	p := m.Launch(t, bench.binary, "mount", "--foreground", m.Path(dir), at)
	eventually(t, "the warning", func() bool {
		return strings.Contains(p.Stderr(), "programs on other machines are not kept out")
	})
	p.Wait() // it keeps nothing in a directory where it may not
}

// What cleo's program loses on a plain directory. It is cleo's own lock that fails: the
// exclusion does not span the read, or the lock file is removed while it is locked. It
// makes no backups here, for the history has them.
func TestDefectsOfCleo(t *testing.T) {
	needsLatchfs(t)
	forEachMount(t, func(t *testing.T, m *Mount) {
		requireTool(t, "flock", "jq")
		defect(t, "a read before the lock", m, func(t *testing.T, m *Mount) harm {
			s := cleo(t, m, "early")
			slow := s.pause(t, "read", "MAX_BACKUPS=0", "add-early", "slow")
			fast := s.run(t, "MAX_BACKUPS=0", "add-early", "fast")
			return harm{lost: lostTasks(t, s, fast, slow.resume())}
		})
		defect(t, "a lock file that is removed", m, func(t *testing.T, m *Mount) harm {
			s := cleo(t, m, "removed")
			slow := s.pause(t, "read", "MAX_BACKUPS=0", "add", "slow")
			s.bash(t, `rm -f todo.json.lock`)
			fast := s.start(t, "MAX_BACKUPS=0", "add", "fast")
			fast.settle()
			first := slow.resume()
			return harm{lost: lostTasks(t, s, first, fast.Wait())}
		})
	}, withArgs("--preset", "cleo"))
}

// A program that copies the file aside just before it replaces it has read the new
// version, and is not refused. There its reads have to claim.
func TestDefectsOfCleoWithBackups(t *testing.T) {
	needsLatchfs(t)
	forEachMount(t, func(t *testing.T, m *Mount) {
		requireTool(t, "flock", "jq")
		defect(t, "a read before the lock, and a backup before the rename", m, func(t *testing.T, m *Mount) harm {
			s := cleo(t, m, "early")
			slow := s.pause(t, "read", "add-early", "slow")
			fast := s.start(t, "add-early", "fast")
			fast.settle()
			first := slow.resume()
			fast.Wait()
			return harm{lost: lostTasks(t, s, first, fast.Wait())}
		})
	}, withPolicy("[[rule]]\nglob = \"todo.json\"\nlost-update = \"serialize\"\nobservers = \"client\" # who looks for the test\n"))
}

// lostTasks counts the programs that have reported success for a task that is not there.
func lostTasks(t *testing.T, s *system, added ...Outcome) int {
	t.Helper()
	reported := 1 // the first task
	for _, o := range added {
		if o.Code == 0 {
			reported++
		}
	}
	return reported - len(tasks(t, s))
}
