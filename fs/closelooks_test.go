package fs

import (
	"os"
	"testing"
	"time"

	"golang.org/x/sys/unix"

	"latchfs/fs/sessionstate"
)

// What a close asks of the processes.

// The standard output of a process that has been seen to hold the file no more is not asked
// for, and that of a process that may hold it once, though it is both who closes and owner.
func TestCloseAsksForTheOutputOnce(t *testing.T) {
	r, eyes := unmounted(t, "")
	r.replace("old")
	id, fh, _ := r.session(unix.O_RDWR)
	closes := func(when string, asks int32) {
		t.Helper()
		eyes.outputs.Store(0)
		if st := r.closes(id, fh); st != 0 {
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

// session opens the file f to write, by the first thread of the process. The test itself
// makes the looks that are put off.
func (r *requests) session(flags uint32) (id, fh uint64, s *session) {
	r.t.Helper()
	r.f.endings.lookDelay, r.tid = time.Hour, uint32(os.Getpid())
	id = r.lookup("f")
	fh, st := r.open(id, flags)
	if st != 0 {
		r.t.Fatalf("open: %v", st)
	}
	return id, fh, r.f.nodes.sessionAt(r.f.kernel.inodeOf(rootID), "f")
}

// A close that leaves nothing to commit looks at nobody: RELEASE follows. Whoever has to know
// before that whether the file is closed looks.
func TestCloseSparesTheLook(t *testing.T) {
	for _, late := range []bool{false, true} {
		r, eyes := unmounted(t, "")
		r.replace("old")
		id, fh, s := r.session(unix.O_WRONLY)
		if st := r.closes(id, fh); st != 0 {
			t.Errorf("close: %v", st)
		}
		if opens, outputs := eyes.opens.Load(), eyes.outputs.Load(); opens+outputs > 0 {
			t.Errorf("the close asked %d times what is open, and %d times for the output", opens, outputs)
		}
		if !s.isLeft() || eyes.opens.Load() != 1 {
			t.Errorf("left: %v, after %d looks", s.isLeft(), eyes.opens.Load())
		}
		if late {
			r.f.endings.lookLate(s)
			if _, pending := s.holders.PendingLook(); pending || !s.idle.Load() || !s.isLeft() {
				t.Error("the late look has not found that it is left")
			}
		}
		r.release(id, fh)
		if held, _ := r.f.rules.table.Len(); held != 0 {
			t.Errorf("after the release %d locks are held", held)
		}
		r.want("at the end", "old", nil)
	}
}

// A process that closes one of two descriptors has not left the file, whenever that is found
// out, and what it then writes is committed by the close of the other.
func TestSparedLookAtOneOfTwoDescriptors(t *testing.T) {
	for _, late := range []bool{false, true} {
		r, eyes := unmounted(t, "")
		r.replace("old")
		id, fh, s := r.session(unix.O_WRONLY)
		eyes.holding.Store(true)
		r.closes(id, fh)
		if s.isLeft() {
			t.Error("the session is left, and there is another descriptor")
		}
		if late {
			if r.f.endings.lookLate(s); s.isLeft() || eyes.outputs.Load() != 1 {
				t.Errorf("after the late look: left %v, %d questions for the output", s.isLeft(), eyes.outputs.Load())
			}
		}
		r.write(id, fh, 0, "new")
		r.f.endings.lookLate(s) // too late, or once more
		r.want("before the last close", "old", nil)
		eyes.holding.Store(false)
		r.closes(id, fh)
		r.want("after the last close", "new", map[string]int{"commit": 1})
		r.release(id, fh)
	}
}

// A process that is dying with another descriptor has nothing committed by the late look: its
// FLUSH tells how it has ended.
func TestLateLookCommitsNothing(t *testing.T) {
	r, eyes := unmounted(t, "")
	r.replace("old")
	id, fh, s := r.session(unix.O_WRONLY)
	eyes.holding.Store(true)
	r.closes(id, fh)
	r.write(id, fh, 0, "new")
	eyes.holding.Store(false)
	r.f.endings.lookLate(s)
	r.want("after the late look", "old", nil)
	if !s.state.Is(sessionstate.Writing) || s.idle.Load() {
		t.Errorf("the session is %v", &s.state)
	}
	r.closes(id, fh)
	r.want("after the close", "new", map[string]int{"commit": 1})
	r.release(id, fh)
}
