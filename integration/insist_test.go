package integration

import (
	"strings"
	"testing"
	"time"
)

// A removal is deliberate: it is refused to nobody, whatever has become of the file.
func TestRemovalIsNeverRefused(t *testing.T) {
	needsLatchfs(t)
	forEachMount(t, func(t *testing.T, m *Mount) {
		for _, remove := range []string{`rm f`, `unlink f`, `rm -rf .`, `"$PYTHON" -c 'import os; os.unlink("f")'`, `find . -name f -delete`} {
			a, b := stale(t, m)
			a.OK(`(` + strings.Replace(remove, "rm -rf .", `mkdir -p sub && cp f sub/f && cat sub/f && rm -rf sub f`, 1) + `)`)
			if out, code := b.Try(`cat f`); code == 0 {
				t.Errorf("%s: f is still there: %q", remove, out)
			}
			b.OK(`true`)
		}
		for _, e := range m.Events() {
			if e.Event == "conflict" {
				t.Errorf("%s of %s was refused: %s", e.Operation, e.Path, e.Reason)
			}
		}
		// What was removed is still to be had.
		a, _ := stale(t, m)
		a.OK(`rm f`)
		if out := a.OK(`ls .locks/history/f`); !strings.Contains(out, "1") {
			t.Errorf("the history holds %q", out)
		}
	})
}

// Under "strict" a removal is checked as any other change, and nobody is obeyed for
// trying again.
func TestStrictRefusesRemovals(t *testing.T) {
	needsLatchfs(t)
	m := mount(t, withPolicy("[defaults]\nlost-update = \"strict\"\n"))
	a, b := stale(t, m)
	a.Refused(`rm f`)
	a.Refused(`echo "$x mine" > f`)
	time.Sleep(insistAfter)
	a.Refused(`echo "$x mine" > f`)
	a.Refused(`rm f`)
	if got := b.OK(`cat f`); got != "two\n" {
		t.Errorf("f holds %q", got)
	}
}

// neverInsist is a policy for tests in which one program is refused more than once.
const neverInsist = "[defaults]\ninsist = \"never\"\n"

// insistAfter is how long after a refusal a program that tries again is obeyed, and
// some more: the time is the promise here, no event tells of it.
const insistAfter = 1100 * time.Millisecond

// A removal that is the first step of a save belongs to the save: when that is
// refused, the file has its name back, with the same inode.
func TestRefusedSaveByRemovalPutsTheFileBack(t *testing.T) {
	alongside(t)
	needsLatchfs(t)
	forEachMount(t, func(t *testing.T, m *Mount) {
		a, b := stale(t, m)
		before := b.OK(`stat -c '%i %h %a %s %Y' f`)
		a.OK(`rm f`)
		a.Refused(`echo "$x mine" > f`)
		if got := b.OK(`cat f; stat -c '%i %h %a %s %Y' f`); got != "two\n"+before {
			t.Errorf("f is %q, was %q", got, before)
		}
		a, b = stale(t, m)
		before = b.OK(`stat -c '%i %h %a %s %Y' f`)
		a.Refused(`echo mine > t; rm f; mv t f`) // a process of its own removes it
		if got := b.OK(`cat f; stat -c '%i %h %a %s %Y' f`); got != "two\n"+before {
			t.Errorf("after the move f is %q, was %q", got, before)
		}
		// It is the other's version as before, to everybody.
		b.OK(`y=$(cat f); echo three > f`)
		a.OK(`x=$(cat f); echo "$x mine" > f`)
		if got := b.OK(`cat f`); got != "three mine\n" {
			t.Errorf("f holds %q", got)
		}
		// Later a removal is a removal.
		a, _ = stale(t, m)
		a.OK(`rm f`)
		time.Sleep(2 * insistAfter)
		a.OK(`echo "$x mine" > f`)
	})
}

// A library that tries again until it is let through does not mean it. It is obeyed after a
// pause, as everybody else.
func TestTryingAgainAndAgainIsNotInsisting(t *testing.T) {
	inTestAll(t)
	alongside(t)
	needsLatchfs(t)
	const script = `
import os, sys, time
kept = open("f").read()
print("read", flush=True)
sys.stdin.readline()
def save():
    with open("t", "w") as t: t.write(kept + "mine\n")
    try: os.rename("t", "f")
    except OSError as e: return e.strerror
began = last = time.monotonic()
slow = False
while time.monotonic() < began + 2.5:
    answer, now = save(), time.monotonic()
    slow = slow or now > last + 0.8
    if not answer:
        sys.exit("" if slow else "obeyed after %.1f s" % (now - began))
    last = now
    time.sleep(0.05)
time.sleep(1.1)
sys.exit(save())
`
	forEachMount(t, func(t *testing.T, m *Mount) {
		m.WriteFile("f", "one\n")
		p := m.LaunchPython(t, script)
		p.AwaitLine("read")
		m.LaunchBash(t, "echo two > f").OK()
		p.Send("save")
		p.OK()
		if got := m.ReadFile("f"); got != "one\nmine\n" {
			t.Errorf("f holds %q", got)
		}
	})
}

// A program that keeps its state in memory is told once, and obeyed when it insists:
// loudly, and the version that it replaces is kept.
func TestInsistingIsObeyed(t *testing.T) {
	inTestAll(t)
	alongside(t)
	needsLatchfs(t)
	forEachMount(t, func(t *testing.T, m *Mount) {
		for _, save := range []string{
			`echo "$x mine" > f`,
			`echo "$x mine" > t; mv t f`,
			`"$PYTHON" -c 'f = open("f", "w"); f.write("mine\n"); f.close()'`,
			`"$PYTHON" -c 'import os; fd = os.open("f", os.O_WRONLY); os.write(fd, b"mine"); os.close(fd)'`,
		} {
			a, b := stale(t, m)
			a.OK(`mine() { ` + strings.Replace(save, "$x", "one", 1) + `; }`)
			began := time.Now()
			a.Refused(`mine`)
			if out, code := a.Try(`mine`); code == 0 && time.Since(began) < time.Second {
				t.Errorf("%s is obeyed at once: %s", save, out)
			}
			if time.Since(began) >= time.Second {
				continue // a slow machine: it has insisted
			}
			if got := b.OK(`cat f`); got != "two\n" {
				t.Errorf("f holds %q", got)
			}
			time.Sleep(insistAfter)
			a.OK(`mine`)
			if got := b.OK(`cat f`); !strings.Contains(got, "mine") {
				t.Errorf("%s: f holds %q", save, got)
			}
			e := m.lastConflict(t, "lost_update", "f")
			if e.Base == 0 || e.Current != e.Base+1 {
				t.Errorf("%s: the event is %+v", save, e)
			}
			if got := b.OK(`tail -qn +1 .locks/history/f/* | grep -c two`); strings.TrimSpace(got) == "0" {
				t.Errorf("%s: the version that was replaced is not in the history", save)
			}
			// From then on it is like everybody else.
			b.OK(`y=$(cat f); echo again > f`)
			a.Refused(`mine`)
			b.OK(`rm f`)
		}
	})
}

// A program that reads the file after a refusal, and is overtaken once more, does not
// insist, however late it comes.
func TestReadingAgainIsNotInsisting(t *testing.T) {
	needsLatchfs(t)
	m := mount(t)
	a, b := stale(t, m)
	a.Refused(`echo "$x mine" > f`)
	time.Sleep(insistAfter)
	a.OK(`x=$(cat f)`)
	b.OK(`echo three > f`)
	a.Refused(`echo "$x mine" > f`)
	if got := b.OK(`cat f`); got != "three\n" {
		t.Errorf("f holds %q", got)
	}
}

// The policy can turn it off.
func TestInsistingIsNeverObeyed(t *testing.T) {
	needsLatchfs(t)
	m := mount(t, withPolicy(neverInsist))
	a, b := stale(t, m)
	a.Refused(`echo "$x mine" > f`)
	time.Sleep(insistAfter)
	a.Refused(`echo "$x mine" > f`)
	if got := b.OK(`cat f`); got != "two\n" {
		t.Errorf("f holds %q", got)
	}
	a.OK(`x=$(cat f); echo "$x mine" > f`)
}

// Under "merge" a program that writes the same bytes twice, while somebody else has put
// something else there in between, is told that they are not there.
func TestMergeOfTheSameBytesTwice(t *testing.T) {
	needsLatchfs(t)
	m := mount(t, withPolicy(mergePolicy))
	m.WriteFile("f", "base\n")
	a, b := m.Family(t), m.Family(t)
	a.OK(`cat f > /dev/null; printf 'mine\n' > f`)
	b.OK(`cat f > /dev/null; printf 'reset\n' > f`)
	out, code := a.Try(`"$PYTHON" -c 'f = open("f", "w"); f.write("mine\n"); f.close()'`)
	if got := b.OK(`cat f`); code == 0 && got != "mine\n" || code != 0 && !saysBusy(out) {
		t.Errorf("exit %d, %s; f holds %q", code, out, got)
	}
	// A program that has never read the file just writes it.
	c := m.Family(t)
	c.OK(`printf 'same\n' > g`)
	b.OK(`printf 'reset\n' > g`)
	c.OK(`printf 'same\n' > g`)
	if got := b.OK(`cat g`); got != "same\n" {
		t.Errorf("g holds %q", got)
	}
}

// nano asks whether a file that has changed is to be overwritten, and the user says yes.
func TestNanoMayOverwrite(t *testing.T) {
	alongside(t)
	needsLatchfs(t)
	if !installed("nano") {
		t.Skip("nano is not installed")
	}
	m := mount(t)
	m.WriteFile("f", "one\n")
	o := m.Bash(t, `"$PYTHON" - <<'E'
import os, pty, subprocess, sys, time
pid, fd = pty.fork()
if pid == 0: os.execvp("nano", ["nano", "-I", "f"])
seen = b""
def expect(*texts):
    global seen
    seen = b""
    while not any(t in seen for t in texts): seen += os.read(fd, 65536)
    return seen
def save():
    os.write(fd, b"\x0f"); expect(b"File Name to Write"); os.write(fd, b"\r")
    if b"modified" in expect(b"Wrote", b"Error", b"busy", b"modified"):
        os.write(fd, b"y"); expect(b"Wrote", b"Error", b"busy")
    return b"Wrote" in seen
expect(b"GNU nano"); os.write(fd, b"typed ")
expect(b"Modified")
subprocess.run(["setsid", "--fork", "sh", "-c", "echo two > f; touch done"], check=True)
while not os.path.exists("done"): time.sleep(0.01)
first = save(); time.sleep(1.2); second = save()
print(first, second)
E`)
	if !strings.Contains(o.Stdout, "False True") {
		t.Errorf("saved: %s", o.Stdout)
	}
	if got := m.ReadFile("f"); got != "typed one\n" {
		t.Errorf("f holds %q", got)
	}
}
