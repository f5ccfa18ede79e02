package filing

import (
	"fmt"
	"maps"
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

// A stage has a clerk over a real directory, whose claim files are those of rules. What the
// clerk tells the room and the engine is written down.
type stage struct {
	t     *testing.T
	root  string
	rules map[string]*lockfile.Convention // by path
	clerk *Clerk
	room  *room
	did   []string
	held  int               // how often the paths are held
	refs  map[string]int    // references on places
	state map[string]string // files of the state directory
	boot  string
	flat  bool // directories are listed as if they were files
}

func onStage(t *testing.T, rules map[string]*lockfile.Convention) *stage {
	t.Helper()
	s := &stage{t: t, root: t.TempDir(), rules: rules, refs: map[string]int{}, state: map[string]string{}, boot: "this boot"}
	s.room = &room{s: s, claims: map[string]*filed.Filing{}, orphans: map[string]bool{}, stale: map[string]bool{}}
	s.clerk = New(Config{Policy: s, Room: s.room, Engine: s, Boot: s.boot, Now: func() lockmgr.Birth { return lockmgr.Birth{Tick: 99} }})
	return s
}

// rule is a convention whose claim files stand for the file beside them.
func rule(format lockfile.Format) *lockfile.Convention {
	c := lockfile.New(format)
	c.Covers = lockfile.CoversFile
	return &c
}

// write makes a file, and the directories above it.
func (s *stage) write(file, content string) {
	s.t.Helper()
	at := filepath.Join(s.root, file)
	if err := os.MkdirAll(filepath.Dir(at), 0o755); err != nil {
		s.t.Fatal(err)
	}
	if err := os.WriteFile(at, []byte(content), 0o644); err != nil {
		s.t.Fatal(err)
	}
}

// list is what there is below the root.
func (s *stage) list() []string {
	s.t.Helper()
	var all []string
	err := filepath.WalkDir(s.root, func(p string, _ os.DirEntry, err error) error {
		if rel, _ := filepath.Rel(s.root, p); rel != "." {
			all = append(all, rel)
		}
		return err
	})
	if err != nil {
		s.t.Fatal(err)
	}
	return all
}

// open is a descriptor of a directory, until the test ends.
func (s *stage) open(dir string) int {
	s.t.Helper()
	fd, err := unix.Open(filepath.Join(s.root, dir), unix.O_RDONLY|unix.O_DIRECTORY|unix.O_CLOEXEC, 0)
	if err != nil {
		s.t.Fatal(err)
	}
	s.t.Cleanup(func() { unix.Close(fd) })
	return fd
}

func (s *stage) note(format string, args ...any) { s.did = append(s.did, fmt.Sprintf(format, args...)) }

// want compares what was done since it was last asked.
func (s *stage) want(when string, want ...string) {
	s.t.Helper()
	if !slices.Equal(s.did, want) {
		s.t.Errorf("%s:\n got %q\nwant %q", when, s.did, want)
	}
	s.did = nil
}

// wantRefs compares who is referred to: each claim refers to its place once.
func (s *stage) wantRefs(want ...string) {
	s.t.Helper()
	var got []string
	for _, p := range slices.Sorted(maps.Keys(s.refs)) {
		if n := s.refs[p]; n != 0 {
			got = append(got, fmt.Sprintf("%s %d", p, n))
		}
	}
	if !slices.Equal(got, want) {
		s.t.Errorf("references:\n got %q\nwant %q", got, want)
	}
}

// HasClaimFiles implements Policy.
func (s *stage) HasClaimFiles() bool { return len(s.rules) > 0 }

// ClaimFile implements Policy.
func (s *stage) ClaimFile(path string) *lockfile.Convention { return s.rules[path] }

// HoldPaths implements Engine.
func (s *stage) HoldPaths() { s.held++ }

// ReleasePaths implements Engine.
func (s *stage) ReleasePaths() { s.held-- }

// Child implements Engine. A place is its path.
func (s *stage) Child(dir filed.Place, name string) filed.Place {
	if dir != nil {
		name = dir.(string) + "/" + name
	}
	return s.Again(name)
}

// Again implements Engine.
func (s *stage) Again(p filed.Place) filed.Place {
	s.refs[p.(string)]++
	return p
}

// Left implements Engine.
func (s *stage) Left(p filed.Place) { s.refs[p.(string)]-- }

// PathOf implements Engine.
func (s *stage) PathOf(p filed.Place) string { return p.(string) }

// List implements Engine.
func (s *stage) List(fd int) ([]Entry, error) {
	list, err := os.ReadDir(fmt.Sprintf("/proc/self/fd/%d", fd))
	var all []Entry
	for _, e := range list {
		all = append(all, Entry{e.Name(), e.IsDir() && !s.flat})
	}
	return all, err
}

// Reserved implements Engine.
func (s *stage) Reserved(name string) bool { return strings.HasPrefix(name, ".ours") }

// Owner implements Engine.
func (s *stage) Owner(uid, gid uint32) Claimant { return &claimant{uid: uid, gid: gid} }

// Ignored implements Engine.
func (s *stage) Ignored(by Claimant, file string, format lockfile.Format, why error) {
	s.note("%s (%s) of %v claims nothing: %v", file, format, by, why)
}

// Warn implements Engine.
func (s *stage) Warn(file, line string, why error) { s.note("%q %s: %v", file, line, why) }

// ReadState implements Engine.
func (s *stage) ReadState(name string) ([]byte, error) {
	if data, ok := s.state[name]; ok {
		return []byte(data), nil
	}
	return nil, unix.ENOENT
}

// WriteState implements Engine.
func (s *stage) WriteState(name string, data []byte) error {
	s.state[name] = string(data)
	return nil
}

// claimant is a process; the zero one stands for the owner of a file.
type claimant struct {
	pid      int32
	uid, gid uint32
	daemon   bool
	foreign  bool
}

func (c *claimant) TID() uint32                   { return uint32(c.pid) }
func (c *claimant) UID() uint32                   { return c.uid }
func (c *claimant) GID() uint32                   { return c.gid }
func (c *claimant) Owner() lockmgr.Owner          { return lockmgr.Owner{PID: c.pid} }
func (c *claimant) Foreign() bool                 { return c.foreign }
func (c *claimant) Ancestors() []lockmgr.Ancestor { return nil }
func (c *claimant) IsDaemon() bool                { return c.daemon }
func (c *claimant) String() string                { return fmt.Sprint(c.pid) }

// Family implements Claimant.
func (c *claimant) Family() proc.Family { return proc.Family{} }

// name is a name of the stage.
type name struct {
	s    *stage
	path string
}

func (s *stage) name(path string) name { return name{s, path} }

func (n name) Path() string { return n.path }
func (n name) Dir() int     { return n.s.open(filepath.Dir(n.path)) }
func (n name) Base() string { return filepath.Base(n.path) }

func (n name) Up() Name {
	if dir := filepath.Dir(n.path); dir != "." {
		return n.s.name(dir)
	}
	return nil
}

func (n name) Place() filed.Place {
	if n.s.refs[n.path] > 0 {
		return n.path
	}
	return nil
}

func (n name) Keep() filed.Place { return n.s.Again(n.path) }

// room has the claims of the stage, by their places.
type room struct {
	s              *stage
	claims         map[string]*filed.Filing
	orphans, stale map[string]bool
	deny           error // of the next filing
}

func at(p filed.Place) string {
	path, _ := p.(string)
	return path
}

func (r *room) Count() int              { return len(r.claims) }
func (r *room) IsAt(p filed.Place) bool { return r.claims[at(p)] != nil }
func (r *room) Has(p filed.Place) bool  { return r.claims[at(p)] != nil && !r.stale[at(p)] }

func (r *room) Disown(p filed.Place) {
	if r.orphans[at(p)] {
		r.s.note("%s is disowned", p)
	}
}

func (r *room) Gone(p filed.Place) {
	if r.claims[at(p)] != nil {
		r.s.note("%s is gone", p)
		delete(r.claims, at(p))
		r.s.Left(p)
	}
}

func (r *room) File(f *filed.Filing) error {
	if r.deny != nil {
		r.s.Left(f.At)
		return r.deny
	}
	if r.claims[at(f.At)] != nil {
		r.s.Left(f.At)
	}
	r.claims[at(f.At)] = f
	c := f.Content
	r.s.note("%s: %q %q %q on %v %v %v by %v, held %d", f.At, c.Data, c.Owner, c.Record, f.Target.Paths, f.Target.Trees, f.Target.Names, f.By, r.s.held)
	return nil
}

func (r *room) May(f *filed.Filing) error {
	if cl := r.claims[at(f.At)]; cl != nil && string(cl.Content.Data) != string(f.Content.Data) {
		return &filed.HeldError{Line: "Held by " + string(cl.Content.Data)}
	}
	return nil
}

func (r *room) MayRemove(p filed.Place) error {
	if !r.stale[at(p)] {
		return unix.EBUSY
	}
	return nil
}

func (r *room) Holders() map[filed.Place][]filed.Member {
	all := map[filed.Place][]filed.Member{}
	for p, f := range r.claims {
		all[p] = f.Chain
	}
	return all
}
