package integration

import (
	"slices"
	"strings"
	"syscall"
	"testing"

	"golang.org/x/sys/unix"

	"latchfs/integration/internal/wire"
)

// What a session is to its owner and to everybody else.

// Until its close a session is seen by its owner alone; fsync makes it durable
// and does not publish it.
func TestSessionIsPrivateUntilItsClose(t *testing.T) {
	forEachMount(t, func(t *testing.T, m *Mount) {
		m.WriteFile("f", "old\n")
		c := m.Client(t)
		fd := c.Open("f", unix.O_WRONLY|unix.O_TRUNC)
		c.Write(fd, "new content\n")
		c.OK(wire.Request{Op: "fsync", FD: fd})
		if got := m.ReadFile("f"); got != "old\n" {
			t.Errorf("before the close others read %q", got)
		}
		if st, _ := m.control.Stat("f"); st.Size != 4 {
			t.Errorf("before the close others see size %d", st.Size)
		}
		if got := c.ReadFile("f"); got != "new content\n" {
			t.Errorf("the owner reads %q", got)
		}
		if st, _ := c.Stat("f"); st.Size != 12 {
			t.Errorf("the owner sees size %d", st.Size)
		}
		c.MustClose(fd)
		if got := m.ReadFile("f"); got != "new content\n" {
			t.Errorf("after the close others read %q", got)
		}
		if *plain {
			return
		}
		if n := m.Commits("f"); n != 2 {
			t.Errorf("%d commits in the audit trail, want 2", n)
		}
	})
}

// What writes nothing commits nothing: no version, no mtime, no event.
func TestCleanSessionsCommitNothing(t *testing.T) {
	forEachMount(t, func(t *testing.T, m *Mount) {
		m.WriteFile("f", "old\n")
		m.WriteFile("empty", "")
		before, _ := m.control.Stat("f")
		commits := 0
		if !*plain {
			commits = m.Commits("f") + m.Commits("empty")
		}
		for _, script := range []string{
			`exec 3<> f; read x <&3; exec 3>&-`,
			`: >> f`,
			`: > empty`,
			`dd if=/dev/null of=f conv=notrunc 2>/dev/null`,
			`exec 3<> f; flock 3; sh -c 'cat <&3 >/dev/null'`,
		} {
			if o := m.Bash(t, script); o.Code != 0 {
				t.Errorf("%q ended with %d %s", script, o.Code, o.Stderr)
			}
		}
		c := m.Client(t)
		fd := c.Open("f", unix.O_RDWR)
		c.ReadAt(fd, 10, 0)
		c.OK(wire.Request{Op: "fsync", FD: fd})
		c.MustClose(fd)
		after, _ := m.control.Stat("f")
		if after.Ino != before.Ino || after.MtimeNs != before.MtimeNs {
			t.Errorf("a session that wrote nothing changed inode or mtime: %+v, %+v", before, after)
		}
		if *plain {
			return
		}
		if got := m.Commits("f") + m.Commits("empty"); got != commits {
			t.Errorf("%d commits of nothing", got-commits)
		}
	})
}

// One commit where one is due, for every way to change a file.
func TestEveryChangeCommitsOnce(t *testing.T) {
	needsLatchfs(t)
	forEachMount(t, func(t *testing.T, m *Mount) {
		for _, script := range []string{
			`echo new > f`,
			`echo more >> f`,
			`: > f`,
			`truncate -s 2 f`,
			`{ echo one; sh -c 'echo two'; sh -c 'echo three'; } > f`,
			`exec 3<> f; echo one >&3; echo two >&3; exec 3>&-`,
			`fallocate -l 9000 f`,
			`echo x | dd of=f conv=notrunc 2>/dev/null`,
			`cp /etc/hostname f`,
			`echo x | tee f f > /dev/null`,
		} {
			m.WriteFile("f", "old content\n")
			before := m.Commits("f")
			if o := m.Bash(t, script); o.Code != 0 {
				t.Errorf("%q ended with %d %s", script, o.Code, o.Stderr)
			}
			if n := m.Commits("f") - before; n != 1 {
				t.Errorf("%q made %d commits, want 1", script, n)
			}
		}
	})
}

// A new file is there for its creator, and for others when it is complete.
func TestNewFileAppearsComplete(t *testing.T) {
	forEachMount(t, func(t *testing.T, m *Mount) {
		m.Mkdir("d")
		c, other := m.Client(t), m.Client(t)
		fd := c.Open("d/new", unix.O_WRONLY|unix.O_CREAT)
		c.Write(fd, "content")
		if _, err := other.Stat("d/new"); err != syscall.ENOENT {
			t.Errorf("another's stat of the unfinished file: %v", err)
		}
		if names := c.List("d"); !slices.Equal(names, []string{"new"}) {
			t.Errorf("its creator lists %q", names)
		}
		if got := c.ReadFile("d/new"); got != "content" {
			t.Errorf("its creator reads %q", got)
		}
		c.MustClose(fd)
		if got := other.ReadFile("d/new"); got != "content" {
			t.Errorf("afterwards another reads %q", got)
		}
		if names := m.List("d"); !slices.Equal(names, []string{"new"}) {
			t.Errorf("afterwards the directory lists %q", names)
		}
	})
}

// Renaming a directory does not wait for the sessions below it: they follow,
// lock and commit under the new name.
func TestSessionFollowsItsDirectory(t *testing.T) {
	needsLatchfs(t)
	forEachMount(t, func(t *testing.T, m *Mount) {
		m.Mkdir("d")
		m.WriteFile("d/f", "old\n")
		c, other := m.Client(t), m.Client(t)
		fd := c.Open("d/f", unix.O_WRONLY|unix.O_TRUNC)
		created := c.Open("d/new", unix.O_WRONLY|unix.O_CREAT)
		c.Write(fd, "new\n")
		other.OK(other.path2("rename", "d", "e"))
		m.AwaitHolder(t, "e/f", c.PID)
		if got := m.ReadFile("e/f"); got != "old\n" {
			t.Errorf("before the close the file holds %q", got)
		}
		wait := other.GoOpen("e/f", unix.O_RDWR)
		wait.MustBlock(t)
		c.Write(created, "created\n")
		c.MustClose(fd)
		c.MustClose(created)
		wait.OK()
		if got := m.ReadFile("e/f") + m.ReadFile("e/new"); got != "new\ncreated\n" {
			t.Errorf("after the close the files hold %q", got)
		}
	})
}

// Unlinking a file detaches the owner's own session; rmdir sees no shadow of
// others but waits for what they create inside.
func TestRemovingUnderASession(t *testing.T) {
	needsLatchfs(t)
	forEachMount(t, func(t *testing.T, m *Mount) {
		m.Mkdir("d")
		m.WriteFile("d/f", "old\n")
		c, other := m.Client(t), m.Client(t)
		fd := c.Open("d/f", unix.O_RDWR)
		c.Write(fd, "x")
		c.OK(wire.Request{Op: "unlink", Path: m.Path("d/f")})
		c.Write(fd, "y")
		if names := m.List("d"); len(names) != 0 {
			t.Errorf("after unlink the directory lists %q", names)
		}
		c.MustClose(fd)
		if names := m.List("d"); len(names) != 0 {
			t.Errorf("the close brought back %q", names)
		}
		fd = c.Open("d/new", unix.O_WRONLY|unix.O_CREAT)
		c.Write(fd, "x")
		rmdir := other.Go(wire.Request{Op: "rmdir", Path: m.Path("d")})
		rmdir.MustBlock(t)
		c.MustClose(fd)
		if err := rmdir.Err(); err != syscall.ENOTEMPTY {
			t.Errorf("rmdir after its wait: %v, want ENOTEMPTY", err)
		}
		if got := m.ReadFile("d/new"); got != "x" {
			t.Errorf("the new file holds %q", got)
		}
		c.OK(wire.Request{Op: "unlink", Path: m.Path("d/new")})
		other.OK(wire.Request{Op: "rmdir", Path: m.Path("d")})
	})
}

// A hard-linked file keeps its links, and all its names are one lock.
func TestHardLinksStayTogether(t *testing.T) {
	needsLatchfs(t)
	forEachMount(t, func(t *testing.T, m *Mount) {
		m.WriteFile("a", "old\n")
		c, other := m.Client(t), m.Client(t)
		c.OK(c.path2("link", "a", "b"))
		fd := c.Open("a", unix.O_WRONLY|unix.O_TRUNC)
		c.Write(fd, "new\n")
		wait := other.GoOpen("b", unix.O_RDWR)
		wait.MustBlock(t)
		c.MustClose(fd)
		wait.OK()
		sa, _ := m.control.Stat("a")
		sb, _ := m.control.Stat("b")
		if sa.Ino != sb.Ino || sa.Nlink != 2 {
			t.Errorf("the links parted: %+v %+v", sa, sb)
		}
		if got := m.ReadFile("b"); got != "new\n" {
			t.Errorf("the other name holds %q", got)
		}
	})
}

// Two loggers that hold one log open do not lock each other out, every line is
// whole, and tail -f sees it at once.
func TestLoggersShareALog(t *testing.T) {
	alongside(t)
	const script = `
import os, sys
fd = os.open("app.log", os.O_WRONLY | os.O_APPEND | os.O_CREAT, 0o644)
print("ready", flush=True)
sys.stdin.readline()
for n in range(200):
    os.write(fd, f"{sys.argv[1]} {n} {'x' * (n % 50)}\n".encode())
`
	forEachMount(t, func(t *testing.T, m *Mount) {
		requireTool(t, "tail")
		m.WriteFile("app.log", "first\n")
		tail := m.Launch(t, "tail", "-n", "+1", "-f", "app.log")
		tail.AwaitLine("first")
		var loggers []*Proc
		for _, name := range []string{"a", "b", "c"} {
			p := m.LaunchPython(t, script, name)
			p.AwaitLine("ready")
			loggers = append(loggers, p)
		}
		for _, p := range loggers {
			p.Send("go")
		}
		for _, p := range loggers {
			p.OK()
		}
		lines := strings.Split(strings.TrimSuffix(m.ReadFile("app.log"), "\n"), "\n")
		if len(lines) != 601 {
			t.Errorf("%d lines, want 601", len(lines))
		}
		eventually(t, "tail has followed", func() bool { return strings.Count(tail.Stdout(), "\n") == 601 })
	})
}

// The same for a log under a name that no policy foresees.
func TestAppendersDoNotLockEachOtherOut(t *testing.T) {
	forEachMount(t, func(t *testing.T, m *Mount) {
		m.WriteFile("journal.txt", "first\n")
		a, b := m.Client(t), m.Client(t)
		fa := a.Open("journal.txt", unix.O_WRONLY|unix.O_APPEND)
		fb := b.Open("journal.txt", unix.O_WRONLY|unix.O_APPEND)
		a.Write(fa, "a1\n")
		b.Write(fb, "b1\n")
		a.Write(fa, "a2\n")
		b.MustClose(fb)
		a.MustClose(fa)
		got := m.ReadFile("journal.txt")
		if strings.Count(got, "\n") != 4 || !strings.HasPrefix(got, "first\na1\n") ||
			!strings.Contains(got, "b1\n") || !strings.Contains(got, "a2\n") {
			t.Errorf("the log holds %q", got)
		}
	})
}
