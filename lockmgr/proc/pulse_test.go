package proc

import (
	"errors"
	"io"
	"os/exec"
	"sync"
	"testing"
	"time"

	"golang.org/x/sys/unix"
)

// pulseOf looks until there is an answer.
func pulseOf(t *testing.T, r *Reader, pid int32) Pulse {
	t.Helper()
	p, err := r.Pulse(pid)
	for end := time.Now().Add(10 * time.Second); err == ErrBusy && time.Now().Before(end); {
		p, err = r.Pulse(pid) // it has just been started, or the machine is busy
	}
	if err != nil {
		t.Fatalf("Pulse(%d): %v", pid, err)
	}
	return p
}

// awaitPulse looks until what it sees is what the test waits for.
func awaitPulse(t *testing.T, r *Reader, pid int32, what string, is func(Pulse) bool) Pulse {
	t.Helper()
	for end := time.Now().Add(30 * time.Second); ; {
		p := pulseOf(t, r, pid)
		if is(p) {
			return p
		}
		if time.Now().After(end) {
			t.Fatalf("no %s: %+v", what, p)
		}
	}
}

// awaitCPU waits until a process has used the processor since an earlier look.
func awaitCPU(t *testing.T, r *Reader, pid int32, before Pulse) Pulse {
	t.Helper()
	p := awaitPulse(t, r, pid, "use of the processor", func(p Pulse) bool { return p.CPU > before.CPU })
	if !p.Alive(before) {
		t.Errorf("%+v is not alive after %+v", p, before)
	}
	return p
}

func TestPulseOfBusy(t *testing.T) {
	r := newReader(t)
	c := startChild(t)
	c.do("spin")
	p := pulseOf(t, r, c.pid())
	if p.Start != ownerOf(t, r, c).Start || p.Threads < 2 {
		t.Errorf("%+v", p)
	}
	for range 3 {
		p = awaitCPU(t, r, c.pid(), p)
	}
}

// What stat says in ticks is the sum of what the threads have used.
func TestPulseOfThreads(t *testing.T) {
	r, coarse := newReader(t), newReader(t)
	coarse.sched = false
	if !r.sched {
		t.Skip("the kernel has no schedstat")
	}
	c := startChild(t)
	c.do("spin")
	for range 3 {
		c.do("thread")
	}
	awaitPulse(t, coarse, c.pid(), "use of the processor", func(p Pulse) bool { return p.CPU > 10*tick })
	c.signal(unix.SIGSTOP)
	c.await(unix.WSTOPPED)
	want, got := pulseOf(t, coarse, c.pid()), pulseOf(t, r, c.pid())
	if diff := got.CPU - want.CPU; diff.Abs() > 3*tick { // two sums, rounded
		t.Errorf("%v of CPU time, %v by stat", got.CPU, want.CPU)
	}
}

// A process that waits for something shows no life, and shows it again after the
// least that it can do.
func TestPulseOfSleeping(t *testing.T) {
	r := newReader(t)
	if !r.sched {
		t.Skip("the kernel has no schedstat")
	}
	cmd := exec.Command("/bin/cat")
	in, err1 := cmd.StdinPipe()
	out, err2 := cmd.StdoutPipe()
	if err1 != nil || err2 != nil || cmd.Start() != nil {
		t.Fatal("cat does not start")
	}
	t.Cleanup(func() { cmd.Process.Kill(); cmd.Wait() })
	pid := int32(cmd.Process.Pid)
	line := make([]byte, 2)
	echo := func() {
		t.Helper()
		io.WriteString(in, "x\n")
		if _, err := io.ReadFull(out, line); err != nil {
			t.Fatal(err)
		}
	}
	echo() // what it reads from now on is its input
	for range 20 {
		before := awaitAsleep(t, r, pid)
		for range 50 {
			if p := pulseOf(t, r, pid); p.Alive(before) {
				t.Fatalf("%+v is alive after %+v", p, before)
			}
		}
		echo()
		if p := pulseOf(t, r, pid); !p.Alive(before) {
			t.Errorf("%+v is not alive after %+v", p, before)
		}
		if p := awaitAsleep(t, r, pid); p.CPU <= before.CPU {
			t.Errorf("%v of CPU time were %v before", p.CPU, before.CPU)
		}
	}
}

// awaitAsleep waits until a process waits for input.
func awaitAsleep(t *testing.T, r *Reader, pid int32) Pulse {
	t.Helper()
	return awaitPulse(t, r, pid, "sleep", func(p Pulse) bool {
		call, ok := r.Syscall(uint32(pid))
		return ok && call.Nr == unix.SYS_READ && p == pulseOf(t, r, pid)
	})
}

func TestPulseOfStopped(t *testing.T) {
	r := newReader(t)
	c := startChild(t)
	c.do("spin")
	before := pulseOf(t, r, c.pid())
	awaitCPU(t, r, c.pid(), before)
	c.signal(unix.SIGSTOP)
	c.await(unix.WSTOPPED)
	stopped := pulseOf(t, r, c.pid())
	if stopped.State != 'T' || stopped.CPU <= before.CPU {
		t.Errorf("%+v", stopped)
	}
	if stopped.Alive(before) || stopped.Alive(Pulse{}) {
		t.Error("a stopped process is alive, for what it did before")
	}
	c.signal(unix.SIGCONT)
	awaitCPU(t, r, c.pid(), stopped)
}

func TestPulseOfDead(t *testing.T) {
	r := newReader(t)
	c := startChild(t)
	before := pulseOf(t, r, c.pid())
	c.signal(unix.SIGKILL)
	c.await(unix.WEXITED)
	p := pulseOf(t, r, c.pid())
	if p.State != 'Z' || p.Alive(before) || p.Alive(Pulse{}) {
		t.Errorf("a zombie: %+v", p)
	}
	c.reap()
	if p, err := r.Pulse(c.pid()); err != ErrGone || p != (Pulse{}) {
		t.Errorf("a process that has gone: %+v, %v", p, err)
	}
	if _, err := r.Pulse(0); err != ErrForeign {
		t.Errorf("a foreign process: %v", err)
	}
}

// A process lives on in its other threads when its leader has ended.
func TestPulseOfEndedLeader(t *testing.T) {
	r := newReader(t)
	c := startChild(t)
	c.do("spin")
	c.do("exit-leader")
	awaitState(t, r, c.pid(), 'Z')
	awaitCPU(t, r, c.pid(), pulseOf(t, r, c.pid()))
}

// What a shell script does, its children do.
func TestPulseOfChildren(t *testing.T) {
	r := newReader(t)
	c := startChild(t)
	before := pulseOf(t, r, c.pid())
	after := awaitPulse(t, r, c.pid(), "work of children", func(p Pulse) bool {
		if p.Children > before.Children {
			return true
		}
		c.do("job")
		return false
	})
	after.CPU, after.Threads, after.State = before.CPU, before.Threads, before.State
	if !after.Alive(before) {
		t.Error("the work of children is no life")
	}
}

// Of many threads, and where the kernel does not count by the nanosecond, the
// time of the whole process is read, in ticks.
func TestPulseCoarse(t *testing.T) {
	r := newReader(t)
	c := startChild(t)
	for range maxPulseThreads {
		c.do("thread")
	}
	other := startChild(t)
	bare := newReader(t)
	bare.sched = false
	for _, tt := range []struct {
		name string
		r    *Reader
		c    *child
	}{{"many threads", r, c}, {"no schedstat", bare, other}} {
		tt.c.do("spin")
		p := pulseOf(t, tt.r, tt.c.pid())
		for range 3 {
			p = awaitCPU(t, tt.r, tt.c.pid(), p)
			if p.CPU%tick != 0 {
				t.Errorf("%s: %v of CPU time are no whole ticks", tt.name, p.CPU)
			}
		}
		tt.c.reap()
	}
}

// However often a process in execve is looked at, nothing is left behind.
func TestPulseInExec(t *testing.T) {
	atExec(t, nil, func(c *child, _ File, _ uint32) {
		r := newReader(t)
		for range 20 {
			if p, err := r.Pulse(c.pid()); err != ErrBusy || p != (Pulse{}) {
				t.Errorf("%+v, %v", p, err)
			}
		}
		if n := r.root.Uses(); n != 1 {
			t.Errorf("%d questions are stuck", n-1)
		}
	})
}

// A process that holds its memory lock, and waits for us with it, is looked at
// without.
func TestPulseInOvermap(t *testing.T) {
	r := newReader(t)
	written, answer := make(chan struct{}), make(chan struct{})
	path := (&oneFile{t: t, flush: func(uint32) {}, write: func() {
		written <- struct{}{}
		<-answer
	}}).mount()
	c := startChild(t)
	fd := c.do("open", unix.O_RDWR, path)
	c.do("mmap", fd, unix.PROT_READ|unix.PROT_WRITE, unix.MAP_SHARED, "m")
	c.do("store", "m")
	c.tell("overmap", "m") // munmap would leave the lock to readers
	<-written
	finish := sync.OnceFunc(func() { close(answer) })
	defer finish() // before the child is killed, which waits for the answer
	if _, err := r.MapsWritable(c.pid(), File{Ino: 1}, File{}); !errors.Is(err, ErrBusy) {
		t.Logf("the kernel does not hold the lock here (%v): the test tests nothing", err)
	}
	quickly(t, "Pulse", func() { _, _ = r.Pulse(c.pid()) })
	if p := pulseOf(t, r, c.pid()); p.halted() {
		t.Errorf("%+v", p)
	}
	quickly(t, "FirstEnv", func() { r.FirstEnv(c.pid(), []string{childEnv}) })
	finish()
	c.do("hello") // or overmap is an error
}

func TestAlivePulse(t *testing.T) {
	base := Pulse{Start: 7, CPU: 100, Children: 50, Threads: 2, State: 'S'}
	with := func(change func(*Pulse)) Pulse {
		p := base
		change(&p)
		return p
	}
	for name, tt := range map[string]struct {
		p, before Pulse
		want      bool
	}{
		"nothing":        {base, base, false},
		"CPU time":       {with(func(p *Pulse) { p.CPU++ }), base, true},
		"an ended one's": {with(func(p *Pulse) { p.CPU-- }), base, true},
		"children":       {with(func(p *Pulse) { p.Children++ }), base, true},
		"a thread":       {with(func(p *Pulse) { p.Threads++ }), base, true},
		"runs":           {with(func(p *Pulse) { p.State = 'R' }), base, true},
		"continued":      {base, with(func(p *Pulse) { p.State = 'T' }), true},
		"stopped":        {with(func(p *Pulse) { p.State, p.CPU = 'T', 200 }), base, false},
		"traced":         {with(func(p *Pulse) { p.State, p.CPU = 't', 200 }), base, false},
		"zombie":         {with(func(p *Pulse) { p.State, p.Threads, p.CPU = 'Z', 1, 200 }), base, false},
		"zombie leader":  {with(func(p *Pulse) { p.State, p.CPU = 'Z', 200 }), base, true},
		"dead":           {with(func(p *Pulse) { p.State, p.CPU = 'X', 200 }), base, false},
		"another":        {with(func(p *Pulse) { p.Start, p.CPU = 8, 200 }), base, false},
		"first look":     {base, Pulse{}, true},
		"stopped, first": {with(func(p *Pulse) { p.State = 'T' }), Pulse{}, false},
	} {
		if got := tt.p.Alive(tt.before); got != tt.want {
			t.Errorf("%s: %t, want %t", name, got, tt.want)
		}
	}
}

func BenchmarkPulse(b *testing.B) {
	r := newReader(b)
	pid := int32(unix.Getpid())
	b.ReportAllocs()
	for b.Loop() {
		if _, err := r.Pulse(pid); err != nil && err != ErrBusy {
			b.Fatal(err)
		}
	}
}
