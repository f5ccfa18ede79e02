package integration

import (
	"errors"
	"fmt"
	"slices"
	"strconv"
	"strings"
	"sync"
	"syscall"
	"testing"
	"time"

	"golang.org/x/sys/unix"

	"latchfs/integration/internal/wire"
)

// Show 4: the second writer.

// The second writer waits for the first one's close, and for nothing else.
func TestSecondWriterProceedsAtTheClose(t *testing.T) {
	const rounds = 15
	forEachMount(t, func(t *testing.T, m *Mount) {
		m.WriteFile("f", "0\n")
		first, second := m.Client(t), m.Client(t)
		var took []time.Duration
		for n := range rounds {
			fd := first.Open("f", unix.O_WRONLY|unix.O_TRUNC)
			next := second.GoOpen("f", unix.O_RDWR)
			next.MustBlock(t)
			want := fmt.Sprintf("%d\n", n+1)
			first.Write(fd, want)
			first.MustClose(fd)
			closed := time.Now()
			fd = int(next.OK().N)
			took = append(took, time.Since(closed))
			if got := second.ReadAt(fd, 100, 0); got != want {
				t.Fatalf("the second writer finds %q, want %q", got, want)
			}
			second.MustClose(fd)
		}
		slices.Sort(took)
		if median := took[len(took)/2]; median > promised(10*time.Millisecond) {
			t.Errorf("the second writer went on %v after the close (median), slowest %v", median, took[len(took)-1])
		}
	})
}

// After the timeout: EBUSY, and an explanation for whoever looks for one.
func TestTimeoutIsExplained(t *testing.T) {
	inTestAll(t)
	alongside(t)
	const timeout = 400 * time.Millisecond
	needsLatchfs(t)
	forEachMount(t, func(t *testing.T, m *Mount) {
		m.WriteFile("f", "old\n")
		m.WriteFile("t", "new\n")
		holder := m.Client(t)
		fd := holder.Open("f", unix.O_RDWR)
		waiter := m.Client(t)
		refused := []wire.Request{
			waiter.openReq("f", unix.O_WRONLY|unix.O_TRUNC),
			waiter.path2("rename", "t", "f"),
			{Op: "unlink", Path: m.Path("f")},
			{Op: "chmod", Path: m.Path("f"), Mode: 0o600},
			{Op: "truncate", Path: m.Path("f"), Len: 1},
			waiter.path2("link", "f", "g"),
		}
		for _, req := range refused {
			res, err := waiter.Do(req)
			took := time.Duration(res.Micros) * time.Microsecond
			if err != syscall.EBUSY || took < timeout || took > timeout+promised(2*time.Second) {
				t.Errorf("%s of a held file: %v after %v, want EBUSY after %v", req.Op, err, took, timeout)
			}
		}
		why := waiter.ReadFile(".locks/why")
		for _, word := range []string{"f", "EBUSY", "client", strconv.Itoa(holder.PID), "open", "rename", "unlink"} {
			if !strings.Contains(why, word) {
				t.Errorf(".locks/why does not mention %q:\n%s", word, why)
			}
		}
		if n := len(m.EventsOf("refusal", "f")); n < len(refused)-1 {
			t.Errorf("%d refusals of f in the audit trail, want %d", n, len(refused))
		}
		holder.MustClose(fd)
		if got := m.ReadFile("f"); got != "old\n" {
			t.Errorf("f holds %q", got)
		}
	}, lockTimeout(timeout))
}

// A person sees the refusal in the shell where it happened: the program that
// was refused is gone by then, and cat is another one.
func TestWhyIsToldToRelatives(t *testing.T) {
	needsLatchfs(t)
	forEachMount(t, func(t *testing.T, m *Mount) {
		m.WriteFile("notes.md", "old\n")
		holder := m.Client(t)
		fd := holder.Open("notes.md", unix.O_RDWR)
		o := m.Bash(t, `cp /dev/null notes.md; echo $?; cat .locks/why`)
		if !strings.HasPrefix(o.Stdout, "1\n") || !strings.Contains(o.Stderr, "busy") {
			t.Errorf("cp onto a held file: %s%s", o.Stdout, o.Stderr)
		}
		for _, word := range []string{"notes.md", "EBUSY", strconv.Itoa(holder.PID)} {
			if !strings.Contains(o.Stdout, word) {
				t.Errorf(".locks/why does not mention %q:\n%s", word, o.Stdout)
			}
		}
		holder.MustClose(fd)
	}, lockTimeout(200*time.Millisecond))
}

// O_NONBLOCK and a wait of 0 by policy fail at once, with EAGAIN.
func TestFailFast(t *testing.T) {
	needsLatchfs(t)
	forEachMount(t, func(t *testing.T, m *Mount) {
		m.WriteFile("f", "old\n")
		m.WriteFile("impatient", "old\n")
		holder, other := m.Client(t), m.Client(t)
		for _, name := range []string{"f", "impatient"} {
			fd := holder.Open(name, unix.O_RDWR)
			flags := unix.O_WRONLY
			if name == "f" {
				flags |= unix.O_NONBLOCK
			}
			res, err := other.Do(other.openReq(name, flags))
			took := time.Duration(res.Micros) * time.Microsecond
			if err != syscall.EAGAIN || took > promised(100*time.Millisecond) {
				t.Errorf("%s: %v after %v, want EAGAIN at once", name, err, took)
			}
			holder.MustClose(fd)
			// RELEASE may still be under way, and O_NONBLOCK does not wait for it.
			fd = -1
			eventually(t, name+" can be opened again", func() bool {
				got, err := other.TryOpen(name, flags)
				if err == nil {
					fd = got
				}
				return err == nil
			})
			other.MustClose(fd)
		}
	}, withPolicy("[[rule]]\nglob = [\"impatient\"]\nwait = \"0s\"\n"))
}

// Ctrl-C and kill -9 end a wait at once, whatever waits, and the queue forgets
// the waiter before it is gone.
func TestWaitersCanBeInterrupted(t *testing.T) {
	forEachMount(t, func(t *testing.T, m *Mount) {
		m.WriteFile("f", "old\n")
		holder := m.Client(t)
		fd := holder.Open("f", unix.O_RDWR)
		waiters := map[string][]string{
			"python": {bench.python, "-c", "open('f', 'w').write('mine')"},
			"bash":   {"bash", "-c", "echo mine > f"},
			"cp":     {"cp", "/etc/passwd", "f"},
			"mv":     {"bash", "-c", "echo mine > t; exec mv t f"},
			"rm":     {"rm", "-f", "f"},
			"chmod":  {"chmod", "600", "f"},
		}
		for name, argv := range waiters {
			for _, sig := range []syscall.Signal{syscall.SIGINT, syscall.SIGKILL} {
				p := m.Launch(t, argv[0], argv[1:]...)
				p.MustWait()
				sent := time.Now()
				p.Signal(sig)
				o := p.Wait()
				if took := time.Since(sent); took > promised(time.Second) {
					t.Errorf("%s took %v to end after %v", name, took, sig)
				}
				if o.Code == 0 {
					t.Errorf("%s ended with success after %v", name, sig)
				}
				eventually(t, name+" has left the queue", func() bool { return m.Status().Waiting() == 0 })
			}
		}
		holder.MustClose(fd)
		if got := m.ReadFile("f"); got != "old\n" {
			t.Errorf("f holds %q", got)
		}
	})
}

// patientWriter opens a file that is held, and adds argv[1] to its end. All its
// signal handlers return, so that python repeats an interrupted open.
const patientWriter = `
import os, signal, sys
for s in (signal.SIGUSR1, signal.SIGWINCH, signal.SIGCHLD, signal.SIGURG, signal.SIGCONT):
    signal.signal(s, lambda *a: None)
fd = os.open("f", os.O_RDWR)
data = os.pread(fd, 1000, 0)
os.pwrite(fd, sys.argv[1].encode(), len(data))
os.close(fd)
`

// Signals that do not mean the open are no reason to fail it: a terminal that
// changes its size, the Go runtime's preemption, a child that ends.
func TestBenignSignalsAreNoReason(t *testing.T) {
	waitThroughSignals(t, func(t *testing.T, first *Proc) {
		for range 5 {
			for _, s := range []syscall.Signal{syscall.SIGWINCH, syscall.SIGURG, syscall.SIGCHLD, syscall.SIGCONT} {
				first.Signal(s) // stays pending: the open goes on
				first.MustWait()
			}
		}
	})
}

// A handler that returns lets the program repeat the open, and a stopped
// program goes on waiting; both keep their place in the queue.
func TestRetriedOpenKeepsItsPlace(t *testing.T) {
	waitThroughSignals(t, func(t *testing.T, first *Proc) {
		for range 3 {
			first.Signal(syscall.SIGUSR1)
			awaitSignalTaken(t, first.PID())
			first.MustWait()
		}
		first.Signal(syscall.SIGSTOP)
		eventually(t, "the stop", func() bool { return procState(first.PID()) == "T" })
		first.Signal(syscall.SIGCONT)
		first.MustWait()
	})
}

// waitThroughSignals has two writers wait, lets disturb the first of them, and
// expects both to be served in the order in which they came.
func waitThroughSignals(t *testing.T, disturb func(*testing.T, *Proc)) {
	t.Helper()
	forEachMount(t, func(t *testing.T, m *Mount) {
		m.WriteFile("f", "")
		holder := m.Client(t)
		fd := holder.Open("f", unix.O_RDWR)
		first := m.LaunchPython(t, patientWriter, "1")
		first.MustWait()
		second := m.LaunchPython(t, patientWriter, "2")
		second.MustWait()
		disturb(t, first)
		m.AwaitStatus(t, "the first waiter before the second", func(s Status) bool {
			return slices.Equal(s.WaitersOf("f"), []int{first.PID(), second.PID()})
		})
		holder.MustClose(fd)
		first.OK()
		second.OK()
		if got := m.ReadFile("f"); got != "12" {
			t.Errorf("served in the order %q, want 12", got)
		}
	})
}

// awaitSignalTaken waits until no signal is pending for a process.
func awaitSignalTaken(t *testing.T, pid int) {
	t.Helper()
	eventually(t, "the signal is taken", func() bool {
		status := readProc(pid, "status")
		return strings.Contains(status, "SigPnd:\t0000000000000000") &&
			strings.Contains(status, "ShdPnd:\t0000000000000000")
	})
}

// otherwise waits to open f, and when it is interrupted does something else with f in
// place of trying again. It ends when nobody can send it a line any more.
const otherwise = `
import os, signal, sys
class Interrupted(Exception):
    pass
def interrupted(*_):
    raise Interrupted
signal.signal(signal.SIGUSR1, interrupted)
try:
    os.open("f", os.O_WRONLY | os.O_CREAT)
    sys.exit("f was opened")
except Interrupted:
    print("interrupted", flush=True)
try:
    eval(sys.argv[1])
except BlockingIOError:
    print("refused", flush=True)
print("done", flush=True)
sys.stdin.read()
`

// Whoever gives up its wait for a file, and does something else with it, gives its
// place in the queue back.
func TestPlaceIsGivenBack(t *testing.T) {
	forEachMount(t, func(t *testing.T, m *Mount) {
		holder, other := m.Client(t), m.Client(t)
		for _, what := range []string{
			"os.chmod('f', 0o640)", "os.truncate('f', 0)", "os.rename('f', 'g')", "os.unlink('f')", "os.open('f', os.O_WRONLY | os.O_NONBLOCK)",
			"os.open('f', os.O_WRONLY | os.O_CREAT | os.O_NONBLOCK)", // which creates it, as the holder does
		} {
			if strings.Contains(what, "O_CREAT") {
				holder.OK(wire.Request{Op: "unlink", Path: m.Path("f")})
			} else {
				m.WriteFile("f", "old\n")
			}
			fd := holder.Open("f", unix.O_RDWR|unix.O_CREAT)
			p := m.LaunchPython(t, otherwise, what)
			p.MustWait()
			p.Signal(syscall.SIGUSR1)
			p.AwaitLine("interrupted")
			if strings.Contains(what, "NONBLOCK") {
				p.AwaitLine("refused")
			}
			holder.MustClose(fd)
			p.AwaitLine("done")
			m.AwaitStatus(t, "no lock after "+what, func(s Status) bool { return s.Held()+s.Waiting() == 0 })
			other.MustClose(other.Open("f", unix.O_WRONLY|unix.O_CREAT|unix.O_NONBLOCK))
			p.Close()
			p.OK()
		}
	}, careless())
}

// Waiters are served one at a time and in the order in which they came.
func TestWaitersAreServedInOrder(t *testing.T) {
	waiters := repeat(30, 200)
	forEachMount(t, func(t *testing.T, m *Mount) {
		m.WriteFile("f", "")
		holder := m.Client(t)
		fd := holder.Open("f", unix.O_RDWR)
		var calls []*Call
		var want strings.Builder
		for n := range waiters {
			call := m.Client(t).GoOpen("f", unix.O_RDWR)
			call.MustBlock(t)
			calls = append(calls, call)
			fmt.Fprintf(&want, "%d\n", n)
		}
		queue := m.AwaitWaiters(t, "f", waiters)
		for n, call := range calls {
			if queue[n] != call.c.PID {
				t.Fatalf("place %d of the queue is %d's, want %d's", n, queue[n], call.c.PID)
			}
		}
		holder.MustClose(fd)
		var wg sync.WaitGroup
		for n, call := range calls {
			wg.Go(func() { appendLine(t, call, n) })
		}
		wg.Wait()
		if got := m.ReadFile("f"); got != want.String() {
			t.Errorf("served in another order: %s", summary(got))
		}
	}, lockTimeout(2*time.Minute))
}

// appendLine lets the client of a granted open add its number to the file, by
// reading and writing, and close.
func appendLine(t *testing.T, call *Call, n int) {
	res, err := call.Result()
	if err != nil {
		t.Errorf("waiter %d: %v", n, err)
		return
	}
	fd := int(res.N)
	at, err := call.c.Do(wire.Request{Op: "seek", FD: fd, Kind: unix.SEEK_END})
	if err == nil {
		_, err = call.c.Do(wire.Request{Op: "pwrite", FD: fd, Off: at.N, Data: fmt.Appendf(nil, "%d\n", n)})
	}
	if err := errors.Join(err, call.c.Close(fd)); err != nil {
		t.Errorf("waiter %d: %v", n, err)
	}
}

// A file that another process is creating is there for O_EXCL and for nobody
// else; who opens it to write waits, and who moves something onto it as well.
func TestCreatorIsWaitedFor(t *testing.T) {
	forEachMount(t, func(t *testing.T, m *Mount) {
		creator, other := m.Client(t), m.Client(t)
		fd := creator.Open("new", unix.O_WRONLY|unix.O_CREAT|unix.O_EXCL)
		creator.Write(fd, "first")
		if _, err := other.TryOpen("new", unix.O_WRONLY|unix.O_CREAT|unix.O_EXCL); err != syscall.EEXIST {
			t.Errorf("O_EXCL beside a creator: %v, want EEXIST", err)
		}
		if _, err := other.TryOpen("new", unix.O_RDONLY); err != syscall.ENOENT {
			t.Errorf("a reader of the unfinished file: %v, want ENOENT", err)
		}
		if names := m.List(""); len(names) != 0 {
			t.Errorf("the unfinished file is listed: %q", names)
		}
		call := other.GoOpen("new", unix.O_RDWR|unix.O_CREAT)
		call.MustBlock(t)
		creator.MustClose(fd)
		fd = int(call.OK().N)
		if got := other.ReadAt(fd, 100, 0); got != "first" {
			t.Errorf("the second creator finds %q", got)
		}
		other.MustClose(fd)
	})
}
