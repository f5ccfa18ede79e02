package proc

import (
	"os/exec"
	"sync"
	"testing"
	"time"

	"golang.org/x/sys/unix"

	"latchfs/lockmgr"
)

// atExec starts a child that has the file open and calls execve, which closes
// it, and looks around while the kernel waits for the answer to that FLUSH.
func atExec(t *testing.T, before func(c *child), look func(c *child, file File, tid uint32)) {
	t.Helper()
	flushed := make(chan uint32)
	answer := make(chan struct{})
	path := mountOneFile(t, func(tid uint32) {
		flushed <- tid
		<-answer
	})
	c := startChild(t)
	if before != nil {
		before(c)
	}
	file := fileOf(t, path)
	c.do("open", unix.O_RDWR, path)
	c.tell("exec", "/bin/cat")
	tid := <-flushed
	look(c, file, tid)
	close(answer)
	if echo := c.do("done"); echo != "done" {
		t.Errorf("the new program says %q", echo)
	}
	r := newReader(t)
	if !r.Alive(ownerOf(t, r, c)) {
		t.Error("the new program is not alive")
	}
}

// quickly fails the test when f waits for the process in execve to go on.
func quickly(t *testing.T, what string, f func()) {
	t.Helper()
	done := make(chan struct{})
	go func() {
		defer close(done)
		f()
	}()
	select {
	case <-done:
	case <-time.After(30 * time.Second):
		t.Fatalf("%s waits for the process that waits for it", what)
	}
}

// A process never seen before is in execve.
func TestStrangerInExec(t *testing.T) {
	r := newReader(t)
	atExec(t, nil, func(c *child, file File, tid uint32) {
		if !r.inExec(c.pid()) {
			t.Error("is not recognised")
		}
		quickly(t, "Thread", func() {
			th, err := r.Thread(tid)
			if err != ErrBusy || th.TGID != c.pid() || th.PPID != int32(unix.Getpid()) || th.Owner != (lockmgr.Owner{}) {
				t.Errorf("Thread: %+v, %v", th, err)
			}
		})
		quickly(t, "Process", func() {
			th, err := r.Process(c.pid())
			if err != ErrBusy || th.TGID != c.pid() || th.PPID != int32(unix.Getpid()) {
				t.Errorf("Process: %+v, %v", th, err)
			}
		})
		quickly(t, "Lineage", func() {
			if l := r.Lineage(c.pid()); len(l) != 0 {
				t.Errorf("Lineage: %v", l)
			}
		})
		quickly(t, "Alive", func() {
			if !r.Alive(lockmgr.Owner{PID: c.pid(), Start: 1}) {
				t.Error("is not alive")
			}
		})
		quickly(t, "Exit", func() {
			if sig, exiting := r.Exit(tid); sig != 0 || exiting {
				t.Errorf("Exit: %d, %t", sig, exiting)
			}
		})
		lookInExec(t, r, c, file, tid)
	})
}

// lookInExec asks all that does not depend on what was known before.
func lookInExec(t *testing.T, r *Reader, c *child, file File, tid uint32) {
	quickly(t, "Opens", func() { wantOpens(t, r, c.pid(), file, 0, 0) })
	quickly(t, "MapsWritable", func() {
		if m, err := r.MapsWritable(c.pid(), file, File{}); m || err != nil {
			t.Errorf("MapsWritable: %t, %v", m, err)
		}
	})
	quickly(t, "HasCap", func() {
		if !r.HasCap(tid, unix.CAP_FSETID) {
			t.Error("has no capability")
		}
	})
	quickly(t, "Describe", func() {
		if d := r.Describe(c.pid()); d.Program == "" {
			t.Errorf("Describe: %+v", d)
		}
	})
	quickly(t, "Identify", func() {
		if p := r.Identify(c.pid()); p.Comm == "" {
			t.Errorf("Identify: %+v", p)
		}
	})
	quickly(t, "Descendants", func() { r.Descendants(c.pid()) })
	quickly(t, "Pending", func() { r.Pending(tid) })
	quickly(t, "Syscall", func() { r.Syscall(tid) })
	quickly(t, "FirstEnv", func() { r.FirstEnv(c.pid(), []string{childEnv}) })
	quickly(t, "Pulse", func() {
		if p, err := r.Pulse(c.pid()); err != ErrBusy {
			t.Errorf("Pulse: %+v, %v", p, err)
		}
	})
	quickly(t, "Family", func() { r.Family(lockmgr.Owner{PID: c.pid()}) })
	quickly(t, "Watch", func() {
		dead, stop := mustWatch(t, r, lockmgr.Owner{PID: c.pid(), Start: 1})
		defer stop()
		if closed(dead) {
			t.Error("Watch: dead")
		}
	})
}

// A process that was seen before stays known in execve.
func TestKnownInExec(t *testing.T) {
	r := newReader(t)
	var known Thread
	var lineage []lockmgr.Ancestor
	atExec(t, func(c *child) {
		known = mustThread(t, r, c.tid())
		lineage = r.Lineage(c.pid())
	}, func(c *child, file File, tid uint32) {
		r.age()
		quickly(t, "Thread", func() {
			if th, err := r.Thread(tid); th != known || err != nil {
				t.Errorf("Thread: %+v, %v, want %+v", th, err, known)
			}
		})
		quickly(t, "Lineage", func() {
			if l := r.Lineage(c.pid()); len(l) == 0 || len(l) != len(lineage) || l[0] != lineage[0] {
				t.Errorf("Lineage: %v, want %v", l, lineage)
			}
		})
		quickly(t, "Process", func() {
			if th, err := r.Process(c.pid()); th != known || err != nil {
				t.Errorf("Process: %+v, %v, want %+v", th, err, known)
			}
		})
		lookInExec(t, r, c, file, tid)
	})
}

// A process is asked for its lineage while its parent is in execve.
func TestParentInExec(t *testing.T) {
	r := newReader(t)
	var grandchild int32
	var lineage []lockmgr.Ancestor
	atExec(t, func(c *child) {
		grandchild = c.number("fork")
		lineage = r.Lineage(grandchild)
	}, func(c *child, file File, tid uint32) {
		r.age()
		quickly(t, "Lineage", func() {
			if l := r.Lineage(grandchild); len(l) == 0 || len(l) != len(lineage) || l[0] != lineage[0] {
				t.Errorf("Lineage: %v, want %v", l, lineage)
			}
		})
		quickly(t, "Descendants", func() {
			if d := r.Descendants(c.pid()); len(d) != 1 || d[0] != grandchild {
				t.Errorf("Descendants: %v, want %d", d, grandchild)
			}
		})
	})
}

// What may be asked of any process may be asked with a mutex held that the answer to the FLUSH
// waits for, also while the process enters execve.
func TestEntersExecWhileAsked(t *testing.T) {
	r := newReader(t)
	var mu sync.Mutex
	flushed := make(chan struct{}, 1)
	path := mountOneFile(t, func(uint32) {
		mu.Lock()
		defer mu.Unlock()
		flushed <- struct{}{}
	})
	for what, ask := range map[string]func(o lockmgr.Owner){
		"ExitOf":  func(o lockmgr.Owner) { r.ExitOf(o.PID) },
		"Process": func(o lockmgr.Owner) { r.age(); _, _ = r.Process(o.PID) },
		"Alive":   func(o lockmgr.Owner) { r.Alive(o) },
	} {
		for range 20 {
			c := startChild(t)
			o := ownerOf(t, r, c)
			c.do("open", unix.O_RDWR, path)
			c.tell("exec", "/bin/cat")
			quickly(t, what, func() {
				for len(flushed) == 0 {
					mu.Lock()
					ask(o)
					mu.Unlock()
				}
			})
			<-flushed
			c.do("done")
		}
	}
}

// What is asked about a process in execve and can be had when it comes out of
// it is waited for.
func TestOutOfExec(t *testing.T) {
	r := newReader(t)
	answer := make(chan struct{})
	flushed := make(chan uint32)
	path := mountOneFile(t, func(tid uint32) {
		flushed <- tid
		<-answer
	})
	c := startChild(t)
	c.do("open", unix.O_RDWR, path)
	c.tell("exec", "/bin/cat")
	tid := <-flushed
	th, err := r.Process(int32(tid))
	if err != ErrBusy {
		t.Errorf("while it is stuck: %+v, %v", th, err)
	}
	go close(answer)
	for err == ErrBusy { // the machine may be busy
		th, err = r.Process(int32(tid))
	}
	if err != nil || th.Owner.PID != c.pid() || th.Owner.Start == 0 {
		t.Errorf("when it goes on: %+v, %v", th, err)
	}
}

// A process that is not in execve is not taken for one that is.
func TestNotInExec(t *testing.T) {
	r := newReader(t)
	c := startChild(t)
	if r.inExec(c.pid()) || r.inExec(1) || r.inExec(2) {
		t.Error("a running process is taken for one in execve")
	}
	cmd := exec.Command("/bin/true")
	if err := cmd.Run(); err != nil {
		t.Fatal(err)
	}
	if r.inExec(int32(cmd.Process.Pid)) {
		t.Error("a process that has gone is taken for one in execve")
	}
	c.signal(unix.SIGKILL)
	c.await(unix.WEXITED)
	if r.inExec(c.pid()) {
		t.Error("a zombie is taken for one in execve")
	}
}
