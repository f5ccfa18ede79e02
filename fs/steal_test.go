package fs

import (
	"runtime"
	"strings"
	"testing"

	"golang.org/x/sys/unix"
)

// Whoever waited for a lock that is stolen has it before the thief has told of the theft, and
// is not taken for the thief.
func TestTheNextInTheQueueIsNoThief(t *testing.T) {
	r, _ := unmounted(t, "")
	r.replace("old")
	id, fh, s := r.session(unix.O_WRONLY)
	r.write(id, fh, 0, "new")
	h := r.header(rootID)
	settled := make(chan struct{})
	r.f.locks.steal(r.f.callers.openerOf(&h), func() {
		if err := r.f.rules.table.Revoke(s.lock); err != nil {
			t.Fatal(err)
		}
		runs := make(chan struct{})
		go func() {
			close(runs)
			r.f.locks.settleThefts(nil) // as the next in the queue does
			close(settled)
		}()
		<-runs
		for range 1000 {
			runtime.Gosched()
		}
	})
	<-settled
	if how := s.theft(); !strings.Contains(how, "took the lock away") {
		t.Errorf("the writer is told: %s", how)
	}
	if e := r.closes(id, fh); e == 0 {
		t.Error("a close of a session without a lock said that all is well")
	}
	r.release(id, fh)
}

// What the next in the queue has got before somebody steals is not told of as his doing.
func TestTheThiefIsNotTheNextInTheQueue(t *testing.T) {
	r, _ := unmounted(t, "")
	r.replace("old")
	id, fh, s := r.session(unix.O_WRONLY)
	h := r.header(rootID)
	if err := r.f.rules.table.Revoke(s.lock); err != nil {
		t.Fatal(err)
	}
	r.f.locks.steal(r.f.callers.openerOf(&h), func() {})
	if how := s.theft(); strings.Contains(how, "took the lock away") {
		t.Errorf("the writer is told: %s", how)
	}
	r.release(id, fh)
}
