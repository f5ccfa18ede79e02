package merging

import (
	"errors"
	"os"
	"slices"
	"testing"
	"time"

	"golang.org/x/sys/unix"

	"latchfs/fs/bases"
	"latchfs/journal/history"
	"latchfs/journal/merge"
	"latchfs/lockmgr/knowledge"
	"latchfs/lockmgr/policy"
)

// kept are versions of a path, with their content by number.
type kept struct {
	s     *stage
	list  []history.Version
	gone  bool
	asked []uint64
}

func (k *kept) OpenState(path string, is history.State) (*os.File, error) {
	for _, v := range slices.Backward(k.list) {
		if path != "f" || v.State != is {
			continue
		}
		k.asked = append(k.asked, v.Number)
		if k.gone {
			return nil, errors.New("gone")
		}
		return os.Open(k.s.path("kept"))
	}
	return nil, history.ErrNotKept
}

// state is the file as the history knows it.
func state(f File) history.State {
	st := bases.StampOf(f.Stat)
	return history.State{Ino: st.Ino, Size: st.Size, Mtime: st.Mtime}
}

// A version that is not kept as a base may be in the history.
func TestContentFromTheHistory(t *testing.T) {
	s := newStage(t)
	f := s.put("kept", "known")
	is, other := state(f), state(f)
	other.Mtime++
	large := is
	large.Size = merge.MaxSize + 1
	basis := func(of history.State) *knowledge.Basis {
		return &knowledge.Basis{Version: 7, Stamp: knowledge.Stamp{Ino: of.Ino, Size: of.Size, Mtime: of.Mtime}, At: time.Now()}
	}
	short := is
	short.Size--
	for name, c := range map[string]struct {
		path string
		list []history.Version
		of   *knowledge.Basis
		gone bool
		want bool
		ask  uint64 // the version that is opened; 0: none
	}{
		"kept":                  {"f", []history.Version{{Number: 3, State: is}}, basis(is), false, true, 3},
		"the newest of several": {"f", []history.Version{{Number: 2, State: is}, {Number: 3, State: is}, {Number: 4, State: other}}, basis(is), false, true, 3},
		"another version":       {"f", []history.Version{{Number: 3, State: other}}, basis(is), false, false, 0},
		"another path":          {"g", []history.Version{{Number: 3, State: is}}, basis(is), false, false, 0},
		"gone meanwhile":        {"f", []history.Version{{Number: 2, State: is}, {Number: 3, State: is}}, basis(is), true, false, 3},
		"too large":             {"f", []history.Version{{Number: 3, State: large}}, basis(large), false, false, 0},
		"not whole":             {"f", []history.Version{{Number: 3, State: short}}, basis(short), false, false, 3},
		"no version":            {"f", []history.Version{{Number: 3, State: is}}, &knowledge.Basis{Stamp: basis(is).Stamp}, false, false, 0},
		"without a stamp":       {"f", []history.Version{{Number: 3}}, &knowledge.Basis{Version: 7}, false, false, 0},
	} {
		k := &kept{s: s, list: c.list, gone: c.gone}
		s.Versions = k
		b, ok := s.Content(c.path, c.of)
		if ok != c.want || ok && string(b) != "known" {
			t.Errorf("%s: %q, %v", name, b, ok)
		}
		if len(k.asked) > 1 || c.ask != 0 && (len(k.asked) == 0 || k.asked[0] != c.ask) || c.ask == 0 && len(k.asked) > 0 {
			t.Errorf("%s: opened %v, want %d", name, k.asked, c.ask)
		}
	}
	s.Versions = nil
	if _, ok := s.Content("f", basis(is)); ok {
		t.Error("there is content without a history")
	}
}

// grow makes a file as long as size, of which somebody has read that.
func (s *stage) grow(name string, size int64) File {
	s.t.Helper()
	if err := os.Truncate(s.path(name), size); err != nil {
		s.t.Fatal(err)
	}
	s.read(10, name)
	return s.look(name)
}

// What somebody has read is kept when it is replaced.
func TestHold(t *testing.T) {
	for name, c := range map[string]struct {
		of   func(s *stage, f *File)
		want bool
	}{
		"read":                {func(*stage, *File) {}, true},
		"not to be merged":    {func(s *stage, _ *File) { s.set.LostUpdate = policy.RefuseLost }, false},
		"live":                {func(s *stage, _ *File) { s.set.Mode = policy.Live }, false},
		"of no file":          {func(_ *stage, f *File) { f.Stat = nil }, false},
		"of a directory":      {func(_ *stage, f *File) { f.Stat.Mode = unix.S_IFDIR }, false},
		"of a large file":     {func(s *stage, f *File) { *f = s.grow("f", merge.MaxSize+1) }, false},
		"nothing is known":    {func(s *stage, _ *File) { s.Bases.Known = nil }, false},
		"changed, not known":  {func(_ *stage, f *File) { f.Stat.Mtim.Nsec++ }, false},
		"the name is gone":    {func(s *stage, _ *File) { _ = os.Remove(s.path("f")) }, false},
		"the name is swapped": {func(s *stage, _ *File) { s.put("f", "SECRE") }, false},
	} {
		s := newStage(t)
		f := s.put("f", "known")
		s.read(10, "f")
		known := s.Bases.Known
		c.of(s, &f)
		number, stamp := known.Current("f")
		before := s.descriptors()
		keep := s.Hold(f, "f", &s.set)
		if opened := s.descriptors() - before; (opened == 1) != (c.want || name == "the name is swapped") {
			t.Errorf("%s: %d descriptors were opened", name, opened)
		}
		keep(true)
		b, ok := s.Content("f", &knowledge.Basis{Version: number, Stamp: stamp, At: time.Now()})
		if ok != c.want || ok && string(b) != "known" {
			t.Errorf("%s: %q, %v", name, b, ok)
		}
	}
}

// What nobody has read is not kept, nor what was not replaced after all.
func TestHoldOfWhatIsNotMissed(t *testing.T) {
	s := newStage(t)
	f := s.put("f", "known")
	s.Hold(f, "f", &s.set)(true)
	if _, ok := s.Content("f", &knowledge.Basis{Version: 1, Stamp: bases.StampOf(f.Stat), At: time.Now()}); ok {
		t.Error("what nobody has read is kept")
	}
	s.read(10, "f")
	number, stamp := s.Bases.Known.Current("f")
	keep := s.Hold(f, "f", &s.set)
	before := s.descriptors()
	keep(false)
	if now := s.descriptors(); now != before-1 {
		t.Errorf("%d descriptors were closed", before-now)
	}
	if _, ok := s.Content("f", &knowledge.Basis{Version: number, Stamp: stamp, At: time.Now()}); ok {
		t.Error("what was not replaced is kept")
	}
}

func TestTarget(t *testing.T) {
	s := newStage(t)
	f := s.put("f", "known")
	target := s.target(f)
	if target.KeepsInode() || target.InTransaction() || target.Stamp() != bases.StampOf(f.Stat) {
		t.Errorf("a plain file: %v, %v, %v", target.KeepsInode(), target.InTransaction(), target.Stamp())
	}
	yes := func() bool { return true }
	if target.IsStaged = yes; !target.InTransaction() {
		t.Error("it is not staged")
	}
	if target.IsMounted = yes; !target.KeepsInode() {
		t.Error("what is mounted does not keep its inode")
	}
	if err := os.Link(s.path("f"), s.path("g")); err != nil {
		t.Fatal(err)
	}
	if target = s.target(s.look("f")); !target.KeepsInode() {
		t.Error("a file with two names does not keep its inode")
	}
}
