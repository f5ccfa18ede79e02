package fs

import (
	"errors"
	"os"
	"path/filepath"
	"runtime"
	"strings"
	"testing"

	"golang.org/x/sys/unix"

	"latchfs/fs/ctl"
	"latchfs/fs/report"
	"latchfs/lockmgr"
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

// rob takes the locks on the file f away, as root does with `latchfs steal --force`. It returns
// how many it took, and whether a holder was at work.
func (r *requests) rob() (n int, atWork bool) {
	h := r.header(rootID)
	r.f.locks.steal(r.f.callers.openerOf(&h), func() {
		for _, h := range r.f.rules.table.Holders([]lockmgr.Key{"f"}, nil) {
			err := r.f.locks.revoke(&h)
			if err == nil {
				n++
			}
			atWork = atWork || errors.Is(err, ctl.ErrAtWork)
		}
	})
	return n, atWork
}

// content is what the file f holds.
func (r *requests) content() string {
	r.t.Helper()
	b, err := os.ReadFile(filepath.Join(r.data, "f"))
	if err != nil {
		r.t.Fatal(err)
	}
	return string(b)
}

// told is what .locks/why says to the process of the requests.
func (r *requests) told() []report.Refusal {
	h := r.header(rootID)
	o := r.f.callers.callerOf(&h).Owner()
	v := report.Viewer{UID: 0, PID: o.PID, Lineage: []report.Process{{PID: o.PID, Start: o.Start}}}
	return r.f.reports.refused.For(v, nil, func(string) bool { return true })
}

// Nobody gets between the checks of a commit and its end: who did would base a change on the
// version that is about to be replaced.
func TestNoTheftFromTheMiddleOfACommit(t *testing.T) {
	r, _ := unmounted(t, "")
	r.replace("old")
	id, fh, s := r.session(unix.O_WRONLY)
	r.write(id, fh, 0, "new")
	tried := false
	r.f.disk.store.SetFault(func(step string) error {
		if step != "exchange" && step != "rename" {
			return nil
		}
		tried = true
		if n, atWork := r.rob(); n != 0 || !atWork || !s.lock.Held() {
			t.Errorf("in the middle of a commit %d locks were taken away", n)
		}
		return nil
	})
	if e := r.closes(id, fh); e != 0 || !tried {
		t.Errorf("close: %v; the thief tried: %v", e, tried)
	}
	r.release(id, fh)
	if got := r.content(); got != "new" {
		t.Errorf("the file holds %q", got)
	}
	if n, atWork := r.rob(); n != 0 || atWork {
		t.Errorf("after the close %d locks were taken away, at work: %v", n, atWork)
	}
}

// Nor does anybody get between the checks of a rename and its end.
func TestNoTheftFromTheMiddleOfARename(t *testing.T) {
	r, _ := unmounted(t, "")
	r.replace("old")
	h := r.header(rootID)
	for _, waited := range []bool{false, true} {
		d := r.f.locks.fileDemand(r.f.callers.callerOf(&h), opRename, 0, r.name())
		if waited {
			d.label = d.newLabel()
		}
		l, e := r.f.locks.lock(d, nil)
		if e != 0 {
			t.Fatal(e)
		}
		if n, atWork := r.rob(); n != 0 || !atWork || !l.Held() {
			t.Errorf("waited %v: in the middle of a rename %d locks were taken away", waited, n)
		}
		r.f.rules.table.Release(l)
	}
}

// A program that looks at what fsync says, and not at its close, hears of the theft.
func TestSyncAfterATheft(t *testing.T) {
	r, _ := unmounted(t, "")
	r.replace("old")
	id, fh, _ := r.session(unix.O_WRONLY)
	r.write(id, fh, 0, "new")
	sync := func() unix.Errno {
		return r.f.contents.Fsync(nil, &FsyncRequest{Request: r.header(id), Handle: fh})
	}
	if e := sync(); e != 0 {
		t.Fatal(e)
	}
	if n, _ := r.rob(); n != 1 {
		t.Fatalf("%d locks were taken away", n)
	}
	if e := sync(); e != unix.ESTALE {
		t.Errorf("fsync: %v", e)
	}
	told := r.told()
	if len(told) != 1 || told[0].Errno != "ESTALE" || told[0].Operation != opFsync || !strings.Contains(told[0].Reason, "took the lock away") {
		t.Errorf("the writer is told %+v", told)
	}
	if e := r.closes(id, fh); e != unix.ESTALE {
		t.Errorf("close: %v", e)
	}
	r.release(id, fh)
	if got := r.content(); got != "old" {
		t.Errorf("the file holds %q", got)
	}
}

// A file that its program has not closed is renamed over another one, which changes outside the
// mount at that moment: the program is told what has happened, and the other file stays.
func TestRenameOfAnOpenFileOverAChangedOne(t *testing.T) {
	r, _ := unmounted(t, "")
	r.replace("old")
	id, fh := r.create("n")
	r.write(id, fh, 0, "mine")
	r.lookup("f")
	r.f.disk.store.SetFault(func(step string) error {
		if step == "tmpfile" {
			r.replace("theirs")
		}
		return nil
	})
	if e := r.f.entries.Rename(nil, &RenameRequest{Request: r.header(rootID), NewDir: rootID}, "n", "f"); e != unix.EBUSY {
		t.Errorf("rename: %v", e)
	}
	if told := r.told(); len(told) != 1 || told[0].Path != "f" || told[0].Errno != "EBUSY" || !strings.Contains(told[0].Reason, "outside the mount") {
		t.Errorf("the program is told %+v", told)
	}
	if got := r.content(); got != "theirs" {
		t.Errorf("the file holds %q", got)
	}
	r.f.disk.store.SetFault(nil)
	r.release(id, fh)
}

// waits is what .locks/status says of those who wait, once somebody does.
func (r *requests) waits() []report.Record {
	for {
		if all := r.f.view.source.Waiting(); len(all) > 0 {
			return all
		}
		runtime.Gosched()
	}
}

// An open that waits until others have closed the file is shown as long as it waits; and when
// its lock is stolen meanwhile it asks for that again, in place of waiting for nothing.
func TestTheftFromAnOpenThatWaitsForReaders(t *testing.T) {
	r, _ := unmounted(t, "")
	r.replace("old")
	id := r.lookup("f")
	reads, e := r.open(id, unix.O_RDONLY)
	if e != 0 {
		t.Fatal(e)
	}
	r.tid = 0 // it cannot be led to another node
	type opened struct {
		fh uint64
		e  unix.Errno
	}
	done := make(chan opened)
	go func() {
		fh, e := r.open(id, unix.O_RDWR)
		done <- opened{fh, e}
	}()
	if w := r.waits()[0]; w.Path != "f" || w.Operation != opOpen || w.Since.IsZero() || w.Deadline.IsZero() || len(w.WaitsFor) != 1 {
		t.Errorf("it is shown as %+v", w)
	}
	first := r.f.nodes.sessionAt(r.f.kernel.inodeOf(rootID), "f")
	if n, _ := r.rob(); n != 1 {
		t.Fatalf("%d locks were taken away", n)
	}
	for r.f.nodes.sessionAt(r.f.kernel.inodeOf(rootID), "f") == nil {
		runtime.Gosched() // until it has the lock again
	}
	if second := r.f.nodes.sessionAt(r.f.kernel.inodeOf(rootID), "f"); second == first {
		t.Error("it waits with the session that it has lost")
	}
	r.close(id, reads)
	got := <-done
	if got.e != 0 {
		t.Fatalf("open: %v", got.e)
	}
	if left := r.f.view.source.Waiting(); len(left) > 0 {
		t.Errorf("it has opened the file, and is shown as %+v", left)
	}
	r.write(id, got.fh, 0, "new")
	if e := r.closes(id, got.fh); e != 0 {
		t.Errorf("close: %v", e)
	}
	r.release(id, got.fh)
	if got := r.content(); got != "new" {
		t.Errorf("the file holds %q", got)
	}
}
