package ends

import (
	"errors"
	"os"
	"os/exec"
	"testing"

	"golang.org/x/sys/unix"

	"latchfs/lockmgr/proc/internal/patience"
	"latchfs/lockmgr/proc/internal/procfs"
)

// look is a function that reads a stat.
func look(t *testing.T) func(pid int32) (procfs.Stat, error) {
	t.Helper()
	root, err := procfs.Open("/proc")
	if err != nil {
		t.Fatal(err)
	}
	t.Cleanup(root.Release)
	return func(pid int32) (st procfs.Stat, err error) {
		err = root.WithFile(procfs.PIDPath(pid, "stat"), func(b []byte) error {
			st, err = procfs.ParseStat(b)
			return err
		})
		return st, err
	}
}

// start starts a script that waits for its input to end, and then does what it is told to.
func start(t *testing.T, stat func(int32) (procfs.Stat, error), how string) (p Process, goOn func(), wait func()) {
	t.Helper()
	cmd := exec.Command("sh", "-c", "read x; "+how)
	in, err := cmd.StdinPipe()
	if err != nil {
		t.Fatal(err)
	}
	if err := cmd.Start(); err != nil {
		t.Fatal(err)
	}
	t.Cleanup(func() { _ = cmd.Process.Kill(); _ = cmd.Wait() })
	st, err := stat(int32(cmd.Process.Pid))
	if err != nil {
		t.Fatal(err)
	}
	return Process{PID: int32(cmd.Process.Pid), Start: st.Start}, func() { in.Close() }, func() { _ = cmd.Wait() }
}

func closed(c <-chan struct{}) bool {
	select {
	case <-c:
		return true
	default:
		return false
	}
}

// How a process ended is told while it waits to be waited for, and afterwards.
func TestStatus(t *testing.T) {
	stat := look(t)
	for how, want := range map[string]int{"kill -9 $$": 9, "exit 0": 0, "exit 3": 3 << 8} {
		t.Run(how, func(t *testing.T) {
			ws := New(stat)
			p, goOn, wait := start(t, stat, how)
			dead, status, stop, err := ws.Watch(p)
			if err != nil {
				t.Fatal(err)
			}
			defer stop()
			pidfd, err := unix.PidfdOpen(int(p.PID), 0)
			if err != nil {
				t.Fatal(err)
			}
			defer unix.Close(pidfd)
			if closed(dead) {
				t.Fatal("told of the death of a living process")
			}
			goOn()
			<-dead
			if got, known := status(); got != want || !known {
				t.Errorf("status %#x, %t, want %#x", got, known, want)
			}
			wait()
			switch got, known := ws.statusOf(p, uintptr(pidfd)); {
			case !known:
				t.Log("this kernel does not tell of processes that were waited for")
			case got != want:
				t.Errorf("after it was waited for: %#x", got)
			}
		})
	}
}

// All watches of a process share one, which ends with the last, or with the process.
func TestWatchesAreShared(t *testing.T) {
	stat := look(t)
	ws := New(stat)
	running := func() int {
		ws.mu.Lock()
		defer ws.mu.Unlock()
		return len(ws.running)
	}
	p, goOn, _ := start(t, stat, "exit 0")
	one, _, stopOne, err := ws.Watch(p)
	if err != nil {
		t.Fatal(err)
	}
	two, _, stopTwo, err := ws.Watch(p)
	if err != nil || one != two || running() != 1 {
		t.Fatalf("%d watches run of one process, %v", running(), err)
	}
	stopOne()
	stopOne() // does no harm
	if running() != 1 {
		t.Error("one of two stops the other")
	}
	stopTwo()
	if running() != 0 || closed(one) {
		t.Errorf("after the last has stopped %d run", running())
	}
	dead, _, stop, err := ws.Watch(p)
	if err != nil {
		t.Fatal(err)
	}
	goOn()
	<-dead
	if running() != 0 {
		t.Errorf("after the death %d run", running())
	}
	stop()
}

// Another process of the same pid has ended long ago; one that cannot be looked at lives.
func TestWatchOf(t *testing.T) {
	stat := look(t)
	self, err := stat(int32(os.Getpid()))
	if err != nil {
		t.Fatal(err)
	}
	p := Process{PID: int32(os.Getpid()), Start: self.Start}
	failed := errors.New("failed")
	for _, tt := range []struct {
		what string
		p    Process
		err  error // of a look
		dead bool
	}{
		{"ourselves", p, nil, false},
		{"an earlier process", Process{p.PID, p.Start - 1}, nil, true},
		{"one that is gone", p, procfs.ErrGone, true},
		{"one in execve", p, patience.ErrBusy, false},
		{"one whose stat is malformed", p, failed, true},
		{"no process", Process{1 << 30, 1}, nil, true},
	} {
		ws := New(func(pid int32) (procfs.Stat, error) {
			if tt.err != nil {
				return procfs.Stat{}, tt.err
			}
			return stat(pid)
		})
		dead, _, stop, err := ws.Watch(tt.p)
		if err != nil {
			t.Fatal(err)
		}
		if closed(dead) != tt.dead {
			t.Errorf("%s is dead: %t", tt.what, !tt.dead)
		}
		stop()
	}
}
