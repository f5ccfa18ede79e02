package integration

import (
	"fmt"
	"strings"
	"syscall"
	"testing"
	"time"

	"golang.org/x/sys/unix"

	"latchfs/integration/internal/wire"
)

// What a system call was promised while it waited ends with that call.

// An open with O_TRUNC that a signal ended truncates nothing when the program
// opens the file again without.
func TestInterruptedCreateIsForgotten(t *testing.T) {
	needsLatchfs(t)
	const script = `
import os, signal, sys
class Enough(Exception): pass
def enough(*_): raise Enough
signal.signal(signal.SIGALRM, enough)
try:
    open("f", "w")
except Enough:
    print("gave up", flush=True)
print(os.stat("other").st_size, flush=True)
sys.stdin.readline()
fd = os.open("f", os.O_WRONLY | os.O_CREAT)
os.write(fd, b"X")
os.close(fd)
`
	forEachMount(t, func(t *testing.T, m *Mount) {
		m.WriteFile("other", "x")
		c := m.Client(t)
		fd := c.Open("f", unix.O_WRONLY|unix.O_CREAT)
		c.Write(fd, "committed")
		p := m.LaunchPython(t, script)
		m.AwaitWaiters(t, "f", 1)
		p.Signal(syscall.SIGALRM)
		p.AwaitLine("gave up")
		p.AwaitLine("1") // another path is walked without a wait
		c.MustClose(fd)
		p.Send("go on")
		p.OK()
		if got := m.ReadFile("f"); got != "Xommitted" {
			t.Errorf("the file holds %q", got)
		}
	})
}

// An open that a signal interrupted and that the program repeats may be led to
// the shadow like any other, although somebody reads the file meanwhile.
func TestRetriedOpenBesideAReader(t *testing.T) {
	const script = `
import signal
signal.signal(signal.SIGALRM, lambda *_: print("ring", flush=True))
with open("f", "r+") as f:
    f.write("second")
`
	forEachMount(t, func(t *testing.T, m *Mount) {
		m.WriteFile("f", "old")
		reader, c := m.Client(t), m.Client(t)
		reader.Open("f", unix.O_RDONLY)
		fd := c.Open("f", unix.O_WRONLY|unix.O_TRUNC)
		c.Write(fd, "first")
		p := m.LaunchPython(t, script)
		m.AwaitWaiters(t, "f", 1)
		p.Signal(syscall.SIGALRM)
		p.AwaitLine("ring")
		m.AwaitWaiters(t, "f", 1)
		c.MustClose(fd)
		p.OK()
		if got := m.ReadFile("f"); got != "second" {
			t.Errorf("the file holds %q", got)
		}
	}, shortWait)
}

// A call that waited in vain leaves no lock behind, and the thread's next call
// waits like any other, even with the same arguments in the same memory.
func TestWaitedInVain(t *testing.T) {
	needsLatchfs(t)
	const script = `
import ctypes, errno, os, platform, sys
libc = ctypes.CDLL(None, use_errno=True)
unlinkat = {"x86_64": 263}.get(platform.machine(), 35)
name = ctypes.create_string_buffer(64)
for n in b"x1", b"x2":
    name.value = n
    ok = libc.syscall(unlinkat, -100, name, 0, 0, 0, 0) == 0
    print("unlinked" if ok else errno.errorcode[ctypes.get_errno()], flush=True)
sys.stdin.readline()
`
	forEachMount(t, func(t *testing.T, m *Mount) {
		m.WriteFile("x1", "v")
		m.WriteFile("x2", "v")
		c := m.Client(t)
		first, second := c.Open("x1", unix.O_RDWR), c.Open("x2", unix.O_RDWR)
		p := m.LaunchPython(t, script)
		m.AwaitWaiters(t, "x1", 1)
		c.OK(wire.Request{Op: "unlink", Path: m.Path("x1")})
		c.MustClose(first)
		p.AwaitLine("ENOENT")
		m.AwaitFree(t, promised(time.Second), "x1")
		if n := len(m.EventsOf("refusal", "x2")); n > 0 {
			t.Errorf("the next call was refused")
		}
		c.MustClose(second)
		p.AwaitLine("unlinked")
		p.Close()
		p.OK()
	})
}

// Who may not write the file any more when its turn comes does not keep others
// from it.
func TestRefusedWhenItsTurnComes(t *testing.T) {
	needsRoot(t) // another user sees root's mounts only
	needsLatchfs(t)
	for _, opts := range [][]mountOption{nil, {noPassthrough()}} {
		m := mount(t, opts...)
		m.control.OK(wire.Request{Op: "chmod", Path: m.Dir, Mode: 0o777})
		for _, flags := range []int{unix.O_RDWR, unix.O_RDWR | unix.O_CREAT} {
			m.WriteFile("p", "v")
			m.control.OK(wire.Request{Op: "chmod", Path: m.Path("p"), Mode: 0o666})
			c, other := m.Client(t), m.ClientAs(t, 65534)
			fd := c.Open("p", unix.O_RDWR)
			open := other.GoOpen("p", flags)
			open.MustBlock(t)
			c.OK(wire.Request{Op: "fchmod", FD: fd, Mode: 0o600})
			c.OK(wire.Request{Op: "pwrite", FD: fd, Data: []byte("w")})
			c.MustClose(fd)
			if _, err := open.Result(); err != syscall.EACCES {
				t.Errorf("open with flags %#x: %v, want EACCES", flags, err)
			}
			m.AwaitFree(t, promised(time.Second), "p")
		}
	}
}

// A file that its owner renames away while writing it leaves its name free.
func TestNameLeftByItsOwner(t *testing.T) {
	needsLatchfs(t)
	forEachMount(t, func(t *testing.T, m *Mount) {
		m.WriteFile("from", "old")
		c, other := m.Client(t), m.Client(t)
		fd := c.Open("from", unix.O_RDWR)
		create := other.GoOpen("from", unix.O_WRONLY|unix.O_CREAT)
		create.MustBlock(t)
		c.OK(c.path2("rename", "from", "to"))
		made := int(create.OK().N)
		other.Write(made, "new")
		other.MustClose(made)
		c.OK(wire.Request{Op: "pwrite", FD: fd, Data: []byte("OLD")})
		c.MustClose(fd)
		if from, to := m.ReadFile("from"), m.ReadFile("to"); from != "new" || to != "OLD" {
			t.Errorf("the files hold %q and %q", from, to)
		}
	}, shortWait)
}

// One thread closes a new file while another removes or renames it: the commit
// does not bring the name back.
func TestRemovedDuringItsClose(t *testing.T) {
	inStress(t)
	const script = `
import os, random, sys, threading, time
for n in range(int(sys.argv[1])):
    fd = os.open("f", os.O_RDWR | os.O_CREAT)
    os.write(fd, b"new" * 30000)
    t = threading.Thread(target=os.close, args=(fd,))
    t.start()
    time.sleep(random.random() * 0.002)
    if n % 2:
        os.unlink("f")
    else:
        os.rename("f", "g")
    t.join()
    if os.path.exists("f"):
        print("the name is back after", "unlink" if n % 2 else "rename")
`
	forEachMount(t, func(t *testing.T, m *Mount) {
		out := m.Python(t, script, fmt.Sprint(repeat(60, 2000)))
		if strings.TrimSpace(out) != "" {
			t.Error(out)
		}
	})
}
