package proc

import (
	"strconv"
	"sync"
	"testing"
	"time"

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

func await(t *testing.T, what string, ok func() bool) {
	t.Helper()
	for end := time.Now().Add(30 * time.Second); !ok(); time.Sleep(time.Millisecond) {
		if time.Now().After(end) {
			t.Fatalf("did not come: %s", what)
		}
	}
}
