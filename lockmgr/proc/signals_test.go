package proc

import (
	"errors"
	"fmt"
	"os"
	"os/exec"
	"path/filepath"
	"strings"
	"testing"

	"golang.org/x/sys/unix"

	"latchfs/lockmgr/proc/internal/procfs"
)

// A stopped process keeps its signals pending, to be looked at.
func TestPendingOfStopped(t *testing.T) {
	tests := []struct {
		send []unix.Signal
		want Pending
	}{
		{nil, Stop}, // the child has several threads, and the others have stopped
		{[]unix.Signal{unix.SIGURG}, NoReason},
		{[]unix.Signal{unix.SIGCHLD, unix.SIGWINCH, unix.SIGURG, unix.SIGPROF, unix.SIGVTALRM}, NoReason},
		{[]unix.Signal{unix.SIGUSR1}, Interrupt},
		{[]unix.Signal{unix.SIGURG, unix.SIGINT}, Interrupt},
		{[]unix.Signal{unix.SIGTSTP}, Stop},
		{[]unix.Signal{unix.SIGURG, unix.SIGTTIN}, Stop},
		{[]unix.Signal{unix.SIGTSTP, unix.SIGTERM}, Interrupt},
	}
	r := newReader(t)
	for _, tt := range tests {
		t.Run(fmt.Sprint(tt.send), func(t *testing.T) {
			c := startChild(t, quietly) // the Go runtime handles all these signals
			c.signal(unix.SIGSTOP)
			c.await(unix.WSTOPPED)
			for _, sig := range tt.send {
				c.signal(sig)
			}
			if got := r.Pending(c.tid()); got != tt.want {
				t.Errorf("%v, want %v", got, tt.want)
			}
		})
	}
}

// quietly keeps the Go runtime from sending the child signals of its own: on a busy machine
// it interrupts goroutines that have run for long (SIGURG).
func quietly(cmd *exec.Cmd) { cmd.Env = append(cmd.Env, "GODEBUG=asyncpreemptoff=1") }

// A signal that a thread has blocked does not reach its system call.
func TestPendingBlocked(t *testing.T) {
	r := newReader(t)
	c := startChild(t)
	tid := c.number("thread", "blocked", int(unix.SIGUSR1))
	if err := unix.Tgkill(int(c.pid()), int(tid), unix.SIGUSR1); err != nil {
		t.Fatal(err)
	}
	if got := r.Pending(uint32(tid)); got != NoReason { // another thread might have taken one
		t.Errorf("%v, want %v", got, NoReason)
	}
	c.signal(unix.SIGSTOP)
	c.await(unix.WSTOPPED)
	if got := r.Pending(uint32(tid)); got != Stop {
		t.Errorf("stopped: %v, want %v", got, Stop)
	}
}

// The number of threads is one field among others.
func TestIsAlone(t *testing.T) {
	for text, want := range map[string]bool{
		"Name:\tThreads:\t7\nThreads:\t1\nSigQ:\t1/2\n": true, "Name:\tx\nThreads:\t12\nSigQ:\t1/2\n": false, "Name:\tx\nThreads:\t2": false, "": true,
	} {
		if got := isAlone([]byte(text)); got != want {
			t.Errorf("of %q: %v", text, got)
		}
	}
}

// So is the process that traces it.
func TestIsTraced(t *testing.T) {
	for text, want := range map[string]bool{"PPid:\t7\nTracerPid:\t0\nUid:\t1\n": false, "PPid:\t7\nTracerPid:\t12\nUid:\t1\n": true, "": false} {
		if got := isTraced([]byte(text)); got != want {
			t.Errorf("of %q: %v", text, got)
		}
	}
}

// A group of control groups is frozen with those above it.
func TestIsFrozen(t *testing.T) {
	root := t.TempDir()
	write := func(file, text string) {
		t.Helper()
		file = filepath.Join(root, file)
		if err := errors.Join(os.MkdirAll(filepath.Dir(file), 0o755), os.WriteFile(file, []byte(text+"\n"), 0o644)); err != nil {
			t.Fatal(err)
		}
	}
	write("freezer/a/b/freezer.state", "FREEZING")
	write("freezer/a/freezer.state", "THAWED")
	write("user/cgroup.freeze", "1")
	write("user/shell/cgroup.freeze", "0")
	write("unified/x/cgroup.freeze", "1")
	write("y/cgroup.freeze", "0")
	for group, want := range map[string][2]bool{
		"/a/b": {true, false}, "/a": {false, false}, "/": {false, false}, "/user/shell": {false, true}, "/user": {false, true},
		"/x/z": {false, true}, "/y": {false, false}, "": {false, false},
	} {
		if v1, v2 := isFrozenV1(root, group), isFrozenV2(root, group); v1 != want[0] || v2 != want[1] {
			t.Errorf("%q: %v and %v, want %v", group, v1, v2, want)
		}
	}
}

// Of a process with one thread nobody else has taken a signal.
func TestPendingOfOneThread(t *testing.T) {
	if got := newReader(t).Pending(uint32(startCat(t))); got != Nothing {
		t.Errorf("%v, want %v", got, Nothing)
	}
}

// A process that is frozen is to leave its system calls, also if it has several threads.
func TestPendingOfFrozen(t *testing.T) {
	group := "/sys/fs/cgroup/freezer/latchfs-test"
	if err := os.Mkdir(group, 0o755); err != nil {
		t.Skipf("no freezer (version 1) that this user may use: %v", err)
	}
	c := startChild(t, quietly)
	write := func(file, text string) {
		t.Helper()
		if err := os.WriteFile(group+"/"+file, []byte(text), 0); err != nil {
			t.Fatal(err)
		}
	}
	t.Cleanup(func() {
		c.signal(unix.SIGKILL)
		c.await(unix.WEXITED)
		if err := os.Remove(group); err != nil {
			t.Error(err)
		}
	})
	r := newReader(t)
	write("cgroup.procs", fmt.Sprint(c.pid()))
	write("freezer.state", "FROZEN")
	defer write("freezer.state", "THAWED")
	for { // it freezes one thread after the other
		if b, err := os.ReadFile(group + "/freezer.state"); err != nil {
			t.Fatal(err)
		} else if string(b) == "FROZEN\n" {
			break
		}
	}
	if got := r.Pending(c.tid()); got != Freeze {
		t.Errorf("%v, want %v", got, Freeze)
	}
}

func TestSyscall(t *testing.T) {
	r := newReader(t)
	pid := startCat(t)
	// Nobody is told when cat has come to read its input.
	for {
		if call, ok := r.Syscall(uint32(pid)); ok && call.Nr == unix.SYS_READ {
			break
		}
		if _, err := r.stat(pid); err != nil {
			t.Fatal(err)
		}
	}
	c := startChild(t)
	c.signal(unix.SIGKILL)
	c.await(unix.WEXITED)
	if nr, ok := r.Syscall(c.tid()); ok {
		t.Errorf("a zombie is in system call %d", nr)
	}
}

func TestHasCap(t *testing.T) {
	r := newReader(t)
	root := unix.Geteuid() == 0
	c := startChild(t)
	if got := r.HasCap(c.tid(), unix.CAP_FSETID); got != root {
		t.Errorf("CAP_FSETID: %t, as root: %t", got, root)
	}
	if r.HasCap(c.tid(), 63) || r.HasCap(c.tid(), 64) || r.HasCap(c.tid(), -1) {
		t.Error("has a capability that does not exist")
	}
	// In a user namespace of its own a process has all capabilities, over
	// nobody but itself.
	own := startChild(t, func(cmd *exec.Cmd) { cmd.SysProcAttr = inUserNamespace(0) })
	status, err := r.root.ReadAll(procfs.PIDPath(own.pid(), "status"))
	if err != nil {
		t.Fatal(err)
	}
	if caps, _ := procfs.Field(status, "CapEff"); strings.Trim(caps, "0") == "" {
		t.Fatalf("the child has no capabilities (%s): the test tests nothing", caps)
	}
	if r.HasCap(own.tid(), unix.CAP_FSETID) {
		t.Error("a capability in a namespace of its own counts")
	}
}
