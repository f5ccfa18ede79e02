package proc

import (
	"os"
	"os/exec"
	"slices"
	"syscall"
	"testing"

	"golang.org/x/sys/unix"
)

func TestIDs(t *testing.T) {
	r := newReader(t)
	if got := r.IDs(int32(os.Getpid())); !slices.Equal(got, []int32{int32(os.Getpid())}) {
		t.Errorf("this process has the ids %v, want %d alone", got, os.Getpid())
	}
	c := startChild(t, func(cmd *exec.Cmd) {
		cmd.SysProcAttr = &syscall.SysProcAttr{Cloneflags: unix.CLONE_NEWPID}
		if os.Geteuid() != 0 {
			cmd.SysProcAttr = inUserNamespace(unix.CLONE_NEWPID)
		}
	})
	if got := r.IDs(c.pid()); !slices.Equal(got, []int32{c.pid(), 1}) {
		t.Errorf("the first process of a namespace has the ids %v, want %d and 1", got, c.pid())
	}
	if got := r.IDs(1<<30 + 1); len(got) > 0 {
		t.Errorf("nobody has the ids %v", got)
	}
}
