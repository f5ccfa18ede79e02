package integration

import (
	"testing"
	"time"

	"golang.org/x/sys/unix"

	"latchfs/integration/internal/wire"
)

// noBypass fails the test if the audit trail takes anything for a change outside the
// mount, or for a lost update.
func (m *Mount) noBypass(t *testing.T) {
	t.Helper()
	if *plain {
		return
	}
	for _, e := range m.Events() {
		if e.Event == "bypass" || e.Event == "conflict" || e.Event == "rollback" {
			t.Errorf("%s of %s by %s: %s", e.Event, e.Path, e.Program, e.Reason)
		}
	}
}

// A descriptor of a live file stays one whatever name the file is given: what it
// writes is seen at once, is no change outside the mount, and refuses nobody the next
// rename. When it is closed the file is one like any other.
func TestLiveFollowsTheOpenFile(t *testing.T) {
	forEachMount(t, func(t *testing.T, m *Mount) {
		service, admin := m.Client(t), m.Client(t)
		fd := service.Open("service.out", unix.O_WRONLY|unix.O_CREAT|unix.O_APPEND)
		write := func(text string) { service.Write(fd, text) }
		// The one who renames reads before and after, and so knows versions.
		rename := func(from, to, want string) {
			t.Helper()
			if got := admin.ReadFile(from); got != want {
				t.Errorf("%s holds %q, want %q", from, got, want)
			}
			write("+")
			admin.OK(admin.path2("rename", from, to))
			write("+")
			if got := admin.ReadFile(to); got != want+"++" {
				t.Errorf("%s holds %q, want %q", to, got, want+"++")
			}
		}
		write("a")
		rename("service.out", "first", "a")
		m.Mkdir("d")
		rename("first", "d/second", "a++")
		write("b")
		admin.OK(admin.path2("rename", "d", "e"))
		write("c")
		rename("e/second", "first", "a++++bc") // where it has been before

		// Whoever writes to it meanwhile does not wait, and is seen at once.
		other := admin.Open("first", unix.O_WRONLY|unix.O_APPEND)
		admin.Write(other, "d")
		if got := m.ReadFile("first"); got != "a++++bc++d" {
			t.Errorf("the file holds %q", got)
		}
		admin.MustClose(other)
		write("e")
		service.MustClose(fd)

		// The kernel tells of the end of a descriptor after its close, and each look opens
		// one that is live as long as there is another: the looks must not overlap.
		pause, first := poll, byte('A')
		eventually(t, "the end of the last live descriptor", func() bool {
			pause *= 2
			time.Sleep(pause)
			first++ // so that it is new also after a look that was live
			fd := admin.Open("first", unix.O_RDWR)
			admin.OK(wire.Request{Op: "pwrite", FD: fd, Data: []byte{first}})
			seen := m.ReadFile("first")[0]
			admin.MustClose(fd)
			return *plain || seen != first
		})
		if got := m.ReadFile("first"); got != string(first)+"++++bc++de" {
			t.Errorf("after the close the file holds %q", got)
		}
		admin.OK(admin.path2("rename", "first", "last"))
		admin.OK(wire.Request{Op: "unlink", Path: m.Path("last")})
		m.noBypass(t)
	})
}

// The same where the names are live by their directory, which is what is renamed.
func TestLiveFollowsTheOpenFileInADirectory(t *testing.T) {
	forEachMount(t, func(t *testing.T, m *Mount) {
		m.Mkdir("live")
		service, admin := m.Client(t), m.Client(t)
		fd := service.Open("live/f", unix.O_WRONLY|unix.O_CREAT)
		service.Write(fd, "one")
		admin.ReadFile("live/f")
		admin.OK(admin.path2("rename", "live", "dead"))
		service.Write(fd, " two")
		if got := admin.ReadFile("dead/f"); got != "one two" {
			t.Errorf("the file holds %q", got)
		}
		admin.OK(admin.path2("rename", "dead/f", "dead/g"))
		service.Write(fd, " three")
		service.MustClose(fd)
		if err := admin.Save("dead/g", "four"); err != nil {
			t.Error(err)
		}
		m.noBypass(t)
	}, withPolicy("[[rule]]\nglob = \"live/**\"\nmode = \"live\"\n"))
}

// A program of the Go toolchain has its counter file open as long as it runs, and what it
// counts is the next one's to count on: neither waits.
func TestGoCountersAreShared(t *testing.T) {
	forEachMount(t, func(t *testing.T, m *Mount) {
		const name = "go@go1.26.8-go1.26.8-linux-amd64-2026-11-30.v1.count"
		server, command := m.Client(t), m.Client(t)
		running := server.Open(name, unix.O_RDWR|unix.O_CREAT)
		server.Write(running, "one")
		fd := command.Open(name, unix.O_RDWR|unix.O_CREAT)
		if got := command.ReadFile(name); got != "one" {
			t.Errorf("the next program finds %q", got)
		}
		command.MustClose(fd)
		server.MustClose(running)
		m.noBypass(t)
	})
}
