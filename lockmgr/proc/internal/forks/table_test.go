package forks

import (
	"bufio"
	"fmt"
	"io"
	"math"
	"os"
	"os/exec"
	"runtime"
	"slices"
	"testing"
	"time"

	"golang.org/x/sys/unix"

	"latchfs/lockmgr/proc/internal/procfs"
)

// childEnv makes the test binary a process whose first thread ends, and which then starts
// another process and tells its pid.
const childEnv = "LATCHFS_FORKS_CHILD"

func init() { runtime.LockOSThread() } // so that the first thread is main's

func TestMain(m *testing.M) {
	if os.Getenv(childEnv) == "" {
		os.Exit(m.Run())
	}
	go func() {
		defer os.Exit(0)
		var line string
		if _, err := fmt.Scanln(&line); err != nil {
			return
		}
		cmd := exec.Command("/bin/cat")
		if _, err := cmd.StdinPipe(); err != nil || cmd.Start() != nil {
			return
		}
		fmt.Println(cmd.Process.Pid)
		_, _ = fmt.Scanln(&line) // the end of the test
	}()
	// Not a raw system call, which would take the processor along.
	unix.Syscall(unix.SYS_EXIT, 0, 0, 0)
}

// following is a table of all forks from now on.
func following(t testing.TB) *Table {
	t.Helper()
	root, err := procfs.Open("/proc")
	if err != nil {
		t.Fatal(err)
	}
	t.Cleanup(root.Release)
	table, err := Follow(root)
	if err != nil {
		t.Skip("the kernel does not tell of forks: ", err)
	}
	t.Cleanup(table.Close)
	return table
}

// start starts a program that ends with the test.
func start(t *testing.T, cmd *exec.Cmd) (pid int32, in io.Writer, out *bufio.Reader) {
	t.Helper()
	in, err := cmd.StdinPipe()
	if err != nil {
		t.Fatal(err)
	}
	o, err := cmd.StdoutPipe()
	if err != nil {
		t.Fatal(err)
	}
	if err := cmd.Start(); err != nil {
		t.Fatal(err)
	}
	t.Cleanup(func() { _ = cmd.Process.Kill(); _ = cmd.Wait() })
	return int32(cmd.Process.Pid), in, bufio.NewReader(o)
}

// startersOf are those who have started a process, of which /proc shows no ancestor.
func startersOf(table *Table, pid int32) []int32 {
	_, starters := table.Orphan([]int32{pid})
	return starters
}

// orphaned starts a script whose job's parents have ended.
func orphaned(t *testing.T) (script, job int32) {
	t.Helper()
	script, _, out := start(t, exec.Command("sh", "-c", `exec 3<&0; sh -c "sh -c 'echo \$\$; cat <&3; :' & exit 0"; cat <&3; :`))
	if _, err := fmt.Fscan(out, &job); err != nil {
		t.Fatal(err)
	}
	return script, job
}

// Who has started an orphan is known, and the place in its ancestry where that shows.
func TestOrphan(t *testing.T) {
	table := following(t)
	script, job := orphaned(t)
	ended := func() bool { // the one between
		starters := startersOf(table, job)
		return len(starters) > 1 && unix.Kill(int(starters[0]), 0) == unix.ESRCH
	}
	for end := time.Now().Add(10 * time.Second); !ended(); time.Sleep(time.Millisecond) {
		if time.Now().After(end) {
			t.Fatalf("%d was started by %v, and its parent lives", job, startersOf(table, job))
		}
	}
	if got := startersOf(table, job); !slices.Contains(got, script) || !slices.Contains(got, int32(os.Getpid())) {
		t.Errorf("%d was started by %v, want %d and us", job, got, script)
	}
	if at, starters := table.Orphan([]int32{job, 1}); at != 0 || !slices.Contains(starters, script) {
		t.Errorf("place %d, started by %v", at, starters)
	}
	below := startersOf(table, job)
	if at, starters := table.Orphan([]int32{script, int32(os.Getpid())}); at == 0 {
		t.Errorf("the script is an orphan, started by %v", starters)
	}
	if at, _ := table.Orphan([]int32{job, below[0], 1}); at != 1 {
		t.Errorf("place %d, want that of the one between", at)
	}
	table.Close()
	if at, starters := table.Orphan([]int32{job}); at != -1 || starters != nil {
		t.Errorf("after Close: %d, %v", at, starters)
	}
}

// A program keeps its number until its process is another one or calls execve, or events
// are lost; after Close it has none.
func TestImage(t *testing.T) {
	table := following(t)
	pid, in, out := start(t, exec.Command("sh", "-c", "echo; read x; exec cat"))
	if _, err := out.ReadString('\n'); err != nil {
		t.Fatal(err)
	}
	last := table.Image(pid)
	if last == 0 || table.Image(pid) != last {
		t.Errorf("the number is %d, and then %d", last, table.Image(pid))
	}
	fmt.Fprintln(in)
	for end := time.Now().Add(10 * time.Second); table.Image(pid) == last; time.Sleep(time.Millisecond) {
		if time.Now().After(end) {
			t.Fatal("execve makes no other program")
		}
	}
	for what, happens := range map[string]func(){
		"a fork":          func() { table.begun(pid, 1, 1) },
		"what was reread": table.readProc,
	} {
		last := table.Image(pid)
		table.mu.Lock()
		happens()
		table.mu.Unlock()
		if now := table.Image(pid); now == last || now == 0 {
			t.Errorf("after %s the number is %d, before %d", what, now, last)
		}
	}
	table.mu.Lock()
	table.lost, table.reread = true, time.Now()
	table.tidy()
	table.mu.Unlock()
	if n := table.Image(pid); n != 0 {
		t.Errorf("after a loss the number is %d", n)
	}
	table.Close()
	table.Close() // does no harm
	if n := table.Image(int32(os.Getpid())); n != 0 {
		t.Errorf("after Close the number is %d", n)
	}
	if n := (*Table)(nil).Image(pid); n != 0 {
		t.Errorf("of no table the number is %d", n)
	}
}

// Processes that end are forgotten, those that live keep who has started them.
func TestEndedAreForgotten(t *testing.T) {
	table := following(t)
	script, orphan := orphaned(t)
	for range 2 * sweepAfter / 64 {
		if err := exec.Command("bash", "-c", "for i in {1..64}; do (:) & done; wait").Run(); err != nil {
			t.Fatal(err)
		}
	}
	table.mu.Lock()
	table.drain()
	table.sweep()
	kept, ended := len(table.born), table.ended
	table.mu.Unlock()
	if kept > sweepAfter+processes(t, table) || ended > sweepAfter {
		t.Errorf("%d processes are kept, %d of them ended", kept, ended)
	}
	if got := startersOf(table, orphan); !slices.Contains(got, script) {
		t.Errorf("the orphan was started by %v, want %d among them", got, script)
	}
}

// processes is how many there are.
func processes(t *testing.T, table *Table) (n int) {
	t.Helper()
	dir, err := table.root.OpenDir(".")
	if err != nil {
		t.Fatal(err)
	}
	defer unix.Close(dir)
	_ = procfs.Numbers(dir, func(int32) error { n++; return nil })
	return n
}

// A process whose first thread has ended lives on.
func TestProcessWithoutItsFirstThread(t *testing.T) {
	table := following(t)
	cmd := exec.Command("/proc/self/exe", "-test.run=^$")
	cmd.Env = append(os.Environ(), childEnv+"=1", "GORACE=atexit_sleep_ms=0")
	pid, in, out := start(t, cmd)
	for ended := false; !ended; time.Sleep(time.Millisecond) {
		table.mu.Lock()
		table.drain()
		ended = table.born[pid].ended
		table.mu.Unlock()
	}
	fmt.Fprintln(in, "go")
	var child int32
	if _, err := fmt.Fscan(out, &child); err != nil {
		t.Fatal(err)
	}
	table.mu.Lock()
	table.drain()
	table.sweep()
	table.mu.Unlock()
	if got, want := startersOf(table, child), []int32{pid, int32(os.Getpid())}; len(got) < 2 || !slices.Equal(got[:2], want) {
		t.Errorf("%d was started by %v, want %v first", child, got, want)
	}
}

// When events are lost, what is there is read anew.
func TestLoss(t *testing.T) {
	f := following(t)
	size := func(bytes int) {
		if err := unix.SetsockoptInt(f.fd, unix.SOL_SOCKET, unix.SO_RCVBUF, bytes); err != nil {
			t.Error(err)
		}
	}
	f.mu.Lock()
	size(1)
	err := exec.Command("bash", "-c", "for i in {1..64}; do (:); done").Run()
	size(bufferSize)
	early, _, _ := start(t, exec.Command("/bin/cat"))
	f.reread = time.Now() // however long that took
	f.drain()
	if !f.lost || len(f.born) > 0 {
		t.Errorf("nothing is lost, and %d processes are known", len(f.born))
	}
	f.reread = f.reread.Add(-rereadAfter)
	f.drain()
	f.mu.Unlock()
	if err != nil {
		t.Fatal(err)
	}
	late, _, _ := start(t, exec.Command("/bin/cat"))
	for _, pid := range []int32{early, late} {
		if starters := startersOf(f, pid); len(starters) == 0 || starters[0] != int32(os.Getpid()) {
			t.Errorf("the child was started by %v, want %v", starters, os.Getpid())
		}
	}
}

// Only what the kernel says counts.
func TestOnlyTheKernelIsBelieved(t *testing.T) {
	msg := make([]byte, eventEnd)
	if _, _, ok := event(msg, &unix.SockaddrNetlink{Pid: 1}); ok {
		t.Error("a message of a process is believed")
	}
	if _, _, ok := event(msg[:eventEnd-1], &unix.SockaddrNetlink{}); ok {
		t.Error("a short message is believed")
	}
	if _, _, ok := event(msg, &unix.SockaddrNetlink{}); !ok {
		t.Error("a message of the kernel is not believed")
	}
}

// What following costs whoever starts a process.
func BenchmarkFollow(b *testing.B) {
	for _, follow := range []bool{false, true, false, true} {
		b.Run(fmt.Sprintf("followed=%v", follow), func(b *testing.B) {
			if follow {
				following(b)
			}
			for b.Loop() {
				if err := exec.Command("bash", "-c", "for i in {1..100}; do (:); done").Run(); err != nil {
					b.Fatal(err)
				}
			}
		})
	}
}

// A process runs the program of its parent until it calls execve, or the parent does or ends.
func TestRunsAsParent(t *testing.T) {
	table := following(t)
	for name, script := range map[string]string{
		"the child calls execve":  "exec 3<&0; { sh -c 'echo $PPID'; read x <&3; exec cat <&3; } & wait",
		"the parent calls execve": "{ sh -c 'echo $PPID; kill -STOP $PPID'; :; } & read x; exec cat",
	} {
		t.Run(name, func(t *testing.T) {
			script, in, out := start(t, exec.Command("sh", "-c", script))
			var pid int32
			if _, err := fmt.Fscan(out, &pid); err != nil {
				t.Fatal(err)
			}
			t.Cleanup(func() { _ = unix.Kill(int(pid), unix.SIGKILL) })
			if !table.RunsAsParent(pid) || table.RunsAsParent(script) {
				t.Errorf("forked: %t, begun by execve: %t", table.RunsAsParent(pid), table.RunsAsParent(script))
			}
			if _, err := io.WriteString(in, "\ncat answers\n"); err != nil {
				t.Fatal(err)
			}
			if _, err := out.ReadString('r'); err != nil {
				t.Fatal(err)
			}
			if table.RunsAsParent(pid) {
				t.Error("another program runs, and is taken for the parent's")
			}
		})
	}
	script, _, out := start(t, exec.Command("sh", "-c", "exec 3<&0; { sh -c 'echo $PPID'; read x <&3; :; } & wait"))
	var pid int32
	if _, err := fmt.Fscan(out, &pid); err != nil {
		t.Fatal(err)
	}
	if !table.RunsAsParent(pid) {
		t.Error("a forked process runs another program")
	}
	if err := unix.Kill(int(script), unix.SIGKILL); err != nil {
		t.Fatal(err)
	}
	for end := time.Now().Add(10 * time.Second); table.RunsAsParent(pid); time.Sleep(time.Millisecond) {
		if time.Now().After(end) {
			t.Fatal("the parent is dead, and is taken for one that lives")
		}
	}
	table.Close()
	if table.RunsAsParent(pid) || (*Table)(nil).RunsAsParent(pid) {
		t.Error("something is known after Close, or without a table")
	}
}

// A process whose other threads have started nothing since a look has shown that they have no
// children is known to have none there, until its first thread ends or events are lost.
func TestElsewhere(t *testing.T) {
	const parent, child = math.MaxInt32 - 1, math.MaxInt32 // no process has these
	table := following(t)
	happens := func(f func()) {
		table.mu.Lock()
		defer table.mu.Unlock()
		f()
	}
	known := func(what string, pid int32, want bool) (told uint64) {
		t.Helper()
		if told = table.Elsewhere(pid); (told == 0) != want {
			t.Errorf("%s: told %d", what, told)
		}
		return told
	}
	known("never heard of", parent, false)
	happens(func() { table.begun(child, parent, parent) })
	known("has started nothing", child, true)
	first := known("what it did before is not known", parent, false)
	happens(func() { table.begun(child, parent, parent+1) })
	second := known("another thread has started a process", parent, false)
	table.NoneElsewhere(parent, first)
	known("a look from before that", parent, false)
	table.NoneElsewhere(parent, second)
	known("a look after that", parent, true)
	happens(func() { table.begun(child, parent, parent) })
	known("the first thread has started a process", parent, true)
	happens(func() { table.over(parent) })
	table.NoneElsewhere(parent, known("the first thread has ended", parent, false))
	known("still ended", parent, false)
	happens(func() { table.begun(child, parent, parent+1); table.execed(parent) })
	known("another program runs, in the first thread", parent, true)
	table.mu.Lock()
	if table.ended != 0 && table.born[parent].ended {
		t.Error("who has called execve has ended")
	}
	table.mu.Unlock()
	happens(func() { table.lost, table.reread = true, time.Now(); table.tidy() })
	known("events were lost", child, false)
	happens(func() { table.lost = false; table.begun(child, parent, parent) })
	known("and are told again", child, true)
	table.Close()
	known("closed", child, false)
	if told := (*Table)(nil).Elsewhere(child); told == 0 {
		t.Error("known without a table")
	}
	(*Table)(nil).NoneElsewhere(child, 1)
}

// The kernel tells which thread has started a process. That of a test is not the first.
func TestStartedByAThread(t *testing.T) {
	table := following(t)
	us := int32(os.Getpid())
	table.NoneElsewhere(us, table.Elsewhere(us))
	if told := table.Elsewhere(us); told != 0 {
		t.Errorf("the look is forgotten: told %d", told)
	}
	start(t, exec.Command("/bin/cat"))
	if table.Elsewhere(us) == 0 {
		t.Error("what a thread has started is not seen")
	}
}
