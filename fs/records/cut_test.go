package records

import (
	"fmt"
	"strings"
	"testing"
	"time"

	"golang.org/x/sys/unix"

	"latchfs/fs/appends"
)

// MayLose implements Cutter.
func (s *stage) MayLose(at time.Time, used ID, is *unix.Stat_t, size int64) unix.Errno {
	s.tell("may lose %d of %d bytes, used %s, %v ago", is.Size-size, is.Size, s.nameOf(used), time.Since(at))
	return s.loses
}

func (s *stage) cut(a *Appender, size int64, killSuid bool) unix.Errno {
	return a.Truncate(&Cut{Size: size, Writer: appends.Writer{KillSuid: killSuid, UID: user, GID: 5}, By: s})
}

// What is cut off is a version, and the growth before is another one's.
func TestTruncate(t *testing.T) {
	onStage(t, func(s *stage, a *Appender) {
		s.write(a, 10, "one\n")
		time.Sleep(time.Minute)
		s.forget()
		if e := s.cut(a, 2, false); e != 0 {
			t.Errorf("errno %v", e)
		}
		s.want("log", "ol")
		s.wantTold("may lose 6 of 8 bytes, used log, 1m0s ago", "log rests, open true", fmt.Sprintf("keep version under %d", token),
			"cut: 8 to 2 bytes", "log grows by 0")
		s.write(a, 10, "two\n")
		s.want("log", "oltwo\n")
	})
}

// A file that becomes no shorter loses nothing.
func TestTruncateMakesLonger(t *testing.T) {
	for _, size := range []int64{4, 6} {
		onStage(t, func(s *stage, a *Appender) {
			if e := s.cut(a, size, true); e != 0 {
				t.Errorf("errno %v", e)
			}
			s.want("log", "old\n"+strings.Repeat("\x00", int(size-4)))
			s.wantTold(fmt.Sprintf("may lose %d of 4 bytes, used log, 0s ago", 4-size), fmt.Sprintf("cut: 4 to %d bytes", size),
				"log grows by 0", "kill suid of log for 1000, 5")
		})
	}
}

// What was written before goes into the file first.
func TestTruncateAppendsFirst(t *testing.T) {
	onStage(t, func(s *stage, a *Appender) {
		s.write(a, 10, "half")
		s.cut(a, 6, false)
		s.want("log", "old\nha")
	})
}

// An error says that nothing was cut.
func TestTruncateIsRefused(t *testing.T) {
	for what, c := range map[string]struct {
		set  func(s *stage)
		want unix.Errno
	}{
		"somebody has the lock": {func(s *stage) { s.locked = true }, unix.EBUSY},
		"no file":               {func(s *stage) { s.tails = errDisk }, unix.ENOSPC},
		"a judge":               {func(s *stage) { s.refusesC = unix.EBADMSG }, unix.EBADMSG},
		"a lost update":         {func(s *stage) { s.loses = unix.EBUSY }, unix.EBUSY},
		"the disk":              {func(s *stage) { s.cuts = errDisk }, unix.ENOSPC},
	} {
		onStage(t, func(s *stage, a *Appender) {
			c.set(s)
			if e := s.cut(a, 0, true); e != c.want {
				t.Errorf("%s: errno %v", what, e)
			}
			s.want("log", "old\n")
			s.mu.Lock()
			told := strings.Join(s.told, "\n")
			s.mu.Unlock()
			if strings.Contains(told, "suid") || strings.Contains(told, "cut:") {
				t.Errorf("%s: it was told\n%s", what, told)
			}
			if dropped := strings.Contains(told, "keep version") && strings.Contains(told, "drop version"); dropped != (what == "the disk") {
				t.Errorf("%s: the copy was dropped: %v", what, dropped)
			}
			if s.held {
				t.Errorf("%s: the lock is held", what)
			}
		})
	}
}

// Where nobody is told there is no copy to drop either.
func TestTruncateFailsUntold(t *testing.T) {
	onStage(t, func(s *stage, a *Appender) {
		s.quiet, s.cuts = true, errDisk
		if e := s.cut(a, 0, false); e != unix.ENOSPC {
			t.Errorf("errno %v", e)
		}
		s.wantTold("may lose 4 of 4 bytes, used log, 0s ago", "log grows by 0")
	})
}

// What has no name any more nobody else can lose.
func TestTruncateWithoutAName(t *testing.T) {
	onStage(t, func(s *stage, a *Appender) {
		s.name, s.loses = "none", unix.EBUSY
		if e := s.cut(a, 1, false); e != 0 {
			t.Errorf("errno %v", e)
		}
		s.want("log", "o")
		s.wantTold("log grows by 0")
	})
}

// The shadow of a session of its own family is cut, and the file is not.
func TestTruncateOwnSession(t *testing.T) {
	onStage(t, func(s *stage, a *Appender) {
		s.own, s.ownErr = new(strings.Builder), unix.EDQUOT
		if e := s.cut(a, 1, false); e != unix.EDQUOT || s.own.String() != "cut to 1" {
			t.Errorf("errno %v, %s", e, s.own)
		}
		s.want("log", "old\n")
		s.wantTold()
	})
}

// The error of taking bits away is that of the cut.
func TestTruncateTakesBits(t *testing.T) {
	onStage(t, func(s *stage, a *Appender) {
		s.suid = unix.EROFS
		if e := s.cut(a, 1, true); e != unix.EROFS {
			t.Errorf("errno %v", e)
		}
	})
}

// The program has used the file to which its last record went, when it wrote that, or the file
// that it opened. What came late it has not used.
func TestWhatWasUsed(t *testing.T) {
	onStage(t, func(s *stage, a *Appender) {
		s.save("new\n")
		time.Sleep(time.Second)
		s.cut(a, 4, false)
		s.wantAlso("may lose 0 of 4 bytes, used old, 1s ago", 1)
		s.write(a, 10, "half")
		s.cut(a, 4, false)
		s.wantAlso("may lose 4 of 8 bytes, used old, 0s ago", 1)
		s.write(a, 10, "one\n")
		time.Sleep(time.Second)
		s.forget()
		s.cut(a, 4, false)
		s.wantAlso("may lose 4 of 8 bytes, used log, 1s ago", 1)
	})
}

// What comes after a cut that was refused was meant to replace what is there: it is refused for a
// moment as well, and kept aside. A lock, or a cut that is made, ends that.
func TestNothingAfterARefusedCut(t *testing.T) {
	for name, c := range map[string]struct {
		set  func(s *stage)
		then func(s *stage, a *Appender)
		e    unix.Errno
	}{
		"at once":     {func(s *stage) { s.loses = unix.EBUSY }, func(*stage, *Appender) {}, unix.EBUSY},
		"judged":      {func(s *stage) { s.refusesC = unix.EBADMSG }, func(*stage, *Appender) {}, unix.EBADMSG},
		"after a cut": {func(s *stage) { s.loses = unix.EBUSY }, func(s *stage, a *Appender) { s.loses = 0; s.cut(a, 4, false) }, 0},
		"locked":      {func(s *stage) { s.loses = unix.EBUSY }, func(_ *stage, a *Appender) { a.Locked() }, 0},
		"later":       {func(s *stage) { s.loses = unix.EBUSY }, func(*stage, *Appender) { time.Sleep(barredFor) }, 0},
		"no room":     {func(s *stage) { s.cuts = errDisk }, func(s *stage, _ *Appender) { s.cuts = nil }, 0},
	} {
		onStage(t, func(s *stage, a *Appender) {
			c.set(s)
			s.cut(a, 0, false)
			c.then(s, a)
			s.forget()
			n, e := s.tryWrite(a, 10, "new\n")
			if e != c.e || (e == 0) != (n == 4) {
				t.Errorf("%s: %d bytes, errno %v", name, n, e)
			}
			if e == 0 {
				s.want("log", "old\nnew\n")
				return
			}
			s.want("log", "old\n")
			s.wantTold(fmt.Sprintf("keep %q: %s: %s", "new\n", unix.ErrnoName(e), afterRefusedCut))
		})
	}
}
