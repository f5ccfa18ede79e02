package integration

import (
	"encoding/json"
	"fmt"
	"os"
	"path/filepath"
	"slices"
	"strings"
	"testing"
	"time"

	"latchfs/integration/internal/wire"
)

const historians = 32

// Histories of many processes that lock the same few files in all ways there
// are: what each of them saw can be explained by one lock for each file, taken
// and given back in some order; tokens rise in that order; and whoever waited was
// served when it was its turn, or gave up when it had said.
func TestHistories(t *testing.T) {
	needsLatchfs(t)
	acts := repeat(75, 3000)
	test := func(t *testing.T, m *Mount) {
		contender := filepath.Join(bench.root, "contender")
		if err := build(contender, "./integration/internal/contender"); err != nil {
			t.Fatal(err)
		}
		seed := drawnSeed()
		t.Logf("seed %d", seed)
		history := record(t, m, contender, acts, seed)
		t.Log(summaryOf(history))
		for _, key := range keysOf(history) {
			checkLinearizable(t, key, ofKey(history, key))
			checkTokens(t, ofKey(history, key))
			checkWaits(t, ofKey(history, key))
		}
		m.AwaitStatus(t, "nothing", func(s Status) bool { return s.Held() == 0 && s.Waiting() == 0 })
		var shown struct{ Held, Waiting int }
		m.decode(m.Locks("status.json"), &shown)
		if shown.Held+shown.Waiting != 0 {
			t.Errorf("at the end: %d held, %d waiting", shown.Held, shown.Waiting)
		}
		if t.Failed() {
			saveHistory(t, history)
		}
	}
	if stress() {
		forEachMount(t, test, careless())
	} else {
		test(t, mount(t, careless()))
	}
}

// record lets the contenders loose at once and returns what they saw, in the
// order of the calls.
func record(t *testing.T, m *Mount, contender string, acts int, seed int64) []wire.Act {
	t.Helper()
	keys := []string{"a.json", "b.json", "c.json"}
	for _, key := range keys {
		m.WriteFile(key, "{}\n")
	}
	var procs []*Proc
	for n := range historians {
		args := append([]string{m.Dir, fmt.Sprint(n), fmt.Sprint(acts), fmt.Sprint(seed)}, keys...)
		procs = append(procs, m.Launch(t, contender, args...))
	}
	for _, p := range procs {
		p.AwaitLine("ready")
	}
	for _, p := range procs {
		p.Send("go")
	}
	awaitAll(t, m, procs)
	var history []wire.Act
	for _, p := range procs {
		_, lines, _ := strings.Cut(p.OK(), "ready\n")
		for line := range strings.Lines(lines) {
			var a wire.Act
			m.decode(line, &a)
			history = append(history, a)
		}
	}
	if len(history) != historians*acts {
		t.Fatalf("%d acts recorded, want %d", len(history), historians*acts)
	}
	slices.SortFunc(history, func(a, b wire.Act) int { return int(a.Call - b.Call) })
	return history
}

// awaitAll waits for the ends of the processes. Some of them wait without end: who
// is never woken would never be missed otherwise.
func awaitAll(t *testing.T, m *Mount, procs []*Proc) {
	t.Helper()
	limit := time.Duration(repeat(1, 15)) * time.Minute
	for deadline := time.Now().Add(limit); !allDone(procs); time.Sleep(poll) {
		if time.Now().After(deadline) {
			t.Fatalf("not all end within %v; .locks shows\n%.4000s", limit, m.Locks("status"))
		}
	}
}

func allDone(procs []*Proc) bool {
	return !slices.ContainsFunc(procs, func(p *Proc) bool { return !p.Done() })
}

func keysOf(history []wire.Act) []string {
	var keys []string
	for i := range history {
		keys = append(keys, history[i].Key)
	}
	slices.Sort(keys)
	return slices.Compact(keys)
}

func ofKey(history []wire.Act, key string) []wire.Act {
	return slices.DeleteFunc(slices.Clone(history), func(a wire.Act) bool { return a.Key != key })
}

// summaryOf says what a history is made of, so that one can see that it is about
// something.
func summaryOf(history []wire.Act) string {
	var granted, tries, late, waited int
	for i := range history {
		switch a := &history[i]; {
		case a.Granted && a.Return-a.Call > int64(time.Millisecond):
			granted, waited = granted+1, waited+1
		case a.Granted:
			granted++
		case a.Wait == 0:
			tries++
		default:
			late++
		}
	}
	return fmt.Sprintf("%d acts: %d granted, %d of them after more than a millisecond; %d tries refused, %d waits given up",
		len(history), granted, waited, tries, late)
}

// saveHistory leaves a history that is wrong where one can look at it.
func saveHistory(t *testing.T, history []wire.Act) {
	f, err := os.CreateTemp("", "latchfs-history-*.jsonl")
	if err != nil {
		t.Error(err)
		return
	}
	defer f.Close()
	enc := json.NewEncoder(f)
	for i := range history {
		if err := enc.Encode(&history[i]); err != nil {
			t.Error(err)
			return
		}
	}
	t.Logf("the history is in %s", f.Name())
}

// checkTokens: holds that conflict do not overlap, and those with a token have
// them in the order of the holds. A hold lasts at least from the return of the
// request to the call of the release.
func checkTokens(t *testing.T, history []wire.Act) {
	t.Helper()
	holds := slices.DeleteFunc(slices.Clone(history), func(a wire.Act) bool { return !a.Granted })
	slices.SortFunc(holds, func(a, b wire.Act) int { return int(a.Return - b.Return) })
	for i := range holds {
		// Only a few holds overlap, but an early one may have a late token.
		for j := i + 1; j < len(holds); j++ {
			a, b := &holds[i], &holds[j]
			if !conflicting(a.Mode, b.Mode) {
				continue
			}
			switch {
			case a.Free > b.Return:
				t.Errorf("held by two at once:\n%+v\n%+v", *a, *b)
			case a.Token != 0 && b.Token != 0 && a.Token >= b.Token:
				t.Errorf("the later hold has no greater token:\n%+v\n%+v", *a, *b)
			}
		}
	}
}

// conflicting is the matrix of lockmgr's package comment.
func conflicting(a, b string) bool {
	return a == "exclusive" || b == "exclusive" || a == "update" && b == "update"
}

// checkWaits: a request that was granted waited no longer than others were in its
// way, and one that was refused waited as long as it had said. There is a bound
// for what the machine takes to wake a process up.
func checkWaits(t *testing.T, history []wire.Act) {
	t.Helper()
	bound := int64(promised(time.Second))
	for i := range history {
		w := &history[i]
		switch took := w.Return - w.Call; {
		case w.Granted:
			if late := w.Return - max(w.Call, wayFree(history, w)); late > bound {
				t.Errorf("granted %v after the way was free: %+v", time.Duration(late), *w)
			}
		case w.Wait < 0 || took < w.Wait || took > w.Wait+bound:
			t.Errorf("refused after %v: %+v", time.Duration(took), *w)
		}
	}
}

// wayFree is the last moment at which another one, holder or waiter, may have
// been in the way of w: its release, or the end of its wait in vain.
func wayFree(history []wire.Act, w *wire.Act) int64 {
	var last int64
	for i := range history {
		x := &history[i]
		if x.Call > w.Return {
			break // and so are all that follow
		}
		from, until := x.Return, x.Return
		if x.Granted {
			from, until = x.Free, x.Freed
		}
		if x.Process != w.Process && conflicting(x.Mode, w.Mode) && from <= w.Return {
			last = max(last, min(until, w.Return))
		}
	}
	return last
}
