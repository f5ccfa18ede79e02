package integration

import (
	"os"
	"os/exec"
	"path/filepath"
	"slices"
	"testing"

	"latchfs/integration/internal/counting"
)

// What is refused in daily work that loses nothing is a false alarm. There must
// be none.

// quietCase is work in which every change is based on the version that it
// replaces, in the eyes of whoever does it.
type quietCase struct {
	name  string
	needs []string
	setup string // fills the directory, outside latchfs
	run   string // must succeed; checks itself what came of it
}

// quietPrelude is how all cases run: the first failure ends them.
const quietPrelude = toolPrelude + `set -eu -o pipefail
is() { local got; got=$(cat "$1"); [ "$got" = "$2" ] || { echo "$1 holds '$got', not '$2'"; exit 1; }; }
`

// alarms are the events of which there must be none.
var alarms = []string{"conflict", "lost_update", "refusal", "rollback", "rejected"}

func TestDailyWorkRaisesNoAlarm(t *testing.T) {
	inTestAll(t)
	alongside(t)
	cases := slices.Concat(quietShell, quietPrograms, quietTrees)
	cases = slices.DeleteFunc(cases, func(c quietCase) bool {
		missing := slices.DeleteFunc(slices.Clone(c.needs), installed)
		if len(missing) > 0 {
			leftOut(t, c.name, missing...)
		}
		return len(missing) > 0
	})
	inShortOnRoot(t, func(t *testing.T, m *Mount) {
		for _, c := range cases {
			t.Run(c.name, func(t *testing.T) { c.perform(t, m) })
		}
		noAlarm(t, m)
	}, withSeed(func(data string) error { return seedQuiet(data, cases) }))
}

// seedQuiet makes the directory of each case below dir.
func seedQuiet(dir string, cases []quietCase) error {
	var tools []toolCase
	for _, c := range cases {
		tools = append(tools, toolCase{name: c.name, setup: c.setup})
	}
	return setUpTools(dir, tools)
}

// perform runs the case in a family of its own.
func (c quietCase) perform(t *testing.T, m *Mount) {
	t.Helper()
	out := filepath.Join(m.Home(), "out-"+c.name)
	if err := os.Mkdir(out, 0o777); err != nil {
		t.Fatal(err)
	}
	if err := os.Chown(out, m.UID, m.UID); err != nil {
		t.Fatal(err)
	}
	argv := counting.Unrelated([]string{"bash", "-c", quietPrelude + "OUT=$2; cd \"$1\"\n" + c.run, "bash", c.name, out})
	p := m.launch(t, exec.Command(argv[0], argv[1:]...))
	if o := p.soon(); o.Code != 0 || saysBusy(o.Stdout+o.Stderr) {
		t.Errorf("ended with %d\n%s%s", o.Code, o.Stdout, o.Stderr)
	}
}

// inShortOnRoot runs a test on every kind of mount in the long version, and on
// that of root alone in the short one: what a program has read is known in the
// same way on all.
func inShortOnRoot(t *testing.T, test func(*testing.T, *Mount), opts ...mountOption) {
	t.Helper()
	if stress() {
		forEachMount(t, test, opts...)
		return
	}
	test(t, mount(t, opts...))
}

// Two shells that take turns, each reading before it writes, are told nothing.
func TestTakingTurnsRaisesNoAlarm(t *testing.T) {
	steps := map[string]string{
		"redirect": `x=$(cat f); echo "$((x + 1))" > f`,
		"rename":   `awk '{print $1 + 1}' f > t; mv t f`,
		"sed":      `read x < f; sed -i "s/.*/$((x + 1))/" f`,
		"unlink":   `x=$(cat f); rm f; echo "$((x + 1))" > f`,
		"child":    `x=$(cat f); sh -c "sh -c 'echo $((x + 1)) > f'"`,
	}
	inShortOnRoot(t, func(t *testing.T, m *Mount) {
		a, b := m.Family(t), m.Family(t)
		for name, step := range steps {
			a.OK(`mkdir ` + name + `; cd ` + name + `; echo 0 > f`)
			b.OK(`cd ` + name)
			for range 3 {
				a.OK(step)
				b.OK(step)
			}
			if got := a.OK(`cat f; cd ..`); got != "6\n" {
				t.Errorf("%s: the count is %q", name, got)
			}
			b.OK(`cd ..`)
		}
		noAlarm(t, m)
	})
}

// One process that lives on, reads again what another has committed, and writes.
func TestReadingAgainRaisesNoAlarm(t *testing.T) {
	const script = `
import sys
for line in sys.stdin:
    n = int(open("f").read())
    open("f", "w").write(str(n + 1))
    print(n + 1, flush=True)
`
	forEachMount(t, func(t *testing.T, m *Mount) {
		m.WriteFile("f", "0")
		a := m.LaunchUnrelated(t, bench.python, "-c", script)
		b := m.LaunchUnrelated(t, bench.python, "-c", script)
		for _, line := range []string{"1", "3", "5", "7"} {
			a.Send("go")
			a.AwaitLine(line)
			b.Send("go")
			b.AwaitLine(string(line[0] + 1))
		}
		noAlarm(t, m)
	})
}

// Who has never read a file does not lose what others wrote: he means to replace it.
func TestBlindWritersRaiseNoAlarm(t *testing.T) {
	inShortOnRoot(t, func(t *testing.T, m *Mount) {
		a, b := m.Family(t), m.Family(t)
		for _, step := range []string{
			`echo "$$ is alive" > status`,
			`date > t.$$; mv t.$$ status`,
			`date > t.$$; cp t.$$ status`,
			`date | tee status > /dev/null`,
			`rm -f status; date > status`,
			`ln -sf /dev/null link`,
		} {
			for range 3 {
				a.OK(step)
				b.OK(step)
			}
		}
		noAlarm(t, m)
	})
}

// A lock around reading and writing is all that a careful program needs.
func TestFlockedUpdatesRaiseNoAlarm(t *testing.T) {
	const each = 3
	inShortOnRoot(t, func(t *testing.T, m *Mount) {
		requireTool(t, "jq", "flock")
		m.WriteFile("f", `{"n": 0}`)
		var procs []*Proc
		for range 4 {
			procs = append(procs, m.LaunchUnrelated(t, "bash", "-c",
				`for i in 1 2 3; do flock f -c "jq '.n += 1' f > t.$$ && mv t.$$ f" || exit; done`))
		}
		for _, p := range procs {
			p.OK()
		}
		var doc struct{ N int }
		m.decode(m.ReadFile("f"), &doc)
		if doc.N != 4*each {
			t.Errorf("the counter is %d, want %d", doc.N, 4*each)
		}
		noAlarm(t, m)
	})
}

// noAlarm fails the test if anybody was refused or warned.
func noAlarm(t *testing.T, m *Mount) {
	t.Helper()
	if *plain {
		return
	}
	for _, e := range m.Events() {
		if slices.Contains(alarms, e.Event) {
			t.Errorf("%s of %s by %s: %s %s", e.Event, e.Path, e.Program, e.Operation, e.Reason)
		}
	}
}

// Producers and consumers use one name again and again.
func TestOneNameForManyFilesRaisesNoAlarm(t *testing.T) {
	inShortOnRoot(t, func(t *testing.T, m *Mount) {
		a, b := m.Family(t), m.Family(t)
		for _, c := range []struct{ dir, a, b string }{
			{"queue", `echo work > t; mv t job`, `cat job; rm job`},
			{"queue-excl", `set -C; echo work > job; set +C`, `cat job; rm job`},
			{"temporary", `echo mine > x; cat x; rm x`, `echo mine > x; cat x; rm x`},
			{"spool", `for i in 1 2 3; do echo line >> spool; done; cat spool`, `mv spool taken; cat taken; rm taken`},
			{"answers", `echo question > ask; cat answer 2> /dev/null; rm -f answer`, `cat ask; rm ask; echo yes > answer`},
			{"baton", `echo a > t; mv t baton; cat baton`, `cat baton; mv baton mine; sed -i s/a/b/ mine; mv mine done; cat done; rm done`},
		} {
			a.OK(`mkdir ` + c.dir + `; cd ` + c.dir)
			b.OK(`cd ` + c.dir)
			for range 3 {
				a.OK(c.a)
				b.OK(c.b)
			}
			a.OK(`cd ..`)
			b.OK(`cd ..`)
		}
		noAlarm(t, m)
	})
}
