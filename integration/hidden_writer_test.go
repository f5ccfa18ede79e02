package integration

import (
	"fmt"
	"os"
	"os/exec"
	"sync"
	"testing"
	"time"
)

// A server serves a user by a thread that has taken the user's ids, and starts programs at the
// same time. An ordinary user's daemon may not look into such a process. Each program that it
// starts has a copy of the file that the thread writes at the moment, and closes that in execve(2).
func TestHiddenWriterBesideForks(t *testing.T) {
	forEachMount(t, func(t *testing.T, m *Mount) {
		stop := make(chan struct{})
		var forkers sync.WaitGroup
		for range 3 {
			forkers.Go(func() {
				for {
					select {
					case <-stop:
						return
					default:
					}
					if err := exec.Command("true").Run(); err != nil {
						t.Error(err)
						return
					}
				}
			})
		}
		done := make(chan struct{})
		onPrivateThread(m.UID, func() {
			defer close(done)
			for i := range 150 {
				path, want := m.Path(fmt.Sprint("f", i)), fmt.Sprint("content ", i)
				if err := os.WriteFile(path, []byte(want), 0o644); err != nil {
					t.Error(err)
				}
				if got, err := os.ReadFile(path); string(got) != want || err != nil {
					t.Errorf("f%d holds %q, want %q (%v)", i, got, want, err)
				}
			}
		})
		select {
		case <-done:
		case <-time.After(patience):
			t.Error("the writer hangs")
		}
		close(stop)
		forkers.Wait()
	})
}
