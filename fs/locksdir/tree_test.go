package locksdir

import (
	"encoding/json"
	"errors"
	"io/fs"
	"os"
	"slices"
	"strings"
	"syscall"
	"testing"
	"time"

	"latchfs/fs/report"
)

func TestGolden(t *testing.T) {
	if err := os.MkdirAll("testdata", 0o755); err != nil {
		t.Fatal(err)
	}
	tests := []struct {
		golden string
		path   string
		viewer report.Viewer
		src    *fakeSource
	}{
		{"status", "status", stranger, busy()},
		{"status-empty", "status", root, newFake()},
		{"status-root.json", "status.json", root, busy()},
		{"status-stranger.json", "status.json", stranger, busy()},
		{"status-empty.json", "status.json", root, newFake()},
		{"held.json", "held/src/a.json.lock", alice, busy()},
		{"held-stranger.json", "held/src/a.json.lock", stranger, busy()},
		{"held-shared.json", "held/db.lck.lock", alice, busy()},
		{"held-nasty.json", "held/evil\n\x1b[2J\xff.txt.lock", alice, busy()},
		{"waiting.jsonl", "waiting/src/a.json", alice, busy()},
		{"waiting-stranger.jsonl", "waiting/src/a.json", stranger, busy()},
		{"names-status", "status", stranger, deploys()},
		{"names-status.json", "status.json", stranger, deploys()},
		{"names.json", "names/deploy.lock", alice, deploys()},
		{"names-stale.json", "names/backup.lock", stranger, deploys()},
		{"names-queue.jsonl", "names/deploy.queue", stranger, deploys()},
		{"held-tree.json", "held/memory.lock", stranger, deploys()},
		{"policy", "policy", stranger, newFake()},
	}
	for _, tt := range tests {
		t.Run(tt.golden, func(t *testing.T) {
			golden(t, tt.golden, read(t, New(tt.src), tt.path, tt.viewer))
		})
	}
}

func TestListTop(t *testing.T) {
	entries, err := New(busy()).List("", stranger)
	if err != nil {
		t.Fatal(err)
	}
	var names []string
	for _, e := range entries {
		names = append(names, e.Name)
		if isDir := slices.Contains([]string{"held", "history", "names", "rejected", "waiting"}, e.Name); e.Dir != isDir {
			t.Errorf("%s: Dir = %v", e.Name, e.Dir)
		}
		if e, err := New(busy()).Stat(e.Name, stranger); err != nil || e.Mtime.IsZero() {
			t.Errorf("%s has no time: %v", e.Name, err)
		}
	}
	want := []string{"README", "events.jsonl", "held", "history", "history.jsonl", "names", "policy", "programs", "rejected", "status", "status.json", "waiting", "why"}
	if !slices.Equal(names, want) {
		t.Errorf("the root lists %q, want %q", names, want)
	}
}

// Listing the root takes no snapshot of the table and renders no file.
func TestListTopIsCheap(t *testing.T) {
	src := busy()
	if _, err := New(src).List("", stranger); err != nil {
		t.Fatal(err)
	}
	if n := src.heldCalls.Load(); n != 0 {
		t.Errorf("the list took %d snapshots", n)
	}
}

// A record belongs to its holder's user and can be replaced by that user, and
// its time is that of the last sign of life.
func TestHeldEntry(t *testing.T) {
	e, err := New(busy()).Stat("held/src/a.json.lock", stranger)
	if err != nil {
		t.Fatal(err)
	}
	if e.Name != "a.json.lock" || e.Dir || e.UID != 1000 || e.Mode != 0o644 || !e.Mtime.Equal(noon.Add(-4*time.Second)) {
		t.Errorf("Stat = %+v", e)
	}
}

func TestErrors(t *testing.T) {
	tree := New(busy())
	for path, want := range map[string]syscall.Errno{
		"nothing": syscall.ENOENT, "held/nothing.lock": syscall.ENOENT, "held/src/a.json": syscall.ENOENT,
		"waiting/src/nothing": syscall.ENOENT, "status/x": syscall.ENOTDIR, "held/src/a.json.lock/x": syscall.ENOENT,
	} {
		_, err := tree.Stat(path, root)
		wantErrno(t, "Stat "+path, err, want)
		_, err = tree.Open(path, root)
		wantErrno(t, "Open "+path, err, want)
		_, err = tree.List(path, root)
		wantErrno(t, "List "+path, err, want)
		wantErrno(t, "Remove "+path, tree.Remove(path, root), want)
	}
	for _, path := range []string{"", "held", "held/src", "names", "waiting", "waiting/src"} {
		_, err := tree.Open(path, root)
		wantErrno(t, "Open "+path, err, syscall.EISDIR)
		wantErrno(t, "Remove "+path, tree.Remove(path, root), syscall.EISDIR)
	}
	for _, path := range []string{"status", "held/src/a.json.lock", "waiting/src/a.json"} {
		_, err := tree.List(path, root)
		wantErrno(t, "List "+path, err, syscall.ENOTDIR)
	}
	wantErrno(t, "Remove status", tree.Remove("status", root), syscall.EPERM)
	wantErrno(t, "Remove waiting", tree.Remove("waiting/src/a.json", root), syscall.EPERM)
	if _, err := tree.Stat("nothing", root); !errors.Is(err, fs.ErrNotExist) {
		t.Errorf("a missing entry gives %v, which is not fs.ErrNotExist", err)
	}
}

func TestRemove(t *testing.T) {
	src := busy()
	tree := New(src)
	if err := tree.Remove("held/src/a.json.lock", alice); err != nil {
		t.Fatal(err)
	}
	if want := []string{"src/a.json"}; !slices.Equal(src.released, want) {
		t.Errorf("released %q, want %q", src.released, want)
	}
	src.refuse = syscall.EBUSY
	wantErrno(t, "Remove of an active lock", tree.Remove("held/src/a.json.lock", stranger), syscall.EBUSY)
}

// The names that cannot be shown as they are.
func TestOddNames(t *testing.T) {
	long := strings.Repeat("ü", 127) // 254 bytes
	src := newFake()
	for i, path := range []string{"", "a", "a/b", "a.lock/c", "a.lock/d", "dir/" + long, "x/../y", "", "x"} {
		src.held = append(src.held, report.Record{Path: path, Token: uint64(i)})
		src.waiting = append(src.waiting, report.Record{Path: path})
	}
	tree := New(src)
	want := map[string][]string{
		"held":        {".lock", "a", "a.lock", "a~ca978112.lock", "dir", "x.lock", "~fec01a9e.lock"},
		"held/a":      {"b.lock"},
		"held/a.lock": {"c.lock", "d.lock"},
		"held/dir":    {strings.Repeat("ü", 120) + "~64f91a18.lock"},
		"waiting":     {"a", "a.lock", "a~ca978112", "dir", "x", "~e3b0c442", "~fec01a9e"},
		"waiting/dir": {long},
	}
	for dir, names := range want {
		entries, err := tree.List(dir, root)
		if err != nil {
			t.Fatal(err)
		}
		var got []string
		for _, e := range entries {
			got = append(got, e.Name)
		}
		if !slices.Equal(got, names) {
			t.Errorf("%s lists %q, want %q", dir, got, names)
		}
	}
	// Those who hold a directory and something in a directory of the record's
	// name are told apart.
	for path, token := range map[string]float64{"held/a~ca978112.lock": 1, "held/.lock": 0, "held/~fec01a9e.lock": 6} {
		var record map[string]any
		if err := json.Unmarshal(read(t, tree, path, root), &record); err != nil {
			t.Fatal(err)
		}
		if record["token"] != token {
			t.Errorf("%s is the record of token %v, want %v", path, record["token"], token)
		}
	}
}

// A name made on purpose to look like an odd name of another path keeps its own,
// and the other one moves on to more digits.
func TestOddNameTaken(t *testing.T) {
	src := newFake()
	for _, path := range []string{"a", "a.lock/c", "a~ca978112", "a~ca978112ca1bbdca"} {
		src.held = append(src.held, report.Record{Path: path})
	}
	entries, err := New(src).List("held", root)
	if err != nil {
		t.Fatal(err)
	}
	var names []string
	for _, e := range entries {
		names = append(names, e.Name)
	}
	want := []string{"a.lock", "a~ca978112.lock", "a~ca978112ca1bbdca.lock",
		"a~ca978112ca1bbdcafac231b39a23dc4d.lock"}
	if !slices.Equal(names, want) {
		t.Errorf("held lists %q, want %q", names, want)
	}
}

// The root's record is called .lock, and no other one ever is.
func TestBrokenPathIsNotTheRoot(t *testing.T) {
	src := newFake()
	src.held = []report.Record{{Path: "x/../y"}}
	if _, err := New(src).Stat("held/~fec01a9e.lock", root); err != nil {
		t.Error(err)
	}
}

// status.json marks as one's own what an ancestor of the viewer holds, and only
// the very process, not a later one of the same number.
func TestWeHoldIt(t *testing.T) {
	tests := []struct {
		name   string
		viewer report.Viewer
		want   bool
	}{
		{"the holder", report.Viewer{PID: 4711}, true},
		{"a child", report.Viewer{PID: 9000, Lineage: []report.Process{{PID: 9000, Start: 200}, {PID: 4711, Start: 99}}}, true},
		{"a child of a later process", report.Viewer{PID: 9000, Lineage: []report.Process{{PID: 9000, Start: 200}, {PID: 4711, Start: 150}}}, false},
		{"a later process of that number", report.Viewer{PID: 4711, Lineage: []report.Process{{PID: 4711, Start: 150}}}, false},
		{"somebody else", report.Viewer{PID: 9000}, false},
		{"a foreign process", report.Viewer{PID: 0}, false},
	}
	tree := New(busy())
	for _, tt := range tests {
		t.Run(tt.name, func(t *testing.T) {
			var status struct {
				Locks []struct {
					LockName string `json:"lock_name"`
					WeHoldIt bool   `json:"we_hold_it"`
				}
			}
			if err := json.Unmarshal(read(t, tree, "status.json", tt.viewer), &status); err != nil {
				t.Fatal(err)
			}
			for _, l := range status.Locks {
				if want := tt.want && l.LockName == "src/a.json"; l.WeHoldIt != want {
					t.Errorf("%s: we_hold_it = %v, want %v", l.LockName, l.WeHoldIt, want)
				}
			}
		})
	}
}

// What is open does not change under the reader, except the audit trail.
func TestOpenIsASnapshot(t *testing.T) {
	src := busy()
	tree := New(src)
	status, err := tree.Open("status", root)
	if err != nil {
		t.Fatal(err)
	}
	log, err := tree.Open("events.jsonl", root)
	if err != nil {
		t.Fatal(err)
	}
	size := status.Size()
	src.gen++
	src.held = nil
	src.events.data = "{}\n"
	if status.Size() != size {
		t.Errorf("an open status changed its size from %d to %d", size, status.Size())
	}
	b := make([]byte, 10)
	if n, _ := log.ReadAt(b, 0); string(b[:n]) != "{}\n" || log.Size() != 3 {
		t.Errorf("an open events.jsonl has %q, %d bytes", b[:n], log.Size())
	}
}

// tail -f goes by size and time.
func TestEventsTime(t *testing.T) {
	src := newFake()
	tree := New(src)
	before, _ := tree.Stat("events.jsonl", root)
	src.events.data = "{}\n"
	after, _ := tree.Stat("events.jsonl", root)
	src.now = src.now.Add(time.Minute)
	later, _ := tree.Stat("events.jsonl", root)
	if after.Size != 3 || !after.Mtime.Equal(noon) || !before.Mtime.Before(noon) || !later.Mtime.Equal(noon) {
		t.Errorf("events.jsonl: %+v, then %+v, then %+v", before, after, later)
	}
}

// The time of held/ is when the table changed, as far as anybody saw it.
func TestDirectoryTime(t *testing.T) {
	src := busy()
	tree := New(src)
	mtime := func() time.Time {
		e, err := tree.Stat("held", root)
		if err != nil {
			t.Fatal(err)
		}
		return e.Mtime
	}
	if got := mtime(); !got.Equal(src.Started()) {
		t.Errorf("before any change: %v", got)
	}
	src.gen++
	mtime()
	src.now = src.now.Add(time.Minute)
	if got := mtime(); !got.Equal(noon) {
		t.Errorf("a minute after a change: %v, want %v", got, noon)
	}
}

func TestReadmeNamesWhatIsThere(t *testing.T) {
	tree := New(busy())
	text := string(read(t, tree, "README", stranger))
	entries, _ := tree.List("", stranger)
	for _, e := range entries {
		if e.Name != "README" && !strings.Contains(text, "\n  "+e.Name) {
			t.Errorf("README does not mention %s", e.Name)
		}
	}
	for i, line := range strings.Split(text, "\n") {
		if len(line) > 80 {
			t.Errorf("README line %d is longer than 80", i+1)
		}
	}
}
