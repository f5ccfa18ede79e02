package versions

import (
	"fmt"
	"io"
	"os"
	"path/filepath"
	"slices"
	"strings"
	"testing"
	"time"

	"golang.org/x/sys/unix"

	"latchfs/fs/reach"
	"latchfs/journal"
	"latchfs/journal/commit"
	"latchfs/journal/history"
	"latchfs/lockmgr/policy"
)

// A stage is a directory with a history, on the disk, and no mount.
type stage struct {
	*Recorder
	t     *testing.T
	root  string
	dir   *os.File
	state *os.File
	store *commit.Store
	h     *history.Store
	o     history.Options
	set   policy.Settings

	writers  map[commit.Inode]int // how often somebody is found who has the inode open
	only     []commit.Inode
	bypassed []string
	asked    int // how often it was asked who can reach a name
}

func newStage(t *testing.T) *stage { return newStageWith(t, history.Options{}) }

func newStageWith(t *testing.T, o history.Options) *stage {
	t.Helper()
	s := &stage{t: t, root: t.TempDir(), writers: map[commit.Inode]int{}, set: policy.Settings{Mode: policy.Atomic, History: 10}}
	check(t, os.Mkdir(s.path(commit.StateDirName), 0o700))
	s.dir, s.state = open(t, s.root), open(t, s.path(commit.StateDirName))
	j, err := commit.OpenJournal(s.state, journal.Options{Logf: t.Logf})
	check(t, err)
	s.store = commit.NewStore(int(s.dir.Fd()), s.state, j)
	t.Cleanup(func() { _ = s.store.Close(); _ = j.Close() })
	s.o = o
	s.o.Logf = t.Logf
	s.open()
	t.Cleanup(func() { _ = s.Close() })
	return s
}

// open opens the history, as at a start.
func (s *stage) open() {
	s.t.Helper()
	var err error
	s.h, err = history.Open(s.state, s.o)
	check(s.t, err)
	s.Recorder = New(Config{
		History: s.h, Contents: s.store, Root: reach.Root{FD: int(s.dir.Fd())}, Engine: s, Since: time.Now().Add(-time.Hour), Grace: time.Millisecond,
	})
}

func check(t *testing.T, err error) {
	t.Helper()
	if err != nil {
		t.Fatal(err)
	}
}

func open(t *testing.T, path string) *os.File {
	t.Helper()
	f, err := os.Open(path)
	check(t, err)
	t.Cleanup(func() { f.Close() })
	return f
}

// HasWriters implements Engine.
func (s *stage) HasWriters(in commit.Inode) bool {
	if s.writers[in] == 0 {
		return false
	}
	s.writers[in]--
	return true
}

// OnlyKept implements Engine.
func (s *stage) OnlyKept(in commit.Inode) { s.only = append(s.only, in) }

// Bypassed implements Engine.
func (s *stage) Bypassed(path string, size int64) {
	s.bypassed = append(s.bypassed, fmt.Sprintf("%s %d", path, size))
}

func (s *stage) path(name string) string { return filepath.Join(s.root, name) }

// name is a name in the root, which user 7 can reach.
func (s *stage) name(name string) Name {
	return Name{Path: name, Dir: int(s.dir.Fd()), Base: name, Reach: func() history.Reach {
		s.asked++
		return history.Reach{Known: true, Gates: []history.Gate{{UID: 7, Mode: 0o700}}}
	}}
}

// write makes a file, without anybody being told.
func (s *stage) write(name, content string) *unix.Stat_t {
	s.t.Helper()
	check(s.t, os.WriteFile(s.path(name), []byte(content), 0o640))
	return s.stat(name)
}

func (s *stage) stat(name string) *unix.Stat_t {
	s.t.Helper()
	var st unix.Stat_t
	check(s.t, unix.Lstat(s.path(name), &st))
	return &st
}

// save replaces what a name holds, as a session does.
func (s *stage) save(name, content string) *Step {
	s.t.Helper()
	s.write("new", content)
	step := s.StepNow(s.name(name), &s.set)
	s.replace(name, step)
	return step
}

// replace moves the file "new" to a name.
func (s *stage) replace(name string, step *Step) {
	s.t.Helper()
	dir := int(s.dir.Fd())
	kept, err := s.store.RenameOver(commit.RenameOptions{FromDir: dir, From: "new", ToDir: dir, To: name, Keep: step.Keep()})
	check(s.t, err)
	step.Enter(name, s.made(name), kept)
}

// made is the version that a name holds now, by a program.
func (s *stage) made(name string) history.Version {
	st := s.stat(name)
	return history.Version{Event: history.Commit, Operation: "open", Program: "vi", PID: 5, UID: 7, State: history.StateOf(st), Rights: RightsOf(st, -1)}
}

// remove takes a name away.
func (s *stage) remove(name string, pid int32) {
	s.t.Helper()
	step := s.StepNow(s.name(name), &s.set)
	kept, err := s.store.Remove(nil, int(s.dir.Fd()), name, step.Keep())
	check(s.t, err)
	step.Enter(name, history.Version{Event: history.Delete, Operation: "unlink", PID: pid, UID: 7}, kept)
}

// versions are those of a path, oldest first: number, event, base, and what is kept.
func (s *stage) versions(path string) []string {
	s.t.Helper()
	var list []string
	for _, v := range s.h.Of(path) {
		line := fmt.Sprintf("%d %s of %d", v.Number, v.Event, v.Base)
		if v.Kept {
			line += ": " + s.read(path, v.Number)
		}
		list = append(list, line)
	}
	return list
}

func (s *stage) read(path string, number uint64) string {
	s.t.Helper()
	f, err := s.Open(path, number)
	check(s.t, err)
	defer f.Close()
	data, err := io.ReadAll(f)
	check(s.t, err)
	return string(data)
}

// want looks whether a path has these versions.
func (s *stage) want(path string, versions ...string) {
	s.t.Helper()
	if got := s.versions(path); !slices.Equal(got, versions) {
		s.t.Errorf("%s has the versions\n%s\nwant\n%s", path, strings.Join(got, "\n"), strings.Join(versions, "\n"))
	}
}

// last is the last version of a path.
func (s *stage) last(path string) history.Version {
	s.t.Helper()
	list := s.h.Of(path)
	if len(list) == 0 {
		s.t.Fatalf("%s has no version", path)
	}
	return list[len(list)-1]
}
