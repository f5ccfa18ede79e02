package integration

import (
	"os"
	"path/filepath"
	"slices"
	"strconv"
	"strings"
	"syscall"
	"testing"
	"time"

	"golang.org/x/sys/unix"

	"latchfs/integration/internal/wire"
)

// What `.locks/` shows of a running mount.

func TestLocksDirContents(t *testing.T) {
	needsLatchfs(t)
	forEachMount(t, func(t *testing.T, m *Mount) {
		names := m.control.OK(wire.Request{Op: "list", Path: m.Path(".locks")}).Names
		for _, want := range []string{"README", "status", "status.json", "held", "waiting", "why", "events.jsonl", "policy"} {
			if !slices.Contains(names, want) {
				t.Errorf(".locks lacks %s: %q", want, names)
			}
		}
		o := m.Bash(t, `ls -la .locks && cat .locks/README .locks/status .locks/policy && ls -lR .locks/held .locks/waiting && find .locks >/dev/null && grep -r . .locks >/dev/null`)
		if o.Code != 0 {
			t.Errorf("ordinary tools on .locks: %d %s", o.Code, o.Stderr)
		}
	})
}

// The virtual directory is in nobody's way: not stored, not writable, not to be
// replaced, and not in the way of rm -r of everything else.
func TestLocksDirIsVirtual(t *testing.T) {
	needsLatchfs(t)
	forEachMount(t, func(t *testing.T, m *Mount) {
		c := m.Client(t)
		for _, req := range []wire.Request{
			{Op: "unlink", Path: m.Path(".locks/status")},
			{Op: "mkdir", Path: m.Path(".locks/x"), Mode: 0o755},
			{Op: "rmdir", Path: m.Path(".locks")},
			{Op: "rename", Path: m.Path(".locks"), To: m.Path("x")},
			{Op: "rename", Path: m.Path(".locks/status"), To: m.Path("x")},
			{Op: "open", Path: m.Path(".locks/new"), Flags: unix.O_CREAT | unix.O_WRONLY, Mode: 0o644},
			{Op: "open", Path: m.Path(".locks/status"), Flags: unix.O_WRONLY | unix.O_TRUNC},
			{Op: "link", Path: m.Path(".locks/status"), To: m.Path("x")},
		} {
			if _, err := c.Do(req); err == nil {
				t.Errorf("%s %s succeeded", req.Op, req.Path)
			}
		}
		if _, err := os.Lstat(filepath.Join(m.Data, ".locks")); !os.IsNotExist(err) {
			t.Errorf(".locks is in the data directory: %v", err)
		}
		if _, err := c.Stat(".latchfs"); err != syscall.ENOENT {
			t.Errorf("the state directory is visible: %v", err)
		}
		if names := m.List(""); len(names) != 0 {
			t.Errorf("the root lists %q", names)
		}
	})
}

// A held lock: its record says who holds what, for what, since when.
// A look for holes in a virtual file does not keep the kernel from finding those of others.
func TestHolesAfterALookIntoLocksDir(t *testing.T) {
	const script = `
import os
def holes(name):
    f = os.open(name, os.O_RDONLY)
    try: return os.lseek(f, 0, os.SEEK_DATA), os.lseek(f, 0, os.SEEK_HOLE)
    except OSError as e: return e.strerror
with open('sparse', 'wb') as f:
    f.seek(1 << 20)
    f.write(b'x')
print(holes('.locks/README'), holes('sparse'))
`
	needsLatchfs(t)
	forEachMount(t, func(t *testing.T, m *Mount) {
		want := "Invalid argument (1048576, 0)\n"
		if got := m.LaunchPython(t, script).OK(); got != want {
			t.Errorf("got %q, want %q", got, want)
		}
	})
}

func TestHeldRecord(t *testing.T) {
	needsLatchfs(t)
	forEachMount(t, func(t *testing.T, m *Mount) {
		m.Mkdir("dir")
		m.WriteFile("dir/a.json", "{}")
		start := time.Now().Add(-time.Second)
		c := m.Client(t)
		fd := c.Open("dir/a.json", unix.O_RDWR)
		rec := m.AwaitHolder(t, "dir/a.json", c.PID)
		switch {
		case rec.Version != "v1", rec.Class != "session",
			rec.Mode != "exclusive", rec.Operation == "", rec.Session == "", rec.Token == 0,
			rec.Metadata.Program != "client", rec.Metadata.UID != m.UID, len(rec.Metadata.Command) == 0,
			rec.Created.Before(start), rec.Created.After(time.Now().Add(time.Second)):
			t.Errorf("the record of %d's session is %s", c.PID, m.Locks("held/dir/a.json.lock"))
		}
		status := m.Locks("status")
		for _, word := range []string{"dir/a.json", "client", strconv.Itoa(c.PID)} {
			if !strings.Contains(status, word) {
				t.Errorf(".locks/status does not mention %q:\n%s", word, status)
			}
		}
		c.MustClose(fd)
		m.AwaitFree(t, patience, "dir/a.json")
		again := c.Open("dir/a.json", unix.O_RDWR)
		if next := m.AwaitHolder(t, "dir/a.json", c.PID); next.Token <= rec.Token {
			t.Errorf("the next token does not rise: %d after %d", next.Token, rec.Token)
		}
		c.MustClose(again)
	})
}

// Another user's command line and directory are not for everybody.
func TestCommandLinesArePrivate(t *testing.T) {
	needsLatchfs(t)
	needsRoot(t)
	m := mount(t)
	m.WriteFile("f", "x")
	m.control.OK(wire.Request{Op: "chmod", Path: m.Path("f"), Mode: 0o666})
	c := m.Client(t)
	fd := c.Open("f", unix.O_RDWR)
	record := m.ClientAs(t, otherUID).ReadFile(".locks/held/f.lock")
	var rec HeldLock
	m.decode(record, &rec)
	if rec.PID != c.PID || rec.Metadata.Program != "client" {
		t.Errorf("another user sees %s", record)
	}
	if len(rec.Metadata.Command) != 0 || rec.Metadata.Cwd != "" {
		t.Errorf("another user sees the command line: %s", record)
	}
	c.MustClose(fd)
}

// The queue is shown in order, with whom it waits for.
func TestWaitingQueue(t *testing.T) {
	needsLatchfs(t)
	forEachMount(t, func(t *testing.T, m *Mount) {
		m.WriteFile("f", "x")
		holder := m.Client(t)
		fd := holder.Open("f", unix.O_RDWR)
		var calls []*Call
		for range 3 {
			call := m.Client(t).GoOpen("f", unix.O_RDWR)
			call.MustBlock(t)
			calls = append(calls, call)
		}
		s := m.AwaitStatus(t, "three waiters", func(s Status) bool { return s.Waiting() == 3 })
		queue := s.Queue
		for i, w := range queue {
			if w.Name != "f" || w.Place != i+1 || w.PID != calls[i].c.PID || w.Operation != "open" || len(w.WaitsFor) == 0 {
				t.Errorf("place %d of the queue is %+v", i+1, w)
			}
		}
		if !strings.Contains(queue[0].WaitsFor[0], strconv.Itoa(holder.PID)) {
			t.Errorf("the queue is %+v", queue)
		}
		if held := s.HolderOf("f"); held == nil || held.Waiters != 3 {
			t.Errorf("the holder's record is %+v", held)
		}
		holder.MustClose(fd)
		for _, call := range calls {
			call.OK()
			call.c.Quit()
		}
	})
}

// status.json is for programs: whether anything is locked, by whom, and whether
// the reader is the one.
func TestStatusJSON(t *testing.T) {
	needsLatchfs(t)
	type status struct {
		Locked bool `json:"locked"`
		Held   int  `json:"held"`
		Queued int  `json:"waiting"`
		Locks  []struct {
			Name     string   `json:"lock_name"`
			WeHoldIt bool     `json:"we_hold_it"`
			IsStale  bool     `json:"is_stale"`
			Holder   HeldLock `json:"holder"`
		} `json:"locks"`
		Queue []WaitingLock `json:"queue"`
	}
	forEachMount(t, func(t *testing.T, m *Mount) {
		read := func(c *Client) (s status) {
			m.decode(c.ReadFile(".locks/status.json"), &s)
			return s
		}
		m.WriteFile("f", "x")
		eventually(t, "nothing is locked", func() bool { return !read(m.control).Locked })
		c := m.Client(t)
		fd := c.Open("f", unix.O_RDWR)
		waiter := m.Client(t)
		call := waiter.GoOpen("f", unix.O_RDWR)
		call.MustBlock(t)
		for reader, own := range map[*Client]bool{c: true, m.control: false} {
			var s status
			eventually(t, "one waiter is shown", func() bool { s = read(reader); return s.Queued == 1 })
			if !s.Locked || s.Held != 1 || s.Queued != 1 || len(s.Locks) != 1 || len(s.Queue) != 1 {
				t.Fatalf("one holder and one waiter are shown as %+v", s)
			}
			l := s.Locks[0]
			if l.Name != "f" || l.IsStale || l.WeHoldIt != own || l.Holder.PID != c.PID || s.Queue[0].PID != waiter.PID {
				t.Errorf("own %v: %d holds f and %d waits, shown as %+v", own, c.PID, waiter.PID, s)
			}
		}
		c.MustClose(fd)
		call.OK()
	})
}

// Operators will try rm on a lock: an active one of somebody else is refused
// with EBUSY, and stays.
func TestRemovingALock(t *testing.T) {
	needsLatchfs(t)
	forEachMount(t, func(t *testing.T, m *Mount) {
		m.WriteFile("f", "x")
		c := m.Client(t)
		fd := c.Open("f", unix.O_RDWR)
		_, err := m.control.Do(wire.Request{Op: "unlink", Path: m.Path(".locks/held/f.lock")})
		if err != syscall.EBUSY {
			t.Errorf("removing an active lock: %v, want EBUSY", err)
		}
		m.AwaitHolder(t, "f", c.PID)
		c.Write(fd, "y")
		c.MustClose(fd)
		if got := m.ReadFile("f"); got != "y" {
			t.Errorf("the holder's commit left %q", got)
		}
	})
}

// Whoever removes the record of its own lock leaves those of others, which are in the same
// place, or on a directory above.
func TestRemovingALockLeavesOthers(t *testing.T) {
	needsLatchfs(t)
	forEachMount(t, func(t *testing.T, m *Mount) {
		m.Mkdir("d")
		m.WriteFile("d/f", "x")
		mine, other := m.shell(t), m.shell(t)
		other.do(`$L acquire --mode shared --tree d`, 0)
		mine.do(`$L acquire --mode shared d/f`, 0)
		mine.do(`rm .locks/held/d/f.lock`, 0)
		mine.do(`test -e .locks/held/d/f.lock`, 1)
		mine.do(`test -e .locks/held/d.lock`, 0)
		other.do(`$L release --tree d`, 0)
	})
}

// The audit trail names who did what; tail -f follows it; it survives a
// restart, and tokens rise across it.
func TestAuditTrail(t *testing.T) {
	needsLatchfs(t)
	forEachMount(t, func(t *testing.T, m *Mount) {
		tail := m.Launch(t, "tail", "-n", "+1", "-f", ".locks/events.jsonl")
		c := m.Client(t)
		must(t, c.Save("f", "12345"))
		e := m.AwaitEvent("commit", "f")
		if e.PID != c.PID || e.Bytes != 5 || e.Token == 0 || e.Session == "" || e.Program != "client" || time.Since(e.Time) > time.Minute {
			t.Errorf("the commit of %d is recorded as %+v", c.PID, e)
		}
		eventually(t, "tail -f has followed", func() bool { return strings.Contains(tail.Stdout(), `"commit"`) })
		tail.Kill()
		c.Kill()
		m.Stop(t)
		m.Start(t)
		if n := m.Commits("f"); n != 1 {
			t.Errorf("after a restart the trail has %d commits of f", n)
		}
		m.WriteFile("f", "again")
		if next := m.AwaitEvent("commit", "f"); next.Token <= e.Token {
			t.Errorf("after a restart the token fell from %d to %d", e.Token, next.Token)
		}
		kinds := map[string]bool{}
		for _, e := range m.Events() {
			kinds[e.Event] = true
		}
		if !kinds["mount"] || !kinds["unmount"] {
			t.Errorf("the trail has %v, want mount and unmount among them", kinds)
		}
	})
}

// With another name for the virtual directory, .locks is a name like any other.
func TestLocksDirName(t *testing.T) {
	needsLatchfs(t)
	m := mount(t, withArgs("--locks-dir", ".latch"), leftLocks())
	m.Mkdir(".locks")
	m.WriteFile(".locks/mine", "x")
	if got := m.ReadFile(".locks/mine"); got != "x" {
		t.Errorf("a file in .locks holds %q", got)
	}
	if got := m.ReadFile(".latch/README"); got == "" {
		t.Error("there is no README")
	}
}
