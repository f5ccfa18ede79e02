package proc

import (
	"testing"

	"golang.org/x/sys/unix"
)

// How a process ended is told while it waits to be waited for.
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
			tt.end(c)
			<-dead
			if e := end(); !e.Known || e.Status != tt.status || e.Failed() != (tt.status != 0) {
				t.Errorf("%+v, want status %#x", e, tt.status)
			}
		})
	}
}
