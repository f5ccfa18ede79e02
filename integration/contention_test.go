package integration

import (
	"fmt"
	"maps"
	"math/rand/v2"
	"os"
	"path/filepath"
	"strings"
	"syscall"
	"testing"

	"golang.org/x/sys/unix"
)

// Show 16: many at once, some of whom are killed: never two inside, nobody
// stuck, nobody passed over.

// rival takes locks in the way that argv[2] names, again and again, and marks
// in the file argv[1], which is outside of the mount, when it is inside.
const rival = `
import fcntl, os, random, sys, time
marks = os.open(sys.argv[1], os.O_WRONLY | os.O_APPEND)
way, rnd = sys.argv[2], random.Random(os.getpid())
def mark(what, name):
    os.write(marks, f"{what} {os.getpid()} {os.getpgrp()} {way} {name}\n".encode())
while True:
    name = rnd.choice("abc")
    if way == "open":
        fd = os.open(name, os.O_RDWR)
        os.read(fd, 1) # what it writes is based on what is there
    elif way == "flock":
        fd = os.open(name, os.O_RDONLY)
        fcntl.flock(fd, fcntl.LOCK_EX)
    else:
        fd = os.open(name, os.O_WRONLY | os.O_APPEND)
        fcntl.lockf(fd, fcntl.LOCK_EX)
    mark("begin", name)
    if way == "open" and rnd.random() < 0.3:
        os.write(fd, b"%d\n" % os.getpid())
    time.sleep(rnd.random() * 0.004)
    mark("end", name)
    os.close(fd)
`

// underGuard is the critical section of a contender by guard, $1 the marks.
const underGuard = `echo "begin $$ $PPID guard $2" >> "$1"; sleep 0.00$((RANDOM % 5)); echo "end $$ $PPID guard $2" >> "$1"`

// arena is where contenders contend.
type arena struct {
	t     *testing.T
	m     *Mount
	marks *os.File
	procs []*Proc
	rnd   *rand.Rand
}

func newArena(t *testing.T, m *Mount) *arena {
	t.Helper()
	marks, err := os.OpenFile(filepath.Join(m.Home(), "marks"), os.O_RDWR|os.O_CREATE|os.O_APPEND, 0o666)
	if err != nil {
		t.Fatal(err)
	}
	t.Cleanup(func() { marks.Close() })
	if err := marks.Chmod(0o666); err != nil {
		t.Fatal(err)
	}
	seed := uint64(drawnSeed())
	t.Logf("seed %d", seed)
	return &arena{t: t, m: m, marks: marks, rnd: rand.New(rand.NewPCG(seed, 0))}
}

// enter starts one contender.
func (a *arena) enter(way string) *Proc {
	a.t.Helper()
	if way != "guard" {
		return a.m.LaunchPython(a.t, rival, a.marks.Name(), way)
	}
	name := string("abc"[a.rnd.IntN(3)])
	return a.m.Guard(a.t, name, "--", "bash", "-c", underGuard, "bash", a.marks.Name(), name)
}

// mark writes what the test does into the marks.
func (a *arena) mark(what string, pid int, p *Proc) {
	a.t.Helper()
	if _, err := fmt.Fprintf(a.marks, "%s %d %d - -\n", what, pid, p.PID()); err != nil {
		a.t.Fatal(err)
	}
}

// inside finds the process of p that is inside, p itself or what a guard has
// started; 0 if there is none.
func (a *arena) inside(p *Proc) int {
	a.t.Helper()
	tail := a.tail(8 << 10)
	for i := len(tail) - 1; i >= 0; i-- {
		switch m := tail[i]; {
		case m.leader != p.PID():
		case m.what == "begin":
			return m.pid
		default:
			return 0
		}
	}
	return 0
}

// kill ends a contender: half of the time in the middle of what it does inside, if
// it is there. What a guard has started is told from another process with its old
// id by its process group.
func (a *arena) kill(p *Proc) {
	a.t.Helper()
	pid := p.PID()
	if in := a.inside(p); in != 0 && a.rnd.IntN(2) == 0 {
		pid = in
	}
	fd, err := unix.PidfdOpen(pid, 0)
	if err != nil {
		return // it has just ended
	}
	defer unix.Close(fd)
	if p.Done() || processGroup(pid) != p.PID() {
		return
	}
	a.mark("killing", pid, p)
	unix.PidfdSendSignal(fd, unix.SIGKILL, nil, 0)
	if pid == p.PID() {
		p.Wait()
		a.mark("killed", pid, p)
	}
}

// awaitProgress waits until somebody new is inside.
func (a *arena) awaitProgress() {
	a.t.Helper()
	st, err := a.marks.Stat()
	if err != nil {
		a.t.Fatal(err)
	}
	eventually(a.t, "somebody is inside", func() bool {
		now, err := a.marks.Stat()
		return err == nil && now.Size() > st.Size()
	})
}

// mark is one line of the marks; leader is the first process of a contender.
type mark struct {
	what        string
	pid, leader int
	way, name   string
}

// tail parses the last n bytes of the marks, all of them if n is 0.
func (a *arena) tail(n int64) []mark {
	a.t.Helper()
	st, err := a.marks.Stat()
	if err != nil {
		a.t.Fatal(err)
	}
	from := int64(0)
	if n > 0 {
		from = max(0, st.Size()-n)
	}
	buf := make([]byte, st.Size()-from)
	if _, err := a.marks.ReadAt(buf, from); err != nil && len(buf) > 0 {
		a.t.Fatal(err)
	}
	lines := strings.Split(string(buf), "\n")
	if from > 0 {
		lines = lines[1:]
	}
	var marks []mark
	for _, line := range lines[:len(lines)-1] {
		var m mark
		if _, err := fmt.Sscan(line, &m.what, &m.pid, &m.leader, &m.way, &m.name); err != nil {
			a.t.Fatalf("a torn mark: %q", line)
		}
		marks = append(marks, m)
	}
	return marks
}

// exclude says whether two ways of locking keep each other out: flock and fcntl
// do not, as everywhere.
func exclude(a, b string) bool {
	return a == b || (a != "flock" || b != "fcntl") && (a != "fcntl" || b != "flock")
}

// fate is what the marks have said of a process so far.
type fate struct {
	leader int
	inside string // the name, "" if it is not inside
	way    string
	doomed bool // it is being killed
	over   bool // somebody else has begun since: it must be dead
}

// check goes through all marks: whoever begins finds nobody inside who is not
// dead or about to be, and who was thought dead does not go on. It returns how
// many were inside, of each way.
func (a *arena) check() map[string]int {
	a.t.Helper()
	all := map[int]*fate{}
	count := map[string]int{}
	for i, m := range a.tail(0) {
		x := all[m.pid]
		if x == nil {
			x = &fate{leader: m.leader}
			all[m.pid] = x
		}
		switch {
		case m.what == "killing":
			x.doomed = true
		case m.what == "killed":
			delete(all, m.pid) // the kernel may give the id to somebody else
		case m.what == "gone":
			maps.DeleteFunc(all, func(_ int, o *fate) bool { return o.leader == m.leader })
		case x.over:
			a.t.Errorf("%d (%s): %s %s, and somebody else had begun as if it were dead", m.pid, m.way, m.what, m.name)
		case m.what == "end":
			x.inside = ""
		default:
			x.inside, x.way = m.name, m.way
			a.checkBegin(i, m, all)
			count[m.way]++
		}
	}
	return count
}

// checkBegin looks at who is inside when somebody begins.
func (a *arena) checkBegin(i int, m mark, all map[int]*fate) {
	a.t.Helper()
	for pid, o := range all {
		switch {
		case pid == m.pid || o.inside != m.name || !exclude(o.way, m.way):
		case o.doomed:
			o.inside, o.over = "", true
		default:
			a.t.Errorf("mark %d: %d (%s) begins with %s while %d (%s) is inside", i, m.pid, m.way, m.name, pid, o.way)
		}
	}
}

// Fifty processes that lock the same three files in every way there is; in each
// round one of them is killed, wherever it stands, and another one comes.
func TestKilledContenders(t *testing.T) {
	inStress(t)
	alongside(t)
	needsLatchfs(t)
	const contenders = 50
	ways := []string{"open", "flock", "guard", "fcntl"}
	rounds := repeat(60, 1000)
	forEachMount(t, func(t *testing.T, m *Mount) {
		for _, f := range []string{"a", "b", "c"} {
			m.WriteFile(f, "")
		}
		a := newArena(t, m)
		for i := range contenders {
			a.procs = append(a.procs, a.enter(ways[i%len(ways)]))
		}
		for range rounds {
			a.awaitProgress()
			a.kill(a.procs[a.rnd.IntN(contenders)])
			for j, p := range a.procs { // who has ended is followed by another one of its kind
				if p.Done() {
					if out := p.Stderr(); out != "" {
						t.Errorf("a contender by %s complains: %s", ways[j%len(ways)], out)
					}
					a.mark("gone", 0, p)
					a.procs[j] = a.enter(ways[j%len(ways)])
				}
			}
		}
		t.Logf("inside were %v", a.check())
		if t.Failed() {
			t.Logf("the marks: %v", a.tail(0))
		}
		for _, p := range a.procs {
			p.Kill()
		}
		m.AwaitClear(t)
		for _, f := range []string{"a", "b", "c"} {
			mustEndWith(t, m.Guard(t, "--wait", "0", f, "--", "true").Wait(), 0)
			fd := m.control.Open(f, unix.O_RDWR|unix.O_NONBLOCK)
			m.control.MustClose(fd)
		}
	})
}

// Many writers wait, and for each that has had its turn another one comes: those who came first go first, in the order in which they came.
func TestNoWriterStarves(t *testing.T) {
	needsLatchfs(t)
	const crowd = `
import os, sys
first, total = int(sys.argv[1]), int(sys.argv[2])
marks = os.open(sys.argv[3], os.O_WRONLY | os.O_APPEND)
def writer():
    if os.fork() == 0:
        fd = os.open("f", os.O_RDWR)
        os.write(marks, b"%d\n" % os.getpid())
        os.close(fd)
        os._exit(0)
for _ in range(first): writer()
print("ready", flush=True)
sys.stdin.readline()
bad = 0
for i in range(total):
    bad += os.wait()[1] != 0
    if i + first < total: writer()
sys.exit(bad)
`
	first, total := repeat(40, 200), repeat(80, 2000)
	forEachMount(t, func(t *testing.T, m *Mount) {
		m.WriteFile("f", "data")
		a := newArena(t, m)
		holder := m.heldGuard(t, "f")
		p := m.LaunchPython(t, crowd, fmt.Sprint(first), fmt.Sprint(total), a.marks.Name())
		p.AwaitLine("ready")
		queue := m.AwaitWaiters(t, "f", first)
		p.Send("go")
		holder.Close()
		holder.OK()
		p.OK()
		turns, err := os.ReadFile(a.marks.Name())
		if err != nil {
			t.Fatal(err)
		}
		var want strings.Builder
		for _, pid := range queue {
			fmt.Fprintln(&want, pid)
		}
		if !strings.HasPrefix(string(turns), want.String()) {
			t.Errorf("the order of the queue was\n%s, that of the turns\n%s",
				strings.Fields(want.String()), strings.Fields(string(turns))[:first])
		}
		if n := strings.Count(string(turns), "\n"); n != total {
			t.Errorf("%d had their turn, want %d", n, total)
		}
	})
}

// Readers who lock do not go past a writer who waits.
func TestSharedGuardStandsBehindAWriter(t *testing.T) {
	needsLatchfs(t)
	forEachMount(t, func(t *testing.T, m *Mount) {
		m.WriteFile("f", "data")
		first := m.heldGuard(t, "--mode", "shared", "f")
		beside := m.heldGuard(t, "--mode", "shared", "f")
		writer := m.Client(t)
		open := writer.GoOpen("f", unix.O_RDWR)
		open.MustBlock(t)
		late := m.Guard(t, "--mode", "shared", "f", "--", "echo", "late")
		late.MustWait()
		if _, err := m.control.TryOpen("f", unix.O_RDWR|unix.O_NONBLOCK); err != syscall.EAGAIN {
			t.Errorf("a writer beside a shared lock: %v", err)
		}
		first.Close()
		first.OK()
		open.MustBlock(t)
		beside.Close()
		beside.OK()
		fd := int(open.OK().N)
		late.MustWait()
		writer.MustClose(fd)
		if out := late.OK(); out != "late\n" {
			t.Errorf("the late reader printed %q", out)
		}
	})
}
