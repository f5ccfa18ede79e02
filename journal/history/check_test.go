package history

import (
	"errors"
	"os"
	"path/filepath"
	"slices"
	"strings"
	"testing"

	"latchfs/journal"
	"latchfs/journal/history/internal/logend"
)

// mustFind wants just these findings, as severity, kind and path.
func (w *world) mustFind(want ...string) {
	w.t.Helper()
	findings, err := Check(w.state)
	check(w.t, err)
	got := []string{}
	for _, f := range findings {
		got = append(got, string(f.Severity)+" "+f.Kind+" "+f.Path)
	}
	slices.Sort(got)
	if !slices.Equal(got, want) {
		w.t.Errorf("found %q, want %q", got, want)
	}
}

func TestCheck(t *testing.T) {
	w := newWorld(t, Options{})
	dir := filepath.Join(w.state.Name(), Dir)
	w.save("f", "one", 5)
	w.save("f", "two", 5)
	w.mustFind() // a running one, or one that was killed
	check(t, w.s.Close())
	w.mustFind()

	id := strings.Repeat("ab", 16)
	write := func(name, content string) {
		check(t, os.MkdirAll(filepath.Dir(filepath.Join(dir, name)), 0o700))
		check(t, os.WriteFile(filepath.Join(dir, name), []byte(content), 0o600))
	}
	write("ab/"+id, "orphan")
	write("ab/"+NewPrefix+id, "half")
	write("ab/mine", "mine")
	write("mine", "mine")
	write(logName+".new", "half")
	log, err := os.ReadFile(filepath.Join(dir, logName))
	check(t, err)
	write(logName, string(log)+"\x01")
	w.mustFind("info torn-tail history/log", "info unknown-entry history/ab/mine", "info unknown-entry history/mine",
		"recoverable history-leftover history/ab/"+NewPrefix+id, "recoverable history-leftover history/log.new",
		"recoverable orphaned-content history/ab/"+id)
	w.open()
	w.mustFind("info unknown-entry history/ab/mine", "info unknown-entry history/mine", "recoverable history-leftover history/log.new")
	check(t, w.s.Close())

	bad := slices.Clone(log)
	bad[len(bad)/2] ^= 1
	write(logName, string(bad))
	w.mustFind("problem corrupt-history history/log")
	check(t, os.Remove(filepath.Join(dir, logName)))
	w.mustFind("problem corrupt-history history/log")
	write(logName, string(log))
	w.open()
}

// A history that has lost its log, as a backup without logs has, does not begin anew over the old
// contents: it would remove them all.
func TestContentsWithoutALog(t *testing.T) {
	w := newWorld(t, Options{})
	w.save("f", "one", 5)
	w.save("f", "two", 5)
	check(t, w.s.Close())
	log := filepath.Join(w.state.Name(), Dir, logName)
	contents := func() (n int) {
		all, err := filepath.Glob(filepath.Join(w.state.Name(), Dir, "??", "*"))
		check(t, err)
		return len(all)
	}
	kept := contents()
	if kept == 0 {
		t.Fatal("nothing is kept")
	}
	for _, lost := range []struct {
		what string
		lose func() error
	}{
		{"cut off", func() error { return os.Truncate(log, 15) }},
		{"missing", func() error { return os.Remove(log) }},
	} {
		what := lost.what
		check(t, lost.lose())
		w.mustFind("problem corrupt-history history/log")
		if s, err := Open(w.state, w.o); !errors.Is(err, journal.ErrCorrupt) || !strings.Contains(err.Error(), what) {
			t.Errorf("it opens although its log is %s: %v", what, err)
			if err == nil {
				s.Close()
			}
		}
		if n := contents(); n != kept {
			t.Errorf("%d of %d contents are left", n, kept)
		}
	}
	contentDirs, err := filepath.Glob(filepath.Join(w.state.Name(), Dir, "??"))
	check(t, err)
	for _, dir := range contentDirs {
		check(t, os.RemoveAll(dir))
	}
	w.mustFind()
	w.open()
}

// A log that ends before it did at the last clean stop was cut by no crash: what it does not
// name any more is not removed.
func TestCutAfterACleanStop(t *testing.T) {
	w := newWorld(t, Options{})
	for i := range 20 {
		w.save("f", strings.Repeat("x", i), 30)
	}
	check(t, w.s.Close())
	log := filepath.Join(w.state.Name(), Dir, logName)
	whole, err := os.ReadFile(log)
	check(t, err)
	kept := len(w.files())
	for _, n := range []int{logend.HeaderSize, 20, 100, len(whole) / 2, len(whole) - 1} {
		check(t, os.WriteFile(log, whole[:n], 0o600))
		w.mustFind("problem corrupt-history history/log")
		if err := Verify(w.state); !errors.Is(err, journal.ErrCorrupt) {
			t.Errorf("cut to %d bytes: %v", n, err)
		}
		if s, err := Open(w.state, w.o); !errors.Is(err, journal.ErrCorrupt) {
			t.Errorf("it opens although its log is cut to %d bytes: %v", n, err)
			if err == nil {
				s.Close()
			}
		}
	}
	check(t, os.WriteFile(log, append(slices.Clone(whole[:len(whole)-100]), make([]byte, 100)...), 0o600))
	w.mustFind("problem corrupt-history history/log") // zeros as a lost sector has
	if n := len(w.files()); n != kept || kept == 0 {
		t.Errorf("%d of %d contents are left", n, kept)
	}

	// Another version has gone on with the log, or written another one.
	check(t, os.WriteFile(log, append(slices.Clone(whole), 1), 0o600))
	w.open()
	check(t, os.WriteFile(log, whole[:len(whole)-1], 0o600)) // as a crash leaves it
	w.mustFind("info torn-tail history/log")
	check(t, w.s.Close())
	check(t, os.WriteFile(log, otherLog(t), 0o600))
	w.mustFind(orphans(w)...)
	w.open()

	// Another version has rewritten the log: it begins as before, is shorter, and another file.
	check(t, w.s.Close())
	whole, err = os.ReadFile(log)
	check(t, err)
	check(t, os.WriteFile(log+".new", whole[:len(whole)-1], 0o600))
	check(t, os.Rename(log+".new", log))
	if err := Verify(w.state); err != nil {
		t.Errorf("a log that was rewritten: %v", err)
	}
	w.open()
}

// otherLog is a log of which only the header is that of the others.
func otherLog(t *testing.T) []byte {
	t.Helper()
	w := newWorld(t, Options{})
	w.save("g", "another", 5)
	check(t, w.s.Close())
	b, err := os.ReadFile(filepath.Join(w.state.Name(), Dir, logName))
	check(t, err)
	w.open()
	return b
}

// orphans are findings about all contents.
func orphans(w *world) (all []string) {
	names, err := filepath.Glob(filepath.Join(w.state.Name(), Dir, "??", "*"))
	check(w.t, err)
	for _, name := range names {
		all = append(all, "recoverable orphaned-content "+strings.TrimPrefix(name, w.state.Name()+"/"))
	}
	slices.Sort(all)
	return all
}
