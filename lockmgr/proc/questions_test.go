package proc

import (
	"fmt"
	"os"
	"os/exec"
	"strconv"
	"strings"
	"sync"
	"sync/atomic"
	"syscall"
	"testing"
	"time"

	"golang.org/x/sys/unix"

	"latchfs/lockmgr/proc/internal/procfs"
)

// threads is how many threads this process has.
func threads(t *testing.T, r *Reader) int {
	t.Helper()
	status, err := r.root.ReadAll("self/status")
	if err != nil {
		t.Fatal(err)
	}
	text, _ := procfs.Field(status, "Threads")
	n, err := strconv.Atoi(text)
	if err != nil {
		t.Fatal(err)
	}
	return n
}

// A process that does not answer, for its exec lock is taken as long as a filesystem
// of its own says, keeps some threads and no more, however often it is asked about.
func TestStuckProcessKeepsFewThreads(t *testing.T) {
	r := newReader(t)
	var grandchildren []int32
	atExec(t, func(c *child) {
		for range 4 {
			grandchildren = append(grandchildren, c.number("fork"))
		}
	}, func(c *child, _ File, _ uint32) {
		before := threads(t, r)
		var all sync.WaitGroup
		for range 100 {
			all.Go(func() { r.FirstEnv(c.pid(), []string{childEnv}) })
			all.Go(func() { _, _ = r.Process(c.pid()) })
			all.Go(func() { r.Lineage(grandchildren[0]) })
		}
		all.Wait()
		for range 50 {
			r.FirstEnv(c.pid(), []string{childEnv})
		}
		if now := threads(t, r); now > before+4*maxAskedOf {
			t.Errorf("%d threads, %d before 350 questions about one process", now, before)
		}
	})
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

// A user whose processes do not answer is asked about no more of them; others are.
func TestStuckProcessesOfOneUser(t *testing.T) {
	if unix.Geteuid() != 0 {
		t.Skip("needs root, to be several users")
	}
	r := newReader(t)
	r.questions.grace = 0
	answer := make(chan struct{})
	var asked atomic.Int32
	ask := func(pid int32) error {
		_, err := stubbornly(r, pid, func(*asking) (bool, error) {
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
		await(t, "the question hangs", func() bool { return int(r.questions.hung.Load()) == i+1 })
	}
	for _, pid := range pids[maxHungOf-1:] {
		if err := ask(pid); err != ErrBusy || asked.Load() != maxHungOf {
			t.Errorf("with %d that hang: %v, %d asked", maxHungOf, err, asked.Load())
		}
	}
	other := idlers(t, 61002, 1)[0]
	if env := r.FirstEnv(other, []string{"PATH"}); !strings.Contains(env, "/") {
		t.Errorf("another user's process cannot be asked: %q", env)
	}
	close(answer)
	await(t, "the answers", func() bool { return r.questions.hung.Load() == 0 })
	if env := r.FirstEnv(pids[0], []string{"PATH"}); !strings.Contains(env, "/") {
		t.Errorf("after the answers: %q", env)
	}
	if qs := &r.questions; len(qs.about)+len(qs.hungOf)+qs.asked != 0 {
		t.Errorf("left: %+v", qs)
	}
}

// The number of a process that never answered is given to another one.
func TestStuckPIDIsReused(t *testing.T) {
	r := newReader(t)
	r.questions.grace = 0
	answer := make(chan struct{})
	defer close(answer)
	c := startChild(t)
	pid := c.pid()
	_, err := stubbornly(r, pid, func(*asking) (bool, error) { <-answer; return true, nil })
	if err != ErrBusy {
		t.Fatal(err)
	}
	await(t, "the question hangs", func() bool { return r.questions.hung.Load() == 1 })
	if err := r.askNothing(pid); err != ErrBusy {
		t.Errorf("while it lives: %v", err)
	}
	c.signal(unix.SIGKILL)
	c.await(unix.WEXITED)
	c.reap()
	if err := r.askNothing(pid); err != nil {
		t.Errorf("when it is gone: %v", err)
	}
}

func (r *Reader) askNothing(pid int32) error {
	_, err := stubbornly(r, pid, func(*asking) (bool, error) { return true, nil })
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
