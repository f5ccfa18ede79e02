package transaction

import (
	"fmt"
	"slices"
	"testing"

	"latchfs/lockmgr"
)

// A stage is a filesystem whose every step is written down, and fails when the test says so.
// It looks whether a transaction takes the steps with what they need held.
type stage struct {
	*Txn
	t *testing.T

	steps  []string
	fails  map[string]error  // by step
	on     map[string]func() // what happens in a step
	files  []*file
	names  []*name
	stolen bool // the claim has lost its lock

	held      bool // paths are
	published bool // the store has decided
	recovered bool
	backs     int // how often the store was rolled back
	back      error
	locks     []*lockmgr.Lock // that were given back
	ended     []End
}

// file is a File on a stage.
type file struct {
	s               *stage
	path            string
	inPlace, clean  bool
	locked          bool
	prepared, saved bool
	ends            []string
}

// name is a Name on a stage.
type name struct {
	s              *stage
	path           string
	made, replaced bool
	prepared, told bool
	ends           []bool
}

func newStage(t *testing.T) *stage {
	s := &stage{t: t, fails: map[string]error{}, on: map[string]func(){}}
	s.Txn = New(Config{Engine: s, Store: (*store)(s), ID: 7, Label: "epoch-c7", UID: 1000, Owner: owner(1)})
	return s
}

// owner is a process that is 100 times its pid old.
func owner(pid int32) lockmgr.Owner { return lockmgr.Owner{PID: pid, Start: uint64(pid) * 100} }

// full is a stage with something of everything: a file that is written in place, one that is
// replaced, one that was opened and not written, a name that was removed, one whose place a
// file takes, and one that was made.
func full(t *testing.T) *stage {
	s := newStage(t)
	s.write(&file{path: "in place", inPlace: true})
	s.write(&file{path: "saved"})
	s.write(&file{path: "clean", clean: true})
	s.change(&name{path: "removed"})
	s.change(&name{path: "replaced", replaced: true})
	s.change(&name{path: "made", made: true})
	return s
}

func (s *stage) write(f *file) {
	f.s = s
	s.files = append(s.files, f)
}

func (s *stage) change(n *name) {
	n.s = s
	s.names = append(s.names, n)
}

// step takes a step.
func (s *stage) step(what string) error {
	s.t.Helper()
	if s.mu.TryLock() {
		s.mu.Unlock()
		s.t.Errorf("%s: the transaction is not locked", what)
	}
	s.steps = append(s.steps, what)
	if do := s.on[what]; do != nil {
		do()
	}
	return s.fails[what]
}

// inside is step where the paths are to be held, unless it is part of a rollback, and all
// files locked.
func (s *stage) inside(what string) error {
	s.t.Helper()
	for _, f := range s.files {
		if !f.locked {
			s.t.Errorf("%s: %q is not locked", what, f.path)
		}
	}
	if s.TakesFiles() {
		s.t.Errorf("%s: the transaction takes files", what)
	}
	return s.step(what)
}

// deciding is inside before the end is known.
func (s *stage) deciding(what string) error {
	s.t.Helper()
	if s.IsOver() {
		s.t.Errorf("%s: the transaction is over", what)
	}
	if !s.held {
		s.t.Errorf("%s: the paths are not held", what)
	}
	return s.inside(what)
}

// after is step when the files are free again.
func (s *stage) after(what string) {
	s.t.Helper()
	for _, f := range s.files {
		if f.locked {
			s.t.Errorf("%s: %q is locked", what, f.path)
		}
	}
	if !s.IsOver() {
		s.t.Errorf("%s: the transaction is not over", what)
	}
	_ = s.step(what)
}

func (s *stage) HasLock() bool {
	_ = s.deciding("has lock")
	return !s.stolen
}

func (s *stage) HoldPaths() {
	if s.held {
		s.t.Error("the paths are held twice")
	}
	for _, f := range s.files {
		if f.locked {
			s.t.Errorf("the paths are held after %q is locked", f.path)
		}
	}
	s.held = true
	_ = s.step("hold paths")
}

func (s *stage) ReleasePaths() {
	_ = s.step("release paths")
	s.held = false
}

func (s *stage) Files() []File {
	if !s.TakesFiles() {
		_ = s.step("last files")
	}
	files := make([]File, len(s.files))
	for i, f := range s.files {
		files[i] = f
	}
	return files
}

func (s *stage) Names() []Name {
	names := make([]Name, len(s.names))
	for i, n := range s.names {
		names[i] = n
	}
	return names
}

func (s *stage) MarkRenamed() (undo func()) {
	_ = s.deciding("mark renamed")
	return func() { _ = s.deciding("unmark renamed") }
}

func (s *stage) FollowRenamed() {
	if !s.held {
		s.t.Error("files follow, and the paths are not held")
	}
	s.after("follow renamed")
}

func (s *stage) Release(l *lockmgr.Lock) { s.locks = append(s.locks, l) }

func (s *stage) Ended(e End) {
	s.after("ended")
	s.ended = append(s.ended, e)
}

func (s *stage) NotTakenBack(err error) { s.back = err }

// store is the Store of a stage.
type store stage

func (st *store) Commit() error {
	s := (*stage)(st)
	err := s.deciding("store commits")
	s.published = err == nil
	return err
}

func (st *store) Recover() error {
	s := (*stage)(st)
	err := s.deciding("store recovers")
	s.recovered = err == nil
	return err
}

func (st *store) Rollback() error {
	s := (*stage)(st)
	s.backs++
	return s.inside("store rolls back")
}

func (f *file) Path() string { return f.path }

func (f *file) Judge() error {
	if f.locked || f.s.held {
		f.s.t.Errorf("%q is judged with something held", f.path)
	}
	if !f.s.TakesFiles() {
		f.s.t.Errorf("%q is judged when the transaction takes no more files", f.path)
	}
	return f.s.step("judge " + f.path)
}

func (f *file) Lock() {
	if f.locked {
		f.s.t.Errorf("%q is locked twice", f.path)
	}
	f.locked = true
	_ = f.s.step("lock " + f.path)
}

func (f *file) Unlock() {
	if !f.locked {
		f.s.t.Errorf("%q is unlocked twice", f.path)
	}
	f.locked = false
	_ = f.s.step("unlock " + f.path)
}

func (f *file) Check() error  { return f.s.deciding("check " + f.path) }
func (f *file) InPlace() bool { return f.inPlace }
func (f *file) Changed() bool { return !f.clean }

func (f *file) Prepare() error {
	err := f.s.deciding("prepare " + f.path)
	f.prepared = err == nil
	return err
}

func (f *file) MarkSaved() (undo func()) {
	_ = f.s.deciding("mark " + f.path)
	f.saved = true
	return func() {
		_ = f.s.deciding("unmark " + f.path)
		f.saved = false
	}
}

func (f *file) EndPublished(err error) {
	_ = f.s.inside("end " + f.path)
	if !f.s.IsOver() {
		f.s.t.Errorf("%q is ended before the transaction is over", f.path)
	}
	f.ends = append(f.ends, fmt.Sprint("published ", err))
}

func (f *file) Rollback(reason string) {
	_ = f.s.inside("roll back " + f.path)
	if !f.s.IsOver() {
		f.s.t.Errorf("%q is rolled back before the transaction is over", f.path)
	}
	f.ends = append(f.ends, reason)
}

func (n *name) Path() string     { return n.path }
func (n *name) IsGone() bool     { return !n.made }
func (n *name) IsReplaced() bool { return n.replaced }

func (n *name) Prepare() error {
	err := n.s.deciding("prepare " + n.path)
	n.prepared = err == nil
	return err
}

func (n *name) Tell() {
	_ = n.s.deciding("tell " + n.path)
	n.told = true
}

func (n *name) End(committed bool) {
	n.s.after("show " + n.path)
	n.ends = append(n.ends, committed)
}

// took reports whether a step was taken.
func (s *stage) took(what string) bool { return slices.Contains(s.steps, what) }

// want compares the steps with those that must have been taken, in their order.
func (s *stage) want(steps ...string) {
	s.t.Helper()
	if !slices.Equal(s.steps, steps) {
		s.t.Errorf("the steps were\n%q, want\n%q", s.steps, steps)
	}
}

// wantCommitted looks whether all is published and told, once.
func (s *stage) wantCommitted(err error) {
	s.t.Helper()
	for _, f := range s.files {
		if len(f.ends) != 1 || f.ends[0] != fmt.Sprint("published ", err) {
			s.t.Errorf("%q ended as %q", f.path, f.ends)
		}
		if f.prepared == f.clean || !f.saved {
			s.t.Errorf("%q: prepared %v, marked %v", f.path, f.prepared, f.saved)
		}
	}
	for _, n := range s.names {
		if n.prepared != (!n.made && !n.replaced) || !n.told || !slices.Equal(n.ends, []bool{true}) {
			s.t.Errorf("%q: prepared %v, told %v, ended %v", n.path, n.prepared, n.told, n.ends)
		}
	}
	if len(s.ended) != 1 || !s.ended[0].Committed || s.ended[0].Reason != "" {
		s.t.Errorf("it ended as %+v", s.ended)
	}
	if s.backs > 0 {
		s.t.Error("what is committed was rolled back")
	}
	s.wantOver()
}

// wantRolledBack looks whether nothing is published and nothing told but the reason.
func (s *stage) wantRolledBack(reason string) {
	s.t.Helper()
	for _, f := range s.files {
		if len(f.ends) != 1 || f.ends[0] != reason {
			s.t.Errorf("%q ended as %q, want %q", f.path, f.ends, reason)
		}
		if f.saved {
			s.t.Errorf("%q is still marked", f.path)
		}
	}
	for _, n := range s.names {
		if n.told || !slices.Equal(n.ends, []bool{false}) {
			s.t.Errorf("%q: told %v, ended %v", n.path, n.told, n.ends)
		}
	}
	if len(s.ended) != 1 || s.ended[0].Committed || s.ended[0].Reason != reason {
		s.t.Errorf("it ended as %+v, want %q", s.ended, reason)
	}
	if s.published || s.recovered || s.backs != 1 {
		s.t.Errorf("the store: published %v, recovered %v, rolled back %d times", s.published, s.recovered, s.backs)
	}
	if s.took("mark renamed") != s.took("unmark renamed") {
		s.t.Error("what was renamed is still marked")
	}
	if s.took("follow renamed") {
		s.t.Error("files follow names that they have not got")
	}
	s.wantOver()
}

// wantOver looks whether nothing is held any more.
func (s *stage) wantOver() {
	s.t.Helper()
	if !s.IsOver() || s.TakesFiles() || s.held {
		s.t.Errorf("over %v, takes files %v, the paths are held %v", s.IsOver(), s.TakesFiles(), s.held)
	}
	for _, f := range s.files {
		if f.locked {
			s.t.Errorf("%q is still locked", f.path)
		}
	}
	if !s.mu.TryLock() {
		s.t.Fatal("the transaction is still locked")
	}
	s.mu.Unlock()
}
