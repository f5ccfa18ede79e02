package integration

import (
	"fmt"
	"os"
	"path/filepath"
	"regexp"
	"strings"
	"testing"

	"golang.org/x/sys/unix"
)

// lost-update = "adaptive": only programs that were seen to write back what they
// read come one after the other.

func adaptive() mountOption {
	return withPolicy("[defaults]\nlost-update = \"adaptive\"\nwait = \"60s\"\nclaim-ttl = \"60s\"\n")
}

// learned waits until .locks/programs shows a program, whose end is given, that
// claims or does not.
func learned(t *testing.T, m *Mount, claims, program string) {
	t.Helper()
	row := regexp.MustCompile(`(?m)^` + claims + ` .*` + program + `  `)
	eventually(t, program+" claims: "+claims, func() bool { return row.MatchString(m.Locks("programs")) })
}

// After each has written back once, nothing is lost and nothing fails; it is known
// across a restart.
func TestAdaptiveLosesNothingOnceItHasLearned(t *testing.T) {
	alongside(t)
	requireTool(t, "jq")
	needsLatchfs(t)
	rounds, programs := repeat(2, 20), repeat(4, 12)
	forEachMount(t, func(t *testing.T, m *Mount) {
		m.WriteFile("counter.json", `{"n": 0}`)
		script := filepath.Join(m.Home(), "count.py")
		if err := os.WriteFile(script, []byte(countPython), 0o644); err != nil {
			t.Fatal(err)
		}
		m.Launch(t, bench.python, script, "1").OK()
		m.LaunchBash(t, countJQ, "1").OK()
		learned(t, m, "yes", "/count.py")
		learned(t, m, "yes", "/jq")
		if text := m.Locks("programs"); strings.Contains(text, "/mv") || !strings.Contains(text, "wrote back counter.json at") {
			t.Errorf("learned:\n%s", text)
		}
		m.Stop(t)
		m.Start(t)
		learned(t, m, "yes", "/jq")
		var procs []*Proc
		for i := range programs {
			if i%2 == 0 {
				procs = append(procs, m.Launch(t, bench.python, script, fmt.Sprint(rounds)))
			} else {
				procs = append(procs, m.LaunchBash(t, countJQ, fmt.Sprint(rounds)))
			}
		}
		for _, p := range procs {
			p.OK()
		}
		want := fmt.Sprintf(`{"n":%d}`, programs*rounds+2)
		if got := strings.Join(strings.Fields(content(t, m, "counter.json")), ""); got != want {
			t.Errorf("counted %s, want %s", got, want)
		}
	}, adaptive())
}

// Who has not written back claims nothing and waits for nobody.
func TestAdaptiveLeavesReadersAlone(t *testing.T) {
	needsLatchfs(t)
	forEachMount(t, func(t *testing.T, m *Mount) {
		m.WriteFile("f", "0")
		script := filepath.Join(m.Home(), "edit.py")
		if err := os.WriteFile(script, []byte("import sys\nx = open('f').read()\nprint('read', flush=True)\nsys.stdin.readline()\nopen('f', 'w').write(x + '1')\n"), 0o644); err != nil {
			t.Fatal(err)
		}
		edit := func() *Proc {
			p := m.Launch(t, bench.python, script)
			p.AwaitLine("read")
			return p
		}
		first := edit()
		if m.Status().HolderOf("f") != nil {
			t.Error("claims before it was seen to write")
		}
		first.Send("")
		first.OK()
		learned(t, m, "yes", "/edit.py")
		second := edit()
		if l := m.AwaitHolder(t, "f", second.PID()); l.Operation != "read" {
			t.Errorf("shown as %+v", l)
		}
		if got := content(t, m, "f"); got != "01" {
			t.Errorf("cat reads %q", got)
		}
		reader := m.Client(t)
		reader.MustClose(reader.Open("f", unix.O_RDONLY))
		learned(t, m, "no", "/client")
		third := m.Launch(t, bench.python, script)
		eventually(t, "the same program waits", func() bool { return m.waits(third.PID()) })
		second.Send("")
		second.OK()
		third.AwaitLine("read")
		third.Send("")
		third.OK()
		if got := content(t, m, "f"); got != "0111" {
			t.Errorf("the file holds %q", got)
		}
	}, adaptive())
}

// A broken file of what was learned is set aside, and said so; it is learned again.
func TestAdaptiveBrokenFile(t *testing.T) {
	needsLatchfs(t)
	m := mount(t, adaptive())
	m.Stop(t)
	file := filepath.Join(m.Data, ".latchfs", "programs.json")
	if err := os.WriteFile(file, []byte(`{"format":1,`), 0o600); err != nil {
		t.Fatal(err)
	}
	m.Start(t)
	if log := m.log(); !strings.Contains(log, "programs.json cannot be used and is now programs.json.broken") {
		t.Errorf("the log says nothing of it: %s", log)
	}
	if got, err := os.ReadFile(file + ".broken"); err != nil || string(got) != `{"format":1,` {
		t.Errorf("set aside: %q, %v", got, err)
	}
	m.WriteFile("counter.json", `{"n": 0}`)
	m.LaunchPython(t, countPython, "1").OK()
	learned(t, m, "yes", "-c [0-9a-f]{8}")
}

// A program whose claims come to nothing does not claim any longer.
func TestAdaptiveForgets(t *testing.T) {
	needsLatchfs(t)
	m := mount(t, adaptive())
	m.WriteFile("f", "0")
	script := filepath.Join(m.Home(), "maybe.py")
	if err := os.WriteFile(script, []byte("import sys\nx = open('f').read()\nif sys.argv[1] == 'write': open('f', 'w').write(x + '1')\nsys.exit(3)\n"), 0o644); err != nil {
		t.Fatal(err)
	}
	run := func(how string) { m.Launch(t, bench.python, script, how).Wait() }
	run("write")
	learned(t, m, "yes", "/maybe.py")
	for range 19 {
		run("look")
	}
	m.AwaitStatus(t, "the last claim is gone", func(s Status) bool { return s.Held() == 0 })
	learned(t, m, "yes", "/maybe.py")
	run("look")
	learned(t, m, "no", "/maybe.py")
	if text := m.Locks("programs"); !strings.Contains(text, "and then claimed 20 times in vain") {
		t.Errorf("shown:\n%s", text)
	}
	run("write")
	learned(t, m, "yes", "/maybe.py")
}
