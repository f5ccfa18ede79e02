package proc

import (
	"os"
	"os/exec"
	"slices"
	"strconv"
	"strings"
	"testing"

	"golang.org/x/sys/unix"

	"latchfs/lockmgr"
	"latchfs/lockmgr/proc/internal/procfs"
)

func TestLineage(t *testing.T) {
	r := newReader(t)
	c := startChild(t)
	grandchild := c.number("fork")

	self := mustThread(t, r, uint32(os.Getpid()))
	child := mustThread(t, r, c.tid())
	below := mustThread(t, r, uint32(grandchild))
	got := r.Lineage(grandchild)
	want := []lockmgr.Ancestor{
		{Owner: child.Owner, Child: lockmgr.Birth{Tick: below.Start, PID: grandchild}},
		{Owner: self.Owner, Child: lockmgr.Birth{Tick: child.Start, PID: c.pid()}},
	}
	if len(got) < 2 || !slices.Equal(got[:2], want) {
		t.Fatalf("lineage starts with %v, want %v", got, want)
	}
	if rest := r.Lineage(self.Owner.PID); !slices.Equal(got[2:], rest) {
		t.Errorf("lineage goes on with %v, our own is %v", got[2:], rest)
	}
	last := got[len(got)-1].Owner.PID
	if st, err := r.stat(last); err != nil || st.PPID != 0 {
		t.Errorf("lineage ends at %d, whose parent is %d (%v)", last, st.PPID, err)
	}
	r.forget()
	if again := r.Lineage(grandchild); !slices.Equal(again, got) {
		t.Errorf("looked up again it is %v, was %v", again, got)
	}
}

// A lineage whose processes were looked up for itself only must not make a
// thread pass for a process.
func TestLineageOfThread(t *testing.T) {
	r := newReader(t)
	c := startChild(t)
	tid := c.number("thread")
	r.Lineage(tid)
	if th := mustThread(t, r, uint32(tid)); th.TGID != c.pid() {
		t.Errorf("thread %d belongs to %d, want %d", tid, th.TGID, c.pid())
	}
}

func TestLineageOfOrphan(t *testing.T) {
	r := newReader(t)
	cmd := exec.Command("/bin/sh", "-c", "cat <&3 >/dev/null 2>&1 & echo $!")
	in, out, err := os.Pipe()
	if err != nil {
		t.Fatal(err)
	}
	defer in.Close()
	defer out.Close() // which ends the orphan
	cmd.ExtraFiles = []*os.File{in}
	answer, err := cmd.Output() // sh has gone
	if err != nil {
		t.Fatal(err)
	}
	pid, _ := strconv.Atoi(strings.TrimSpace(string(answer)))
	lineage := r.Lineage(int32(pid))
	if len(lineage) == 0 {
		t.Fatal("the orphan has no ancestors")
	}
	for _, a := range lineage {
		if a.Owner.PID == int32(cmd.Process.Pid) {
			t.Errorf("its dead parent is among its ancestors: %v", lineage)
		}
	}
	if d := r.Descendants(int32(cmd.Process.Pid)); len(d) != 0 {
		t.Errorf("its dead parent has descendants %v", d)
	}
}

// A parent that seems younger than its child is another process.
func TestLineageReusedParent(t *testing.T) {
	r := newReader(t)
	c := startChild(t)
	child := mustThread(t, r, c.tid())
	self := int32(os.Getpid())
	r.known.put(&known{tid: self, start: child.Start + 1, ppid: 1, seen: now()})
	if l := r.Lineage(c.pid()); len(l) != 0 {
		t.Errorf("lineage %v includes a parent born after its child", l)
	}
}

// Births tell who was born before and after a moment, also within one tick.
func TestNow(t *testing.T) {
	r := newReader(t)
	for range 20 {
		before := startCat(t)
		now := r.Now()
		after := startCat(t)
		if b := birth(t, r, before); b.After(now) {
			t.Fatalf("born %v, before %v, but seen as after it", b, now)
		}
		if b := birth(t, r, after); !b.After(now) {
			t.Fatalf("born %v, after %v, but seen as before it", b, now)
		}
	}
}

// startCat starts a process that costs little.
func startCat(t *testing.T) int32 {
	t.Helper()
	cmd := exec.Command("/bin/cat")
	if _, err := cmd.StdinPipe(); err != nil {
		t.Fatal(err)
	}
	if err := cmd.Start(); err != nil {
		t.Fatal(err)
	}
	t.Cleanup(func() { cmd.Process.Kill(); cmd.Wait() })
	return int32(cmd.Process.Pid)
}

func birth(t *testing.T, r *Reader, pid int32) lockmgr.Birth {
	t.Helper()
	l := r.Lineage(pid)
	if len(l) == 0 || l[0].Child.PID != pid {
		t.Fatalf("lineage of %d is %v", pid, l)
	}
	return l[0].Child
}

func TestDescendants(t *testing.T) {
	r := newReader(t)
	c := startChild(t)
	if got := r.Descendants(c.pid()); len(got) != 0 {
		t.Errorf("at first %v", got)
	}
	one, two := c.number("fork"), c.number("fork")
	want := []int32{one, two}
	if got := r.Descendants(c.pid()); !slices.Equal(sorted(got), sorted(want)) {
		t.Errorf("children are %v, want %v", got, want)
	}
	all := r.Descendants(int32(os.Getpid()))
	i := slices.Index(all, c.pid())
	if i < 0 || slices.Index(all, one) < i || slices.Index(all, two) < i {
		t.Errorf("our own are %v, want %d, and its children %v after it", all, c.pid(), want)
	}

	r.kids = false
	if got := r.Descendants(c.pid()); !slices.Equal(sorted(got), sorted(want)) {
		t.Errorf("found by scanning: %v, want %v", got, want)
	}
	unix.Kill(int(two), unix.SIGKILL)
}

// Where the kernel tells of forks, only the first thread of a process is looked at as long as
// no other one can have children. What is found is the same.
func TestChildrenOfThreads(t *testing.T) {
	for name, reader := range map[string]func(testing.TB) *Reader{"told": following, "not told": newReader} {
		t.Run(name, func(t *testing.T) {
			c := startChild(t)
			r := reader(t)
			var started []int32
			check := func(what string, ofFirst bool) {
				t.Helper()
				for range 2 {
					if got := r.Descendants(c.pid()); !slices.Equal(sorted(got), sorted(started)) {
						t.Errorf("%s: children %v, want %v", what, got, started)
					}
				}
				if got, want := r.childrenOnce(c.pid()).ofFirst, ofFirst && r.forks != nil; got != want {
					t.Errorf("%s: only the first thread is looked at: %t, want %t", what, got, want)
				}
			}
			check("older than the reader", true)
			started = append(started, int32(c.number("fork-leader")))
			check("by the first thread", true)
			brief := int32(c.number("fork-brief"))
			started = append(started, brief)
			eventually(t, "the end of the thread", func() bool {
				list, err := r.root.ReadAll(procfs.TaskPath(c.pid(), c.pid(), "children"))
				return err == nil && slices.Contains(procfs.ParsePIDs(list), brief)
			})
			check("by a thread that has ended", true)
			keepIt(t, r, c.pid())
			check("kept", true)
			started = append(started, int32(c.number("fork")))
			check("by another thread", false)
			c.do("exit-leader")
			awaitState(t, r, c.pid(), 'Z')
			check("when the first thread has ended", false)
			if list, ok := r.childrenOfFirst(c.pid()); ok {
				t.Errorf("of a first thread that has ended %s is believed", list)
			}
		})
	}
}

// What the kernel has told from the beginning needs no look at each thread.
func TestNewProcessHasNoChildren(t *testing.T) {
	r := following(t)
	c := startChild(t)
	if l := r.childrenOnce(c.pid()); !l.ofFirst || len(l.list) > 0 {
		t.Errorf("of a process that has started none: %+v", l)
	}
	below := int32(c.number("fork"))
	if l := r.childrenOnce(c.pid()); l.ofFirst || !l.elsewhere || !slices.Equal(procfs.ParsePIDs(l.list), []int32{below}) {
		t.Errorf("of a process that has started %d: %+v", below, l)
	}
	program, err := os.Executable()
	if err != nil {
		t.Fatal(err)
	}
	c.tell("exec", "/usr/bin/env", childEnv+"=1", program) // by another thread than the first
	eventually(t, "execve", func() bool { return r.forks.Elsewhere(c.pid()) == 0 })
	c.number("thread")
	if l := r.childrenOnce(c.pid()); !l.ofFirst || !slices.Equal(procfs.ParsePIDs(l.list), []int32{below}) {
		t.Errorf("after execve: %+v, want %d", l, below)
	}
}

func sorted(pids []int32) []int32 {
	slices.Sort(pids)
	return pids
}
