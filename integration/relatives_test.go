package integration

import (
	"fmt"
	"strings"
	"testing"
	"time"

	"golang.org/x/sys/unix"
)

// Show 6: a child that writes what its parent holds joins the parent's session;
// nobody waits for himself.

// shortWait is the lock timeout where nobody should wait at all: a wait shows as a
// refusal, before patience is over.
var shortWait = lockTimeout(patience / 2)

// unwaited runs a script on a mount with shortWait: it must succeed.
func unwaited(t *testing.T, m *Mount, name string, argv ...string) {
	t.Helper()
	start := time.Now()
	o := m.Run(t, name, argv...)
	if took := time.Since(start); o.Code != 0 || o.Stderr != "" || took > patience/2 {
		t.Errorf("%.300q ended with %d after %v\n%s%s", argv, o.Code, took, o.Stdout, o.Stderr)
	}
}

func TestChildrenJoinTheirParentsSession(t *testing.T) {
	shells := []struct{ what, script, want string }{
		{"a child appends beside the parent", `exec 3> f; echo parent >&3; sh -c 'echo child >> f'; exec 3>&-`, "parent\nchild\n"},
		{"a group", `{ echo one; sh -c 'echo two'; echo three; } > f`, "one\ntwo\nthree\n"},
		{"a child replaces what the parent holds", `exec 3<> f; sh -c 'echo new > t && mv t f'; exec 3>&-`, "new\n"},
		{"a grandchild removes it", `exec 3<> f; sh -c 'sh -c "rm f; echo again > f"'; exec 3>&-`, "again\n"},
		{"a pipeline under one descriptor", `exec 3> f; echo b a | tr ' ' '\n' | sort >&3; exec 3>&-`, "a\nb\n"},
		{"chmod by a child", `exec 3> f; chmod 640 f; echo x >&3; exec 3>&-; stat -c %a f >> f`, "x\n640\n"},
	}
	forEachMount(t, func(t *testing.T, m *Mount) {
		for _, c := range shells {
			m.WriteFile("f", "old\n")
			unwaited(t, m, "bash", "-c", c.script)
			if got := m.ReadFile("f"); got != c.want {
				t.Errorf("%s: f holds %q, want %q", c.what, got, c.want)
			}
		}
	}, shortWait)
}

func TestPythonChildrenJoinTheirParentsSession(t *testing.T) {
	const script = `
import os, subprocess, sys
with open("f", "w") as f:
    f.write("parent\n"); f.flush()
    subprocess.run(["sh", "-c", "echo inherited"], stdout=f, check=True)
    subprocess.run(["sh", "-c", "echo by name >> f"], check=True)
    if os.fork() == 0:
        with open("f", "a") as g:
            g.write("forked\n")
        os._exit(0)
    assert os.wait()[1] == 0
`
	forEachMount(t, func(t *testing.T, m *Mount) {
		m.WriteFile("f", "old\n")
		unwaited(t, m, bench.python, "-c", script)
		// The file offset of the inherited descriptor is the parent's, so
		// nothing of the four is overwritten.
		if got, want := m.ReadFile("f"), "parent\ninherited\nby name\nforked\n"; got != want {
			t.Errorf("f holds %q, want %q", got, want)
		}
	}, shortWait)
}

// A child that was there before the session began is not its heir: two workers
// of one pool must exclude each other although one is the other's parent.
func TestOlderChildIsNoHeir(t *testing.T) {
	const script = `
import os, sys
r, w = os.pipe()
child = os.fork()
if child == 0:
    os.read(r, 1)
    try:
        os.close(os.open("f", os.O_WRONLY | os.O_NONBLOCK))
    except BlockingIOError:
        os._exit(11)
    os._exit(0)
fd = os.open("f", os.O_WRONLY)
os.write(w, b"x")
_, status = os.waitpid(child, 0)
os.close(fd)
print(os.waitstatus_to_exitcode(status))
`
	forEachMount(t, func(t *testing.T, m *Mount) {
		m.WriteFile("f", "old\n")
		if got := strings.TrimSpace(m.Python(t, script)); got != "11" {
			t.Errorf("the older child's open was not refused with EAGAIN: exit %s", got)
		}
	})
}

// `flock f -c 'jq … > t && mv t f'` from several processes at once: all succeed. The
// lock is on the name, not on the inode that mv replaces, so that no increment
// is lost either, which it is on a plain directory.
func TestFlockAroundReplace(t *testing.T) {
	alongside(t)
	processes := repeat(6, 20)
	forEachMount(t, func(t *testing.T, m *Mount) {
		requireTool(t, "jq", "flock")
		const first = `{"n": 0}`
		m.WriteFile("f", first)
		gate := m.Client(t)
		fd := gate.Open("f", unix.O_RDONLY)
		gate.OK(flockReq(fd, unix.LOCK_EX))
		var procs []*Proc
		for n := range processes {
			if n == processes/2 {
				// The first half waits with the first version open, the rest
				// comes while that version is being replaced.
				for _, p := range procs {
					eventually(t, "flock waits", func() bool { return inSyscall(p.PID(), unix.SYS_FLOCK) })
				}
				gate.MustClose(fd)
				eventually(t, "the first replacement", func() bool { return m.ReadFile("f") != first })
			}
			procs = append(procs, m.Launch(t, "flock", "f", "-c", `jq '.n += 1' f > t && mv t f`))
		}
		for _, p := range procs {
			if o := p.Wait(); o.Code != 0 {
				t.Errorf("ended with %d %s", o.Code, o.Stderr)
			}
		}
		var doc struct{ N int }
		m.decode(m.ReadFile("f"), &doc)
		if doc.N != processes {
			t.Errorf("the counter is %d, want %d", doc.N, processes)
		}
	})
}

// Two unrelated shells that hold different files and write the other's wait for
// each other's close only, never for themselves: re-entrancy does not queue.
func TestReentryOvertakesTheQueue(t *testing.T) {
	forEachMount(t, func(t *testing.T, m *Mount) {
		m.WriteFile("f", "")
		holder := m.LaunchBash(t, `exec 3> f; echo one >&3; echo ready; read; sh -c 'echo two >> f'; exec 3>&-`)
		holder.AwaitLine("ready")
		var waiters []*Proc
		for i := range 3 {
			p := m.LaunchBash(t, fmt.Sprintf(`exec 3<> f; cat <&3 >/dev/null; echo waiter%d >&3`, i))
			p.MustWait()
			waiters = append(waiters, p)
		}
		holder.Close()
		holder.OK()
		for _, p := range waiters {
			p.OK()
		}
		if got, want := m.ReadFile("f"), "one\ntwo\nwaiter0\nwaiter1\nwaiter2\n"; got != want {
			t.Errorf("f holds %q, want %q", got, want)
		}
	})
}
