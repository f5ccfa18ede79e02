package integration

import (
	"bytes"
	"fmt"
	"os"
	"path/filepath"
	"slices"
	"strings"
	"syscall"
	"testing"

	"latchfs/integration/internal/crashload"
)

// loadFile is what the log says about one file.
type loadFile struct {
	begun, done int  // versions; -1: none
	replaced    int  // the newest that is known to have replaced another one; -1: none
	onDisk      int  // the version that was there after the last crash; -1: none
	removing    bool // and not saved again since
	removed     bool
	gone        bool // it was removed at some time since the last crash
}

// loadWriter is one process of the load and what is known of its files.
type loadWriter struct {
	load, name, log string
	dir             string // below the data root, "" for the root
	proc            *Proc
	read            int64 // how much of the log has been read
	next            int   // version to go on with
	state           map[string]loadFile
	shared          []int // lines in crashload.Shared

	acknowledged, there, notThere int
}

// loss is what a crash may take that was acknowledged.
type loss int

const (
	losesNothing  loss = iota // the daemon was killed
	losesRemovals             // power: a removal is not synced
	losesNew                  // power, with one that waits for the disk where a version is replaced
	losesCommits              // power, with a durability that does not wait for the disk
)

// newLoadWriters makes n writers that work in directories of their own below dir.
func newLoadWriters(m *Mount, load, dir string, n int) []*loadWriter {
	var ws []*loadWriter
	if dir != "" {
		m.Mkdir(dir)
	}
	for i := range n {
		name := fmt.Sprint("w", i)
		m.Mkdir(filepath.Join(dir, name))
		log := filepath.Join(m.Home(), dir+name+".log")
		ws = append(ws, &loadWriter{load: load, name: name, dir: dir, log: log, state: map[string]loadFile{}})
	}
	return ws
}

func (w *loadWriter) start(t *testing.T, m *Mount) {
	t.Helper()
	w.proc = m.Launch(t, saver(t), w.load, m.Path(filepath.Join(w.dir, w.name)), w.log, fmt.Sprint(w.next))
}

// end waits for the process: without its filesystem every save fails. It must
// not have failed of anything else before.
func (w *loadWriter) end(t *testing.T) {
	t.Helper()
	o := w.proc.Wait()
	// EIO is what is left of pages that could not be written back.
	for _, e := range []syscall.Errno{syscall.ENOTCONN, syscall.ECONNABORTED, syscall.EIO} {
		if o.Signal == 0 && strings.HasSuffix(strings.TrimSpace(o.Stderr), e.Error()) {
			return
		}
	}
	t.Errorf("%s ended with %d %v: %s", w.name, o.Code, o.Signal, o.Stderr)
}

// awaitAcknowledged waits until each writer has saved something at some time: on a busy
// machine it may not have come so far in any round.
func awaitAcknowledged(t *testing.T, ws []*loadWriter) {
	t.Helper()
	for _, w := range ws {
		if w.acknowledged > 0 {
			continue
		}
		eventually(t, w.name+" has saved something", func() bool {
			b, _ := os.ReadFile(w.log)
			return bytes.Contains(b, []byte("\ndone "))
		})
	}
}

// logged is how long the log is.
func (w *loadWriter) logged() int64 {
	st, err := os.Stat(w.log)
	if err != nil {
		return 0 // killed before the first save
	}
	return st.Size()
}

// readLog brings the state up to date: what was acknowledged in the log's first
// certain bytes, and what was begun in the first possible ones. The rest came
// after the crash.
func (w *loadWriter) readLog(t testing.TB, certain, possible int64) {
	t.Helper()
	b, err := os.ReadFile(w.log)
	if os.IsNotExist(err) {
		return
	}
	if err != nil {
		t.Fatal(err)
	}
	for line := range bytes.Lines(b[w.read:min(possible, int64(len(b)))]) {
		var what, name string
		var n int
		if _, err := fmt.Sscan(string(line), &what, &name, &n); err != nil {
			t.Fatalf("%s: %q: %v", w.log, line, err)
		}
		w.read += int64(len(line))
		if ended := what == "done" || what == "removed"; !ended || w.read <= certain {
			w.step(what, name, n)
		}
	}
	w.read = int64(len(b))
}

func (w *loadWriter) step(what, name string, n int) {
	s, ok := w.state[name]
	if !ok {
		s = loadFile{begun: -1, done: -1, onDisk: -1, replaced: -1}
	}
	switch what {
	case "begin":
		s.begun = n
		s.removed = false
	case "done":
		if s.done >= 0 && !s.gone {
			s.replaced = n
		}
		s.done = n
		s.removing = false
		w.acknowledged++
		if name == crashload.Shared {
			w.shared = append(w.shared, n)
		}
	case "remove":
		s.removing, s.gone = true, true
	case "removed":
		s.removed = true
	}
	w.state[name] = s
	if name != crashload.Appended && name != crashload.Backup {
		w.next = max(w.next, n+1)
	}
}

// check compares the directory with the log.
func (w *loadWriter) check(t testing.TB, m *Mount, may loss) {
	t.Helper()
	dir := filepath.Join(m.Data, w.dir, w.name)
	if m.UID == os.Geteuid() {
		dir = m.Path(filepath.Join(w.dir, w.name))
	}
	found, err := w.look(t, dir)
	if err != nil {
		t.Fatal(err)
	}
	w.checkShared(t, filepath.Join(dir, crashload.Shared), may)
	for name := range w.state {
		w.checkFile(t, name, found, may)
	}
	if b, ok := found[crashload.LinkedTwin]; ok && b != found[crashload.Linked] {
		a := found[crashload.Linked]
		t.Errorf("%s: the two names of one file hold versions %d and %d", w.name, a, b)
	}
}

// look returns the version that each file holds.
func (w *loadWriter) look(t testing.TB, dir string) (map[string]int, error) {
	t.Helper()
	found := map[string]int{}
	entries, err := os.ReadDir(dir)
	for _, e := range entries {
		b, err := os.ReadFile(filepath.Join(dir, e.Name()))
		if err != nil {
			t.Errorf("%s/%s: %v", w.name, e.Name(), err)
			continue
		}
		n, err := decodeLoad(e.Name(), b)
		if err != nil {
			t.Errorf("%s/%s: %v", w.name, e.Name(), err)
		}
		if st, err := e.Info(); e.Name() == crashload.Moded && (err != nil || st.Mode().Perm() != crashload.Mode(n)) {
			t.Errorf("%s/%s: version %d has the mode of another one: %v, %v", w.name, e.Name(), n, st.Mode(), err)
		}
		found[e.Name()] = n
	}
	return found, err
}

// checkFile compares one file with the log. What is there now counts as
// acknowledged from here on.
func (w *loadWriter) checkFile(t testing.TB, name string, found map[string]int, may loss) {
	t.Helper()
	s := w.state[name]
	least := s.done
	renamed := name == crashload.Renamed || name == crashload.Backup
	switch {
	case may == losesNew && (name == crashload.Appended || name == crashload.Backup):
		least = s.onDisk
	case may == losesNew:
		least = max(s.onDisk, s.replaced)
	}
	if may == losesCommits || may == losesRemovals && renamed && s.onDisk < 0 {
		least = s.onDisk // a rename that replaces nothing is not synced either
	}
	n, ok := found[name]
	switch {
	case s.removed && ok && may == losesNothing:
		t.Errorf("%s/%s is back after its removal was acknowledged", w.name, name)
	case !ok && least >= 0 && !s.removing && (may != losesCommits && may != losesNew || !s.gone):
		t.Errorf("%s/%s is gone, version %d was acknowledged", w.name, name, least)
	case ok && (n < least || n > s.begun):
		t.Errorf("%s/%s holds version %d; %d was acknowledged, %d begun", w.name, name, n, least, s.begun)
	case s.begun > s.done && ok && n == s.begun:
		w.there++
	case s.begun > s.done:
		w.notThere++
	}
	if ok {
		w.state[name] = loadFile{begun: n, done: n, onDisk: n, replaced: n}
	} else {
		delete(w.state, name)
	}
}

// checkShared looks at the lines that all loads write to one file.
func (w *loadWriter) checkShared(t testing.TB, path string, may loss) {
	t.Helper()
	defer delete(w.state, crashload.Shared)
	b, err := os.ReadFile(path)
	if err != nil && !os.IsNotExist(err) {
		t.Fatal(err)
	}
	lines, err := crashload.DecodeShared(b)
	if err != nil {
		t.Errorf("%s: %v", path, err)
	}
	have := lines[w.name]
	for _, n := range w.shared {
		if _, ok := slices.BinarySearch(have, n); !ok && may == losesNothing {
			t.Errorf("%s: line %d of %s was acknowledged and is not there", path, n, w.name)
		}
	}
	w.shared = have
}

// decodeLoad is the version that a file of the load holds; for the append-only
// one the number of its last record, -1 when it has none.
func decodeLoad(name string, b []byte) (int, error) {
	if name == crashload.Appended {
		n, err := crashload.DecodeLines(b)
		return n - 1, err
	}
	return crashload.Decode(b)
}
