package records

import (
	"errors"
	"os"
	"path/filepath"
	"slices"
	"strings"
	"testing"
	"time"

	"golang.org/x/sys/unix"

	"latchfs/fs/appends"
)

// A record is told of, noted and shown, in this order; of the growth of the file the host hears
// once, and of the records in one word.
func TestAppend(t *testing.T) {
	onStage(t, func(s *stage, a *Appender) {
		s.write(a, 10, "one\n")
		s.want("log", "old\none\n")
		s.wantTold(`append "one\n" for 1000`, "append: 4 to 8 bytes", "appended", "log grows by 4", "show end of log, written")
		s.write(a, 10, "two\n")
		s.wantTold(`append "two\n" for 1000`, "append: 8 to 12 bytes", "appended", "show end of log, written")
		if e := a.Drain(); e != 0 {
			t.Errorf("drained with errno %v", e)
		}
		s.wantTold("log rests, open true", "2 records, 8 bytes")
		if e := a.Drain(); e != 0 {
			t.Errorf("drained with errno %v", e)
		}
		s.wantTold()
		s.write(a, 10, "three\n")
		s.wantAlso("log grows by 6", 1)
	})
}

// What waited for the lock, or for its newline, does not come by the WRITE that is under way.
func TestAppendLate(t *testing.T) {
	onStage(t, func(s *stage, a *Appender) {
		s.write(a, 10, "half")
		s.want("log", "old\n")
		s.wantTold()
		a.Drain()
		s.want("log", "old\nhalf")
		s.wantAlso("show end of log, late", 1)
	})
}

// Who waits for a lock that does not come gives up, and keeps the bytes aside.
func TestAppendWithoutTheLock(t *testing.T) {
	onStage(t, func(s *stage, a *Appender) {
		s.locked = true
		s.write(a, 10, "one\n")
		at := time.Now()
		if e := a.Drain(); e != unix.ETIMEDOUT || time.Since(at) != time.Second {
			t.Errorf("errno %v after %v", e, time.Since(at))
		}
		s.want("log", "old\n")
		s.wantTold(`keep "one\n": ETIMEDOUT: ` + errTaken.Error())
	})
}

// The lock may be that of whoever writes: of the last one, if a line comes in pieces.
func TestAppendUnderTheWritersLock(t *testing.T) {
	onStage(t, func(s *stage, a *Appender) {
		s.write(a, 11, "one\n")
		s.write(a, 10, "ha")
		s.write(a, 12, "lf")
		a.Show(appends.Late)
		if e := a.Truncate(&Cut{Size: 4, Writer: appends.Writer{Thread: 13}, By: s}); e != 0 {
			t.Errorf("errno %v", e)
		}
		s.locked = true
		s.write(a, 14, "two\n")
		a.Drain()
		if want := []uint32{11, 12, 13, 14, 14}; !slices.Equal(s.asking, want) {
			t.Errorf("the lock was asked for on behalf of %v, want %v", s.asking, want)
		}
	})
}

// What the appender's own family has open in a session is appended to that alone.
func TestAppendToOwnSession(t *testing.T) {
	onStage(t, func(s *stage, a *Appender) {
		s.own = new(strings.Builder)
		s.write(a, 10, "one\n")
		s.ownErr = unix.EDQUOT
		if _, e := s.tryWrite(a, 10, "two\n"); e != unix.EDQUOT {
			t.Errorf("errno %v", e)
		}
		if got := s.own.String(); got != "one\ntwo\n" {
			t.Errorf("the shadow has %q", got)
		}
		s.want("log", "old\n")
		s.wantTold()
	})
}

// Nothing is written that was not accepted, or whose bits could not be taken away, or where the
// disk is full; and nobody is told.
func TestAppendIsRefused(t *testing.T) {
	for what, c := range map[string]struct {
		set  func(s *stage)
		want unix.Errno
	}{
		"lines":           {func(s *stage) { s.refuses = unix.EBADMSG }, unix.EBADMSG},
		"bits":            {func(s *stage) { s.suid = unix.EROFS }, unix.EROFS},
		"a full disk":     {func(s *stage) { s.appends = errDisk }, unix.ENOSPC},
		"an unknown one":  {func(s *stage) { s.appends = errors.New("some error") }, unix.EIO},
		"no such file":    {func(s *stage) { s.reopens = unix.ENXIO }, unix.ENXIO},
		"no undo record":  {func(s *stage) { s.tails = errDisk }, unix.ENOSPC},
		"a wrapped errno": {func(s *stage) { s.appends = &os.PathError{Err: unix.EFBIG} }, unix.EFBIG},
	} {
		onStage(t, func(s *stage, a *Appender) {
			c.set(s)
			_, e := a.Write(appends.Writer{Thread: 10, UID: user, GID: 5, KillSuid: true}, [][]byte{[]byte("one\n")})
			if e != c.want {
				t.Errorf("%s: errno %v", what, e)
			}
			s.want("log", "old\n")
			s.wantAlso("appended", 0)
			if a.records != 0 || a.unsynced {
				t.Errorf("%s: %d records are counted", what, a.records)
			}
		})
	}
}

// A write by an ordinary user takes the setuid bits away, before its bytes are in the file.
func TestAppendTakesBits(t *testing.T) {
	onStage(t, func(s *stage, a *Appender) {
		a.Write(appends.Writer{Thread: 10, UID: user, GID: 5, KillSuid: true}, [][]byte{[]byte("one\n")})
		s.wantTold("kill suid of log for 1000, 5", `append "one\n" for 1000`, "append: 4 to 8 bytes", "appended", "log grows by 4",
			"show end of log, written")
		s.write(a, 10, "two\n")
		s.wantAlso("kill suid of log for 1000, 5", 0)
	})
}

// Where nobody asks for records, and of a file that has lost its name, nobody is told of them.
func TestAppendIsNotTold(t *testing.T) {
	onStage(t, func(s *stage, a *Appender) {
		s.quiet = true
		s.write(a, 10, "one\n")
		s.wantAlso("append: 4 to 8 bytes", 0)
		s.quiet = false
		s.name = "gone"
		s.write(a, 10, "two\n")
		s.wantAlso("append: 8 to 12 bytes", 0)
		s.want("log", "old\none\ntwo\n")
		s.unnamed = true
		s.write(a, 10, "three\n")
		s.wantAlso("append: 12 to 18 bytes", 0)
	})
}

// Without a history there is nothing that rests.
func TestGrowthWithoutHistory(t *testing.T) {
	onStage(t, func(s *stage, a *Appender) {
		s.forgets = true
		s.write(a, 10, "one\n")
		s.wantAlso("log grows by 4", 1)
		a.Drain()
		s.wantTold("1 records, 4 bytes")
	})
}

// The growth of a file rests when the appender goes on in another one.
func TestGrowthOfTwoFiles(t *testing.T) {
	onStage(t, func(s *stage, a *Appender) {
		s.write(a, 10, "one\n")
		s.save("new\n")
		s.forget()
		s.write(a, 10, "two\n")
		s.want("log", "new\ntwo\n")
		s.wantTold("close tail", `append "two\n" for 1000`, "append: 4 to 8 bytes", "appended",
			"old rests, open false", "log grows by 4", "show end of log, written")
		a.Drain()
		s.wantTold("log rests, open true", "2 records, 8 bytes")
	})
}

// What is left unfinished is known, unless nobody may lose it.
func TestWhatIsUnfinished(t *testing.T) {
	for text, want := range map[string]bool{"half": true, "whole\n": false, "one\nhalf": true, "no\x00text": false} {
		for _, flags := range []uint32{0, unix.O_SYNC, unix.O_DSYNC} {
			onStage(t, func(s *stage, _ *Appender) {
				a := s.appender(flags)
				s.write(a, 10, text)
				a.Drain()
				if got := (*end)(a).HasOpen(); got != (want && flags == 0) {
					t.Errorf("%q, flags %#x: %v", text, flags, got)
				}
				s.want("log", "old\n"+text)
				if flags, err := unix.FcntlInt(uintptr(a.fd), unix.F_GETFL, 0); err != nil || flags&unix.O_APPEND == 0 {
					t.Errorf("the file is open with %#x, %v", flags, err)
				}
			})
		}
	}
}

// The end of a line ends the record.
func TestFinishedLine(t *testing.T) {
	onStage(t, func(s *stage, a *Appender) {
		s.write(a, 10, "hal")
		a.Drain()
		s.write(a, 10, "f\n")
		if (*end)(a).HasOpen() {
			t.Error("the line is whole, and said to be unfinished")
		}
	})
}

// The queue asks the host what it cannot know.
func TestEnd(t *testing.T) {
	onStage(t, func(s *stage, a *Appender) {
		n := (*end)(a)
		if n.Errno(nil) != unix.ETIMEDOUT || n.Patience() != time.Second || n.JudgesLines() {
			t.Error("what the host says does not come to the queue")
		}
		s.judges = true
		if !n.JudgesLines() {
			t.Error("lines are judged, and the queue is told that they are not")
		}
		n.Keep([]byte("x"), unix.ENOSPC, "why")
		s.wantTold(`keep "x": ENOSPC: why`)
		if a.Owner() != shell {
			t.Errorf("the owner is %v", a.Owner())
		}
	})
}

// A simulation may stop a goroutine only where nobody has a mutex.
func TestIsFree(t *testing.T) {
	onStage(t, func(s *stage, a *Appender) {
		for range 2 { // who asks has none afterwards
			if !a.IsFree() {
				t.Error("nobody has a mutex, and it is not free")
			}
		}
		a.mu.Lock()
		if a.IsFree() {
			t.Error("the mutex is held, and it is free")
		}
		a.mu.Unlock()
		free := false
		s.trying = func() { free = free || a.IsFree() } // the queue holds its own
		s.write(a, 10, "one\n")
		if free {
			t.Error("the queue's mutex is held, and it is free")
		}
		s.trying, free = nil, true
		s.full, s.during = true, func() { free = a.queue.IsFree() && a.IsFree() }
		s.write(a, 10, "one\n")
		a.Drain()
		if !free {
			t.Error("a mutex is held while the disk is waited for")
		}
	})
}

// Somebody writes who is in a system call that writes, or runs.
func TestIsWorking(t *testing.T) {
	onStage(t, func(s *stage, a *Appender) {
		s.calls[20], s.calls[21], s.calls[22] = call(unix.SYS_WRITEV), call(unix.SYS_FUTEX), call(unix.SYS_SPLICE)
		for thread, want := range map[uint32]bool{0: false, 20: true, 21: false, 22: true, 11: true, 30: false} {
			if got := (*end)(a).IsWorking(thread); got != want {
				t.Errorf("thread %d: %v", thread, got)
			}
		}
	})
}

// A file that somebody has made a link of is no place to append to.
func TestAppendToNoLink(t *testing.T) {
	onStage(t, func(s *stage, a *Appender) {
		s.put("secret", "SECRET")
		if err := os.Rename(filepath.Join(s.dir, "log"), filepath.Join(s.dir, "was")); err != nil {
			t.Fatal(err)
		}
		if err := os.Symlink("secret", filepath.Join(s.dir, "log")); err != nil {
			t.Fatal(err)
		}
		s.replaced = true
		s.write(a, 10, "one\n")
		s.want("secret", "SECRET")
		s.want("was", "old\none\n")
	})
}
