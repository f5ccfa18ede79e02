package locksdir

import (
	"encoding/json"
	"fmt"
	"io"
	"math/rand/v2"
	"strings"
	"syscall"
	"testing"

	"latchfs/fs/report"
)

// eventLines are events of alice and of somebody else, in a directory that can be
// closed and one that stays open.
func eventLines(n int) string {
	var b strings.Builder
	for i := range n {
		uid, dir := 1000, "open"
		if i%2 == 1 {
			uid = 2000
		}
		if i%3 == 1 {
			dir = "shut"
		}
		fmt.Fprintf(&b, `{"actor":"label%d","event":"commit","path":"%s/f%d","reason":"as %s","uid":%d,"bytes":%d,"from":"shut/x%d","held_by":{"pid":7,"actor":"secret"}}`+"\n",
			uid, dir, i, strings.Repeat("x", i%50), uid, i, i)
	}
	return b.String()
}

func openFor(t *testing.T, tree *Tree, v report.Viewer) Content {
	t.Helper()
	c, err := tree.Open(eventsFile, v)
	if err != nil {
		t.Fatal(err)
	}
	t.Cleanup(func() { c.Close() })
	return c
}

// A reader sees events below directories that it may search, and of others neither
// labels nor reasons, nor paths that it cannot reach.
func TestEventsAreFiltered(t *testing.T) {
	hidden := []string{"shut"}
	f := newFake()
	f.hidden, f.events.data = &hidden, eventLines(12)+"not json\n"
	tree := New(f)
	text := string(read(t, tree, eventsFile, alice))
	if strings.Contains(text, "shut") || strings.Contains(text, "label2000") || strings.Contains(text, "secret") {
		t.Errorf("alice reads\n%s", text)
	}
	n := 0
	for line := range strings.Lines(text) {
		var e map[string]any
		if err := json.Unmarshal([]byte(line), &e); err != nil {
			t.Fatalf("%s: %v", line, err)
		}
		own := e["uid"] == float64(alice.UID)
		if (e["actor"] != nil) != own || (e["reason"] != nil) != own || e["held_by"] == nil || e["bytes"] == nil {
			t.Errorf("%s", line)
		}
		n++
	}
	if n != 8 {
		t.Errorf("%d events, want 8", n)
	}
	if got := string(read(t, tree, eventsFile, root)); got != f.events.data {
		t.Errorf("root reads\n%s", got)
	}
	hidden = nil
	if text := string(read(t, tree, eventsFile, alice)); strings.Count(text, "\n") != 12 || !strings.Contains(text, "shut/x3") {
		t.Errorf("when the directory is open alice reads\n%s", text)
	}
}

// What was read at an offset stays what it is, wherever one reads, also when a
// directory is closed meanwhile; what comes then is not shown.
func TestEventsStayWhereTheyAre(t *testing.T) {
	hidden := []string{"none"}
	f := newFake()
	f.hidden, f.events.data = &hidden, eventLines(2500)
	tree := New(f)
	c := openFor(t, tree, alice)
	first, err := io.ReadAll(io.NewSectionReader(c, 0, 1<<40))
	if err != nil || int64(len(first)) != c.Size() {
		t.Fatalf("%d bytes of %d, %v", len(first), c.Size(), err)
	}
	hidden = []string{"shut"}
	f.events.data += strings.ReplaceAll(eventLines(500), "/f", "/late")
	rnd := rand.New(rand.NewPCG(1, 2))
	for range 30 {
		off, p := rnd.Int64N(int64(len(first))), make([]byte, 1+rnd.IntN(9000))
		n, err := c.ReadAt(p, off)
		want := first[off:]
		if n < min(len(p), len(want)) || string(p[:min(n, len(want))]) != string(want[:min(n, len(want))]) || n == 0 {
			t.Fatalf("ReadAt(%d, %d) = %d, %v: %.80q, want %.80q", len(p), off, n, err, p[:n], want)
		}
	}
	rest, err := io.ReadAll(io.NewSectionReader(c, int64(len(first)), 1<<40))
	if err != nil || len(rest) == 0 || strings.Contains(string(rest), "shut") {
		t.Errorf("%v, %.300s", err, rest)
	}
	if text := string(read(t, tree, eventsFile, alice)); strings.Contains(text, "shut") {
		t.Errorf("a new reader is shown what is shut")
	}
}

// One user cannot keep any number of renderings.
func TestEventsHaveABoundOfReaders(t *testing.T) {
	f := newFake()
	f.hidden = &[]string{}
	tree := New(f)
	for range maxEventReaders {
		openFor(t, tree, alice)
	}
	_, err := tree.Open(eventsFile, alice)
	wantErrno(t, "one more open", err, syscall.EMFILE)
	openFor(t, tree, stranger)
	openFor(t, tree, root)
}

// Records of paths that a viewer cannot reach show nowhere, and the labels of others
// are not shown with the rest.
func TestRecordsAreFiltered(t *testing.T) {
	hidden := []string{"src", "z"}
	f := busy()
	f.hidden = &hidden
	tree := New(f)
	for _, name := range []string{"status", "status.json"} {
		text := string(read(t, tree, name, stranger))
		for _, word := range []string{"src", "agent-7", "vim", "z/last"} {
			if strings.Contains(text, word) {
				t.Errorf("%s shows %q:\n%s", name, word, text)
			}
		}
		if !strings.Contains(text, "old report.txt") {
			t.Errorf("%s lacks what the viewer may see:\n%s", name, text)
		}
	}
	for _, path := range []string{"held/src", "held/src/a.json.lock", "waiting/src", "waiting/z/last"} {
		if _, err := tree.Stat(path, stranger); err != syscall.ENOENT {
			t.Errorf("Stat(%s): %v", path, err)
		}
		if _, err := tree.Open(path, stranger); err != syscall.ENOENT {
			t.Errorf("Open(%s): %v", path, err)
		}
		if _, err := tree.Stat(path, root); err != nil {
			t.Errorf("root's Stat(%s): %v", path, err)
		}
	}
	wantErrno(t, "rm", tree.Remove("held/src/a.json.lock", stranger), syscall.ENOENT)
	hidden = nil
	if text := string(read(t, tree, "held/src/a.json.lock", stranger)); strings.Contains(text, "agent-7") {
		t.Errorf("another's label shows:\n%s", text)
	}
	if text := string(read(t, tree, "held/src/a.json.lock", alice)); !strings.Contains(text, "agent-7") {
		t.Errorf("the viewer's own label does not show:\n%s", text)
	}
}
