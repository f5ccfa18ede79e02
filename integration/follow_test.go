package integration

import (
	"os"
	"path/filepath"
	"strings"
	"syscall"
	"testing"

	"golang.org/x/sys/unix"
)

// What is kept by path follows when a directory above gets another name.

// A lock that was taken by command is shown, checked, asked for and given back under
// the new path, and the old path leads to nothing.
func TestAcquiredLockFollowsItsDirectory(t *testing.T) {
	needsLatchfs(t)
	forEachMount(t, func(t *testing.T, m *Mount) {
		mine, other := m.shell(t), m.shell(t)
		mine.do(`mkdir -p d/sub && touch d/a d/b d/c`, 0)
		mine.do(`$L acquire d/a d/b --tree d/sub && $L acquire d/c`, 0)
		other.do(`mv d e`, 0)
		for _, path := range []string{"e/a", "e/b", "e/c"} {
			if out := mine.do(`$L check `+path, 1); !strings.Contains(out, "our own") {
				t.Errorf("check says %q of %s", out, path)
			}
		}
		for _, out := range []string{mine.do(`$L list --mine`, 0), mine.do(`$L status`, 0), mine.do(`find .locks/held`, 0)} {
			if !strings.Contains(out, "e/a") || strings.Contains(out, "d/a") {
				t.Errorf("the locks are shown as %q", out)
			}
		}
		other.do(`$L acquire --wait 0 e/c`, 8)
		other.do(`$L acquire --wait 0 e/sub/new`, 8)
		if out := mine.do(`$L release d/a 2>&1`, 1); !strings.Contains(out, "no such file") || !strings.Contains(out, "list --mine") {
			t.Errorf("a release by the old name says %q", out)
		}
		for _, path := range []string{"e/a", "e/c", "--tree e/sub", "e/b"} {
			if out := mine.do(`$L release `+path+` 2>&1`, 0); out != "" {
				t.Errorf("release %s says %q", path, out)
			}
		}
		m.AwaitClear(t)
	})
}

// Two directories that change places take their locks along.
func TestAcquiredLocksFollowAnExchange(t *testing.T) {
	needsLatchfs(t)
	const exchange = `import ctypes, os; assert ctypes.CDLL(None).renameat2(-100, b"d", -100, b"e", 2) == 0`
	forEachMount(t, func(t *testing.T, m *Mount) {
		one, two := m.shell(t), m.shell(t)
		one.do(`mkdir d e && $L acquire d/a`, 0)
		two.do(`$L acquire e/b`, 0)
		m.Python(t, exchange)
		if out := one.do(`$L release e/a 2>&1`, 0); out != "" {
			t.Errorf("release e/a says %q", out)
		}
		if out := two.do(`$L release d/b 2>&1`, 0); out != "" {
			t.Errorf("release d/b says %q", out)
		}
		m.AwaitClear(t)
	})
}

// Who waits for a lock gets it under the new path.
func TestWaitingAcquireFollowsItsDirectory(t *testing.T) {
	needsLatchfs(t)
	forEachMount(t, func(t *testing.T, m *Mount) {
		mine := m.shell(t)
		mine.do(`mkdir d && touch d/a && $L acquire d/a`, 0)
		next := m.LaunchBash(t, `$1 acquire d/a && echo got && read; $1 release e/a; exit $?`, bench.binary)
		m.AwaitWaiters(t, "d/a", 1)
		mine.do(`mv d e`, 0)
		m.AwaitWaiters(t, "e/a", 1)
		mine.do(`$L release e/a`, 0)
		next.AwaitLine("got")
		m.AwaitHolder(t, "e/a", next.PID())
		next.Send("")
		next.OK()
		if out := next.Stderr(); out != "" {
			t.Errorf("release e/a says %q", out)
		}
		m.AwaitClear(t)
	})
}

// A lock is on the name: it stays when the file that has the name gets another one.
func TestAcquiredLockStaysWithItsName(t *testing.T) {
	needsLatchfs(t)
	forEachMount(t, func(t *testing.T, m *Mount) {
		mine := m.shell(t)
		mine.do(`echo 1 > a && $L acquire a && mv a b`, 0)
		mine.do(`$L check b`, 0)
		if out := mine.do(`$L check a`, 1); !strings.Contains(out, "our own") {
			t.Errorf("check says %q", out)
		}
		if out := mine.do(`$L release a 2>&1`, 0); out != "" {
			t.Errorf("release says %q", out)
		}
		m.AwaitClear(t)
	})
}

// Who worked under a lock that was stolen is kept out of the files under their new
// paths, too, and out of the old path no longer.
func TestFenceFollowsTheDirectory(t *testing.T) {
	needsLatchfs(t)
	const command = `echo ready; read
echo late > e/f; echo "file $?"; echo late > e/t/g; echo "tree $?"; mkdir d; echo new > d/f; echo "old name $?"; read`
	forEachMount(t, func(t *testing.T, m *Mount) {
		m.Mkdir("d")
		m.Mkdir("d/t")
		m.WriteFile("d/f", "old\n")
		m.WriteFile("d/t/g", "old\n")
		p := m.Guard(t, "d/f", "--tree", "d/t", "--", "bash", "-c", command)
		p.AwaitLine("ready")
		m.signalTree(t, p, syscall.SIGSTOP)
		m.AwaitStale(t, "d/f")
		mustEndWith(t, m.Latchfs(t, "steal", "--force", "d/f"), 0)
		m.control.OK(m.control.path2("rename", "d", "e"))
		m.signalTree(t, p, syscall.SIGCONT)
		p.Send("go")
		p.AwaitLine("old name 0")
		if out := p.Stdout(); !strings.Contains(out, "file 1\n") || !strings.Contains(out, "tree 1\n") {
			t.Errorf("after the theft: %s%s", out, p.Stderr())
		}
		if got := m.ReadFile("e/f") + m.ReadFile("e/t/g"); got != "old\nold\n" {
			t.Errorf("the files hold %q", got)
		}
		p.Send("end")
		p.Wait()
	}, briefLease("600ms"))
}

// The version that somebody has read is there to merge with after a rename, without a
// history, too.
func TestMergeBaseFollowsTheDirectory(t *testing.T) {
	needsLatchfs(t)
	const script = `
import json, sys
with open("d/f.json") as f: d = json.load(f)
print("read", flush=True)
sys.stdin.readline()
d["mine"] = 1
with open("e/f.json", "w") as f: json.dump(d, f)
`
	forEachMount(t, func(t *testing.T, m *Mount) {
		m.Mkdir("d")
		m.WriteFile("d/f.json", `{"a": 0}`)
		p := m.LaunchPython(t, script)
		p.AwaitLine("read")
		m.Python(t, `
import json
with open("d/f.json") as f: d = json.load(f)
d["theirs"] = 1
with open("d/f.json", "w") as f: json.dump(d, f)`)
		m.control.OK(m.control.path2("rename", "d", "e"))
		p.Send("go")
		p.OK()
		var got map[string]int
		m.decode(m.ReadFile("e/f.json"), &got)
		if len(got) != 3 || got["mine"] != 1 || got["theirs"] != 1 {
			t.Errorf("the file holds %v", got)
		}
		m.nothingRefused(t, "e/f.json")
	}, withPolicy("[defaults]\nlost-update = \"merge\"\nhistory = 0\n"))
}

// An open that was made to lock the file (flock FILE COMMAND) is no look at it, by
// whatever path the command then writes.
func TestOpenToLockFollowsTheDirectory(t *testing.T) {
	needsLatchfs(t)
	requireTool(t, "flock")
	forEachMount(t, func(t *testing.T, m *Mount) {
		m.Mkdir("d")
		m.WriteFile("d/f", "0\n")
		holder := m.Client(t)
		fd := holder.Open("d/f", unix.O_RDONLY)
		holder.OK(flockReq(fd, unix.LOCK_EX))
		p := m.LaunchBash(t, `exec flock d/f sh -c 'echo mine > e/f'`)
		m.AwaitWaiters(t, "d/f", 1)
		m.control.OK(m.control.path2("rename", "d", "e"))
		if err := holder.Save("e/f", "theirs\n"); err != nil {
			t.Fatal(err)
		}
		holder.MustClose(fd)
		p.OK()
		if got := m.ReadFile("e/f"); got != "mine\n" {
			t.Errorf("the file holds %q", got)
		}
	})
}

// The claim of a read is the reader's under the new path: it ends when the reader locks
// the file by itself.
func TestReadClaimFollowsTheDirectory(t *testing.T) {
	needsLatchfs(t)
	forEachMount(t, func(t *testing.T, m *Mount) {
		m.Mkdir("d")
		m.WriteFile("d/f", "0")
		first, next := m.Client(t), m.Client(t)
		fd := first.Open("d/f", unix.O_RDONLY)
		m.AwaitHolder(t, "d/f", first.PID)
		read := next.GoOpen("d/f", unix.O_RDONLY)
		read.MustBlock(t)
		m.control.OK(m.control.path2("rename", "d", "e"))
		m.AwaitHolder(t, "e/f", first.PID)
		first.OK(flockReq(fd, unix.LOCK_SH))
		next.MustClose(int(read.OK().N))
		first.MustClose(fd)
		// Who waited meanwhile has its claim under the new path.
		m.AwaitHolder(t, "e/f", next.PID)
		fd = next.Open("e/f", unix.O_RDONLY)
		next.OK(flockReq(fd, unix.LOCK_SH))
		m.AwaitStatus(t, "no claim is left", func(s Status) bool {
			for _, l := range s.HeldLocks {
				if l.Operation == "read" {
					return false
				}
			}
			return true
		})
		first.Kill()
		next.Kill()
	}, serialized(""))
}

// Who was seen to read a file and not to write it claims it as little under its new
// path.
func TestReadMarkFollowsTheDirectory(t *testing.T) {
	alongside(t)
	needsLatchfs(t)
	forEachMount(t, func(t *testing.T, m *Mount) {
		m.Mkdir("d")
		m.WriteFile("d/f", "0")
		looks := m.Client(t)
		looks.ReadFile("d/f")
		m.AwaitHolder(t, "d/f", looks.PID)
		m.AwaitStatus(t, "the claim has ended", func(s Status) bool { return s.Held() == 0 })
		m.control.OK(m.control.path2("rename", "d", "e"))
		looks.ReadFile("e/f")
		if s := m.Status(); s.Held() != 0 {
			t.Errorf("who only looks claims: %+v", s.HeldLocks)
		}
		looks.Kill()
	}, withPolicy("[defaults]\nlost-update = \"serialize\"\nclaim-ttl = \"500ms\"\n"))
}

// A program that writes back what it has read is recognised by that under a new path,
// too.
func TestLessonFollowsTheDirectory(t *testing.T) {
	needsLatchfs(t)
	const program = `
import os
text = open("d/f").read()
os.rename("d", "e")
open("e/f", "w").write(text + "1")
`
	forEachMount(t, func(t *testing.T, m *Mount) {
		m.Mkdir("d")
		m.WriteFile("d/f", "0")
		script := filepath.Join(m.Home(), "writeback.py")
		if err := os.WriteFile(script, []byte(program), 0o644); err != nil {
			t.Fatal(err)
		}
		m.Launch(t, bench.python, script).OK()
		learned(t, m, "yes", "/writeback.py")
		if text := m.Locks("programs"); !strings.Contains(text, "wrote back e/f at") {
			t.Errorf("learned:\n%s", text)
		}
	}, adaptive())
}

// A file that changes places with a directory is the file that it was: its writer may
// change it, and whoever has not seen it under that name may not.
func TestFileExchangedWithDirectory(t *testing.T) {
	needsLatchfs(t)
	const script = `
import ctypes, os, sys
def exchange(a, b): assert ctypes.CDLL(None).renameat2(-100, a.encode(), -100, b.encode(), 2) == 0
def save(name, content):
    with open(name, "w") as f: f.write(content)
save("a", "one")
open("a").read()
os.mkdir("e")
exchange("a", "e")
assert open("e").read() == "one" and os.path.isdir("a")
save("e", "one more")
save("b", "two")
exchange("b", "a")
save("a", "three")
assert open("a").read() == "three" and os.path.isdir("b")
`
	forEachMount(t, func(t *testing.T, m *Mount) {
		m.Python(t, script)
		for _, ev := range m.Events() {
			if ev.Event == "bypass" || ev.Event == "conflict" {
				t.Errorf("%+v", ev)
			}
		}
		m.WriteFile("f", "old")
		reader := m.LaunchPython(t, `
import errno
open("f").read()
print("read", flush=True)
input()
try:
    open("f", "w").write("based on old")
    print("written")
except OSError as e:
    print(errno.errorcode[e.errno])
`)
		reader.AwaitLine("read")
		m.Python(t, `
import ctypes, os
os.mkdir("d")
open("g", "w").write("another")
for a, b in (b"f", b"d"), (b"g", b"f"):
    assert ctypes.CDLL(None).renameat2(-100, a, -100, b, 2) == 0
`)
		reader.Send("")
		if got := reader.OK(); got != "read\nEBUSY\n" {
			t.Errorf("who has read what had the name before is told %q", got)
		}
	})
}

// A file that has got a name back is opened by it at once, although it has lost the name
// a moment ago, and others since.
func TestNameThatCameBack(t *testing.T) {
	needsLatchfs(t)
	const script = `
import os, sys, time
def run(steps):
    held = None
    for step in steps.split():
        op, *names = step.split(":")
        if op == "save":
            with open(names[0], "w") as f: f.write("data")
        elif op == "link": os.link(*names)
        elif op == "rename": os.rename(*names)
        elif op == "read": held = os.open(names[0], os.O_RDONLY)
        elif op == "edit":
            pid = os.fork() # another process, in the same moment
            if pid == 0:
                try:
                    fd = os.open(names[0], os.O_RDWR); os.pwrite(fd, b"new", 0); os.close(fd)
                    os._exit(0)
                except OSError as e:
                    os._exit(e.errno)
            status = os.waitstatus_to_exitcode(os.waitpid(pid, 0)[1])
            if status: print(steps, "->", os.strerror(status))
    if held: os.close(held)
for i, steps in enumerate(sys.argv[1:]):
    os.mkdir(str(i)); os.chdir(str(i)); run(steps); os.chdir("..")
`
	forEachMount(t, func(t *testing.T, m *Mount) {
		out := m.Python(t, script,
			"save:a link:a:y read:y rename:a:e rename:e:a rename:y:e edit:a",
			"save:a link:a:y read:y rename:a:e rename:y:a rename:e:q edit:a",
			"save:a link:a:y read:y rename:a:e rename:y:a rename:a:b link:b:a edit:a")
		if out != "" {
			t.Error(out)
		}
	}, withPolicy("[defaults]\nwait = \"5s\"\n"))
}

// A file that its program has open, and exchanges with a directory, is written under the
// name that it has then, also in another directory.
func TestOpenFileExchangedWithDirectory(t *testing.T) {
	forEachMount(t, func(t *testing.T, m *Mount) {
		m.Python(t, `
import ctypes, os
def exchange(a, b): assert ctypes.CDLL(None).renameat2(-100, a.encode(), -100, b.encode(), 2) == 0
os.makedirs("d/e")
for first, second in ("a", "e"), ("b", "d/e"), ("d/g", "h"):
    os.makedirs(second, exist_ok=True)
    with open(first, "w") as f: f.write("old")
    with open(first, "w") as f:
        f.write("new")
        f.flush()
        exchange(first, second)
        f.write("er")
    assert os.path.isdir(first), first
    with open(second) as f: assert f.read() == "newer", second
    with open(second, "a") as f: f.write(" still")
    with open(second) as f: assert f.read() == "newer still", second
`)
	})
}
