package proc

import (
	"bufio"
	"fmt"
	"os"
	"os/exec"
	"slices"
	"testing"
	"time"

	"golang.org/x/sys/unix"

	"latchfs/lockmgr"
)

// keepIt looks at a process until files of it are kept.
func keepIt(t *testing.T, r *Reader, pid int32) *kept {
	t.Helper()
	var k *kept
	eventually(t, "what is kept", func() bool { // in execve it is not looked at
		r.age()
		mustThread(t, r, uint32(pid))
		if k = r.keeper.borrow(pid); k != nil {
			r.keeper.giveBack(k)
		}
		return k != nil
	})
	return k
}

// What is kept answers like what is opened each time.
func TestKeptDescriptors(t *testing.T) {
	r := newReader(t)
	c := startChild(t)
	file, path := tempFile(t)
	k := keepIt(t, r, c.pid())
	check := func(what string, writable, readable int) {
		t.Helper()
		w, ro, err := r.OpensOfCloser(k.o, file)
		if w != writable || ro != readable || err != nil {
			t.Errorf("%s: %d writable, %d readable, %v; want %d, %d", what, w, ro, err, writable, readable)
		}
		count := &openCounter{r: r, pid: c.pid(), file: file}
		err = count.countKept(k)
		if tooMany := writable+readable > keptInfos+maxOpened; tooMany != (err == errUnclear) || !tooMany && (err != nil || count.writable != writable) {
			t.Errorf("%s: at once %d writable, %v", what, count.writable, err)
		}
	}
	check("not open", 0, 0)
	fd := c.do("open", unix.O_WRONLY, path)
	check("open", 1, 0)
	second := c.do("dup", fd)
	check("dup", 2, 0)
	c.do("close", fd)
	check("closed", 1, 0)
	if again := c.do("open", unix.O_RDONLY, path); again != fd {
		t.Errorf("descriptor %s was not given out again, but %s", fd, again)
	}
	check("another in its place", 1, 1)
	for range keptInfos {
		c.do("open", unix.O_WRONLY, path)
	}
	check("more than are kept", 1+keptInfos, 1)
	for range keptInfos + maxOpened {
		c.do("open", unix.O_WRONLY, path)
	}
	check("many", 1+2*keptInfos+maxOpened, 1)
	c.do("close", second)
	check("one closed of many", 2*keptInfos+maxOpened, 1)
	c.signal(unix.SIGKILL)
	c.await(unix.WEXITED)
	if w, _, err := r.OpensOfCloser(k.o, file); w != 0 || err != nil {
		t.Errorf("dead: %d writable, %v", w, err)
	}
}

// A pid that another process has got: what was kept of the first tells nothing of it.
func TestKeptOfAnEarlierProcess(t *testing.T) {
	r := newReader(t)
	dead, alive := startChild(t), startChild(t)
	k := keepIt(t, r, dead.pid())
	children := r.Descendants(dead.pid())
	dead.signal(unix.SIGKILL)
	dead.reap()
	if len(children) != 0 {
		t.Errorf("children: %v", children)
	}
	r.forget()
	want := mustThread(t, r, alive.tid())
	below := int32(alive.number("fork"))
	r.keeper.mu.Lock()
	delete(r.keeper.of, dead.pid())
	k.o.PID = alive.pid()
	r.keeper.of[alive.pid()] = k
	r.keeper.mu.Unlock()
	if got := r.Descendants(alive.pid()); !slices.Equal(got, []int32{below}) {
		t.Errorf("children %v, want %d", got, below)
	}
	if r.inExec(alive.pid()) {
		t.Error("seen in execve")
	}
	if name := r.Program(alive.pid()); name == "" {
		t.Error("no name is seen")
	}
	r.forget()
	if got := mustThread(t, r, alive.tid()); got != want {
		t.Errorf("seen %+v, want %+v", got, want)
	}
	if r.keeper.borrow(alive.pid()) != nil {
		t.Error("the dead one is kept still")
	}
}

// A program may become another one, and its pid stays.
func TestKeptOverExec(t *testing.T) {
	r := newReader(t)
	c := startChild(t)
	before := mustThread(t, r, c.tid())
	keepIt(t, r, c.pid())
	c.tell("exec", "/bin/cat")
	eventually(t, "the other program", func() bool {
		th, _, _, err := r.Closer(c.tid())
		return err == nil && th.Comm == "cat" && th.Owner == before.Owner && r.Program(c.pid()) == "cat"
	})
}

// Files are kept of so many processes at most, and all are closed in the end.
func TestKeptAreFew(t *testing.T) {
	count := func() int {
		list, err := os.ReadDir("/proc/self/fd")
		if err != nil {
			t.Fatal(err)
		}
		return len(list)
	}
	programs := make([]int32, maxKept+8)
	for i := range programs {
		programs[i] = startProgram(t, "/bin/cat")
	}
	before := count()
	r, err := New("")
	if err != nil {
		t.Fatal(err)
	}
	for _, pid := range programs {
		keepIt(t, r, pid)
		r.Lineage(pid)
		if n := len(r.keeper.of); n > maxKept {
			t.Fatalf("files of %d processes are kept", n)
		}
	}
	if r.keeper.borrow(programs[0]) != nil {
		t.Error("the one that was asked for longest ago is kept")
	}
	r.Close()
	// A question that was answered ends a moment later.
	eventually(t, "the end of all descriptors", func() bool { return count() <= before })
}

// The lineage that is kept ends with the death of any ancestor.
func TestKeptLineage(t *testing.T) {
	r := newReader(t)
	cmd := exec.Command("sh", "-c", `sh -c 'echo $$; sleep 1000 <&- >&- & echo $!; read x'; true`)
	in, err := cmd.StdinPipe()
	if err != nil {
		t.Fatal(err)
	}
	out, err := cmd.StdoutPipe()
	if err != nil {
		t.Fatal(err)
	}
	if err := cmd.Start(); err != nil {
		t.Fatal(err)
	}
	var shell, sleep int32
	if _, err := fmt.Fscan(bufio.NewReader(out), &shell, &sleep); err != nil {
		t.Fatal(err)
	}
	defer func() {
		_ = unix.Kill(int(sleep), unix.SIGKILL)
		in.Close()
	}()
	k := keepIt(t, r, sleep)
	want := r.lineage(sleep)
	if len(want) < 3 || want[0].Owner.PID != shell || want[1].Owner.PID != int32(cmd.Process.Pid) {
		t.Fatalf("the ancestors are %v", want)
	}
	same := func(a, b []lockmgr.Ancestor) bool { return slices.Equal(a, b) }
	eventually(t, "the kept ancestors", func() bool { // one may be in execve
		r.age()
		mustThread(t, r, uint32(sleep))
		if got := r.Lineage(sleep); !same(got, want) {
			t.Fatalf("ancestors %v, want %v", got, want)
		}
		return k.up != nil && same(k.up.ancestors, want)
	})
	r.age()
	mustThread(t, r, uint32(sleep))
	if got := r.Lineage(sleep); &got[0] != &k.up.ancestors[0] {
		t.Error("the ancestors are found anew")
	}
	if err := cmd.Process.Kill(); err != nil {
		t.Fatal(err)
	}
	_, _ = cmd.Process.Wait()
	r.age()
	mustThread(t, r, uint32(sleep)) // its own parent lives
	got := r.Lineage(sleep)
	if len(got) < 1 || got[0] != want[0] || len(got) > 1 && got[1] == want[1] {
		t.Errorf("after the death of %v: %v", want[1].Owner, got)
	}
}

// eventually waits until something is so.
func eventually(t *testing.T, what string, is func() bool) {
	t.Helper()
	for end := time.Now().Add(10 * time.Second); !is(); {
		if time.Now().After(end) {
			t.Fatalf("%s: not seen", what)
		}
		time.Sleep(time.Millisecond)
	}
}
