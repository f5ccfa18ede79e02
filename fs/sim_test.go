package fs

import (
	"flag"
	"fmt"
	"maps"
	"os"
	"slices"
	"strings"
	"testing"
	"time"
)

var (
	simSeed  = flag.Uint64("seed", 0, "run this simulation alone, and show what happens")
	simTrace = flag.Bool("trace", false, "show each request of the simulation, too")
	simSeeds = flag.Int("seeds", 0, "how many simulations to run")
)

// maxBroken is after how many failures there is enough to read.
const maxBroken = 3

// TestSimulation runs simulations of programs that use the same few files: see
// docs/architecture.md.
func TestSimulation(t *testing.T) {
	dir := simBase(t)
	if *simSeed != 0 {
		w := simulate(t, dir, simOptions{seed: *simSeed, script: drawScript(*simSeed), trace: *simTrace})
		t.Log("\n" + w.transcript())
		if len(w.failures) > 0 {
			t.Fatal(strings.Join(w.failures, "\n"))
		}
		return
	}
	first, n := uint64(1), 100
	if os.Getenv("LATCHFS_STRESS") != "" {
		first, n = uint64(time.Now().UnixNano()), 10_000
	}
	if *simSeeds != 0 {
		first, n = 1, *simSeeds
	}
	broken := 0
	done := map[string]int{}
	steps, began := 0, time.Now()
	for seed := first; seed < first+uint64(n) && broken < maxBroken; seed++ {
		w := simulate(t, dir, simOptions{seed: seed, script: drawScript(seed)})
		steps += w.steps
		for k, v := range w.model.done {
			done[k] += v
		}
		if len(w.failures) > 0 {
			broken++
			t.Errorf("seed %d:\n%s\nTo see it again: go test ./fs -v -run 'TestSimulation$' -args -seed %d", seed, w.transcript(), seed)
		}
	}
	took := time.Since(began)
	t.Logf("%d seeds, %d steps in %v: %.0f seeds and %.0f steps a second", n, steps, took, float64(n)/took.Seconds(), float64(steps)/took.Seconds())
	for _, k := range slices.Sorted(maps.Keys(done)) {
		t.Logf("%-24s %d", k, done[k])
	}
}

func (w *simWorld) transcript() string {
	return fmt.Sprintf("The programs:\n%s\nWhat happened:\n%s", w.opts.script, strings.Join(w.lines, "\n"))
}

// A reader has found the file's node when a writer takes that over, and is killed. What
// the writer has left is not what the reader opens.
func TestReaderBesideAKilledWriter(t *testing.T) {
	script := simScript{programs: []simProgram{simProgramOf("ann", "cat a"), simProgramOf("bob", "echo a")}}
	turns := []string{
		"ann", "ann", "ann", // it has looked the name up
		"bob", "bob", "bob", "bob", // it has opened the file and written the first part
		"kill bob", "bob", "bob", // it has closed the file
		"ann",
	}
	w := simulate(t, simBase(t), simOptions{seed: 1, script: script, turns: turns, trace: true})
	t.Log("\n" + w.transcript())
	if len(w.failures) > 0 {
		t.Fatal(strings.Join(w.failures, "\n"))
	}
}
