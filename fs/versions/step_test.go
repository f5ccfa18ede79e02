package versions

import (
	"os"
	"slices"
	"testing"
	"testing/synctest"
	"time"

	"golang.org/x/sys/unix"

	"latchfs/journal/commit"
	"latchfs/journal/history"
	"latchfs/lockmgr/policy"
)

func TestStepsOfSaves(t *testing.T) {
	s := newStage(t)
	s.save("f", "one")
	first := inodeOf(s.stat("f"))
	if len(s.only) > 0 || s.asked > 0 {
		t.Errorf("%v are kept, and %d times it was asked who can reach them; nothing was there", s.only, s.asked)
	}
	s.save("f", "two")
	if !slices.Equal(s.only, []commit.Inode{first}) {
		t.Errorf("the history has the only names of %v, want %v", s.only, first)
	}
	s.save("f", "three")
	s.want("f", "1 commit of 0: one", "2 commit of 1: two", "3 commit of 2")
	v := s.last("f")
	if v.Path != "f" || v.Program != "vi" || v.State != history.StateOf(s.stat("f")) {
		t.Errorf("the last version is %+v", v)
	}
	if old := s.h.Of("f")[0]; !old.Reach.Known || len(old.Reach.Gates) != 1 || old.Reach.Gates[0].UID != 7 {
		t.Errorf("the first version could be reached as %+v", old.Reach)
	}
}

func TestStepOfARemoval(t *testing.T) {
	s := newStage(t)
	s.save("f", "one")
	s.remove("f", 5)
	s.want("f", "1 commit of 0: one", "2 delete of 1")
	s.save("f", "two")
	s.want("f", "1 commit of 0: one", "2 delete of 1", "3 commit of 2")
}

// A change that leaves nothing where nothing was is none.
func TestStepFromNothingToNothing(t *testing.T) {
	s := newStage(t)
	for _, event := range []history.Event{history.Delete, history.RenameAway} {
		s.StepNow(s.name("f"), &s.set).Enter("f", history.Version{Event: event}, false)
	}
	s.want("f")
	check(t, os.Symlink("f", s.path("link"))) // which has no versions
	s.StepNow(s.name("link"), &s.set).Enter("link", history.Version{Event: history.Delete}, false)
	s.want("link")
}

// A file whose removal nobody has told of is gone when the next one is made.
func TestStepWhereAFileHasVanished(t *testing.T) {
	s := newStage(t)
	s.save("f", "one")
	check(t, os.Remove(s.path("f")))
	s.save("f", "two")
	s.want("f", "1 commit of 0", "2 delete of 1", "3 commit of 2")
}

// The path is the one that the name has when the change is told.
func TestStepUnderAnotherPath(t *testing.T) {
	s := newStage(t)
	check(t, os.Mkdir(s.path("d"), 0o700))
	s.save("d/f", "one")
	s.write("new", "two")
	step := s.StepNow(s.name("d/f"), &s.set)
	check(t, os.Rename(s.path("d"), s.path("e")))
	s.Moved("d", "e", false)
	s.replace("e/f", step)
	s.want("d/f")
	s.want("e/f", "1 commit of 0: one", "2 commit of 1")
}

func TestStepKeepsACopy(t *testing.T) {
	for name, prepare := range map[string]func(*stage){
		"somebody can write it": func(s *stage) { s.writers[inodeOf(s.stat("f"))] = 1 },
		"it has another name":   func(s *stage) { check(s.t, os.Link(s.path("f"), s.path("g"))) },
		"its inode stays":       nil,
	} {
		t.Run(name, func(t *testing.T) {
			s := newStage(t)
			s.save("f", "one")
			ino := s.stat("f").Ino
			if prepare != nil {
				prepare(s)
			}
			s.write("new", "two")
			step := s.StepNow(s.name("f"), &s.set)
			if step.Keep().Copy != (prepare != nil) {
				t.Errorf("the file before is %+v", step.Keep())
			}
			if prepare == nil {
				step.KeepCopy()
			}
			if k := step.Keep(); !k.Copy || k.Ino != ino {
				t.Errorf("the file before is %+v, want a copy of %d", k, ino)
			}
			s.replace("f", step)
			s.want("f", "1 commit of 0: one", "2 commit of 1")
			if len(s.only) > 0 {
				t.Error("of a file of which a copy was kept the history has no name")
			}
		})
	}
}

// A file that gets another name when it is known that it has none is copied after all, and it
// goes on.
func TestStepOfAFileThatIsLinkedMeanwhile(t *testing.T) {
	s := newStage(t)
	s.save("f", "one")
	s.write("new", "two")
	step := s.StepNow(s.name("f"), &s.set)
	check(t, os.Link(s.path("f"), s.path("g")))
	s.replace("f", step)
	s.want("f", "1 commit of 0: one", "2 commit of 1")
	if len(s.only) > 0 {
		t.Error("the history has the only name of a file that has another one")
	}
}

func TestStepKeepsAFileAlone(t *testing.T) {
	s := newStage(t)
	s.save("f", "one")
	step := s.StepNow(s.name("f"), &s.set)
	step.KeepAloneNow()
	step.KeepAlone(s.stat("f"))
	if step.Keep().ID == "" || step.Keep().ID != step.Content() {
		t.Errorf("the only name of a file is lost as %+v", step.Keep())
	}
	check(t, os.Link(s.path("f"), s.path("g")))
	step.KeepAloneNow()
	if step.Keep() != (commit.Keep{}) || step.Content() == "" {
		t.Errorf("a file with another name is %+v of the content %q", step.Keep(), step.Content())
	}
	step = s.StepNow(s.name("f"), &s.set)
	step.KeepAlone(s.stat("f"))
	if step.Keep() != (commit.Keep{}) {
		t.Errorf("a file with another name is %+v", step.Keep())
	}
	check(t, os.Remove(s.path("f")))
	step.KeepAloneNow() // nothing is there to be kept
	step.Enter("f", history.Version{Event: history.Delete}, false)
	s.want("f", "1 commit of 0", "2 delete of 1")
	if len(s.only) > 0 {
		t.Error("the history has the only name of what is not kept")
	}
	if s.last("f").Reach.Known {
		t.Error("it is known who can reach what is not kept")
	}
}

// What is written in place is written under all names of the file.
func TestStepInPlace(t *testing.T) {
	s := newStage(t)
	s.save("f", "one")
	check(t, os.Link(s.path("f"), s.path("g")))
	step := s.StepNow(s.name("g"), &s.set)
	step.Enter("g", s.made("g"), false)
	step = s.StepNow(s.name("f"), &s.set)
	s.write("f", "two, in place")
	step.Enter("f", s.made("f"), false)
	now := history.StateOf(s.stat("f"))
	for _, path := range []string{"f", "g"} {
		if _, known := s.h.Match(path, now); !known {
			t.Errorf("%s has the state %+v, want %+v", path, s.last(path).State, now)
		}
	}
	before, _, _ := s.h.Last("g")
	s.save("f", "another inode")
	if after, _, _ := s.h.Last("g"); after != before {
		t.Error("the other name of a file goes with the one that has got another file")
	}
}

// A file that is cut keeps its inode, and a copy is kept of what it was. Other paths that
// hold it are looked for if it has other names.
func TestStepOfACut(t *testing.T) {
	for _, linked := range []bool{false, true} {
		s := newStage(t)
		s.save("f", "one")
		step := s.StepNow(s.name("g"), &s.set)
		check(t, os.Link(s.path("f"), s.path("g")))
		step.Enter("g", s.made("g"), false)
		if !linked {
			check(t, os.Remove(s.path("g"))) // which nobody has told of
		}
		before := s.last("g").State
		step = s.StepNow(s.name("f"), &s.set)
		step.InPlace(s.stat("f"))
		k := step.Keep()
		if !k.Copy || k.ID == "" {
			t.Errorf("the file before, linked: %t, is %+v", linked, step)
		}
		f := open(t, s.path("f"))
		check(t, s.store.KeepCopy(int(f.Fd()), k.ID))
		check(t, os.Truncate(s.path("f"), 1))
		step.Enter("f", s.made("f"), true)
		s.want("f", "1 commit of 0: one", "2 commit of 1")
		if len(s.only) > 0 {
			t.Error("of a file of which a copy was kept the history has no name")
		}
		if changed := s.last("g").State != before; changed != linked {
			t.Errorf("the other path changes with the file, linked: %t: %t", linked, changed)
		}
	}
}

func TestStepsKeepNoMoreThanThePolicySays(t *testing.T) {
	s := newStage(t)
	s.set.History = 2
	for _, content := range []string{"one", "two", "three", "four"} {
		s.save("f", content)
	}
	s.want("f", "1 commit of 0", "2 commit of 1: two", "3 commit of 2: three", "4 commit of 3")
}

// What is larger than the whole history is not kept.
func TestStepOfALargeFile(t *testing.T) {
	s := newStageWith(t, history.Options{MaxBytes: 4})
	s.save("f", "larger")
	if step := s.save("f", "x"); step.Keep() != (commit.Keep{}) || s.asked > 0 {
		t.Errorf("a large file is %+v; it was asked %d times who can reach it", step.Keep(), s.asked)
	}
	s.want("f", "1 commit of 0", "2 commit of 1")
}

func TestNoSteps(t *testing.T) {
	s := newStage(t)
	st := s.write("f", "one")
	for name, set := range map[string]policy.Settings{
		"a live file": {Mode: policy.Live, History: 10},
		"no versions": {Mode: policy.Atomic},
	} {
		if s.Keeps(&set) || s.Step(s.name("f"), &set, st) != nil || s.StepNow(s.name("f"), &set) != nil {
			t.Errorf("%s has a history", name)
		}
	}
	var none *Recorder
	step := none.Step(s.name("f"), &s.set, st)
	step.KeepCopy()
	step.InPlace(st)
	step.KeepAlone(st)
	step.KeepAloneNow()
	step.Enter("f", s.made("f"), true)
	if step != nil || step.Keep() != (commit.Keep{}) || step.Content() != "" {
		t.Errorf("a mount without a history prepares %+v", step)
	}
	s.want("f")
}

// A copy of a small file costs little. Before a large one is copied it is waited for the ends
// of the descriptors that can write it.
func TestLargeFilesAreWaitedFor(t *testing.T) {
	const grace = 100 * time.Millisecond
	for name, c := range map[string]struct {
		size    int64
		writers int
		want    bool
		took    time.Duration
	}{
		"nobody has it":                {size: commit.MaxKeptCopy + 1},
		"a small one that is open":     {size: commit.MaxKeptCopy, writers: 3, want: true},
		"a large one, for a moment":    {size: commit.MaxKeptCopy + 1, writers: 5, took: 5 * releasePoll},
		"a large one, and it stays so": {size: commit.MaxKeptCopy + 1, writers: 1000, want: true, took: grace + releasePoll},
	} {
		t.Run(name, func(t *testing.T) {
			synctest.Test(t, func(t *testing.T) {
				in := commit.Inode{Dev: 1, Ino: 2}
				s := &stage{writers: map[commit.Inode]int{in: c.writers}}
				r, start := New(Config{Engine: s, Grace: grace}), time.Now()
				if got := r.mayBeWritten(in, c.size); got != c.want || time.Since(start) != c.took {
					t.Errorf("%v after %v, want %v after %v", got, time.Since(start), c.want, c.took)
				}
			})
		})
	}
}

func TestIsFile(t *testing.T) {
	for mode, want := range map[uint32]bool{unix.S_IFREG | 0o644: true, unix.S_IFDIR: false, unix.S_IFLNK: false} {
		if got := isFile(&unix.Stat_t{Mode: mode}); got != want {
			t.Errorf("%o: %v", mode, got)
		}
	}
	if isFile(nil) {
		t.Error("nothing is a file")
	}
}
