package fs

import (
	"testing"
	"time"

	"github.com/hanwen/go-fuse/v2/fuse"
	"golang.org/x/sys/unix"
)

// An open that does not wait meets a writer who has closed the file and not written it:
// it gets the file, although RELEASE comes after that close has returned.
func TestTryAfterACloseWithoutAWrite(t *testing.T) {
	for _, wait := range []time.Duration{0, 10 * time.Millisecond} {
		r := newRequests(t)
		r.replace("one")
		id := r.lookup("f")
		fh, st := r.open(id, unix.O_RDWR)
		if !st.Ok() {
			t.Fatal(st)
		}
		other := &requests{t: t, f: r.f} // of another pid namespace, so that it is nobody's relative
		try := make(chan fuse.Status, 1)
		again := make(chan uint64, 1)
		if _, st := other.open(other.lookup("f"), unix.O_RDWR|unix.O_NONBLOCK); st != fuse.EAGAIN {
			t.Fatalf("before the close: %v, want EAGAIN", st)
		}
		r.flush(id, fh)
		go func() {
			fh, st := other.open(id, unix.O_RDWR|unix.O_NONBLOCK)
			try <- st
			again <- fh
		}()
		select {
		case st := <-try:
			t.Fatalf("between close and RELEASE: %v", st)
		case <-time.After(wait):
		}
		r.release(id, fh)
		if st := <-try; !st.Ok() {
			t.Fatalf("after the close: %v", st)
		}
		other.close(id, <-again)
	}
}
