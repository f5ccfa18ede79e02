package integration

import (
	"path/filepath"
	"sync"
	"testing"
	"time"

	"latchfs/integration/internal/counting"
)

// Promise 4, with programs that were written without a thought of latchfs:
// unrelated workers increment one JSON counter (package counting). On a plain
// directory nearly all increments are lost.

// counterBinary builds the Go program that counts once.
var counterBinary = sync.OnceValues(func() (string, error) {
	path := filepath.Join(bench.root, "counter")
	return path, build(path, "./integration/internal/counter")
})

// counters are the ways to count whose programs are installed.
func counters(t testing.TB) []counting.Tool {
	t.Helper()
	counter, err := counterBinary()
	if err != nil {
		t.Fatal(err)
	}
	var tools []counting.Tool
	for _, tool := range counting.Tools(bench.python, counter) {
		if missing := tool.Missing(); missing != "" {
			leftOut(t, tool.Name, missing)
			continue
		}
		tools = append(tools, tool)
	}
	return tools
}

// count runs a plan with a tool on a mount.
func (m *Mount) count(t *testing.T, tool counting.Tool, plan counting.Plan) counting.Result {
	t.Helper()
	return m.countIn(t, m.Dir, tool, plan)
}

// countIn runs a plan with a tool in any directory, as the mount's user.
func (m *Mount) countIn(t testing.TB, dir string, tool counting.Tool, plan counting.Plan) counting.Result {
	t.Helper()
	plan.Dir, plan.Prepare = dir, m.asOwner
	if plan.Limit == 0 {
		plan.Limit = time.Duration(repeat(1, 5)) * patience
	}
	r, err := counting.Run(tool, plan)
	if err != nil {
		t.Fatalf("%s: %v", tool.Name, err)
	}
	return r
}

// counterWorkers is how many count at once.
func counterWorkers() int { return repeat(6, 8) }

// Whatever a tool acknowledges is counted, and what is refused the tool reports.
func TestCountersLoseNothing(t *testing.T) {
	alongside(t)
	inShortOnRoot(t, func(t *testing.T, m *Mount) {
		for _, tool := range counters(t) {
			t.Run(tool.Name, func(t *testing.T) {
				r := m.count(t, tool, counting.Plan{Workers: counterWorkers(), Increments: repeat(6, 50)})
				checkCount(t, r)
				if done := r.Succeeded + r.Refused; done != counterWorkers()*repeat(6, 50) {
					t.Errorf("%d attempts have an outcome", done)
				}
			})
		}
	})
}

// A program that reads again after a refusal succeeds at last.
func TestCountersWithRetryReachTheirGoal(t *testing.T) {
	inStress(t)
	alongside(t)
	inShortOnRoot(t, func(t *testing.T, m *Mount) {
		for _, tool := range counters(t) {
			t.Run(tool.Name, func(t *testing.T) {
				r := m.count(t, tool, counting.Plan{Workers: counterWorkers(), Increments: repeat(3, 50), Retry: true})
				checkCount(t, r)
				if want := counterWorkers() * repeat(3, 50); r.Final != want {
					t.Errorf("the counter shows %d, want %d", r.Final, want)
				}
			})
		}
	})
}

// checkCount fails the test unless the counter shows what was acknowledged, and
// every other attempt was reported as refused.
func checkCount(t *testing.T, r counting.Result) {
	t.Helper()
	t.Logf("%v in %v", r, r.Elapsed.Round(time.Millisecond))
	if r.Lost() != 0 {
		t.Errorf("%d increments lost", r.Lost())
	}
	if r.Succeeded == 0 {
		t.Error("nobody succeeded")
	}
	if r.Failed != 0 {
		t.Errorf("%d attempts failed of something else than EBUSY", r.Failed)
	}
	if t.Failed() {
		t.Logf("the tools said: %q", r.Messages)
	}
}
