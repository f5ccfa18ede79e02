package records

import (
	"fmt"
	"os"
	"path/filepath"
	"testing"

	"golang.org/x/sys/unix"

	"latchfs/fs/deaths"
	"latchfs/lockmgr"
)

// kill lets a process die, with a thread as its last.
func (s *stage) kill(a *Appender, o lockmgr.Owner, thread int32) {
	a.DropUnfinished(&deaths.Death{Owner: o, Program: "job", Signal: unix.SIGKILL}, thread)
}

// kept is what is told of a line that was taken back.
func kept(line string) string {
	return fmt.Sprintf("keep %q: EINTR: job[11] was killed by SIGKILL before it finished a line that it appended to dir/log, so what there was of the line (%d bytes) was kept out of the file",
		line, len(line))
}

// Of a line that was held back nothing comes to the file.
func TestDropWhatIsHeldBack(t *testing.T) {
	onStage(t, func(s *stage, a *Appender) {
		s.write(a, 11, "one\nhalf")
		s.forget()
		s.kill(a, child, 11)
		s.wantTold(kept("half"))
		a.Drain()
		s.want("log", "old\none\n")
		s.forget()
		s.kill(a, child, 11)
		s.wantTold()
	})
}

// Who has written last: the process that died, by any of its threads, or one that is dead
// already, if it may have been the one that opened the file.
func TestWhoseLine(t *testing.T) {
	for what, c := range map[string]struct {
		writer uint32
		dead   lockmgr.Owner
		thread int32
		want   bool
	}{
		"the process":                {11, child, 0, true},
		"its last thread":            {50, child, 50, true},
		"another thread of it":       {12, child, 50, true},
		"another process":            {10, child, 50, false},
		"somebody dead":              {60, child, 50, false},
		"somebody dead of the shell": {60, shell, 50, true},
	} {
		onStage(t, func(s *stage, a *Appender) {
			s.write(a, c.writer, "half")
			s.kill(a, c.dead, c.thread)
			a.Drain()
			if c.want {
				s.want("log", "old\n")
			} else {
				s.want("log", "old\nhalf")
			}
			if t.Failed() {
				t.Fatal(what)
			}
		})
	}
}

// What stands in the file is cut off where it is the end.
func TestCutOff(t *testing.T) {
	onStage(t, func(s *stage, a *Appender) {
		s.write(a, 11, "one\nhal")
		a.Drain()
		s.write(a, 11, "f")
		a.Drain()
		s.want("log", "old\none\nhalf")
		s.forget()
		s.kill(a, child, 11)
		s.want("log", "old\none\n")
		s.wantTold("show end of log, late", "log grows by 0", "cut: 8 to 8 bytes", kept("half"))
		if (*end)(a).HasOpen() {
			t.Error("it is still unfinished")
		}
	})
}

// Where it cannot be cut off it stays, and the log tells.
func TestCutOffFails(t *testing.T) {
	onStage(t, func(s *stage, a *Appender) {
		s.write(a, 11, "half")
		a.Drain()
		s.forget()
		s.cuts = errDisk
		s.kill(a, child, 11)
		s.want("log", "old\nhalf")
		s.wantTold(`error: "dir/log" ends in a line that its writer cannot finish, which cannot be cut off: ` + errDisk.Error())
		if !(*end)(a).HasOpen() {
			t.Error("it is forgotten")
		}
	})
}

// between lets the line of a process stand between those of others.
func between(t *testing.T, test func(s *stage, a, b *Appender)) {
	t.Helper()
	onStage(t, func(s *stage, a *Appender) {
		b := s.appender(0)
		s.write(a, 11, "half")
		a.Drain()
		s.write(b, 10, "two\n")
		s.want("log", "old\nhalftwo\n")
		s.forget()
		test(s, a, b)
	})
}

// A line that stands between those of others is taken out. The inode stays.
func TestTakeOut(t *testing.T) {
	between(t, func(s *stage, a, b *Appender) {
		was := s.id("log")
		s.kill(a, child, 11)
		s.want("log", "old\ntwo\n")
		s.wantTold("rewrite 12 bytes to 8", "show all of log", "log grows by 0", "cut: 8 to 8 bytes", kept("half"))
		if s.id("log") != was {
			t.Error("the file is another one")
		}
		s.write(b, 10, "three\n")
		s.want("log", "old\ntwo\nthree\n")
	})
}

// Two lines stand in one file. When one was taken out the other is found where it stands then.
func TestTakeOutBoth(t *testing.T) {
	onStage(t, func(s *stage, a *Appender) {
		b := s.appender(0)
		s.write(a, 11, "half")
		a.Drain()
		s.write(b, 10, "other")
		b.Drain()
		s.kill(a, child, 11)
		s.want("log", "old\nother")
		s.kill(b, shell, 10)
		s.want("log", "old\n")
	})
}

// What is not taken out, for it would be from another file, or from what somebody works on.
func TestTakeOutOfNothingElse(t *testing.T) {
	for what, c := range map[string]struct {
		do   func(s *stage)
		told []string
	}{
		"somebody has a session": {func(s *stage) { s.session = true }, nil},
		"no name":                {func(s *stage) { s.unnamed = true }, nil},
		"nothing has the name":   {func(s *stage) { s.name = "none" }, nil},
		"another has the name": {func(s *stage) {
			s.put("new", "SECRET")
			if err := unix.Renameat2(unix.AT_FDCWD, filepath.Join(s.dir, "new"), unix.AT_FDCWD, filepath.Join(s.dir, "log"), unix.RENAME_EXCHANGE); err != nil {
				s.t.Fatal(err)
			}
			s.name = "log"
		}, nil},
		"the disk": {func(s *stage) { s.rewrites = errDisk }, []string{`warning: "dir/log" keeps a line that its writer cannot finish: ` + errDisk.Error()}},
	} {
		between(t, func(s *stage, a, _ *Appender) {
			c.do(s)
			s.kill(a, child, 11)
			s.wantTold(c.told...)
			name := "log"
			if what == "another has the name" {
				s.want("log", "SECRET")
				name = "new"
			}
			s.want(name, "old\nhalftwo\n")
			if t.Failed() {
				t.Fatal(what)
			}
		})
	}
}

// Nor of a file that is large: the lock would be held for long.
func TestTakeOutOfNoLargeFile(t *testing.T) {
	for _, more := range []int64{0, 1} {
		between(t, func(s *stage, a, _ *Appender) {
			if err := os.Truncate(filepath.Join(s.dir, "log"), maxTakeOut+more); err != nil {
				t.Fatal(err)
			}
			s.kill(a, child, 11)
			s.mu.Lock()
			defer s.mu.Unlock()
			if taken := len(s.told) > 0; taken != (more == 0) {
				t.Errorf("of %d bytes: %v", maxTakeOut+more, taken)
			}
		})
	}
}

// What stands there now is not what was appended.
func TestCutOfSomethingElse(t *testing.T) {
	onStage(t, func(s *stage, a *Appender) {
		s.write(a, 11, "half")
		a.Drain()
		s.forget()
		s.put("log", "old\nHALF")
		s.kill(a, child, 11)
		s.want("log", "old\nHALF")
		s.wantTold()
	})
}

// A line belongs to the file in which it stands, not to the one that has the name now.
func TestCutOfTheSuccessor(t *testing.T) {
	onStage(t, func(s *stage, a *Appender) {
		s.write(a, 11, "half")
		a.Drain()
		s.save("old\nhalf")
		s.kill(a, child, 11)
		s.want("log", "old\nhalf")
	})
}

// A line whose place nobody knows any more stays.
func TestCutBehindTooManyGaps(t *testing.T) {
	onStage(t, func(s *stage, a *Appender) {
		s.write(a, 11, "half")
		a.Drain()
		for range 300 {
			b := s.appender(0)
			s.write(b, 10, "x")
			b.Drain()
			if s.room.gaps.Add(&b.open); !t.Failed() {
				s.put("log", "old\nhalf")
			}
		}
		s.kill(a, child, 11)
		s.want("log", "old\nhalf")
	})
}
