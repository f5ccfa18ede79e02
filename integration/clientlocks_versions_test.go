package integration

import (
	"syscall"
	"testing"

	"golang.org/x/sys/unix"

	"latchfs/integration/internal/wire"
)

// A lock stays what it is when the file under it becomes another: by a save, or by
// going live.

// A child whose own lock makes the file live takes nothing from its parent's flock.
func TestFlockStaysWhenTheFileGoesLive(t *testing.T) {
	const script = `
import fcntl, os, sys
fd = os.open("f", os.O_RDONLY)
fcntl.flock(fd, fcntl.LOCK_EX)
if os.fork() == 0:
    w = os.open("f", os.O_RDWR)
    fcntl.lockf(w, fcntl.LOCK_EX | fcntl.LOCK_NB)
    os._exit(0)
print("ready" if os.wait()[1] == 0 else "refused", flush=True)
sys.stdin.readline()
`
	forEachMount(t, func(t *testing.T, m *Mount) {
		m.WriteFile("f", "x")
		p := m.LaunchPython(t, script)
		p.AwaitLine("ready")
		if !*plain {
			m.AwaitEvent("auto_live", "f")
		}
		c, fd := locker(t, m, "f")
		if _, err := c.Do(flockReq(fd, unix.LOCK_SH|unix.LOCK_NB)); err != syscall.EAGAIN {
			t.Errorf("beside the parent's flock: %v, want EAGAIN", err)
		}
		wait := c.Go(flockReq(fd, unix.LOCK_EX))
		wait.MustBlock(t)
		p.Close()
		wait.OK()
	})
}

// A descriptor of an older version and one of the newest are of one file to flock,
// however the newest was saved.
func TestFlockOfTwoVersions(t *testing.T) {
	needsLatchfs(t) // a plain directory locks inodes, of which a rename brings another
	ways := map[string]func(m *Mount){
		"saved": func(m *Mount) { m.WriteFile("f", "new") },
		"renamed over": func(m *Mount) {
			m.WriteFile("t", "new")
			m.control.OK(m.control.path2("rename", "t", "f"))
		},
		"renamed over while open": func(m *Mount) {
			fd := m.control.Open("t", unix.O_CREAT|unix.O_WRONLY)
			m.control.Write(fd, "new")
			m.control.OK(m.control.path2("rename", "t", "f"))
			m.control.MustClose(fd)
		},
	}
	for way, replace := range ways {
		t.Run(way, func(t *testing.T) {
			forEachMount(t, func(t *testing.T, m *Mount) {
				m.WriteFile("f", "old")
				a, older := locker(t, m, "f")
				replace(m)
				b, newer := locker(t, m, "f")
				for _, c := range []struct {
					first, second *Client
					one, other    int
				}{{a, b, older, newer}, {b, a, newer, older}} {
					c.first.OK(flockReq(c.one, unix.LOCK_EX))
					mustExclude(t, c.first, c.one, c.second, c.other)
				}
			})
		})
	}
}

// mustExclude holds a flock, which first has through one, to keeping second's other
// out until it ends, and to ending; second's is given up, too.
func mustExclude(t *testing.T, first *Client, one int, second *Client, other int) {
	t.Helper()
	if _, err := second.Do(flockReq(other, unix.LOCK_SH|unix.LOCK_NB)); err != syscall.EAGAIN {
		t.Errorf("beside the flock: %v, want EAGAIN", err)
	}
	wait := second.Go(flockReq(other, unix.LOCK_EX))
	wait.MustBlock(t)
	first.OK(flockReq(one, unix.LOCK_UN))
	wait.OK()
	second.OK(flockReq(other, unix.LOCK_UN))
}

// Who was waiting for a flock when the file got another name has it under that one.
func TestFlockWaiterFollowsARename(t *testing.T) {
	forEachMount(t, func(t *testing.T, m *Mount) {
		m.WriteFile("f", "content")
		a, one := locker(t, m, "f")
		b, two := locker(t, m, "f")
		a.OK(flockReq(one, unix.LOCK_EX))
		wait := b.Go(flockReq(two, unix.LOCK_EX))
		wait.MustBlock(t)
		a.OK(a.path2("rename", "f", "g"))
		a.OK(flockReq(one, unix.LOCK_UN))
		wait.OK()
		c, three := locker(t, m, "g")
		if _, err := c.Do(flockReq(three, unix.LOCK_SH|unix.LOCK_NB)); err != syscall.EAGAIN {
			t.Errorf("beside the flock: %v, want EAGAIN", err)
		}
	})
}

// A flock is on the file that its program has open: when that gets another name the lock
// is there, and a new file under the old name is free. A program that turns its files
// over, and locks the new one before it closes the old, would otherwise wait for itself.
func TestFlockGoesWithARenamedFile(t *testing.T) {
	forEachMount(t, func(t *testing.T, m *Mount) {
		m.WriteFile("f", "content")
		a, one := locker(t, m, "f")
		a.OK(flockReq(one, unix.LOCK_EX))
		a.OK(a.path2("rename", "f", "g"))
		a.MustClose(a.Open("f", unix.O_CREAT|unix.O_WRONLY))
		a.OK(flockReq(a.Open("f", unix.O_RDONLY), unix.LOCK_EX|unix.LOCK_NB))
		b, two := locker(t, m, "g")
		if _, err := b.Do(flockReq(two, unix.LOCK_EX|unix.LOCK_NB)); err != syscall.EAGAIN {
			t.Errorf("beside the flock: %v, want EAGAIN", err)
		}
		a.OK(flockReq(one, unix.LOCK_UN))
		b.OK(flockReq(two, unix.LOCK_EX|unix.LOCK_NB))
	})
}

// A program that has locked a file, renames another over it, and locks that before it closes the
// first, does not wait for itself. Others wait for its lock of the new file alone.
func TestFlockOfTheFileThatWasRenamedOver(t *testing.T) {
	forEachLockFile(t, func(t *testing.T, m *Mount, name string) {
		a, older := locker(t, m, name)
		a.OK(flockReq(older, unix.LOCK_EX))
		m.WriteFile("t", "new")
		a.OK(a.path2("rename", "t", name))
		newer := a.Open(name, unix.O_RDONLY)
		a.OK(flockReq(newer, unix.LOCK_EX|unix.LOCK_NB))
		a.MustClose(older)
		b, other := locker(t, m, name)
		mustExclude(t, a, newer, b, other)
	})
}

// A removed file is another than the one that has its name next.
func TestFlockOfARemovedFile(t *testing.T) {
	forEachMount(t, func(t *testing.T, m *Mount) {
		m.WriteFile("f", "old")
		a, removed := locker(t, m, "f")
		m.control.OK(wire.Request{Op: "unlink", Path: m.Path("f")})
		m.WriteFile("f", "new")
		b, made := locker(t, m, "f")
		a.OK(flockReq(removed, unix.LOCK_EX|unix.LOCK_NB))
		b.OK(flockReq(made, unix.LOCK_EX|unix.LOCK_NB))
	})
}
