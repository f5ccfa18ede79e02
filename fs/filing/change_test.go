package filing

import (
	"errors"
	"os"
	"path/filepath"
	"slices"
	"testing"

	"golang.org/x/sys/unix"

	"latchfs/lockmgr/policy/lockfile"
)

// by says who has made a change.
func by(pid int32) func() Claimant { return func() Claimant { return &claimant{pid: pid} } }

// nobody must not be asked for.
func nobody(t *testing.T) func() Claimant {
	return func() Claimant {
		t.Helper()
		t.Error("who has changed it was asked for")
		return nil
	}
}

// A claim file's lock is on the file itself and on what that stands for.
func TestAsks(t *testing.T) {
	dir, named, tree := rule(lockfile.Beads), rule(lockfile.LockV1), rule(lockfile.OwnerDir)
	dir.Covers, named.Covers = lockfile.CoversDirectory, lockfile.CoversName
	s := onStage(t, map[string]*lockfile.Convention{
		"a.lock": rule(lockfile.Clawdbot), "d/x": dir, "d/job.lock": named, "a.claim": tree, "f": rule(lockfile.Flock), "x": rule(lockfile.Beads),
	})
	for path, want := range map[string]struct{ paths, trees, names []string }{
		"a.lock":     {paths: []string{"a", "a.lock"}},
		"d/x":        {paths: []string{"d/x"}, trees: []string{"d"}},
		"d/job.lock": {paths: []string{"d/job.lock"}, names: []string{"job"}},
		"a.claim":    {paths: []string{"a"}, trees: []string{"a.claim"}},
	} {
		on, is := s.clerk.Asks(s.name(path), true, false)
		if !is || on == nil {
			t.Errorf("%s: %v, %v", path, on, is)
			continue
		}
		if !slices.Equal(on.Paths, want.paths) || !slices.Equal(on.Trees, want.trees) || !slices.Equal(on.Names, want.names) {
			t.Errorf("%s: %v", path, on)
		}
		if on, is := s.clerk.Asks(s.name(path), false, false); on != nil || !is {
			t.Errorf("%s, whose content stays: %v, %v", path, on, is)
		}
	}
	for path, claims := range map[string]bool{"f": false, "a": false, "a.claim/owner": false, "x": true} { // x stands for nothing
		if on, is := s.clerk.Asks(s.name(path), true, true); on != nil || is != claims {
			t.Errorf("%s: %v, %v", path, on, is)
		}
	}
}

// Where something is claimed already, nobody asks for what it is on; a stale claim counts as
// none. Whoever takes an orphaned claim's file away has its lock given back.
func TestAsksWhereSomethingIsClaimed(t *testing.T) {
	s := onStage(t, map[string]*lockfile.Convention{"a.lock": rule(lockfile.Clawdbot), "c.lock": rule(lockfile.OwnerDir)})
	s.write("a.lock", "one")
	s.write("c.lock/owner", "two")
	s.clerk.Changed(s.name("a.lock"), true, by(7))
	s.clerk.Made(&claimant{pid: 7}, s.name("c.lock"))
	s.did = nil
	if on, is := s.clerk.Asks(s.name("a.lock"), true, false); on != nil || !is {
		t.Errorf("claimed: %v, %v", on, is)
	}
	s.room.stale["a.lock"] = true
	if on, _ := s.clerk.Asks(s.name("a.lock"), true, false); on == nil {
		t.Error("a stale claim keeps who takes it over from asking for the lock")
	}
	s.room.orphans["a.lock"], s.room.orphans["c.lock"] = true, true
	s.clerk.Asks(s.name("a.lock"), true, false)
	s.want("it is not taken away")
	s.clerk.Asks(s.name("a.lock"), false, true)
	s.clerk.Asks(s.name("c.lock/owner"), false, true)
	s.want("they are", "a.lock is disowned", "c.lock is disowned")
}

func TestChanged(t *testing.T) {
	s := onStage(t, map[string]*lockfile.Convention{"a.lock": rule(lockfile.Clawdbot)})
	s.write("a.lock", "one")
	s.write("a", "data")
	s.clerk.Changed(s.name("a"), true, nobody(t))
	s.want("a file that is no claim file")
	s.clerk.Changed(s.name("a.lock"), true, by(7))
	s.want("a claim", `a.lock: "one" "" "" on [a a.lock] [] [] by 7, held 0`)
	s.wantRefs("a.lock 1")
	s.write("a.lock", "two")
	s.clerk.Changed(s.name("a.lock"), true, func() Claimant { return &claimant{daemon: true} })
	s.clerk.Changed(s.name("a.lock"), true, func() Claimant { return nil })
	s.want("the daemon, and nobody")
	s.clerk.Changed(s.name("a.lock"), true, by(8))
	s.want("the next version", `a.lock: "two" "" "" on [a a.lock] [] [] by 8, held 0`)
	s.clerk.Changed(s.name("a.lock"), false, nobody(t))
	s.want("removed", "a.lock is gone")
	s.wantRefs()
}

// A claim is its writer's from now on, and nobody's if nothing is known of the writer.
func TestChangedByWhom(t *testing.T) {
	s := onStage(t, map[string]*lockfile.Convention{"a.lock": rule(lockfile.Clawdbot)})
	s.write("a.lock", "one")
	s.clerk.Changed(s.name("a.lock"), true, by(7))
	if chain := s.room.claims["a.lock"].Chain; len(chain) != 1 || chain[0].Owner.PID != 7 || chain[0].Since.Tick != 99 {
		t.Errorf("of a process: %+v", chain)
	}
	s.write("a.lock", "two")
	s.clerk.Changed(s.name("a.lock"), true, func() Claimant { return &claimant{pid: 8, foreign: true} })
	if chain := s.room.claims["a.lock"].Chain; len(chain) > 0 {
		t.Errorf("of a process that cannot be seen: %+v", chain)
	}
}

// A claim stands at a name that is a claim file's no more, because a directory above has
// got another name: the next change there ends it.
func TestChangedWithoutRule(t *testing.T) {
	s := onStage(t, map[string]*lockfile.Convention{"d/a.lock": rule(lockfile.Clawdbot), "other": rule(lockfile.Beads)})
	s.write("d/a.lock", "one")
	s.clerk.Changed(s.name("d/a.lock"), true, by(7))
	s.did = nil
	delete(s.rules, "d/a.lock")
	s.clerk.Changed(s.name("d/a.lock"), true, nobody(t))
	s.want("another version", "d/a.lock is gone")
}

// What claims nothing is told, unless it is only that the file is gone again.
func TestIgnored(t *testing.T) {
	s := onStage(t, map[string]*lockfile.Convention{"a.lock": rule(lockfile.Clawdbot), "x": rule(lockfile.Beads), "gone.lock": rule(lockfile.Beads), "d.lock": rule(lockfile.Beads)})
	s.write("a.lock", "one")
	s.write("x", "two")
	s.write("d.lock/f", "")
	s.room.deny = errors.New("not yours")
	s.clerk.Changed(s.name("a.lock"), true, by(7))
	s.want("refused", "a.lock (clawdbot) of 7 claims nothing: not yours")
	s.clerk.Changed(s.name("x"), true, by(7))
	s.want("stands for nothing", "x (beads) of 7 claims nothing: nothing is left of the name without its extension")
	s.clerk.Changed(s.name("d.lock"), true, by(7))
	s.want("a directory", "d.lock (beads) of 7 claims nothing: it is not a file")
	s.clerk.Changed(s.name("gone.lock"), true, by(7))
	s.want("gone")
	s.wantRefs()
}

// A directory that is a claim claims what the files in it say, when it is made and when one
// of them changes.
func TestOwnerDir(t *testing.T) {
	s := onStage(t, map[string]*lockfile.Convention{"a.claim": rule(lockfile.OwnerDir), "b.lock": rule(lockfile.Beads)})
	s.write("a.claim/note", "")
	s.write("b.lock/owner", "")
	s.clerk.Made(&claimant{pid: 7}, s.name("a.claim"))
	s.want("made", `a.claim: "" "" "" on [a] [a.claim] [] by 7, held 1`)
	if s.room.claims["a.claim"].Content.HasOwner || s.room.claims["a.claim"].Content.HasRecord {
		t.Error("it has files that are not there")
	}
	s.write("a.claim/owner", "me")
	s.clerk.Changed(s.name("a.claim/owner"), true, by(7))
	s.write("a.claim/record.json", "{}")
	s.clerk.Changed(s.name("a.claim/record.json"), true, by(8))
	s.want("written", `a.claim: "" "me" "" on [a] [a.claim] [] by 7, held 0`, `a.claim: "" "me" "{}" on [a] [a.claim] [] by 8, held 0`)
	if c := s.room.claims["a.claim"].Content; !c.HasOwner || !c.HasRecord {
		t.Errorf("%+v", c)
	}
	s.clerk.Changed(s.name("a.claim/note"), true, nobody(t))
	s.clerk.Changed(s.name("b.lock/owner"), true, nobody(t))
	s.clerk.Made(&claimant{pid: 7}, s.name("b.lock"))
	s.clerk.Made(&claimant{pid: 7}, s.name("b"))
	s.want("what says nothing")
	if err := os.RemoveAll(filepath.Join(s.root, "a.claim")); err != nil {
		t.Fatal(err)
	}
	s.clerk.Changed(s.name("a.claim/owner"), false, by(7))
	s.want("removed with its directory", "a.claim is gone")
	s.wantRefs()
	if s.held != 0 {
		t.Error("paths are held")
	}
}

// A claim goes with its directory where the new name claims, and ends where it does not.
func TestMoved(t *testing.T) {
	s := onStage(t, map[string]*lockfile.Convention{"a.claim": rule(lockfile.OwnerDir), "b.claim": rule(lockfile.OwnerDir)})
	s.write("a.claim/owner", "a")
	s.write("b.claim/owner", "b")
	s.write("c/owner", "c")
	p := &claimant{pid: 7}
	a, b, c := s.name("a.claim"), s.name("b.claim"), s.name("c")
	s.clerk.Moved(p, c, a, false)
	s.want("to a claim", `a.claim: "" "a" "" on [a] [a.claim] [] by 7, held 1`)
	s.clerk.Moved(p, b, a, true)
	s.want("exchanged", `a.claim: "" "a" "" on [a] [a.claim] [] by 7, held 1`, `b.claim: "" "b" "" on [b] [b.claim] [] by 7, held 1`)
	s.clerk.Moved(p, b, a, false)
	s.want("replaced", `a.claim: "" "a" "" on [a] [a.claim] [] by 7, held 1`) // the claim that was at b has moved with its place
	s.refs["c"], s.room.claims["c"] = 1, s.room.claims["a.claim"]
	s.clerk.Moved(p, a, c, false)
	s.want("to no claim", "c is gone")
	s.rules = nil
	s.clerk.Moved(p, a, b, true)
	s.want("without rules")
}

// content opens a new file with a text.
func (s *stage) content(text string) func() (int, error) {
	return func() (int, error) {
		s.write("content", text)
		return unix.Open(filepath.Join(s.root, "content"), unix.O_RDONLY|unix.O_CLOEXEC, 0)
	}
}

func TestMay(t *testing.T) {
	s := onStage(t, map[string]*lockfile.Convention{"a.lock": rule(lockfile.Clawdbot), "c": rule(lockfile.OwnerDir)})
	unread := func() (int, error) {
		t.Error("it was opened")
		return -1, unix.EACCES
	}
	p := &claimant{pid: 7}
	if err := s.clerk.May(p, s.name("a.lock"), unread); err != nil {
		t.Errorf("where nothing is claimed: %v", err)
	}
	s.write("a.lock", "one")
	s.clerk.Changed(s.name("a.lock"), true, by(7))
	for _, path := range []string{"a", "c"} {
		if err := s.clerk.May(p, s.name(path), unread); err != nil {
			t.Errorf("%s: %v", path, err)
		}
	}
	if err := s.clerk.May(p, s.name("a.lock"), s.content("one")); err != nil {
		t.Errorf("the same claim: %v", err)
	}
	if err := s.clerk.May(p, s.name("a.lock"), func() (int, error) { return -1, unix.EACCES }); err != nil {
		t.Errorf("what cannot be opened: %v", err)
	}
	if err := s.clerk.May(p, s.name("a.lock"), func() (int, error) { return s.dup("."), nil }); err != nil {
		t.Errorf("what is no file: %v", err)
	}
	if err := s.clerk.May(p, s.name("a.lock"), s.content("two")); err == nil || err.Error() != "a.lock: Held by one" {
		t.Errorf("another claim: %v", err)
	}
}

// dup is a descriptor of a directory that is the caller's to close.
func (s *stage) dup(dir string) int {
	fd, err := unix.FcntlInt(uintptr(s.open(dir)), unix.F_DUPFD_CLOEXEC, 0)
	if err != nil {
		s.t.Fatal(err)
	}
	return fd
}

// The daemon removes the files of stale claims, and nothing else.
func TestMayTidy(t *testing.T) {
	s := onStage(t, map[string]*lockfile.Convention{"a.lock": rule(lockfile.Clawdbot), "c.claim": rule(lockfile.OwnerDir)})
	s.write("a.lock", "one")
	s.clerk.Changed(s.name("a.lock"), true, by(7))
	daemon := &claimant{daemon: true}
	if s.clerk.MayTidy(daemon, s.name("a.lock")) || s.clerk.MayTidy(daemon, s.name("a")) {
		t.Error("the daemon may remove what is no stale claim's file")
	}
	if !s.clerk.MayTidy(&claimant{pid: 7}, s.name("a.lock")) {
		t.Error("others may not")
	}
	s.room.stale["a.lock"] = true
	if !s.clerk.MayTidy(daemon, s.name("a.lock")) {
		t.Error("the file of a stale claim stays")
	}
	s.write("c.claim/owner", "me")
	s.clerk.Made(&claimant{pid: 7}, s.name("c.claim"))
	if s.clerk.MayTidy(daemon, s.name("c.claim/owner")) {
		t.Error("the daemon may take a claim apart that holds")
	}
	s.room.stale["c.claim"] = true
	if !s.clerk.MayTidy(daemon, s.name("c.claim/owner")) {
		t.Error("a stale directory is not taken apart")
	}
	s.rules = nil
	if !s.clerk.MayTidy(daemon, s.name("a.lock")) {
		t.Error("it is asked where there are no claims")
	}
}
