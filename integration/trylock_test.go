package integration

import (
	"syscall"
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

// A file that is made by an open to read, as flock(1) opens it, is there at once: a second
// "flock -n" finds it locked, and does not wait for the end of the first.
func TestTrylockOfAFileJustMade(t *testing.T) {
	forEachMount(t, func(t *testing.T, m *Mount) {
		a, b := m.Client(t), m.Client(t)
		const flags = unix.O_RDONLY | unix.O_CREAT
		fa := a.Open("new", flags)
		if st, err := b.Stat("new"); err != nil || st.Size != 0 {
			t.Fatalf("another program finds %+v, %v", st, err)
		}
		a.OK(flockReq(fa, unix.LOCK_EX|unix.LOCK_NB))
		fb := b.Open("new", flags)
		if _, err := b.Do(flockReq(fb, unix.LOCK_EX|unix.LOCK_NB)); err != syscall.EAGAIN {
			t.Errorf("the second lock: %v, want EAGAIN", err)
		}
		if _, err := b.TryOpen("new", flags|unix.O_EXCL); err != syscall.EEXIST {
			t.Errorf("O_EXCL: %v, want EEXIST", err)
		}
		a.MustClose(fa)
		b.OK(flockReq(fb, unix.LOCK_EX|unix.LOCK_NB))
		b.MustClose(fb)
		if err := a.Save("new", "text"); err != nil {
			t.Error(err)
		}
		if got := m.ReadFile("new"); got != "text" {
			t.Errorf("it holds %q", got)
		}
	})
}
