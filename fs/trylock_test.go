package fs

import (
	"testing"
	"time"

	"golang.org/x/sys/unix"

	"latchfs/fs/lockwait"
)

// An open that does not wait meets a writer who has closed the file and not written it:
// it gets the file, although RELEASE comes after that close has returned.
func TestTryAfterACloseWithoutAWrite(t *testing.T) {
	for _, wait := range []time.Duration{0, 10 * time.Millisecond} {
		began := time.Now()
		for !triesAfterAClose(t, wait) {
			if time.Since(began) > 30*time.Second {
				t.Fatal("RELEASE never came within the time that is waited for it")
			}
		}
	}
}

// triesAfterAClose is one round of it: false if this machine was so slow that RELEASE
// came later than it is waited for.
func triesAfterAClose(t *testing.T, wait time.Duration) bool {
	t.Helper()
	r := newRequests(t)
	r.replace("one")
	id := r.lookup("f")
	fh, st := r.open(id, unix.O_RDWR)
	if st != 0 {
		t.Fatal(st)
	}
	other := &requests{t: t, f: r.f} // of another pid namespace, so that it is nobody's relative
	try := make(chan unix.Errno, 1)
	again := make(chan uint64, 1)
	if _, st := other.open(other.lookup("f"), unix.O_RDWR|unix.O_NONBLOCK); st != unix.EAGAIN {
		t.Fatalf("before the close: %v, want EAGAIN", st)
	}
	r.flush(id, fh)
	began := time.Now()
	go func() {
		fh, st := other.open(id, unix.O_RDWR|unix.O_NONBLOCK)
		try <- st
		again <- fh
	}()
	select {
	case st = <-try:
		if time.Since(began) < lockwait.Grace {
			t.Fatalf("between close and RELEASE: %v", st)
		}
		r.release(id, fh)
		return false
	case <-time.After(wait):
	}
	r.release(id, fh)
	if st := <-try; st != 0 {
		if time.Since(began) < lockwait.Grace {
			t.Fatalf("after the close: %v", st)
		}
		return false
	}
	other.close(id, <-again)
	return true
}
