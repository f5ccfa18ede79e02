package integration

import (
	"fmt"
	"path/filepath"
	"slices"
	"syscall"
	"testing"
	"time"

	"golang.org/x/sys/unix"

	"latchfs/integration/internal/wire"
)

// Show 8: whoever waits, waits alone. No request waits while the kernel holds a
// directory's or an inode's lock, so neither the holder nor a bystander is ever
// delayed.

const (
	// prompt is the limit for the holder's and a bystander's operations.
	prompt = 50 * time.Millisecond
	// stall is what no operation may ever take: one that waits under a kernel
	// lock hangs until the holder's close, and one that is merely unlucky on a
	// busy machine does not.
	stall = time.Second
)

// contender is one operation that has to wait for the session on its file.
type contender struct {
	name string
	req  func(dir, file string) wire.Request
	gone bool // the operation takes the name away
}

var contenders = []contender{
	{name: "open", req: func(dir, f string) wire.Request {
		return wire.Request{Op: "open", Path: filepath.Join(dir, f), Flags: unix.O_RDWR}
	}},
	{name: "rename-onto", req: func(dir, f string) wire.Request {
		return wire.Request{Op: "rename", Path: filepath.Join(dir, f+".t"), To: filepath.Join(dir, f)}
	}},
	{name: "rename-away", gone: true, req: func(dir, f string) wire.Request {
		return wire.Request{Op: "rename", Path: filepath.Join(dir, f), To: filepath.Join(dir, f+".moved")}
	}},
	{name: "exchange", req: func(dir, f string) wire.Request {
		return wire.Request{Op: "rename", Path: filepath.Join(dir, f+".t"), To: filepath.Join(dir, f), Flags: unix.RENAME_EXCHANGE}
	}},
	{name: "unlink", gone: true, req: func(dir, f string) wire.Request {
		return wire.Request{Op: "unlink", Path: filepath.Join(dir, f)}
	}},
	{name: "chmod", req: func(dir, f string) wire.Request {
		return wire.Request{Op: "chmod", Path: filepath.Join(dir, f), Mode: 0o600}
	}},
	{name: "truncate", req: func(dir, f string) wire.Request {
		return wire.Request{Op: "truncate", Path: filepath.Join(dir, f), Len: 3}
	}},
	{name: "link", req: func(dir, f string) wire.Request {
		return wire.Request{Op: "link", Path: filepath.Join(dir, f), To: filepath.Join(dir, f+".link")}
	}},
	{name: "utimens", req: func(dir, f string) wire.Request {
		return wire.Request{Op: "utimens", Path: filepath.Join(dir, f), Off: 1e9, Len: 1e9}
	}},
}

// siege is a holder with sessions on one file for each contender, and all the
// contenders waiting.
type siege struct {
	t         *testing.T
	m         *Mount
	dir       string // below the mount
	holder    *Client
	bystander *Client
	fds       map[string]int
	calls     map[string]*Call
}

func besiege(t *testing.T, m *Mount, dir string, relative bool) *siege {
	s := &siege{t: t, m: m, dir: dir, holder: m.Client(t), bystander: m.Client(t),
		fds: map[string]int{}, calls: map[string]*Call{}}
	if dir != "" {
		m.control.Do(wire.Request{Op: "mkdir", Path: m.Path(dir), Mode: 0o755})
	}
	for _, c := range contenders {
		file := filepath.Join(dir, c.name)
		m.WriteFile(file, "old content\n")
		m.WriteFile(file+".t", "other content\n")
		s.fds[c.name] = s.holder.Open(file, unix.O_RDWR)
	}
	for _, c := range contenders {
		client := m.Client(t)
		at := m.Path(dir)
		if relative {
			client.OK(wire.Request{Op: "chdir", Path: at})
			at = "."
		}
		s.calls[c.name] = client.Go(c.req(at, c.name))
		s.calls[c.name].MustBlock(t)
	}
	return s
}

// TestWaitersDelayNobody looks at the holder and a bystander while every kind
// of operation waits, then lets the waiters go on one by one.
func TestWaitersDelayNobody(t *testing.T) {
	inTestAll(t)
	forEachMount(t, func(t *testing.T, m *Mount) {
		for _, dir := range []string{"", "deep/er"} {
			for _, relative := range []bool{false, true} {
				t.Run(fmt.Sprintf("dir=%q,relative=%v", dir, relative), func(t *testing.T) {
					if dir != "" {
						m.control.Do(wire.Request{Op: "mkdir", Path: m.Path("deep"), Mode: 0o755})
					}
					s := besiege(t, m, dir, relative)
					s.nobodyIsDelayed()
					s.waitersComplete()
					s.clear()
				})
			}
		}
	}, lockTimeout(time.Minute), careless())
}

// nobodyIsDelayed times the holder's and the bystander's operations.
func (s *siege) nobodyIsDelayed() {
	s.t.Helper()
	const rounds = 10
	took := map[string][]time.Duration{}
	do := func(who string, c *Client, req wire.Request) wire.Result {
		res := c.OK(req)
		key := who + " " + req.Op
		took[key] = append(took[key], time.Duration(res.Micros)*time.Microsecond)
		return res
	}
	for n := range rounds {
		for who, c := range map[string]*Client{"holder": s.holder, "bystander": s.bystander} {
			name := s.m.Path(filepath.Join(s.dir, fmt.Sprintf("%s-%d", who, n)))
			fd := int(do(who, c, wire.Request{Op: "open", Path: name, Flags: unix.O_RDWR | unix.O_CREAT, Mode: 0o644}).N)
			do(who, c, wire.Request{Op: "write", FD: fd, Data: []byte("x")})
			do(who, c, wire.Request{Op: "close", FD: fd})
			do(who, c, wire.Request{Op: "rename", Path: name, To: name + "."})
			do(who, c, wire.Request{Op: "list", Path: s.m.Path(s.dir)})
			do(who, c, wire.Request{Op: "stat", Path: s.m.Path(filepath.Join(s.dir, "unlink"))})
			fd = int(do(who, c, wire.Request{Op: "open", Path: s.m.Path(filepath.Join(s.dir, "open"))}).N)
			do(who, c, wire.Request{Op: "close", FD: fd})
			do(who, c, wire.Request{Op: "unlink", Path: name + "."})
		}
		for _, c := range contenders {
			do("holder", s.holder, wire.Request{Op: "pwrite", FD: s.fds[c.name], Data: fmt.Appendf(nil, "held %d", n)})
		}
	}
	for key, all := range took {
		slices.Sort(all)
		if typical, worst := all[len(all)*3/4], all[len(all)-1]; typical > promised(prompt) || worst > promised(stall) {
			s.t.Errorf("while others wait, %s takes %v, at worst %v", key, typical, worst)
		}
	}
	for name, call := range s.calls {
		if call.Done() {
			s.t.Errorf("%s did not wait for the close", name)
		}
	}
}

// waitersComplete closes the holder's files one after the other; the waiter of
// each goes on right away.
func (s *siege) waitersComplete() {
	s.t.Helper()
	for _, c := range contenders {
		closing := s.holder.OK(wire.Request{Op: "close", FD: s.fds[c.name]})
		closed := time.Now()
		if took := time.Duration(closing.Micros) * time.Microsecond; took > promised(stall) {
			s.t.Errorf("the close took %v while %s waited for it", took, c.name)
		}
		call := s.calls[c.name]
		if err := call.Err(); err != nil {
			s.t.Errorf("%s after its wait: %v", c.name, err)
		}
		if took := time.Since(closed); took > promised(100*time.Millisecond) {
			s.t.Errorf("%s completed %v after the close", c.name, took)
		}
		_, err := s.bystander.Stat(filepath.Join(s.dir, c.name))
		if gone := err == syscall.ENOENT; gone != c.gone {
			s.t.Errorf("after %s the file is gone: %v (%v)", c.name, gone, err)
		}
	}
	s.checkOutcome()
}

// checkOutcome looks at what each operation did: it must have met the version
// that the holder committed.
func (s *siege) checkOutcome() {
	s.t.Helper()
	const held = "held 9ntent\n" // the holder's last write over the old content
	for name, want := range map[string]string{
		"rename-onto":       "other content\n",
		"rename-away.moved": held,
		"exchange":          "other content\n",
		"exchange.t":        held,
		"chmod":             held,
		"truncate":          held[:3],
		"link":              held,
		"link.link":         held,
	} {
		if got := s.m.ReadFile(filepath.Join(s.dir, name)); got != want {
			s.t.Errorf("%s holds %q, want %q", name, got, want)
		}
	}
}

// clear removes the directory's files for the next round.
func (s *siege) clear() {
	for _, call := range s.calls {
		call.c.Quit()
	}
	s.holder.Quit()
	for _, name := range s.m.List(s.dir) {
		s.m.control.Do(wire.Request{Op: "unlink", Path: s.m.Path(filepath.Join(s.dir, name))})
	}
}

// Every kind of waiter dies of SIGKILL while it waits, at once, and leaves
// neither its place in the queue nor anything done.
func TestWaitersCanBeKilled(t *testing.T) {
	inTestAll(t)
	forEachMount(t, func(t *testing.T, m *Mount) {
		s := besiege(t, m, "", false)
		for name, call := range s.calls {
			sent := time.Now()
			call.c.Signal(syscall.SIGKILL)
			if !call.Ended() {
				t.Errorf("%s survives SIGKILL: %s", name, describe(call.c.PID))
			}
			if took := time.Since(sent); took > promised(stall) {
				t.Errorf("%s took %v to die", name, took)
			}
		}
		eventually(t, "the queues are empty", func() bool { return m.Status().Waiting() == 0 })
		start := time.Now()
		must(t, s.bystander.Save("after", "x"))
		s.bystander.List("")
		if took := time.Since(start); took > promised(stall) {
			t.Errorf("after the waiters' death, creating and listing took %v", took)
		}
		for _, c := range contenders {
			s.holder.MustClose(s.fds[c.name])
			if got := m.ReadFile(c.name); got != "old content\n" {
				t.Errorf("%s was done by a killed waiter: %q", c.name, got)
			}
		}
	}, lockTimeout(time.Minute))
}

// storm forks callers that do something random to files that are held, and
// kills each at a random moment: argv is the number of callers and the seed.
const storm = `
import os, random, signal, sys, time
count, rnd = int(sys.argv[1]), random.Random(int(sys.argv[2]))
ops = [
    lambda n: os.open("held", os.O_RDWR),
    lambda n: os.open("held", os.O_WRONLY | os.O_TRUNC),
    lambda n: os.open("fresh", os.O_RDWR | os.O_CREAT),
    lambda n: os.rename("spare", "held"),
    lambda n: os.rename("held", "elsewhere"),
    lambda n: os.unlink("held"),
    lambda n: os.chmod("held", 0o600),
    lambda n: os.truncate("held", 1),
    lambda n: os.link("held", f"link{n}"),
    lambda n: os.utime("held", (1, 1)),
    lambda n: os.rename("sub", "held"),
]
def call(n):
    op = rnd.randrange(len(ops))
    delay = rnd.expovariate(1 / 0.004)
    pid = os.fork()
    if pid:
        return pid, time.monotonic() + delay
    try:
        ops[op](n)
    except OSError:
        pass
    os.kill(os.getpid(), signal.SIGKILL)
running, dying = {}, set()
started = 0
while started < count or running or dying:
    while started < count and len(running) < 16:
        pid, end = call(started)
        running[pid] = end
        started += 1
    now = time.monotonic()
    for pid in [p for p, end in running.items() if end <= now]:
        os.kill(pid, signal.SIGKILL)
        del running[pid]
        dying.add(pid)
    for pid in list(dying):
        if os.waitpid(pid, os.WNOHANG)[0]:
            dying.remove(pid)
    time.sleep(0.0005)
print("done")
`

// 10,000 callers killed at random moments of their waits leave every table
// empty and the files as they were.
func TestKilledCallersLeaveNothing(t *testing.T) {
	inStress(t)
	alongside(t)
	const storms = 2
	forEachMount(t, func(t *testing.T, m *Mount) {
		callers := repeat(10_000, 100_000)
		if m.Name != "root" {
			callers /= 4 // the same code: the numbers are for the races
		}
		m.WriteFile("held", "old\n")
		m.WriteFile("spare", "spare\n")
		m.Mkdir("sub")
		holder := m.Client(t)
		held := holder.Open("held", unix.O_RDWR)
		fresh := holder.Open("fresh", unix.O_RDWR|unix.O_CREAT)
		holder.Write(fresh, "fresh\n")
		var procs []*Proc
		for n := range storms {
			procs = append(procs, m.LaunchPython(t, storm, fmt.Sprint(callers/storms), fmt.Sprint(n)))
		}
		for _, p := range procs {
			p.OK()
		}
		m.AwaitStatus(t, "the holder's 2 locks and no waiter", func(s Status) bool { return s.Held() == 2 && s.Waiting() == 0 })
		holder.MustClose(held)
		holder.MustClose(fresh)
		for name, want := range map[string]string{"held": "old\n", "spare": "spare\n", "fresh": "fresh\n"} {
			if got := m.ReadFile(name); got != want {
				t.Errorf("%s holds %q, want %q", name, got, want)
			}
		}
		if got, want := m.List(""), []string{"fresh", "held", "spare", "sub"}; !slices.Equal(got, want) {
			t.Errorf("the directory holds %q, want %q", got, want)
		}
		must(t, m.Client(t).Save("held", "new\n"))
	}, lockTimeout(time.Minute))
}
