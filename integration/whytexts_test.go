package integration

import (
	"fmt"
	"regexp"
	"strings"
	"testing"
)

// What .locks/why and the lists say is about the program that did it, once, and can be
// followed.

func TestWhyNamesTheProgramOfTheHolder(t *testing.T) {
	needsLatchfs(t)
	m := mount(t)
	m.WriteFile("f", "old\n")
	holder, other := m.shell(t), m.shell(t)
	holder.do(`id=$($L acquire --for $$ f)`, 0)
	other.do(`$L acquire --wait 0 f 2>/dev/null`, 8)
	want := fmt.Sprintf("f is locked by bash[%d]", holder.PID())
	for _, command := range []string{`cat .locks/why`, `$L status`} {
		if out := other.do(command, 0); !strings.Contains(out, want[len("f is locked by "):]) || strings.Contains(out, "latchfs[") {
			t.Errorf("%s says\n%s", command, out)
		}
	}
	for command, what := range map[string]string{`cat .locks/why`: "for operation 'acquire'", `$L status`: " acquire ", `$L list`: " acquire "} {
		if out := other.do(command, 0); !strings.Contains(out, what) || strings.Contains(out, "guard") {
			t.Errorf("of a lock that was acquired %s says\n%s", command, out)
		}
	}
	holder.do(`$L release f`, 0)
}

// The writer of a redirection is the program that wrote, not the shell that opened the
// file and became it.
func TestWriterOfARedirectionIsNamed(t *testing.T) {
	needsLatchfs(t)
	m := mount(t)
	m.WriteFile("f", "one\n")
	f := m.Family(t)
	f.OK("cat f; sed s/one/two/ f > t; :")
	events := m.EventsOf("commit", "t")
	if len(events) != 1 || events[0].Program != "sed" {
		t.Errorf("t was written by %+v, want sed", events)
	}
	if out := m.latchfs(t, 0, "history", "t"); !strings.Contains(out, "sed[") {
		t.Errorf("the history says\n%s", out)
	}
	m.Family(t).OK("echo three > f")
	out, _ := f.Try("mv t f; cat .locks/why")
	if !regexp.MustCompile(`since sed\[\d+\], which wrote t, read it`).MatchString(out) {
		t.Errorf("why says\n%s", out)
	}
}

// The command in an advice does what is said of it in whatever directory it is typed.
func TestAdviceCanBeTypedAnywhere(t *testing.T) {
	needsLatchfs(t)
	m := mount(t)
	f := m.Family(t)
	f.OK("mkdir sub; echo one > 'sub/a b'")
	f = m.Family(t)
	f.OK("cat 'sub/a b'")
	m.Family(t).OK("echo two > 'sub/a b'")
	why, _ := f.Try("echo mine > 'sub/a b'; cat .locks/why")
	advice := regexp.MustCompile("`latchfs( history [^`]*)`").FindStringSubmatch(why)
	if advice == nil {
		t.Fatalf("why says\n%s", why)
	}
	sh := m.shell(t)
	for _, dir := range []string{".", "sub", "/"} {
		if out := sh.do(fmt.Sprintf("(cd %s && $L%s)", dir, advice[1]), 0); !strings.Contains(out, "current") {
			t.Errorf("%s in %s says\n%s", advice[0], dir, out)
		}
	}
}

// The command that is said to take a stale lock away takes it away.
func TestAdviceOnAStaleLockEndsIt(t *testing.T) {
	needsLatchfs(t)
	m := mount(t)
	m.WriteFile("f", "v")
	holder := m.heldGuard(t, "--ttl", "100ms", "f")
	sh := m.shell(t)
	eventually(t, "the lock is stale", func() bool { return strings.Contains(m.Locks("status"), "STALE") })
	advice := regexp.MustCompile("`latchfs( steal [^`]*)`").FindStringSubmatch(sh.do(`$L acquire --wait 0 f 2>&1`, 8))
	if advice == nil {
		t.Fatal("the refusal names no command")
	}
	sh.do("cd /; $L"+advice[1], 0)
	sh.do("$L acquire --wait 0 "+m.Path("f"), 0)
	holder.Close()
	holder.Wait()
}

// A write that is refused, and the close that says so again, are one entry.
func TestRefusedWriteIsToldOnce(t *testing.T) {
	needsLatchfs(t)
	inShortOnRoot(t, func(t *testing.T, m *Mount) {
		m.WriteFile("f", "one\n")
		f := m.Family(t)
		f.OK("cat f")
		m.Family(t).OK("echo two > f")
		out, code := f.Try(inPlace("os.write(fd, b'mine')") + `; cat .locks/why`)
		if code != 0 || strings.Count(out, ": EBUSY (process ") != 1 || !strings.Contains(out, "kept:     ") {
			t.Errorf("ended with %d, and why says\n%s", code, out)
		}
		if strings.Count(out, "latchfs rejected diff") != 1 || strings.Contains(out, "Read the file again") {
			t.Errorf("what to do is said more than once:\n%s", out)
		}
	})
}

// A program that removes what it could not rename leaves nothing to rename again.
func TestAdviceKnowsWhatIsGone(t *testing.T) {
	needsLatchfs(t)
	m := mount(t)
	m.WriteFile("f", "one\n")
	f := m.Family(t)
	f.OK("cat f > t")
	m.Family(t).OK("echo two > f")
	out, _ := f.Try("mv t f; cat .locks/why")
	if !strings.Contains(out, "rename t again as it is") {
		t.Errorf("why says\n%s", out)
	}
	out, _ = f.Try("rm t; cat .locks/why")
	if strings.Contains(out, "again as it is") || !strings.Contains(out, "t is no longer there. Run the command that wrote it again") {
		t.Errorf("when t has gone why says\n%s", out)
	}
}

// What a script has read is said of it and of what it has started: nobody can tell them
// apart any more.
func TestWhyNamesWhoMayHaveRead(t *testing.T) {
	needsLatchfs(t)
	m := mount(t)
	m.WriteFile("f", "one\n")
	f := m.Family(t)
	f.OK("cat f; echo new > n")
	m.Family(t).OK("echo two > f")
	out, _ := f.Try("cp n f; cat .locks/why")
	pid := strings.TrimSpace(f.OK("echo $$"))
	want := fmt.Sprintf("f has changed since it was read by bash[%s], which started this program, or by another program that bash[%[1]s] started. One of them read version ", pid)
	if !strings.Contains(out, want) {
		t.Errorf("why says\n%s, want %s", out, want)
	}
}

// The number of a version that was removed and put back is a new one, which its author
// never saved.
func TestWhySaysWhatWasPutBack(t *testing.T) {
	needsLatchfs(t)
	m := mount(t)
	a, b := stale(t, m)
	a.Refused(`rm f; echo "$x mine" > f`)
	want := regexp.MustCompile(fmt.Sprintf(`; bash\[%s\] saved what is now version (\d+) at [0-9:]+ \(it was removed since, and has been put back\)\.`, strings.TrimSpace(b.OK("echo $$"))))
	said := want.FindStringSubmatch(a.OK("cat .locks/why"))
	if said == nil || !strings.Contains(m.latchfs(t, 0, "history", "f"), "\n"+said[1]+" ") {
		t.Errorf("why says %q\n%s\n%s", said, a.OK("cat .locks/why"), m.latchfs(t, 0, "history", "f"))
	}
}

// The line of a killed appender is named, with its file, and can be had.
func TestWhyOfAKilledAppender(t *testing.T) {
	needsLatchfs(t)
	m := mount(t)
	m.WriteFile("runs.txt", "one\n")
	o := m.Bash(t, `"$PYTHON" -c 'import os, signal
fd = os.open("runs.txt", os.O_WRONLY | os.O_APPEND)
os.write(fd, b"half a li"); os.kill(os.getpid(), signal.SIGKILL)'; cat .locks/why`)
	want := regexp.MustCompile(`\] was killed by SIGKILL before it finished a line that it appended to runs\.txt, so what there was of the line \(9 bytes\) was kept out of the file\n(?s:.*)To append it after all: latchfs rejected restore (\S+)\n`)
	said := want.FindStringSubmatch(o.Stdout)
	if said == nil {
		t.Fatalf("why says\n%s", o.Stdout)
	}
	m.latchfs(t, 0, "rejected", "restore", said[1])
	if got := m.ReadFile("runs.txt"); got != "one\nhalf a li" {
		t.Errorf("afterwards the file holds %q", got)
	}
}

// Who knows that there was no file is not told that it has read a version of it.
func TestWhyOfAFileThatWasNotThere(t *testing.T) {
	needsLatchfs(t)
	m := mount(t)
	for name, step := range map[string]string{"removed": "rm removed", "renamed": "mv renamed away", "twice": "rm twice"} {
		m.WriteFile(name, "one\n")
		f, other := m.Family(t), m.Family(t)
		f.OK("cat " + name + " && " + step)
		if name == "twice" {
			other.OK("echo two > twice; rm twice")
		}
		other.OK("echo theirs > " + name)
		out, _ := f.Try("echo mine > " + name + "; cat .locks/why")
		want := regexp.MustCompile(`  ` + name + ` has changed since this program removed or renamed it\. It did so at [0-9:]+; bash\[\d+\] saved version \d+ at `)
		if !want.MatchString(out) {
			t.Errorf("%s: why says\n%s", name, out)
		}
	}
}
