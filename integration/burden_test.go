package integration

import (
	"bufio"
	"fmt"
	"os"
	"strings"
	"syscall"
	"testing"

	"golang.org/x/sys/unix"

	"latchfs/integration/internal/wire"
)

// What one ordinary user can make root's daemon spend: threads, memory, descriptors,
// time.

// daemonStatus reads a number of the daemon's /proc/PID/status; sizes are in KiB.
func (m *Mount) daemonStatus(t *testing.T, field string) int {
	t.Helper()
	f, err := os.Open(fmt.Sprintf("/proc/%d/status", m.PID()))
	if err != nil {
		t.Fatal(err)
	}
	defer f.Close()
	for lines := bufio.NewScanner(f); lines.Scan(); {
		var n int
		if rest, ok := strings.CutPrefix(lines.Text(), field+":"); ok {
			if _, err := fmt.Sscan(rest, &n); err != nil {
				t.Fatal(err)
			}
			return n
		}
	}
	t.Fatalf("no field %s", field)
	return 0
}

// stuckParent starts a process of an ordinary user that answers no question, for it is
// in execve, which closes a descriptor of a filesystem that has stopped; and a child of
// it, which runs a script.
func stuckParent(t *testing.T, script string, argv ...string) *Proc {
	t.Helper()
	theirs := mount(t, asUser())
	theirs.WriteFile("g", "x")
	p := theirs.LaunchPython(t, `
import errno, os, sys, time
parent = os.getpid()
if os.fork() == 0:
    while True:
        pages = open("/proc/%d/statm" % parent).read().split()
        if pages[0] != "0" and pages[3] == "0":
            break
        time.sleep(0.001)
`+strings.ReplaceAll(script, "\n", "\n    ")+`
    print("done", flush=True)
    os._exit(0)
g = os.open(sys.argv[1], os.O_RDWR | os.O_CLOEXEC)
os.write(g, b"mine")
print("ready", flush=True)
sys.stdin.readline()
os.execv("/bin/sleep", ["sleep", "1000"])
`, append([]string{theirs.Path("g")}, argv...)...)
	p.AwaitLine("ready")
	stopped := theirs.PID()
	if err := syscall.Kill(stopped, syscall.SIGSTOP); err != nil {
		t.Fatal(err)
	}
	t.Cleanup(func() {
		if err := syscall.Kill(stopped, syscall.SIGCONT); err != nil {
			t.Error(err)
		}
		p.Kill()
	})
	p.Send("")
	return p
}

// A process that cannot be asked anything costs the daemon some threads and no more,
// however many requests its children make.
func TestStuckProcessCostsFewThreads(t *testing.T) {
	if *plain || os.Geteuid() != 0 {
		t.Skip("needs root's mount")
	}
	for _, opts := range [][]mountOption{{}, {noPassthrough()}} {
		t.Run("", func(t *testing.T) { stuckProcessCostsFewThreads(t, mount(t, opts...)) })
	}
}

func stuckProcessCostsFewThreads(t *testing.T, m *Mount) {
	m.WriteFile("f", "old\n")
	m.control.OK(wire.Request{Op: "chmod", Path: m.Path("f"), Mode: 0o666})
	holder := m.Client(t)
	fd := holder.Open("f", unix.O_RDWR)
	before := m.daemonStatus(t, "Threads")
	p := stuckParent(t, `
for _ in range(100):
    try:
        os.open(sys.argv[2], os.O_RDWR | os.O_NONBLOCK)
        print("opened", flush=True)
    except OSError as e:
        if e.errno != errno.EAGAIN: print(e, flush=True)
`, m.Path("f"))
	p.AwaitLine("done")
	if now := m.daemonStatus(t, "Threads"); now > before+30 {
		t.Errorf("%s: %d threads after 100 requests, %d before", m.Name, now, before)
	}
	if out := p.Stdout(); out != "ready\ndone\n" {
		t.Errorf("the requests: %s", out)
	}
	holder.MustClose(fd)
}

// Such a process delays no mount: root's comes up although nobody can look at it.
func TestStuckProcessDelaysNoMount(t *testing.T) {
	if *plain || os.Geteuid() != 0 {
		t.Skip("needs root's mount")
	}
	stuckParent(t, "\npass").AwaitLine("done")
	mount(t).WriteFile("f", "new\n")
}
