package integration

import (
	"testing"

	"golang.org/x/sys/unix"
)

// One lock for a directory, a group, and the copies of a file in worktrees
// (requirements W3 and M4).

const sharedKeys = `
[[rule]]
glob = ["memory/*"]
key = "directory"

[[rule]]
glob = ["*.state"]
key = "group:state"

[[alias]]
name = "app"
roots = ["main", "worktrees/*"]
`

func TestFilesThatShareALock(t *testing.T) {
	needsLatchfs(t)
	forEachMount(t, func(t *testing.T, m *Mount) {
		for _, dir := range []string{"memory", "main", "worktrees", "worktrees/x", "elsewhere"} {
			m.Mkdir(dir)
		}
		for _, pair := range [][2]string{
			{"memory/tasks.json", "memory/events.jsonl"},
			{"one.state", "elsewhere/two.state"},
			{"main/notes.md", "worktrees/x/notes.md"},
		} {
			m.WriteFile(pair[0], "a")
			m.WriteFile(pair[1], "b")
			holder, other := m.Client(t), m.Client(t)
			fd := holder.Open(pair[0], unix.O_RDWR)
			next := other.GoOpen(pair[1], unix.O_RDWR)
			next.MustBlock(t)
			if got := m.ReadFile(pair[1]); got != "b" {
				t.Errorf("a reader of %s finds %q", pair[1], got)
			}
			free := m.Client(t)
			free.MustClose(free.Open("elsewhere/free", unix.O_RDWR|unix.O_CREAT))
			holder.MustClose(fd)
			next.OK()
		}
	}, withPolicy(sharedKeys))
}

// A file that is renamed while it is written takes the lock of its new
// neighbours, and leaves the old ones theirs.
func TestRenameOutOfASharedLock(t *testing.T) {
	needsLatchfs(t)
	forEachMount(t, func(t *testing.T, m *Mount) {
		m.Mkdir("memory")
		m.WriteFile("memory/a", "a")
		m.WriteFile("memory/b", "b")
		m.WriteFile("two.state", "c")
		holder, other := m.Client(t), m.Client(t)
		fd := holder.Open("memory/a", unix.O_RDWR)
		waits := other.GoOpen("memory/b", unix.O_RDWR)
		waits.MustBlock(t)
		holder.OK(holder.path2("rename", "memory/a", "one.state"))
		other.MustClose(int(waits.OK().N))
		waits = other.GoOpen("two.state", unix.O_RDWR)
		waits.MustBlock(t)
		holder.MustClose(fd)
		waits.OK()
	}, withPolicy(sharedKeys))
}

// A flock on one of the files keeps the sessions of all out.
func TestFlockOnASharedLock(t *testing.T) {
	needsLatchfs(t)
	forEachMount(t, func(t *testing.T, m *Mount) {
		m.Mkdir("memory")
		m.WriteFile("memory/a", "a")
		m.WriteFile("memory/b", "b")
		holder := m.LaunchBash(t, `exec 3<memory/a; flock 3; echo locked; read -r _`)
		holder.AwaitLine("locked")
		waits := m.Client(t).GoOpen("memory/b", unix.O_RDWR)
		waits.MustBlock(t)
		holder.Kill()
		waits.OK()
	}, withPolicy(sharedKeys))
}
