package patience

import (
	"fmt"
	"os"
	"os/exec"
	"sync"
	"sync/atomic"
	"syscall"
	"testing"
	"time"

	"golang.org/x/sys/unix"

	"latchfs/lockmgr/proc/internal/procfs"
)

// newQuestions are questions about processes that are never in execve. What was given up
// hangs at once.
func newQuestions(t *testing.T) *Questions {
	t.Helper()
	root, err := procfs.Open("/proc")
	if err != nil {
		t.Fatal(err)
	}
	t.Cleanup(root.Release)
	qs := New(root, func(int32) bool { return false }, 4)
	qs.Grace = 0
	return qs
}

// idlers are processes of a user that do nothing.
func idlers(t *testing.T, uid uint32, n int) (pids []int32) {
	t.Helper()
	for range n {
		cmd := exec.Command("/bin/sleep", "1000")
		cmd.SysProcAttr = &syscall.SysProcAttr{Pdeathsig: unix.SIGKILL, Credential: &syscall.Credential{Uid: uid, Gid: uid}}
		if err := cmd.Start(); err != nil {
			t.Fatal(err)
		}
		t.Cleanup(func() { _ = cmd.Process.Kill(); _ = cmd.Wait() })
		await(t, "execve is over", func() bool { // there is no environment before
			environ, err := os.ReadFile(fmt.Sprintf("/proc/%d/environ", cmd.Process.Pid))
			return err != nil || len(environ) > 0
		})
		pids = append(pids, int32(cmd.Process.Pid))
	}
	return pids
}

// That we are short of descriptors says nothing of a process.
func TestShortOfDescriptors(t *testing.T) {
	qs := newQuestions(t)
	for asked, want := range map[error]error{
		fmt.Errorf("fd: %w", unix.EMFILE): ErrBusy, unix.ENFILE: ErrBusy, unix.ENOMEM: ErrBusy, unix.EACCES: unix.EACCES, nil: nil,
	} {
		if _, err := Ask(qs, 1, Long, func(*Question) (bool, error) { return false, asked }); err != want {
			t.Errorf("%v is %v, want %v", asked, err, want)
		}
	}
}

// A user whose processes do not answer is asked about no more of them; others are.
func TestStuckProcessesOfOneUser(t *testing.T) {
	if unix.Geteuid() != 0 {
		t.Skip("needs root, to be several users")
	}
	qs := newQuestions(t)
	answer := make(chan struct{})
	var asked atomic.Int32
	ask := func(pid int32) error {
		_, err := Ask(qs, pid, Long, func(*Question) (bool, error) {
			asked.Add(1)
			<-answer
			return true, nil
		})
		return err
	}
	pids := idlers(t, 61001, maxHungOf+4)
	for i, pid := range pids[:maxHungOf] {
		if err := ask(pid); err != ErrBusy {
			t.Fatalf("process %d: %v", i, err)
		}
		await(t, "the question hangs", func() bool { return qs.Hung() == i+1 })
	}
	for _, pid := range pids[maxHungOf-1:] {
		if err := ask(pid); err != ErrBusy || asked.Load() != maxHungOf {
			t.Errorf("with %d that hang: %v, %d asked", maxHungOf, err, asked.Load())
		}
	}
	other := idlers(t, 61002, 1)[0]
	if err := askNothing(qs, other); err != nil {
		t.Errorf("another user's process cannot be asked: %v", err)
	}
	close(answer)
	await(t, "the answers", func() bool { return qs.Hung() == 0 })
	if err := askNothing(qs, pids[0]); err != nil {
		t.Errorf("after the answers: %v", err)
	}
	if len(qs.about)+len(qs.hungOf)+qs.asked != 0 {
		t.Errorf("left: %+v", qs)
	}
}

// The number of a process that never answered is given to another one.
func TestStuckPIDIsReused(t *testing.T) {
	qs := newQuestions(t)
	answer := make(chan struct{})
	defer close(answer)
	cmd := exec.Command("/bin/sleep", "1000")
	if err := cmd.Start(); err != nil {
		t.Fatal(err)
	}
	pid := int32(cmd.Process.Pid)
	_, err := Ask(qs, pid, Long, func(*Question) (bool, error) { <-answer; return true, nil })
	if err != ErrBusy {
		t.Fatal(err)
	}
	await(t, "the question hangs", func() bool { return qs.Hung() == 1 })
	if err := askNothing(qs, pid); err != ErrBusy {
		t.Errorf("while it lives: %v", err)
	}
	_ = cmd.Process.Kill()
	_ = cmd.Wait()
	if err := askNothing(qs, pid); err != nil {
		t.Errorf("when it is gone: %v", err)
	}
}

func askNothing(qs *Questions, pid int32) error {
	_, err := Ask(qs, pid, Long, func(*Question) (bool, error) { return true, nil })
	return err
}

func await(t *testing.T, what string, ok func() bool) {
	t.Helper()
	for end := time.Now().Add(30 * time.Second); !ok(); time.Sleep(time.Millisecond) {
		if time.Now().After(end) {
			t.Fatalf("did not come: %s", what)
		}
	}
}

// An answer in parts may take its time as a whole, and a part may not.
func TestParts(t *testing.T) {
	qs := newQuestions(t)
	self := int32(os.Getpid())
	n, err := Ask(qs, self, Long, func(a *Question) (n int, _ error) {
		for ; n < 5; n++ {
			time.Sleep(Long / 2)
			a.Answered()
		}
		return n, nil
	})
	if n != 5 || err != nil {
		t.Errorf("in parts: %d, %v", n, err)
	}
}

// A process in execve is waited for as long as the asker says, and any other one Long.
func TestInExec(t *testing.T) {
	for _, tt := range []struct {
		inExec  bool
		wait    time.Duration
		atLeast time.Duration
		once    bool // whether it is in execve is looked at once
	}{{false, Short, Long, false}, {true, Long, Long, false}, {true, Short, Short, true}} {
		qs := newQuestions(t)
		looks := 0
		qs.inExec = func(int32) bool { looks++; return tt.inExec }
		answer := make(chan struct{})
		begin := time.Now()
		_, err := Ask(qs, int32(os.Getpid()), tt.wait, func(*Question) (int, error) { <-answer; return 0, nil })
		took := time.Since(begin)
		close(answer)
		if err != ErrBusy || took < tt.atLeast || (looks == 1) != tt.once {
			t.Errorf("%+v: %v after %v and %d looks", tt, err, took, looks)
		}
	}
}

// No more questions than so many are under way about one process; who comes waits.
func TestPerProcess(t *testing.T) {
	qs := newQuestions(t)
	self := int32(os.Getpid())
	var under, most atomic.Int32
	var all sync.WaitGroup
	for range 100 {
		all.Go(func() {
			_, _ = Ask(qs, self, Long, func(*Question) (int, error) {
				n := under.Add(1)
				for m := most.Load(); n > m && !most.CompareAndSwap(m, n); m = most.Load() {
				}
				time.Sleep(100 * time.Microsecond)
				under.Add(-1)
				return 0, nil
			})
		})
	}
	all.Wait()
	if n := most.Load(); n > 4 || n < 2 {
		t.Errorf("%d at once, want up to 4", n)
	}
	await(t, "the end of all", func() bool {
		qs.mu.Lock()
		defer qs.mu.Unlock()
		return qs.asked == 0 && len(qs.about) == 0
	})
}
