package locksdir

import (
	"fmt"
	"strings"
	"sync/atomic"
	"testing"
	"time"

	"latchfs/fs/report"
)

// manyLocks is a source with n held locks in directories of a thousand, and a
// tenth as many waiters.
func manyLocks(n int) *fakeSource {
	f := newFake()
	for i := range n {
		path := fmt.Sprintf("project-%03d/src/file-%06d.json", i/1000, i)
		f.held = append(f.held, report.Record{
			Path: path, Mode: "exclusive", Class: "session", Asker: report.Asker{Owner: report.Process{PID: int32(i + 2), Start: uint64(i)}, Host: "deimos", Program: "python3", Cmdline: []string{"python3", "/opt/agent/run.py", path}, Cwd: "/srv/data", UID: 1000}, Session: fmt.Sprintf("s-%d", i), Operation: "open", Token: uint64(i + 1),
			Since: noon.Add(-time.Duration(i) * time.Second), LastSeen: noon, TTL: 900 * time.Second,
		})
		if i%10 == 0 {
			w := f.held[i]
			w.WaitsFor, w.Ahead = []string{"python3[2]", "python3[3]"}, 100
			f.waiting = append(f.waiting, w)
		}
	}
	return f
}

// One snapshot serves until the table moves or the heartbeats grow old.
func TestSnapshotIsReused(t *testing.T) {
	src := busy()
	tree := New(src)
	steps := []struct {
		name string
		do   func()
		want int64 // snapshots taken so far
	}{
		{"first reader", func() {}, 1},
		{"again", func() {}, 1},
		{"400 ms later", func() { src.now = src.now.Add(400 * time.Millisecond) }, 1},
		{"the table moved", func() { src.gen++ }, 2},
		{"600 ms later", func() { src.now = src.now.Add(600 * time.Millisecond) }, 3},
		{"the clock was set back", func() { src.now = src.now.Add(-time.Hour) }, 4},
	}
	for _, s := range steps {
		s.do()
		for _, path := range []string{"status", "status.json", "held/db.lck.lock", "waiting/src/a.json"} {
			read(t, tree, path, alice)
		}
		if got := src.heldCalls.Load(); got != s.want {
			t.Errorf("%s: %d snapshots, want %d", s.name, got, s.want)
		}
	}
}

// The size that Stat tells is the one that an Open half a second later gives,
// although the ages in status have grown meanwhile.
func TestOpenAfterStat(t *testing.T) {
	src := busy()
	tree := New(src)
	read(t, tree, "status", root)
	src.now = src.now.Add(550 * time.Millisecond)
	e, err := tree.Stat("status", root)
	if err != nil {
		t.Fatal(err)
	}
	src.now = src.now.Add(450 * time.Millisecond)
	c, err := tree.Open("status", root)
	if err != nil {
		t.Fatal(err)
	}
	if c.Size() != e.Size || src.heldCalls.Load() != 2 {
		t.Errorf("Stat says %d, Open gives %d, after %d snapshots", e.Size, c.Size(), src.heldCalls.Load())
	}
}

// Walking held/ of a table that changes all the time takes a number of snapshots
// that depends on the time it takes, not on the number of files.
func TestWalkIsNotQuadratic(t *testing.T) {
	src := manyLocks(2000)
	src.cost = 20 * time.Millisecond
	tree := New(src)
	for _, dir := range []string{"held/project-000/src", "held/project-001/src"} {
		entries, err := tree.List(dir, root)
		if err != nil {
			t.Fatal(err)
		}
		for _, e := range entries {
			src.gen++
			src.now = src.now.Add(100 * time.Microsecond)
			if _, err := tree.Stat(dir+"/"+e.Name, root); err != nil {
				t.Fatal(err)
			}
		}
	}
	// 2,000 files at 0.1 ms are 200 ms, and a snapshot serves for 100 ms.
	if got := src.heldCalls.Load(); got > 4 {
		t.Errorf("%d snapshots for 2,000 files", got)
	}
}

// A snapshot of few locks is never out of date, also one during which the machine was held
// up: whoever removes a lock's record does not find it a moment later.
func TestSmallTableIsFresh(t *testing.T) {
	for _, cost := range []time.Duration{time.Millisecond, time.Second} {
		src := newFake()
		src.cost = cost
		tree := New(src)
		read(t, tree, "status", root)
		src.held, src.gen = []report.Record{{Path: "new"}}, 1
		if _, err := tree.Stat("held/new.lock", root); err != nil {
			t.Errorf("a snapshot takes %v: a lock just taken: %v", cost, err)
		}
		src.held, src.gen = nil, 2
		if _, err := tree.Stat("held/new.lock", root); err == nil {
			t.Errorf("a snapshot takes %v: a lock just released is still there", cost)
		}
	}
}

func TestTrim(t *testing.T) {
	src := busy()
	tree := New(src)
	read(t, tree, "status", root)
	if tree.Trim(); tree.snap == nil {
		t.Error("Trim dropped a snapshot that can still be used")
	}
	src.now = src.now.Add(2 * time.Second)
	if tree.Trim(); tree.snap != nil {
		t.Error("Trim kept an old snapshot")
	}
}

// Renderings for many viewers do not pile up.
func TestTextsAreBounded(t *testing.T) {
	tree := New(busy())
	for uid := range uint32(100) {
		read(t, tree, "status.json", report.Viewer{UID: uid, PID: 1})
	}
	if n := len(tree.snap.texts); n > maxTexts {
		t.Errorf("%d renderings are kept", n)
	}
}

// restless is a source whose table changes all the time.
type restless struct {
	*fakeSource
	moves atomic.Uint64
}

func (r *restless) Generation() uint64 { return r.moves.Add(1) }

// Many readers at once do not get in each other's way.
func TestConcurrentReaders(t *testing.T) {
	tree := New(&restless{fakeSource: busy()})
	for uid := range uint32(8) {
		t.Run(fmt.Sprint("uid ", uid), func(t *testing.T) {
			t.Parallel()
			v := report.Viewer{UID: uid, PID: int32(uid)}
			for _, path := range []string{"status", "status.json", "held/db.lck.lock", "waiting/src/a.json", "why", "events.jsonl"} {
				read(t, tree, path, v)
			}
			for _, dir := range []string{"", "held", "held/src", "waiting"} {
				if _, err := tree.List(dir, v); err != nil {
					t.Error(err)
				}
			}
			tree.Trim()
		})
	}
}

// BenchmarkStatus renders 100,000 locks and 10,000 waiters, each time from a new
// snapshot; both files together are to take less than a second.
func BenchmarkStatus(b *testing.B) {
	for _, paths := range [][]string{{"status"}, {"status.json"}, {"status", "status.json"}} {
		b.Run(strings.Join(paths, "+"), func(b *testing.B) {
			src := manyLocks(100_000)
			tree := New(src)
			b.ReportAllocs()
			var size int64
			for b.Loop() {
				src.gen++
				size = 0
				for _, path := range paths {
					c, err := tree.Open(path, root)
					if err != nil {
						b.Fatal(err)
					}
					size += c.Size()
				}
			}
			b.ReportMetric(float64(size), "bytes")
		})
	}
}

// BenchmarkWalk lists held/ with its 100 directories and stats all 100,000
// files, as `ls -lR` does.
func BenchmarkWalk(b *testing.B) {
	src := manyLocks(100_000)
	tree := New(src)
	for b.Loop() {
		src.gen++
		for i := range 100 {
			dir := fmt.Sprintf("held/project-%03d/src", i)
			entries, err := tree.List(dir, root)
			if err != nil {
				b.Fatal(err)
			}
			for _, e := range entries {
				if _, err := tree.Stat(dir+"/"+e.Name, root); err != nil {
					b.Fatal(err)
				}
			}
		}
	}
}

func BenchmarkRecord(b *testing.B) {
	src := manyLocks(1)
	tree := New(src)
	b.ReportAllocs()
	for b.Loop() {
		if _, err := tree.Stat("held/project-000/src/file-000000.json.lock", root); err != nil {
			b.Fatal(err)
		}
	}
}
