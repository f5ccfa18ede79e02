package ctl

import (
	"os"
	"os/exec"
	"strings"
	"testing"
	"time"

	"latchfs/lockmgr"
	"latchfs/lockmgr/proc"
)

// Labels end with their processes, and nobody may have too many.
func TestActorsEndWithTheirProcesses(t *testing.T) {
	r, err := proc.New("")
	if err != nil {
		t.Fatal(err)
	}
	defer r.Close()
	done := make(chan struct{})
	defer close(done)
	as := newActors(&Config{Procs: r, Done: done})
	owner := func(pid int) lockmgr.Owner {
		th, err := r.Process(int32(pid))
		if err != nil {
			t.Fatal(err)
		}
		return th.Owner
	}
	cmd := exec.Command("cat")
	in, _ := cmd.StdinPipe()
	if err := cmd.Start(); err != nil {
		t.Fatal(err)
	}
	self, child := owner(os.Getpid()), owner(cmd.Process.Pid)
	for _, o := range []lockmgr.Owner{self, child} {
		if err := as.give(o, "agent", 1000); err != nil {
			t.Fatal(err)
		}
	}
	if err := as.give(child, "root's", 0); err != nil {
		t.Errorf("root may not label a process again: %v", err)
	}
	if err := as.give(child, "agent", 1000); err == nil || !strings.Contains(err.Error(), "root has given") {
		t.Errorf("a user labels what root has: %v", err)
	}
	in.Close()
	cmd.Wait()
	for limit := time.Now().Add(10 * time.Second); as.n.Load() != 1; time.Sleep(time.Millisecond) {
		if time.Now().After(limit) {
			t.Fatalf("%d labels are left", as.n.Load())
		}
	}
	if err := as.give(child, "late", 1000); err != nil {
		t.Errorf("a process that has ended: %v", err)
	}
	as.mu.Lock()
	for i := range maxActorsOfUser {
		as.all[lockmgr.Owner{PID: -1, Start: uint64(i)}] = &actor{uid: 7}
	}
	as.mu.Unlock()
	if err := as.give(lockmgr.Owner{PID: 1}, "more", 7); err == nil {
		t.Error("a user may have any number of labels")
	}
}
