package integration

import (
	"path/filepath"
	"slices"
	"strings"
	"syscall"
	"testing"
	"time"

	"golang.org/x/sys/unix"

	"latchfs/integration/internal/wire"
)

// Show 12: files that are written after the close that looks like the last one.
// No half result is published, nothing acknowledged is lost, and the lock is
// there as long as somebody can write.

// Linkers map the output, close its descriptor, and store afterwards.
func TestMappingOutlivesItsDescriptor(t *testing.T) {
	const size = 3 * 4096
	forEachMount(t, func(t *testing.T, m *Mount) {
		for _, end := range []string{"munmap", "exit"} {
			old := strings.Repeat("o", size)
			m.WriteFile("prog", old)
			c := m.Client(t)
			fd := c.Open("prog", unix.O_RDWR)
			mapping := int(c.OK(wire.Request{Op: "mmap", FD: fd, Len: size, Flags: unix.PROT_READ | unix.PROT_WRITE}).N)
			c.MustClose(fd)
			other := m.Client(t)
			wait := other.GoOpen("prog", unix.O_RDWR)
			wait.MustBlock(t)
			for page := int64(0); page < size; page += 4096 {
				c.OK(wire.Request{Op: "store", FD: mapping, Off: page, Data: []byte("STORED")})
				if got := m.ReadFile("prog"); got != old {
					t.Errorf("between the stores others read %s", summary(got))
				}
			}
			if end == "munmap" {
				c.OK(wire.Request{Op: "munmap", FD: mapping})
			} else {
				c.Quit()
			}
			fd = int(wait.OK().N)
			want := strings.Repeat("STORED"+strings.Repeat("o", 4090), 3)
			if got := other.ReadAt(fd, size, 0); got != want {
				t.Errorf("after %s the next writer finds %s", end, summary(got))
			}
			if got := m.ReadFile("prog"); got != want {
				t.Errorf("after %s the file holds %s", end, summary(got))
			}
			other.MustClose(fd)
		}
	})
}

// A mapping that is stored to after the last close, and never written through
// the descriptor, is a change like any other: the session is not clean.
func TestMappedStoresAreNotLost(t *testing.T) {
	forEachMount(t, func(t *testing.T, m *Mount) {
		m.WriteFile("f", strings.Repeat("o", 5000))
		c := m.Client(t)
		fd := c.Open("f", unix.O_RDWR)
		mapping := int(c.OK(wire.Request{Op: "mmap", FD: fd, Len: 5000, Flags: unix.PROT_READ | unix.PROT_WRITE}).N)
		c.OK(wire.Request{Op: "store", FD: mapping, Off: 10, Data: []byte("X")})
		c.OK(wire.Request{Op: "msync", FD: mapping})
		c.OK(wire.Request{Op: "store", FD: mapping, Off: 11, Data: []byte("Y")})
		c.OK(wire.Request{Op: "munmap", FD: mapping})
		c.MustClose(fd)
		want := strings.Repeat("o", 10) + "XY" + strings.Repeat("o", 4988)
		if got := m.ReadFile("f"); got != want {
			t.Errorf("the file holds %s", summary(got))
		}
	})
}

// passDescriptor opens f, writes "first" and passes the descriptor to a process
// that is no relative.
func passDescriptor(t *testing.T, m *Mount) (from, to *Client, fd, passed int) {
	t.Helper()
	m.WriteFile("f", "old\n")
	from, to = m.Client(t), m.Client(t)
	fd = from.Open("f", unix.O_WRONLY|unix.O_TRUNC)
	from.Write(fd, "first ")
	socket := filepath.Join(m.Home(), "socket")
	listener := int(to.OK(wire.Request{Op: "listen", Path: socket}).N)
	receive := to.Go(wire.Request{Op: "recvfd", FD: listener})
	from.OK(wire.Request{Op: "sendfd", FD: fd, To: socket})
	passed = int(receive.OK().N)
	m.control.OK(wire.Request{Op: "unlink", Path: socket})
	return from, to, fd, passed
}

// A descriptor passed to a stranger and used while the opener still has it: one
// session, and its last close commits what both wrote.
func TestPassedDescriptorSharesTheSession(t *testing.T) {
	forEachMount(t, func(t *testing.T, m *Mount) {
		from, to, fd, passed := passDescriptor(t, m)
		to.Write(passed, "second ")
		to.MustClose(passed)
		if got := m.ReadFile("f"); got != "old\n" {
			t.Errorf("before the opener's close the file holds %q", got)
		}
		from.Write(fd, "third")
		from.MustClose(fd)
		if got := m.ReadFile("f"); got != "first second third" {
			t.Errorf("the file holds %q", got)
		}
	})
}

// A descriptor passed to a stranger and used after its opener's close. Whatever
// the close published is whole, and what the stranger writes is either published
// as a whole by its own close, or refused there and kept; and nobody else's
// commit in between is overwritten.
func TestPassedDescriptorAfterTheCommit(t *testing.T) {
	forEachMount(t, func(t *testing.T, m *Mount) {
		from, to, fd, passed := passDescriptor(t, m)
		from.MustClose(fd)
		published := m.ReadFile("f")
		if published != "old\n" && published != "first " {
			t.Fatalf("after the opener's close the file holds %q", published)
		}
		third := m.Client(t)
		theirs, err := third.TryOpen("f", unix.O_WRONLY|unix.O_TRUNC|unix.O_NONBLOCK)
		locked := err == syscall.EAGAIN
		if err != nil && !locked {
			t.Errorf("a third writer: %v", err)
		}
		if !locked {
			third.Write(theirs, "third")
			third.MustClose(theirs)
			published = "third"
		}
		res, errWrite := to.Do(wire.Request{Op: "write", FD: passed, Data: []byte("second")})
		if errWrite == nil && res.N != 6 {
			t.Errorf("short write of %d", res.N)
		}
		if got := m.ReadFile("f"); got != published {
			t.Errorf("while the stranger writes the file holds %q, want %q", got, published)
		}
		errClose := to.Close(passed)
		if !*plain {
			eventually(t, "the session's end", func() bool { return m.Status().Held() == 0 })
		}
		switch got := m.ReadFile("f"); {
		case locked && errWrite == nil && errClose == nil && got == "first second":
		case got != published:
			t.Errorf("locked %v, write %v, close %v: the file holds %q, want %q", locked, errWrite, errClose, got, published)
		case errWrite == nil:
			awaitKept(t, m, "first second")
		}
	})
}

// The mode of a committed version is changed, or something is added to it, before it is set apart
// from a stranger who still has a descriptor of it: what the stranger writes then is kept, and its
// close says that it is not in the file.
func TestChangedBesideAPassedDescriptor(t *testing.T) {
	needsLatchfs(t)
	for _, change := range []string{"chmod 600 f", "echo more >> f", `"$1" -c 'import os; os.setxattr("f", "user.latchfs", b"1")'`} {
		forEachMount(t, func(t *testing.T, m *Mount) {
			from, to, fd, passed := passDescriptor(t, m)
			from.MustClose(fd)
			if o := m.Bash(t, change, bench.python); o.Code != 0 {
				t.Fatalf("%s: %s", change, o.Stderr)
			}
			published := m.ReadFile("f")
			eventually(t, "the file to be set apart", func() bool {
				return strings.Contains(m.ReadFile(".locks/events.jsonl"), `"event":"late"`)
			})
			_, errWrite := to.Do(wire.Request{Op: "write", FD: passed, Data: []byte("second")})
			errClose := to.Close(passed)
			if errWrite == nil && errClose == nil {
				t.Errorf("%s: write and close succeed", change)
			}
			if got := m.ReadFile("f"); got != published {
				t.Errorf("%s: the file holds %q, want %q", change, got, published)
			}
			if errWrite == nil {
				awaitKept(t, m, "first second")
			}
		})
	}
}

// A stranger still has a descriptor of a committed version, and writes nothing to it:
// what others add to the file is not taken for something that it wrote.
func TestAppendToWhatAStrangerHasOpen(t *testing.T) {
	forEachMount(t, func(t *testing.T, m *Mount) {
		from, to, fd, passed := passDescriptor(t, m)
		from.MustClose(fd)
		if o := m.Bash(t, "echo more >> f && echo third > f"); o.Code != 0 {
			t.Fatal(o)
		}
		to.MustClose(passed)
		m.Stop(t) // after the last RELEASE
		if kept, _ := filepath.Glob(filepath.Join(m.Data, ".latchfs", "rejected", "[0-9]*", "content")); len(kept) > 0 {
			t.Errorf("kept aside, and nobody lost anything: %q", kept)
		}
		m.Start(t)
		if got := m.ReadFile("f"); got != "third\n" {
			t.Errorf("the file holds %q", got)
		}
	})
}

// awaitKept waits until the bytes are among those kept aside.
func awaitKept(t *testing.T, m *Mount, content string) {
	t.Helper()
	var kept []string
	for deadline := time.Now().Add(patience); time.Now().Before(deadline); time.Sleep(poll) {
		kept = nil
		files, _ := filepath.Glob(filepath.Join(m.Data, ".latchfs", "rejected", "[0-9]*", "content"))
		for _, file := range files {
			kept = append(kept, m.ReadFile(file))
		}
		if slices.Contains(kept, content) {
			return
		}
	}
	t.Errorf("the acknowledged bytes %q are not kept; kept are %q", content, kept)
}

// lateChildren are the shapes in which a child writes on after its parent has
// closed and gone: argv[1] is the file. Each prints ready when only the child
// has the file open, and finishes when its standard input ends.
var lateChildren = map[string][]string{
	"double fork": {"python3", "-c", `
import os, sys
fd = os.open(sys.argv[1], os.O_WRONLY | os.O_CREAT | os.O_TRUNC, 0o644)
os.write(fd, b"one\n")
r, w = os.pipe()
if os.fork() == 0:
    os.setsid()
    if os.fork() == 0:
        os.read(r, 1)
        print("ready", flush=True)
        sys.stdin.readline()
        os.write(fd, b"two\n")
        os._exit(0)
    os._exit(0)
os.wait()
os.close(fd)
os.write(w, b"x")
`},
	"nohup": {"dash", "-c", `
exec 4<&0
nohup sh -c 'echo one; echo ready >&2; cat; echo two' <&4 > "$1" 2>&3 3>&- 4<&- &
`, "dash"},
	"background group": {"bash", "-c", `
exec 4<&0
{ echo one; echo ready >&3; cat <&4; echo two; } > "$1" &
`, "bash"},
	"popen": {"python3", "-c", `
import subprocess, sys
with open(sys.argv[1], "w") as f:
    subprocess.Popen(["sh", "-c", "echo one; cat; echo two"], stdout=f)
print("ready", flush=True)
`},
}

func TestChildWritesOnAfterItsParent(t *testing.T) {
	forEachMount(t, func(t *testing.T, m *Mount) {
		requireTool(t, "dash")
		for shape, argv := range lateChildren {
			for _, existing := range []bool{true, false} {
				name := strings.ReplaceAll(shape, " ", "-")
				if existing {
					name += "-existing"
				}
				t.Run(name, func(t *testing.T) { lateChild(t, m, argv, name, existing) })
			}
		}
	})
}

func lateChild(t *testing.T, m *Mount, argv []string, name string, existing bool) {
	want := 1
	if existing {
		m.WriteFile(name, "old\n")
		want = 2
	}
	argv = append(append([]string(nil), argv...), name)
	if argv[0] == "python3" {
		argv[0] = bench.python
	}
	// Descriptor 3 is the standard output, for the shapes that redirect theirs.
	p := m.Launch(t, "bash", append([]string{"-c", `exec 3>&1; exec "$@"`, "bash"}, argv...)...)
	p.AwaitLine("ready")
	eventually(t, "the parent's end", func() bool { return !alive(p.PID()) })
	if existing {
		if got := m.ReadFile(name); got != "old\n" {
			t.Errorf("while the child writes the file holds %q", got)
		}
	} else if _, err := m.control.Stat(name); err != syscall.ENOENT {
		t.Errorf("the unfinished file is there (%v)", err)
	}
	next := m.Client(t).GoOpen(name, unix.O_RDWR|unix.O_CREAT)
	next.MustBlock(t)
	p.Close()
	next.OK()
	if got := m.ReadFile(name); got != "one\ntwo\n" {
		t.Errorf("the file holds %q", got)
	}
	if n := m.Commits(name); n != want {
		t.Errorf("%d commits, want %d", n, want)
	}
}
