package proc

import (
	"os/exec"
	"testing"

	"golang.org/x/sys/unix"
)

// A process that only sleeps has written nothing, also while it is being killed; one that has
// answered on its standard output has written.
func TestHasWritten(t *testing.T) {
	r := newReader(t)
	sleep := exec.Command("sleep", "100")
	if err := sleep.Start(); err != nil {
		t.Fatal(err)
	}
	pid := int32(sleep.Process.Pid)
	if written, known := r.HasWritten(pid); written || !known {
		t.Errorf("of a sleep: %t, %t", written, known)
	}
	if err := sleep.Process.Kill(); err != nil {
		t.Fatal(err)
	}
	_ = sleep.Wait()
	if _, known := r.HasWritten(pid); known {
		t.Error("of one that is gone something is known")
	}
	c := startChild(t)
	c.do("limit", 10240) // it answers
	if written, known := r.HasWritten(c.pid()); !written || !known {
		t.Errorf("of one that has: %t, %t", written, known)
	}
	c.signal(unix.SIGKILL)
	c.await(unix.WEXITED)
	if written, known := r.HasWritten(c.pid()); !written || !known {
		t.Errorf("of one that was killed: %t, %t", written, known)
	}
	for _, pid := range []int32{0, -1} {
		if _, known := r.HasWritten(pid); known {
			t.Errorf("of process %d something is known", pid)
		}
	}
}
