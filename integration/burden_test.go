package integration

import (
	"bufio"
	"fmt"
	"os"
	"os/exec"
	"path/filepath"
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

// hoarder is an ordinary user's program that lets the daemon keep as much as it can.
const hoarder = `
import errno, os, sys, json
root, what = sys.argv[1], sys.argv[2]
kept, refused = [], {}
def attempt(do):
    try:
        kept.append(do())
    except OSError as e:
        refused[errno.errorcode[e.errno]] = refused.get(errno.errorcode[e.errno], 0) + 1
def control(text):
    fd = os.open(root + "/.locks/control", os.O_RDWR)
    kept.append(fd)
    os.write(fd, text)
    return fd
def acquire(n):
    names = ["n%d-%d-" % (n, i) + "x" * 100 for i in range(1000)]
    fd = control(json.dumps({"op": "acquire", "names": names}).encode() + b"\n")
    reply = os.read(fd, 1 << 20)
    if b'"ok":true' not in reply:
        refused[json.loads(reply)["error"] if reply[:1] == b"{" else repr(reply[:200])] = 1
def replies(n):
    if n < 3:
        acquire(n)
    control(b'{"op":"list"}\n' * 40)
def list_directory():
    fd = os.open(root + "/bob/many", os.O_RDONLY)
    kept.append(fd)
    os.lseek(fd, 0, 0)
    libc.getdents64(fd)
def append(n):
    fd = os.open(root + "/bob/log%d.txt" % n, os.O_WRONLY | os.O_APPEND | os.O_CREAT)
    kept.append(fd)
    os.write(fd, b"x" * 1000000)
def views(n):
    if n < 2:
        acquire(n)
    kept.append(os.open(root + "/.locks/status.json", os.O_RDONLY))
class libc:
    import ctypes
    lib = ctypes.CDLL(None, use_errno=True)
    buf = ctypes.create_string_buffer(4096)
    @classmethod
    def getdents64(c, fd):
        if c.lib.syscall(217, fd, c.buf, 4096) < 0:
            raise OSError(c.ctypes.get_errno(), "getdents64")
rounds = {
    "half requests": lambda i: control(b"x" * 1000000),
    "locks": acquire,
    "replies": replies,
    "listings": lambda i: list_directory(),
    "lines": append,
    "views": views,
}
for i in range(60):
    attempt(lambda: rounds[what](i))
print(json.dumps(refused), flush=True)
sys.stdin.readline()
`

// One user cannot make the daemon keep more than its share: what is too much is refused
// with an errno that says so, others work meanwhile, and in the end nothing is left.
func TestMemoryOfOneUserIsBounded(t *testing.T) {
	inTest(t)
	mounts := oneStrangerMount // passthrough is about what is in files
	if stress() {
		mounts = strangerMounts
	}
	mounts(t, func(t *testing.T, m *Mount) {
		m.control.OK(wire.Request{Op: "mkdir", Path: m.Path("bob/many"), Mode: 0o755})
		for i := range 2500 {
			name := fmt.Sprintf("bob/many/%d-%s", i, strings.Repeat("x", 200))
			if err := os.WriteFile(filepath.Join(m.Data, name), nil, 0o644); err != nil {
				t.Fatal(err)
			}
		}
		alice := m.ClientAs(t, ordinaryUID)
		for _, x := range []struct{ what, refused string }{
			{"half requests", "ENOBUFS"}, {"locks", "unavailable"}, {"replies", ""}, {"listings", "ENOMEM"}, {"lines", ""}, {"views", "ENOMEM"},
		} {
			before := m.daemonStatus(t, "VmRSS")
			p := m.launchAs(t, otherUID, bench.python, "-c", hoarder, m.Dir, x.what)
			eventually(t, x.what, func() bool { return strings.HasSuffix(p.Stdout(), "}\n") || p.Done() })
			if out := p.Stdout() + p.Stderr(); x.refused != "" && !strings.Contains(out, x.refused) {
				t.Errorf("%s: refused are %q, want some with %s", x.what, out, x.refused)
			}
			if now := m.daemonStatus(t, "VmRSS"); !m.raced() && now > before+120<<10 {
				t.Errorf("%s: the daemon has %d KiB, before %d", x.what, now, before)
			}
			change(t, alice)
			m.guardAs(t, ordinaryUID, m.Path("alice/f"))()
			p.Kill()
			m.AwaitClear(t)
		}
	}, asInstalled()) // the race detector takes three times as long for so many locks
}

// launchAs is Launch for another user.
func (m *Mount) launchAs(t *testing.T, uid int, name string, argv ...string) *Proc {
	t.Helper()
	of := *m
	of.UID = uid
	return of.launch(t, exec.Command(name, argv...))
}

// What is too deep is not made, and what is so deep is removed.
func TestPathsHaveALimit(t *testing.T) {
	strangerMounts(t, func(t *testing.T, m *Mount) {
		out, err := m.runAs(t, otherUID, bench.python, "-c", `
import errno, os, sys
os.chdir(sys.argv[1])
made = 0
try:
    for made in range(120):
        os.mkdir("x" * 200)
        os.chdir("x" * 200)
except OSError as e:
    print(errno.errorcode[e.errno])
try:
    open("f" * 200, "w")
    print("written")
except OSError as e:
    print(errno.errorcode[e.errno])
for _ in range(made):
    os.chdir("..")
    os.rmdir("x" * 200)
print("removed" if 60 < made < 90 else made)
`, m.Path("bob"))
		if err != nil || out != "ENAMETOOLONG\nENAMETOOLONG\nremoved\n" {
			t.Errorf("%q, %v", out, err)
		}
	})
}
