package records

import (
	"errors"
	"fmt"
	"os"
	"path/filepath"
	"slices"
	"strings"
	"sync"
	"testing"
	"testing/synctest"

	"golang.org/x/sys/unix"

	"latchfs/fs/account"
	"latchfs/fs/appends"
	"latchfs/lockmgr"
	"latchfs/lockmgr/proc"
)

const (
	user  = 1000
	token = 7 // of the lock of the name
)

var (
	errTaken = errors.New("somebody else has the lock")
	errDisk  = fmt.Errorf("the disk: %w", unix.ENOSPC)
	shell    = lockmgr.Owner{PID: 10, Start: 1}
	child    = lockmgr.Owner{PID: 11, Start: 2}
)

// A stage is the file "log" of a directory, to which appenders append, in virtual time. It is
// the Host of all of them, and notes what they tell it.
type stage struct {
	t    *testing.T
	room *Room
	dir  string
	fd   int // of the directory
	book *account.Book

	mu       sync.Mutex // guards what follows
	told     []string
	unnamed  bool   // the file never had a name
	name     string // which it has else
	replaced bool   // another file took its place
	closed   bool   // its opener may not open that
	reopens  error
	tails    error
	appends  error
	cuts     error
	syncs    error
	names    error // of SyncName
	rewrites error
	locked   bool
	asking   []uint32 // for the lock
	held     bool
	full     bool // closes are durable
	session  bool // somebody has one
	own      *strings.Builder
	ownErr   unix.Errno // of what is done to that
	judges   bool
	refuses  unix.Errno // lines
	refusesC unix.Errno // cuts
	suid     unix.Errno
	loses    unix.Errno
	quiet    bool   // nobody is to be told of changes
	forgets  bool   // there is no history
	during   func() // a rewrite, or a sync
	trying   func() // for the lock
	holding  func() // a line

	calls   map[uint32]proc.Call
	threads map[uint32]lockmgr.Owner // that live
	opens   map[int32]int            // descriptors to write; -1: the process is inside execve
}

// onStage runs a test with an appender that shell has opened on "log", which holds "old\n".
func onStage(t *testing.T, test func(s *stage, a *Appender)) {
	t.Helper()
	synctest.Test(t, func(t *testing.T) {
		s := &stage{t: t, room: new(Room), dir: t.TempDir(), name: "log",
			calls: map[uint32]proc.Call{}, threads: map[uint32]lockmgr.Owner{10: shell, 11: child, 12: child}, opens: map[int32]int{}}
		s.book = account.New(account.Limits{User: 64 << 20, Share: 64 << 20, Total: 64 << 20}, func(uint32) bool { return false })
		s.put("log", "old\n")
		var err error
		if s.fd, err = unix.Open(s.dir, unix.O_PATH|unix.O_DIRECTORY|unix.O_CLOEXEC, 0); err != nil {
			t.Fatal(err)
		}
		defer unix.Close(s.fd)
		a := s.appender(0)
		test(s, a)
		s.locked, s.session, s.own, s.replaced = false, false, nil, false
		if s.held {
			t.Error("the lock was not given back")
		}
		s.held = true // at the end of a mount nobody takes the lock
		s.room.Finish()
		for a := range s.room.open {
			a.Close()
			unix.Close(a.c.Host.Own())
		}
	})
}

// hosted is the stage as one appender knows it.
type hosted struct {
	*stage
	fd int
}

// appender opens the file that is called "log" now to append to it.
func (s *stage) appender(flags uint32) *Appender {
	s.t.Helper()
	fd, err := unix.Open(filepath.Join(s.dir, "log"), unix.O_PATH|unix.O_CLOEXEC, 0)
	if err != nil {
		s.t.Fatal(err)
	}
	return s.room.New(Config{Host: &hosted{s, fd}, Procs: s, Book: s.book, Own: s.id("log"),
		Flags: unix.O_APPEND | unix.O_WRONLY | flags, UID: user, Owner: shell})
}

// readWriter opens it to read as well.
func (s *stage) readWriter() *Appender {
	a := s.appender(0)
	a.c.Flags = a.c.Flags&^unix.O_ACCMODE | unix.O_RDWR
	return a
}

// put makes a file with a content, or makes it anew under its inode.
func (s *stage) put(name, content string) {
	s.t.Helper()
	if err := os.WriteFile(filepath.Join(s.dir, name), []byte(content), 0o644); err != nil {
		s.t.Fatal(err)
	}
}

// save puts another file in the place of log, as a careful save does.
func (s *stage) save(content string) {
	s.t.Helper()
	s.put("new", content)
	if err := os.Rename(filepath.Join(s.dir, "new"), filepath.Join(s.dir, "log")); err != nil {
		s.t.Fatal(err)
	}
	s.replaced = true
}

func (s *stage) id(name string) ID {
	s.t.Helper()
	var st unix.Stat_t
	if err := unix.Lstat(filepath.Join(s.dir, name), &st); err != nil {
		s.t.Fatal(err)
	}
	return idOf(&st)
}

// want compares the content of a file.
func (s *stage) want(name, content string) {
	s.t.Helper()
	if b, err := os.ReadFile(filepath.Join(s.dir, name)); err != nil || string(b) != content {
		s.t.Errorf("%s holds %.60q, %v, want %.60q", name, b, err, content)
	}
}

// wantTold compares what the host was told since the last time.
func (s *stage) wantTold(want ...string) {
	s.t.Helper()
	s.mu.Lock()
	defer s.mu.Unlock()
	if !slices.Equal(s.told, want) {
		s.t.Errorf("it was told\n%s\nwant\n%s", strings.Join(s.told, "\n"), strings.Join(want, "\n"))
	}
	s.told = nil
}

// wantAlso is wantTold of one thing among others.
func (s *stage) wantAlso(want string, times int) {
	s.t.Helper()
	s.mu.Lock()
	defer s.mu.Unlock()
	n := 0
	for _, told := range s.told {
		if told == want {
			n++
		}
	}
	if n != times {
		s.t.Errorf("it was told %q %d times, want %d:\n%s", want, n, times, strings.Join(s.told, "\n"))
	}
	s.told = nil
}

func (s *stage) forget() {
	s.mu.Lock()
	defer s.mu.Unlock()
	s.told = nil
}

func (s *stage) tell(format string, args ...any) {
	s.mu.Lock()
	defer s.mu.Unlock()
	s.told = append(s.told, fmt.Sprintf(format, args...))
}

// write writes through an appender as a thread, which must succeed.
func (s *stage) write(a *Appender, thread uint32, text string) {
	s.t.Helper()
	if n, e := s.tryWrite(a, thread, text); e != 0 || n != len(text) {
		s.t.Fatalf("write of %q: %d, errno %v", text, n, e)
	}
}

func (s *stage) tryWrite(a *Appender, thread uint32, text string) (int, unix.Errno) {
	return a.Write(appends.Writer{Thread: thread, UID: user, GID: 1}, [][]byte{[]byte(text)})
}
