package proc

import (
	"testing"

	"golang.org/x/sys/unix"
)

// How a process ended is told while it waits to be waited for, and afterwards.
func TestEnd(t *testing.T) {
	r := newReader(t)
	for _, tt := range []struct {
		how    string
		end    func(c *child)
		status int
	}{
		{"killed", func(c *child) { c.signal(unix.SIGKILL) }, 9},
		{"exits", func(c *child) { c.tell("exit", 0) }, 0},
		{"fails", func(c *child) { c.tell("exit", 3) }, 3 << 8},
	} {
		t.Run(tt.how, func(t *testing.T) {
			c := startChild(t)
			owner := ownerOf(t, r, c)
			dead, end, stop, err := r.WatchEnd(owner)
			if err != nil {
				t.Fatal(err)
			}
			defer stop()
			pidfd, err := unix.PidfdOpen(int(c.pid()), 0)
			if err != nil {
				t.Fatal(err)
			}
			defer unix.Close(pidfd)
			tt.end(c)
			<-dead
			if e := end(); !e.Known || e.Status != tt.status || e.Failed() != (tt.status != 0) {
				t.Errorf("%+v, want status %#x", e, tt.status)
			}
			_ = c.cmd.Wait()
			c.done = true
			switch e := r.endOf(owner, uintptr(pidfd)); {
			case !e.Known:
				t.Log("this kernel does not tell of processes that were waited for")
			case e.Status != tt.status:
				t.Errorf("after it was waited for: %+v", e)
			}
		})
	}
}
