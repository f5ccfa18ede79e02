package integration

import (
	"errors"
	"fmt"
	"os"
	"path/filepath"
	"slices"
	"strings"
	"syscall"
	"testing"
	"time"

	"golang.org/x/sys/unix"
)

// Show 3: a program that dies by a signal has not finished its file. The old
// content stays, nothing is left over, the lock is free, the next writer goes on. But
// what it had synced, and written nothing after, is its file, and so is a new one
// of a program that was asked to stop.

// halfWriter gets to the middle of a save in the way that argv[2] names, says so
// and waits to be killed; argv[3] is a signal it dies of by itself.
const halfWriter = `
import ctypes, os, resource, signal, sys, time
path, how, by = sys.argv[1:4]
resource.setrlimit(resource.RLIMIT_CORE, (0, 0))
if how == "truncating":
    fd = os.open(path, os.O_WRONLY | os.O_TRUNC)
elif how == "updating":
    fd = os.open(path, os.O_RDWR)
elif how == "appending":
    fd = os.open(path, os.O_RDWR)
    os.lseek(fd, 0, os.SEEK_END)
elif how == "creating":
    fd = os.open(path + ".new", os.O_WRONLY | os.O_CREAT | os.O_EXCL, 0o644)
elif how == "mapping":
    import mmap
    fd = os.open(path, os.O_RDWR)
    m = mmap.mmap(fd, 0)
    m[:4] = b"HALF"
elif how == "synced":
    fd = os.open(path, os.O_WRONLY | os.O_TRUNC)
os.write(fd, b"half of it")
if how == "synced":
    os.fsync(fd)
print("ready", flush=True)
sys.stdin.readline()
if by == "SEGV":
    ctypes.string_at(0)
signal.pause()
`

func TestKilledWriterRollsBack(t *testing.T) {
	const old = "the old content\n"
	ways := []string{"truncating", "updating", "appending", "creating", "mapping", "synced"}
	signals := []syscall.Signal{syscall.SIGKILL, syscall.SIGTERM, syscall.SIGSEGV}
	forEachMount(t, func(t *testing.T, m *Mount) {
		for i, how := range ways {
			for _, sig := range signals {
				t.Run(fmt.Sprintf("%s-%d", how, sig), func(t *testing.T) {
					name := fmt.Sprintf("f%d-%d", i, sig)
					m.WriteFile(name, old)
					killHalfWriter(t, m, name, how, sig)
					want := old
					if how == "synced" {
						want = "half of it"
					}
					if got := m.ReadFile(name); got != want {
						t.Errorf("the file holds %s", summary(got))
					}
					if there := slices.Contains(m.List(""), name+".new"); there != commits(how, sig) && how == "creating" {
						t.Errorf("the unfinished new file is there: %t", there)
					}
				})
			}
		}
	})
}

// commits reports whether what a writer has left that was killed in this way is its
// file.
func commits(how string, sig syscall.Signal) bool {
	return how == "synced" || how == "creating" && sig == syscall.SIGTERM
}

// killHalfWriter lets a writer begin, a second one wait for it, and kills the
// first one; the lock must be free at once and the second writer go on.
func killHalfWriter(t *testing.T, m *Mount, name, how string, sig syscall.Signal) {
	t.Helper()
	by := ""
	if sig == syscall.SIGSEGV {
		by = "SEGV"
	}
	p := m.LaunchPython(t, halfWriter, name, how, by)
	p.AwaitLine("ready")
	target := name
	if how == "creating" {
		target += ".new"
	}
	if !*plain {
		m.AwaitHolder(t, target, p.PID())
	}
	waiter := m.Client(t)
	next := waiter.GoOpen(name, unix.O_RDWR)
	if how == "creating" {
		next.OK() // another name: nobody is in the way
	} else {
		next.MustBlock(t)
	}
	if by == "" {
		p.Signal(sig)
	} else {
		p.Close()
	}
	if o := p.Wait(); o.Signal != sig {
		t.Fatalf("the writer ended with %v, want signal %v\n%s", o.Code, sig, o.Stderr)
	}
	died := time.Now()
	fd := int(next.OK().N)
	if took := time.Since(died); took > promised(100*time.Millisecond) {
		t.Errorf("the waiting writer went on %v after the death", took)
	}
	want := "the old content\n"
	if how == "synced" {
		want = "half of it"
	}
	if got := waiter.ReadAt(fd, 100, 0); got != want {
		t.Errorf("the waiting writer finds %s", summary(got))
	}
	waiter.MustClose(fd)
	if *plain {
		return
	}
	m.AwaitFree(t, promised(100*time.Millisecond), target)
	rollbacks := 1
	if commits(how, sig) {
		rollbacks = 0
	}
	if n := len(m.EventsOf("rollback", target)); n != rollbacks {
		t.Errorf("%d rollbacks of %s in the audit trail, want %d", n, target, rollbacks)
	}
}

// A shell whose command is killed half-way survives it, and its own close looks
// clean: the session must remember.
func TestShellOfAKilledCommandRollsBack(t *testing.T) {
	forEachMount(t, func(t *testing.T, m *Mount) {
		for _, shell := range []string{"bash", "dash"} {
			requireTool(t, shell)
			m.WriteFile("f", "old\n")
			// The shell goes on after its killed child; what it exits with says so.
			o := m.Run(t, shell, "-c", `sh -c 'echo half; kill -9 $$' > f; echo $?`)
			if strings.TrimSpace(o.Stdout) != "137" {
				t.Fatalf("%s: the command ended with %q %s", shell, o.Stdout, o.Stderr)
			}
			eventually(t, "the session's end", func() bool { return *plain || m.Status().Held() == 0 })
			if got := m.ReadFile("f"); got != "old\n" {
				t.Errorf("%s: the file holds %q", shell, got)
			}
		}
	})
}

// The parent ends while its child, which inherited the descriptor, writes on:
// the session is the child's now, and the child finishes it. If the parent was
// killed, it has not finished its part, and the child's close cannot mend that.
func TestSessionPassesToTheHeir(t *testing.T) {
	const script = `
import os, signal, sys
fd = os.open("f", os.O_WRONLY | os.O_TRUNC)
os.write(fd, b"parent ")
r, w = os.pipe()
if os.fork() == 0:
    os.close(w)
    os.read(r, 1)
    sys.stdin.readline()
    os.write(fd, b"child\n")
    os.close(fd)
    os._exit(0)
print("ready", flush=True)
if sys.argv[1] == "killed":
    signal.pause()
os._exit(0)
`
	forEachMount(t, func(t *testing.T, m *Mount) {
		for end, want := range map[string]string{"finished": "parent child\n", "killed": "old\n"} {
			m.WriteFile("f", "old\n")
			p := m.LaunchPython(t, script, end)
			p.AwaitLine("ready")
			if end == "killed" {
				p.Signal(syscall.SIGKILL)
			}
			eventually(t, "the parent's end", func() bool { return !alive(p.PID()) })
			waiter := m.Client(t)
			next := waiter.GoOpen("f", unix.O_RDWR)
			next.MustBlock(t)
			if got := m.ReadFile("f"); got != "old\n" {
				t.Errorf("%s: before the child is done the file holds %q", end, got)
			}
			p.Close()
			next.OK()
			if got := m.ReadFile("f"); got != want {
				t.Errorf("%s: after the child is done the file holds %q, want %q", end, got, want)
			}
			waiter.Quit()
		}
	})
}

// alive tells whether a process exists and is no zombie.
func alive(pid int) bool {
	state := procState(pid)
	return state != "" && state != "Z" && state != "X"
}

// procState is the state letter of /proc/PID/stat, "" when there is none.
func procState(pid int) string {
	text := readProc(pid, "stat")
	_, after, ok := strings.Cut(text, ") ")
	if !ok {
		return ""
	}
	return after[:1]
}

// A child is killed while it writes through the descriptor of its parent. Its exit is
// held up at another file, so that it has lost its descriptors and its FLUSH of this one
// has not come when the parent closes it: what the child had written is not a version.
func TestParentClosesBesideAKilledChild(t *testing.T) {
	alongside(t)
	if *plain {
		t.Skip("about closes that commit")
	}
	const writers = `
import os, signal, sys
os.dup2(os.open("f", os.O_WRONLY | os.O_TRUNC), 100)
os.closerange(3, 100)
child = os.fork()
if child == 0:
    os.write(100, b"half of it")
    os.write(os.open("slow", os.O_WRONLY | os.O_CREAT), b"x")
    print("ready", flush=True)
    signal.pause()
sys.stdin.readline()
os.kill(child, signal.SIGKILL)
sys.stdin.readline()
os.close(100)
print("closed", flush=True)
os.waitpid(child, 0)
`
	dir := t.TempDir()
	gate := filepath.Join(dir, "gate")
	err := unix.Mkfifo(gate, 0o666)
	for _, d := range []string{dir, filepath.Dir(dir)} {
		err = errors.Join(err, os.Chmod(d, 0o755)) // the program that judges may be another user's
	}
	if err != nil {
		t.Fatal(err)
	}
	config := fmt.Sprintf("[[rule]]\nglob = \"slow\"\non-kill = \"commit\"\ncommand = [\"/bin/cat\", %q]\ncommand-timeout = \"1m\"\n", gate)
	m := mount(t, withPolicy(config))
	m.WriteFile("f", "the old content\n")
	p := m.LaunchPython(t, writers)
	p.AwaitLine("ready")
	p.Send("kill")
	held, err := os.OpenFile(gate, os.O_WRONLY, 0) // until the child's exit has come to the slow file
	if err != nil {
		t.Fatal(err)
	}
	p.Send("close")
	p.AwaitLine("closed")
	if err := held.Close(); err != nil {
		t.Fatal(err)
	}
	p.OK()
	m.AwaitFree(t, promised(100*time.Millisecond), "f")
	if got := m.ReadFile("f"); got != "the old content\n" {
		t.Errorf("the file holds %s", summary(got))
	}
	if n := len(m.EventsOf("rollback", "f")); n != 1 {
		t.Errorf("%d rollbacks in the audit trail, want 1", n)
	}
}
