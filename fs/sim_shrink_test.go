package fs

import (
	"fmt"
	"slices"
	"strings"
	"testing"
	"time"
)

// A simulation that has failed is run again and again with less in it, as long as it
// fails in the same way: without one of its programs, without one of their commands, without
// the kills. With other programs a seed leads to other turns, so that each attempt has
// several. The shortest story of what is left is what somebody has to read.

const (
	shrinkSeeds = 25   // for each attempt
	shrinkRuns  = 1500 // at most
	// shrinkTime is after how long what was found has to do: the order of what was done
	// before a power cut may take seconds to look for, in each run.
	shrinkTime = time.Minute
)

// shrink returns the shortest simulation that it finds that fails as w has.
func shrink(t *testing.T, dir string, w *simWorld) *simWorld {
	best, runs, began := w, 0, time.Now()
	isOver := func() bool { return runs >= shrinkRuns || time.Since(began) > shrinkTime }
	fails := func(script simScript, seed uint64) bool {
		runs++
		o := w.opts
		o.seed, o.script = seed, script
		x := simulate(t, dir, o)
		if len(x.failures) == 0 || x.kinds[0] != w.kinds[0] {
			return false
		}
		best = x
		return true
	}
	try := func(script simScript) bool {
		for i := range uint64(shrinkSeeds) {
			if isOver() {
				return false
			}
			if fails(script, w.opts.seed+i) {
				return true
			}
		}
		return false
	}
	for again := true; again; {
		again = slices.ContainsFunc(best.opts.script.smaller(), try)
	}
	shortest := best
	for i := range uint64(2 * shrinkSeeds) {
		if time.Since(began) > shrinkTime {
			break
		}
		if fails(shortest.opts.script, w.opts.seed+i) && len(best.lines) < len(shortest.lines) {
			shortest = best
		}
	}
	return shortest
}

// smaller are the scripts that have a little less in them, those first that have the
// least.
func (s simScript) smaller() (all []simScript) {
	for _, h := range s.hazards.fewer() {
		all = append(all, simScript{s.programs, h})
	}
	for i := range s.programs {
		if len(s.programs) > 1 {
			all = append(all, simScript{slices.Delete(slices.Clone(s.programs), i, i+1), s.hazards})
		}
	}
	for i, p := range s.programs {
		for j := range p.lines {
			if len(p.lines) > 1 {
				programs := slices.Clone(s.programs)
				programs[i] = simProgramOf(p.name, slices.Delete(slices.Clone(p.lines), j, j+1)...)
				all = append(all, simScript{programs, s.hazards})
			}
		}
	}
	return all
}

// argument is the script as -programs takes it.
func (s simScript) argument() string {
	var all []string
	for _, p := range s.programs {
		all = append(all, p.name+": "+strings.Join(p.lines, "; "))
	}
	return strings.Join(all, " | ")
}

func parseScript(text string, hazards simHazards) (s simScript) {
	s.hazards = hazards
	for p := range strings.SplitSeq(text, "|") {
		name, lines, _ := strings.Cut(p, ":")
		prog := simProgramOf(strings.TrimSpace(name))
		for line := range strings.SplitSeq(lines, ";") {
			prog.lines = append(prog.lines, strings.TrimSpace(line))
		}
		s.programs = append(s.programs, prog)
	}
	return s
}

// replay is how to see the simulation again.
func (w *simWorld) replay() string {
	s := w.opts.script
	return fmt.Sprintf("go test ./fs -v -run 'TestSimulation$' -args -seed %d%s -programs '%s'", w.opts.seed, s.hazards, s.argument())
}

// A failure that two commands make is shrunk to these, and seen again by what it prints.
func TestShrink(t *testing.T) {
	dir := simBase(t)
	script := parseScript("ann: cat a; echo b; mv a d/a; stat d/a | bob: save a; rm b; count d/b | cyn: cat b; echo a | dan: mkdir e; mv d e", simHazards{kills: 3})
	wrote := ""
	alarm := func(o simOp) string {
		switch {
		case o.kind == "write" && o.path == "b" && o.errno == 0:
			wrote = o.who
		case o.kind == "unlink" && o.path == "b" && o.errno == 0 && wrote != "":
			return "b was removed after it was written"
		}
		return ""
	}
	run := func(seed uint64, script simScript) *simWorld {
		wrote = ""
		return simulate(t, dir, simOptions{seed: seed, script: script, alarm: alarm})
	}
	seed := uint64(1)
	w := run(seed, script)
	for ; len(w.failures) == 0; seed++ {
		w = run(seed, script)
	}
	w.opts.starts = func() { wrote = "" }
	small := shrink(t, dir, w)
	if got := small.opts.script.argument(); got != "ann: echo b | bob: rm b" {
		t.Fatalf("shrunk to %q", got)
	}
	again := run(small.opts.seed, parseScript(small.opts.script.argument(), small.opts.script.hazards))
	if got, want := again.transcript(), small.transcript(); got != want {
		t.Fatalf("seen again:\n%s\nthe first time:\n%s", got, want)
	}
	t.Log("\n" + small.transcript())
}
