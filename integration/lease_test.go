package integration

import (
	"crypto/sha256"
	"encoding/hex"
	"encoding/json"
	"fmt"
	"strings"
	"syscall"
	"testing"
	"time"

	"golang.org/x/sys/unix"

	"latchfs/integration/internal/wire"
)

// Show 15: a holder that hangs loses its lock, one that works never does, and
// what the first one writes late is kept aside.

// briefLease is a policy under which a lock goes stale soon.
func briefLease(ttl string, more ...string) mountOption {
	return withPolicy("[defaults]\nttl = \"" + ttl + "\"\n" + strings.Join(more, "\n"))
}

// firmLease is for tests in which a lock must not go stale before they say so, or is
// stolen when it does: nothing may happen in it, on however busy a machine.
const firmLease = 6 * time.Second

// The whole of it: a stopped writer's lock goes stale, another one takes it and
// commits, and the first one's close is refused.
func TestStoppedWriterIsFenced(t *testing.T) {
	inTestAll(t)
	alongside(t)
	needsLatchfs(t)
	thieves := map[string]func(*testing.T, *Mount){
		"guard": func(t *testing.T, m *Mount) {
			m.Guard(t, "--steal", "f", "--", "sh", "-c", "echo thief > f").OK()
		},
		"acquire": func(t *testing.T, m *Mount) {
			m.LaunchBash(t, `"$1" acquire --steal f && echo thief > f`, bench.binary).OK()
		},
		"steal": func(t *testing.T, m *Mount) {
			mustEndWith(t, m.Latchfs(t, "steal", "f"), 8, "stale")
			mustEndWith(t, m.Latchfs(t, "steal", "--force", "f"), 0)
			m.WriteFile("f", "thief\n")
		},
		"rm": func(t *testing.T, m *Mount) {
			m.LaunchBash(t, `rm .locks/held/f.lock && echo thief > f`).OK()
		},
	}
	forEachMount(t, func(t *testing.T, m *Mount) {
		for how, steal := range thieves {
			t.Run(how, func(t *testing.T) {
				m.WriteFile("f", "old\n")
				c := m.Client(t)
				fd := c.Open("f", unix.O_WRONLY|unix.O_TRUNC)
				c.Write(fd, "late\n")
				c.Signal(syscall.SIGSTOP)
				mustEndWith(t, m.Guard(t, "--wait", "0", "f", "--", "true").Wait(), 8)
				stale := m.AwaitStale(t, "f")
				if stale.Holder.PID != c.PID {
					t.Errorf("the stale holder is %d, want %d", stale.Holder.PID, c.PID)
				}
				if len(m.lockEvents("heartbeat_failed", "f")) == 0 {
					t.Error("no heartbeat_failed in the audit trail")
				}
				thefts := len(m.lockEvents("lock_stolen", "f"))
				steal(t, m)
				checkTheft(t, m, m.awaitLockEvents("lock_stolen", "f", thefts+1)[thefts], stale)
				c.Signal(syscall.SIGCONT)
				if err := c.Close(fd); err != syscall.ESTALE {
					t.Errorf("the late close: %v, want ESTALE", err)
				}
				if got := m.ReadFile("f"); got != "thief\n" {
					t.Errorf("f holds %q", got)
				}
				if kept := m.rejectedBytes(); !strings.Contains(kept, "late\n") {
					t.Errorf("the late bytes are not kept, only %q", kept)
				}
			})
		}
	}, briefLease("600ms"))
}

// checkTheft looks at the event of a theft: the record that was shown, its hash,
// and a thief with a higher token.
func checkTheft(t *testing.T, m *Mount, ev map[string]any, stale LockStatus) {
	t.Helper()
	var raw struct {
		Previous json.RawMessage `json:"previous_lock"`
		Hash     string          `json:"previous_lock_hash"`
		Reason   string          `json:"reason"`
	}
	var previous HeldLock
	for line := range strings.Lines(m.Locks("events.jsonl")) {
		if strings.Contains(line, `"lock_stolen"`) && strings.Contains(line, `"`+stale.Holder.Session+`"`) {
			m.decode(line, &raw)
			m.decode(string(raw.Previous), &previous)
		}
	}
	sum := sha256.Sum256(raw.Previous)
	if want := "sha256:" + hex.EncodeToString(sum[:]); raw.Hash != want {
		t.Errorf("the hash is %s, that of previous_lock %s\n%s", raw.Hash, want, raw.Previous)
	}
	if previous.PID != stale.Holder.PID || previous.Token != stale.Holder.Token || raw.Reason != "stale_lock_forced" {
		t.Errorf("the theft is %v", ev)
	}
	p := m.heldGuard(t, "f")
	if now := m.LockStatus("f"); now.Holder.Token <= stale.Holder.Token {
		t.Errorf("the token %d does not rise over %d", now.Holder.Token, stale.Holder.Token)
	}
	p.Close()
	p.OK()
}

// rejectedBytes is all that is kept under .locks/rejected/.
func (m *Mount) rejectedBytes() string {
	m.t.Helper()
	return strings.Join(m.tree(".locks/rejected"), "\n")
}

// A holder that is busy in whatever way is alive: its own loop, that of a child,
// or what it writes, which is all that can be seen of one in another pid namespace.
func TestBusyHolderIsNeverStale(t *testing.T) {
	inStress(t)
	needsLatchfs(t)
	const length = 4 * time.Second
	forEachMount(t, func(t *testing.T, m *Mount) {
		for _, f := range []string{"loop", "child", "guarded", "writing"} {
			m.WriteFile(f, "data\n")
		}
		m.LaunchPython(t, "f = open('loop', 'r+')\nwhile True: pass")
		m.LaunchPython(t, "import os, signal\nf = open('child', 'r+')\nif os.fork() == 0:\n  while True: pass\nsignal.pause()")
		m.Guard(t, "guarded", "--", "bash", "-c", "while :; do sleep 0.1; done")
		c := m.Client(t)
		fd := c.Open("writing", unix.O_RDWR)
		held := func(s Status) bool { return s.Held() == 4 }
		m.AwaitStatus(t, "four locks", held)
		for until := time.Now().Add(length); time.Now().Before(until); time.Sleep(50 * time.Millisecond) {
			c.OK(wire.Request{Op: "pwrite", FD: fd, Data: []byte("more\n")})
			if s := m.Locks("status.json"); strings.Contains(s, `"stale_since"`) {
				t.Fatalf("an active holder is stale:\n%s", s)
			}
		}
		for _, f := range []string{"loop", "child", "guarded", "writing"} {
			mustEndWith(t, m.Latchfs(t, "steal", "--force", f), 8,
				"Held by session '"+m.LockStatus(f).Holder.Session, fmt.Sprint(m.LockStatus(f).Holder.PID), "its lease runs until")
		}
		c.MustClose(fd)
	}, briefLease("1s"), leftLocks())
}

// Of a holder in another pid namespace only what it does to the file is seen:
// writes, which with passthrough go past latchfs.
func TestUnseenHolderLivesByItsWrites(t *testing.T) {
	inStress(t)
	needsLatchfs(t)
	needsRoot(t)
	for _, opts := range [][]mountOption{{}, {noPassthrough()}} {
		m := mount(t, append([]mountOption{foreignPIDs(), briefLease("600ms")}, opts...)...)
		m.WriteFile("f", "data\n")
		c := m.Client(t)
		fd := c.Open("f", unix.O_RDWR)
		for until := time.Now().Add(2 * time.Second); time.Now().Before(until); time.Sleep(50 * time.Millisecond) {
			c.OK(wire.Request{Op: "pwrite", FD: fd, Data: []byte("more\n")})
			if m.LockStatus("f").Stale {
				t.Fatalf("%s: a writing holder is stale", m.Name)
			}
		}
		m.AwaitStale(t, "f")
		c.MustClose(fd)
	}
}

// With on-stale = "steal" whoever waits has the lock when it goes stale, one
// after the other in the order of the queue.
func TestStaleLockGoesToWhoWaits(t *testing.T) {
	alongside(t)
	needsLatchfs(t)
	forEachMount(t, func(t *testing.T, m *Mount) {
		m.WriteFile("f", "")
		c := m.Client(t)
		fd := c.Open("f", unix.O_WRONLY)
		c.Write(fd, "late\n")
		c.Signal(syscall.SIGSTOP)
		var waiters []*Proc
		for i := range 3 {
			p := m.Guard(t, "f", "--", "sh", "-c", fmt.Sprintf("echo %d >> f", i))
			p.MustWait()
			waiters = append(waiters, p)
		}
		for _, p := range waiters {
			p.OK()
		}
		if got := m.ReadFile("f"); got != "0\n1\n2\n" {
			t.Errorf("f holds %q", got)
		}
		if n := len(m.lockEvents("lock_stolen", "f")); n != 1 {
			t.Errorf("%d thefts, want 1", n)
		}
		c.Signal(syscall.SIGCONT)
		if err := c.Close(fd); err != syscall.ESTALE {
			t.Errorf("the late close: %v, want ESTALE", err)
		}
	}, briefLease(firmLease.String(), `on-stale = "steal"`))
}

// A guard whose whole tree was stopped, and its lock stolen: what goes on later
// cannot open the file for writing, until that guard has ended.
func TestFencedGuardKeepsItsTreeOut(t *testing.T) {
	needsLatchfs(t)
	const command = `echo ready; read
echo late > f; echo "open $?"; cat f >/dev/null; echo "read $?"; echo x > g; echo "other $?"; read; exit 6`
	forEachMount(t, func(t *testing.T, m *Mount) {
		m.WriteFile("f", "old\n")
		m.WriteFile("g", "")
		p := m.Guard(t, "f", "--", "bash", "-c", command)
		p.AwaitLine("ready")
		m.signalTree(t, p, syscall.SIGSTOP)
		stale := m.AwaitStale(t, "f")
		m.Guard(t, "--steal", "f", "--", "sh", "-c", "echo thief > f").OK()
		m.awaitLockEvents("lock_stolen", "f", 1)
		m.signalTree(t, p, syscall.SIGCONT)
		p.Send("go")
		p.AwaitLine("other 0")
		if out := p.Stdout(); !strings.Contains(out, "open 1\n") || !strings.Contains(out, "read 0\n") {
			t.Errorf("after the theft: %s%s", out, p.Stderr())
		}
		holder := m.heldGuard(t, "f") // the thief's successor
		p.Send("end")
		o := p.Wait()
		mustEndWith(t, o, 6)
		if s := m.LockStatus("f"); s.Holder.PID != holder.PID() || s.Holder.Session == stale.Holder.Session {
			t.Errorf("the fenced guard has released another's lock: %+v", s)
		}
		holder.Close()
		holder.OK()
		if got := m.ReadFile("f"); got != "thief\n" {
			t.Errorf("f holds %q", got)
		}
		for _, ev := range m.lockEvents("lock_released", "f") {
			if ev["request_id"] == stale.Holder.Session {
				t.Errorf("a stolen lock was released: %v", ev)
			}
		}
		m.WriteFile("f", "after\n")
	}, briefLease("600ms"))
}

// signalTree sends a signal to a program and what it started.
func (m *Mount) signalTree(t testing.TB, p *Proc, s syscall.Signal) {
	t.Helper()
	if err := syscall.Kill(-p.PID(), s); err != nil {
		t.Fatal(err)
	}
}
