package records

import (
	"os"
	"path/filepath"
	"testing"

	"golang.org/x/sys/unix"
)

// Which file has the name, and whether records go there.
func TestFollow(t *testing.T) {
	for what, c := range map[string]struct {
		do   func(s *stage)
		want string // in the file that has the name
		was  string // in the one that was opened
	}{
		"a successor":                     {func(s *stage) { s.save("new\n") }, "new\ntwo\n", "old\none\n"},
		"one that its opener may not use": {func(s *stage) { s.save("new\n"); s.closed = true }, "new\n", "old\none\ntwo\n"},
		"a file that merely came there":   {func(s *stage) { s.save("new\n"); s.replaced = false }, "new\n", "old\none\ntwo\n"},
		"nothing":                         {func(s *stage) { s.save("new\n"); s.name = "none" }, "new\n", "old\none\ntwo\n"},
		"a file without a name":           {func(s *stage) { s.save("new\n"); s.unnamed = true }, "new\n", "old\none\ntwo\n"},
	} {
		for _, before := range []bool{false, true} { // a record was appended before
			onStage(t, func(s *stage, a *Appender) {
				if err := os.Link(filepath.Join(s.dir, "log"), filepath.Join(s.dir, "was")); err != nil {
					t.Fatal(err)
				}
				was := c.was
				if before {
					s.write(a, 10, "one\n")
				} else {
					was = "old\n" + was[len("old\none\n"):]
				}
				c.do(s)
				s.write(a, 10, "two\n")
				s.want("log", c.want)
				s.want("was", was)
				follows := s.id("was")
				if c.want != "new\n" {
					follows = s.id("log")
				}
				if got := a.Follows(); got != follows {
					t.Errorf("%s: it follows %v, want %v", what, got, follows)
				}
				var st unix.Stat_t
				if !a.Stat(&st) || idOf(&st) != follows {
					t.Errorf("%s: records would be appended to %v", what, idOf(&st))
				}
			})
		}
	}
}

// A directory that took the file's place is none to append to.
func TestFollowNoDirectory(t *testing.T) {
	onStage(t, func(s *stage, a *Appender) {
		if err := os.Mkdir(filepath.Join(s.dir, "sub"), 0o755); err != nil {
			t.Fatal(err)
		}
		s.replaced, s.name = true, "sub"
		s.write(a, 10, "one\n")
		s.want("log", "old\none\n")
		if a.named {
			t.Error("it is said to have its name")
		}
	})
}

// The file is judged by the descriptor, whatever its name has led to a moment before.
func TestMayFollow(t *testing.T) {
	onStage(t, func(s *stage, a *Appender) {
		s.put("other", "")
		open := func(name string) int {
			fd, err := unix.Open(filepath.Join(s.dir, name), unix.O_PATH|unix.O_CLOEXEC, 0)
			if err != nil {
				t.Fatal(err)
			}
			return fd
		}
		own, other, dir := open("log"), open("other"), open(".")
		defer unix.Close(own)
		defer unix.Close(other)
		defer unix.Close(dir)
		var st unix.Stat_t
		for _, c := range []struct {
			what             string
			fd               int
			replaced, closed bool
			want             bool
		}{
			{"its own", own, false, false, true},
			{"its own, without a right", own, false, true, true},
			{"another", other, false, false, false},
			{"a successor", other, true, false, true},
			{"a successor that is closed", other, true, true, false},
			{"a directory", dir, true, false, false},
			{"nothing", -1, true, false, false},
		} {
			s.replaced, s.closed = c.replaced, c.closed
			if got := a.mayFollow(c.fd, &st); got != c.want {
				t.Errorf("%s: %v", c.what, got)
			}
			if c.fd == other && idOf(&st) != s.id("other") {
				t.Errorf("%s: it is said to be %v", c.what, idOf(&st))
			}
		}
	})
}

// A file that has got its name back is the appender's again.
func TestNameComesBack(t *testing.T) {
	onStage(t, func(s *stage, a *Appender) {
		s.write(a, 10, "one\n")
		s.name = "none"
		s.write(a, 10, "two\n")
		s.forget()
		s.name = "log"
		s.write(a, 10, "three\n")
		s.wantAlso("append: 12 to 18 bytes", 1)
	})
}

// When an appender goes on in another file it first syncs what it has appended to the last one,
// if closes are durable, and the write tells of an error.
func TestLeaveSyncs(t *testing.T) {
	onStage(t, func(s *stage, a *Appender) {
		s.write(a, 10, "one\n")
		s.full = true
		s.save("new\n")
		s.forget()
		s.write(a, 10, "two\n")
		s.mu.Lock()
		if len(s.told) < 2 || s.told[0] != "sync 1" || s.told[1] != "close tail" {
			t.Errorf("it was told %q", s.told)
		}
		s.mu.Unlock()
		s.save("newer\n")
		s.syncs = errDisk
		if _, e := s.tryWrite(a, 10, "three\n"); e != unix.ENOSPC {
			t.Errorf("errno %v", e)
		}
		s.want("log", "newer\n")
		s.write(a, 10, "three\n")
		s.want("log", "newer\nthree\n")
	})
}

// What was synced when the file was left is not synced again.
func TestLeaveSyncsOnce(t *testing.T) {
	onStage(t, func(s *stage, a *Appender) {
		s.write(a, 10, "one\n")
		s.full = true
		s.save("new\n")
		s.forget()
		var st unix.Stat_t
		if !a.Stat(&st) || a.Sync() != 0 {
			t.Error("the appender cannot go on in the successor")
		}
		s.wantTold("sync 1", "close tail")
	})
}

// An error of going on leaves the appender with the file that it has.
func TestFollowFails(t *testing.T) {
	onStage(t, func(s *stage, a *Appender) {
		s.write(a, 10, "one\n")
		first := a.Follows()
		s.save("new\n")
		for _, err := range []*error{&s.reopens, &s.tails} {
			*err = errDisk
			if _, e := s.tryWrite(a, 10, "two\n"); e != unix.ENOSPC {
				t.Errorf("errno %v", e)
			}
			if a.Follows() != first || a.id != first || a.fd < 0 {
				t.Error("it has left its file")
			}
			*err = nil
		}
		s.write(a, 10, "two\n")
		s.want("log", "new\ntwo\n")
	})
}

// Nothing was appended: it follows nothing, and leaves nothing.
func TestFollowsNothing(t *testing.T) {
	onStage(t, func(s *stage, a *Appender) {
		if a.Follows() != (ID{}) {
			t.Errorf("it follows %v", a.Follows())
		}
		a.Close()
		s.wantTold()
	})
}

// Whoever reads keeps the file that it has begun with, and finds there what it has written.
func TestReadFile(t *testing.T) {
	onStage(t, func(s *stage, a *Appender) {
		s.write(a, 10, "one\nhalf")
		fd, e := a.ReadFile()
		if e != 0 || fd == a.fd {
			t.Fatalf("descriptor %d, errno %v; the appender has %d", fd, e, a.fd)
		}
		s.save("new\n")
		s.write(a, 10, "two\n")
		b := make([]byte, 100)
		if n, err := unix.Pread(fd, b, 0); err != nil || string(b[:n]) != "old\none\nhalf" {
			t.Errorf("it has read %q, %v", b[:max(n, 0)], err)
		}
		unix.Close(fd)
		s.tails = errDisk
		s.save("newer\n")
		if fd, e := a.ReadFile(); fd >= 0 || e != unix.ENOSPC {
			t.Errorf("descriptor %d, errno %v", fd, e)
		}
		var st unix.Stat_t
		if a.Stat(&st) {
			t.Error("nobody can tell what the file is like, and it is told")
		}
	})
}

// The end of a file to which records go, and which is not the one that was opened.
func TestEndsAt(t *testing.T) {
	onStage(t, func(s *stage, a *Appender) {
		if a.EndsAt(4) {
			t.Error("it has no other file")
		}
		s.write(a, 10, "one\n")
		if a.EndsAt(8) {
			t.Error("its own file is not another one")
		}
		s.save("new\n")
		s.write(a, 10, "two\n")
		for place, want := range map[uint64]bool{0: false, 4: false, 8: true, 12: false} {
			if got := a.EndsAt(place); got != want {
				t.Errorf("at %d: %v", place, got)
			}
		}
	})
}

// The descriptors are given back.
func TestClose(t *testing.T) {
	onStage(t, func(s *stage, a *Appender) {
		s.write(a, 10, "one\n")
		fd := a.fd
		s.full = true
		s.forget()
		a.Close()
		s.wantTold("close tail")
		if _, err := unix.FcntlInt(uintptr(fd), unix.F_GETFD, 0); err != unix.EBADF {
			t.Errorf("the descriptor is open: %v", err)
		}
		a.Close()
		s.wantTold()
	})
}

// A file that was opened at once can be appended to, also if it may not be opened any more. What
// nobody may write is told at once; what cannot be opened for another reason the first write tells.
func TestOpenNow(t *testing.T) {
	for _, now := range []bool{false, true} {
		onStage(t, func(s *stage, a *Appender) {
			if now {
				if e := a.OpenNow(-1); e != 0 {
					t.Errorf("to open it at once: %v", e)
				}
				if a.Follows() != s.id("log") {
					t.Errorf("it follows %v", a.Follows())
				}
			}
			s.reopens = unix.EACCES
			want, content := unix.EACCES, "old\n"
			if now {
				want, content = 0, "old\none\n"
			}
			if _, e := s.tryWrite(a, 10, "one\n"); e != want {
				t.Errorf("opened at once: %v: errno %v", now, e)
			}
			s.want("log", content)
		})
	}
	onStage(t, func(s *stage, a *Appender) {
		for errno, told := range map[unix.Errno]unix.Errno{unix.EACCES: 0, unix.EMFILE: 0, unix.EROFS: unix.EROFS, unix.EPERM: unix.EPERM, unix.ETXTBSY: unix.ETXTBSY} {
			s.reopens = errno
			if e := a.OpenNow(-1); e != told {
				t.Errorf("to open it at once, which answers %v: %v, want %v", errno, e, told)
			}
		}
		s.reopens = nil
		s.write(a, 10, "one\n")
		s.want("log", "old\none\n")
	})
}

// A file that was just made is appended to through the descriptor by which it was made: its mode may
// not let anybody open it again.
func TestOpenMade(t *testing.T) {
	made := func(s *stage) int {
		fd, err := unix.Open(filepath.Join(s.dir, "log"), unix.O_RDWR|unix.O_CLOEXEC, 0)
		if err != nil {
			s.t.Fatal(err)
		}
		return fd
	}
	onStage(t, func(s *stage, a *Appender) {
		s.reopens = unix.EACCES
		if e := a.OpenNow(made(s)); e != 0 || a.Follows() != s.id("log") {
			t.Errorf("errno %v, it follows %v", e, a.Follows())
		}
		s.write(a, 10, "one\n")
		s.write(a, 10, "two\n")
		s.want("log", "old\none\ntwo\n")
		s.reopens = nil
		s.save("new\n")
		s.write(a, 10, "three\n")
		s.want("log", "new\nthree\n")
	})
	onStage(t, func(s *stage, a *Appender) { // the descriptor is given back
		fd := made(s)
		s.tails = unix.EMFILE
		if e := a.OpenNow(fd); e != 0 || a.Follows() != (ID{}) {
			t.Errorf("without a tail: errno %v, it follows %v", e, a.Follows())
		}
		if _, err := unix.FcntlInt(uintptr(fd), unix.F_GETFD, 0); err != unix.EBADF {
			t.Errorf("the descriptor is not closed: %v", err)
		}
		s.tails = nil
		s.write(a, 10, "one\n")
		s.want("log", "old\none\n")
	})
}

// Where the appender goes on is known before it has written anything.
func TestFollowing(t *testing.T) {
	onStage(t, func(s *stage, a *Appender) {
		old := s.id("log")
		if id, named, e := a.Following(); e != 0 || id != old || !named {
			t.Errorf("its own: %v, named %v, errno %v", id, named, e)
		}
		s.save("new\n")
		if id, named, e := a.Following(); e != 0 || id != s.id("log") || id == old || !named {
			t.Errorf("the successor: %v, named %v, errno %v", id, named, e)
		}
		s.name = "none"
		if id, named, e := a.Following(); e != 0 || named || id != old {
			t.Errorf("without a name: %v, named %v, errno %v", id, named, e)
		}
		s.name, s.reopens = "log", errDisk
		if _, _, e := a.Following(); e != unix.ENOSPC {
			t.Errorf("a full disk: errno %v", e)
		}
	})
}
