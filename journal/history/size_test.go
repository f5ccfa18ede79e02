package history

import (
	"fmt"
	"os"
	"path/filepath"
	"runtime"
	"strconv"
	"strings"
	"testing"
	"time"
)

// resident is what the process has in memory, in bytes, after everything that nobody
// uses has been given back.
func resident(t testing.TB) int64 {
	t.Helper()
	runtime.GC()
	runtime.GC()
	var m runtime.MemStats
	runtime.ReadMemStats(&m)
	return int64(m.HeapAlloc)
}

// pathOf is the path of a version when versions go round so many paths, a hundred of
// them in one directory.
func pathOf(i, paths int) string {
	i %= paths
	return fmt.Sprintf("work/project-%d/src/module-%d.json", i/100, i%100)
}

// addMany enters so many versions of so many paths.
func (w *world) addMany(versions, paths int) {
	for i := range versions {
		w.s.Add(Version{
			Path: pathOf(i, paths), Event: Commit, Operation: "open", Program: "python3", Actor: fmt.Sprint("agent-", i%7),
			Session: "0123abcd-" + strconv.Itoa(i), PID: int32(4711 + i), UID: 1000 + uint32(i%3), Token: uint64(i),
			State: State{Ino: uint64(i), Size: int64(i), Mtime: int64(i)}, Rights: Rights{UID: 1000, GID: 1000, Mode: 0o644},
		})
	}
}

// keepMany saves so many files so often, with contents that are kept.
func (w *world) keepMany(versions, paths int) {
	for i := range versions {
		v := Version{
			Path: pathOf(i, paths), Event: Commit, Operation: "open", Program: "python3", Actor: fmt.Sprint("agent-", i%7),
			Session: "0123abcd-" + strconv.Itoa(i), PID: int32(4711 + i), UID: 1000 + uint32(i%3), Token: uint64(i),
			State: State{Ino: uint64(i), Size: 1, Mtime: int64(i)}, Rights: Rights{UID: 1000, GID: 1000, Mode: 0o644},
		}
		ref, known := w.s.Match(v.Path, State{Ino: uint64(i - paths), Size: 1, Mtime: int64(i - paths)})
		if known {
			to := filepath.Join(w.path(".state"), ContentPath(ref.Content))
			if os.WriteFile(to, []byte("x"), 0o600) != nil {
				check(w.t, os.MkdirAll(filepath.Dir(to), 0o700))
				check(w.t, os.WriteFile(to, []byte("x"), 0o600))
			}
		}
		w.s.Add(v)
		if known {
			w.s.Keep(v.Path, ref, 10)
			w.s.Reached(ref.Content, Reach{Known: true, Gates: []Gate{{1000, 1000, 0o700}}})
		}
	}
}

// What a version costs in memory is bounded, however much its record says, and so is
// what a name costs.
func TestSize(t *testing.T) {
	for _, c := range []struct {
		versions, paths int
		kept            bool
		most            float64 // bytes of a version
	}{
		{20_000, 20, false, 40},
		{20_000, 20_000, false, 200},
		{2000, 200, true, 250},
	} {
		w := newWorld(t, Options{})
		before := resident(t)
		if c.kept {
			w.keepMany(c.versions, c.paths)
		} else {
			w.addMany(c.versions, c.paths)
		}
		for _, when := range []string{"that was added", "of a history that was opened", "after a rewrite"} {
			if each := float64(resident(t)-before) / float64(c.versions); each > c.most {
				t.Errorf("%d versions of %d paths: a version %s costs %.0f bytes, of which %.0f are meant", c.versions, c.paths, when, each, c.most)
			}
			if when == "that was added" {
				w.reopen(false)
			} else {
				w.s.rewrite()
			}
		}
		if n := len(w.s.Of(pathOf(0, c.paths))); n != c.versions/c.paths {
			t.Errorf("%d versions of %d paths: %d are known", c.versions, c.paths, n)
		}
	}
}

// BenchmarkSize tells what versions cost: in memory, and in the time of what is done
// with them. Run it with -benchtime 1x.
func BenchmarkSize(b *testing.B) {
	for _, c := range []struct {
		versions, paths int
		kept            bool
	}{
		{10_000, 1, false}, {10_000, 1000, false}, {10_000, 10_000, false},
		{100_000, 1, false}, {100_000, 1000, false}, {100_000, 100_000, false}, {100_000, 10_000, true},
		{1_000_000, 1, false}, {1_000_000, 1000, false}, {1_000_000, 1_000_000, false},
	} {
		name := fmt.Sprintf("versions=%d/paths=%d/kept=%v", c.versions, c.paths, c.kept)
		b.Run(name, func(b *testing.B) {
			for range b.N {
				measure(b, c.versions, c.paths, c.kept)
			}
		})
	}
}

func measure(b *testing.B, versions, paths int, kept bool) {
	w := newWorld(b, Options{MaxRecords: 1 << 30})
	before := resident(b)
	start := time.Now()
	lap := func(unit string, per int, by time.Duration) {
		b.ReportMetric(float64(time.Since(start))/float64(per)/float64(by), unit)
		start = time.Now()
	}
	if kept {
		w.keepMany(versions, paths)
	} else {
		w.addMany(versions, paths)
	}
	lap("ns/save", versions, 1)
	b.ReportMetric(float64(resident(b)-before)/float64(versions), "B/version")
	check(b, w.s.Close())
	w.s = nil
	start = time.Now()
	w.open()
	lap("ms/open", 1, time.Millisecond)
	b.ReportMetric(float64(resident(b)-before)/float64(versions), "B/version-opened")
	start = time.Now()
	n := 0
	for i := range min(paths, 100) {
		n += len(w.s.Of(pathOf(i, paths)))
	}
	lap("us/Of", min(paths, 100), time.Microsecond)
	for range 10 {
		w.s.Moved("work/project-0", "work/other", false)
		w.s.Moved("work/other", "work/project-0", false)
	}
	lap("us/rename-100", 20, time.Microsecond)
	w.s.Moved("work", "job", false)
	lap("us/rename-all", 1, time.Microsecond)
	n += len(w.s.Below("job/project-0"))
	lap("us/Below", 1, time.Microsecond)
	w.s.rewrite()
	lap("ms/rewrite", 1, time.Millisecond)
	w.s.o.MaxRecords = versions - 1
	w.s.tidy()
	lap("ms/evict", 1, time.Millisecond)
	if b.Elapsed() > 0 {
		b.ReportMetric(float64(peak(b))/(1<<20), "MiB-peak")
	}
	if n == 0 {
		b.Fatal("nothing is known")
	}
}

// peak is the largest resident set that the process has had.
func peak(t testing.TB) int64 {
	t.Helper()
	text, err := os.ReadFile("/proc/self/status")
	check(t, err)
	for line := range strings.Lines(string(text)) {
		if rest, ok := strings.CutPrefix(line, "VmHWM:"); ok {
			kib, err := strconv.ParseInt(strings.Fields(rest)[0], 10, 64)
			check(t, err)
			return kib << 10
		}
	}
	return 0
}
