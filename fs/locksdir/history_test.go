package locksdir

import (
	"encoding/json"
	"fmt"
	"strings"
	"syscall"
	"testing"
	"time"

	"latchfs/fs/report"
)

// withHistory has versions of a file, of one in a directory, and of one whose
// directory has the name of a version.
func withHistory() *fakeSource {
	f := newFake()
	add := func(path string, number uint64, mode uint32, content string) {
		k := Version{
			Path: path, Number: number, Time: noon, Base: number - 1, Event: "commit", Operation: "open",
			Program: "vim", PID: 7, UID: 1000, Session: "s-1", Token: 3, Bytes: int64(len(content)),
			Kept: content != "", FileUID: 1000, FileGID: 1000, Mode: mode, Mtime: noon,
			Content: func() (Content, error) { return newText([]byte(content)), nil },
		}
		f.versions = append(f.versions, k)
	}
	add("f", 1, 0o644, "one")
	add("f", 2, 0o600, "two")
	add("f", 3, 0o644, "")
	add("d/e/g", 1, 0o644, "deep")
	add("x", 7, 0o644, "seven")
	add("x", 8, 0o644, "eight")
	add("x/7", 1, 0o644, "below")
	add("odd\n\xff", 1, 0o644, "odd")
	f.versions[2].Event, f.versions[2].Current, f.versions[2].From = "delete", true, "a\x1b"
	return f
}

func listed(t *testing.T, tree *Tree, path string, v report.Viewer) string {
	t.Helper()
	entries, err := tree.List(path, v)
	if err != nil {
		t.Fatalf("List(%q): %v", path, err)
	}
	var names []string
	for _, e := range entries {
		name := e.Name
		if e.Dir {
			name += "/"
		}
		names = append(names, name)
	}
	return strings.Join(names, " ")
}

func TestHistoryTree(t *testing.T) {
	tree := New(withHistory())
	for _, tt := range []struct {
		v          report.Viewer
		path, want string
	}{
		{root, "history", "d/ f/ odd\n\xff/ x/"},
		{root, "history/f", "1 2"},
		{stranger, "history/f", "1"},
		{root, "history/d", "e/"},
		{root, "history/d/e/g", "1"},
		{root, "history/x", "7/ 7~ 8"},
		{root, "history/x/7", "1"},
	} {
		if got := listed(t, tree, tt.path, tt.v); got != tt.want {
			t.Errorf("uid %d, %s: %q, want %q", tt.v.UID, tt.path, got, tt.want)
		}
	}
	for path, want := range map[string]string{
		"history/f/2": "two", "history/d/e/g/1": "deep", "history/x/7~": "seven", "history/x/7/1": "below",
	} {
		if got := string(read(t, tree, path, root)); got != want {
			t.Errorf("%s is %q, want %q", path, got, want)
		}
	}
	if e, err := tree.Stat("history/f/2", root); err != nil || e.Mode != 0o400 || e.UID != 1000 || e.GID != 1000 || e.Dir {
		t.Errorf("history/f/2: %+v, %v", e, err)
	}
}

// The owner reads a version of a file that it could write and not read.
func TestModeOfAVersion(t *testing.T) {
	for mode, want := range map[uint32]uint32{0o200: 0o400, 0: 0o400, 0o664: 0o444, 0o755: 0o444} {
		if e := (&Version{Mode: mode}).entry("1"); e.Mode != want {
			t.Errorf("a version with mode %o is shown with %o, want %o", mode, e.Mode, want)
		}
	}
}

func TestNoSuchVersion(t *testing.T) {
	tree := New(withHistory())
	for _, path := range []string{
		"history/f/3", "history/f/1~", "history/f/4", "history/f/x", "history/f/1/x", "history/f/01", "history/f/+1", "history/f/",
		"history/g", "history/1", "history/d/1", "history/x/8~", "history//f",
	} {
		_, err := tree.Stat(path, root)
		wantErrno(t, "Stat "+path, err, syscall.ENOENT)
	}
	_, err := tree.Stat("history/f/2", stranger)
	wantErrno(t, "another's private version", err, syscall.ENOENT)
	_, err = tree.Open("history/f", root)
	wantErrno(t, "opening a directory", err, syscall.EISDIR)
	_, err = tree.List("history/f/1", root)
	wantErrno(t, "listing a version", err, syscall.ENOTDIR)
	wantErrno(t, "removing a version", tree.Remove("history/f/1", root), syscall.EPERM)
}

func TestHistoryLines(t *testing.T) {
	tree := New(withHistory())
	text := string(read(t, tree, "history.jsonl", root))
	golden(t, "history.jsonl", []byte(text))
	for line := range strings.Lines(text) {
		var k struct {
			Path    string
			Version int
			Time    time.Time
		}
		if err := json.Unmarshal([]byte(line), &k); err != nil || k.Version == 0 || !k.Time.Equal(noon) {
			t.Errorf("%s: %v", line, err)
		}
	}
	if n := strings.Count(string(read(t, tree, "history.jsonl", stranger)), "\n"); n != 7 {
		t.Errorf("a stranger sees %d lines", n)
	}
}

// A rendering serves as long as nothing has changed, and a while longer when it
// is long and was expensive.
func TestHistoryIsRenderedSeldom(t *testing.T) {
	src := withHistory()
	tree := New(src)
	for range 3 {
		read(t, tree, "history.jsonl", root)
	}
	if src.histories.Load() != 1 {
		t.Errorf("rendered %d times", src.histories.Load())
	}
	src.historyGen++
	read(t, tree, "history.jsonl", root)
	if src.histories.Load() != 2 {
		t.Errorf("rendered %d times after a change", src.histories.Load())
	}
	src.cost = 100 * time.Millisecond
	before := src.histories.Load()
	for range 2 { // short, and slow for the machine was busy
		src.historyGen++
		read(t, tree, "history.jsonl", root)
	}
	if n := src.histories.Load() - before; n != 2 {
		t.Errorf("a short one was rendered %d times after two changes", n)
	}
	for i := range cheapHistory / 100 {
		src.versions = append(src.versions, Version{Path: "long", Number: uint64(i + 1), Time: noon, Event: "commit", Program: "python3"})
	}
	before = src.histories.Load()
	for range 2 {
		src.historyGen++
		read(t, tree, "history.jsonl", root)
	}
	if n := src.histories.Load() - before; n != 1 {
		t.Errorf("an expensive one was rendered %d times", n)
	}
	src.now = src.now.Add(maxHistoryAge)
	read(t, tree, "history.jsonl", root)
	if n := src.histories.Load() - before; n != 2 {
		t.Errorf("an old one serves: rendered %d times", n)
	}
	for uid := range uint32(20) {
		read(t, tree, "history.jsonl", report.Viewer{UID: uid})
	}
	if n := len(tree.histories); n > maxHistories {
		t.Errorf("%d renderings are kept", n)
	}
	src.now = src.now.Add(time.Hour)
	if tree.Trim(); len(tree.histories) > 0 {
		t.Error("Trim keeps old renderings")
	}
}

func BenchmarkHistoryLines(b *testing.B) {
	src := newFake()
	for i := range 100_000 {
		src.versions = append(src.versions, Version{
			Path: fmt.Sprintf("project/src/file-%d.json", i/10), Number: uint64(i%10 + 1), Time: noon, Base: uint64(i % 10),
			Event: "commit", Operation: "open", Program: "python3", PID: 4711, UID: 1000, Session: "0123abcd-17", Token: 17, Bytes: 4096, Kept: true,
		})
	}
	tree := New(src)
	for b.Loop() {
		src.historyGen++
		if _, err := tree.Open("history.jsonl", root); err != nil {
			b.Fatal(err)
		}
	}
}

// Who walks through a directory looks at it for each name in it: no look lists the names.
func TestLooksListNothing(t *testing.T) {
	f := withHistory()
	tree := New(f)
	for path, dir := range map[string]bool{
		"history": true, "history/d": true, "history/d/e": true, "history/f": true, "history/f/1": false,
		"history/x/7": true, "history/x/7~": false, "history/x/8": false,
	} {
		if e, err := tree.Stat(path, root); err != nil || e.Dir != dir {
			t.Errorf("%s: %+v, %v", path, e, err)
		}
	}
	for _, path := range []string{"history/x/8~", "history/x/07", "history/f/3", "history/none", "history/f/1/2"} {
		if e, err := tree.Stat(path, root); err != syscall.ENOENT {
			t.Errorf("%s: %+v, %v", path, e, err)
		}
	}
	if f.namesListed != 0 {
		t.Errorf("names were listed %d times", f.namesListed)
	}
}
