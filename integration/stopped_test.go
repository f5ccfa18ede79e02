package integration

import (
	"fmt"
	"os"
	"slices"
	"strings"
	"syscall"
	"testing"
)

// A program that is asked to stop leaves a new file as far as it has written it, as
// on a plain directory; one that is killed or crashes does not. An existing file keeps
// its old version either way.

// writesAndWaits writes argv[1], syncs as often as argv[2] says, writes argv[3] more
// and waits for its end, which is a signal: argv[4], or one from outside.
const writesAndWaits = `
import os, resource, signal, sys
path, syncs, more, by = sys.argv[1:5]
resource.setrlimit(resource.RLIMIT_CORE, (0, 0))
for s in signal.valid_signals() - {signal.SIGKILL, signal.SIGSTOP}:
    signal.signal(s, signal.SIG_DFL) # whatever this run was started with
fd = os.open(path, os.O_WRONLY | os.O_CREAT | os.O_TRUNC, 0o644)
os.write(fd, b"row 1\n")
for i in range(int(syncs)):
    os.fsync(fd)
if more:
    os.write(fd, more.encode())
print("ready", flush=True)
if by:
    os.kill(os.getpid(), int(by))
signal.pause()
`

// kept returns the ids of the bytes kept of writes to a file.
func (m *Mount) kept(name string) (ids []string) {
	for _, e := range m.EventsOf("rollback", name) {
		if e.Kept != "" {
			ids = append(ids, e.Kept)
		}
	}
	return ids
}

func TestStoppedWriter(t *testing.T) {
	alongside(t)
	needsLatchfs(t)
	asked := []syscall.Signal{
		syscall.SIGINT, syscall.SIGTERM, syscall.SIGHUP, syscall.SIGPIPE, syscall.SIGALRM, syscall.SIGXCPU,
	}
	killed := []syscall.Signal{
		syscall.SIGKILL, syscall.SIGSEGV, syscall.SIGABRT, syscall.SIGBUS, syscall.SIGFPE, syscall.SIGILL, syscall.SIGQUIT,
	}
	forEachMount(t, func(t *testing.T, m *Mount) {
		for _, sig := range slices.Concat(asked, killed) {
			isNew, old := fmt.Sprintf("new-%d", sig), fmt.Sprintf("old-%d", sig)
			m.WriteFile(old, "old\n")
			for _, name := range []string{isNew, old} {
				p := m.LaunchPython(t, writesAndWaits, name, "0", "", fmt.Sprint(int(sig)))
				if o := p.Wait(); o.Signal != sig {
					t.Fatalf("%s: ended with %d, signal %d: %s", name, o.Code, o.Signal, o.Stderr)
				}
				m.AwaitFree(t, patience, name)
			}
			if got := m.ReadFile(old); got != "old\n" {
				t.Errorf("%v: the existing file holds %q", sig, got)
			}
			if n := len(m.kept(old)); n != 1 {
				t.Errorf("%v: %d times the bytes for the existing file were kept", sig, n)
			}
			there, aside := slices.Contains(m.List(""), isNew), len(m.kept(isNew))
			switch {
			case !slices.Contains(asked, sig):
				if there || aside != 1 {
					t.Errorf("%v: the new file is there: %t; its bytes were kept %d times", sig, there, aside)
				}
			case !there || aside != 0:
				t.Errorf("%v: the new file is there: %t; its bytes were kept %d times", sig, there, aside)
			case m.ReadFile(isNew) != "row 1\n":
				t.Errorf("%v: the new file holds %q", sig, m.ReadFile(isNew))
			}
		}
	})
}

// The policy can say that all of it counts, or nothing.
func TestOnKillPolicies(t *testing.T) {
	alongside(t)
	needsLatchfs(t)
	forEachMount(t, func(t *testing.T, m *Mount) {
		for _, name := range []string{"take-old", "keep-old"} {
			m.WriteFile(name, "old\n")
		}
		for name, want := range map[string]string{
			"take-new": "row 1\n", "take-old": "row 1\n", "keep-new": "", "keep-old": "old\n",
		} {
			for _, sig := range []syscall.Signal{syscall.SIGKILL, syscall.SIGTERM} {
				m.LaunchPython(t, writesAndWaits, name, "1", "", fmt.Sprint(int(sig))).Wait()
				m.AwaitFree(t, patience, name)
				if there := slices.Contains(m.List(""), name); there != (want != "") {
					t.Errorf("%s after %v: there: %t", name, sig, there)
				} else if there && m.ReadFile(name) != want {
					t.Errorf("%s after %v holds %q, want %q", name, sig, m.ReadFile(name), want)
				}
			}
		}
	}, withPolicy("[[rule]]\nglob = \"take-*\"\non-kill = \"commit\"\n[[rule]]\nglob = \"keep-*\"\non-kill = \"rollback\"\n"))
}

// What fsync has acknowledged is not lost with its writer: a file to which nothing
// was written since is made what it was then; a new one exists from its first fsync on.
// An existing file that was being rewritten stays, and the bytes are kept.
func TestKilledAfterFsync(t *testing.T) {
	needsLatchfs(t)
	forEachMount(t, func(t *testing.T, m *Mount) {
		for _, c := range []struct{ name, more, want string }{
			{"new", "", "row 1\n"},
			{"new-more", "row 2\n", "row 1\nrow 2\n"},
			{"old", "", "row 1\n"},
			{"old-more", "row 2\n", "old\n"},
		} {
			exists := strings.HasPrefix(c.name, "old")
			if exists {
				m.WriteFile(c.name, "old\n")
			}
			m.LaunchPython(t, writesAndWaits, c.name, "1", c.more, fmt.Sprint(int(syscall.SIGKILL))).Wait()
			m.AwaitFree(t, patience, c.name)
			if got := m.ReadFile(c.name); got != c.want {
				t.Errorf("%s holds %q, want %q", c.name, got, c.want)
			}
			if n := len(m.kept(c.name)); (n == 1) != (c.name == "old-more") {
				t.Errorf("%s: bytes were kept %d times", c.name, n)
			}
		}
	})
}

// A new file that was synced and is still open appears, and grows from then on.
func TestSyncedNewFileAppears(t *testing.T) {
	needsLatchfs(t)
	forEachMount(t, func(t *testing.T, m *Mount) {
		p := m.LaunchPython(t, writesAndWaits, "store", "1", "row 2\n", "")
		p.AwaitLine("ready")
		eventually(t, "the synced file", func() bool { return slices.Contains(m.List(""), "store") })
		if got := m.ReadFile("store"); got != "row 1\nrow 2\n" {
			t.Errorf("the file holds %q", got)
		}
		p.Signal(syscall.SIGKILL)
		p.Wait()
		if got := m.ReadFile("store"); got != "row 1\nrow 2\n" {
			t.Errorf("after its writer was killed the file holds %q", got)
		}
	})
}

// The shell's and timeout's close of what a stopped command has written is no error
// of theirs.
func TestBystandersOfAStoppedCommand(t *testing.T) {
	alongside(t)
	needsLatchfs(t)
	// SIGALRM is what tells timeout that the time is over.
	const job = `60 python3 -u -c 'import os, signal, time
signal.signal(signal.SIGINT, signal.SIG_DFL)
for i in range(4): print("row", i)
os.kill(os.getppid(), signal.SIGALRM)
while True: time.sleep(60)'`
	const rows = "row 0\nrow 1\nrow 2\nrow 3\n"
	forEachMount(t, func(t *testing.T, m *Mount) {
		for _, c := range []struct {
			command string
			code    int
			isNew   string // what a new file holds; "": it is not there
		}{
			{"timeout " + job + ` > "$1"`, 124, rows},
			{"{ timeout " + job + `; sleep 0.01; } > "$1"`, 0, rows},
			{"timeout -s INT " + job + ` > "$1"`, 124, rows},
			{`{ timeout -s ABRT ` + job + `; sleep 0.01; } > "$1"`, 0, ""},
		} {
			for _, name := range []string{"new", "old"} {
				want := c.isNew
				if name == "old" {
					m.WriteFile("old", "old\n")
					want = "old\n"
				}
				o := m.Bash(t, "ulimit -c 0; "+c.command, name)
				if o.Code != c.code || strings.Contains(o.Stderr, "write error") || strings.Contains(o.Stderr, "Interrupted") {
					t.Errorf("%s of a file that is %s ended with %d: %s", c.command, name, o.Code, o.Stderr)
				}
				m.AwaitFree(t, patience, name)
				if there := slices.Contains(m.List(""), name); there != (want != "") {
					t.Errorf("%s: %s is there: %t", c.command, name, there)
				} else if there && m.ReadFile(name) != want {
					t.Errorf("%s: %s holds %q, want %q", c.command, name, m.ReadFile(name), want)
				}
				m.Bash(t, "rm -f new old")
			}
		}
	}, withPolicy("[defaults]\ngrow = \"never\"\n")) // however slowly the command starts
}

// Ctrl-C goes to all of a job's processes.
func TestInterruptedJob(t *testing.T) {
	alongside(t)
	needsLatchfs(t)
	forEachMount(t, func(t *testing.T, m *Mount) {
		for n, script := range []string{
			`for i in 1 2 3; do echo row $i; done > "$1"; for i in 1 2 3; do echo row $i; echo $i >&2; read -t 60 x; done > "$1.csv"`,
			`python3 -uc 'import sys, time
print("row 1"); print("1", file=sys.stderr, flush=True); time.sleep(60)' > "$1.csv"`,
			`{ echo row 1; echo 1 >&2; sleep 60; echo row 2; } > "$1.csv"`,
			`(echo row 1; echo 1 >&2; sleep 60) > "$1.csv"; true`,
		} {
			name := fmt.Sprint("job", n)
			p := m.LaunchBash(t, script, name)
			eventually(t, "the first row", func() bool { return strings.Contains(p.Stderr(), "1") })
			syscall.Kill(-p.PID(), syscall.SIGINT)
			p.Wait()
			m.AwaitFree(t, patience, name+".csv")
			if !slices.Contains(m.List(""), name+".csv") || m.ReadFile(name+".csv") != "row 1\n" {
				t.Errorf("%s: left %q", script, m.List(""))
			}
		}
	})
}

// Who was killed, and how to get at what it had written, is told to those to whom it
// belonged.
func TestWhyOfAKilledWriter(t *testing.T) {
	needsLatchfs(t)
	forEachMount(t, func(t *testing.T, m *Mount) {
		o := m.Bash(t, `python3 -c 'import os, signal
f = open("big.iso", "wb", 0)
f.write(b"x" * 12345678)
os.kill(os.getpid(), signal.SIGKILL)'; cat .locks/why`)
		for _, want := range []string{
			"] was killed by SIGKILL before it closed big.iso, so the 12 MB that it had written did not become the file\n",
			"To make them the file after all: latchfs rejected restore ",
		} {
			if !strings.Contains(o.Stdout, want) {
				t.Errorf("%q is not in %s", want, o.Stdout)
			}
		}
		for _, never := range []string{"wait for the lock", "Run it again", "reason:"} {
			if strings.Contains(o.Stdout, never) {
				t.Errorf("%q is in %s", never, o.Stdout)
			}
		}
	})
}

// The core of a program that crashes is there, as on a plain directory: it is not the program
// that has written it. What the program had not closed is not.
func TestCoreOfACrashedProgram(t *testing.T) {
	pattern, err := os.ReadFile("/proc/sys/kernel/core_pattern")
	if err != nil || strings.ContainsAny(string(pattern), "|/%") {
		t.Skipf("the kernel writes cores elsewhere: %q, %v", pattern, err)
	}
	name := strings.TrimSpace(string(pattern))
	forEachMount(t, func(t *testing.T, m *Mount) {
		for range 2 { // the second replaces the first
			o := m.Bash(t, `ulimit -c unlimited; bash -c 'exec 3> new; echo half >&3; kill -ABRT $$'; ls -t "$1"* | head -n 1 | xargs head -c 4 | tail -c 3`, name)
			if o.Stdout != "ELF" {
				t.Errorf("the core begins with %q: %s", o.Stdout, o.Stderr)
			}
		}
		if _, err := m.control.Stat("new"); !*plain && err != syscall.ENOENT {
			t.Errorf("what the program had not closed: %v", err)
		}
	})
}
