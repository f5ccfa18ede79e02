package proc

import (
	"os"
	"runtime"
	"strings"
	"sync"
	"testing"
	"time"

	"golang.org/x/sys/unix"

	"latchfs/lockmgr"
)

func TestThread(t *testing.T) {
	r := newReader(t)
	c := startChild(t)

	leader := mustThread(t, r, c.tid())
	want := Thread{TID: c.pid(), TGID: c.pid(), Start: leader.Start, PPID: int32(os.Getpid()),
		Owner: lockmgr.Owner{PID: c.pid(), Start: leader.Start}}
	if leader != want || leader.Start == 0 {
		t.Errorf("leader is %+v, want %+v", leader, want)
	}

	tid := c.number("thread")
	th := mustThread(t, r, uint32(tid))
	want.TID, want.Start = tid, th.Start
	if th != want || tid == c.pid() || th.Start < leader.Start {
		t.Errorf("thread is %+v, want %+v, not older than its leader", th, want)
	}
	if again := mustThread(t, r, uint32(tid)); again != th {
		t.Errorf("the second time %+v, the first %+v", again, th)
	}
	r.age()
	if again := mustThread(t, r, uint32(tid)); again != th {
		t.Errorf("looked up again %+v, at first %+v", again, th)
	}
	for _, forget := range []func(){func() {}, r.age, r.forget} {
		forget()
		if p, err := r.Process(tid); p != th || err != nil {
			t.Errorf("Process: %+v, %v, want %+v", p, err, th)
		}
	}
}

func TestThreadNames(t *testing.T) {
	r := newReader(t)
	c := startChild(t)
	for _, name := range []string{"a b", ") R 1 2 3", "(((", ") ) )", "\xff"} {
		c.do("name", name)
		r.forget()
		if th := mustThread(t, r, c.tid()); th.PPID != int32(os.Getpid()) {
			t.Errorf("named %q its parent is %d", name, th.PPID)
		}
		if got := r.Describe(c.pid()).Program; got != strings.Join(strings.Fields(name), " ") {
			t.Errorf("named %q it is called %q", name, got)
		}
	}
}

func TestThreadForeign(t *testing.T) {
	r := newReader(t)
	if _, err := r.Thread(0); err != ErrForeign {
		t.Errorf("Thread(0): %v", err)
	}
	if _, err := r.Process(0); err != ErrForeign {
		t.Errorf("Process(0): %v", err)
	}
	if sig, exiting := r.Exit(0); sig != 0 || exiting {
		t.Errorf("Exit(0) = %d, %t", sig, exiting)
	}
	if r.Alive(lockmgr.Owner{PID: 0, Start: 7}) {
		t.Error("a foreign process is known to be alive")
	}
	if r.HasCap(0, unix.CAP_FSETID) {
		t.Error("a foreign process has our capabilities")
	}
}

// A pid that now is another process's must not be taken for the old one.
func TestThreadReused(t *testing.T) {
	r := newReader(t)
	c := startChild(t)
	true1 := mustThread(t, r, c.tid())
	r.known.put(&known{tid: c.pid(), start: 1, ppid: 1, tgid: 1, leaderStart: 1, seen: now() - trustFor})
	if th := mustThread(t, r, c.tid()); th != true1 {
		t.Errorf("an earlier process of that pid gave %+v, want %+v", th, true1)
	}
}

// Ids that share a set in the cache do not get into each other's way, until they
// are too many.
func TestCache(t *testing.T) {
	var c cache
	size := int32(len(c.sets))
	for i := int32(0); i < 5; i++ {
		c.put(&known{tid: 7 + i*size, start: uint64(i), seen: now() + time.Duration(i)})
	}
	if k := c.get(7); k != nil {
		t.Errorf("the oldest entry is still there: %+v", k)
	}
	for i := int32(1); i < 5; i++ {
		if k := c.get(7 + i*size); k == nil || k.start != uint64(i) {
			t.Errorf("entry %d is %+v", i, k)
		}
	}
	c.put(&known{tid: 7 + 2*size, start: 99, seen: now()})
	if k := c.get(7 + 2*size); k.start != 99 {
		t.Errorf("an entry was not replaced: %+v", k)
	}
	for _, i := range []int32{1, 3, 4} {
		if c.get(7+i*size) == nil {
			t.Errorf("entry %d gave way to one that was there already", i)
		}
	}
}

func TestGone(t *testing.T) {
	r := newReader(t)
	c := startChild(t)
	owner := ownerOf(t, r, c)
	c.reap()
	r.forget()

	if _, err := r.Thread(c.tid()); err != ErrGone {
		t.Errorf("Thread: %v", err)
	}
	if r.Alive(owner) {
		t.Error("alive")
	}
	if l := r.Lineage(c.pid()); len(l) != 0 {
		t.Errorf("has ancestors %v", l)
	}
	if d := r.Descendants(c.pid()); len(d) != 0 {
		t.Errorf("has descendants %v", d)
	}
	if w, ro, err := r.Opens(c.pid(), File{Ino: 1}); w != 0 || ro != 0 || err != nil {
		t.Errorf("Opens: %d, %d, %v", w, ro, err)
	}
	if m, err := r.MapsWritable(c.pid(), File{Ino: 1}, File{}); m || err != nil {
		t.Errorf("MapsWritable: %t, %v", m, err)
	}
	if sig, exiting := r.Exit(c.tid()); sig != 0 || !exiting {
		t.Errorf("Exit: %d, %t", sig, exiting)
	}
	if p := r.Pending(c.tid()); p != Interrupt {
		t.Errorf("Pending: %v", p)
	}
	if _, ok := r.Syscall(c.tid()); ok {
		t.Error("is in a system call")
	}
	if r.HasCap(c.tid(), unix.CAP_CHOWN) {
		t.Error("has a capability")
	}
	if d := r.Describe(c.pid()); d.Program != "" || d.Cmdline != nil || d.Cwd != "" {
		t.Errorf("Describe: %+v", d)
	}
	if r.FirstEnv(c.pid(), []string{childEnv}) != "" || r.Family(lockmgr.Owner{PID: c.pid()}).Interactive {
		t.Error("has an environment or a prompt")
	}
}

func TestAlive(t *testing.T) {
	r := newReader(t)
	c := startChild(t)
	owner := ownerOf(t, r, c)
	if !r.Alive(owner) {
		t.Error("a running process is not alive")
	}
	if r.Alive(lockmgr.Owner{PID: owner.PID, Start: owner.Start + 1}) {
		t.Error("an earlier process of that pid is alive")
	}
	c.signal(unix.SIGSTOP)
	c.await(unix.WSTOPPED)
	if !r.Alive(owner) {
		t.Error("a stopped process is not alive")
	}
	c.signal(unix.SIGKILL)
	c.await(unix.WEXITED)
	if r.Alive(owner) {
		t.Error("a zombie is alive")
	}
}

// A process whose leader has ended goes on in its other threads.
func TestEndedLeader(t *testing.T) {
	r := newReader(t)
	c := startChild(t)
	owner := ownerOf(t, r, c)
	tid := c.number("thread")
	file, path := tempFile(t)
	fd := c.do("open", unix.O_RDWR, path)
	c.do("mmap", fd, unix.PROT_READ|unix.PROT_WRITE, unix.MAP_SHARED, "m")
	c.do("exit-leader")
	awaitState(t, r, c.pid(), 'Z')

	if !r.Alive(owner) {
		t.Error("the process is not alive")
	}
	r.forget()
	if th := mustThread(t, r, uint32(tid)); th.Owner != owner {
		t.Errorf("its thread belongs to %v, want %v", th.Owner, owner)
	}
	if w, ro, err := r.Opens(c.pid(), file); w != 1 || ro != 0 || err != nil {
		t.Errorf("Opens: %d, %d, %v", w, ro, err)
	}
	if m, err := r.MapsWritable(c.pid(), file, File{}); !m || err != nil {
		t.Errorf("MapsWritable: %t, %v", m, err)
	}
}

// awaitState watches a process until its leader is in a state that nobody is
// told of.
func awaitState(t *testing.T, r *Reader, pid int32, state byte) {
	t.Helper()
	for {
		st, err := r.stat(pid)
		if err != nil {
			t.Fatal(err)
		}
		if st.State == state {
			return
		}
		runtime.Gosched()
	}
}

func TestExit(t *testing.T) {
	tests := []struct {
		name string
		end  func(*child)
		sig  int
	}{
		{"exit 0", func(c *child) { c.tell("exit", 0) }, 0},
		{"exit 3", func(c *child) { c.tell("exit", 3) }, 0},
		{"exit 137", func(c *child) { c.tell("exit", 137) }, 0},
		{"end of input", func(c *child) { c.in.Close() }, 0},
		{"killed", func(c *child) { c.signal(unix.SIGKILL) }, 9},
		{"terminated", func(c *child) { c.signal(unix.SIGTERM) }, 15},
		{"killed while stopped", func(c *child) {
			c.signal(unix.SIGSTOP)
			c.await(unix.WSTOPPED)
			c.signal(unix.SIGKILL)
		}, 9},
	}
	r := newReader(t)
	for _, tt := range tests {
		t.Run(tt.name, func(t *testing.T) {
			c := startChild(t)
			if sig, exiting := r.Exit(c.tid()); sig != 0 || exiting {
				t.Errorf("while running: signal %d, exiting %t", sig, exiting)
			}
			tt.end(c)
			c.await(unix.WEXITED)
			if sig, exiting := r.Exit(c.tid()); sig != tt.sig || !exiting {
				t.Errorf("signal %d, exiting %t, want %d, true", sig, exiting, tt.sig)
			}
		})
	}
	t.Run("stopped", func(t *testing.T) {
		c := startChild(t)
		c.signal(unix.SIGSTOP)
		c.await(unix.WSTOPPED)
		if sig, exiting := r.Exit(c.tid()); sig != 0 || exiting {
			t.Errorf("signal %d, exiting %t", sig, exiting)
		}
	})
}

func TestConcurrentThread(t *testing.T) {
	r := newReader(t)
	c := startChild(t)
	ids := []uint32{c.tid(), uint32(c.number("thread")), uint32(c.number("thread")), uint32(os.Getpid())}
	want := map[uint32]Thread{}
	for _, id := range ids {
		want[id] = mustThread(t, r, id)
	}
	r.forget()
	var wg sync.WaitGroup
	for range 8 {
		wg.Go(func() {
			for i := range 200 {
				id := ids[i%len(ids)]
				th, err := r.Thread(id)
				th.Comm = "" // a look shows it, what is remembered does not
				if err != nil || th != want[id] {
					t.Errorf("Thread(%d) = %+v, %v, want %+v", id, th, err, want[id])
				}
				r.Lineage(c.pid())
				if i%50 == 0 {
					r.age()
				}
			}
		})
	}
	wg.Wait()
}
