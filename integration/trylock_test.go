package integration

import (
	"testing"

	"golang.org/x/sys/unix"
)

// Who does not wait for a lock gets it when the file has just been closed by somebody
// who had opened it for writing and written nothing.
func TestTryRightAfterAClose(t *testing.T) {
	inStress(t)
	forEachMount(t, func(t *testing.T, m *Mount) {
		m.WriteFile("f", "old")
		touches, tries := m.Client(t), m.Client(t)
		read := tries.Open("f", unix.O_RDONLY)
		for range repeat(100, 2000) {
			touches.MustClose(touches.Open("f", unix.O_RDWR))
			fd, err := tries.TryOpen("f", unix.O_RDWR|unix.O_NONBLOCK)
			if err != nil {
				t.Fatalf("an open with O_NONBLOCK: %v", err)
			}
			tries.MustClose(fd)
			touches.MustClose(touches.Open("f", unix.O_RDWR))
			if _, err := tries.Do(flockReq(read, unix.LOCK_EX|unix.LOCK_NB)); err != nil {
				t.Fatalf("flock without waiting: %v", err)
			}
			tries.OK(flockReq(read, unix.LOCK_UN))
		}
	})
}
