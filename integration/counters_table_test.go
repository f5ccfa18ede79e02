package integration

import (
	"cmp"
	"flag"
	"fmt"
	"os"
	"path/filepath"
	"slices"
	"strings"
	"testing"
	"time"

	"latchfs/integration/internal/counting"
)

// `make counters` shows what the policies make of unmodified programs.

var (
	counterFile    = flag.String("counters", "", "write the table of counters to this file, as Markdown")
	counterColumns = flag.String("counters.columns", "plain,refuse,retry,serialize,adaptive", "which `ways` the table compares")
	counterSize    = flag.String("counters.size", "16x50", "`workers`x increments of each")
)

// counterWay is what counters are compared on.
type counterWay struct {
	name, shown string
	policy      string // lost-update; "" is no mount
	plan        counting.Plan
}

// counterWays are all ways. A warm-up is what adaptive needs to see that a
// program writes back what it has read.
var counterWays = []counterWay{
	{name: "plain", shown: "plain directory"},
	{name: "refuse", shown: "refuse", policy: "refuse"},
	{name: "retry", shown: "refuse, with retry", policy: "refuse", plan: counting.Plan{Retry: true}},
	{name: "serialize", shown: "serialize", policy: "serialize"},
	{name: "adaptive", shown: "adaptive, after warm-up", policy: "adaptive", plan: counting.Plan{Warmup: 5}},
}

// BenchmarkCounters counts once an iteration. With -counters it writes a row of the
// last iteration of each.
func BenchmarkCounters(b *testing.B) {
	var workers, increments int
	if _, err := fmt.Sscanf(*counterSize, "%dx%d", &workers, &increments); err != nil {
		b.Fatalf("size %q: %v", *counterSize, err)
	}
	var table strings.Builder
	fmt.Fprintf(&table, "%d workers, %d increments each, all at once on one file.\n\n", workers, increments)
	table.WriteString("| increment | directory | lost | refused | failed | succeeded | succeeded per second |\n")
	table.WriteString("| --- | --- | ---: | ---: | ---: | ---: | ---: |\n")
	chosen := strings.Split(*counterColumns, ",")
	for _, tool := range counters(b) {
		for _, way := range counterWays {
			if !slices.Contains(chosen, way.name) {
				continue
			}
			plan := way.plan
			plan.Workers, plan.Increments, plan.Limit = workers, increments, 5*time.Minute
			b.Run(tool.Name+"/"+way.name, func(b *testing.B) {
				var r counting.Result
				for b.Loop() {
					r = way.count(b, tool, plan)
				}
				b.ReportMetric(float64(r.Lost()), "lost")
				b.ReportMetric(float64(r.Refused), "refused")
				b.ReportMetric(float64(r.Failed), "failed")
				b.ReportMetric(r.Rate(), "succeeded/s")
				fmt.Fprintf(&table, "| %s | %s | %d | %d | %d | %d | %.1f |\n",
					tool.Shown, way.shown, r.Lost(), r.Refused, r.Failed, r.Succeeded, r.Rate())
				if len(r.Messages) > 0 {
					b.Logf("the tools said: %q", r.Messages)
				}
			})
		}
	}
	if *counterFile == "" {
		return
	}
	if err := os.WriteFile(*counterFile, []byte(table.String()), 0o644); err != nil {
		b.Fatal(err)
	}
}

// count counts in a directory of its own, on a mount with the policy if there is
// one.
func (w counterWay) count(t testing.TB, tool counting.Tool, plan counting.Plan) counting.Result {
	t.Helper()
	m := mount(t, withPolicy(fmt.Sprintf("[defaults]\nlost-update = %q\n", cmp.Or(w.policy, "refuse"))))
	dir := m.Dir
	if w.policy == "" {
		dir = filepath.Join(m.Home(), "plain")
		if err := os.Mkdir(dir, 0o755); err != nil {
			t.Fatal(err)
		}
	}
	return m.countIn(t, dir, tool, plan)
}
