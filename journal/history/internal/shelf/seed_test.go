package shelf

import (
	"flag"
	"os"
)

// A run before a change lands draws the same values each time; make stress draws new
// ones, and -rapid.seed repeats a run.
func init() {
	if os.Getenv("LATCHFS_STRESS") != "" {
		return
	}
	if err := flag.Set("rapid.seed", "1"); err != nil {
		panic(err)
	}
}
