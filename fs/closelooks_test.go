package fs

import (
	"testing"

	"golang.org/x/sys/unix"
)

// What a close asks of the processes.

// The standard output of a process that has been seen to hold the file no more is not asked
// for, and that of a process that may hold it once, though it is both who closes and owner.
func TestCloseAsksForTheOutputOnce(t *testing.T) {
	r, eyes := unmounted(t, "")
	r.replace("old")
	id := r.lookup("f")
	fh, st := r.open(id, unix.O_WRONLY)
	if !st.Ok() {
		t.Fatalf("open: %v", st)
	}
	closes := func(when string, asks int32) {
		t.Helper()
		eyes.outputs.Store(0)
		if st := r.closes(id, fh); !st.Ok() {
			t.Errorf("%s: %v", when, st)
		}
		if n := eyes.outputs.Load(); n != asks {
			t.Errorf("%s: the output was asked for %d times, want %d", when, n, asks)
		}
	}
	eyes.files.Store(true)
	closes("the owner cannot be seen", 1)
	eyes.files.Store(false)
	closes("nobody has it open", 0)
	r.release(id, fh)
}
