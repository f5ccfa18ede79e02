package filing

import (
	"os"
	"path/filepath"
	"slices"
	"strings"
	"testing"

	"golang.org/x/sys/unix"

	"latchfs/fs/filed"
	"latchfs/lockmgr"
	"latchfs/lockmgr/policy/lockfile"
	"latchfs/lockmgr/proc"
)

// What is claimed is claimed by the same processes after a restart, as long as the machine
// runs, and as its owner's.
func TestRestart(t *testing.T) {
	rules := map[string]*lockfile.Convention{"d/e/a.lock": rule(lockfile.Clawdbot), "d/c.claim": rule(lockfile.OwnerDir), "f": rule(lockfile.Flock), ".ours/a.lock": rule(lockfile.Beads)}
	s := onStage(t, rules)
	s.write("d/e/a.lock", "one")
	s.write("d/c.claim/owner", "two")
	s.write("d/c.claim/inner/a.lock", "")
	s.write("f", "")
	s.write(".ours/a.lock", "")
	s.clerk.Changed(s.name("d/e/a.lock"), true, by(7))
	s.clerk.Made(&claimant{pid: 8}, s.name("d/c.claim"))
	if err := s.clerk.Save(); err != nil {
		t.Fatal(err)
	}
	next := onStage(t, rules)
	next.root, next.state = s.root, s.state
	if err := next.clerk.Restore(next.open(".")); err != nil {
		t.Fatal(err)
	}
	next.want("restored", `d/c.claim: "" "two" "" on [d/c] [d/c.claim] [] by 0, held 0`, `d/e/a.lock: "one" "" "" on [d/e/a d/e/a.lock] [] [] by 0, held 0`)
	next.wantRefs("d/c.claim 1", "d/e/a.lock 1")
	for p, pid := range map[string]int32{"d/e/a.lock": 7, "d/c.claim": 8} {
		f := next.room.claims[p]
		if !f.Restored || len(f.Chain) != 1 || f.Chain[0].Owner.PID != pid || f.Made.IsZero() {
			t.Errorf("%s: %+v", p, f)
		}
		if f.By.UID() != uint32(os.Getuid()) || f.By.GID() != uint32(os.Getgid()) {
			t.Errorf("%s is %d:%d's", p, f.By.UID(), f.By.GID())
		}
	}
}

// Process ids of another boot mean nothing, and nor does a file that cannot be understood.
func TestRestartOfTheMachine(t *testing.T) {
	for _, state := range []string{`{"boot":"an earlier one","claims":{"a.lock":[{"Owner":{"PID":7}}]}}`, `{"boot":"this boot","claims":[`,
		`{"boot":"this boot","claims":{"a.lock":[{"Owner":{"PID":7}}],"b.lock":1}}`, ""} {
		s := onStage(t, map[string]*lockfile.Convention{"a.lock": rule(lockfile.Clawdbot)})
		s.write("a.lock", "one")
		s.state[stateFile] = state
		if state == "" {
			delete(s.state, stateFile)
		}
		if err := s.clerk.Restore(s.open(".")); err != nil {
			t.Fatal(err)
		}
		if f := s.room.claims["a.lock"]; f == nil || f.Chain != nil {
			t.Errorf("after %s: %+v", state, f)
		}
	}
}

// What was saved is read by a daemon of another version.
func TestSaved(t *testing.T) {
	s := onStage(t, map[string]*lockfile.Convention{"a.lock": rule(lockfile.Clawdbot)})
	s.write("a.lock", "one")
	s.clerk.Changed(s.name("a.lock"), true, by(7))
	if err := s.clerk.Save(); err != nil {
		t.Fatal(err)
	}
	if got := s.state["claims.json"]; !strings.HasPrefix(got, `{"boot":"this boot","claims":{"a.lock":[{"Owner":{"PID":7,`) {
		t.Error(got)
	}
}

// What claims nothing does not keep the mount from starting.
func TestRestoreOfWhatClaimsNothing(t *testing.T) {
	s := onStage(t, map[string]*lockfile.Convention{"x": rule(lockfile.Beads), "d.lock": rule(lockfile.Beads), "s.lock": rule(lockfile.Beads)})
	s.write("x", "")
	s.write("d.lock/f", "")
	if err := os.Symlink("x", filepath.Join(s.root, "s.lock")); err != nil {
		t.Fatal(err)
	}
	if err := os.Symlink(".", filepath.Join(s.root, "loop")); err != nil {
		t.Fatal(err)
	}
	if err := s.clerk.Restore(s.open(".")); err != nil {
		t.Fatal(err)
	}
	s.want("restored", "d.lock (beads) of <nil> claims nothing: it is not a file", "s.lock (beads) of <nil> claims nothing: too many levels of symbolic links",
		"x (beads) of <nil> claims nothing: nothing is left of the name without its extension")
	s.wantRefs()
}

func TestRestoreWithoutRules(t *testing.T) {
	s := onStage(t, nil)
	if err := s.clerk.Restore(-1); err != nil {
		t.Errorf("it looked: %v", err)
	}
	s.rules = map[string]*lockfile.Convention{"a.lock": rule(lockfile.Beads)}
	if err := s.clerk.Restore(-1); err == nil {
		t.Error("it did not look")
	}
}

// device is that of the stage's directory.
func (s *stage) device() uint64 {
	var st unix.Stat_t
	if err := unix.Stat(s.root, &st); err != nil {
		s.t.Fatal(err)
	}
	return uint64(st.Dev)
}

func TestRemove(t *testing.T) {
	s := onStage(t, nil)
	s.write("d/a.lock", "")
	s.write("d/c.claim/owner", "")
	s.write("d/c.claim/record.json", "")
	s.write("d/e/owner", "")
	s.write("d/e/deep/f", "")
	s.write("d/e/g", "")
	if err := s.clerk.Remove(s.root, s.device()+1, "d/a.lock"); err != nil || len(s.list()) != 10 {
		t.Errorf("through another mount: %v, %q", err, s.list())
	}
	for _, file := range []string{"d/a.lock", "d/c.claim", "d/none"} {
		if err := s.clerk.Remove(s.root, s.device(), file); err != nil {
			t.Errorf("%s: %v", file, err)
		}
	}
	if err := s.clerk.Remove(s.root, s.device(), "d/e"); err != unix.ENOTEMPTY {
		t.Errorf("a directory with another in it: %v", err)
	}
	if got, want := s.list(), []string{"d", "d/e", "d/e/deep", "d/e/deep/f", "d/e/g", "d/e/owner"}; !slices.Equal(got, want) {
		t.Errorf("%q, want %q", got, want)
	}
	s.write("d/h/owner", "")
	s.write("d/h/z/f", "")
	s.flat = true
	if err := s.clerk.Remove(s.root, s.device(), "d/h"); err == nil || !slices.Contains(s.list(), "d/h/owner") {
		t.Errorf("what cannot be removed loses its owner: %v, %q", err, s.list())
	}
	if err := s.clerk.Remove(s.root, s.device(), "../x"); err == nil {
		t.Error("it left the mount")
	}
	if err := s.clerk.Remove(filepath.Join(s.root, "none"), 0, "x"); err != unix.ENOENT {
		t.Errorf("without a mount: %v", err)
	}
}

// The beginning of a long claim file is enough to know that it is malformed.
func TestReadLong(t *testing.T) {
	s := onStage(t, nil)
	s.write("long", strings.Repeat("x", maxFile+100))
	c, made, err := read(s.open("."), "long", rule(lockfile.Beads))
	if err != nil || len(c.Data) != maxFile || made.IsZero() {
		t.Errorf("%d bytes, %v, %v", len(c.Data), made, err)
	}
	if err := unix.Mkfifo(filepath.Join(s.root, "pipe"), 0o600); err != nil {
		t.Fatal(err)
	}
	if _, _, err := read(s.open("."), "pipe", rule(lockfile.Beads)); err != errNoFile {
		t.Errorf("a pipe: %v", err)
	}
}

// A claim is its writer's, and that of those ancestors that belong together with it.
func TestChain(t *testing.T) {
	o := func(pid int32) lockmgr.Owner { return lockmgr.Owner{PID: pid, Start: uint64(pid)} }
	born := func(tick uint64) lockmgr.Birth { return lockmgr.Birth{Tick: tick} }
	up := []lockmgr.Ancestor{{Owner: o(2), Child: born(20)}, {Owner: o(3), Child: born(30)}, {Owner: o(4), Child: born(40)}, {Owner: o(5), Child: born(50)}}
	family := proc.Family{Relatives: []lockmgr.Owner{o(2)}, Above: []lockmgr.Owner{o(3)}, Shell: o(5)}
	want := []filed.Member{{Owner: o(1), Since: born(9)}, {Owner: o(2), Since: born(19)}, {Owner: o(3), Since: born(29)}, {Owner: o(5), Since: born(49)}}
	if got := chain(o(1), up, family, born(9)); !slices.Equal(got, want) {
		t.Errorf("%+v\nwant %+v", got, want)
	}
	if got := chain(o(1), up, proc.Family{}, born(9)); len(got) != 1 {
		t.Errorf("without a family: %+v", got)
	}
}
