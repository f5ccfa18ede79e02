package integration

import (
	"bufio"
	"fmt"
	"math/rand/v2"
	"os"
	"path/filepath"
	"strings"
	"syscall"
	"testing"
	"time"

	"latchfs/integration/internal/crashload"
)

// TestCrashUnderLoad kills latchfs at random moments while processes save in
// every way there is, mounts again and looks: every file is one complete
// version, at least the last acknowledged one, what was removed is gone, and
// nothing of latchfs's own lies around.
func TestCrashUnderLoad(t *testing.T) {
	needsLatchfs(t)
	forEachMount(t, func(t *testing.T, m *Mount) {
		rounds := repeat(50, 1000)
		if m.Name != "root" {
			rounds /= 5
		}
		crashRounds(t, m, "load", 3, rounds)
	})
}

// TestCrashInPlace does the same to a single writer of a large file with two
// names, which is copied in place and needs its redo record to survive.
func TestCrashInPlace(t *testing.T) {
	needsLatchfs(t)
	crashRounds(t, mount(t), "inplace", 1, repeat(15, 300))
}

// crashRounds kills latchfs under the load of several processes, again and again.
func crashRounds(t *testing.T, m *Mount, load string, writers, rounds int) {
	var ws []*loadWriter
	for i := range writers {
		name := fmt.Sprint("w", i)
		m.Mkdir(name)
		ws = append(ws, &loadWriter{load: load, name: name, log: filepath.Join(m.Home(), name+".log"), state: map[string]loadFile{}})
	}
	for round := range rounds {
		for _, w := range ws {
			w.start(t, m)
		}
		// The delay makes the moment random; nothing waits for it to be over.
		time.Sleep(time.Duration(rand.IntN(400)) * time.Millisecond)
		m.Crash(t)
		for _, w := range ws {
			w.end(t)
		}
		m.Start(t)
		for _, w := range ws {
			w.check(t, m)
		}
		left, err := reservedNames(m.Data)
		if err != nil {
			t.Fatal(err)
		}
		if len(left) > 0 {
			t.Errorf("left in the data directory: %q", left)
		}
		if t.Failed() {
			t.Fatalf("in round %d", round)
		}
	}
	for _, w := range ws {
		t.Logf("%s: %d files acknowledged, %d unfinished at a crash and there, %d not", w.name, w.acknowledged, w.there, w.notThere)
		if w.acknowledged == 0 {
			t.Errorf("%s: nothing was ever acknowledged, so nothing was tested", w.name)
		}
	}
}

// loadFile is what the log says about one file.
type loadFile struct {
	begun, done       int // versions; -1: none
	removing, removed bool
}

// loadWriter is one process of the load and what is known of its files.
type loadWriter struct {
	load, name, log string
	proc            *Proc
	read            int64 // how much of the log has been read
	next            int   // version to go on with
	state           map[string]loadFile

	acknowledged, there, notThere int
}

func (w *loadWriter) start(t *testing.T, m *Mount) {
	t.Helper()
	w.proc = m.Launch(t, saver(t), w.load, m.Path(w.name), w.log, fmt.Sprint(w.next))
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

// readLog brings the state up to date.
func (w *loadWriter) readLog(t *testing.T) {
	t.Helper()
	f, err := os.Open(w.log)
	if os.IsNotExist(err) {
		return // killed before the first save
	}
	if err != nil {
		t.Fatal(err)
	}
	defer f.Close()
	if _, err := f.Seek(w.read, 0); err != nil {
		t.Fatal(err)
	}
	for lines := bufio.NewScanner(f); lines.Scan(); {
		w.read += int64(len(lines.Bytes())) + 1
		var what, name string
		var n int
		if _, err := fmt.Sscan(lines.Text(), &what, &name, &n); err != nil {
			t.Fatalf("%s: %q: %v", w.log, lines.Text(), err)
		}
		w.step(what, name, n)
	}
}

func (w *loadWriter) step(what, name string, n int) {
	s, ok := w.state[name]
	if !ok {
		s = loadFile{begun: -1, done: -1}
	}
	switch what {
	case "begin":
		s.begun = n
		s.removing, s.removed = false, false
	case "done":
		s.done = n
		w.acknowledged++
	case "remove":
		s.removing = true
	case "removed":
		s.removed = true
	}
	w.state[name] = s
	if name != crashload.Appended {
		w.next = max(w.next, n+1)
	}
}

// check compares the directory with the log.
func (w *loadWriter) check(t *testing.T, m *Mount) {
	t.Helper()
	w.readLog(t)
	dir := filepath.Join(m.Data, w.name)
	if m.UID == os.Geteuid() {
		dir = m.Path(w.name)
	}
	entries, err := os.ReadDir(dir)
	if err != nil {
		t.Fatal(err)
	}
	found := map[string]int{}
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
		found[e.Name()] = n
	}
	for name, s := range w.state {
		w.checkFile(t, name, s, found)
	}
	if b, ok := found[crashload.LinkedTwin]; ok && b != found[crashload.Linked] {
		a := found[crashload.Linked]
		t.Errorf("%s: the two names of one file hold versions %d and %d", w.name, a, b)
	}
}

// checkFile compares one file with the log.
func (w *loadWriter) checkFile(t *testing.T, name string, s loadFile, found map[string]int) {
	t.Helper()
	n, ok := found[name]
	switch {
	case s.removed && ok:
		t.Errorf("%s/%s is back after its removal was acknowledged", w.name, name)
	case !ok && s.done >= 0 && !s.removing:
		t.Errorf("%s/%s is gone, version %d was acknowledged", w.name, name, s.done)
	case ok && (n < s.done || n > s.begun):
		t.Errorf("%s/%s holds version %d; %d was acknowledged, %d begun", w.name, name, n, s.done, s.begun)
	case s.begun > s.done && n == s.begun:
		w.there++
	case s.begun > s.done:
		w.notThere++
	}
	if s.removed && !ok {
		delete(w.state, name)
	}
	if ok && s.begun > s.done { // what is there now counts as acknowledged from here on
		s.done = n
		w.state[name] = s
	}
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
