package integration

import (
	"slices"
	"strings"
	"syscall"
	"testing"
	"time"
)

// The output of a program that goes on appears while it is written, so that people can
// watch it grow; that of a short command is all or nothing.

// growSoon makes output appear soon, so that tests need not wait for it.
const growSoon = "[defaults]\ngrow = \"300ms\"\n"

// quarter is how long nothing may happen that would happen at once.
const quarter = 250 * time.Millisecond

// there reports whether a name is in the mount's root.
func (m *Mount) there(name string) bool {
	m.t.Helper()
	return slices.Contains(m.List(""), name)
}

// shouts prints a line for each that it is sent, and another one first.
const shouts = `echo ready; while read line; do echo "$line"; done`

// outputs are ways to give a program a new file as its output.
var outputs = map[string]string{
	"command": `bash -c '` + shouts + `' > "$1"`,
	"errors":  `bash -c '{ ` + shouts + `; } >&2' 2> "$1"`,
	"both":    `bash -c '` + shouts + `' > "$1" 2>&1`,
	"group":   `{ :; ` + shouts + `; } > "$1"`,
	"shell":   `( :; ` + shouts + ` ) > "$1"; true`,
	"itself":  `exec > "$1"; ` + shouts,
	"nohup":   `nohup bash -c '` + shouts + `' > "$1" 2> /dev/null`,
	"spawned": `exec python3 -c 'import subprocess, sys
subprocess.run(["bash", "-c", sys.argv[2]], stdout=open(sys.argv[1], "w"))' "$1" '` + shouts + `'`,
}

func TestOutputGrows(t *testing.T) {
	inTestAll(t)
	alongside(t)
	needsLatchfs(t)
	forEachMount(t, func(t *testing.T, m *Mount) {
		writers, followers := map[string]*Proc{}, map[string]*Proc{}
		for name, script := range outputs {
			writers[name] = m.LaunchBash(t, script, name)
		}
		for name := range outputs {
			eventually(t, "the output of "+name, func() bool { return m.there(name) })
			if got := m.ReadFile(name); got != "ready\n" {
				t.Errorf("%s begins with %q", name, got)
			}
			m.AwaitEvent("auto_live", name)
			followers[name] = m.Launch(t, "tail", "-f", m.Path(name))
		}
		for name, p := range writers {
			followers[name].AwaitLine("ready")
			p.Send("more")
			followers[name].AwaitLine("more")
			if out := m.Bash(t, `until grep -q more "$1"; do sleep 0.01; done; wc -c < "$1"`, name).Stdout; out != "11\n" {
				t.Errorf("%s has %q bytes", name, out)
			}
			syscall.Kill(-p.PID(), syscall.SIGKILL)
			eventually(t, "the end of "+name, func() bool { return !alive(p.PID()) })
			if got := m.ReadFile(name); got != "ready\nmore\n" { // what was seen stays
				t.Errorf("after its end %s holds %q", name, got)
			}
			followers[name].Kill()
		}
		rewriteAtTheClose(t, m)
		for _, e := range m.Events() {
			if slices.Contains([]string{"bypass", "conflict", "refusal", "rollback", "late"}, e.Event) {
				t.Errorf("%s of %s: %s", e.Event, e.Path, e.Reason)
			}
		}
	}, withPolicy(growSoon))
}

// rewriteAtTheClose replaces what has grown: a file that exists does not grow.
func rewriteAtTheClose(t *testing.T, m *Mount) {
	t.Helper()
	var all []*Proc
	for name := range outputs {
		all = append(all, m.LaunchBash(t, `exec > "$1"; echo two; echo written >&2; read line`, name))
	}
	for _, p := range all {
		eventually(t, "the second writer", func() bool { return strings.Contains(p.Stderr(), "written") })
	}
	time.Sleep(2 * quarter)
	for name := range outputs {
		if got := m.ReadFile(name); got != "ready\nmore\n" {
			t.Errorf("while it is rewritten %s holds %q", name, got)
		}
	}
	for _, p := range all {
		p.Close()
		p.Wait()
	}
	for name := range outputs {
		if got := m.ReadFile(name); got != "two\n" {
			t.Errorf("rewritten %s holds %q", name, got)
		}
	}
}

// What is not output, or may not be seen before it is judged, waits for its close; and
// so does all of it where the policy says so.
func TestOutputThatDoesNotGrow(t *testing.T) {
	alongside(t)
	needsLatchfs(t)
	forEachMount(t, func(t *testing.T, m *Mount) {
		var all []*Proc
		names := []string{"judged.json", "never.txt", "own"}
		for _, name := range names[:2] {
			all = append(all, m.LaunchBash(t, `exec > "$1"; echo '{}'; echo written >&2; read line`, name))
		}
		all = append(all, m.LaunchPython(t, `import sys
f = open("own", "w", 1); print("{}", file=f); print("written", file=sys.stderr, flush=True); sys.stdin.readline()`))
		all = append(all, m.LaunchBash(t, `exec > grows; echo '{}'; echo written >&2; read line`))
		for _, p := range all {
			eventually(t, "the output", func() bool { return strings.Contains(p.Stderr(), "written") })
		}
		eventually(t, "what grows", func() bool { return m.there("grows") })
		time.Sleep(2 * quarter)
		for i, name := range names {
			if m.there(name) {
				t.Errorf("%s is there before its close", name)
			}
			all[i].Send("end")
			all[i].Wait()
			if got := m.ReadFile(name); got != "{}\n" {
				t.Errorf("%s holds %q", name, got)
			}
		}
		all[3].Send("end")
		all[3].Wait()
	}, withPolicy(growSoon+"[[rule]]\nglob = \"*.json\"\nvalidate = [\"json\"]\n[[rule]]\nglob = \"never.*\"\ngrow = \"never\"\n"))
}

// A name that is moved, removed or in a moved directory while its file is hidden, or
// while it grows, leads to what is written; a removed one stays away.
func TestGrowingUnderAnotherName(t *testing.T) {
	inTestAll(t)
	alongside(t)
	needsLatchfs(t)
	forEachMount(t, func(t *testing.T, m *Mount) {
		for name, c := range map[string]struct{ before, after, to string }{
			"moved":         {"mv moved moved2", "", "moved2"},
			"removed":       {"rm removed", "", ""},
			"d/in":          {"mv d e", "", "e/in"},
			"moved-later":   {"", "mv moved-later moved-later2", "moved-later2"},
			"removed-later": {"", "rm removed-later", ""},
		} {
			m.Bash(t, "mkdir -p d")
			p := m.LaunchBash(t, `exec > "$1"; echo ready; eval "$2"; echo moved >&2; while read line; do echo "$line"; done`, name, c.before)
			eventually(t, "the output", func() bool { return strings.Contains(p.Stderr(), "moved") })
			if c.before == "" {
				eventually(t, name, func() bool { return m.there(name) })
				m.Bash(t, c.after)
			} else {
				time.Sleep(2 * quarter)
			}
			p.Send("more")
			p.Close()
			p.Wait()
			if got := m.Bash(t, `cat "$1"`, name); got.Code == 0 {
				t.Errorf("%s is still there: %q", name, got.Stdout)
			}
			if c.to != "" {
				if got := m.Bash(t, `cat "$1"`, c.to).Stdout; got != "ready\nmore\n" {
					t.Errorf("%s holds %q", c.to, got)
				}
				if o := m.Bash(t, `echo new > "$1"; cat "$1"`, c.to); o.Stdout != "new\n" {
					t.Errorf("rewritten %s holds %q: %s", c.to, o.Stdout, o.Stderr)
				}
			}
		}
	}, withPolicy(growSoon))
}

// A transaction's output is a part of it.
func TestTransactionsDoNotGrow(t *testing.T) {
	alongside(t)
	needsLatchfs(t)
	forEachMount(t, func(t *testing.T, m *Mount) {
		p := m.Guard(t, "--txn", "out", "--", "bash", "-c", `exec > out; echo row; echo written >&2; read line; exit 1`)
		eventually(t, "the output", func() bool { return strings.Contains(p.Stderr(), "written") })
		time.Sleep(2 * quarter)
		if m.there("out") {
			t.Error("it is there before the transaction's end")
		}
		p.Send("end")
		p.Wait()
		if m.there("out") {
			t.Error("it is there after the transaction has failed")
		}
	}, withPolicy(growSoon))
}

// With the default policy output appears after two seconds, and a short command's is
// all or nothing: 4.1 of the design.
func TestDefaultGrow(t *testing.T) {
	inTestAll(t)
	alongside(t)
	needsLatchfs(t)
	forEachMount(t, func(t *testing.T, m *Mount) {
		began := time.Now()
		p := m.LaunchBash(t, `{ `+shouts+`; } > server.txt`)
		for !m.there("server.txt") {
			if time.Since(began) > patience {
				t.Fatal("the output does not appear")
			}
			time.Sleep(10 * time.Millisecond)
		}
		if took := time.Since(began); took < 2*time.Second {
			t.Errorf("the output is there after %v", took)
		}
		p.Close()
		p.Wait()
	})
}
