package integration

import (
	"encoding/json"
	"fmt"
	"os"
	"strings"
	"syscall"
	"testing"
	"time"

	"golang.org/x/sys/unix"

	"latchfs/integration/internal/wire"
)

// Show 14: `latchfs guard` runs a program under locks.

// guard ends as its command does, and gives its lock back whatever the end is.
func TestGuardEndsAsItsCommand(t *testing.T) {
	needsLatchfs(t)
	forEachMount(t, func(t *testing.T, m *Mount) {
		m.WriteFile("f", "data")
		for _, end := range []struct {
			code int
			argv []string
		}{
			{0, []string{"true"}},
			{3, []string{"sh", "-c", "exit 3"}},
			{8, []string{"sh", "-c", "exit 8"}},
			{128 + int(syscall.SIGTERM), []string{"sh", "-c", "kill -TERM $$"}},
			{128 + int(syscall.SIGKILL), []string{"sh", "-c", "kill -KILL $$"}},
			{126, []string{"./f"}},
			{127, []string{"./no-such-program"}},
			{127, []string{"no-such-program"}},
		} {
			mustEndWith(t, m.Guard(t, append([]string{"f", "--"}, end.argv...)...).Wait(), end.code)
			if s := m.LockStatus("f"); s.Locked {
				t.Errorf("after %q f is locked by %d", end.argv, s.Holder.PID)
			}
		}
		mustEndWith(t, m.Latchfs(t, "guard", "f"), 2)
		mustEndWith(t, m.Latchfs(t, "guard", "--name", "No", "--", "true"), 2)
	})
}

// A guard that does not get its lock does not run its command: exit code 8, and
// the words of requirements C7, W7 and T5.
func TestGuardIsRefused(t *testing.T) {
	needsLatchfs(t)
	forEachMount(t, func(t *testing.T, m *Mount) {
		m.WriteFile("f", "data")
		holder := m.heldGuard(t, "--operation", "nightly import", "--actor", "agent-7", "f")
		session := m.LockStatus("f").Holder.Session
		held := "Held by session '" + session + "' for operation 'nightly import'"

		o := m.Guard(t, "--wait", "0", "f", "--", "touch", "ran").Wait()
		mustEndWith(t, o, 8, "Cannot acquire lock on f (another process may be active)", held, fmt.Sprint(holder.PID()))
		o = m.Guard(t, "--wait", "50ms", "--json", "f", "--", "touch", "ran").Wait()
		mustEndWith(t, o, 8, "Failed to acquire lock (timeout after 50ms)", "Could not acquire lock within 50ms. "+held)
		var said struct {
			Error, Suggestion string
			LockName          string `json:"lock_name"`
			HeldBy            struct {
				RequestID string `json:"request_id"`
				Actor     string
				Intent    string
				Created   time.Time `json:"created_at"`
				Heartbeat time.Time `json:"last_heartbeat_at"`
			} `json:"held_by"`
		}
		if err := json.Unmarshal([]byte(o.Stdout), &said); err != nil {
			t.Fatalf("not JSON: %v\n%s", err, o.Stdout)
		}
		by := said.HeldBy
		if said.Error != "lock_blocked" || said.LockName != "f" || said.Suggestion == "" || by.RequestID != session ||
			by.Actor != "agent-7" || by.Intent != "nightly import" || by.Created.IsZero() || by.Heartbeat.IsZero() {
			t.Errorf("the refusal is %s", o.Stdout)
		}
		if names := m.List(""); len(names) != 1 {
			t.Errorf("the refused command has run: %q", names)
		}
		holder.Close()
		holder.OK()
	})
}

// While guard runs, strangers wait to write the file and go on reading it; the
// command and what it starts write it as if there were no lock.
func TestGuardedTreeWrites(t *testing.T) {
	alongside(t)
	needsLatchfs(t)
	forEachMount(t, func(t *testing.T, m *Mount) {
		m.WriteFile("f", "0\n")
		p := m.Guard(t, "f", "--", "bash", "-c",
			`echo ready; read; echo 1 > f; (sh -c 'echo 2 >> f'); python3 -c 'open("f", "a").write("3\n")'; mv f g; mv g f; echo wrote; cat >/dev/null`)
		p.AwaitLine("ready")
		stranger := m.Client(t)
		next := stranger.GoOpen("f", unix.O_RDWR)
		next.MustBlock(t)
		p.Send("go")
		p.AwaitLine("wrote")
		if got := m.ReadFile("f"); got != "1\n2\n3\n" {
			t.Errorf("a reader finds %q", got)
		}
		next.MustBlock(t)
		p.Close()
		p.OK()
		fd := int(next.OK().N)
		if got := stranger.ReadAt(fd, 100, 0); got != "1\n2\n3\n" {
			t.Errorf("the next writer finds %q", got)
		}
		stranger.MustClose(fd)
	})
}

// SIGTERM to guard is its command's, and so its own, end.
func TestGuardPassesSignalsOn(t *testing.T) {
	needsLatchfs(t)
	forEachMount(t, func(t *testing.T, m *Mount) {
		m.WriteFile("f", "data")
		p := m.Guard(t, "f", "--", "sh", "-c", `trap 'echo trapped; exit 5' TERM; echo ready; while :; do read x; done`)
		p.AwaitLine("ready")
		p.Signal(syscall.SIGTERM)
		p.Send("") // a shell's trap runs when its read is over
		o := p.Wait()
		mustEndWith(t, o, 5)
		if !strings.Contains(o.Stdout, "trapped") || m.LockStatus("f").Locked {
			t.Errorf("SIGTERM: %s %+v", o.Stdout, m.LockStatus("f"))
		}
		// One that waits for its lock leaves the queue.
		holder := m.heldGuard(t, "f")
		waiter := m.Guard(t, "f", "--", "true")
		waiter.MustWait()
		waiter.Signal(syscall.SIGTERM)
		mustEndWith(t, waiter.Wait(), 128+int(syscall.SIGTERM))
		m.AwaitWaiters(t, "f", 0)
		holder.Close()
		holder.OK()
	})
}

// A guard that is killed leaves its lock to what its command started: it ends
// when they are all gone, and until then they can use the file.
func TestKilledGuardLeavesTheLockToItsTree(t *testing.T) {
	needsLatchfs(t)
	const orphans = `
( echo one; read x; echo two >> f; echo wrote; read x ) <&4 &
( exec 4<&-; read x; echo three >> f; echo also; read x ) <&5 &
exit_at() { read x; exit; }
exit_at
`
	forEachMount(t, func(t *testing.T, m *Mount) {
		m.WriteFile("f", "")
		for _, fifo := range []string{"first", "second"} {
			if err := unix.Mkfifo(m.Home()+"/"+fifo, 0o666); err != nil {
				t.Fatal(err)
			}
			os.Chmod(m.Home()+"/"+fifo, 0o666)
		}
		p := m.Guard(t, "f", "--", "bash", "-c", `exec 4<>"$HOME/first" 5<>"$HOME/second"`+orphans)
		p.AwaitLine("one")
		first, second := openFifo(t, m.Home()+"/first"), openFifo(t, m.Home()+"/second")
		stranger := m.Client(t)
		next := stranger.GoOpen("f", unix.O_RDWR)
		next.MustBlock(t)
		p.Signal(syscall.SIGKILL)
		eventually(t, "the guard's end", func() bool { return !alive(p.PID()) })
		next.MustBlock(t)
		p.Close() // the command itself ends, too
		first.WriteString("go\n")
		p.AwaitOutput("wrote")
		next.MustBlock(t)
		first.WriteString("end\n")
		second.WriteString("go\n")
		p.AwaitOutput("also")
		if got := m.ReadFile("f"); got != "two\nthree\n" {
			t.Errorf("the orphans have written %q", got)
		}
		next.MustBlock(t)
		second.WriteString("end\n")
		stranger.MustClose(int(next.OK().N))
	})
}

// openFifo opens a fifo that somebody has open already.
func openFifo(t testing.TB, name string) *os.File {
	t.Helper()
	f, err := os.OpenFile(name, os.O_RDWR, 0)
	if err != nil {
		t.Fatal(err)
	}
	t.Cleanup(func() { f.Close() })
	return f
}

// Several files are locked all or none: who waits for one of them holds none.
func TestGuardTakesAllOrNothing(t *testing.T) {
	needsLatchfs(t)
	forEachMount(t, func(t *testing.T, m *Mount) {
		for _, f := range []string{"a", "b", "c"} {
			m.WriteFile(f, "")
		}
		holder := m.heldGuard(t, "b")
		mustEndWith(t, m.Guard(t, "--wait", "0", "a", "b", "c", "--", "true").Wait(), 8, "on b ")
		both := m.Guard(t, "a", "b", "c", "--", "sh", "-c", "echo ready; cat")
		both.MustWait()
		c := m.Client(t)
		for _, f := range []string{"a", "c"} {
			if s := m.LockStatus(f); s.Locked {
				t.Errorf("%s is locked by one that still waits for b", f)
			}
		}
		holder.Close()
		holder.OK()
		both.AwaitLine("ready")
		for _, f := range []string{"a", "b", "c"} {
			if _, err := c.TryOpen(f, unix.O_RDWR|unix.O_NONBLOCK); err != syscall.EAGAIN {
				t.Errorf("%s: %v", f, err)
			}
		}
		both.Close()
		both.OK()
	})
}

// Two that take the same files in different order never wait for each other.
func TestGuardsOfTheSameFilesNeverDeadlock(t *testing.T) {
	alongside(t)
	needsLatchfs(t)
	rounds := repeat(3, 200)
	forEachMount(t, func(t *testing.T, m *Mount) {
		m.WriteFile("a", "")
		m.WriteFile("b", "")
		const loop = `for i in $(seq $2); do "$1" guard "$3" "$4" -- sh -c 'echo x >> a; echo x >> b' || exit; done`
		one := m.LaunchBash(t, loop, bench.binary, fmt.Sprint(rounds), "a", "b")
		two := m.LaunchBash(t, loop, bench.binary, fmt.Sprint(rounds), "b", "a")
		one.OK()
		two.OK()
		if want := strings.Repeat("x\n", 2*rounds); m.ReadFile("a") != want || m.ReadFile("b") != want {
			t.Errorf("a and b hold %s and %s", summary(m.ReadFile("a")), summary(m.ReadFile("b")))
		}
	})
}

// --tree keeps strangers from everything below a directory; they may read.
func TestGuardedTree(t *testing.T) {
	needsLatchfs(t)
	forEachMount(t, func(t *testing.T, m *Mount) {
		m.Mkdir("d")
		m.Mkdir("d/sub")
		for _, f := range []string{"d/f", "d/sub/g", "beside"} {
			m.WriteFile(f, "old\n")
		}
		p := m.Guard(t, "--tree", "d", "--", "bash", "-c", `echo ready; read
			echo new > d/f; echo new > d/sub/h; mkdir d/e; mv d/sub/g d/e/; rm d/sub/h; echo wrote; cat`)
		p.AwaitLine("ready")
		reqs := []wire.Request{
			{Op: "open", Path: m.Path("d/sub/g"), Flags: unix.O_RDWR},
			{Op: "open", Path: m.Path("d/f"), Flags: unix.O_WRONLY | unix.O_TRUNC},
			{Op: "writeall", Path: m.Path("d/new"), Mode: 0o644, Data: []byte("new")},
			{Op: "mkdir", Path: m.Path("d/made"), Mode: 0o755},
			{Op: "unlink", Path: m.Path("d/f")},
			{Op: "rename", Path: m.Path("beside"), To: m.Path("d/f")},
			{Op: "rename", Path: m.Path("d/sub"), To: m.Path("sub")},
			{Op: "rename", Path: m.Path("d"), To: m.Path("e")},
		}
		var calls []*Call
		for _, r := range reqs {
			call := m.Client(t).Go(r)
			call.MustBlock(t)
			calls = append(calls, call)
		}
		if got := m.ReadFile("d/f") + m.ReadFile("d/sub/g") + strings.Join(m.List("d"), " "); got != "old\nold\nf sub" {
			t.Errorf("a reader finds %q", got)
		}
		m.WriteFile("outside", "") // not below d
		p.Send("go")
		p.AwaitLine("wrote")
		if got := m.ReadFile("d/f") + m.ReadFile("d/e/g"); got != "new\nold\n" {
			t.Errorf("the command has written %q", got)
		}
		for _, call := range calls {
			if call.Done() {
				t.Errorf("%s %s did not wait: %+v", call.Req.Op, call.Req.Path, call.res)
			}
			call.c.Kill()
		}
		p.Close()
		p.OK()
		m.WriteFile("d/f", "after")
	})
}

// A name is a lock that stands for no file.
func TestGuardedName(t *testing.T) {
	needsLatchfs(t)
	forEachMount(t, func(t *testing.T, m *Mount) {
		holder := m.heldGuard(t, "--name", "deploy-prod")
		mustEndWith(t, m.Guard(t, "--name", "deploy-prod", "--wait", "0", "--", "true").Wait(), 8, "deploy-prod")
		mustEndWith(t, m.Guard(t, "--name", "deploy-test", "--wait", "0", "--", "true").Wait(), 0)
		m.WriteFile("deploy-prod", "a file is something else")
		waiter := m.Guard(t, "--name", "deploy-prod", "--", "echo", "mine")
		waiter.MustWait()
		holder.Close()
		holder.OK()
		if out := waiter.OK(); out != "mine\n" {
			t.Errorf("the next one printed %q", out)
		}
	})
}

// A guard under a guard of the same file passes it, at any depth.
func TestNestedGuards(t *testing.T) {
	needsLatchfs(t)
	forEachMount(t, func(t *testing.T, m *Mount) {
		m.WriteFile("f", "")
		const nest = `"$1" guard f -- bash -c '"$1" guard --tree . -- bash -c "\"\$1\" guard f -- sh -c \"echo x >> f\"" x "$1"; echo y >> f' x "$1"`
		p := m.LaunchBash(t, nest, bench.binary)
		p.OK()
		if got := m.ReadFile("f"); got != "x\ny\n" {
			t.Errorf("f holds %q", got)
		}
		m.AwaitClear(t)
	})
}

// A process that is no descendant joins by LATCHFS_SESSION: here a job server
// that was there before the guard.
func TestSessionVariableJoins(t *testing.T) {
	needsLatchfs(t)
	const server = `mkfifo "$HOME/jobs" && exec 3<>"$HOME/jobs" && echo ready
while read -r session job <&3; do LATCHFS_SESSION=$session setsid sh -c "$job" </dev/null; echo "done $?"; done`
	forEachMount(t, func(t *testing.T, m *Mount) {
		m.WriteFile("f", "")
		jobs := m.LaunchBash(t, server)
		jobs.AwaitLine("ready")
		p := m.Guard(t, "f", "--", "bash", "-c", `echo "session $LATCHFS_SESSION"; cat`)
		eventually(t, "the session's id", func() bool { return strings.HasPrefix(p.Stdout(), "session ") && strings.HasSuffix(p.Stdout(), "\n") })
		session := strings.TrimSpace(strings.TrimPrefix(p.Stdout(), "session "))
		fifo := openFifo(t, m.Home()+"/jobs")
		submit := func(session, job, want string) {
			t.Helper()
			before := strings.Count(jobs.Stdout(), "done")
			fmt.Fprintln(fifo, session, job)
			eventually(t, "the job "+job, func() bool { return strings.Count(jobs.Stdout(), "done") > before })
			if !strings.HasSuffix(jobs.Stdout(), "done "+want+"\n") {
				t.Errorf("%s: %s%s", job, jobs.Stdout(), jobs.Stderr())
			}
		}
		submit(session, `echo joined >> f`, "0")
		submit(session, `dd if=/dev/null of=f oflag=nonblock conv=notrunc status=none`, "0")
		submit(session, fmt.Sprintf(`%s guard --wait 0 f -- sh -c "echo nested >> f"`, bench.binary), "0")
		submit("other", `dd if=/dev/null of=f oflag=nonblock conv=notrunc status=none`, "1")
		if got := m.ReadFile("f"); got != "joined\nnested\n" {
			t.Errorf("f holds %q", got)
		}
		p.Close()
		p.OK()
		submit(session, `echo late >> f`, "0")
		jobs.Kill()
	})
}
