package history

import (
	"fmt"
	"testing"
)

// fill enters that many versions of files in 100 directories, ten of each.
func fill(w *world, versions int) {
	for i := range versions {
		path := fmt.Sprintf("project-%d/src/file-%d.json", i%100, i/10)
		w.s.Add(Version{
			Path: path, Event: Commit, Operation: "open", Program: "python3", Session: "0123abcd-17", PID: 4711, Token: 17,
			State: State{Ino: uint64(i), Size: 4096, Mtime: int64(i)}, Rights: Rights{Mode: 0o644},
		})
	}
}

// A start with as many records as there can be.
func BenchmarkOpen(b *testing.B) {
	w := newWorld(b, Options{})
	fill(w, 100_000)
	for b.Loop() {
		w.reopen(false)
	}
	b.ReportMetric(float64(w.s.log.Size())/100_000, "bytes/record")
}

func BenchmarkAdd(b *testing.B) {
	w := newWorld(b, Options{MaxRecords: 1 << 30})
	b.ReportAllocs()
	i := 0
	for b.Loop() {
		i++
		w.s.Add(Version{Path: "a/b/c.json", Event: Commit, Operation: "open", Program: "python3", Session: "0123abcd-17", State: State{Ino: uint64(i)}})
	}
}
