package integration

import (
	"os"
	"path/filepath"
	"regexp"
	"strconv"
	"strings"
	"testing"
	"time"
)

// Promise 4: who changes a file on the basis of a version that has been replaced
// since is refused, and told so.

// EventDetail is what the events conflict and lost_update say beside the rest.
type EventDetail struct {
	Event     string `json:"event"`
	Path      string `json:"path"`
	Operation string `json:"operation"`
	Errno     string `json:"errno"`
	Base      int    `json:"base"`
	Current   int    `json:"current"`
	ChangedBy struct {
		PID     int    `json:"pid"`
		Program string `json:"program"`
	} `json:"changed_by"`
}

// lastConflict is the last event of a kind about a path.
func (m *Mount) lastConflict(t testing.TB, kind, path string) EventDetail {
	t.Helper()
	var last EventDetail
	for line := range strings.Lines(m.Locks("events.jsonl")) {
		var e EventDetail
		m.decode(line, &e)
		if e.Event == kind && e.Path == path {
			last = e
		}
	}
	if last.Event == "" {
		t.Errorf("no event %s of %s", kind, path)
	}
	return last
}

// stale makes a a family that has read f, and b one that has committed it since.
func stale(t *testing.T, m *Mount) (a, b *Family) {
	t.Helper()
	a, b = m.Family(t), m.Family(t)
	b.OK(`echo one > f`)
	a.OK(`x=$(cat f)`)
	b.OK(`echo two > f`)
	return a, b
}

// The refused one learns who committed in between, which versions there are, and
// that it helps to run again; and it does.
func TestLostUpdateIsExplained(t *testing.T) {
	needsLatchfs(t)
	forEachMount(t, func(t *testing.T, m *Mount) {
		a, b := stale(t, m)
		pid := strings.TrimSpace(b.OK(`echo $$`))
		a.Refused(`echo "$x more" > f`)
		e := m.lastConflict(t, "conflict", "f")
		if e.Errno != "EBUSY" || e.Base == 0 || e.Current != e.Base+1 || strconv.Itoa(e.ChangedBy.PID) != pid || e.ChangedBy.Program != "bash" {
			t.Errorf("the event is %+v; process %s committed", e, pid)
		}
		why := a.OK(`cat .locks/why`)
		for _, want := range []string{" f: EBUSY", "version " + strconv.Itoa(e.Base), "version " + strconv.Itoa(e.Current), "bash[" + pid + "] saved", "run the command again"} {
			if !strings.Contains(why, want) {
				t.Errorf("why does not say %q:\n%s", want, why)
			}
		}
		if out := b.OK(`cat .locks/why`); strings.Contains(out, "EBUSY") {
			t.Errorf("the other family is told, too:\n%s", out)
		}
		b.OK(`y=$(cat f)`)
		a.OK(`x=$(cat f); echo "$x more" > f`)
		b.Refused(`echo three > f`)
		if got := b.OK(`cat f`); got != "two more\n" {
			t.Errorf("f holds %q", got)
		}
	})
}

// A refusal before the work is done loses nothing; where bytes were written
// already, they are kept.
func TestRefusedLostUpdateKeepsWhatWasWritten(t *testing.T) {
	needsLatchfs(t)
	forEachMount(t, func(t *testing.T, m *Mount) {
		a, b := stale(t, m)
		a.OK(`echo mine > t`)
		a.Refused(`mv t f`)
		if got := a.OK(`cat t`); got != "mine\n" {
			t.Errorf("what was to be moved holds %q", got)
		}
		a.Refused(`"$PYTHON" -c 'import os; fd = os.open("f", os.O_WRONLY); os.write(fd, b"written blindly"); os.close(fd)'`)
		if kept := m.rejectedBytes(); !strings.Contains(kept, "written blindly") {
			t.Errorf("kept are %q", kept)
		}
		if got := b.OK(`cat f`); got != "two\n" {
			t.Errorf("f holds %q", got)
		}
	})
}

// What does not replace the version is no lost update.
func TestWhatReplacesNothingIsNotRefused(t *testing.T) {
	cases := []struct{ name, run string }{
		{"append", `echo more >> f`},
		{"append by tee", `echo more | tee -a f`},
		{"append in python", `"$PYTHON" -c 'open("f", "a").write("more\n")'`},
		{"chmod", `chmod 600 f`},
		{"touch", `touch f`},
		{"set the time", `touch -d 2001-01-01 f`},
		{"read", `cat f; head -c 1 f; grep -c . f`},
		{"open for writing and write nothing", `exec 3<> f; exec 3>&-`},
		{"copy away", `cp f g; cp g h; mv h g`},
		{"link", `ln f g2; rm g2`},
		{"symbolic link", `ln -s f l; rm l`},
		{"update in place after another look", `"$PYTHON" -c 'f = open("f", "r+"); d = f.read(); f.seek(0); f.write(d.upper()); f.truncate()'`},
		{"lock", `flock f true`},
		{"write another file", `echo "$x" > g; echo "$x" > g`},
	}
	inShortOnRoot(t, func(t *testing.T, m *Mount) {
		a, b := m.Family(t), m.Family(t)
		for i, c := range cases {
			dir := "d" + strconv.Itoa(i)
			b.OK(`mkdir ` + dir + `; cd ` + dir + `; echo one > f`)
			a.OK(`cd ` + dir + `; x=$(cat f)`)
			b.OK(`echo two > f; cd ..`)
			if out, code := a.Try(c.run); code != 0 || saysBusy(out) {
				t.Errorf("%s: exit %d\n%s", c.name, code, out)
			}
			a.OK(`cd ..`)
		}
		noAlarm(t, m)
	})
}

// However another commits in between, it counts; and what is no new content does not.
func TestHoweverTheOtherCommits(t *testing.T) {
	needsLatchfs(t)
	cases := []struct {
		name, run string
		refused   bool
	}{
		{"redirect", `echo two > d/f`, true},
		{"append", `echo two >> d/f`, true},
		{"append by an open descriptor", `exec 9>> d/f; echo two >&9`, true},
		{"sed -i", `sed -i s/one/two/ d/f`, true},
		{"mv", `echo two > d/t; mv d/t d/f`, true},
		{"remove and create", `rm d/f; echo two > d/f`, true},
		{"move away and create", `mv d/f d/g; echo two > d/f`, true},
		{"truncate", `truncate -s 1 d/f`, true},
		{"in place", `printf X | dd of=d/f conv=notrunc status=none`, true},
		{"mapped", `"$PYTHON" -c 'import mmap; f = open("d/f", "r+b"); m = mmap.mmap(f.fileno(), 0); m[0:1] = b"X"; m.close(); f.close()'`, true},
		{"under another name", `ln d/f d/g; echo two > d/g`, true},
		{"through a symbolic link", `ln -s d e; echo two > e/f; rm e`, true},
		{"the directory replaced", `mkdir e; echo two > e/f; mv d d.old; mv e d; rm -r d.old`, true},
		{"twice", `echo two > d/f; echo one > d/f`, true},
		{"a copy of the same", `cp d/f d/t; mv d/t d/f`, true},
		{"chmod", `chmod 600 d/f; chmod 644 d/f`, false},
		{"touch", `touch d/f`, false},
		{"another file", `echo two > d/g; rm d/g`, false},
		{"nothing written", `exec 3<> d/f; exec 3>&-`, false},
		{"read", `cat d/f`, false},
		{"away and back", `mv d/f d/g; mv d/g d/f`, false},
		{"the directory away and back", `mv d e; mv e d`, false},
		{"linked", `ln d/f d/g; rm d/g`, false},
	}
	inShortOnRoot(t, func(t *testing.T, m *Mount) {
		a, b := m.Family(t), m.Family(t)
		for i, c := range cases {
			top := "c" + strconv.Itoa(i)
			b.OK(`mkdir ` + top + `; cd ` + top + `; mkdir d; echo one > d/f`)
			a.OK(`cd ` + top + `; x=$(cat d/f)`)
			b.OK(c.run)
			out, code := a.Try(`echo "$x more" > d/f`)
			if (code != 0) != c.refused || code != 0 && !saysBusy(out) {
				t.Errorf("%s: exit %d %s, refused should be %v", c.name, code, out, c.refused)
			}
			a.OK(`cd ..`)
			b.OK(`exec 9>&-; cd ..`)
		}
	})
}

// Commands that one agent runs at the same time are relatives of the agent, but
// each knows best what it has read itself.
func TestParallelCommandsOfOneAgent(t *testing.T) {
	const agent = `
import subprocess, sys
kind = {"start_new_session": True} if sys.argv[1] == "session" else {}
slow = subprocess.Popen(["bash", "-c", 'x=$(cat f); echo read; read go; echo "$x slow" > f'],
    stdin=subprocess.PIPE, stdout=subprocess.PIPE, stderr=subprocess.PIPE, text=True, **kind)
slow.stdout.readline()
subprocess.run(["bash", "-c", 'x=$(cat f); echo "$x quick" > f'], check=True, **kind)
_, complaint = slow.communicate("go\n")
assert slow.returncode != 0 and "busy" in complaint, (slow.returncode, complaint)
subprocess.run(["bash", "-c", 'x=$(cat f); echo "$x again" > f'], check=True, **kind)
print(open("f").read(), end="")
`
	inShortOnRoot(t, func(t *testing.T, m *Mount) {
		for _, kind := range []string{"session", "plain"} {
			m.Family(t).OK(`rm -f f; echo old > f`)
			p := m.LaunchUnrelated(t, bench.python, "-c", agent, kind)
			if got := p.OK(); got != "old quick again\n" {
				t.Errorf("%s: f holds %q", kind, got)
			}
		}
	})
}

// Subshells that work at the same time are no relatives either, as far as what
// each has read goes.
func TestParallelSubshells(t *testing.T) {
	inShortOnRoot(t, func(t *testing.T, m *Mount) {
		m.Family(t).OK(`echo old > f`)
		pause := m.newPause(t)
		p := m.LaunchUnrelated(t, "bash", "-c", `
(x=$(cat f); "$1"; echo "$x slow" > f; echo "slow $?") &
read -r go
(x=$(cat f); echo "$x quick" > f; echo "quick $?")
wait; cat f`, "bash", pause.Command)
		pause.Await(p)
		p.Send("go")
		p.AwaitLine("quick 0")
		pause.Go()
		if out := p.OK(); out != "quick 0\nslow 1\nold quick\n" {
			t.Errorf("printed %q", out)
		}
	})
}

// What a person has looked at from a prompt in the morning does not keep a command
// from writing at night.
func TestInteractiveShellKnowsNothing(t *testing.T) {
	const terminal = `
import os, pty, sys
pid, fd = pty.fork()
if pid == 0:
    os.environ["PS1"] = "PROMPT> "
    os.execvp("bash", ["bash", "--norc", "--noprofile", "-i"])
def until(text):
    seen = b""
    while text not in seen: seen += os.read(fd, 65536)
    return seen
until(b"PROMPT> ")
for line in sys.stdin:
    os.write(fd, line.rstrip("\n").encode() + b"; echo status=$((100 + $?))\n")
    seen = until(b"status=1")
    while b"PROMPT> " not in seen.split(b"status=1", 1)[1]: seen += os.read(fd, 65536)
    print("status", int(seen.split(b"status=1", 1)[1][:2]), flush=True)
    if b"status=100" not in seen: print(seen, flush=True)
os.close(fd)
`
	forEachMount(t, func(t *testing.T, m *Mount) {
		b := m.Family(t)
		b.OK(`echo one > f`)
		p := m.LaunchUnrelated(t, bench.python, "-c", terminal)
		status := regexp.MustCompile(`status [0-9]+\n`) // a line may come in pieces
		done := 0
		typed := func(command string) {
			t.Helper()
			p.Send(command)
			done++
			eventually(t, "the prompt after "+command, func() bool { return len(status.FindAllString(p.Stdout(), -1)) == done })
		}
		for _, write := range []string{`echo gen > f`, `/bin/echo gen > f`, `seq 3 | sort > f`, `cp /etc/hostname f`, `bash -c 'echo gen > f'`, `rm f`} {
			typed(`cat f`)
			b.OK(`x=$(cat f); echo "$x two" > f`)
			typed(write)
		}
		if out := p.Stdout(); strings.Count(out, "status 0\n") != done {
			t.Errorf("the terminal shows\n%s", out)
		}
	})
}

// What a relative has read fades, what the process has read itself does not.
func TestRelativesReadFades(t *testing.T) {
	needsLatchfs(t)
	const fade = 200 * time.Millisecond
	inShortOnRoot(t, func(t *testing.T, m *Mount) {
		a, b := stale(t, m)
		self := m.Family(t)
		self.OK(`read -r x < f`)
		b.OK(`echo three > f`)
		time.Sleep(2 * fade) // nothing but time makes it fade
		self.Refused(`echo "$x more" > f`)
		a.OK(`echo "$x more" > f`)
	}, withPolicy("[defaults]\nfade = \""+fade.String()+"\"\n"))
}

// Where the policy says so, a lost update is only told, or not even that.
func TestLostUpdateWarnedOfOrIgnored(t *testing.T) {
	needsLatchfs(t)
	forEachMount(t, func(t *testing.T, m *Mount) {
		a, b := m.Family(t), m.Family(t)
		for _, name := range []string{"warn", "off", "refuse"} {
			b.OK(`echo one > ` + name)
			a.OK(`x=$(cat ` + name + `)`)
			b.OK(`echo two > ` + name)
		}
		a.OK(`echo "$x more" > warn; echo "$x more" > t; mv t off`)
		a.Refused(`echo "$x more" > refuse`)
		for name, want := range map[string]string{"warn": "one more\n", "off": "one more\n", "refuse": "two\n"} {
			if got := b.OK("cat " + name); got != want {
				t.Errorf("%s holds %q", name, got)
			}
		}
		if e := m.lastConflict(t, "lost_update", "warn"); e.Base == 0 || e.Current != e.Base+1 || e.Errno != "" {
			t.Errorf("the event is %+v", e)
		}
		for _, e := range m.Events() {
			if (e.Event == "conflict") != (e.Path == "refuse") && (e.Event == "conflict" || e.Event == "lost_update" && e.Path != "warn") {
				t.Errorf("event %s of %s", e.Event, e.Path)
			}
		}
	}, withPolicy(`
[[rule]]
glob = "warn"
lost-update = "warn"
[[rule]]
glob = "off"
lost-update = "off"
`))
}

// Clients outlive the daemon, and so does what they have read.
func TestKnowledgeOutlivesARestart(t *testing.T) {
	alongside(t)
	needsLatchfs(t)
	forEachMount(t, func(t *testing.T, m *Mount) {
		a, b := m.Family(t), m.Family(t)
		for _, f := range []*Family{a, b} {
			f.OK(`d=$PWD; cd /`)
		}
		b.OK(`cd "$d"; echo one > f; echo one > g; echo one > h; cd /`)
		a.OK(`x=$(cat "$d/f" "$d/g"); cat "$d/h"`)
		b.OK(`read -r x < "$d/g"; echo two > "$d/g"`)
		m.Stop(t)
		if err := os.WriteFile(filepath.Join(m.Data, "h"), []byte("around\n"), 0o644); err != nil {
			t.Fatal(err)
		}
		m.Start(t)
		b.OK(`read -r x < "$d/f"; echo two > "$d/f"`)
		for _, name := range []string{"f", "g", "h"} {
			a.Refused(`echo "$x more" > "$d/` + name + `"`)
		}
		a.OK(`cat "$d/f"; echo "$x more" > "$d/f"`)
	})
}

// A change around the mount is a version like any other.
func TestChangeAroundTheMountIsNotLost(t *testing.T) {
	needsLatchfs(t)
	forEachMount(t, func(t *testing.T, m *Mount) {
		a := m.Family(t)
		a.OK(`echo one > f; x=$(cat f)`)
		if err := os.WriteFile(filepath.Join(m.Data, "f"), []byte("around the mount\n"), 0o644); err != nil {
			t.Fatal(err)
		}
		a.Refused(`echo "$x more" > t; mv t f`)
		a.Refused(`echo "$x more" > f`)
		if got := a.OK(`cat f`); got != "around the mount\n" {
			t.Errorf("f holds %q", got)
		}
		a.OK(`echo "$x more" > f`)
	}, withPolicy(neverInsist))
}

// A file with several names may be looked at under any of them, and lose one of them
// before it is replaced under another.
func TestLinkedFileIsReplaced(t *testing.T) {
	needsLatchfs(t)
	inShortOnRoot(t, func(t *testing.T, m *Mount) {
		a, b := m.Family(t), m.Family(t)
		for i, replace := range []string{`sed -i s/one/two/ f`, `rm g; sed -i s/one/two/ f`, `rm g; echo two > f`, `rm f; echo two > f`} {
			dir := "d" + strconv.Itoa(i)
			b.OK(`mkdir ` + dir + `; cd ` + dir + `; echo one > f; ln f g`)
			a.OK(`cd ` + dir + `; x=$(cat f); ls -l g > /dev/null`)
			b.OK(replace + `; cd ..`)
			a.Refused(`echo "$x" > f`)
			a.OK(`cd ..`)
		}
	})
}
