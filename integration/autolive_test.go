package integration

import (
	"fmt"
	"os/exec"
	"path/filepath"
	"strings"
	"syscall"
	"testing"

	"golang.org/x/sys/unix"

	"latchfs/integration/internal/wire"
)

// A database under a name that no policy calls live shows itself by the locks
// that its users take. However many open it at the same moment for the first
// time, all of them get the same file.
func TestFirstUsersOfADatabase(t *testing.T) {
	inStress(t)
	alongside(t)
	requireTool(t, "sqlite3")
	const writers, rows = 8, 3
	rounds := repeat(4, 100)
	seed := func(data string) error {
		for n := range rounds {
			out, err := exec.Command("sqlite3", filepath.Join(data, fmt.Sprintf("%d.data", n)), "create table t(w, i)").CombinedOutput()
			if err != nil {
				return fmt.Errorf("%w: %s", err, out)
			}
		}
		return nil
	}
	forEachMount(t, func(t *testing.T, m *Mount) {
		for n := range rounds {
			db := fmt.Sprintf("%d.data", n)
			var procs []*Proc
			for w := range writers {
				procs = append(procs, m.LaunchBash(t, `for i in $(seq $3); do
					sqlite3 -cmd '.log stderr' -cmd '.timeout 30000' "$1" "insert into t values ($2, $i)" || exit
				done`, db, fmt.Sprint(w), fmt.Sprint(rows)))
			}
			for _, p := range procs {
				p.OK()
			}
			got := m.LaunchBash(t, `sqlite3 "$1" 'select count(*) from t; pragma integrity_check'`, db).OK()
			if want := fmt.Sprintf("%d ok", writers*rows); strings.Join(strings.Fields(got), " ") != want {
				t.Errorf("%s: %q, want %q", db, got, want)
			}
		}
	}, withSeed(seed))
}

// So does a program that syncs a file again after writing more to it; one sync
// is what a careful save does.
func TestSecondFsyncMakesLive(t *testing.T) {
	forEachMount(t, func(t *testing.T, m *Mount) {
		m.WriteFile("store", "old")
		c := m.Client(t)
		fd := c.Open("store", unix.O_RDWR)
		write := func(c *Client, fd int, data string) {
			c.OK(wire.Request{Op: "pwrite", FD: fd, Data: []byte(data)})
		}
		holds := func(want, when string) {
			t.Helper()
			if got := m.ReadFile("store"); got != want {
				t.Errorf("%s the file holds %q, want %q", when, got, want)
			}
		}
		write(c, fd, "one")
		c.OK(wire.Request{Op: "fsync", FD: fd})
		c.OK(wire.Request{Op: "fsync", FD: fd})
		holds("old", "after one fsync, repeated,")
		write(c, fd, "two")
		c.OK(wire.Request{Op: "fsync", FD: fd})
		holds("two", "after an fsync of more")
		write(c, fd, "six")
		holds("six", "after a write to the live file")
		other := m.Client(t)
		write(other, other.Open("store", unix.O_RDWR), "ten") // does not wait
		holds("ten", "after a write by another")
		if got := c.ReadAt(fd, 3, 0); got != "ten" { // one file
			t.Errorf("the first writer reads %q", got)
		}

		// The file is, not its name: what is made under that anew is not.
		other.OK(wire.Request{Op: "unlink", Path: m.Path("store")})
		made := other.Open("store", unix.O_RDWR|unix.O_CREAT)
		other.Write(made, "new")
		if _, err := m.control.Stat("store"); err != syscall.ENOENT {
			t.Errorf("a new file of the name is live: %v", err)
		}
	})
}

// A file that a save puts in the place of a live one is a version like any other: whoever saves
// it again is not refused for a change of his own, and nobody has changed it outside the mount.
func TestLiveFileIsReplaced(t *testing.T) {
	const script = `
import fcntl, os
def save(name, what):
    with open('t', 'w') as f: f.write(what)
    os.rename('t', name)
def lock(f): fcntl.lockf(f, fcntl.LOCK_EX)
def sync_twice(f):
    for what in 'one\n', 'two\n':
        f.write(what)
        f.flush()
        os.fsync(f.fileno())
ways = {
    'saved again': lambda name: save(name, 'again\n'),
    'rewritten': lambda name: open(name, 'w').write('again\n'),
    'changed': lambda name: open(name, 'r+').write('again\n'),
}
for goes_live in lock, sync_twice:
    for way, change in ways.items():
        name = goes_live.__name__ + ' ' + way
        open(name, 'w').write('old\n')
        with open(name, 'r+') as f: goes_live(f)
        save(name, 'new\n')
        change(name)
        print(name, repr(open(name).read()))
`
	forEachMount(t, func(t *testing.T, m *Mount) {
		m.AsOnPlain(t, "the program", bench.python, "-c", script)
		noAlarm(t, m)
		if *plain {
			return
		}
		for _, e := range m.Events() {
			if e.Event == "bypass" {
				t.Errorf("the trail says of %s: %s", e.Path, e.Reason)
			}
		}
	})
}

// A file that gets a live one's name while it is written is somebody's until the close
// all the same: what others add before would go with the inode that it replaces.
func TestWriterOfALiveNameWaitsForTheSession(t *testing.T) {
	forEachMount(t, func(t *testing.T, m *Mount) {
		m.WriteFile("f", "old\n")
		a, b := m.Client(t), m.Client(t)
		fd := a.Open("f", unix.O_WRONLY|unix.O_TRUNC)
		a.Write(fd, "new\n")
		a.OK(a.path2("rename", "f", "f.pid"))
		wait := b.GoOpen("f.pid", unix.O_WRONLY|unix.O_APPEND)
		if !*plain {
			wait.MustBlock(t)
		}
		a.MustClose(fd)
		other := int(wait.OK().N)
		b.Write(other, "more\n")
		b.MustClose(other)
		if got := m.ReadFile("f.pid"); got != "new\nmore\n" {
			t.Errorf("the file holds %q", got)
		}
	})
}

// Programs that lock a file, add to it, and put a new one in its place, as Python's mailbox does,
// open it while it is replaced, and goes live, again and again. An open that is refused nevertheless
// says why.
func TestOpensOfAFileThatIsReplacedAndGoesLive(t *testing.T) {
	inStress(t)
	alongside(t)
	needsLatchfs(t)
	const script = `
import fcntl, os, sys
mine, rounds = 't%d' % os.getpid(), int(sys.argv[1])
for r in range(rounds):
    try: f = open('f', 'rb+')
    except OSError as e:
        why = open('.locks/why').read()
        if 'replaced several times' not in why: sys.exit('%s: %s' % (e, why))
        continue
    fcntl.lockf(f, fcntl.LOCK_EX)
    f.seek(0, 2)
    f.write(b'line\n')
    f.flush()
    os.fsync(f.fileno())
    with open(mine, 'wb') as g:
        g.write(b'x\n')
        g.flush()
        os.fsync(g.fileno())
    f.close()
    os.rename(mine, 'f')
`
	forEachMount(t, func(t *testing.T, m *Mount) {
		m.WriteFile("f", "")
		var all []*Proc
		for range 3 {
			all = append(all, m.LaunchPython(t, script, fmt.Sprint(repeat(60, 100))))
		}
		for _, p := range all {
			p.OK()
		}
	})
}
