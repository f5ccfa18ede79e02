package disk

import (
	"os"
	"path/filepath"
	"testing"

	"golang.org/x/sys/unix"
)

// tidiedDir is a directory with names that go, and the disk that it is on.
type tidiedDir struct {
	*testing.T
	*Disk
	path string
	dir  *os.File
}

func newTidiedDir(t *testing.T) *tidiedDir {
	t.Helper()
	root := t.TempDir()
	td := &tidiedDir{T: t, path: filepath.Join(root, "d")}
	state := filepath.Join(root, "state")
	for _, name := range []string{td.path, state} {
		if err := os.Mkdir(name, 0o755); err != nil {
			t.Fatal(err)
		}
	}
	td.dir = td.open(td.path)
	st := td.open(state)
	td.Disk = New(int(td.dir.Fd()), st, nil)
	if !td.TellsChanges() {
		t.Skip("the kernel gives two changes within a tick one time (before Linux 6.13)")
	}
	return td
}

func (td *tidiedDir) open(name string) *os.File {
	td.Helper()
	f, err := os.Open(name)
	if err != nil {
		td.Fatal(err)
	}
	td.Cleanup(func() { f.Close() })
	return f
}

func (td *tidiedDir) create(name string) {
	td.Helper()
	if err := os.WriteFile(filepath.Join(td.path, name), nil, 0o644); err != nil {
		td.Fatal(err)
	}
}

// tidy takes name away, and calls others before and after that, within the step.
func (td *tidiedDir) tidy(name string, before, after func()) {
	td.Helper()
	err := td.Do("unlink", func() error {
		return td.Tidy(int(td.dir.Fd()), func() error {
			before()
			err := unix.Unlinkat(int(td.dir.Fd()), name, 0)
			after()
			return err
		})
	})
	if err != nil {
		td.Fatal(err)
	}
}

// times are those that the directory has, and those that it shows.
func (td *tidiedDir) times() (has, shows unix.Stat_t) {
	td.Helper()
	if err := unix.Fstat(int(td.dir.Fd()), &has); err != nil {
		td.Fatal(err)
	}
	shows = has
	td.ShowTimes(&shows)
	return has, shows
}

func (td *tidiedDir) shows(want unix.Stat_t, when string) {
	td.Helper()
	if _, is := td.times(); is.Mtim != want.Mtim || is.Ctim != want.Ctim {
		td.Errorf("%s it shows %v, %v; want %v, %v", when, is.Mtim, is.Ctim, want.Mtim, want.Ctim)
	}
}

func (td *tidiedDir) showsWhatItHas(when string) {
	td.Helper()
	has, _ := td.times()
	td.shows(has, when)
}

func nothing() {}

func TestTidyingIsNoChange(t *testing.T) {
	td := newTidiedDir(t)
	for _, name := range []string{"a", "b", "c", "d"} {
		td.create(name)
	}
	made, _ := td.times()
	td.shows(made, "first")
	td.tidy("a", func() { td.shows(made, "before a goes") }, func() { td.shows(made, "when a has gone") })
	gone, _ := td.times()
	td.tidy("b", nothing, func() { td.shows(made, "when b has gone") })
	td.shows(made, "after b")
	// Somebody has looked before b was gone.
	td.ShowTimes(&gone)
	if gone.Mtim != made.Mtim || gone.Ctim != made.Ctim {
		t.Error("a look between two removals shows the first")
	}
	if err := td.dir.Chmod(0o700); err != nil {
		t.Fatal(err)
	}
	if has, shows := td.times(); shows.Mtim != made.Mtim || shows.Ctim != has.Ctim {
		t.Error("after a chmod it does not show the change time alone")
	}
	td.create("e")
	td.showsWhatItHas("after a change")
	changed, _ := td.times()
	td.tidy("c", nothing, nothing)
	td.shows(changed, "after another removal")
}

// Whatever else is done meanwhile shows.
func TestOthersChangesShowBesideTidying(t *testing.T) {
	for name, others := range map[string]func(td *tidiedDir) (before, after func()){
		"before": func(td *tidiedDir) (before, after func()) {
			return func() { end := td.Change(); td.create("x"); end() }, func() { td.showsWhatItHas("meanwhile") }
		},
		"after": func(td *tidiedDir) (before, after func()) {
			return nothing, func() { end := td.Change(); td.create("x"); end() }
		},
		"under way": func(td *tidiedDir) (before, after func()) {
			return func() { td.Cleanup(td.Change()) }, func() { td.create("x"); td.showsWhatItHas("meanwhile") }
		},
	} {
		t.Run(name, func(t *testing.T) {
			td := newTidiedDir(t)
			td.create("a")
			td.create("b")
			before, after := others(td)
			td.tidy("a", before, after)
			td.showsWhatItHas("afterwards")
		})
	}
	t.Run("since earlier", func(t *testing.T) {
		td := newTidiedDir(t)
		td.create("a")
		end := td.Change()
		td.tidy("a", nothing, func() { td.create("x"); td.showsWhatItHas("meanwhile") })
		td.showsWhatItHas("afterwards")
		end()
	})
}

// A clock that ticks does not tell what came last: no time is changed then.
func TestTimesStayWhereTheyDoNotTell(t *testing.T) {
	td := newTidiedDir(t)
	td.SetTellsChanges(false)
	td.create("a")
	td.tidy("a", nothing, nothing)
	td.showsWhatItHas("afterwards")
}
