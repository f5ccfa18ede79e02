package proc

import (
	"os/exec"
	"runtime"
	"syscall"
	"testing"

	"golang.org/x/sys/unix"
)

func TestFileLimit(t *testing.T) {
	r := newReader(t)
	c := startChild(t)
	if got, limited := r.FileLimit(c.pid()); limited {
		t.Errorf("a process without a limit: %d", got)
	}
	c.do("limit", 10240)
	if got, limited := r.FileLimit(c.pid()); got != 10240 || !limited {
		t.Errorf("%d, %t", got, limited)
	}
	c.signal(unix.SIGKILL)
	c.reap()
	if got, limited := r.FileLimit(c.pid()); limited {
		t.Errorf("a process that has gone: %d", got)
	}
	for _, pid := range []int32{0, -1} {
		if got, limited := r.FileLimit(pid); limited {
			t.Errorf("process %d: %d", pid, got)
		}
	}
}

// A daemon of root's answers for the processes of all users, and has no CAP_SYS_RESOURCE.
func TestFileLimitOfAnotherUser(t *testing.T) {
	if unix.Geteuid() != 0 {
		t.Skip("needs root")
	}
	r := newReader(t)
	c := startChild(t, func(cmd *exec.Cmd) {
		cmd.SysProcAttr = &syscall.SysProcAttr{Credential: &syscall.Credential{Uid: 65534, Gid: 65534}}
	})
	c.do("limit", 10240)
	done := make(chan struct{})
	go func() {
		defer close(done)
		runtime.LockOSThread() // and the thread, which has lost the capability, ends
		withoutResource(t)
		if err := unix.Prlimit(int(c.pid()), unix.RLIMIT_FSIZE, nil, &unix.Rlimit{}); err != unix.EPERM {
			t.Errorf("prlimit: %v: the test tests nothing", err)
		}
		if got, limited := r.FileLimit(c.pid()); got != 10240 || !limited {
			t.Errorf("%d, %t", got, limited)
		}
	}()
	<-done
}

// withoutResource takes CAP_SYS_RESOURCE from this thread.
func withoutResource(t *testing.T) {
	hdr := unix.CapUserHeader{Version: unix.LINUX_CAPABILITY_VERSION_3}
	var caps [2]unix.CapUserData
	err := unix.Capget(&hdr, &caps[0])
	caps[0].Effective &^= 1 << unix.CAP_SYS_RESOURCE
	if err == nil {
		err = unix.Capset(&hdr, &caps[0])
	}
	if err != nil {
		t.Error(err)
	}
}
