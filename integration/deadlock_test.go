package integration

import (
	"errors"
	"fmt"
	"strings"
	"syscall"
	"testing"
	"time"

	"golang.org/x/sys/unix"

	"latchfs/integration/internal/wire"
)

// Show 5: of two processes that wait for each other the newer one is refused, and the other
// completes.
func TestDeadlockIsRefused(t *testing.T) {
	lock := func(kind string) func(*Client, string) *Call {
		return func(c *Client, name string) *Call {
			switch kind {
			case "open":
				return c.GoOpen(name, unix.O_RDWR)
			case "flock":
				return c.Go(flockReq(c.Open(name, unix.O_RDONLY), unix.LOCK_EX))
			case "unlink":
				return c.Go(wire.Request{Op: "unlink", Path: c.m.Path(name)})
			default:
				c.OK(wire.Request{Op: "writeall", Path: c.m.Path(fmt.Sprint("t", c.PID)), Mode: 0o600, Data: []byte("x")})
				return c.Go(c.path2("rename", fmt.Sprint("t", c.PID), name))
			}
		}
	}
	needsLatchfs(t)
	forEachMount(t, func(t *testing.T, m *Mount) {
		for _, kinds := range [][2]string{{"open", "open"}, {"open", "rename"}, {"rename", "open"}, {"flock", "open"}, {"open", "unlink"}} {
			t.Run(kinds[0]+"-"+kinds[1], func(t *testing.T) {
				deadlock(t, m, lock(kinds[0]), lock(kinds[1]))
			})
		}
	})
}

func deadlock(t *testing.T, m *Mount, first, second func(*Client, string) *Call) {
	m.WriteFile("f", "old\n")
	m.WriteFile("g", "old\n")
	a, b := m.Client(t), m.Client(t)
	a.Open("f", unix.O_RDWR)
	g := b.Open("g", unix.O_RDWR)
	waiting := first(a, "g")
	waiting.MustBlock(t)
	res, err := second(b, "f").Result()
	if err != syscall.EDEADLK {
		t.Errorf("the cycle is answered with %v, want EDEADLK", err)
	}
	// A client has several threads, another of which could close the file.
	if took := time.Duration(res.Micros) * time.Microsecond; took > promised(3*time.Second) {
		t.Errorf("the refusal took %v", took)
	}
	if why := b.ReadFile(".locks/why"); !strings.Contains(why, "EDEADLK") {
		t.Errorf(".locks/why does not mention EDEADLK:\n%s", why)
	}
	b.MustClose(g)
	if err := waiting.Err(); err != nil {
		t.Errorf("the other one: %v", err)
	}
	a.Quit()
	b.Quit()
}

// A ring of five is found as well, whoever closes it.
func TestDeadlockOfFive(t *testing.T) {
	const ring = 5
	needsLatchfs(t)
	m := mount(t)
	var clients []*Client
	var fds []int
	for i := range ring {
		m.WriteFile(fmt.Sprint(i), "old\n")
		clients = append(clients, m.Client(t))
		fds = append(fds, clients[i].Open(fmt.Sprint(i), unix.O_RDWR))
	}
	var calls []*Call
	for i := range ring - 1 {
		calls = append(calls, clients[i].GoOpen(fmt.Sprint(i+1), unix.O_RDWR))
		calls[i].MustBlock(t)
	}
	last := clients[ring-1]
	if _, err := last.TryOpen("0", unix.O_RDWR); !errors.Is(err, syscall.EDEADLK) {
		t.Errorf("closing the ring: %v, want EDEADLK", err)
	}
	last.MustClose(fds[ring-1])
	for i := ring - 2; i >= 0; i-- {
		calls[i].OK()
		clients[i].Quit()
	}
}

// Two programs with one thread each are refused at once: neither could go on.
func TestDeadlockOfSingleThreads(t *testing.T) {
	const program = `
import errno, os, sys, time
own, other = sys.argv[1:3]
held = open(own, 'w')
open(own + '.holds', 'w').close()
while not os.path.exists(other + '.holds'): time.sleep(.001)
began = time.monotonic()
try:
    open(other, 'w').close()
    print('ok')
except OSError as e:
    print(e.errno == errno.EDEADLK, time.monotonic() - began < float(sys.argv[3]))
held.close()
`
	needsLatchfs(t)
	forEachMount(t, func(t *testing.T, m *Mount) {
		m.WriteFile("f", "old\n")
		m.WriteFile("g", "old\n")
		o := m.Bash(t, `{ "$1" -c "$2" f g "$3" & "$1" -c "$2" g f "$3"; wait; } | sort`,
			bench.python, program, fmt.Sprint(promised(time.Second).Seconds()))
		if o.Stdout != "True True\nok\n" {
			t.Errorf("%+v", o)
		}
	})
}

// A thread has a file open and does not wait, while another thread of its program waits for what
// the other program has open: each comes to its close, and nobody is refused.
func TestThreadsAreInNoDeadlock(t *testing.T) {
	const program = `
import os, sys, threading, time
own, other, how = sys.argv[1:4]
def hold():
    with open(own, 'w') as f:
        f.write(own)
        open(own + '.holds', 'w').close()
        while not os.path.exists(other + '.waits'): time.sleep(.001)
        time.sleep(.3) # for the wait to begin
def want():
    with open(own + '.new', 'w') as f: f.write(own)
    while not os.path.exists(other + '.holds'): time.sleep(.001)
    open(own + '.waits', 'w').close()
    if how == 'open':
        with open(other, 'w') as f: f.write(own)
    elif how == 'utime': os.utime(other)
    elif how == 'truncate': os.truncate(other, 0)
    elif how == 'rename': os.rename(own + '.new', other)
    elif how == 'unlink': os.unlink(other)
    print('ok')
threads = [threading.Thread(target=t) for t in (hold, want)]
for t in threads: t.start()
for t in threads: t.join()
`
	needsLatchfs(t)
	forEachMount(t, func(t *testing.T, m *Mount) {
		for how, want := range map[string]string{"open": "gf", "utime": "fg", "truncate": "", "rename": "gf", "unlink": "gone"} {
			m.WriteFile("f", "old")
			m.WriteFile("g", "old")
			o := m.Bash(t, `rm -f ?.*; "$1" -c "$2" f g $3 & "$1" -c "$2" g f $3; wait; cat f g 2>/dev/null || echo -n gone`, bench.python, program, how)
			if o.Stdout != "ok\nok\n"+want || o.Stderr != "" {
				t.Errorf("%s: %+v", how, o)
			}
		}
	})
}
