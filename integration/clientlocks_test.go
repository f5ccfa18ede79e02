package integration

import (
	"fmt"
	"slices"
	"strings"
	"syscall"
	"testing"
	"time"

	"golang.org/x/sys/unix"

	"latchfs/integration/internal/wire"
)

// Locks that programs take by themselves: flock(2), fcntl(2) and open file
// description locks. Most of these scenarios pass on a plain directory too and
// say that the mount behaves alike; those that mix locks with sessions do not.

// lockFiles are a file with sessions and a live one: the rules among lockers
// are the same on both.
var lockFiles = []string{"data.json", "x.lock"}

// forEachLockFile runs a scenario on every kind of mount and file.
func forEachLockFile(t *testing.T, test func(t *testing.T, m *Mount, name string)) {
	forEachMount(t, func(t *testing.T, m *Mount) {
		for _, name := range lockFiles {
			m.WriteFile(name, strings.Repeat("x", 100))
			t.Run(name, func(t *testing.T) { test(t, m, name) })
		}
	})
}

// locker opens a file for reading, which starts no session, in a new client.
func locker(t *testing.T, m *Mount, name string) (*Client, int) {
	t.Helper()
	c := m.Client(t)
	return c, c.Open(name, unix.O_RDONLY)
}

func TestFlockMatrix(t *testing.T) {
	forEachLockFile(t, func(t *testing.T, m *Mount, name string) {
		for _, c := range []struct {
			first, second int
			want          error
		}{
			{unix.LOCK_SH, unix.LOCK_SH, nil},
			{unix.LOCK_SH, unix.LOCK_EX, syscall.EAGAIN},
			{unix.LOCK_EX, unix.LOCK_SH, syscall.EAGAIN},
			{unix.LOCK_EX, unix.LOCK_EX, syscall.EAGAIN},
		} {
			a, fa := locker(t, m, name)
			b, fb := locker(t, m, name)
			a.OK(flockReq(fa, c.first))
			if _, err := b.Do(flockReq(fb, c.second|unix.LOCK_NB)); err != c.want {
				t.Errorf("%d beside %d: %v, want %v", c.second, c.first, err, c.want)
			}
			a.MustClose(fa)
			b.MustClose(fb)
		}
	})
}

// flock(2): "the existing lock is first removed, and then a new lock is
// established." A conversion that is refused leaves nothing.
func TestFlockConversionRefused(t *testing.T) {
	forEachLockFile(t, func(t *testing.T, m *Mount, name string) {
		a, fa := locker(t, m, name)
		b, fb := locker(t, m, name)
		a.OK(flockReq(fa, unix.LOCK_SH))
		a.OK(flockReq(fa, unix.LOCK_EX|unix.LOCK_NB)) // alone
		a.OK(flockReq(fa, unix.LOCK_SH|unix.LOCK_NB))
		b.OK(flockReq(fb, unix.LOCK_SH|unix.LOCK_NB))
		if _, err := a.Do(flockReq(fa, unix.LOCK_EX|unix.LOCK_NB)); err != syscall.EAGAIN {
			t.Errorf("conversion beside a shared lock: %v, want EAGAIN", err)
		}
		b.OK(flockReq(fb, unix.LOCK_EX|unix.LOCK_NB))
		a.MustClose(fa)
		b.MustClose(fb)
	})
}

// A flock belongs to the open file: two descriptors of one process exclude each
// other, a dup shares, and the last close ends it.
func TestFlockBelongsToTheOpenFile(t *testing.T) {
	forEachLockFile(t, func(t *testing.T, m *Mount, name string) {
		a, f1 := locker(t, m, name)
		f2 := a.Open(name, unix.O_RDONLY)
		a.OK(flockReq(f1, unix.LOCK_EX))
		if _, err := a.Do(flockReq(f2, unix.LOCK_EX|unix.LOCK_NB)); err != syscall.EAGAIN {
			t.Errorf("the same process through another open: %v, want EAGAIN", err)
		}
		dup := int(a.OK(wire.Request{Op: "dup", FD: f1}).N)
		a.MustClose(f1)
		b, fb := locker(t, m, name)
		if _, err := b.Do(flockReq(fb, unix.LOCK_EX|unix.LOCK_NB)); err != syscall.EAGAIN {
			t.Errorf("while a dup is open: %v, want EAGAIN", err)
		}
		wait := b.Go(flockReq(fb, unix.LOCK_EX))
		wait.MustBlock(t)
		a.MustClose(dup)
		wait.OK()
	})
}

// A waiting flock can be killed, the lock of a dead process is gone, and what is
// unlocked or converted is handed over.
func TestFlockWaits(t *testing.T) {
	forEachLockFile(t, func(t *testing.T, m *Mount, name string) {
		a, fa := locker(t, m, name)
		b, fb := locker(t, m, name)
		c, fc := locker(t, m, name)
		a.OK(flockReq(fa, unix.LOCK_EX))
		killed := b.Go(flockReq(fb, unix.LOCK_EX))
		killed.MustBlock(t)
		shared := c.Go(flockReq(fc, unix.LOCK_SH))
		shared.MustBlock(t)
		b.Signal(syscall.SIGKILL)
		if !killed.Ended() {
			t.Fatalf("a waiting flock survives SIGKILL: %s", describe(b.PID))
		}
		a.OK(flockReq(fa, unix.LOCK_SH)) // conversion lets the reader in
		shared.OK()
		up := a.Go(flockReq(fa, unix.LOCK_EX))
		up.MustBlock(t)
		c.Kill()
		up.OK()
		d, fd := locker(t, m, name)
		last := d.Go(flockReq(fd, unix.LOCK_EX))
		last.MustBlock(t)
		a.Kill()
		last.OK()
	})
}

// A flock is inherited over fork and lasts until the last of both has closed.
func TestFlockIsInherited(t *testing.T) {
	const script = `
import fcntl, os, sys
fd = os.open(sys.argv[1], os.O_RDONLY)
fcntl.flock(fd, fcntl.LOCK_EX)
if os.fork() == 0:
    sys.stdin.readline()
    os._exit(0)
print("ready", flush=True)
`
	forEachLockFile(t, func(t *testing.T, m *Mount, name string) {
		p := m.LaunchPython(t, script, name)
		p.AwaitLine("ready")
		eventually(t, "the parent's end", func() bool { return !alive(p.PID()) })
		c, fd := locker(t, m, name)
		if _, err := c.Do(flockReq(fd, unix.LOCK_EX|unix.LOCK_NB)); err != syscall.EAGAIN {
			t.Errorf("beside the heir of a dead locker: %v, want EAGAIN", err)
		}
		wait := c.Go(flockReq(fd, unix.LOCK_EX))
		wait.MustBlock(t)
		p.Close()
		wait.OK()
	})
}

// C4: the classic lock file in shell scripts.
func TestShellLockFiles(t *testing.T) {
	forEachMount(t, func(t *testing.T, m *Mount) {
		requireTool(t, "flock")
		holder := m.LaunchBash(t, `exec 200> f.lock; flock -x -w 30 200; echo ready; read; echo done`)
		holder.AwaitLine("ready")
		if o := m.Bash(t, `exec 200> f.lock; flock -n 200`); o.Code != 1 {
			t.Errorf("flock -n beside a holder ends with %d %s, want 1", o.Code, o.Stderr)
		}
		if o := m.Bash(t, `exec 200> f.lock; flock -w 0.2 200`); o.Code != 1 {
			t.Errorf("flock -w beside a holder ends with %d %s, want 1", o.Code, o.Stderr)
		}
		waiter := m.LaunchBash(t, `exec 200> f.lock; flock -x -w 30 200; echo mine`)
		waiter.MustWait()
		holder.Close()
		if out := waiter.OK(); out != "mine\n" {
			t.Errorf("the waiter printed %q", out)
		}
		// Eleven at once (C5), and the lock file may be deleted meanwhile (C4).
		o := m.Bash(t, `for n in {1..11}; do eval "exec $((n+200))> l$n.lock"; flock -n $((n+200)) || exit 1; done; rm *.lock; echo ok`)
		if o.Stdout != "ok\n" {
			t.Errorf("eleven locks in one process: %d %s", o.Code, o.Stderr)
		}
	})
}

// One table: a flock keeps other processes' sessions out, and a session keeps
// their flock waiting. Readers are never concerned.
func TestFlockAndSessionsExcludeEachOther(t *testing.T) {
	needsLatchfs(t)
	forEachMount(t, func(t *testing.T, m *Mount) {
		m.WriteFile("f", "old\n")
		for _, how := range []int{unix.LOCK_EX, unix.LOCK_SH} {
			a, fa := locker(t, m, "f")
			b, fb := locker(t, m, "f")
			a.OK(flockReq(fa, how))
			if got := m.ReadFile("f"); got != "old\n" {
				t.Errorf("a reader beside a flock reads %q", got)
			}
			write := b.GoOpen("f", unix.O_WRONLY)
			write.MustBlock(t)
			a.MustClose(fa)
			fd := int(write.OK().N)

			c, fc := locker(t, m, "f")
			lock := c.Go(flockReq(fc, how))
			lock.MustBlock(t)
			b.OK(flockReq(fb, unix.LOCK_EX)) // the session's own process may
			b.OK(flockReq(fb, unix.LOCK_UN))
			b.MustClose(fd)
			lock.OK()
			c.Quit()
			b.Quit()
		}
	})
}

// What a process locks by flock it may write itself, and its children too.
func TestFlockHolderMayWrite(t *testing.T) {
	forEachMount(t, func(t *testing.T, m *Mount) {
		requireTool(t, "flock")
		m.WriteFile("f", "old\n")
		unwaited(t, m, "bash", "-c", `exec 3< f; flock -x 3; echo self > f; sh -c 'echo child >> f'; mv f g; echo again > f`)
		if got := m.ReadFile("g") + m.ReadFile("f"); got != "self\nchild\nagain\n" {
			t.Errorf("the files hold %q", got)
		}
	}, shortWait)
}

// Show 4 for locks: 50 waiters of one flock are served one at a time, in order.
func TestFlockIsFair(t *testing.T) {
	const waiters = 50
	forEachMount(t, func(t *testing.T, m *Mount) {
		m.WriteFile("x.lock", "x")
		holder, fd := locker(t, m, "x.lock")
		holder.OK(flockReq(fd, unix.LOCK_EX))
		var calls []*Call
		for range waiters {
			c, fd := locker(t, m, "x.lock")
			call := c.Go(flockReq(fd, unix.LOCK_EX))
			call.MustBlock(t)
			calls = append(calls, call)
		}
		holder.MustClose(fd)
		for n, call := range calls {
			call.OK()
			for later := n + 1; later < len(calls); later++ {
				if calls[later].Done() {
					t.Fatalf("waiter %d has the lock beside waiter %d", later, n)
				}
			}
			call.c.Kill()
		}
	})
}

// timeLimit fails a scenario that took longer than a lock wait could explain.
func timeLimit(t *testing.T, limit time.Duration, what string) func() {
	start := time.Now()
	return func() {
		if took := time.Since(start); took > promised(limit) {
			t.Errorf("%s took %v", what, took)
		}
	}
}

// EINTR: a handler that does not restart ends a wait for a flock, as the manual
// page says, and the place in the queue is free.
func TestFlockIsInterruptible(t *testing.T) {
	const script = `
import fcntl, os, signal, sys
class Interrupted(Exception): pass
def handler(*a): raise Interrupted
signal.signal(signal.SIGUSR1, handler)
fd = os.open("x.lock", os.O_RDONLY)
try:
    fcntl.flock(fd, fcntl.LOCK_EX)
except Interrupted:
    print("interrupted")
`
	forEachMount(t, func(t *testing.T, m *Mount) {
		m.WriteFile("x.lock", "x")
		holder, fd := locker(t, m, "x.lock")
		holder.OK(flockReq(fd, unix.LOCK_EX))
		p := m.LaunchPython(t, script)
		eventually(t, "the flock waits", func() bool { return inSyscall(p.PID(), unix.SYS_FLOCK) })
		done := timeLimit(t, 2*time.Second, "the interruption")
		p.Signal(syscall.SIGUSR1)
		if out := p.OK(); out != "interrupted\n" {
			t.Errorf("printed %q", out)
		}
		done()
		if !*plain {
			eventually(t, "the queue is empty", func() bool { return m.Status().Waiting() == 0 })
		}
	})
}

// The table shows what is locked, and how.
func TestClientLocksAreShown(t *testing.T) {
	needsLatchfs(t)
	forEachMount(t, func(t *testing.T, m *Mount) {
		m.WriteFile("x.lock", "x")
		a, fa := locker(t, m, "x.lock")
		a.OK(flockReq(fa, unix.LOCK_SH))
		held := m.AwaitHolder(t, "x.lock", a.PID)
		if held.Class != "flock" || held.Mode != "shared" {
			t.Errorf("a shared flock is shown as %+v", held)
		}
		b, fb := rangeLocker(t, m)
		b.OK(fcntlReq("setlk", fb, unix.F_WRLCK, 3, 4))
		var classes []string
		two := m.AwaitStatus(t, "two locks", func(s Status) bool { return s.Held() == 2 })
		for _, l := range two.HeldLocks {
			classes = append(classes, fmt.Sprint(l.Class, " ", l.Mode, " ", l.PID == a.PID, l.PID == b.PID))
		}
		want := []string{"flock shared true false", "posix exclusive false true"}
		if strings.Join(classes, ",") != strings.Join(want, ",") {
			t.Errorf("the locks are shown as %q, want %q", classes, want)
		}
		// flock(1) has taken it for its shell, and is gone.
		p := m.LaunchBash(t, `exec 3>> log.txt; flock 3; echo locked; read`)
		p.AwaitLine("locked")
		if held := m.AwaitHolder(t, "log.txt", p.PID()); held.Metadata.Program != "bash" || held.Actor != "bash" {
			t.Errorf("a shell's flock is shown as %+v", held)
		}
		p.Send("")
		p.OK()
	})
}

// Locks that were only tried for are shown like all others.
func TestTriedLocksAreShown(t *testing.T) {
	needsLatchfs(t)
	type shown struct {
		Locks []struct {
			Name   string   `json:"lock_name"`
			Holder HeldLock `json:"holder"`
		} `json:"locks"`
	}
	forEachMount(t, func(t *testing.T, m *Mount) {
		m.Mkdir("d")
		m.WriteFile("d/x.lock", "x")
		m.WriteFile("d/data.json", "x")
		a := m.Client(t)
		a.OK(flockReq(a.Open("d/x.lock", unix.O_RDONLY), unix.LOCK_EX|unix.LOCK_NB))
		a.OK(fcntlReq("setlk", a.Open("d/data.json", unix.O_RDONLY), unix.F_RDLCK, 0, 0))
		var got []string
		eventually(t, "two locks", func() bool {
			var s shown
			m.decode(m.Locks("status.json"), &s)
			got = nil
			for _, l := range s.Locks {
				got = append(got, fmt.Sprint(l.Name, " ", l.Holder.Operation, " ", l.Holder.PID == a.PID))
			}
			slices.Sort(got)
			return len(got) == 2
		})
		if want := []string{"d/data.json fcntl true", "d/x.lock flock true"}; !slices.Equal(got, want) {
			t.Errorf("status.json shows %q, want %q", got, want)
		}
	})
}
