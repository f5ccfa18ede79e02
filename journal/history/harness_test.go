package history

import (
	"fmt"
	"os"
	"path/filepath"
	"sync"
	"testing"
	"time"

	"golang.org/x/sys/unix"
)

func check(t testing.TB, err error) {
	t.Helper()
	if err != nil {
		t.Fatal(err)
	}
}

// world is a data root with a history, whose files are one directory's.
type world struct {
	t     testing.TB
	root  string
	state *os.File
	o     Options
	s     *Store
	clock sync.Mutex // guards now
	now   time.Time
}

// later lets time pass.
func (w *world) later(d time.Duration) {
	w.clock.Lock()
	defer w.clock.Unlock()
	w.now = w.now.Add(d)
}

func newWorld(t testing.TB, o Options) *world {
	t.Helper()
	return newWorldAt(t, t.TempDir(), o)
}

func newWorldAt(t testing.TB, root string, o Options) *world {
	t.Helper()
	w := &world{t: t, root: root, now: time.Now()}
	check(t, os.Mkdir(w.path(".state"), 0o700))
	var err error
	w.state, err = os.Open(w.path(".state"))
	check(t, err)
	t.Cleanup(func() { w.state.Close() })
	o.Now = func() time.Time { // also asked by whoever keeps the house
		w.clock.Lock()
		defer w.clock.Unlock()
		return w.now
	}
	o.Logf = t.Logf
	o.Tick = time.Hour // tests tidy by themselves
	w.o = o
	w.open()
	t.Cleanup(func() { w.s.Close() })
	return w
}

func (w *world) open() {
	w.t.Helper()
	s, err := Open(w.state, w.o)
	check(w.t, err)
	w.s = s
}

// reopen closes the history and opens it again; with crash set it is not closed.
func (w *world) reopen(crash bool) {
	w.t.Helper()
	if !crash {
		check(w.t, w.s.Close())
	} else {
		w.t.Cleanup(func(s *Store) func() { return func() { s.Close() } }(w.s))
	}
	w.open()
}

func (w *world) path(name string) string { return filepath.Join(w.root, name) }

func (w *world) stat(name string) *unix.Stat_t {
	w.t.Helper()
	var st unix.Stat_t
	check(w.t, unix.Lstat(w.path(name), &st))
	return &st
}

// ref makes sure that the file name is known, and returns its version.
func (w *world) ref(name string) Ref {
	w.t.Helper()
	st := w.stat(name)
	if ref, ok := w.s.Match(name, StateOf(st)); ok {
		return ref
	}
	return w.s.Add(Version{Path: name, Event: Found, State: StateOf(st)})
}

// into moves the file name into the history, as a commit does.
func (w *world) into(name string, id string) {
	w.t.Helper()
	to := filepath.Join(w.path(".state"), ContentPath(id))
	check(w.t, os.MkdirAll(filepath.Dir(to), 0o700))
	check(w.t, os.Rename(w.path(name), to))
}

// save replaces the file name by a new one.
func (w *world) save(name, content string, most int) Ref {
	w.t.Helper()
	v := Version{Path: name, Event: Commit}
	var old Ref
	if _, err := os.Lstat(w.path(name)); err == nil {
		old = w.ref(name)
		w.into(name, old.Content)
		v.Base = old.Number
	} else {
		w.s.Absent(name)
	}
	check(w.t, os.WriteFile(w.path(name), []byte(content), 0o600))
	v.State = StateOf(w.stat(name))
	ref := w.s.Add(v)
	w.s.Keep(name, old, most)
	return ref
}

func (w *world) remove(name string, most int) {
	w.t.Helper()
	old := w.ref(name)
	w.into(name, old.Content)
	w.s.Add(Version{Path: name, Event: Delete, Base: old.Number})
	w.s.Keep(name, old, most)
}

func (w *world) rename(from, to string, most int) {
	w.t.Helper()
	a := w.ref(from)
	var old Ref
	if _, err := os.Lstat(w.path(to)); err == nil {
		old = w.ref(to)
		w.into(to, old.Content)
	} else {
		old.Number = w.s.Absent(to)
	}
	check(w.t, os.Rename(w.path(from), w.path(to)))
	w.s.Add(Version{Path: to, Event: Commit, From: from, Base: old.Number, Content: a.Content, State: StateOf(w.stat(to))})
	w.s.Keep(to, old, most)
	w.s.Add(Version{Path: from, Event: RenameAway, To: to, Base: a.Number})
	w.s.Keep(from, Ref{}, most)
}

// read returns a kept version's content.
func (w *world) read(name string, number uint64) (string, error) {
	f, err := w.s.OpenContent(name, number)
	if err != nil {
		return "", err
	}
	defer f.Close()
	b := make([]byte, 1<<16)
	n, _ := f.Read(b)
	return string(b[:n]), nil
}

// files lists the contents on disk.
func (w *world) files() []string {
	w.t.Helper()
	w.s.emptyTrash()
	found, err := filepath.Glob(w.path(".state/history/*/*"))
	check(w.t, err)
	return found
}

// show describes the versions of a path.
func (w *world) show(name string) string {
	text := ""
	for _, v := range w.s.Of(name) {
		text += fmt.Sprintf("%d %s", v.Number, v.Event)
		if v.Kept {
			content, err := w.read(name, v.Number)
			text += fmt.Sprintf(" %q", content)
			if err != nil {
				text += " " + err.Error()
			}
		}
		if v.Current && !v.Event.gone() {
			text += " now"
		}
		text += "\n"
	}
	return text
}
