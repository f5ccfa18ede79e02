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

// What can be done to a file through descriptors that were opened before, in
// other modes, or by other names.

// A process that appends to a file and rewrites it as well gets what it gets on
// a plain directory.
func TestAppendBesideARewrite(t *testing.T) {
	forEachMount(t, func(t *testing.T, m *Mount) {
		for script, want := range map[string]string{
			`exec >>f; echo a; echo new >f; echo b`:                      "new\nb\n",
			`exec 3>>f; { echo new; echo log >&3; } >f; echo more >&3`:   "new\nlog\nmore\n",
			`exec 3>>f 4<>f; echo log >&3; exec 4>&-; echo more >&3`:     "base\nlog\nmore\n",
			`exec 3>>f; for i in 1 2; do echo $i >f; echo x >&3; done`:   "2\nx\n",
			`{ echo one; sh -c 'echo two >>f'; } >f; cat f >g; cp g f`:   "one\ntwo\n",
			`exec 3>>f; sh -c 'echo new >f'; sed -i s/new/old/ f; : >&3`: "old\n",
		} {
			m.WriteFile("f", "base\n")
			m.LaunchBash(t, script).OK()
			if got := m.ReadFile("f"); got != want {
				t.Errorf("%s leaves %q, want %q", script, got, want)
			}
		}
	})
}

// An appender goes on in the file that took the place of its own, but not where
// its opener could not, and not after an unlink.
func TestAppenderFollows(t *testing.T) {
	needsRoot(t) // another user sees root's mounts only
	needsLatchfs(t)
	for _, opts := range [][]mountOption{nil, {noPassthrough()}} {
		m := mount(t, opts...)
		m.control.OK(wire.Request{Op: "chmod", Path: m.Dir, Mode: 0o1777})
		c := m.ClientAs(t, 65534)
		for name, take := range map[string]func(name string){
			"saved":    func(name string) { m.control.OK(m.control.path2("rename", "other", name)) },
			"unlinked": func(name string) { m.control.OK(wire.Request{Op: "unlink", Path: m.Path(name)}) },
		} {
			if err := c.Save(name, "mine\n"); err != nil {
				t.Fatal(err)
			}
			fd := c.Open(name, unix.O_RDWR|unix.O_APPEND)
			c.Write(fd, "first\n")
			m.WriteFile("other", "secret\n")
			m.control.OK(wire.Request{Op: "chmod", Path: m.Path("other"), Mode: 0o600})
			take(name)
			if name == "unlinked" {
				m.control.OK(m.control.path2("rename", "other", name))
				m.control.OK(wire.Request{Op: "chmod", Path: m.Path(name), Mode: 0o666})
			}
			c.Write(fd, "second\n")
			if got := c.ReadAt(fd, 100, 0); got != "mine\nfirst\nsecond\n" {
				t.Errorf("%s: the descriptor reads %q", name, got)
			}
			if got := m.ReadFile(name); got != "secret\n" {
				t.Errorf("%s: the other's file holds %q", name, got)
			}
			c.MustClose(fd)
		}
	}
}

// An append by an ordinary user clears the setuid bit as it does elsewhere.
func TestAppendClearsSetuid(t *testing.T) {
	needsRoot(t)
	for _, opts := range [][]mountOption{nil, {noPassthrough()}} {
		m := mount(t, opts...)
		m.WriteFile("f", "#!\n")
		m.control.OK(wire.Request{Op: "chmod", Path: m.Path("f"), Mode: 0o4777})
		c := m.ClientAs(t, 65534)
		fd := c.Open("f", unix.O_WRONLY|unix.O_APPEND)
		c.Write(fd, "more\n")
		c.MustClose(fd)
		if st, err := m.control.Stat("f"); err != nil || st.Mode&0o7777 != 0o777 {
			t.Errorf("mode %o, %v", st.Mode, err)
		}
	}
}

// Bytes that could not be appended are told of; those after them are appended.
func TestAppendAfterARefusal(t *testing.T) {
	needsLatchfs(t)
	forEachMount(t, func(t *testing.T, m *Mount) {
		m.WriteFile("log", "old\n")
		c, other := m.Client(t), m.Client(t)
		fd := c.Open("log", unix.O_WRONLY|unix.O_APPEND)
		held := other.Open("log", unix.O_RDWR)
		c.Write(fd, "refused\n")
		if _, err := c.Do(wire.Request{Op: "fsync", FD: fd}); err != syscall.EBUSY {
			t.Errorf("fsync of what cannot be appended: %v", err)
		}
		other.MustClose(held)
		if _, err := c.Do(wire.Request{Op: "write", FD: fd, Data: []byte("told\n")}); err != syscall.EBUSY {
			t.Errorf("the next write: %v", err)
		}
		c.Write(fd, "kept\n")
		c.MustClose(fd)
		if got := m.ReadFile("log"); got != "old\nkept\n" {
			t.Errorf("the log holds %q", got)
		}
		awaitKept(t, m, "refused\n")
	}, lockTimeout(300*time.Millisecond))
}

// O_TRUNC truncates whoever else of the process has the file open or has just
// closed it.
func TestTruncatingOpenOfARunningSession(t *testing.T) {
	alongside(t)
	const script = `
import os, sys, threading
def around():
    for _ in range(4):
        os.close(os.open("f", os.O_RDWR))
for n in range(int(sys.argv[1])):
    with open("f", "w") as f:
        f.write("A" * 1000)
    os.close(os.open("f", os.O_RDWR))
    t = threading.Thread(target=around)
    beside = n % 2 and sys.argv[2] == "threads"
    if beside:
        t.start()
    fd = os.open("f", os.O_WRONLY | os.O_TRUNC)
    os.write(fd, b"x")
    os.close(fd)
    if beside:
        t.join()
    got = open("f").read()
    if got != "x":
        print(len(got), got[:10])
`
	for who, rounds := range map[string]int{"alone": repeat(20, 5000), "threads": repeat(150, 5000)} {
		t.Run(who, func(t *testing.T) {
			if who == "threads" {
				inStress(t)
			}
			forEachMount(t, func(t *testing.T, m *Mount) {
				if out := m.Python(t, script, fmt.Sprint(rounds), who); strings.TrimSpace(out) != "" {
					t.Error(out)
				}
			})
		})
	}
}

// A request that the filesystem refuses does not spoil the session.
func TestRefusedRequestsSpoilNothing(t *testing.T) {
	const script = `
import errno, os
fd = os.open("f", os.O_RDWR | os.O_TRUNC)
os.write(fd, b"new")
for request in lambda: os.truncate("f", 1 << 62), lambda: os.ftruncate(fd, 1 << 62):
    try:
        request()
        print("done")
    except OSError as e:
        print(errno.errorcode[e.errno])
os.close(fd)
big = os.open("big", os.O_RDWR)
print(os.copy_file_range(big, big, 4096, 4096, 0) == 4096 and os.pread(big, 4, 0) == b"\1" * 4)
os.close(big)
`
	forEachMount(t, func(t *testing.T, m *Mount) {
		m.WriteFile("f", "old")
		m.WriteFile("big", strings.Repeat("\x01", 17<<20))
		if out := m.Python(t, script); out != "EFBIG\nEFBIG\nTrue\n" {
			t.Errorf("%q", out)
		}
		if got := m.ReadFile("f"); got != "new" {
			t.Errorf("the file holds %q", got)
		}
	})
}

// What is stored through a mapping after the file was renamed into place is
// committed at the close.
func TestStoresAfterARename(t *testing.T) {
	const script = `
import mmap, os
fd = os.open("f.new", os.O_RDWR | os.O_CREAT | os.O_EXCL)
os.ftruncate(fd, 4096)
m = mmap.mmap(fd, 4096)
m[:4] = b"AAAA"
os.rename("f.new", "f")
m[:4] = b"BBBB"
m.close()
os.close(fd)
print(open("f", "rb").read(4))
`
	forEachMount(t, func(t *testing.T, m *Mount) {
		m.WriteFile("f", "old")
		if out := m.Python(t, script); out != "b'BBBB'\n" {
			t.Errorf("%q", out)
		}
	})
}

// A directory in which somebody creates a file is not empty.
func TestRenameOverADirectoryInUse(t *testing.T) {
	needsLatchfs(t)
	forEachMount(t, func(t *testing.T, m *Mount) {
		m.Mkdir("a")
		m.Mkdir("b")
		c := m.Client(t)
		fd := c.Open("b/n", unix.O_WRONLY|unix.O_CREAT)
		c.Write(fd, "new")
		if _, err := m.Client(t).Do(c.path2("rename", "a", "b")); err != syscall.ENOTEMPTY {
			t.Errorf("rename over the directory: %v", err)
		}
		c.MustClose(fd)
		if got := m.ReadFile("b/n"); got != "new" {
			t.Errorf("the file holds %q", got)
		}
	})
}

// A descriptor of a file that was replaced gives no way to what replaced it.
func TestTruncateThroughADescriptor(t *testing.T) {
	needsRoot(t)
	const script = `
import errno, os, sys
open("d/x", "w").write("mine\n")
os.link("d/x", "d/y"); os.stat("d/y"); os.stat("d/x")
fd = os.open("d/x", os.O_PATH)
print("ready", flush=True)
sys.stdin.readline()
for do in lambda: os.truncate(f"/proc/self/fd/{fd}", 0), lambda: open(f"/proc/self/fd/{fd}", "w"):
    try:
        do()
    except OSError as e:
        print(errno.errorcode[e.errno])
`
	for _, opts := range [][]mountOption{nil, {noPassthrough()}} {
		m := mount(t, opts...)
		m.Mkdir("d")
		m.control.OK(wire.Request{Op: "chmod", Path: m.Path("d"), Mode: 0o777})
		p := m.LaunchBash(t, `exec setpriv --reuid 65534 --regid 65534 --clear-groups "$@"`, "/usr/bin/python3", "-c", script)
		p.AwaitLine("ready")
		m.WriteFile("d/z", "secret\n")
		m.control.OK(wire.Request{Op: "chmod", Path: m.Path("d/z"), Mode: 0o600})
		m.control.OK(m.control.path2("rename", "d/z", "d/x"))
		p.Send("go on")
		p.OK()
		if got := m.ReadFile("d/x"); got != "secret\n" {
			t.Errorf("the file holds %q", got)
		}
	}
}

// A byte-range lock ends with the process that took it, also when a child has
// inherited the descriptor.
func TestLockEndsWithItsProcess(t *testing.T) {
	const script = `
import fcntl, os, sys, time
f = open("f")
fcntl.lockf(f, fcntl.LOCK_SH)
if os.fork() == 0:
    print("locked", flush=True)
    sys.stdin.readline()
    os._exit(0)
os._exit(0)
`
	forEachMount(t, func(t *testing.T, m *Mount) {
		m.WriteFile("f", "v")
		p := m.LaunchPython(t, script)
		p.AwaitLine("locked")
		c := m.Client(t)
		c.OK(fcntlReq("setlkw", c.Open("f", unix.O_RDWR), unix.F_WRLCK, 0, 0))
		p.Close()
		p.OK()
	}, shortWait)
}

// Who holds a path descriptor of a file reads the committed version through it,
// also while somebody writes the next.
func TestReaderByPathDescriptor(t *testing.T) {
	const script = `
import os, sys
p = os.open("f", os.O_PATH)
print("ready", flush=True)
sys.stdin.readline()
print(open(f"/proc/self/fd/{p}").read(), flush=True)
`
	needsLatchfs(t)
	forEachMount(t, func(t *testing.T, m *Mount) {
		m.WriteFile("f", "committed")
		p := m.LaunchPython(t, script)
		p.AwaitLine("ready")
		c := m.Client(t)
		fd := c.Open("f", unix.O_WRONLY|unix.O_TRUNC)
		c.Write(fd, "new")
		p.Send("go on")
		if out := p.OK(); out != "ready\ncommitted\n" {
			t.Errorf("%q", out)
		}
		c.MustClose(fd)
		if got := m.ReadFile("f"); got != "new" {
			t.Errorf("the file holds %q", got)
		}
	})
}

// A program that opens a file anew through a descriptor of it, does not wait, and tries again by
// the name (Samba does all of that, once a second) is kept out by a reader the first time only:
// the name leads to another inode of the kernel's then.
func TestReopenedAgainBesideAReader(t *testing.T) {
	forEachMount(t, func(t *testing.T, m *Mount) {
		m.WriteFile("f", "old")
		reader := m.Client(t)
		view := reader.Open("f", unix.O_RDONLY)
		c, tries, fd := m.Client(t), 0, -1
		eventually(t, "the file is opened beside its reader", func() (ok bool) {
			handle := c.Open("f", unix.O_PATH)
			defer c.MustClose(handle)
			tries++
			got, err := c.TryOpen(fmt.Sprintf("/proc/self/fd/%d", handle), unix.O_RDWR|unix.O_NONBLOCK)
			if err != nil && err != syscall.EAGAIN {
				t.Fatalf("try %d: %v", tries, err)
			}
			fd = got
			return err == nil
		})
		if tries == 1 {
			t.Error("it did not meet the reader")
		}
		c.Write(fd, "new")
		c.MustClose(fd)
		if got := m.ReadFile("f"); got != "new" {
			t.Errorf("f holds %q", got)
		}
		if got := reader.ReadAt(view, 10, 0); got != "old" {
			t.Errorf("the reader's version became %q", got)
		}
	})
}
