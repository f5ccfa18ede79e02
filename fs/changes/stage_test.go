package changes

import (
	"encoding/json"
	"fmt"
	"os"
	"slices"
	"strings"
	"testing"

	"golang.org/x/sys/unix"

	"latchfs/fs/lostupdate"
	"latchfs/fs/versions"
	"latchfs/journal/audit"
	"latchfs/journal/commit"
	"latchfs/journal/history"
	"latchfs/lockmgr"
	"latchfs/lockmgr/knowledge"
	"latchfs/lockmgr/policy"
)

// A stage has all recorders, each of which writes down what it is told. The history alone is
// a real one.
type stage struct {
	*Teller
	t    *testing.T
	h    *history.Store
	rec  *versions.Recorder
	said []string // what was told, in this order
	held int      // how often the paths are held

	ignored bool                // nothing is known of the versions of any path
	live    bool                // no path has versions
	appends bool                // everything is open to append
	written *lostupdate.Written // what a merge leaves that no file ever was
}

func newStage(t *testing.T) *stage {
	t.Helper()
	dir := t.TempDir()
	state, err := os.Open(dir)
	check(t, err)
	t.Cleanup(func() { state.Close() })
	s := &stage{t: t}
	s.h, err = history.Open(state, history.Options{Logf: t.Logf})
	check(t, err)
	t.Cleanup(func() { _ = s.h.Close() })
	s.rec = versions.New(versions.Config{History: s.h, Engine: noFiles{}})
	s.Teller = New(Config{Engine: s, Known: s, Serial: func() uint64 { return 99 }})
	return s
}

func check(t *testing.T, err error) {
	t.Helper()
	if err != nil {
		t.Fatal(err)
	}
}

// noFiles is a filesystem in which nobody has anything open.
type noFiles struct{}

func (noFiles) HasWriters(commit.Inode) bool { return false }
func (noFiles) OnlyKept(commit.Inode)        {}
func (noFiles) Bypassed(string, int64)       {}

// say writes down what a recorder was told, with the paths held.
func (s *stage) say(format string, args ...any) {
	s.t.Helper()
	line := fmt.Sprintf(format, args...)
	if s.held != 1 {
		s.t.Errorf("%s: the paths are held %d times", line, s.held)
	}
	s.said = append(s.said, line)
}

// heard looks whether the recorders were told this, and forgets it.
func (s *stage) heard(want ...string) {
	s.t.Helper()
	if !slices.Equal(s.said, want) {
		s.t.Errorf("it was told\n  %s\nwant\n  %s", strings.Join(s.said, "\n  "), strings.Join(want, "\n  "))
	}
	s.said = nil
	if s.held != 0 {
		s.t.Errorf("the paths are held %d times", s.held)
	}
}

func (s *stage) HoldPaths()    { s.held++ }
func (s *stage) ReleasePaths() { s.held-- }

func (s *stage) IsAppended(*Change) bool { return s.appends }

func (s *stage) LeavesLive(ch *Change) { s.say("%s holds nothing", ch.Path) }

func (s *stage) FollowLive(list []*Change) {
	paths := make([]string, len(list))
	for i, ch := range list {
		paths[i] = ch.Path
	}
	s.say("live names follow %s", strings.Join(paths, ", "))
}

func (s *stage) EndClaims(ch *Change)      { s.say("claims of %s end", ch.Path) }
func (s *stage) FileClaim(ch *Change)      { s.say("%s may be a claim", ch.Path) }
func (s *stage) IsAtomic(path string) bool { return !s.live }

func (s *stage) KeepBase(path string, w *lostupdate.Written) {
	s.say("%s had %q as version %d", path, w.Content, w.Number)
}

// Event writes down an event as a line of JSON. Whether it has a time is looked at here.
func (s *stage) Event(ev audit.Event) {
	s.t.Helper()
	if ev.Time.IsZero() {
		s.t.Errorf("%s has no time", ev.Event)
	}
	line := ev.Event + " " + ev.Path
	for _, x := range []struct {
		is   bool
		what string
	}{{ev.Session != "", " in " + ev.Session}, {ev.Actor != "", " of " + ev.Actor}, {ev.PID != 0, fmt.Sprintf(" by %d", ev.PID)}, {ev.Token != 0, fmt.Sprintf(" with %d", ev.Token)}} {
		if x.is {
			line += x.what
		}
	}
	detail, err := json.Marshal(ev.Detail)
	check(s.t, err)
	s.said = append(s.said, line+" "+string(detail))
}

func (s *stage) Applies(set *policy.Settings) bool { return !s.ignored }

func (s *stage) CatchUp(path string, stamp knowledge.Stamp) { s.say("%s was %d", path, stamp.Ino) }
func (s *stage) Leaves(path string, stamp knowledge.Stamp)  { s.say("%d leaves %s", stamp.Ino, path) }
func (s *stage) Created(stamp knowledge.Stamp)              { s.say("%d is new", stamp.Ino) }

func (s *stage) Follow(path string, stamp knowledge.Stamp) {
	s.say("%s is followed from %d on", path, stamp.Ino)
}

func (s *stage) Made(m *lostupdate.Made, who knowledge.Who, by knowledge.Author) {
	line := fmt.Sprintf("%d learns of %s as %d by %s", who.Self.PID, m.Path, m.Is.Ino, author(&by))
	if m.InPlace {
		line += ", in place"
	}
	if m.Session {
		line += ", in a session"
	}

	if m.Adds {
		line += fmt.Sprintf(", added to %d bytes", m.Was.Size)
	}
	s.say("%s", line)
}

func (s *stage) MadeMerged(path string, stamp knowledge.Stamp, g *lostupdate.Merge, who knowledge.Who, by knowledge.Author,
	serial func() uint64,
) *lostupdate.Written {
	s.say("%d learns of %s as %d merged by %s, number %d", who.Self.PID, path, stamp.Ino, author(&by), serial())
	return s.written
}

func author(by *knowledge.Author) string {
	return fmt.Sprintf("%s of %s[%d] for %d as %s", by.Operation, by.Program, by.PID, by.UID, by.Actor)
}

// A maker makes changes.
type maker struct {
	session string
	nobody  bool // nobody learns what it makes
}

func (m maker) Process() Process {
	return Process{PID: 7, UID: 1000, Program: "vi", Actor: "ann"}
}
func (m maker) Session() string { return m.session }

func (m maker) Settings(path string) policy.Settings { return policy.Settings{Mode: policy.Atomic} }

func (m maker) Learners(*policy.Settings) knowledge.Who {
	if m.nobody {
		return knowledge.Who{}
	}
	return knowledge.Who{Self: lockmgr.Owner{PID: 8}}
}
func (m maker) Note(ev *audit.Event) { ev.Detail["noted"] = true }

// caller makes changes by operations, and writer by a session.
var caller, writer = maker{}, maker{session: "s1"}

// A name has a path that may change.
type name struct{ path *string }

func nameOf(path string) name { return name{&path} }

func (n name) Path() string           { return *n.path }
func (n name) Rights() history.Rights { return history.Rights{Mode: 0o640, UID: 3} }

// file is a regular file with an inode number and a size.
func file(ino uint64, size int64) *unix.Stat_t {
	return &unix.Stat_t{Mode: unix.S_IFREG | 0o644, Dev: 1, Ino: ino, Size: size, Nlink: 1}
}

// step prepares the history for a change of a path that holds the file st.
func (s *stage) step(path string, st *unix.Stat_t) *versions.Step {
	n := versions.Name{Path: path, Dir: -1, Base: path, Reach: func() history.Reach { return history.Reach{} }}
	return s.rec.Step(n, &policy.Settings{Mode: policy.Atomic, History: 5}, st)
}

// last is the last version of a path, as text.
func (s *stage) last(path string) string {
	list := s.h.Of(path)
	if len(list) == 0 {
		return "none"
	}
	v := list[len(list)-1]
	line := fmt.Sprintf("%d %s by %s of %s[%d] for %d as %s with %d", v.Number, v.Event, v.Operation, v.Program, v.PID, v.UID, v.Actor, v.Token)
	for _, x := range []struct{ what, value string }{{" in ", v.Session}, {" from ", v.From}, {" to ", v.To}} {
		if x.value != "" {
			line += x.what + x.value
		}
	}
	if v.State != (history.State{}) {
		line += fmt.Sprintf(": %d, %d bytes, mode %o of %d", v.State.Ino, v.State.Size, v.Rights.Mode, v.Rights.UID)
	}
	return line
}

// entered looks what the last version of a path is.
func (s *stage) entered(path, want string) {
	s.t.Helper()
	if got := s.last(path); got != want {
		s.t.Errorf("the last version of %s is\n  %s\nwant\n  %s", path, got, want)
	}
}
