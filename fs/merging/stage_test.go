package merging

import (
	"os"
	"path/filepath"
	"testing"
	"time"

	"golang.org/x/sys/unix"

	"latchfs/fs/bases"
	"latchfs/fs/lostupdate"
	"latchfs/lockmgr"
	"latchfs/lockmgr/knowledge"
	"latchfs/lockmgr/policy"
	"latchfs/lockmgr/proc"
)

// The contents of a file that two writers change, in different places and in the same one.
const (
	base   = "1\n2\n3\n4\n5\n"
	theirs = "one\n2\n3\n4\n5\n"
	mine   = "1\n2\n3\n4\nfive\n"
	both   = "one\n2\n3\n4\nfive\n"
	other  = "first\n2\n3\n4\n5\n"
)

// A stage is a directory with files, and with what processes know of them: each is a family
// of its own.
type stage struct {
	*lostupdate.Judge
	Bases
	t   *testing.T
	dir int
	at  string // the directory's path
	set policy.Settings
}

func newStage(t *testing.T) *stage {
	t.Helper()
	s := &stage{t: t, at: t.TempDir(), set: policy.Default().Defaults()}
	s.set.LostUpdate = policy.Merge
	s.Bases.Known = knowledge.New(time.Hour)
	s.Judge = lostupdate.New(lostupdate.Config{Known: s.Bases.Known, Procs: s, Engine: s})
	var err error
	if s.dir, err = unix.Open(s.at, unix.O_PATH|unix.O_DIRECTORY|unix.O_CLOEXEC, 0); err != nil {
		t.Fatal(err)
	}
	t.Cleanup(func() {
		s.Store.Close()
		unix.Close(s.dir)
	})
	return s
}

func (s *stage) Family(lockmgr.Owner) proc.Family                     { return proc.Family{} }
func (s *stage) Lineage(int32) []lockmgr.Ancestor                     { return nil }
func (s *stage) Alive(lockmgr.Owner) bool                             { return true }
func (s *stage) Program(int32) string                                 { return "prog" }
func (s *stage) KeepsHistory(*policy.Settings) bool                   { return false }
func (s *stage) SeesEverything(uint32) bool                           { return false }
func (s *stage) Obeyed(*lostupdate.Loss, string)                      {}
func (s *stage) Conflict(*lostupdate.Loss)                            {}
func (s *stage) Explain(*lostupdate.Loss)                             {}
func (s *stage) Number(string, knowledge.Stamp) (uint64, bool)        { return 0, false }
func (s *stage) OnlyLocked(string, *knowledge.Basis) *knowledge.Sight { return nil }
func owner(pid int32) lockmgr.Owner                                   { return lockmgr.Owner{PID: pid, Start: uint64(pid)} }
func (s *stage) who(pid int32) knowledge.Who                          { who, _ := s.LearnersOf(owner(pid)); return who }
func (s *stage) path(name string) string                              { return filepath.Join(s.at, name) }
func author(pid int32) knowledge.Author {
	return knowledge.Author{PID: pid, Operation: "open", Time: time.Now()}
}

// put puts a new file in the place of the one that has a name.
func (s *stage) put(name, content string) File {
	s.t.Helper()
	if err := os.WriteFile(s.path(name+".new"), []byte(content), 0o600); err != nil {
		s.t.Fatal(err)
	}
	if err := os.Rename(s.path(name+".new"), s.path(name)); err != nil {
		s.t.Fatal(err)
	}
	return s.look(name)
}

// look is the file that has a name.
func (s *stage) look(name string) File {
	s.t.Helper()
	f := File{Dir: s.dir, Name: name, Stat: new(unix.Stat_t)}
	if err := unix.Fstatat(s.dir, name, f.Stat, unix.AT_SYMLINK_NOFOLLOW); err != nil {
		s.t.Fatal(err)
	}
	return f
}

// read lets a process read what a name holds.
func (s *stage) read(pid int32, name string) {
	known := lostupdate.File{Path: name, Stamp: bases.StampOf(s.look(name).Stat)}
	s.Saw(&known, s.who(pid), func() { s.Bases.Known.Found(time.Now(), knowledge.Key(name), known.Stamp) })
}

// replace lets a process put a new version under a name, and keeps what was there.
func (s *stage) replace(pid int32, name, content string) File {
	s.t.Helper()
	was := s.look(name)
	keep := s.Hold(was, name, &s.set)
	now := s.put(name, content)
	keep(true)
	s.Made(&lostupdate.Made{Session: true, Path: name, Is: bases.StampOf(now.Stat), Was: bases.StampOf(was.Stat)}, s.who(pid), author(pid))
	return now
}

// loss is what a change by a process would lose.
func (s *stage) loss(pid int32, name string) *lostupdate.Loss {
	f := lostupdate.File{Path: name, Stamp: bases.StampOf(s.look(name).Stat)}
	ch := lostupdate.Change{File: f, Op: "open", Set: &s.set, Chain: lostupdate.Chain(s.who(pid), nil)}
	return s.Loss(ch, func() lostupdate.Maker { return lostupdate.Maker{Owner: owner(pid), Self: owner(pid), By: author(pid)} })
}

// overtaken is a change of f by a process that has read base, where theirs is now.
func (s *stage) overtaken() *lostupdate.Loss {
	s.t.Helper()
	s.put("f", base)
	s.read(10, "f")
	s.replace(20, "f", theirs)
	x := s.loss(10, "f")
	if x == nil {
		s.t.Fatal("nothing is lost")
	}
	return x
}

func (s *stage) target(f File) *Target {
	no := func() bool { return false }
	return &Target{File: f, Bases: &s.Bases, IsMounted: no, IsStaged: no}
}

// merge is what an overtaken change of f is merged by.
func (s *stage) merge() *lostupdate.Merge {
	s.t.Helper()
	x := s.overtaken()
	g := x.Merge(s.target(s.look("f")))
	if g == nil {
		s.t.Fatalf("nothing is merged: %s", x.Apart)
	}
	return g
}

// holds compares what a name holds.
func (s *stage) holds(name, want string) {
	s.t.Helper()
	if b, err := os.ReadFile(s.path(name)); err != nil || string(b) != want {
		s.t.Errorf("%s holds %q, %v; want %q", name, b, err, want)
	}
}

// descriptors are how many the process has.
func (s *stage) descriptors() int {
	s.t.Helper()
	list, err := os.ReadDir("/proc/self/fd")
	if err != nil {
		s.t.Fatal(err)
	}
	return len(list)
}

// open opens a file to read and write it.
func (s *stage) open(name string) int {
	s.t.Helper()
	fd, err := unix.Openat(s.dir, name, unix.O_RDWR|unix.O_CLOEXEC, 0)
	if err != nil {
		s.t.Fatal(err)
	}
	s.t.Cleanup(func() { unix.Close(fd) })
	return fd
}
